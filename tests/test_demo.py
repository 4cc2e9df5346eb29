import io
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from stakes import demo


@pytest.mark.parametrize("build", [demo.french_load, demo.simulated_wind])
def test_demo_trains_a_pair_and_compares_it(build: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "TEST_MEMBERS", 10)
    problem = replace(build(), epochs=1)
    ticks: list[None] = []
    plain, aware = demo.train_pair(problem, 0, lambda: ticks.append(None))
    assert len(ticks) == 3
    weights = [torch.cat([parameter.flatten() for parameter in model.parameters()]) for model in (plain, aware)]
    assert not torch.equal(*weights)
    results = [[demo.assess(model, problem, 0)] for model in (plain, aware)]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(demo.compare(problem, *results))
    page = console.export_text()
    for row in ("energy score", "realised cost", "signed calibration gap", "spread of sum", "95 % interval"):
        assert row in page


def test_no_test_case_of_the_french_load_is_a_training_case() -> None:
    problem = demo.french_load()
    assert len(problem.train[0]) == 7256
    assert len(problem.validation[0]) == len(problem.test[0]) == 1428
