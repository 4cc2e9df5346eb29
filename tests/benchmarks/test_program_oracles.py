"""Who is right where two solvers disagree."""

from collections import Counter

import numpy as np
import pytest
from core.quadratic_programs import Answer, QuadraticProgram

from benchmarks.program_oracles import judged, merged, true_verdict
from benchmarks.smoothed_gradient import interval

ONE, NONE = np.ones((1, 1)), np.zeros((0, 1))


def program(limits: list[float], right: list[float], curved: float = 0.0) -> QuadraticProgram:
    """Minimise x + curved / 2 x^2 with some limits."""
    return QuadraticProgram(curved * ONE, ONE[0], NONE, NONE[:, 0], np.array(limits)[:, None], np.array(right))


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (program([-1.0], [2.0]), "optimal"),
        (program([1.0], [2.0]), "unbounded"),
        (program([1.0], [2.0], curved=1.0), "optimal"),
        (program([1.0, -1.0], [1.0, -2.0]), "infeasible"),
    ],
)
def test_verdicts(of: QuadraticProgram, expected: str) -> None:
    assert true_verdict(of) == expected
    assert of.clarabel().verdict == expected
    wrong = judged(of, Answer("unknown", np.zeros(1), np.zeros(1)), of.clarabel(), 1.0)
    assert (wrong["ours is right"], wrong["theirs is right"]) == (False, True)


def test_an_objective_that_is_off_is_noticed() -> None:
    of = program([-1.0], [2.0])
    right = of.clarabel()
    off = Answer("optimal", right.x + 1e-3, right.y, right.objective + 1e-3)
    assert not judged(of, off, right, 1.0)["ours is right"]
    assert judged(of, right, off, 1.0)["ours is right"]


def test_parts_of_a_kind_are_added_up() -> None:
    part = {"programs": 2, "verdicts": Counter(optimal=2), "largest difference": 1.0, "apart": [{"seed": 0}]}
    assert merged([part, part | {"largest difference": 3.0}]) == {
        "programs": 4, "verdicts": Counter(optimal=4), "largest difference": 3.0, "apart": [{"seed": 0}] * 2,
    }  # fmt: skip


def test_students_interval() -> None:
    assert interval([1.0, 3.0]) == [2.0, pytest.approx(2 - 12.706), pytest.approx(2 + 12.706)]
