"""Results as tables: a frame of pandas, and what a notebook shows of it."""

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from stakes.text import column_texts, interval_text

if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame
else:
    DataFrame = Any  # so that the core need not import pandas

_SHOWN = 10  # rows in a notebook


class Tabular:
    """A result with a `to_frame()`, which is shown as a table below a line about it, in notebooks and where printed."""

    @property
    def _headline(self) -> str:
        """One line about all of it."""
        return ""

    def _shown(self) -> tuple[DataFrame, str]:
        """The first rows as text, and a line about the others."""
        table: DataFrame = self.to_frame()  # type: ignore[attr-defined]
        shown = table.head(_SHOWN).replace("", None).dropna(axis=1, how="all")
        for mean in [mean for mean in shown if f"{mean}_low" in shown and f"{mean}_high" in shown]:
            ends = shown[mean], shown.pop(f"{mean}_low"), shown.pop(f"{mean}_high")
            shown[mean] = [interval_text(*each) for each in zip(*ends, strict=True)]
        for name, values in shown.items():
            if values.dtype.kind == "f":
                shown[name] = column_texts(values.tolist())
        more = f"{len(shown)} of {len(table):,} rows; to_frame() has all." if len(table) > len(shown) else ""
        return shown, more

    def __repr__(self) -> str:
        shown, more = self._shown()
        return "\n".join(
            filter(None, (self._headline, shown.to_string(index=_numbered(shown), index_names=False, na_rep=""), more))
        )

    def _repr_html_(self) -> str:
        shown, more = self._shown()
        above, below = (f"<p>{escape(words)}</p>" if words else "" for words in (self._headline, more))
        return above + shown.to_html(index=_numbered(shown), index_names=False, border=0, na_rep="") + below


def _numbered(table: DataFrame) -> bool:
    """Whether the labels of the rows say something."""
    return table.index.nlevels > 1 or table.index.name is not None


def frame_of_cases(values: Mapping[str, Any], batch: tuple[int, ...]) -> DataFrame:
    """A row for each case of a batch (...); a column for each tensor (...), and for each part of one (..., A)."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name, value in values.items():
        array = value.detach().cpu().numpy()
        parts = array.reshape(-1, array.shape[-1] if array.ndim > len(batch) else 1).T
        names = [name] if len(parts) == 1 else [f"{name}_{place}" for place in range(1, len(parts) + 1)]
        columns |= dict(zip(names, parts, strict=True))
    index: pd.Index[Any] = pd.RangeIndex(len(next(iter(columns.values()))), name="case")
    if len(batch) > 1:
        index = pd.MultiIndex.from_product([range(size) for size in batch])
    return pd.DataFrame(columns, index)
