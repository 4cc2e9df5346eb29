import pytest
import torch

from stakes.errors import SettingError, ShapeError
from stakes.evaluation.significance import paired_difference


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = torch.Generator().manual_seed(0)
    covered = 0
    for trial in range(200):
        values = torch.randn(1, 300, generator=generator)
        low, high = paired_difference(values, torch.zeros_like(values), resamples=400, seed=trial)[1:]
        covered += low <= 0 <= high
    assert 182 <= covered <= 199


def test_blocks_widen_the_interval_of_dependent_cases() -> None:
    steps = torch.randn(1, 2000, generator=torch.Generator().manual_seed(1)).cumsum(1)
    smooth = steps - steps.mean()
    alone, blocks = (paired_difference(smooth, torch.zeros_like(smooth), block) for block in (1, 100))
    assert blocks.high - blocks.low > 5 * (alone.high - alone.low)


def test_mean_and_significance() -> None:
    baseline = torch.randn(2, 500, generator=torch.Generator().manual_seed(2))
    difference = paired_difference(baseline - 0.5, baseline)
    assert difference.mean == pytest.approx(-0.5)
    assert difference.significant
    assert not paired_difference(baseline, baseline).significant


def test_bad_input_is_named() -> None:
    with pytest.raises(ShapeError, match="one shape"):
        paired_difference(torch.rand(1, 5), torch.rand(2, 5))
    with pytest.raises(SettingError, match="block"):
        paired_difference(torch.rand(1, 5), torch.rand(1, 5), block=6)
