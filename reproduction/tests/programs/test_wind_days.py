"""Days of made-up wind, and their features by hand."""

from pathlib import Path

import numpy as np
import pytest
from made_days import made_wind

from reproduction.programs.wind_battery import power_by_speed, wind_cases, wind_days
from reproduction.tables import GEFCOM_WIND
from stakes.errors import TableError


def test_features_by_hand(tmp_path: Path) -> None:
    table = made_wind(tmp_path)
    days = wind_days(str(tmp_path))
    assert days.features.shape == (104, 27)
    assert days.days[0] == np.datetime64("2013-03-26")
    power = table.filter(like="power_").to_numpy().reshape(-1, 24, 10)
    np.testing.assert_allclose(days.power, np.nanmean(power, axis=2)[1:])  # the farm that does not report is left out
    speed = np.hypot(table["u100_z01"], table["v100_z01"]).to_numpy()[:, None]
    known = np.arange(len(speed)) < 7 * 24  # to the end of March
    farms = [power_by_speed(speed, table[[f"power_z{farm:02d}"]].to_numpy(), known) for farm in range(1, 11)]
    meant = np.mean(farms, axis=0).reshape(-1, 24)
    np.testing.assert_allclose(days.features[:, :24], meant[1:])
    np.testing.assert_allclose(days.features[:, 24], (np.nanmean(power, axis=2) - meant)[:-1, -1])
    np.testing.assert_allclose(days.features[:, 25] ** 2 + days.features[:, 26] ** 2, 1.0)


def test_a_curve_is_the_mean_power_of_a_class_and_a_line_between_classes() -> None:
    speed = np.repeat([[4.0], [6.0], [10.0]], 20, axis=0)
    power = np.repeat([[0.1], [0.3], [0.9]], 20, axis=0)
    known = np.arange(60) < 40  # nothing of 10 m/s is known
    meant = power_by_speed(np.vstack([speed, [[5.0]]]), np.vstack([power, [[0.0]]]), np.append(known, False))
    np.testing.assert_allclose(meant[[0, 20, 40, 60], 0], [0.1, 0.3, 0.3, 0.2])


def test_parts_by_their_dates(tmp_path: Path) -> None:
    made_wind(tmp_path)
    train, validation, test = wind_cases(wind_days(str(tmp_path)))
    assert train.times is not None
    assert test.times is not None
    assert (str(train.times[-1]), str(test.times[0])) == ("2013-03-31", "2013-07-01")
    assert [len(part) for part in (train, validation, test)] == [6, 91, 7]


@pytest.mark.parametrize(("lost", "told"), [("u100_z07", "must have the column u100_z07"), (None, "whole days")])
def test_tables_that_do_not_fit(tmp_path: Path, lost: str | None, told: str) -> None:
    table = made_wind(tmp_path, days=8)
    table = table.drop(index=3) if lost is None else table.drop(columns=lost)
    table.to_csv(tmp_path / GEFCOM_WIND, index=False, compression="gzip")
    with pytest.raises(TableError, match=told):
        wind_days(str(tmp_path))
