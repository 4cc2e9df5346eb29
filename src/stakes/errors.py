"""The one family of exceptions that `stakes` raises for its users' input."""

__all__ = ["CostError", "NonFiniteError", "SettingError", "ShapeError", "StakesError"]


class StakesError(ValueError):
    """Something given to `stakes` cannot be used; the message names it, says what came and what is expected."""


class CostError(StakesError):
    """A cost has parameters or bounds that make no decision problem."""


class ShapeError(StakesError):
    """A tensor has the wrong shape or type for its place."""


class NonFiniteError(StakesError):
    """A tensor holds NaN or infinity where every number must be finite."""


class SettingError(StakesError):
    """An option has a value outside its range."""
