from dataclasses import replace
from itertools import pairwise

import pytest

from reproduction.plan import planned_studies
from reproduction.reproduce import Effort, expected_effort
from stakes.training.execution import Execution

ONE = Execution("cpu", workers=1)


def test_more_studies_take_longer() -> None:
    planned = planned_studies(["synthetic", "wind"], quick=True)
    planned = [replace(study, settings={**study.settings, "training.epochs": 5000}) for study in planned]
    efforts = [expected_effort(planned[:count], ONE) for count in range(1, len(planned) + 1)]
    for less, more in pairwise(efforts):
        assert more.models > less.models
        assert more.minutes > less.minutes
        assert more.memory >= less.memory


def test_runs_that_studies_share_are_counted_once() -> None:
    (study,) = (each for each in planned_studies(["frost"], model="implicit") if each.choice == "main")
    once = expected_effort([study], ONE)
    assert expected_effort([study, study], ONE) == once
    assert once.models == len(study.sweep.runs)


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
    assert Effort(models, minutes, 2.3).sentence(quick).startswith(sentence)
