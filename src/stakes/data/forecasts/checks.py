"""What looks wrong with a forecast: codes for missing values, other units, quantiles taken for members."""

import math
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from stakes.data.forecasts.forecast_set import ForecastSet, cases_text
from stakes.data.forecasts.layout import LearnedForecasts
from stakes.errors import TableError, listed, names_text
from stakes.text import count_text, number_text

Floats = NDArray[np.float64]

_USUAL = np.array([-99, -99.9, 999, 999.9, 9999, 9999.9, 99999, -999, -999.9, -9999, -9999.9, -99999, -32768])
_CODES = np.concatenate([_USUAL, _USUAL.astype(np.float32).astype(np.float64)])
_FAR = 10.0  # times the range of all else: what lies so far beyond it is doubted, whatever it is
_LARGER = 1.25  # times all else: a code that is no larger may be one of the numbers, as 999 MW or 999.9 hPa
_HUGE, _ABSURD = 1e6, 1000.0  # no smaller number is absurd, nor one less beyond: one of many may have all rain


def missing_code_notes(outcomes: Floats, forecasts: Floats, column: str, cells: Floats, name: str) -> tuple[str, ...]:
    """A sentence for each value that is a usual code beyond all other numbers, or lies absurdly far beyond them."""
    notes = []
    for value in _doubted(outcomes, forecasts):
        rows = np.flatnonzero(cells == value) + 1
        more = f" and {count_text(len(rows) - 1, 'row')} more" if len(rows) > 1 else ""
        notes.append(
            f"{name} has {number_text(value)} in {column!r}, data row {rows[0]}{more}, beyond all other outcomes and "
            "forecasts, and is used as given; if it marks a missing value, leave the field empty"
        )
    return tuple(notes)


def without_codes(values: Floats) -> Floats:
    """The values with NaN in place of what looks like a code for a missing one, of each target by itself."""
    kept = values.copy()
    for place in range(values.shape[-1]):
        known = values[..., place][~np.isnan(values[..., place])]
        code = doubtful_end(known) if len(known) else None
        if code is not None:
            kept[..., place][values[..., place] == code] = np.nan
    return kept


def _doubted(outcomes: Floats, forecasts: Floats) -> list[float]:
    """Outcomes that are usual codes beyond all other numbers, or lie absurdly far beyond them."""
    seen, ahead = (values[~np.isnan(values)] for values in (outcomes, forecasts))
    known = np.concatenate([seen, ahead])
    plain = known[~np.isin(known, _CODES)]
    if not len(seen) or not len(plain):
        return []
    codes = [value for value in np.unique(seen[np.isin(seen, _CODES)]) if _is_apart(value, plain)]
    ends = [value for value in (seen.min(), seen.max()) if value not in codes]
    rest = {value: plain[plain != value] for value in ends}
    far = [
        value for value, other in rest.items() if len(other) and _beyond(value, other) > _FAR * float(np.ptp(other)) > 0
    ]
    return [float(value) for value in (*codes, *far)]


def doubtful_end(values: Floats) -> float | None:
    """The least or the largest of many values, where it is a usual code or absurd, far beyond all others; else None."""
    for end in (values.min(), values.max()):
        others = values[values != end]
        if not len(others):
            continue
        absurd = abs(end) > _HUGE and _beyond(end, others) > _ABSURD * float(np.abs(others).max())
        if absurd or (end in _CODES and _is_apart(end, others)):
            return float(end)
    return None


def _beyond(value: float, others: Floats) -> float:
    """How far a value lies outside the range of others; negative inside."""
    return float(max(others.min() - value, value - others.max()))


def _is_apart(code: float, others: Floats) -> bool:
    """Whether a code beyond other numbers is none of them: of another sign, or much larger."""
    low, high = float(others.min()), float(others.max())
    other_sign = code < 0 <= low or high <= 0 < code
    return _beyond(code, others) > 0 and (other_sign or abs(code) > _LARGER * max(-low, high))


Values = TypeVar("Values")

_KINDS: dict[str, dict[str, tuple[float, float]]] = {  # factor and offset to the first of each kind
    "temperature": {"degC": (1, 0), "K": (1, -273.15), "degF": (5 / 9, -160 / 9)},
    "speed": {"m/s": (1, 0), "km/h": (1 / 3.6, 0), "knots": (1852 / 3600, 0), "mph": (0.44704, 0)},
    "depth of water": {"mm": (1, 0), "m": (1000, 0), "cm": (10, 0), "kg m-2": (1, 0)},
    "pressure": {"hPa": (1, 0), "Pa": (0.01, 0), "kPa": (10, 0)},
    "power": {"MW": (1, 0), "W": (1e-6, 0), "kW": (1e-3, 0), "GW": (1000, 0)},
    "share": {"1": (1, 0), "%": (0.01, 0)},
}
_SAME = {
    **dict.fromkeys(("kelvin", "Kelvin"), "K"),
    **dict.fromkeys(("°C", "C", "celsius", "Celsius", "degrees_celsius", "degree_Celsius", "deg_C"), "degC"),
    **dict.fromkeys(("°F", "F", "fahrenheit"), "degF"),
    **dict.fromkeys(("m s-1", "m s**-1", "m.s-1", "ms-1", "metre/second"), "m/s"),
    **dict.fromkeys(("km h-1", "kmh", "kph"), "km/h"),
    **dict.fromkeys(("kn", "kt", "knot"), "knots"),
    **dict.fromkeys(("kg m**-2", "kg/m2", "kg/m^2", "millimetre"), "kg m-2"),
    **dict.fromkeys(("metre", "meter", "m of water equivalent"), "m"),
    **dict.fromkeys(("percent", "per cent"), "%"),
    "mbar": "hPa",
    "fraction": "1",
}


def in_unit(values: Values, given: str, wanted: str) -> Values:
    """Values in the wanted unit; units that are not known, or of another kind, are refused.

    >>> import numpy as np
    >>> in_unit(np.array([273.15, 300.0]), "K", "degC").round(2).tolist()
    [0.0, 26.85]
    """
    if given == wanted:
        return values
    from_unit, to_unit = (_SAME.get(unit, unit) for unit in (given, wanted))
    for units in _KINDS.values():
        if from_unit in units and to_unit in units:
            (factor, offset), (other_factor, other_offset) = units[from_unit], units[to_unit]
            return cast(Values, (cast(Any, values) * factor + offset - other_offset) / other_factor)
    known = next((units for units in _KINDS.values() if from_unit in units), None)
    hint = f"; {given} converts to {listed([*known])}" if known else ""
    raise TableError(f"values in {given!r} cannot be converted to {wanted!r}{hint}")


_LEAST_CASES = 10  # to tell units apart
_MANY_CASES = 50  # among which a spell of other weather, or of other prices, does not look like another unit
_MAGNITUDE = 10.0  # times as large, for fewer cases
_FAR_UNITS = 10.0  # standard deviations between medians: 273 K are 30 of them in most climates
_OTHER_SIZE = 0.5  # of the larger median: members around 62 and around 81 are two clusters, in one unit
_MOST = 0.75  # of the cases that differ from the median tell how far values lie from it
_STRAY, _FEW = 10.0, 0.02  # times as far, and the share of all cases that may lie there
_WIDE = 50.0  # times the other standard deviation: a hundred for percent among fractions


def require_one_unit(members: Floats, name: str) -> None:
    """Raise where a member of many cases cannot be in the unit of the others."""
    plain = without_codes(members)
    members = plain[~np.isnan(plain).any((1, 2))]
    cases, count, _ = members.shape
    if cases < _LEAST_CASES or count < 3:
        return
    medians, deviations = np.median(members, axis=0), _deviations(members)  # (M, D)
    centre, usual = np.median(medians, axis=0), np.median(deviations, axis=0)  # (D,)
    odd = np.argwhere(_unlike(medians, deviations, centre, usual))
    if len(odd):
        member, target = odd[0]
        raise TableError(
            f"{name} has a member in a different unit from the others: member {member + 1} lies around "
            f"{_text(medians[member, target])}, the others around {_text(centre[target])}; give all members in one "
            "unit"
        )


def unit_of_outcomes_doubts(forecast: ForecastSet, outcomes: Floats, name: str) -> tuple[str, ...]:
    """A sentence where members or quantiles cannot be in the unit of what happened."""
    members, targets = forecast.members, forecast.targets
    known = ~np.isnan(without_codes(np.concatenate([members, outcomes[:, None]], axis=1))).any((1, 2))
    members, outcomes = members[known], outcomes[known]
    if len(members) < _LEAST_CASES:
        return ()
    means = members.mean(axis=1)  # (N, D)
    medians, seen = np.median(means, axis=0), np.median(outcomes, axis=0)
    unlike = _unlike(medians, _deviations(means), seen, _deviations(outcomes))
    odd = np.flatnonzero(unlike & ((len(members) >= _MANY_CASES) | _of_another_size(medians, seen)))
    return tuple(
        (
            f"{name} seems to be in a different unit from its outcomes: forecasts of {targets[place]} lie around "
            f"{_text(medians[place])}, outcomes around {_text(seen[place])}; give both in one unit"
        )
        for place in odd[:1]
    )


def _deviations(values: Floats) -> Floats:
    """Standard deviations (...) of (N, ...), without a few far numbers; the median itself tells nothing."""
    away = np.abs(values - np.median(values, axis=0))
    differ = np.where(away > 0, away, np.nan)
    some = ~np.isnan(differ).all(0)
    usual = np.full(away.shape[1:], np.inf)
    usual[some] = np.nanquantile(differ[:, some], _MOST, axis=0)
    stray = (away > _STRAY * usual) & (away > np.quantile(away, 1 - _FEW, axis=0))
    deviations: Floats = values.std(axis=0, where=~stray)
    return deviations


def _unlike(medians: Floats, deviations: Floats, centre: Floats, usual: Floats) -> NDArray[np.bool_]:
    """Whether medians lie far from others, or values vary far more or less, where they vary at all."""
    smaller, larger = np.minimum(deviations, usual), np.maximum(deviations, usual)
    apart, largest = np.abs(medians - centre), np.maximum(np.abs(medians), np.abs(centre))
    far = (apart > _FAR_UNITS * larger) & (apart > _OTHER_SIZE * largest)
    return np.asarray((larger > 0) & (far | ((smaller > 0) & (larger > _WIDE * smaller))))


def _of_another_size(one: Floats, two: Floats) -> NDArray[np.bool_]:
    """Whether numbers that are not 0, as in weeks without rain, have other signs, or other magnitudes."""
    smaller, larger = np.minimum(np.abs(one), np.abs(two)), np.maximum(np.abs(one), np.abs(two))
    return np.asarray((smaller > 0) & ((one * two < 0) | (larger > _MAGNITUDE * smaller)))


def _text(value: np.float64) -> str:
    return number_text(float(f"{value:.3g}"))


_ENDS = (0.01, 0.99)  # quantiles of the sizes of cases
_TIMES = 3.0  # beyond them: cases of the usual size are then in another unit


def learned_forecasts(forecast: ForecastSet) -> LearnedForecasts:
    """What these forecasts are like."""
    sizes = {}
    for place, target in enumerate(forecast.targets):
        if len(seen := _sizes(forecast.members[..., place])):
            low, high = np.quantile(seen, _ENDS).tolist()
            sizes[target] = (low, high)
    count = forecast.members.shape[1]
    return LearnedForecasts(forecast.targets, forecast.levels or (), count, sizes, forecast.unit)


def in_learned_unit(learned: LearnedForecasts, forecast: ForecastSet, name: str) -> ForecastSet:
    """New forecasts in the unit of those that were learned from, with a note; refused where there is no way."""
    if learned.unit is None or forecast.unit == learned.unit:
        return forecast
    if forecast.unit is None:
        note = f"{name} states no unit; {learned.unit} is assumed, the unit of the past forecasts"
        return forecast.noting(note)
    note = f"the forecasts in {name} are converted from {forecast.unit} to {learned.unit}, the unit of the past ones"
    values = in_unit(forecast.members, forecast.unit, learned.unit)
    return replace(forecast, members=values, unit=learned.unit).noting(note)


def unlike_learned(learned: LearnedForecasts, forecast: ForecastSet) -> tuple[str, ...]:
    """A sentence where there are more or fewer members than in the past, or they seem to be in another unit."""
    doubts = []
    if (count := forecast.members.shape[1]) != learned.count:
        doubts.append(
            f"each forecast has {count} members, but the correction was learned from forecasts of {learned.count}"
        )
    sizes = {target: _sizes(forecast.members[..., place]) for place, target in enumerate(forecast.targets)}
    strange = {target: told for target in sizes if (told := _other_size(learned, target, sizes[target]))}
    if strange:
        of_targets = f" of {names_text([*strange])}" if len(forecast.targets) > 1 else ""
        of_first = f", those of {next(iter(strange))}" if len(strange) > 1 else ""
        doubts.append(f"forecasts{of_targets}{of_first} {next(iter(strange.values()))}; check their unit")
    return tuple(doubts)


def _other_size(learned: LearnedForecasts, target: str, sizes: Floats) -> str | None:
    """How far forecasts of a target are from what past ones reached; None where they are near."""
    known = [learned.sizes[target]] if target in learned.sizes else [*learned.sizes.values()]
    if not known or not len(sizes):
        return None
    low, high = min(low for low, _ in known), max(high for _, high in known)
    usual = float(np.median(sizes))
    if low / _TIMES <= usual <= high * _TIMES:
        return None
    new, least, most = (number_text(each, 3) for each in (usual, low, high))
    return f"reach {new}, where past ones reached {least} to {most}"


def _sizes(values: Floats) -> Floats:
    """The sizes of those cases (N, M) that have one."""
    sizes = np.nan_to_num(np.abs(values)).max(axis=1)
    return np.asarray(sizes[sizes > 0])


_HARDLY_BY_CHANCE = math.log(1000)
_LEAST_MEMBERS, _MANY_MEMBERS = 3, 5  # of two models one is often the higher one, and of three or four for a day or so
_ENOUGH_CASES = 30  # in which so few may not ascend by chance
_LEAST_NUMBERS = 30  # of a target, to say what its size is
_OTHER_UNIT = 300.0  # times as large: watts among kilowatts, not a small site among large ones
_ALIKE = 10.0  # times, at most, between the others: sites of all sizes, and dawn and noon, tell nothing


def forecast_checks(forecast: ForecastSet, name: str, may_be_quantiles: bool) -> tuple[str, ...]:
    """Sentences about members that can hardly be right; none where nothing is doubtful."""
    notes = [*code_doubts(forecast, name), *_unit_doubts(forecast, name)]
    if may_be_quantiles and forecast.levels is None and ascend_like_quantiles(forecast.members):
        notes.append(
            "the members of every case are in ascending order, as quantiles are; if they are quantiles, name columns "
            "by their levels, such as q10 and q50; if they are members, give --read-as members"
        )
    return tuple(notes)


def ascend_like_quantiles(values: Floats) -> bool:
    """Whether members ascend in every case and target, which is hardly by chance."""
    cases, members, _ = values.shape
    if members < _LEAST_MEMBERS or (members < _MANY_MEMBERS and cases < _ENOUGH_CASES):
        return False
    steps = np.diff(values, axis=1)
    if (steps < 0).any():
        return False
    rises = np.bincount((steps > 0).sum(1).max(1))  # cases by how often the target that tells most rises
    orders = sum(each * math.lgamma(count + 2) for count, each in enumerate(rises.tolist()))
    return orders >= _HARDLY_BY_CHANCE


def code_doubts(forecast: ForecastSet, name: str) -> tuple[str, ...]:
    """A sentence for each target with a value that looks like a code for a missing one."""
    notes = []
    for place, target in enumerate(forecast.targets):
        values = forecast.members[..., place]
        known = values[~np.isnan(values)]
        if len(known) < _LEAST_MEMBERS or (value := doubtful_end(known)) is None:
            continue
        cases = cases_text(forecast.index, (values == value).any(1))
        what = "members" if forecast.levels is None else "quantiles"
        notes.append(
            f"{name} has {number_text(value)} among the {what} of {target!r}, {cases}, far beyond all others, and it "
            "is used as given; if it marks a missing value, leave the field empty"
        )
    return tuple(notes)


def _unit_doubts(forecast: ForecastSet, name: str) -> tuple[str, ...]:
    """A sentence where one target alone is of another size than all others, which are of one."""
    cases, members, targets = forecast.members.shape
    if targets < 3 or cases * members < _LEAST_NUMBERS or np.isnan(forecast.members).all((0, 1)).any():
        return ()
    sizes = np.nanmedian(np.abs(forecast.members), axis=(0, 1))
    spreads = np.nanstd(forecast.members, axis=(0, 1))
    for place, target in enumerate(forecast.targets):
        others = np.delete(sizes, place)
        if all(_is_odd(every[place], np.delete(every, place)) for every in (sizes, spreads)):
            size, low, high = (number_text(float(f"{each:.3g}")) for each in (sizes[place], others.min(), others.max()))
            return (f"{name} has {target} around {size}, and all other targets around {low} to {high}; check its unit",)
    return ()


def _is_odd(one: np.float64, others: Floats) -> bool:
    low, high = others.min(), others.max()
    return bool(low > 0 and one > 0 and high <= _ALIKE * low and (one * _OTHER_UNIT < low or one > high * _OTHER_UNIT))
