"""Every claim holds where the data say so and fails where they say the contrary."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

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


@pytest.mark.parametrize(("start", "slope", "found"), [(0.2, 0.2, "holds"), (0.6, -0.2, "fails"), (0.2, -0.1, "fails")])
def test_mode_mass(start: float, slope: float, found: Verdict) -> None:
    assert verdict("S1", altered(synthetic(), mass_hazard=lambda base, w: 0 * base + start + slope * w)) == found


def test_tracking() -> None:
    assert verdict("S2", altered(synthetic(), tracking=scaled(-0.5))) == "holds"
    assert verdict("S2", altered(synthetic(), tracking=scaled(0.5))) == "fails"
    back_again = altered(synthetic(), tracking=lambda base, w: base * (1 - w + (w > 0.7) * 0.5))
    assert verdict("S2", back_again) == "fails"


def test_troughs() -> None:
    assert verdict("S4", altered(synthetic(), tracking=lambda base, w: 0 * base + 0.1 + 0 * w)) == "holds"
    assert verdict("S4", altered(synthetic(), tracking=lambda base, w: 0.1 + 0 * base - 0.1 * w)) == "fails"


def test_spread_within_modes() -> None:
    quartiles = {name: norm.ppf(0.75) * 2 * deviation * 0.8 for name, deviation in MODE_DEVIATIONS.items()}
    tight = altered(
        synthetic(),
        quartiles_calm=lambda base, w: 0 * base.fillna(0) + quartiles["calm"] + 0 * w,
        quartiles_hazard=lambda base, w: 0 * base.fillna(0) + quartiles["hazard"] + 0 * w,
    )
    assert (verdict("S5", tight), verdict("S5", synthetic())) == ("holds", "fails")


def test_true_deviations_of_the_modes() -> None:
    features = torch.rand(2000, 1, generator=torch.Generator().manual_seed(0))
    outcomes = SyntheticTask().draw_outcomes(features, 50, torch.Generator().manual_seed(1))
    for name, region in SyntheticTask().regions.items():
        assert outcomes[region(outcomes)].std().item() == pytest.approx(MODE_DEVIATIONS[name], rel=0.02)


def test_cut_off_gains() -> None:
    gains = {metric: scaled(-0.3) for metric in ("energy_score", "miscalibration")}
    better = altered(wind(), **gains, cost=lambda base, w: 0 * base + 0.5 - 0.3 * w)
    assert verdict("W1", better) == "holds"
    assert verdict("W1", altered(better, cost=lambda base, w: 0 * base + 0.5 + 0.3 * w)) == "fails"
    first = CLAIMS["W1"]._judged([better], "main").checks[0]
    assert (first.effect.mean, first.paper) == (pytest.approx(-27), -11.0)


def test_median_shift() -> None:
    study = wind()
    curve = task_of(study).power_curve  # type: ignore[attr-defined]
    speed = torch.from_numpy(study.case_values("outcome")[0])
    slope = torch.func.vmap(torch.func.grad(curve))(speed).numpy()
    beyond = speed.numpy() * curve.hub_factor >= curve.cutoff_speed
    follows = xr.DataArray(np.where(beyond, 0.1, -slope), dims="case")
    assert verdict("W5", altered(study, quantile=lambda base, w: base + follows * w)) == "holds"
    assert verdict("W5", altered(study, quantile=lambda base, w: base - follows * w)) == "fails"


def test_warm_bias() -> None:
    assert verdict("F3", altered(frost(), error=lambda base, w: 0 * base + 1 - w)) == "holds"
    assert verdict("F3", altered(frost(), error=lambda base, w: 0 * base - 1 + w)) == "fails"
    assert verdict("F3", altered(frost(), error=lambda base, w: 0 * base + 1 + w)) == "fails"


def test_spread_collapse() -> None:
    collapses: Change = lambda base, w: base * (1 - 0.5 * (w > 0.5))
    assert verdict("F5", altered(frost(), spread=collapses)) == "holds"
    assert verdict("F5", altered(frost(), spread=scaled(-0.05))) == "fails"


def test_cold_mode() -> None:
    observed = xr.DataArray(frost().case_values("observed_frost")[0].astype(float), dims="case")
    assert verdict("F8", altered(frost(), mass_frost=lambda base, w: 0 * base + observed - 0.2 + 0.4 * w)) == "holds"
    assert verdict("F8", altered(frost(), mass_frost=lambda base, w: 0 * base + observed - 0.2 - 0.1 * w)) == "fails"


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


def test_decision_loss_alone() -> None:
    study = made_studies("wind", "decision_alone").find("wind", "implicit", "decision_alone")
    assert verdict("M2", altered(study, energy_score=scaled(0.5))) == "holds"
    assert verdict("M2", altered(study, energy_score=scaled(0.05))) == "fails"


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


def by_parameter(study: Study) -> xr.DataArray:
    """The parameter over the largest one."""
    return study.forecasts["parameter"] / max(study.parameters)


def of_case(study: Study, name: str) -> xr.DataArray:
    return xr.DataArray(study.case_values(name)[0].astype(float), dims="case")


def test_aggregate_improvements() -> None:
    metrics = ("energy_score", "cost", "miscalibration")
    assert verdict("S3", altered(synthetic(), **dict.fromkeys(metrics, scaled(-0.2)))) == "holds"
    for metric in metrics:
        assert (
            verdict("S3", altered(synthetic(), **dict.fromkeys(metrics, scaled(-0.2)) | {metric: scaled(0.1)}))
            == "fails"
        )


def test_peaks() -> None:
    feature = synthetic().cases["feature"].isel(parameter=0, drop=True)
    true = 0.4 + 0.38 * np.sin(6 * np.pi * feature)
    assert verdict("S6", altered(synthetic(), mass_hazard=lambda base, w: 0 * base + true - 0.1 + 0.2 * w)) == "holds"
    assert verdict("S6", altered(synthetic(), mass_hazard=lambda base, w: 0 * base + true - 0.1 - 0.1 * w)) == "fails"


def test_trade_off() -> None:
    score: Change = lambda base, w: base * (1 + 0.2 * w**4)
    balanced = altered(wind(), cost=lambda base, w: base - 0.2 * w.clip(max=0.6), energy_score=score)
    assert verdict("W2", balanced) == "holds"
    assert verdict("W2", altered(balanced, cost=lambda base, w: base - w)) == "fails"
    assert verdict("W2", altered(balanced, energy_score=scaled(-0.1))) == "fails"


def test_rated_and_ramp() -> None:
    rated, ramp = (of_case(wind(), f"observed_{name}") for name in ("rated", "ramp"))
    worse = altered(
        wind(),
        energy_score=lambda base, w: base * (1 + 0.1 * w * rated),
        cost=lambda base, w: base + 0.1 * w * rated,
    )
    assert verdict("W3", worse) == "holds"
    assert verdict("W3", altered(worse, cost=lambda base, w: base + 0.1 * w * (rated + ramp))) == "fails"
    assert (
        verdict("W3", altered(worse, energy_score=lambda base, w: base * (1 + (w - 2 * (w == 0.5)) * rated))) == "fails"
    )


def test_growth_with_the_penalty() -> None:
    growth = by_parameter(wind())
    grows: Change = lambda base, w: 0 * base + 1 - 0.5 * w * growth
    late: Change = lambda base, w: base * (1 + 0.1 * (w - 0.5) ** 2 - 0.02)
    study = altered(wind(), cost=grows, miscalibration=grows, energy_score=late)
    assert verdict("W4", study) == "holds"
    assert verdict("W4", altered(study, cost=lambda base, w: 0 * base + 1 - 0.5 * w * (1 - growth))) == "fails"
    assert verdict("W4", altered(study, energy_score=scaled(-0.1))) == "fails"


def test_both_sides_of_calibration() -> None:
    closing = altered(
        wind(), cost=lambda base, w: 0 * base + 1 - 0.5 * w, expected_cost=lambda base, w: 0 * base + 0.1 + 0.2 * w
    )
    assert verdict("W6", closing) == "holds"
    assert verdict("W6", altered(closing, expected_cost=lambda base, w: 0 * base + 1 - 0.5 * w)) == "fails"


def test_wind_with_diffusion() -> None:
    growth = by_parameter(wind())
    cut_off = of_case(wind(), "observed_cut-off")
    study = altered(
        wind(),
        energy_score=lambda base, w: base * (1 - 0.2 * w + 0.25 * w**2 * (w > 0.5)),
        cost=lambda base, w: 0 * base + 5 - 0.5 * w * growth * cut_off,
        miscalibration=lambda base, w: 0 * base + 1 - 0.5 * w * growth,
    )
    assert verdict("W7", study) == "holds"
    assert verdict("W7", altered(study, energy_score=scaled(-0.1))) == "fails"
    assert verdict("W7", altered(study, cost=lambda base, w: 0 * base + 5 - w)) == "fails"


def test_frost_score_and_cost() -> None:
    growth = by_parameter(frost())
    study = altered(
        frost(),
        energy_score=lambda base, w: base * (1 + 0.2 * w * (2 - growth)),
        cost=lambda base, w: base * (1 - 0.01 * w),
    )
    assert verdict("F1", study) == "holds"
    assert verdict("F1", altered(study, energy_score=lambda base, w: base * (1 + 0.2 * w * growth))) == "fails"
    assert verdict("F1", altered(study, cost=scaled(-0.1))) == "fails"


def test_frost_calibration() -> None:
    growth = by_parameter(frost())
    study = altered(frost(), miscalibration=lambda base, w: 0 * base + 1 - 0.4 * w * growth)
    assert verdict("F2", study) == "holds"
    assert verdict("F2", altered(frost(), miscalibration=scaled(0.4))) == "fails"


def test_deep_cold() -> None:
    cold = replace(frost(), cases=frost().cases.assign(outcome=frost().cases["outcome"] - 10))
    level = frost().forecasts["level"]
    assert verdict("F4", altered(cold, quantile=lambda base, w: base - level * w)) == "holds"
    assert verdict("F4", altered(cold, quantile=lambda base, w: base + (level - 1) * w)) == "fails"


def test_frost_regimes() -> None:
    calm, cold = (of_case(frost(), f"observed_{name}") for name in ("no frost", "frost"))
    assert verdict("F6", altered(frost(), miscalibration=lambda base, w: base * (1 - 0.3 * w * calm))) == "holds"
    assert verdict("F6", altered(frost(), miscalibration=lambda base, w: base * (1 - 0.3 * w * cold))) == "fails"


def test_frost_with_diffusion() -> None:
    study = altered(
        frost(),
        error=lambda base, w: 0 * base - 1 - 0 * w,
        energy_score=scaled(0.2),
        miscalibration=scaled(-0.2),
    )
    assert verdict("F7", study) == "holds"
    assert verdict("F7", altered(study, error=lambda base, w: 0 * base - 1 + w)) == "fails"
    assert verdict("F7", altered(study, energy_score=lambda base, w: base * (1 + w - (w > 0.5)))) == "fails"
    assert verdict("F7", altered(study, miscalibration=scaled(0.1))) == "fails"


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
