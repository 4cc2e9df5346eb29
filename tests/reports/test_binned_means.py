import numpy as np

from stakes.evaluation.intervals import Resampling
from stakes.reports.drawing import binned_means


def test_bins_go_by_the_key_and_hold_equally_many_cases() -> None:
    key = np.random.default_rng(0).permutation(12).astype(float)
    (means, others) = binned_means(Resampling(12), key, [key, 100 - key], 4)
    assert [round(mean.estimate, 9) for mean in means] == [1.0, 4.0, 7.0, 10.0]
    assert [round(mean.estimate, 9) for mean in others] == [99.0, 96.0, 93.0, 90.0]
