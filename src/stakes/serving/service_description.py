"""What the service tells of itself: features, cost, forecasts, fits, and cases to look at."""

from collections.abc import Mapping

import torch

import stakes
from stakes.bundle.bundle import Bundle
from stakes.data.layout import TableLayout
from stakes.evaluation.metrics import Assessor
from stakes.json_values import json_value
from stakes.serving import schemas
from stakes.serving.served_forecasts import ServedFits
from stakes.serving.settings import ServiceSettings

__all__ = ["cases_answer", "model_answer"]


def model_answer(
    fits: ServedFits, cost: schemas.CostAnswer, counts: Mapping[str, int], settings: ServiceSettings
) -> schemas.ModelAnswer:
    """All that is known of the service but the cases.

    Args:
        fits: What is served.
        cost: What is known of the cost.
        counts: The number of members of each forecast, by name.
        settings: The bounds on requests.
    """
    features = zip(fits.features, fits.typical, strict=True)
    return schemas.ModelAnswer(
        version=stakes.__version__,
        features=[schemas.FeatureAnswer(name=name, typical=value) for name, value in features],
        targets=list(fits.forecaster.target_names_),
        cost=cost,
        forecasts=[
            schemas.ServedAnswer(
                name=each.name,
                title=each.title,
                decision_weight=each.decision_weight,
                member_count=counts[each.name],
                warnings=list(each.warnings),
            )
            for each in fits.forecasts.values()
        ],
        bundles=[_bundle(name, bundle) for name, bundle in fits.bundles.items()],
        takes_tables=fits.first.layout is not None,
        table_columns=_table_columns(fits.first.layout),
        limits=schemas.LimitsAnswer(
            max_rows=settings.max_rows,
            max_members=settings.max_members,
            max_body_mb=settings.max_body_mb,
            timeout=settings.timeout,
        ),
        corrects=None,
    )


def cases_answer(fits: ServedFits) -> schemas.CasesAnswer:
    """The cases that were kept with the first fit.

    Args:
        fits: What is served.
    """
    kept, forecaster = fits.cases, fits.forecaster
    if kept is None:
        return schemas.CasesAnswer(cases=[], about="")
    totals = Assessor(forecaster.cost).total(torch.from_numpy(kept.outcomes)).tolist()
    return schemas.CasesAnswer(
        about=_SEEN[fits.seen],
        cases=[
            schemas.CaseAnswer(
                label=label,
                features=dict(zip(fits.features, features.tolist(), strict=True)),
                outcome=dict(zip(forecaster.target_names_, outcome.tolist(), strict=True)),
                total=total,
            )
            for label, features, outcome, total in zip(kept.labels, kept.features, kept.outcomes, totals, strict=True)
        ],
    )


_SEEN: dict[bool | None, str] = {
    None: "",
    True: "The forecast shown here was trained on these cases after its test. Its decisions may look better than those "
    "that were judged: all test figures are of a forecast that had not seen them.",
    False: "The forecast shown here has not seen these cases: its decisions are those that were judged.",
}


def _table_columns(layout: TableLayout | None) -> list[str]:
    if layout is None:
        return []
    return [*([] if layout.time is None else [layout.time]), *dict.fromkeys((*layout.features, *layout.known))]


def _bundle(name: str, bundle: Bundle) -> schemas.BundleAnswer:
    about = bundle.about
    return schemas.BundleAnswer(
        name=name,
        created=about["created"],
        versions=about["versions"],
        data=json_value(about.get("data")),
        metrics=json_value(about.get("metrics") or {}),
        reason=str(about.get("reason") or ""),
    )
