"""None"""

from dataclasses import dataclass, fields, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from cyclopts import Parameter

from stakes.cli import flags as flag
from stakes.workflows.fit_settings import FitSettings

if TYPE_CHECKING:
    from stakes.workflows.inputs import FitRequest


_AS_TEXT = {"decision_weight": str, "weights": str | None, "directions": str}  # which `request` reads


@dataclass(frozen=True)
class _TableFlags:
    """What is not of `FitSettings`: the layout of the table, in words, and the cost."""

    target: Annotated[
        str, Parameter(help="column to forecast, or several, separated by commas, also as ranges such as h00:h23")
    ]
    cost: Annotated[str, Parameter(help=flag.COST_HELP)]
    time: flag.Time = None
    lags: Annotated[
        str | None, Parameter(help="hours before the issue time whose columns are features, such as 0,6,24")
    ] = None
    lead: Annotated[float | None, Parameter(help="hours from the issue time to the target")] = None
    features: Annotated[str | None, Parameter(help="columns to forecast from; all of numbers by default")] = None
    known: Annotated[
        str | None, Parameter(help="columns known beforehand for the target time, such as weather forecasts")
    ] = None
    calendar: Annotated[
        str | None, Parameter(help="features of the target time, of hour,weekday,season,holiday:FR")
    ] = None
    baseline_action: flag.BaselineAction = None

    def request(self, data: str) -> "FitRequest":
        """What is asked of a fit to the table in the file `data`."""
        from stakes.data.tables.layout import TableLayout
        from stakes.settings import from_plain
        from stakes.workflows.inputs import FitRequest

        layout = {
            "targets": flag.names(self.target),
            "features": flag.names(self.features),
            "time": self.time,
            "lags": flag.numbers_of("lags", self.lags),
            "lead": self.lead,
            "known": flag.names(self.known),
            "calendar": flag.names(self.calendar),
            "baseline_action": self.baseline_action,
        }
        settings = {field.name: getattr(self, field.name) for field in fields(FitSettings)}
        if (weight := settings["decision_weight"]) != "auto":
            settings["decision_weight"] = flag.number_of("decision_weight", weight, "auto or a number")
        if settings["weights"] is not None:
            settings["weights"] = flag.numbers_of("weights", settings["weights"])
        if (directions := settings["directions"]) != "auto":
            settings["directions"] = () if directions == "none" else flag.names(directions)
        return FitRequest(data, self.cost, from_plain(TableLayout, layout), **settings)


def _flags_of_settings() -> list[tuple[str, Any, Any]]:
    """A flag for every field; its help is the field's text in the docstring of `FitSettings`."""
    kinds = get_type_hints(FitSettings) | _AS_TEXT
    whole = Parameter(converter=flag.whole_number)
    return [
        (each.name, Annotated[kind, whole] if (kind := kinds[each.name]) in (int, int | None) else kind, each.default)
        for each in fields(FitSettings)
    ]


if TYPE_CHECKING:
    FitFlags = _TableFlags
else:
    FitFlags = Parameter(name="*")(
        make_dataclass(
            "FitFlags",
            _flags_of_settings(),
            bases=(_TableFlags,),
            namespace={"__doc__": FitSettings.__doc__, "__module__": __name__},
            frozen=True,
        )
    )
