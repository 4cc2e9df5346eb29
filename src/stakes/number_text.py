"""Costs in sentences: a few digits, and never a power of ten for what people count in thousands."""

__all__ = ["amount", "change"]

_THOUSAND = 999.5  # rounded


def amount(value: float) -> str:
    """A cost.

    >>> amount(0.123456), amount(12345.6)
    ('0.1235', '12,346')
    """
    return f"{value:,.0f}" if abs(value) >= _THOUSAND else f"{value:.4g}"


def change(found: tuple[float, float, float]) -> str:
    """A change of it with its interval.

    >>> change((-2738.2, -3889.0, -0.5))
    '-2,738, 95 % interval -3,889 to -0.5'
    """
    mean, low, high = (f"{value:+,.0f}" if abs(value) >= _THOUSAND else f"{value:+.3g}" for value in found)
    return f"{mean}, 95 % interval {low} to {high}"
