"""Files of forecast hubs through the commands: several targets, and horizons."""

import numpy as np
import pandas as pd
import pytest
from calls import called, complaint


def test_one_target_of_a_hub_is_chosen_and_its_horizons_are_kept() -> None:
    days = pd.date_range("2020-01-01", periods=80, freq="7D", name="target_end_date")
    base, happened = (10 + np.random.default_rng(seed).normal(size=80).round(3) for seed in (0, 1))
    scales, ahead = {"flu": 1, "rsv": 1000}, [place % 3 + 1 for place in range(80)]
    cells = [(place, target, level) for place in range(80) for target in scales for level in (0.1, 0.5, 0.9)]
    rows = [
        (days[place], ahead[place], target, "quantile", level, scales[target] * (base[place] + level))
        for place, target, level in cells
    ]
    names = ["target_end_date", "horizon", "target", "output_type", "output_type_id", "value"]
    pd.DataFrame(rows, columns=names).to_csv("hub.csv", index=False)
    seen = [(day, target, scales[target] * at) for day, at in zip(days, happened, strict=True) for target in scales]
    pd.DataFrame(seen, columns=["target_end_date", "target", "observation"]).to_csv("seen.csv", index=False)
    cost, chosen = ("--cost", "newsvendor:underage=9,overage=1,upper=99"), ("--variable", "flu")
    assert "--variable 'flu'" in complaint("decide", "--members", "hub.csv", *cost)
    assert "'covid'" in complaint("decide", "--members", "hub.csv", *cost, "--variable", "covid")
    for sites in ((), ("--sites", "each")):
        words = ("decide", "--members", "hub.csv", *cost, *chosen, *sites, "--out", "decided.csv", "--force")
        assert called(*words)[0] == 0
        decided = pd.read_csv("decided.csv")
        assert decided["horizon"].tolist() == ahead
        assert decided["quantile_0.5"].tolist() == pytest.approx(list(base + 0.5))
    assert called("evaluate", "--members", "hub.csv", "--outcomes", "seen.csv", *cost, *chosen)[0] == 0
    learned = ("--forecast", "hub.csv", "--outcome", "observation", "--lead", "168", "--decision-weights", "none")
    code, _, errors = called("recalibrate", "seen.csv", *learned, *cost, *chosen, "--out", "flu")
    assert code == 0, errors
    assert called("decide", "flu", "hub.csv", "--out", "new.csv")[0] == 0
    assert pd.read_csv("new.csv")["horizon"].tolist() == ahead
