"""Whether models, which compute in single precision, would see what varies in the numbers of a user.

Single precision has about seven digits. Of 1,000,000,012.3 it keeps 1,000,000,000: where a column varies in the digits
that are lost, a model would see a constant, and nobody would be told.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stakes.errors import TableError
from stakes.number_text import number_text

__all__ = ["require_single_precision"]

_COARSE = 1e-3  # of what varies: the step from one number of single precision to the next
_ROUNDING = 1e-12  # of the numbers: what varies less does so by the rounding of double precision


def require_single_precision(values: NDArray[np.floating[Any]], names: Sequence[str], what: str) -> None:
    """Raise where single precision would lose what varies in a column; a constant column has nothing to lose.

    The step of single precision is taken at the column's median size, and what varies is its interquartile range, so
    that a few numbers of another size, such as zeros for what is missing, hide nothing; where half of the column is one
    number, it is the standard deviation.

    Args:
        values: Finite numbers (N, C) to learn from.
        names: What the C columns are called.
        what: What a column is, such as "feature"; it begins the message.
    """
    if values.dtype == np.float32 or not len(values):
        return
    with np.errstate(over="ignore", invalid="ignore"):  # what exceeds single precision is for others to refuse
        size = np.median(np.abs(values), axis=0)
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
        varies = np.where(high > low, high - low, values.std(axis=0))
        step = np.spacing(size.astype(np.float32)).astype(np.float64)
        lost = (step > _COARSE * varies) & (varies > _ROUNDING * size)
    for place in np.flatnonzero(lost)[:1]:
        around, apart, coarse = middle[place], number_text(varies[place], 2), number_text(step[place], 2)
        raise TableError(
            f"{what} {names[place]!r} varies by about {apart} around {around:.15g}, where single precision, in which "
            f"models compute, has steps of {coarse}: too coarse; subtract an offset such as "
            f"{float(f'{around:.1e}'):.15g} from it"
        )
