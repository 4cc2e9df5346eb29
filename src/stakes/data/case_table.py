"""One table of cases from the reader to the report: features, outcomes, times, series, parameters, today's action.

Numbers are tensors, in double precision where they were read and in single precision where models are trained. What
messages and tables call the cases is an index of pandas, which the table carries and never needs.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stakes.argument_checks import check_finite
from stakes.data.tables.time_axis import Times, to_utc
from stakes.errors import NonFiniteError, ShapeError, TableError
from stakes.text import number_text

if TYPE_CHECKING:
    import pandas as pd

Chosen = slice | NDArray[np.integer[Any]] | NDArray[np.bool_]
"""Some of the cases: a range of them, their places, or whether each is meant."""

_OF_CASES = ("features", "outcome", "times", "index", "series", "today")  # fields with an entry for each case


@dataclass(frozen=True, eq=False)
class Category:
    """A feature that is one of some words."""

    codes: NDArray[np.int64]  # the place of each case's word among the levels, (N,)
    levels: tuple[str, ...]

    @property
    def words(self) -> NDArray[np.object_]:
        """The word of each case, (N,)."""
        return np.array(self.levels, dtype=object)[self.codes]

    @classmethod
    def of(cls, words: Sequence[str]) -> Self:
        """The category of these words, its levels in their order."""
        levels, codes = np.unique(np.array(words, dtype=np.str_), return_inverse=True)
        return cls(codes.astype(np.int64), tuple(levels.tolist()))


@dataclass(frozen=True, eq=False)
class CaseTable:
    """N cases in physical units."""

    features: Tensor  # features (N, F), finite and of a floating-point type; NaN where one is missing, if `incomplete`
    outcome: Tensor  # outcomes (N, D), likewise; D is 0 where they are not known yet
    times: Times | None = None  # the target times (N,); None where the cases have none
    feature_names: tuple[str, ...] = ()  # the names of the F features, or none
    outcome_names: tuple[str, ...] = ()  # the names of the D outcomes, or none
    index: "pd.Index[Any] | None" = None  # what the cases are called, (N,): target times or data rows
    series: NDArray[np.str_] | None = None  # the key of the series of each case, (N,), as text; None for one series
    categories: Mapping[str, Category] = field(default_factory=dict)  # features that are words, by name
    parameters: Mapping[str, Tensor] = field(default_factory=dict)  # cost parameters of each case, (N,), by name
    today: Tensor | None = None  # today's action, (N,) or (N, A), NaN where it is not known
    incomplete: bool = False

    def __post_init__(self) -> None:
        for name in ("features", "outcome"):
            values = getattr(self, name)
            if not isinstance(values, Tensor) or values.dim() != 2 or not values.is_floating_point():
                shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
                raise ShapeError(f"{name} must be a floating-point tensor of cases by columns, got {shape}")
            if not self.incomplete:
                check_finite(values, name, True)
        if len(self.features) != len(self.outcome):
            raise ShapeError(
                f"features and outcome must have the same number of cases, got {len(self.features)} and "
                f"{len(self.outcome)}"
            )
        for name, width in (("feature_names", self.features.shape[1]), ("outcome_names", self.outcome.shape[1])):
            if (names := getattr(self, name)) and len(names) != width:
                raise ShapeError(f"{name} must be one for each of {width} columns, got {len(names)}")
        given = {name: values for name in _OF_CASES if (values := getattr(self, name)) is not None}
        given |= {name: category.codes for name, category in self.categories.items()} | dict(self.parameters)
        for name, values in given.items():
            if len(values) != len(self):
                raise ShapeError(f"{name} must have an entry for each of the {len(self)} cases, got {len(values)}")

    def __len__(self) -> int:
        return len(self.outcome)

    def __repr__(self) -> str:
        name, features, outcomes = type(self).__name__, self.features.shape[1], self.outcome.shape[1]
        return f"{name}({len(self)} cases of {features} features and {outcomes} outcomes)"

    def rows(self, chosen: Chosen) -> Self:
        """Some of the cases, such as one partition of them."""
        return _made([self], lambda parts: _taken(parts[0], chosen))

    def followed_by(self, *others: Self) -> Self:
        """These cases, and others of the same columns below them."""
        levels = {
            name: tuple(dict.fromkeys(level for each in (self, *others) for level in each.categories[name].levels))
            for name in self.categories
        }
        return _made([each._with_levels(levels) for each in (self, *others)], _joined)

    def in_single_precision(self) -> "CaseTable":
        """Features and outcomes as models are trained on them."""
        kept = {each.name: getattr(self, each.name) for each in fields(CaseTable)}
        return CaseTable(**kept | {"features": self.features.float(), "outcome": self.outcome.float()})

    @property
    def feature_table(self) -> "pd.DataFrame":
        """The features (N, F) by name, with what the cases are called."""
        return _as_table(self.features, self.index, self.feature_names)

    @property
    def outcome_table(self) -> "pd.DataFrame":
        """The outcomes (N, D), likewise."""
        return _as_table(self.outcome, self.index, self.outcome_names)

    def _with_levels(self, levels: Mapping[str, tuple[str, ...]]) -> Self:
        """The same with categories of these levels, which hold all their own."""
        categories = {}
        for name, known in self.categories.items():
            places = np.array([levels[name].index(level) for level in known.levels], dtype=np.int64)
            categories[name] = Category(places[known.codes], levels[name])
        return replace(self, categories=categories)


Cases = TypeVar("Cases", bound=CaseTable)


def _made(tables: Sequence[Cases], make: Callable[[list[Any]], Any]) -> Cases:
    """The first table with every column made of that of each table."""
    first = tables[0]
    plain: dict[str, Any] = {
        name: make([getattr(each, name) for each in tables])
        for name in _OF_CASES
        if all(getattr(each, name) is not None for each in tables)
    }
    categories = {
        name: replace(known, codes=make([each.categories[name].codes for each in tables]))
        for name, known in first.categories.items()
    }
    parameters = {name: make([each.parameters[name] for each in tables]) for name in first.parameters}
    absent: dict[str, Any] = {name: None for name in _OF_CASES if name not in plain}
    return replace(first, **plain | absent, categories=categories, parameters=parameters)


def _taken(values: Any, chosen: Chosen) -> Any:
    if isinstance(values, Tensor) and not isinstance(chosen, slice):
        return values[torch.from_numpy(np.asarray(chosen)).to(values.device)]
    return values[chosen]


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], Tensor):
        return torch.cat(parts)
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else parts[0].append(parts[1:])


def _as_table(values: Tensor, index: "pd.Index[Any] | None", names: Sequence[str]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(values.numpy(), index, pd.Index(names) if names else None)


def as_tensor(values: NDArray[np.float64], name: str, incomplete: bool = False) -> Tensor:
    """The numbers as a tensor of single precision, or an error where they exceed it; NaN stays where it may be."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    if not (np.isfinite(single) | (incomplete & np.isnan(single))).all():
        raise NonFiniteError(f"{name} must hold numbers within single precision, got {np.nanmax(np.abs(values)):.3g}")
    return torch.from_numpy(single)


def checked_times(times: Any, rows: int) -> Times | None:
    """The times in UTC, or an error unless there is one for each row and none lies before the one above it."""
    if times is None:
        return None
    in_utc = to_utc(times, "times")
    if len(in_utc) != rows:
        raise ShapeError(f"times must be one for each of the {rows} rows, got {len(in_utc)}")
    if len(backward := np.flatnonzero(np.diff(in_utc).astype(np.int64) < 0)):
        raise ShapeError(f"the rows must be in the order of time, but row {backward[0] + 1} comes before the one above")
    return in_utc


_COARSE = 1e-3  # of what varies: the step from one number of single precision to the next
_ROUNDING = 1e-12  # of the numbers: what varies less does so by the rounding of double precision


def require_single_precision(values: NDArray[np.floating[Any]], names: Sequence[str], what: str) -> None:
    """Raise where single precision would lose what varies in a column; a few odd numbers hide nothing."""
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


_NEIGHBOURS = 0.2  # share of the outcomes, alike in size, that one set is drawn from


def neighbouring_sets(outcomes: NDArray[np.float64], sets: int, members: int) -> Tensor:
    """Sets of members (N, M, D) as a forecast better than climatology would have: outcomes of similar size."""
    ordered = outcomes[np.argsort(outcomes.mean(1), kind="stable")]
    generator = np.random.default_rng(0)
    width = max(2, round(_NEIGHBOURS * len(ordered)))
    starts = generator.integers(len(ordered) - width + 1, size=(sets, 1))
    places = generator.permuted(np.tile(np.arange(width), (sets, 1)), axis=1)[:, :members]  # each outcome once
    return torch.from_numpy(ordered[starts + places])


def alternate_blocks(rows: int, block: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of even and of odd blocks of neighbouring rows.

    Blocks of k whole days, as `block_length` has them, show both parts every hour, and every weekday as often within
    14 k days: the parts take turns after 2 k days, which for k below 7 have no factor in common with the week. Blocks
    of part of a day would not: with 12 hours one part has all mornings.

    >>> [part.tolist() for part in alternate_blocks(7, 2)]
    [[0, 1, 4, 5], [2, 3, 6]]
    """
    block = min(block, -(-rows // 2))
    odd = np.arange(rows) // block % 2 == 1
    return np.flatnonzero(~odd), np.flatnonzero(odd)


def as_table(values: Any, name: str) -> Any:
    """A table or column of any library, or of xarray, as one of pandas without an index; all else as it is."""
    xarray = sys.modules.get("xarray")  # who passes its objects has imported it
    if xarray is None or not isinstance(values, xarray.DataArray | xarray.Dataset):
        if type(values).__module__.partition(".")[0] in ("builtins", "numpy", "pandas", "torch"):
            return values
        import narwhals as nw

        known = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
        return known.to_pandas() if isinstance(known, nw.DataFrame | nw.Series) else values
    import pandas as pd

    if isinstance(values, xarray.Dataset):
        dims = {each.dims for each in values.data_vars.values()}
        if len(dims) != 1 or len(values.dims) != 1:
            raise ShapeError(f"{name} must have variables along one dimension of cases, got {dict(values.sizes)}")
        return pd.DataFrame({key: each.values for key, each in values.data_vars.items()})
    if values.ndim == 1:
        return pd.Series(values.values, name=values.name)
    if values.ndim != 2:
        raise ShapeError(f"{name} must have the dimensions case and column, got {list(values.dims)}")
    columns = values.dims[1]
    if columns not in values.indexes:
        return values.values
    return pd.DataFrame(values.values, columns=values.indexes[columns])


def like_given(table: "pd.DataFrame", given: Any) -> Any:
    """A table of pandas as one of the library of what was given, without an index: one with a name becomes columns."""
    if as_table(given, "given") is given:  # a table of pandas, or none
        return table
    import narwhals as nw
    import pyarrow as pa

    known = nw.from_native(given, eager_only=True, pass_through=True)
    if not isinstance(known, nw.DataFrame):
        return table
    named = table.reset_index() if any(table.index.names) else table
    arrow = pa.Table.from_pandas(named.rename(columns=str), preserve_index=False)
    return nw.from_arrow(arrow, backend=known.implementation).to_native()


def outcome_names(values: Any, count: int) -> tuple[str, ...]:
    """The names of the columns of a table or of the one column; else y, or y0, y1 and so on."""
    import pandas as pd

    if isinstance(values, pd.DataFrame):
        return tuple(map(str, values.columns))
    if isinstance(values, pd.Series) and values.name is not None:
        return (str(values.name),)
    return ("y",) if count == 1 else tuple(f"y{place}" for place in range(count))
