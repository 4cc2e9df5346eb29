"""Every claim holds where the data say so and fails where they say the contrary."""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from made_studies import made_studies
from scipy.stats import norm

from reproduction.claims import claim as effects
from reproduction.claims import method
from reproduction.claims.claim import Judgement, task_of
from reproduction.claims.judging import all_claims
from reproduction.claims.synthetic import MODE_DEVIATIONS
from reproduction.claims_part import Verdict
from reproduction.study import Study
from reproduction.tasks.synthetic import SyntheticTask
from stakes.costs.scalar_costs import ProtectionCost, WindDispatchCost
from stakes.programs.convex_actions import cost_function

Change = Callable[[xr.DataArray, xr.DataArray], xr.DataArray]  # values at weight 0 and the weights to new values
CLAIMS = {claim.identifier: claim for claim in all_claims()}


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method, "_SETS", 600)
    monkeypatch.setattr(method, "_ROUNDS", 2)


def altered(study: Study, **changes: Change) -> Study:
    """The study with each metric made anew from its values at weight 0."""
    forecasts, weights = study.forecasts, study.forecasts["decision_weight"]
    order = forecasts["cost"].dims
    made = {}
    for metric, change in changes.items():
        base = forecasts[metric].sel(decision_weight=0.0, drop=True)
        dims = (*order, "level") if metric == "quantile" else order
        made[metric] = change(base, weights).broadcast_like(forecasts[metric]).transpose(*dims)
    if "cost" in made:  # perfect foresight costs what it did
        foresight = (forecasts["cost"] - forecasts["foresight_regret"]).sel(decision_weight=0.0, drop=True)
        made["foresight_regret"] = (made["cost"] - foresight).transpose(*order)
    return replace(study, forecasts=forecasts.assign(made))


def scaled(share: float) -> Change:
    """A metric that changes by this share of itself at weight 1."""
    return lambda base, weight: base * (1 + share * weight)


def regret(study: Study) -> xr.DataArray:
    """The cost above perfect foresight at weight 0."""
    return study.forecasts["foresight_regret"].sel(decision_weight=0.0, drop=True)


def verdict(identifier: str, *studies: Study) -> Verdict:
    return CLAIMS[identifier]._judged(list(studies), "main").verdict


def synthetic() -> Study:
    return made_studies("synthetic").find("synthetic", "diffusion")


def wind() -> Study:
    return made_studies("wind").find("wind", "implicit")


def frost() -> Study:
    return made_studies("frost").find("frost", "implicit")


def flat(value: Any, slope: Any = 0.0) -> Change:
    """A metric of this value, and so much more at weight 1."""
    return lambda base, w: 0 * base + value + slope * w


def growth(base: xr.DataArray) -> xr.DataArray:
    """The parameter over the largest one."""
    return base["parameter"] / base["parameter"].max()


def of_case(study: Study, name: str) -> xr.DataArray:
    return xr.DataArray(study.case_values(f"observed_{name}")[0].astype(float), dims="case")


Changes = dict[str, Change]
Scene = tuple[Study, Changes, list[Changes]]  # what makes the claim hold, and what makes it fail after that
BETTER = ("energy_score", "cost", "miscalibration")


def spread_within_modes() -> Scene:
    wide = {f"quartiles_{name}": norm.ppf(0.75) * 2 * deviation for name, deviation in MODE_DEVIATIONS.items()}
    tight, loose = (
        {name: lambda base, w, value=share * value: 0 * base.fillna(0) + value + 0 * w for name, value in wide.items()}
        for share in (0.8, 1.2)
    )
    return synthetic(), tight, [loose]


def peaks() -> Scene:
    feature = synthetic().cases["feature"].isel(parameter=0, drop=True)
    below = 0.4 + 0.38 * np.sin(6 * np.pi * feature) - 0.1
    return synthetic(), {"mass_hazard": flat(below, 0.2)}, [{"mass_hazard": flat(below, -0.1)}]


def rated_and_ramp() -> Scene:
    rated, ramp = (of_case(wind(), name) for name in ("rated", "ramp"))
    worse: Changes = {"cost": lambda base, w: base + 0.1 * w * rated}
    worse["energy_score"] = lambda base, w: base * (1 + 0.1 * w * rated)
    both: Change = lambda base, w: base + 0.1 * w * (rated + ramp)
    back: Change = lambda base, w: base * (1 + (w - 2 * (w == 0.5)) * rated)
    return wind(), worse, [{"cost": both}, {"energy_score": back}]


def growth_with_the_penalty() -> Scene:
    grows: Change = lambda base, w: 0 * base + 1 - 0.5 * w * growth(base)
    late: Change = lambda base, w: base * (1 + 0.1 * (w - 0.5) ** 2 - 0.02)
    shrinks: Change = lambda base, w: 0 * base + 1 - 0.5 * w * (1 - growth(base))
    holds = {"cost": grows, "miscalibration": grows, "energy_score": late}
    return wind(), holds, [{"cost": shrinks}, {"energy_score": scaled(-0.1)}]


def wind_with_diffusion() -> Scene:
    cut_off = of_case(wind(), "cut-off")
    holds: Changes = {
        "energy_score": lambda base, w: base * (1 - 0.2 * w + 0.25 * w**2 * (w > 0.5)),
        "cost": lambda base, w: 0 * base + 5 - 0.5 * w * growth(base) * cut_off,
        "miscalibration": lambda base, w: 0 * base + 1 - 0.5 * w * growth(base),
    }
    return wind(), holds, [{"energy_score": scaled(-0.1)}, {"cost": flat(5, -1)}]


def deep_cold() -> Scene:
    cold = replace(frost(), cases=frost().cases.assign(outcome=frost().cases["outcome"] - 10))
    level = frost().forecasts["level"]
    wider: Change = lambda base, w: base - level * w
    return cold, {"quantile": wider}, [{"quantile": lambda base, w: base + (level - 1) * w}]


def frost_regimes() -> Scene:
    calm, cold = (of_case(frost(), name) for name in ("no frost", "frost"))
    in_calm: Change = lambda base, w: base * (1 - 0.3 * w * calm)
    return frost(), {"miscalibration": in_calm}, [{"miscalibration": lambda base, w: base * (1 - 0.3 * w * cold)}]


def cold_mode() -> Scene:
    below = of_case(frost(), "frost") - 0.2
    return frost(), {"mass_frost": flat(below, 0.4)}, [{"mass_frost": flat(below, -0.1)}]


def decision_alone() -> Study:
    return made_studies("wind", "decision_alone").find("wind", "implicit", "decision_alone")


SCENES: dict[str, Callable[[], Scene]] = {
    "S1": lambda: (synthetic(), {"mass_hazard": flat(0.2, 0.2)}, [{"mass_hazard": flat(0.6, -0.2)}]),
    "S2": lambda: (
        *(synthetic(), {"tracking": scaled(-0.5)}),
        [{"tracking": scaled(0.5)}, {"tracking": lambda base, w: base * (1 - w + (w > 0.7) * 0.5)}],
    ),
    "S3": lambda: (
        *(synthetic(), dict.fromkeys(BETTER, scaled(-0.2))),
        [{metric: scaled(0.1)} for metric in BETTER],
    ),
    "S4": lambda: (synthetic(), {"tracking": flat(0.1)}, [{"tracking": flat(0.1, -0.1)}]),
    "S5": spread_within_modes,
    "S6": peaks,
    "W1": lambda: (
        wind(),
        {"energy_score": scaled(-0.3), "miscalibration": scaled(-0.3), "cost": flat(0.5, -0.3)},
        [{"cost": flat(0.5, 0.3)}],
    ),
    "W2": lambda: (
        wind(),
        {
            "cost": lambda base, w: base - 0.2 * w.clip(max=0.6),
            "energy_score": lambda base, w: base * (1 + 0.2 * w**4),
        },
        [{"cost": lambda base, w: base - w}, {"energy_score": scaled(-0.1)}],
    ),
    "W3": rated_and_ramp,
    "W4": growth_with_the_penalty,
    "W6": lambda: (
        *(wind(), {"cost": flat(1, -0.5), "expected_cost": flat(0.1, 0.2)}),
        [{"expected_cost": flat(1, -0.5)}],
    ),
    "W7": wind_with_diffusion,
    "F1": lambda: (
        frost(),
        {"energy_score": lambda base, w: base * (1 + 0.2 * w * (2 - growth(base))), "cost": scaled(-0.01)},
        [{"energy_score": lambda base, w: base * (1 + 0.2 * w * growth(base))}, {"cost": scaled(-0.1)}],
    ),
    "F2": lambda: (
        frost(),
        {"miscalibration": lambda base, w: 0 * base + 1 - 0.4 * w * growth(base)},
        [{"miscalibration": scaled(0.4)}],
    ),
    "F3": lambda: (frost(), {"error": flat(1, -1)}, [{"error": flat(-1, 1)}, {"error": flat(1, 1)}]),
    "F4": deep_cold,
    "F5": lambda: (
        *(frost(), {"spread": lambda base, w: base * (1 - 0.5 * (w > 0.5))}),
        [{"spread": scaled(-0.05)}],
    ),
    "F6": frost_regimes,
    "F7": lambda: (
        frost(),
        {"error": flat(-1), "energy_score": scaled(0.2), "miscalibration": scaled(-0.2)},
        [
            {"error": flat(-1, 1)},
            {"energy_score": lambda base, w: base * (1 + w - (w > 0.5))},
            {"miscalibration": scaled(0.1)},
        ],
    ),
    "F8": cold_mode,
    "M2": lambda: (decision_alone(), {"energy_score": scaled(0.5)}, [{"energy_score": scaled(0.05)}]),
}


@pytest.mark.parametrize("identifier", SCENES)
def test_a_claim_holds_where_the_data_say_so_and_fails_where_they_say_the_contrary(identifier: str) -> None:
    study, holds, contraries = SCENES[identifier]()
    holding = altered(study, **holds)
    assert verdict(identifier, holding) == "holds"
    for contrary in contraries:
        assert verdict(identifier, altered(holding, **contrary)) == "fails"
    if identifier == "W1":
        first = CLAIMS["W1"]._judged([holding], "main").checks[0]
        assert (first.effect.mean, first.paper) == (pytest.approx(-27), -11.0)


def test_true_deviations_of_the_modes() -> None:
    features = torch.rand(2000, 1, generator=torch.Generator().manual_seed(0))
    outcomes = SyntheticTask().draw_outcomes(features, 50, torch.Generator().manual_seed(1))
    for name, region in SyntheticTask().regions.items():
        assert outcomes[region(outcomes)].std().item() == pytest.approx(MODE_DEVIATIONS[name], rel=0.02)


def test_median_shift() -> None:
    study = wind()
    curve = task_of(study).power_curve  # type: ignore[attr-defined]
    speed = torch.from_numpy(study.case_values("outcome")[0])
    slope = torch.func.vmap(torch.func.grad(curve))(speed).numpy()
    beyond = speed.numpy() * curve.hub_factor >= curve.cutoff_speed
    follows = xr.DataArray(np.where(beyond, 0.1, -slope), dims="case")
    assert verdict("W5", altered(study, quantile=lambda base, w: base + follows * w)) == "holds"
    assert verdict("W5", altered(study, quantile=lambda base, w: base - follows * w)) == "fails"


def test_onset() -> None:
    early = altered(frost(), miscalibration=scaled(-0.5))
    above = 0.5 * regret(wind())
    late = altered(wind(), cost=lambda base, w: base - above * (w >= 0.5))
    assert verdict("F9", early, late) == "holds"
    assert verdict("F9", early, altered(wind(), cost=lambda base, w: base - above * w)) == "fails"
    onsets = [check.effect.mean for check in CLAIMS["F9"]._judged([early, late], "main").checks if not check.counts]
    assert onsets == [0.1, 0.5]


def test_gradient_by_region() -> None:
    study = wind()
    interior = study.forecasts["interior"].isel(parameter=0, decision_weight=0, drop=True)
    at_bound = interior.copy(data=np.arange(interior.size).reshape(interior.shape) % 3 == 0)
    bounded = altered(study, interior=lambda base, w: 0 * base + (1 - at_bound) + 0 * w)

    def of_member(region: str, size: float) -> Change:
        return lambda base, w: 0 * base + size * study.forecasts[f"mass_{region}"]

    sizes = {"ramp": 1.0, "rated": 0.01, "cut-off": 1.0}
    of_members = {f"gradient_{region}": of_member(region, size) for region, size in sizes.items()}
    quiet = altered(bounded, gradient=lambda base, w: (1 - at_bound) + 0 * base * w, **of_members)
    assert verdict("M1", quiet) == "holds"
    assert verdict("M1", altered(quiet, gradient=lambda base, w: 0 * base + 1 + 0 * w)) == "fails"
    assert verdict("M1", altered(quiet, gradient_rated=of_member("rated", 0.5))) == "fails"
    nowhere = CLAIMS["M1"]._judged([altered(quiet, interior=lambda base, w: 0 * base + 1 + 0 * w)], "main")
    assert (nowhere.verdict, nowhere.note) == ("open", "no forecast of this study has its best action at a bound")


def test_overhead_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method, "_layer_seconds", lambda members, steps: 1e-3 * members * steps)
    checks = list(CLAIMS["O1"].judge())
    assert [check.effect.mean for check in checks if check.counts] == pytest.approx([1900, 1900])
    monkeypatch.setattr(method, "_layer_seconds", lambda members, steps: 1.0 / members)
    assert Judgement(CLAIMS["O1"], "main", tuple(CLAIMS["O1"].judge())).verdict == "fails"


def test_curvature_of_random_sets() -> None:
    outcomes = torch.linspace(-3, 3, 100, dtype=torch.float64)[:, None]
    protection = ProtectionCost(0.0, 0.5, sharpness=2.0)
    assert method._interior_curvature(protection, outcomes, 200, seed=0) > 2 * 0.5 / 2.5
    assert method._interior_curvature(WindDispatchCost(5.0), outcomes + 8, 200, seed=0) > 0
    concave = cost_function(lambda a, y: -((a - 0.5) ** 2) + 0 * y, 0.0, 1.0)
    assert method._interior_curvature(concave, outcomes, 200, seed=0) == inf  # no solution is interior


def test_convexity_of_the_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict("T1", frost(), wind(), synthetic()) == "holds"
    assert CLAIMS["T1"].judgements(made_studies("wind"))[0].verdict == "holds"
    monkeypatch.setattr(method, "_interior_curvature", lambda *_, **__: 0.1)
    assert verdict("T1", frost()) == "fails"
    monkeypatch.setattr(method, "_interior_curvature", lambda *_, **__: inf)
    assert verdict("T1", wind()) == "open"


def without(study: Study, weight: float) -> Study:
    """The study after its second seed failed at a weight."""
    failed = (study.forecasts["decision_weight"] == weight) & (study.forecasts["seed"] == study.forecasts["seed"][1])
    return replace(study, forecasts=study.forecasts.where(~failed))


def test_a_seed_that_failed_makes_no_difference() -> None:
    levels: Change = lambda base, w: base + 0 * w + 10 * base["seed"]
    study = without(altered(frost(), energy_score=levels, gap=levels), 0.9)
    assert effects.relative_change(study, "energy_score", 0.9, 0.5, "frost").interval() == (0.0, 0.0, 0.0)
    assert effects.changes_by_weight(study, "energy_score", 0.5)[0.9].interval() == (0.0, 0.0, 0.0)
    assert effects.gap_change(study, 0.9, 0.5).interval() == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("identifier", "colder"), [("F4", 10.0), ("F5", 0.0)])
def test_cases_are_chosen_by_the_medians_that_there_are(identifier: str, colder: float) -> None:
    study = altered(frost(), quantile=lambda base, w: base - colder - 0.1 * w)
    study = replace(study, cases=study.cases.assign(outcome=study.cases["outcome"] - colder))
    checks = CLAIMS[identifier]._judged([without(study, 0.0)], "main").checks
    by_forecast = [check.effect.mean for check in checks if "forecast (median)" in check.what]
    assert by_forecast
    assert np.isfinite(by_forecast).all()
