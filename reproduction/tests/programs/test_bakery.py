"""One capacity for several shops."""

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from reproduction.programs.bakery import BAKERY_PLANS, bakery_cases, bakery_days, bakery_problem, scaled_newsvendor
from reproduction.programs.problem import QUICK
from stakes.actions.solve import optimal_action
from stakes.data.records import Record
from stakes.programs.schedules import AllocationCost


def test_newsvendors_by_brute_force() -> None:
    generator = torch.Generator().manual_seed(0)
    members = torch.randint(0, 12, (4, 9, 2), generator=generator).double()
    cost = AllocationCost(4.0, 1.0, 1000.0)
    orders = scaled_newsvendor(cost, members)
    for case, (own, order) in enumerate(zip(members, orders, strict=True)):
        for shop in range(2):
            paid = [float((4 * (own[:, shop] - a).relu() + (a - own[:, shop]).relu()).mean()) for a in range(13)]
            assert paid[round(float(order[shop]))] == pytest.approx(min(paid)), (case, shop)


def test_too_little_is_shared_out_alike_and_the_program_does_better() -> None:
    generator = torch.Generator().manual_seed(1)
    members = torch.randint(0, 12, (5, 9, 2), generator=generator).double()
    cost, plenty = AllocationCost(4.0, 1.0, 8.0), AllocationCost(4.0, 1.0, 1000.0)
    scaled, alone, best = (
        scaled_newsvendor(cost, members),
        scaled_newsvendor(plenty, members),
        optimal_action(cost, members),
    )
    torch.testing.assert_close(scaled.sum(-1), alone.sum(-1).clamp(max=8.0))
    torch.testing.assert_close(scaled[:, 0] * alone[:, 1], scaled[:, 1] * alone[:, 0])
    expected = [cost(action[:, None], members).mean(1) for action in (scaled, best)]
    assert bool((expected[1] <= expected[0] + 1e-9).all())
    shares = [share for share in itertools.product(np.arange(0, 8.5, 0.5), repeat=2) if sum(share) <= 8]
    tried = torch.tensor(np.array(shares))[:, None, None]  # of every case and member
    torch.testing.assert_close(cost(tried, members).mean(-1).amin(0), expected[1])


def test_the_capacity_binds_on_half_of_the_validation_days() -> None:
    problem = bakery_problem()
    assert isinstance(problem.cost, AllocationCost)
    assert problem.cost.budget == 5142
    spent = problem.measures["capacity_binds"](torch.tensor([[5000.0, 142.0], [5000.0, 100.0]]), torch.zeros(2, 2))
    assert spent.tolist() == [1.0, 0.0]
    (plan,) = BAKERY_PLANS
    candidates = next(source for source in plan.sources if source.name == "scaled").make(problem, 0, QUICK)
    orders = candidates["scaled ridge recent"].validation
    assert orders is not None
    assert bool((orders.sum(-1) <= 5142 * (1 + 1e-6)).all())


def made_record(values: dict[str, NDArray[np.float64]], start: str = "2017-10-01") -> Record:
    count = len(next(iter(values.values())))
    times = np.datetime64(start, "s") + np.timedelta64(86400, "s") * np.arange(count)
    table = np.column_stack(list(values.values()))
    return Record("made", "made up", times, table, tuple(values), ("piece",) * len(values), "", "")


def shops(days: int = 400) -> dict[str, NDArray[np.float64]]:
    """Two shops that are open, one that is mostly closed, and a product that hardly anybody wants."""
    day = np.arange(days, dtype=np.float64)
    closed = np.where(day % 2 == 0, 0.0, 500.0)
    return {
        "demand_7_101": 100 + day,
        "demand_8_101": 200 + day % 7,
        "demand_9_101": closed,
        "demand_7_109": np.full(days, 1.0),
        "demand_7_110": np.full(days, 2.0),
        "is_holiday": (day == 50).astype(np.float64),
        "rain_2": day / 10,
    }


def test_features_by_hand() -> None:
    days = bakery_days(made_record(shops()))
    assert (days.product, days.shops) == ("101", ("7", "8"))
    place = list(days.days).index(np.datetime64("2017-10-01") + 50)
    np.testing.assert_allclose(days.demand[place], [150, 201])
    weekdays = [np.mean([143, 136, 129, 122]), 201]  # the same weekdays of the four weeks before
    week = [np.mean(100 + np.arange(42, 49)), np.mean(200 + np.arange(7))]  # two to eight days before
    np.testing.assert_allclose(days.features[place, :6], [*weekdays, *week, 1.0, 5.0])
    assert days.features[place, 6:].sum() == 1.0
    assert days.features.shape[1] == 13
    assert days.days[0] == np.datetime64("2017-10-08")  # the first with a same weekday before it


def test_days_on_which_a_shop_is_closed_are_left_out() -> None:
    values = shops()
    values["demand_8_101"][60] = 0.0
    days = bakery_days(made_record(values))
    assert np.datetime64("2017-10-01") + 60 not in days.days
    later = list(days.days).index(np.datetime64("2017-10-01") + 67)
    assert days.features[later, 1] == 200 + 67 % 7  # the mean of the other three weeks, all alike


def test_parts_by_their_dates() -> None:
    train, validation, test = bakery_cases(bakery_days(made_record(shops())))
    assert train.times is not None
    assert validation.times is not None
    assert test.times is not None
    assert (train.times[-1], validation.times[0]) == (np.datetime64("2017-12-31"), np.datetime64("2018-01-01"))
    assert (validation.times[-1], test.times[0]) == (np.datetime64("2018-06-30"), np.datetime64("2018-07-01"))


def test_the_record_of_the_package() -> None:
    days = bakery_days()
    assert len(days.shops) == 21
    assert (days.demand > 0).all()
    assert np.isfinite(days.features).all()
