import numpy as np
import pytest
import torch

from reproduction.tasks.wind import WindTask
from stakes.costs.scalar_costs import PowerCurve
from stakes.data.records import load_record
from stakes.errors import StakesError


@pytest.mark.parametrize(
    ("record", "rows", "regions"),
    [
        ("wind_north_sea", (21_909, 1_461, 1_457), {"ramp": 1_076, "rated": 225, "cut-off": 72}),
        ("wind_nora10", (21_913, 1_457, 1_457), {"ramp": 1_027, "rated": 224, "cut-off": 126}),
    ],
)
def test_rows_and_regions(record: str, rows: tuple[int, int, int], regions: dict[str, int]) -> None:
    task = WindTask(record=record)
    data = task.data()
    assert (len(data.train), len(data.validation), len(data.test)) == rows
    assert {name: int(mask(data.test.outcome).sum()) for name, mask in task.regions.items()} == regions
    # The first three target times of a split would need inputs from the one before.
    assert [split.left_out.outside_range for split in task.splits().values()] == [3, 3, 3]


@pytest.mark.parametrize(("record", "column"), [("wind_north_sea", "ws10"), ("wind_nora10", "W10")])
def test_a_row_is_the_speed_now_6_and_12_hours_ago_and_in_6_hours(record: str, column: str) -> None:
    source, data = load_record(record), WindTask(record=record).data()
    assert data.feature_names == (f"{column}@0h", f"{column}@-6h", f"{column}@-12h")
    assert data.test.times is not None
    place = int(np.flatnonzero(source.times == data.test.times[40])[0])
    expected = source.select(column).values[[place - 2, place - 4, place - 6, place], 0]
    found = torch.cat([data.test.features[40], data.test.outcome[40]])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_years_are_those_of_the_paper() -> None:
    data = WindTask().data()
    years = [np.unique(split.times.astype("datetime64[Y]")).astype(int) + 1970 for split in (data.train, data.test)]
    assert years[0].tolist() == list(range(2005, 2020))
    assert years[1].tolist() == [2021]


def test_shear_is_that_of_the_record_unless_given() -> None:
    assert WindTask().power_curve == PowerCurve()
    assert WindTask(record="wind_nora10").power_curve == PowerCurve(shear=0.11)
    assert WindTask(record="wind_nora10", shear=0.2).power_curve.shear == 0.2
    assert WindTask(shear=0.0).power_curve.hub_factor == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"record": "wind_north_see"}, "record must be one of .*, got 'wind_north_see'; did you mean 'wind_north_sea'"),
        ({"record": None}, "record must be one of .*, got None; there are wind_north_sea, wind_nora10"),
        ({"lead_hours": 9}, "lead_hours must be a multiple of 6, got 9"),
        ({"lead_hours": 0}, "lead_hours must be a whole number of at least 1, got 0"),
        ({"penalty": -1.0}, "penalty must be positive"),
        ({"hub_height": 0.0}, "hub_height must be positive"),
        ({"ramp_speed": 30.0}, "ramp_speed must be below cutoff_speed, got 30.0 and 22.0"),
        ({"shear": float("nan")}, "shear must be finite"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], message: str) -> None:
    with pytest.raises(StakesError, match=message):
        WindTask(**settings)
