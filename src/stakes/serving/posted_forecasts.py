"""Forecasts that come with a request, as a recalibrated forecast corrects them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from stakes.bundle.recalibration_folder import Recalibration
from stakes.data.forecast_values import ForecastValues
from stakes.data.given_forecasts import GivenForecasts
from stakes.data.past_forecasts import members_of
from stakes.data.time_axis import to_utc
from stakes.errors import listed
from stakes.evaluation.forecast_terms import ForecastTerms
from stakes.number_text import number_text
from stakes.recalibrator.state import CorrectedMembers
from stakes.serving.refusals import RefusedError, naming_field
from stakes.serving.request_arrays import PostedMembers, feature_row, member_array
from stakes.serving.schemas import KnownRow
from stakes.serving.settings import ServiceSettings

__all__ = ["corrected_members", "posted_forecasts"]


def posted_forecasts(
    rows: Sequence[PostedMembers],
    levels: Sequence[float] | None,
    known: Sequence[KnownRow] | None,
    opened: Recalibration,
    settings: ServiceSettings,
) -> GivenForecasts:
    """The forecasts of a request, in its order.

    Args:
        rows: Each a list of members, or of quantiles: numbers, or lists of one number per outcome.
        levels: The levels of the quantiles; None where there are members.
        known: What else is known of each row; None for nothing.
        opened: What corrects them.
        settings: How many members a row may have.
    """
    layout, targets = opened.layout, opened.recalibrator.state_.targets
    values = member_array(rows, settings, len(targets))
    _require_levels(tuple(levels or ()), layout.levels, values.shape[1])
    index = pd.RangeIndex(len(values), name="row")
    names = layout.targets if len(targets) > 1 else ("outcome",)
    forecast = ForecastValues(values, index, names, layout.levels or None)
    with naming_field("members"):
        members, weights, notes = members_of(layout, forecast)
    doubts = () if layout.learned is None else layout.learned.doubts(forecast)
    beside = {} if known is None else _beside(known, len(values), layout.features)
    with naming_field("known"):
        return GivenForecasts(members, weights, targets, index, **beside, notes=(*notes, *doubts))


def _require_levels(given: tuple[float, ...], past: tuple[float, ...], count: int) -> None:
    if given != past:
        words = [f"the levels {listed([*map(number_text, each)])}" if each else "none" for each in (past, given)]
        raise RefusedError("member_levels", f"member_levels must be {words[0]}, as in the past, got {words[1]}")
    if past and len(past) != count:
        raise RefusedError("member_levels", f"there must be a level for each of {count}, got {len(past)}")


def corrected_members(opened: Recalibration, given: GivenForecasts) -> CorrectedMembers:
    """The corrected members, or a refusal that names the field.

    Args:
        opened: What corrects them.
        given: The forecasts of a request.
    """
    state = opened.recalibrator.state_
    if state.models:
        _require_known(state.terms, given)
    with naming_field("members"):
        return state.apply(given)


def _require_known(terms: ForecastTerms, given: GivenForecasts) -> None:
    """Refuse where something is not there that the correction depends on besides members."""
    needed = {
        "time": (terms.season or terms.hour_waves, given.times),
        "lead": (terms.lead, given.leads),
        "site": (terms.sites, given.sites),
        "features": (terms.features, given.features),
    }
    if missing := [name for name, (need, there) in needed.items() if need and there is None]:
        example = ", ".join(f'"{name}": {_EXAMPLES[name]}' for name in missing)
        raise RefusedError(
            "known",
            f"known must tell the {' and '.join(missing)} of each row, on which the correction depends, as in "
            f"known: [{{{example}}}]",
        )


_EXAMPLES = {"time": '"2026-01-31T12:00Z"', "lead": "24", "site": '"..."', "features": "[...]"}


def _beside(known: Sequence[KnownRow], rows: int, features: Sequence[str]) -> dict[str, Any]:
    if len(known) != rows:
        raise RefusedError("known", f"known must have an entry for each of {rows} rows, got {len(known)}")
    beside: dict[str, Any] = {}
    for name, field in (("time", "times"), ("issued", "issued"), ("lead", "leads"), ("site", "sites")):
        if (values := _all_or_none(known, name)) is not None:
            beside[field] = values
    for field in ("times", "issued"):
        if field in beside:
            with naming_field("known"):
                beside[field] = to_utc(beside[field], field)
    if (table := _all_or_none(known, "features")) is not None:
        each = [feature_row(row, features, f"known.{place}.features") for place, row in enumerate(table)]
        beside["features"] = pd.DataFrame(np.array(each, dtype=np.float64), columns=list(features))
    return beside


def _all_or_none(known: Sequence[KnownRow], name: str) -> list[Any] | None:
    values = [getattr(row, name) for row in known]
    missing = [place for place, value in enumerate(values) if value is None]
    if missing and len(missing) < len(values):
        raise RefusedError(f"known.{missing[0]}.{name}", f"{name} must be there for all rows or for none")
    return None if missing else values
