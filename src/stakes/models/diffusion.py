"""The distributional diffusion model: a denoiser that samples, and its reverse chain."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from stakes.argument_checks import require_count, require_counts, require_one_of
from stakes.errors import SettingError
from stakes.models.networks import FiLMNetwork, sinusoidal_embedding
from stakes.models.noise import draw_normal, draw_shared, draw_structured
from stakes.models.sample_model import FeatureScaling, ScaledModel, Scaling, TrainingDraw, TrainingNoise, cases_at_once

Prediction = Literal["epsilon", "target", "v"]
"""What the network predicts; see `DiffusionModel`."""

DecisionWeighting = Literal["paper", "signal", "snr"]
"""The weight of the decision term at each noise level; see `DiffusionModel`."""

_TIME_EMBEDDING = 16


class NoiseSchedule(nn.Module):
    """The signal left at step t of T: y_t = sqrt(s_t) y_0 + sqrt(1 - s_t) epsilon, s = alpha-bar.

    The variances beta_t rise linearly. DDPM's endpoints (1e-4, 0.02) are made for T = 1000: at T = 100 they leave 36 %
    of the signal, so that a chain from pure noise starts from the wrong distribution. "scaled" multiplies them by
    1000 / T, "raw" keeps them. `signal` holds s_0 = 1 to s_T, (T + 1,).
    """

    signal: Tensor

    def __init__(self, steps: int = 100, endpoints: Literal["scaled", "raw"] = "scaled") -> None:
        super().__init__()
        require_one_of("endpoints", endpoints, ("scaled", "raw"))
        least = 21 if endpoints == "scaled" else 2  # below, a variance would reach 1
        if steps < least:
            raise SettingError(f"a schedule with {endpoints} endpoints needs at least {least} steps, got {steps}")
        factor = 1000 / steps if endpoints == "scaled" else 1.0
        self.steps = steps
        beta = torch.linspace(1e-4 * factor, 0.02 * factor, steps, dtype=torch.float64)
        signal = torch.cat([torch.ones(1, dtype=torch.float64), torch.cumprod(1 - beta, 0)])
        self.register_buffer("signal", signal.to(torch.get_default_dtype()))


class DiffusionModel(ScaledModel):
    """A denoiser that samples the target given its noisy version y_t, modulated by features, time and noise (FiLM).

    The decision term acts on the implied members of y_0 in physical units. With s = alpha-bar, the signal left, their
    error is sqrt((1 - s) / s) times that of epsilon, 221 at the noisy end. Predicting "v" or "target" keeps it bounded,
    which is why "v" is the default (docs/explanation/diffusion.md has the measurements).

    Args:
        features: F, the number of features.
        outcomes: D, the number of outcomes.
        noise: K, the width of the noise vector of each member.
        hidden: The width of the hidden layers.
        layers: The number of hidden layers.
        steps: T, the number of noise levels of the chain.
        endpoints: "scaled" or "raw", as in `NoiseSchedule`.
        prediction: What the network predicts and the score is taken on: "epsilon" (the paper), "target", or "v" =
            sqrt(s) epsilon - sqrt(1 - s) y_0.
        decision_weighting: The weight of the decision term at signal s: "paper" 1, "signal" s, "snr" min(1, s / (1 -
            s)).
        structured: Whether members are structured in training, as in `ImplicitModel`.
        chain_steps: The number of steps of the reverse chain that draws the members for the decision in training; 0
            takes those of the denoiser at the noise level of the training step, as in the paper. Members of a chain are
            closer to what the model forecasts, and take as many passes through the network.
        chain_gradient: The number of last steps of this chain that the decision gradient is backpropagated through. 0
            uses the last step alone, and the score-function gradient for the states before it.

    >>> import torch, stakes
    >>> model = stakes.DiffusionModel(features=3, outcomes=2)
    >>> model.sample(torch.randn(4, 3), members=7).shape
    torch.Size([4, 7, 2])
    """

    feature_scaling: FeatureScaling

    def __init__(
        self,
        features: int,
        outcomes: int,
        noise: int = 8,
        hidden: int = 50,
        layers: int = 5,
        steps: int = 100,
        endpoints: Literal["scaled", "raw"] = "scaled",
        prediction: Prediction = "v",
        decision_weighting: DecisionWeighting = "paper",
        structured: bool = False,
        chain_steps: int = 0,
        chain_gradient: int = 3,
    ) -> None:
        super().__init__()
        require_counts(features=features, outcomes=outcomes, noise=noise)
        require_chain(chain_steps, chain_gradient, steps)
        require_one_of("prediction", prediction, get_args(Prediction))
        require_one_of("decision_weighting", decision_weighting, get_args(DecisionWeighting))
        self.noise = noise
        self.structured = structured
        self.outcomes = outcomes
        self.prediction: Prediction = prediction
        self.decision_weighting: DecisionWeighting = decision_weighting
        self.chain_steps, self.chain_gradient = chain_steps, chain_gradient
        self.schedule = NoiseSchedule(steps, endpoints)
        self.network = FiLMNetwork(outcomes, outcomes, features + _TIME_EMBEDDING, noise, hidden, layers)
        self.feature_scaling = FeatureScaling(features)
        self.outcome_scaling = Scaling(outcomes)

    def forward(self, noisy: Tensor, features: Tensor, step: Tensor, noise: Tensor) -> Tensor:
        """Members (..., M, D) of the predicted quantity, in standardised units.

        Args:
            noisy: y_t, (..., M, D), or (..., 1, D) where all members of a case see the same one.
            features: Features (..., F) in physical units.
            step: t, the noise level of each case, (...), from 1 to T.
            noise: Noise vectors (..., M, K), one per member.
        """
        time = sinusoidal_embedding(step.to(noise.dtype) / self.schedule.steps, _TIME_EMBEDDING)
        scaling = self.feature_scaling
        context = torch.cat([scaling.squashed(scaling.standardise(features)), time], -1)
        return self.network(noisy, context, noise)

    def draw_noise(self, cases: int, members: int, generator: torch.Generator | None = None) -> Mapping[str, Tensor]:
        """The noise of one training step: "members" (cases, M, K), "target" (cases, D) and "time" (cases,) in [0, 1).

        With `chain_steps` there is "chain" (cases, M, chain_steps (K + D)) too, that of the reverse chain.
        """
        like = self.outcome_scaling.mean
        draw = draw_structured if self.structured else draw_normal
        width = self.chain_steps * (self.noise + self.outcomes)
        chain = {"chain": draw_normal(like, cases, members, width, generator=generator)} if width else {}
        return {
            **chain,
            "members": draw(like, cases, members, self.noise, generator=generator),
            "target": draw_normal(like, cases, self.outcomes, generator=generator),
            "time": torch.rand(cases, generator=generator, device=like.device, dtype=like.dtype),
        }

    def validation_noise(
        self, cases: int, members: int, generator: torch.Generator | None = None, draws: int = 1
    ) -> Mapping[str, Tensor]:
        """The noise of a validation: that of `draw_noise`, with evenly spread noise levels.

        The draws of a case are consecutive, (cases draws, ...), one in each of as many equal parts of the noise levels;
        the positions within the parts are spread evenly over the cases.

        Args:
            cases: The number of cases.
            members: M, the number of members of each draw.
            generator: The source of the noise, on the model's device; None for torch's global one.
            draws: The number of draws of each case.
        """
        noise = dict(self.draw_noise(cases * draws, members, generator))
        like = noise["time"]
        order = torch.rand(cases, generator=generator, device=like.device).argsort()
        within = (order.to(like.dtype) + 0.5) / cases
        part = torch.arange(draws, device=like.device, dtype=like.dtype)
        return noise | {"time": ((part + within[:, None]) / draws).flatten()}

    def training_draw(self, features: Tensor, outcome: Tensor, noise: TrainingNoise) -> TrainingDraw:
        """One noise level per case, t uniform on 1..T, and M denoised members of it."""
        step = 1 + (noise["time"] * self.schedule.steps).long().clamp(max=self.schedule.steps - 1)
        signal = self.schedule.signal[step][..., None]  # (..., 1)
        target, epsilon = self.outcome_scaling.standardise(outcome), noise["target"]
        noisy = signal.sqrt() * target + (1 - signal).sqrt() * epsilon
        seen = noisy[..., None, :]  # one y_t for all members of a case
        predicted = self(seen, features, step, noise["members"])
        score_outcome = _quantity(target, epsilon, signal, self.prediction)
        if self.chain_steps:
            members, likelihood = self._chain_members(features, noise["chain"])
            whole = torch.ones_like(outcome[..., 0])
            decided = self.outcome_scaling.restore(members)
            return TrainingDraw(predicted, score_outcome, decided, outcome, whole, likelihood)
        denoised = _target_from(predicted, seen, signal[..., None], self.prediction)
        return TrainingDraw(
            score_members=predicted,
            score_outcome=score_outcome,
            decision_members=self.outcome_scaling.restore(denoised),
            decision_outcome=outcome,
            decision_term_weight=self._decision_term_weight(signal[..., 0]),
            member_log_likelihood=outcome[..., :0],
        )

    def _chain_members(self, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Standardised members (..., M, D) of a chain of a few steps, and the log-likelihood (..., M) of its states.

        The likelihood is given where the score function needs it, else that of no members. There the states are fixed,
        and each is likely as q(y_s | y_t, y_0), a Gaussian around what the denoiser makes of the one before.
        """
        by_score = self.chain_gradient == 0
        drawn = iter(
            noise.split([self.outcomes, *[self.noise, self.outcomes] * (self.chain_steps - 1), self.noise], -1)
        )
        first_with_gradient = self.chain_steps - max(self.chain_gradient, 1)
        taken, likelihood = 0, torch.zeros_like(noise[..., 0])

        def denoise(noisy: Tensor, step: int) -> Tensor:
            nonlocal taken
            times = torch.full_like(features[..., 0], step)
            followed = torch.is_grad_enabled() and (by_score or taken >= first_with_gradient)
            with torch.set_grad_enabled(followed):
                predicted = self(noisy, features, times, next(drawn))
                taken += 1
                return _target_from(predicted, noisy, self.schedule.signal[step], self.prediction)

        def state(mean: Tensor, variance: Tensor) -> Tensor:
            nonlocal likelihood
            noisy = mean + variance.sqrt() * next(drawn)
            if not by_score:
                return noisy
            noisy = noisy.detach()
            likelihood = likelihood - ((noisy - mean) ** 2 / (2 * variance)).sum(-1)
            return noisy

        members = reverse_chain(denoise, self.schedule, lambda: next(drawn), self.chain_steps, next_state=state)
        return members, likelihood if by_score else likelihood[..., :0]

    @torch.no_grad()
    def sample(
        self,
        features: Tensor,
        members: int,
        generator: torch.Generator | None = None,
        *,
        share_noise: bool = False,
        steps: int | None = None,
        stochastic: bool = True,
        memory_budget: int | None = None,
    ) -> Tensor:
        """Members (N, M, D) in physical units, by one reverse chain each, computed in chunks of cases.

        The result is deterministic given the generator and the memory budget.

        Args:
            features: Features (N, F).
            members: M, the number of members of each case.
            generator: The source of the noise; None for torch's global one.
            share_noise: Whether all cases share their noise, so that the members of a case do not depend on the others.
            steps: How many of the T noise levels the chain visits; None for all.
            stochastic: Whether every step adds fresh noise; False for the deterministic steps of DDIM.
            memory_budget: The memory of a chunk in bytes; None for 8 MiB on a CPU, the size of its caches, and 1 GiB
                elsewhere.
        """
        require_counts(members=members)
        if share_noise and generator is None:
            generator = torch.Generator(features.device).manual_seed(int(torch.randint(2**31, ())))
        start = None if generator is None else generator.get_state()
        like = self.outcome_scaling.mean
        parts = []
        for part in features.split(cases_at_once(self.network.widest, members, like, memory_budget)):
            if share_noise and generator is not None and start is not None:
                generator.set_state(start)
            parts.append(self._run_chains(part, share_noise, members, generator, steps, stochastic))
        return torch.cat(parts)

    def _run_chains(
        self,
        features: Tensor,
        share_noise: bool,
        members: int,
        generator: torch.Generator | None,
        steps: int | None,
        stochastic: bool,
    ) -> Tensor:
        like = self.outcome_scaling.mean

        def normal(width: int) -> Tensor:
            if share_noise:
                return draw_shared(like, members, width, generator).expand(len(features), -1, -1)
            return draw_normal(like, len(features), members, width, generator=generator)

        def denoise(noisy: Tensor, step: int) -> Tensor:
            times = torch.full(features.shape[:1], step, device=like.device)
            predicted = self(noisy, features, times, normal(self.noise))
            return _target_from(predicted, noisy, self.schedule.signal[step], self.prediction)

        standardised = reverse_chain(denoise, self.schedule, lambda: normal(self.outcomes), steps, stochastic)
        return self.outcome_scaling.restore(standardised)

    def _decision_term_weight(self, signal: Tensor) -> Tensor:
        if self.decision_weighting == "paper":
            return torch.ones_like(signal)
        if self.decision_weighting == "signal":
            return signal
        return (signal / (1 - signal)).clamp(max=1.0)


def require_chain(chain_steps: int, chain_gradient: int, steps: int) -> None:
    """Raise unless a training step may run such a chain."""
    for name, count, most in (("chain_steps", chain_steps, steps), ("chain_gradient", chain_gradient, chain_steps)):
        require_count(name, count, least=0)
        if chain_steps and count > most:
            raise SettingError(f"{name} must be at most {most}, got {count}")


def reverse_chain(
    denoise: Callable[[Tensor, int], Tensor],
    schedule: NoiseSchedule,
    normal: Callable[[], Tensor],
    steps: int | None = None,
    stochastic: bool = True,
    next_state: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """Run the chain from pure noise to y_0; `next_state` may draw a stochastic step from its mean and variance.

    From t to s < t, with y_0 drawn and epsilon = (y_t - sqrt(s_t) y_0) / sqrt(1 - s_t):
    stochastic: the Gaussian q(y_s | y_t, y_0); else y_s = sqrt(s_s) y_0 + sqrt(1 - s_s) epsilon (DDIM).
    Both keep the distribution of y_s exact for any choice of steps if y_0 comes from the exact posterior, up to the
    start: pure noise is not quite y_T.
    """
    steps = schedule.steps if steps is None else steps
    if not 1 <= steps <= schedule.steps:
        raise SettingError(f"steps must lie between 1 and the schedule's {schedule.steps}, got {steps}")
    times = torch.linspace(schedule.steps, 0, steps + 1).round().long().tolist()
    noisy = normal()
    for now, following in pairwise(times[:-1]):
        target = denoise(noisy, now)
        here, there = schedule.signal[now], schedule.signal[following]
        epsilon = (noisy - here.sqrt() * target) / (1 - here).sqrt()
        variance = (1 - there) / (1 - here) * (1 - here / there) if stochastic else torch.zeros_like(here)
        noisy = there.sqrt() * target + (1 - there - variance).clamp(min=0).sqrt() * epsilon
        if next_state is not None:
            noisy = next_state(noisy, variance)
        elif stochastic:
            noisy = noisy + variance.sqrt() * normal()
    return denoise(noisy, times[-2])


def _quantity(target: Tensor, epsilon: Tensor, signal: Tensor, prediction: Prediction) -> Tensor:
    """What the network is to predict."""
    if prediction == "epsilon":
        return epsilon
    if prediction == "target":
        return target
    return signal.sqrt() * epsilon - (1 - signal).sqrt() * target


def _target_from(predicted: Tensor, noisy: Tensor, signal: Tensor, prediction: Prediction) -> Tensor:
    """y_0 implied by a prediction at y_t."""
    if prediction == "epsilon":
        return (noisy - (1 - signal).sqrt() * predicted) / signal.sqrt()
    if prediction == "target":
        return predicted
    return signal.sqrt() * noisy - (1 - signal).sqrt() * predicted
