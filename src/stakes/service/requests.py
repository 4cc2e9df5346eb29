"""From what a request holds to arrays and forecasts, or a refusal that names the field."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.artifacts.recalibrations import Recalibration
from stakes.costs.cost import Cost, is_separable
from stakes.data.forecasts.checks import ascend_like_quantiles, unlike_learned
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.data.forecasts.quantiles import weighted_quantiles
from stakes.data.forecasts.reading import members_of
from stakes.data.forecasts.tables import ForecastValues
from stakes.data.tables.files import parse_delimited
from stakes.data.tables.time_axis import to_utc
from stakes.errors import did_you_mean, listed
from stakes.forecasting.error_model import ForecastTerms
from stakes.forecasting.recalibration import CorrectedMembers
from stakes.service.refusals import RequestError, naming_field
from stakes.service.schemas import KnownRow
from stakes.service.settings import ServiceSettings
from stakes.settings import shown
from stakes.text import number_text

Floats = NDArray[np.float64]
PostedMembers = Sequence[float] | Sequence[Sequence[float]]
"""The members of one row: numbers, or lists of one number per outcome."""

_LONGEST_HEADER = 100_000  # characters: many more take too long to read


def require_either(features: object, members: object) -> None:
    """Raise unless one of both is given."""
    if (features is None) == (members is None):
        came = "none" if features is None else "both"
        raise RequestError("features", f"a request has either features or members, got {came}")


def require_nothing_known(known: object) -> None:
    """Raise where something is told of members that only a recalibrated forecast could use."""
    if known is not None:
        raise RequestError("known", "known belongs to a recalibrated forecast; a fit decides from members as they are")


def require_rows(field: str, rows: int, settings: ServiceSettings) -> None:
    """Raise unless there are some rows, and not too many."""
    if not 1 <= rows <= settings.max_rows:
        raise RequestError(field, f"{field} must have between 1 and {settings.max_rows} rows, got {rows}")


def posted_table(csv: str) -> pd.DataFrame:
    """The table of a request, with at least one row."""
    if len(csv.partition("\n")[0]) > _LONGEST_HEADER:
        raise RequestError("csv", f"the names of the columns must have at most {_LONGEST_HEADER} characters in all")
    with naming_field("csv"):
        table = parse_delimited(csv.encode("utf-8", "replace"), "the table")
    if not len(table):
        raise RequestError("csv", "the table has no rows below its line of column names")
    return table


def feature_row(row: Mapping[str, float] | Sequence[float], names: Sequence[str], where: str) -> Sequence[float]:
    """The features of one case, in the order of the fit."""
    return _by_name(row, names, where) if isinstance(row, Mapping) else _in_order(row, names, where)


@dataclass(frozen=True, eq=False)
class GivenMembers:
    """The members of a request."""

    members: Tensor  # members (N, M, D)
    weights: Tensor | None = None
    notes: tuple[str, ...] = ()  # sentences for the user


def given_members(
    rows: Sequence[PostedMembers],
    levels: Sequence[float] | None,
    cost: Cost,
    settings: ServiceSettings,
    outcomes: int,
) -> GivenMembers:
    """The members of a request, or weighted ones made of its quantiles."""
    array = member_array(rows, settings, outcomes)
    if levels is None:
        return GivenMembers(torch.from_numpy(array), notes=_look_like_quantiles(array))
    if outcomes > 1 and not is_separable(cost):
        raise RequestError(
            "member_levels", f"quantiles of {outcomes} outcomes do not say how these move together; send members"
        )
    if len(levels) != array.shape[1]:
        raise RequestError("member_levels", f"there must be a level for each of {array.shape[1]}, got {len(levels)}")
    with naming_field("member_levels"):
        each = [weighted_quantiles(levels, array[..., place], "the request", cost=cost) for place in range(outcomes)]
    members, weights = np.stack([one.members for one in each], -1), each[0].weights
    notes = dict.fromkeys(note for one in each for note in one.notes)
    return GivenMembers(torch.from_numpy(members), torch.from_numpy(weights), tuple(notes))


def _look_like_quantiles(array: Floats) -> tuple[str, ...]:
    """A note where members ascend in every row, which is hardly by chance."""
    if not ascend_like_quantiles(array):
        return ()
    return ("the members of every row ascend, as quantiles do; if they are quantiles, give their member_levels",)


def member_array(rows: Sequence[PostedMembers], settings: ServiceSettings, outcomes: int) -> Floats:
    """Members (N, M, D), as many for each row."""
    count = len(rows[0])
    if count > settings.max_members:
        raise RequestError("members", f"members must be at most {settings.max_members} a row, got {count}")
    members = np.empty((len(rows), count, outcomes))
    for place, row in enumerate(rows):
        if len(row) != count:
            raise RequestError(f"members.{place}", f"rows must have as many members each, got {count} and {len(row)}")
        widths = {len(member) if isinstance(member, list) else 1 for member in row}
        if widths != {outcomes}:
            came = next(iter(widths - {outcomes}))
            raise RequestError(f"members.{place}", f"members must have {outcomes} outcomes each, got {came}")
        members[place] = np.asarray(row).reshape(count, outcomes)
    return members


def _by_name(row: Mapping[str, float], names: Sequence[str], where: str) -> list[float]:
    if unknown := row.keys() - set(names):
        name = next(name for name in row if name in unknown)
        raise RequestError(f"{where}.{name}", f"there is no feature {shown(name)}; {did_you_mean(name, names)}")
    for name in names:
        if name not in row:
            raise RequestError(f"{where}.{name}", f"the feature {shown(name)} is missing")
    return [row[name] for name in names]


def _in_order(row: Sequence[float], names: Sequence[str], where: str) -> Sequence[float]:
    if len(row) != len(names):
        raise RequestError(where, f"a row must have the {len(names)} features of the fit, got {len(row)}")
    return row


def posted_forecasts(
    rows: Sequence[PostedMembers],
    levels: Sequence[float] | None,
    known: Sequence[KnownRow] | None,
    opened: Recalibration,
    settings: ServiceSettings,
) -> ForecastSet:
    """The forecasts of a request, in its order."""
    layout, targets, learned = opened.layout, opened.recalibrator.state_.targets, opened.layout.learned
    assert learned is not None
    values = member_array(rows, settings, len(targets))
    _require_levels(tuple(levels or ()), learned.levels, values.shape[1])
    index = pd.RangeIndex(len(values), name="row")
    names = learned.targets if len(targets) > 1 else ("outcome",)
    forecast = ForecastValues(values, index, names, learned.levels or None)
    with naming_field("members"):
        members, weights, notes = members_of(layout, forecast)
    doubts = unlike_learned(learned, forecast)
    beside = {} if known is None else _beside(known, len(values), layout.features)
    with naming_field("known"):
        return ForecastSet(members, weights, targets, index, **beside, notes=(*notes, *doubts))


def _require_levels(given: tuple[float, ...], past: tuple[float, ...], count: int) -> None:
    if given != past:
        words = [f"the levels {listed([*map(number_text, each)])}" if each else "none" for each in (past, given)]
        raise RequestError("member_levels", f"member_levels must be {words[0]}, as in the past, got {words[1]}")
    if past and len(past) != count:
        raise RequestError("member_levels", f"there must be a level for each of {count}, got {len(past)}")


def corrected_members(opened: Recalibration, given: ForecastSet) -> CorrectedMembers:
    """The corrected members, or a refusal that names the field."""
    state = opened.recalibrator.state_
    if state.models:
        _require_known(state.terms, given)
    with naming_field("members"):
        return state.apply(given)


def _require_known(terms: ForecastTerms, given: ForecastSet) -> None:
    """Refuse where something is not there that the correction depends on besides members."""
    needed = {
        "time": (terms.season or terms.hour_waves, given.times),
        "lead": (terms.lead, given.leads),
        "site": (terms.sites, given.sites),
        "features": (terms.features, given.features),
    }
    if missing := [name for name, (need, there) in needed.items() if need and there is None]:
        example = ", ".join(f'"{name}": {_EXAMPLES[name]}' for name in missing)
        raise RequestError(
            "known",
            f"known must tell the {' and '.join(missing)} of each row, on which the correction depends, as in "
            f"known: [{{{example}}}]",
        )


_EXAMPLES = {"time": '"2026-01-31T12:00Z"', "lead": "24", "site": '"..."', "features": "[...]"}


def _beside(known: Sequence[KnownRow], rows: int, features: Sequence[str]) -> dict[str, Any]:
    if len(known) != rows:
        raise RequestError("known", f"known must have an entry for each of {rows} rows, got {len(known)}")
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
        raise RequestError(f"known.{missing[0]}.{name}", f"{name} must be there for all rows or for none")
    return None if missing else values
