import numpy as np
import pytest

from reproduction.tables import PowerReadings, hourly_means, six_hourly_means, yearly_capacity

HOURS = np.arange("2017-01-01", "2017-02-20", dtype="datetime64[h]").astype("datetime64[s]")


def readings(minutes: int, power: np.ndarray) -> PowerReadings:
    return PowerReadings(HOURS[0] + np.timedelta64(minutes, "m") * np.arange(len(power)), power.astype(float))


def smooth(count: int) -> np.ndarray:
    return 500 + 400 * np.sin(np.arange(count) / 30)


@pytest.mark.parametrize("minutes", [15, 30, 60])
def test_an_hour_is_the_mean_of_its_readings(minutes: int) -> None:
    power = smooth(len(HOURS) * 60 // minutes)
    np.testing.assert_allclose(hourly_means(readings(minutes, power), HOURS), power.reshape(len(HOURS), -1).mean(1))


def test_hours_without_readings_are_missing_and_outside_ones_ignored() -> None:
    power = smooth(len(HOURS))
    power[10] = np.nan
    gone = readings(60, power)
    gone = PowerReadings(np.delete(gone.times, 20), np.delete(gone.power, 20))
    means = hourly_means(gone, HOURS[5:-5])
    assert np.flatnonzero(np.isnan(means)).tolist() == [5, 15]


def test_missing_readings_of_an_hour_leave_the_others() -> None:
    power = smooth(4 * len(HOURS))
    power[40:43] = np.nan
    assert hourly_means(readings(15, power), HOURS)[10] == power[43]


def test_negative_hours_are_zero() -> None:
    power = smooth(len(HOURS))
    power[7:9] = -3.0
    assert hourly_means(readings(60, power), HOURS)[7:9].tolist() == [0.0, 0.0]


def test_an_hour_beside_both_its_neighbours_is_missing() -> None:
    power = smooth(len(HOURS))
    power[100] += 300
    power[200] -= 300
    power[300] += 200  # below a quarter of the highest
    power[400:402] += 300  # two hours agree with each other
    assert np.flatnonzero(np.isnan(hourly_means(readings(60, power), HOURS))).tolist() == [100, 200]


def test_an_hour_far_above_all_others_is_missing() -> None:
    power = np.full(len(HOURS), 1000.0)
    power[-1] = 1300.0  # at the edge, where there are no two neighbours
    means = hourly_means(readings(60, power), HOURS)
    assert np.flatnonzero(np.isnan(means)).tolist() == [len(HOURS) - 1]


def test_half_hours_are_screened_before_the_mean() -> None:
    power = smooth(2 * len(HOURS))
    power[201] += 150
    means = hourly_means(readings(30, power), HOURS)
    assert means[100] == power[200]
    quarter = smooth(4 * len(HOURS))
    quarter[401] += 150
    assert hourly_means(readings(15, quarter), HOURS)[100] == pytest.approx(quarter[400:404].mean())


def test_six_hours_need_five() -> None:
    hourly = np.arange(18.0)
    hourly[[3, 8, 9]] = np.nan
    means = six_hourly_means(hourly)
    assert means[0] == np.mean([0, 1, 2, 4, 5])
    assert np.isnan(means[1])
    assert means[2] == 14.5


def test_capacity_is_a_quantile_of_the_year() -> None:
    hours = np.array(["2017-12-31T22", "2017-12-31T23", "2018-01-01T00", "2018-01-01T01"], "datetime64[s]")
    capacity = yearly_capacity(np.array([1.0, 3.0, 7.0, np.nan]), hours)
    assert capacity == {2017: pytest.approx(1 + 0.995 * 2), 2018: 7.0}
