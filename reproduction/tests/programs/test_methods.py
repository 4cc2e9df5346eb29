"""Plans must make what their methods take."""

from dataclasses import replace

import pytest
from small_programs import known, small_plan

from reproduction.programs.problem import CandidateSource, Method
from stakes.errors import SettingError


def test_a_candidate_that_nobody_makes_or_two_do() -> None:
    plan = small_plan()
    with pytest.raises(SettingError, match="every candidate of small must be made once"):
        replace(plan, methods=(*plan.methods, Method("other", "another", ("nowhere",))))
    with pytest.raises(SettingError, match="every candidate of small must be made once"):
        replace(plan, sources=(*plan.sources, CandidateSource("again", known, ("known",))))


def test_a_reference_or_a_pair_that_is_not_there() -> None:
    plan = small_plan()
    with pytest.raises(SettingError, match="small has no method 'best'"):
        replace(plan, reference="best")
    with pytest.raises(SettingError, match="small has no method 'best'"):
        replace(plan, pairs=(("near", "best"),))
    assert plan.method("chosen").candidates == ("near", "far")
