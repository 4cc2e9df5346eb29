"""A forecast of many series in the service: what to do for one of them, by its key."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from stakes.artifacts.panels import NEWEST, PanelFit, load_panel
from stakes.cost_spec.spec import CostSpec
from stakes.data.tables.columns import in_utc
from stakes.data.tables.files import parse_delimited, read_table
from stakes.data.tables.panels import row_keys
from stakes.errors import SettingError, did_you_mean
from stakes.json_values import json_value
from stakes.service import schemas
from stakes.service.schemas import RequestError, naming_field
from stakes.service.server import ServiceSettings
from stakes.service.sources import ForecastSource


@dataclass(frozen=True, eq=False, kw_only=True)
class PanelSource(ForecastSource):
    """The series of a fit, with the newest rows of each that the folder keeps."""

    refusal = "the service forecasts many series; ask /v1/series for one of them by its key"

    name: str  # of the folder
    opened: PanelFit
    newest: pd.DataFrame  # rows of every series, one after the other
    places: Mapping[str, slice]  # where those of each stand, by key

    def series(self, request: schemas.SeriesRequest) -> schemas.TableAnswer:
        """The decisions of one series after its newest outcomes, or for every row that is sent."""
        forecaster, layout = self.opened.forecaster, self.opened.forecaster.layout_
        assert layout is not None
        place = self.places.get(request.series)
        if place is None and request.csv is None:
            raise RequestError(
                "series", f"there is no series {request.series!r}; {did_you_mean(request.series, tuple(self.places))}"
            )
        parts = [] if place is None else [self.newest.iloc[place]]
        with naming_field("csv"):
            if request.csv is not None:
                parts.append(self._sent(request.csv, request.series, parts))
            rows = pd.concat(parts, ignore_index=True)
            if len(rows) > self.settings.max_rows:
                raise RequestError("csv", f"a series has at most {self.settings.max_rows} rows, got {len(rows)}")
            moments = pd.to_datetime(rows[layout.time], utc=True, format="ISO8601").dt.tz_localize(None)
            rows = rows.assign(**{layout.time: moments}).drop_duplicates(layout.time, keep="last")
            panel = forecaster.read(rows)
            decided = pd.concat(list(forecaster.decided(panel, request.last, request.quantiles)), ignore_index=True)
        return schemas.TableAnswer(
            forecast="selected",
            cost=str(self.opened.cost_spec),
            columns=[str(column) for column in decided.columns],
            rows=[json_value(row) for row in in_utc(decided).itertuples(index=False, name=None)],
            notes=[*self.opened.notes, *panel.notes()],
        )

    def _sent(self, csv: str, key: str, kept: list[pd.DataFrame]) -> pd.DataFrame:
        """The rows of a request, with the columns of the key where they have none."""
        layout = self.opened.forecaster.layout_
        assert layout is not None
        table = parse_delimited(csv.encode("utf-8", "replace"), "the table")
        parts = (
            kept[0].iloc[0][list(layout.series)]
            if kept
            else pd.Series(dict(zip(layout.series, key.split("/"), strict=False)))
        )
        for name in layout.series:
            if name not in table.columns:
                if name not in parts:
                    raise RequestError(
                        "series", f"the key of a new series must be {'/'.join(layout.series)}, got {key!r}"
                    )
                table[name] = parts[name]
        if ((texts := row_keys(table, layout)) != key).any():
            raise RequestError("csv", f"all rows must be of the series {key!r}, got {texts[texts != key][0]!r}")
        return table

    def model(self) -> dict[str, Any]:
        """What a `schemas.ModelAnswer` says of it."""
        fitted, data = self.opened.forecaster.fitted_, self.opened.about.data
        assert fitted is not None
        told = None if data is None else {"file": data.file, "rows": data.rows, "first": data.first, "last": data.last}
        candidate = fitted.state.candidate
        return super().model() | {
            "forecasts": [
                schemas.ServedAnswer(
                    name="selected",
                    title=candidate.name,
                    decision_weight=0.0,
                    member_count=fitted.state.members,
                    warnings=[],
                )
            ],
            "bundles": [
                schemas.BundleAnswer(
                    name=self.name,
                    created=self.opened.created,
                    versions=dict(self.opened.versions),
                    data=told,
                    metrics={},
                    reason=f"{len(self.places):,} series, by their keys at /v1/series",
                )
            ],
        }


def open_panel(folder: Path, cost: CostSpec | None, settings: ServiceSettings) -> PanelSource:
    """A fit of many series, to be served by itself."""
    opened = load_panel(folder, cost)
    layout, spec = opened.forecaster.layout_, opened.cost_spec
    assert layout is not None
    if not (folder / NEWEST).is_file():
        raise SettingError(f"{folder} keeps no rows of its series, because they are too many, so it cannot be served")
    opened.require_recorded("evaluation")
    newest = read_table(folder / NEWEST)
    keys = row_keys(newest, layout)
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    ends = np.append(begins[1:], len(keys))
    placeholder = spec.level_prices
    return PanelSource(
        settings=settings,
        cost=placeholder.build(),
        cost_spec=placeholder,
        targets=(layout.target,),
        outcome_scale=float(newest[layout.target].std()) or 1.0,
        notes=opened.notes,
        name=folder.resolve().name,
        opened=opened,
        newest=newest,
        places={str(keys[begin]): slice(int(begin), int(end)) for begin, end in zip(begins, ends, strict=True)},
    )
