from pathlib import Path

import pytest
from refusals import refuses

from stakes.cost_spec.spec import CostSpec, cost_again
from stakes.errors import CostError, SettingError

KEPT = CostSpec.parse("imbalance:short=10,long=1,upper=150,unit=EUR").kept()


def test_a_cost_of_the_library_need_not_be_given_again() -> None:
    assert cost_again(KEPT, None) is KEPT


def test_the_same_cost_takes_the_units_on_record() -> None:
    assert cost_again(KEPT, "imbalance:short=10,long=1,upper=150").unit == "EUR"


@pytest.mark.parametrize(
    "given", ["imbalance:short=9,long=1,upper=150", "imbalance:short=10,long=1,upper=150,unit=USD"]
)
def test_another_cost_is_refused(given: str) -> None:
    refuses(SettingError, "must be that of the fit, as in --cost", cost_again, KEPT, given)


def test_an_own_cost_must_be_given_again_and_be_the_same(own: str) -> None:
    given = f"{own}:ready"
    kept = CostSpec.parse(given).kept()
    refuses(CostError, r"give the file again, as in --cost PATH/costs\.py:ready", cost_again, kept, None)
    assert cost_again(kept, given).path == Path(own)
    refuses(SettingError, r"as in --cost PATH/costs\.py:ready, got", cost_again, kept, "shortfall:penalty=5")
    Path(own).write_text("ready = 5", encoding="utf-8")
    refuses(SettingError, r"the file of the cost 'costs\.py:ready' has changed since the fit", cost_again, kept, given)
