import numpy as np
import pytest

from reproduction.tasks.frost import FrostTask
from stakes.data.records import load_record
from stakes.errors import StakesError


@pytest.mark.parametrize(
    ("record", "rows", "inputs", "frost"),
    [
        ("frost_merra2", (11_486, 602, 1_202), 27, (0.286, 0.276, 0.250)),
        ("frost_era5", (9_674, 1_206, 2_170), 12, (0.202, 0.133, 0.146)),
    ],
)
def test_rows_inputs_and_share_of_frost(
    record: str, rows: tuple[int, int, int], inputs: int, frost: tuple[float, float, float]
) -> None:
    task = FrostTask(record=record)
    data = task.data()
    splits = (data.train, data.validation, data.test)
    assert tuple(len(split) for split in splits) == rows
    assert len(data.feature_names) == inputs
    for split, share in zip(splits, frost, strict=True):
        found = task.regions["frost"](split.outcome).float().mean()
        assert abs(found - share) < 0.001
        assert task.regions["no frost"](split.outcome).float().mean() == 1 - found


@pytest.mark.parametrize("record", ["frost_merra2", "frost_era5"])
def test_only_cold_months_and_more_than_one_winter_in_the_test(record: str) -> None:
    data = FrostTask(record=record).data()
    for split in (data.train, data.validation, data.test):
        assert split.times is not None
        months = split.times.astype("datetime64[M]")
        assert set(months.astype(int) % 12 + 1) == {11, 12, 1, 2, 3}
    assert data.test.times is not None
    winters = np.unique((data.test.times.astype("datetime64[M]") + 6).astype("datetime64[Y]"))
    assert len(winters) >= 3


def test_a_row_is_every_column_now_6_and_12_hours_ago_and_the_temperature_in_24() -> None:
    source, data = load_record("frost_merra2"), FrostTask().data()
    assert data.feature_names[:2] == ("t2m@0h", "skt@0h")
    assert data.feature_names[-1] == "v850@-12h"
    assert data.test.times is not None
    place = int(np.flatnonzero(source.times == data.test.times[300])[0])
    expected = np.concatenate([source.values[place - 4], source.values[place - 5], source.values[place - 6]])
    np.testing.assert_allclose(data.test.features[300].numpy(), expected, rtol=1e-6)
    assert data.test.outcome[300].item() == pytest.approx(source.values[place, 0], rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"record": "frost_merra"}, r"record must be one of .*, got 'frost_merra'; did you mean 'frost_merra2'\?"),
        ({"lead_hours": 7}, "lead_hours must be a multiple of 6, got 7"),
        ({"false_alarm_ratio": -0.5}, "false_alarm_ratio must be positive"),
        ({"sharpness": 0.0}, "sharpness must be positive"),
        ({"threshold": float("inf")}, "threshold must be finite"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], message: str) -> None:
    with pytest.raises(StakesError, match=message):
        FrostTask(**settings)
