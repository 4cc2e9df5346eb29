"""What a user says of the columns of a table: the fields behind the flags, light enough for --help."""

from dataclasses import dataclass
from typing import Annotated

Hours = Annotated[float, "a number of hours, or in words a duration such as 6d"]


@dataclass(frozen=True)
class ColumnRoles:
    """What the columns of a table are; the text of an attribute is the help of its flag.

    Attributes:
        targets: columns to forecast, separated by commas or as a range such as h00:h23
        features: columns to forecast from; default: all numeric columns
        time: column with times, ISO 8601, UTC unless a zone is given
        lags: ages of the features at issue time, in hours or as 0d,6d,1w
        lead: time from issue to target, in hours or as 1d
        known: columns known in advance for the target time, such as weather forecasts
        calendar: features of the target time: hour, weekday, season, holiday:FR
        baseline_action: column with today's action, or one for each part of a vector action, such as did00:did23
        directions: features in degrees, encoded as sine and cosine
    """

    targets: tuple[str, ...]
    features: tuple[str, ...] = ()
    time: str | None = None
    lags: tuple[Hours, ...] = ()
    lead: Hours | None = None
    known: tuple[str, ...] = ()
    calendar: tuple[str, ...] = ()
    baseline_action: str | None = None
    directions: tuple[str, ...] = ()
