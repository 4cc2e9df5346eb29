"""GRIB files, written by ecCodes message by message, as the weather centres have them."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from forecast_files import read
from refusals import refuses

from stakes.data.forecasts.layout import ForecastLayout
from stakes.data.forecasts.reading import read_past
from stakes.errors import StakesError

pytestmark = pytest.mark.skipif(not (find_spec("eccodes") and find_spec("cfgrib")), reason="needs eccodes and cfgrib")
GRID = {
    "Ni": 3,
    "Nj": 2,
    "latitudeOfFirstGridPointInDegrees": 52,
    "latitudeOfLastGridPointInDegrees": 51,
    "longitudeOfFirstGridPointInDegrees": 4,
    "longitudeOfLastGridPointInDegrees": 6,
    "iDirectionIncrementInDegrees": 1,
    "jDirectionIncrementInDegrees": 1,
}
VALUES = 270 + np.random.default_rng(0).random((4, 2, 2, 3))  # members, steps, latitude, longitude


def message(member: int, hours: int, values: np.ndarray, kind: str = "pf") -> bytes:
    """One field of the 2 m temperature, of a run at 2020-01-01 00 UTC."""
    import eccodes  # here, since it takes half a second

    handle = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
    surface = {"typeOfFirstFixedSurface": 103, "scaleFactorOfFirstFixedSurface": 0, "scaledValueOfFirstFixedSurface": 2}
    parameter = {"discipline": 0, "parameterCategory": 0, "parameterNumber": 0, **surface}
    run = {
        "productDefinitionTemplateNumber": 1,
        "dataDate": 20200101,
        "dataTime": 0,
        "stepUnits": 1,
        "forecastTime": hours,
    }
    for key, value in {**run, "perturbationNumber": member, **parameter, **GRID, "dataType": kind}.items():
        eccodes.codes_set(handle, key, value)
    eccodes.codes_set_values(handle, values.ravel())
    content: bytes = eccodes.codes_get_message(handle)
    eccodes.codes_release(handle)
    return content


def ensemble(members: Sequence[int], kind: str = "pf") -> bytes:
    fields = [message(member, hours, VALUES[member, at], kind) for member in members for at, hours in STEPS]
    return b"".join(fields)


STEPS = ((0, 24), (1, 48))


def written(folder: Path, content: bytes) -> Path:
    (folder / "a.grib2").write_bytes(content)
    return folder / "a.grib2"


def test_members_at_a_point_of_a_grid(tmp_path: Path) -> None:
    path = written(tmp_path, ensemble([1, 2, 3]))
    forecast = read(path, point=((51.2, 5.9),))
    np.testing.assert_allclose(forecast.members[..., 0], VALUES[1:, :, 1, 2].T, atol=0.01)  # packed into few bits
    assert forecast.index.tolist() == [pd.Timestamp("2020-01-02"), pd.Timestamp("2020-01-03")]
    assert (forecast.targets, forecast.notes[1]) == (
        ("t2m",),
        "t2m is in K, as the file says; --unit degC turns it into degrees Celsius",
    )
    assert [each.name for each in tmp_path.iterdir()] == ["a.grib2"]  # no index beside it


def test_the_control_is_a_member(tmp_path: Path) -> None:
    path = written(tmp_path, ensemble([2, 1]) + ensemble([0], "cf"))
    forecast = read(path, point=((52.0, 4.0),))
    np.testing.assert_allclose(forecast.members[..., 0], VALUES[:3, :, 0, 0].T, atol=0.01)


REFUSED = {
    "cut short": (ensemble([1, 2])[:-40], "cannot be read as GRIB: End of resource reached"),
    "no GRIB": (b"time,m1\n", "cannot be read as GRIB: No valid message found"),
    "the same members twice": (ensemble([1, 2]) + ensemble([1, 2], "fc"), "holds 't2m' of several kinds"),
}


@pytest.mark.parametrize(("content", "expected"), REFUSED.values(), ids=REFUSED)
def test_files_that_are_refused(tmp_path: Path, content: bytes, expected: str) -> None:
    refuses(StakesError, expected, read, written(tmp_path, content), point=((52.0, 4.0),))


def test_past_runs_know_when_they_were_made(tmp_path: Path) -> None:
    content = ensemble([0, 1, 2, 3])
    path = written(tmp_path, content)
    times = ["2020-01-02", "2020-01-03"]
    pd.DataFrame({"date": times, "t": [-3.0, -2.5]}).to_csv(tmp_path / "seen.csv", index=False)
    layout = ForecastLayout(outcomes=("t",), own_file=True, point=((51.0, 6.0),), unit="degC")
    given, _ = read_past(layout, tmp_path / "seen.csv", path)
    np.testing.assert_allclose(given.members[..., 0], VALUES[:, :, 1, 2].T - 273.15, atol=0.01)
    assert given.leads.tolist() == [24, 48]
    assert [str(moment) for moment in given.issued] == ["2020-01-01T00:00:00"] * 2
