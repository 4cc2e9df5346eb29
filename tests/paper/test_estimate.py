from dataclasses import replace
from itertools import pairwise

import pytest

from stakes.paper.estimate import Estimate, estimate
from stakes.paper.plan import planned_parts
from stakes.training.execution import Execution

ONE = Execution("cpu", workers=1)


def test_more_parts_take_longer() -> None:
    parts = planned_parts(["synthetic", "wind"], quick=True)
    parts = [replace(part, settings={**part.settings, "training.epochs": 5000}) for part in parts]
    found = [estimate(parts[:count], ONE) for count in range(1, len(parts) + 1)]
    for less, more in pairwise(found):
        assert more.models > less.models
        assert more.minutes > less.minutes
        assert more.memory >= less.memory


def test_nothing_to_train_takes_no_time() -> None:
    assert estimate([], ONE).models == 0
    assert estimate([], ONE).minutes <= 1


def test_runs_that_parts_share_are_counted_once() -> None:
    (part,) = (part for part in planned_parts(["frost"], model="implicit") if part.choice == "main")
    once = estimate([part], ONE)
    assert estimate([part, part], ONE) == once
    assert once.models == len(part.sweep().runs)


def test_more_cores_and_a_reduced_run_are_quicker() -> None:
    whole, quick = (estimate(planned_parts(["wind"], reduced), ONE) for reduced in (False, True))
    assert quick.minutes < whole.minutes / 10
    assert quick.models < whole.models
    two = estimate(planned_parts(["wind"]), replace(ONE, workers=2))
    assert two.minutes == pytest.approx(whole.minutes / 2)
    assert two.memory > whole.memory


@pytest.mark.parametrize(
    ("models", "minutes", "quick", "sentence"),
    [
        (
            1,
            1.2,
            True,
            "a reduced run (--quick) of 1 model: about 1 minute and 2 GiB of memory, if nothing is there yet",
        ),
        (9, 15, True, "a reduced run (--quick) of 9 models: about 15 minutes and 2 GiB of memory"),
        (9, 119, False, "the whole run of 9 models: about 119 minutes and 2 GiB of memory"),
        (900, 1200, False, "the whole run of 900 models: about 20 hours and 2 GiB of memory"),
    ],
)
def test_what_to_expect_is_one_sentence(models: int, minutes: float, quick: bool, sentence: str) -> None:
    assert Estimate(models, minutes, 2.3).sentence(quick).startswith(sentence)
