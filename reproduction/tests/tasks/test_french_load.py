import numpy as np

from reproduction.tasks.portfolio import FrenchLoad
from stakes.data.records import load_record


def test_rows_are_counted_and_incomplete_ones_left_out() -> None:
    task = FrenchLoad()
    data = task.data()
    assert (len(data.train), len(data.validation), len(data.test)) == (7_256, 1_428, 1_428)
    assert [split.left_out.missing_value for split in task.splits().values()] == [20, 4, 4]


def test_inputs_are_loads_temperatures_weekday_and_hour() -> None:
    data = FrenchLoad().data()
    assert data.feature_names[0] == "load_ARA@0h"
    assert data.feature_names[12] == "load_ARA@-24h"
    assert data.feature_names[36] == "temp_ARA@0h"
    assert data.feature_names[48] == "temp_ARA@+24h"
    assert data.feature_names[60:] == ("weekday_sin", "weekday_cos", "hour_sin", "hour_cos")
    assert len(data.outcome_names) == 12


def test_loads_are_in_gigawatts() -> None:
    data, record = FrenchLoad().data(), load_record("load_france")
    assert data.unit == "GW"
    assert data.test.times is not None
    place = int(np.flatnonzero(record.times == data.test.times[0])[0])
    np.testing.assert_allclose(data.test.outcome[0].numpy() * 1000, record.values[place, :12], rtol=1e-6)
    np.testing.assert_allclose(data.test.features[0, 48:60].numpy(), record.values[place, 12:], rtol=1e-6)
    assert data.train.outcome.sum(-1).min() > 25
    assert data.train.outcome.sum(-1).max() < 100


def test_the_year_of_the_lockdowns_is_left_out() -> None:
    data = FrenchLoad().data()
    years = {int(str(time)[:4]) for split in (data.train, data.validation, data.test) for time in split.times}
    assert years == {2014, 2015, 2016, 2017, 2018, 2019, 2021}
