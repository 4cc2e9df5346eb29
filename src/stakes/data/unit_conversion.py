"""Values in another unit, where both are beyond doubt: kelvin as degrees Celsius, metres of rain as millimetres."""

from typing import Any, TypeVar, cast

from stakes.errors import TableError, listed

__all__ = ["in_unit"]

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

    Args:
        values: Values in the given unit, an array of any kind.
        given: Their unit as their file has it.
        wanted: The unit that is wanted.
    """
    if given == wanted:
        return values
    from_unit, to_unit = (_SAME.get(unit, unit) for unit in (given, wanted))
    for units in _KINDS.values():
        if from_unit in units and to_unit in units:
            (factor, offset), (other_factor, other_offset) = units[from_unit], units[to_unit]
            return cast(Values, (cast(Any, values) * factor + offset - other_offset) / other_factor)
    known = next((units for units in _KINDS.values() if from_unit in units), None)
    hint = f"; from {given} there is {listed([*known])}" if known else ""
    raise TableError(f"values in {given!r} cannot be turned into {wanted!r}{hint}")
