from collections.abc import Callable

import numpy as np
import pytest
import torch
from refusals import refuses

from reproduction.calibration import (
    binned_gap,
    calibration_sides,
    economic_value,
    skill,
    spread_skill,
    total_spread,
)
from reproduction.study import RegionBy, Study
from stakes import ProtectionCost, ShortfallCost, optimal_action
from stakes.errors import SettingError
from stakes.evaluation.metrics import Assessor

MakeStudy = Callable[..., Study]


def gaussian(make_study: MakeStudy, spread: float = 1.0, cases: int = 3000, members: int = 20, seeds: int = 2) -> Study:
    """Members and outcome from one Gaussian, or members whose spread is off by a factor."""
    generator = torch.Generator().manual_seed(0)
    outcome = torch.randn(cases, 1, generator=generator)
    cost = ProtectionCost(0.5, 0.4, sharpness=3.0)
    assessed = [
        Assessor(cost)(spread * torch.randn(cases, members, 1, generator=generator), outcome) for _ in range(seeds)
    ]
    metrics = {name: torch.stack([each[name] for each in assessed]).numpy() for name in assessed[0]}
    return make_study(metrics, members=members)


def test_spread_skill_by_hand(make_study: MakeStudy) -> None:
    study = make_study({"spread": [[1.0, 2.0, 3.0]], "error": [[-2.0, 1.0, 0.0]]}, members=4)
    assert spread_skill(study, 0.0).estimate == pytest.approx(np.sqrt(5 / 4 * 14 / 5))


def test_sides_and_gap(make_study: MakeStudy) -> None:
    study = make_study(
        {"expected_cost": [[1.0, 2.0, 3.0, 4.0]], "cost": [[2.0, 2.0, 6.0, 4.0]]},
        {"observed_high": [False, True, True, False]},
    )
    everywhere, high = calibration_sides(study, 0.0), calibration_sides(study, 0.0, region="high")
    assert (everywhere.predicted.estimate, everywhere.realised.estimate, everywhere.gap.estimate) == (2.5, 3.5, -1.0)
    assert (high.predicted.estimate, high.realised.estimate, high.gap.estimate) == (2.5, 4.0, -1.5)


def test_bins_by_hand(make_study: MakeStudy) -> None:
    study = make_study({"expected_cost": [[4.0, 1.0, 3.0, 2.0]], "cost": [[5.0, 0.0, 3.0, 1.0]]})
    low, high = binned_gap(study, 0.0, bins=2)
    assert (low.predicted.mean, low.realised.mean, low.gap.mean, low.cases) == (1.5, 0.5, 1.0, 2)
    assert (high.predicted.mean, high.realised.mean, high.gap.mean, high.cases) == (3.5, 4.0, -0.5, 2)


def test_economic_value_and_skill(make_study: MakeStudy) -> None:
    cost = ShortfallCost(4.0)
    generator = torch.Generator().manual_seed(0)
    train, outcome = (torch.rand(count, 1, generator=generator, dtype=torch.float64) for count in (500, 60))
    climatology = cost(optimal_action(cost, train).expand(60, 1), outcome)
    forecasts = {
        0.0: train.expand(60, -1, -1),  # climatology itself
        0.5: outcome[:, None].expand(-1, 2, -1),  # foresight
        1.0: outcome[:, None] + 0.1 * torch.randn(60, 20, 1, generator=generator, dtype=torch.float64),
    }
    assessed = [Assessor(cost)(members, outcome) for members in forecasts.values()]
    metrics = {name: torch.stack([each[name] for each in assessed])[:, None] for name in ("cost", "foresight_regret")}
    study = make_study(metrics, {"climatology_cost": climatology}, weights=list(forecasts))
    none, full, some = (economic_value(study, weight) for weight in forecasts)
    assert none.estimate == pytest.approx(0.0, abs=1e-9)
    assert none.error == pytest.approx(0.0, abs=1e-9)
    assert full.estimate == pytest.approx(1.0)
    assert full.error == pytest.approx(0.0, abs=1e-9)
    assert 0.3 < some.estimate < 1
    paid, known = (float(metrics[name][2].mean()) for name in ("cost", "foresight_regret"))
    base = float(climatology.mean())
    assert some.estimate == pytest.approx((base - paid) / (base - (paid - known)))
    assert skill(study, 1.0).estimate == pytest.approx(100 * (base - paid) / abs(base))
    assert skill(study, 0.0).estimate == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("by", "inside"), [("observed", [1, 3, 4]), ("forecast", [0, 2, 4])])
def test_every_measure_has_regions_by_outcome_and_by_forecast(
    make_study: MakeStudy, by: RegionBy, inside: list[int]
) -> None:
    """Over a region each is what it is for a study of these cases alone."""
    generator = np.random.default_rng(0)
    names = ("cost", "expected_cost", "foresight_regret", "spread", "error", "pit")
    forecasts = {name: generator.uniform(0.1, 1.0, (2, 3, 6)) for name in names}  # groups, seeds, cases
    forecasts = {name: values[:, None] for name, values in forecasts.items()}
    cases = {name: generator.uniform(2.0, 3.0, (2, 6)) for name in ("climatology_cost", "true_spread")}
    mass = np.broadcast_to([0.9, 0.1, 0.8, 0.2, 0.7, 0.3], (2, 1, 3, 6))
    observed = np.isin(np.arange(6), [1, 3, 4])
    whole = make_study({**forecasts, "mass_high": mass}, {**cases, "observed_high": observed}, members=9)
    only = make_study(
        {name: values[..., inside] for name, values in forecasts.items()},
        {name: values[..., inside] for name, values in cases.items()},
        members=9,
    )
    for measure in (spread_skill, total_spread, skill, economic_value):
        assert measure(whole, 0.0, region="high", by=by).estimate == pytest.approx(measure(only, 0.0).estimate)
        assert measure(whole, 0.0).estimate != pytest.approx(measure(only, 0.0).estimate)
    bins = zip(binned_gap(whole, 0.0, None, 2, "high", by), binned_gap(only, 0.0, bins=2), strict=True)
    for found, expected in bins:
        assert (found.gap.mean, found.cases) == (pytest.approx(expected.gap.mean), expected.cases)


def test_bins_of_a_region_are_counted_where_a_seed_failed_and_where_it_is_empty(make_study: MakeStudy) -> None:
    cost = [[np.nan] * 4, [1.0, 2.0, 3.0, 4.0]]
    study = make_study(
        {"expected_cost": cost, "cost": cost}, {"observed_high": [False, True, True, False], "observed_no": [False] * 4}
    )
    assert [each.cases for each in binned_gap(study, 0.0, bins=2, region="high")] == [1, 1]
    assert [each.predicted.mean for each in binned_gap(study, 0.0, bins=2, region="high")] == [2.0, 3.0]
    assert [each.cases for each in binned_gap(study, 0.0, bins=2, region="no")] == [0, 0]


def test_bins_are_counted(make_study: MakeStudy) -> None:
    study = gaussian(make_study, cases=20)
    refuses(SettingError, "bins", binned_gap, study, 0.0, bins=0)
