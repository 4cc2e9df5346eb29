import numpy as np
import torch

from reproduction.tasks.portfolio import IrishWind
from stakes.costs.scalar_costs import PowerCurve
from stakes.data.records import load_record


def test_rows_and_inputs() -> None:
    data = IrishWind().data()
    assert (len(data.train), len(data.validation), len(data.test)) == (4_381, 728, 1_459)
    assert data.feature_names[:2] == ("RPT@0h", "VAL@0h")
    assert data.feature_names[12] == "RPT@-24h"
    assert data.feature_names[24:] == ("season_sin", "season_cos")
    assert data.outcome_names == load_record("wind_irish").columns


def test_speeds_are_in_metres_per_second() -> None:
    data, record = IrishWind().data(), load_record("wind_irish")
    assert data.unit == "m/s"
    assert data.test.times is not None
    assert data.test.times[0] == np.datetime64("1975-01-03")
    place = int(np.flatnonzero(record.times == data.test.times[0])[0])
    np.testing.assert_allclose(data.test.outcome[0].numpy(), record.values[place] * 1852 / 3600, rtol=1e-6)


def test_what_counts_is_the_mean_power_at_hub_height() -> None:
    task, outcome = IrishWind(penalty=7.0), IrishWind().data().test.outcome
    power = PowerCurve()(outcome).mean(-1)
    assert torch.equal(task.mean_power(outcome), power)
    action = torch.full((len(outcome), 1), 0.3)
    expected = -0.3 + 7.0 * torch.relu(0.3 - power) ** 2
    torch.testing.assert_close(task.cost(action, outcome), expected)
