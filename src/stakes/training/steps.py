"""The optimizer's steps of a stack of replicas: refused row by row where they are not finite, captured on a GPU."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from stakes.argument_checks import unwatched
from stakes.errors import StakesWarning
from stakes.scores.objective import DecisionAwareObjective, ObjectiveTerms
from stakes.training.replicas import ReplicaStack


class Adam:
    """Adam with decoupled weight decay, and torch's numbers for everything that is not given here."""

    def __init__(
        self, parameters: Sequence[Tensor], learning_rate: float, weight_decay: float = 0.0, captured: bool = False
    ) -> None:
        self.parameters = list(parameters)
        self.first_moments = [torch.zeros_like(each) for each in self.parameters]
        self.second_moments = [torch.zeros_like(each) for each in self.parameters]
        device = self.parameters[0].device if captured else None
        self.steps = [torch.zeros((), dtype=torch.float32, device=device) for _ in self.parameters]
        self._rate = torch.tensor(learning_rate, device=device) if captured else learning_rate
        self._weight_decay = weight_decay
        self._captured = captured

    def set_learning_rate(self, learning_rate: float) -> None:
        """Take steps at another rate from now on, captured or not."""
        if isinstance(self._rate, Tensor):
            self._rate.fill_(learning_rate)
        else:
            self._rate = learning_rate

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Change the parameters by one step along these gradients, one for each of them."""
        adamw(
            self.parameters,
            list(gradients),
            self.first_moments,
            self.second_moments,
            [],
            self.steps,
            fused=self._captured
            or None,  # None, as on a CPU: there the last numbers of a tensor would round differently
            capturable=self._captured,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self._rate,
            weight_decay=self._weight_decay,
            eps=1e-8,
            maximize=False,
        )


_SCORE, _DECISION, _GRADIENT = 1, 2, 4
_PARAMETERS = "parameter of the cost"  # among what a step takes, where it is a range
_COMPANIONS = {
    "decision": "decision cost",
    "crps_of_total": "CRPS of the total",
    "variogram": "variogram score",
    "tail_crps": "threshold-weighted CRPS",
}


@dataclass(frozen=True)
class Trouble:
    """The first step of a replica that was refused."""

    step: int  # which of the stepper's steps, from 1
    term: str  # what was not finite, in words


class Stepper:
    """Adam on the parameters (R, P) of a stack, one step per batch.

    A replica whose loss or gradient is not finite keeps the parameters it had, then and ever after; the others go
    on. Nothing inside an epoch waits for the device. On a GPU the step is a captured graph, or runs eagerly with a
    warning where it cannot be captured.
    """

    def __init__(self, stack: ReplicaStack, parameters: Tensor, scales: Tensor | None, capture: bool = True) -> None:
        self.stack = stack
        self.scales = scales
        self.parts = [
            (rows, part, part.objective(None if scales is None else scales[rows])) for rows, part in stack.parts()
        ]
        self.parameters = parameters.detach().clone().requires_grad_()
        on_gpu = stack.device.type == "cuda"
        self.optimiser = Adam(
            [self.parameters], stack.settings.learning_rate, stack.settings.weight_decay, captured=on_gpu
        )
        self.refused = torch.zeros(len(stack), dtype=torch.long, device=stack.device)  # what was not finite, in bits
        self.refused_at = torch.zeros_like(self.refused)
        self._capture = capture and on_gpu
        self._run: Callable[[], None] | None = None
        self._inputs: dict[str, Tensor] = {}
        self._gradient = torch.zeros_like(self.parameters)

    def epoch(self, phase: str, epoch: int, learning_rate: float) -> None:
        """One pass over the training cases."""
        self.optimiser.set_learning_rate(learning_rate)
        order = self.stack.shuffles(phase, epoch)
        for step in range(self.stack.steps):
            self._take_batch(order, phase, epoch, step)
            if self._run is None:
                self._run = self._captured() if self._capture else self._step
            self._run()

    def gradient_norms(self, phase: str, epoch: int) -> dict[str, Tensor]:
        """Norms (R,) of the gradients of both terms, each over its scale, on the epoch's first batch; none of none."""
        if not self.parameters.numel():
            return {}
        self._take_batch(self.stack.shuffles(phase, epoch), phase, epoch, step=0)
        norms: dict[str, list[Tensor]] = {}
        for rows, part, objective in self.parts:
            parameters = self.parameters.detach()[rows].requires_grad_()
            terms = self._terms(rows, part, objective, parameters)
            named = {
                "score": (terms.score, objective.score_scale),
                "decision": (terms.decision, objective.decision_scale),
            }
            for name, (term, scale) in named.items():
                if term is None:
                    continue
                (gradient,) = torch.autograd.grad(term.sum(), parameters, retain_graph=True)
                norms.setdefault(name, []).append(torch.linalg.vector_norm(gradient / scale, dim=1))
        return {name: torch.cat(values) for name, values in norms.items()}

    def state(self) -> dict[str, Tensor]:
        """All that changes from step to step."""
        return {
            "parameters": self.parameters.detach(),
            "first_moment": self.optimiser.first_moments[0],
            "second_moment": self.optimiser.second_moments[0],
            "step": self.optimiser.steps[0],
            "refused": self.refused,
            "refused_at": self.refused_at,
        }

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Stand where `state` said."""
        for name, values in self.state().items():
            values.copy_(state[name])

    def troubles(self) -> dict[int, Trouble]:
        """The rows that were refused a step."""
        bits, steps = torch.stack([self.refused, self.refused_at]).tolist()
        companion = _COMPANIONS[self.stack.settings.companion]
        return {row: Trouble(steps[row], _named(code, companion)) for row, code in enumerate(bits) if code}

    def _terms(
        self, rows: slice, part: ReplicaStack, objective: DecisionAwareObjective, parameters: Tensor
    ) -> ObjectiveTerms:
        """Mean terms of some rows on the batch at hand."""
        index = self.stack.seed_index[rows]
        inputs = {name: values[index] for name, values in self._inputs.items()}
        features, outcome = part.train.batch(inputs.pop("rows"))
        if _PARAMETERS in inputs:
            features = part.column.replaced(features, inputs.pop(_PARAMETERS))
        draw = part.draw(parameters, features, outcome, inputs, part.settings.members)
        with unwatched():
            return part.charged(objective, features)(draw).mean(-1)

    def _step(self) -> None:
        for rows, part, objective in self.parts:
            if not part.weighs_decisions:
                objective = replace(objective, decision_weight=0.0)  # as a number: no best action is searched for
            parameters = self.parameters.detach()[rows].requires_grad_()
            terms = self._terms(rows, part, objective, parameters)
            (gradient,) = torch.autograd.grad(terms.total.sum(), parameters)
            self._gradient[rows] = self._judged(rows, terms.score, terms.decision, gradient)
        with torch.no_grad():
            before = self.parameters.detach().clone()
            self.optimiser.step([self._gradient])
            self.parameters.copy_(torch.where(self.refused[:, None] == 0, self.parameters, before))

    def _judged(self, rows: slice, score: Tensor, decision: Tensor | None, gradient: Tensor) -> Tensor:
        """The gradient, clipped, and zero for a row that may not step; what is wrong is noted the first time."""
        code = ~torch.isfinite(score) * _SCORE + ~torch.isfinite(gradient).all(1) * _GRADIENT
        if decision is not None:
            code = code + ~torch.isfinite(decision) * _DECISION
        refused, refused_at = self.refused[rows], self.refused_at[rows]
        first = (refused == 0) & (code > 0)
        counted = self.optimiser.steps[0].to(refused) + 1
        refused_at.copy_(torch.where(first, counted, refused_at))
        refused.copy_(torch.where(first, code, refused))
        clip = self.stack.settings.gradient_clip
        if clip is not None:
            norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
            gradient = gradient * (clip / norm).clamp(max=1.0)
        return torch.where(refused[:, None] == 0, gradient, 0.0)

    def _take_batch(self, order: Tensor, phase: str, epoch: int, step: int) -> None:
        """Put the rows, the noise and the cost parameters of a step where the step, captured or not, looks for them."""
        size = self.stack.batch
        members = self.stack.settings.members
        more = 0 if self.scales is None else self.stack.extra_members(members)
        noise = self.stack.noise(size, members, phase, epoch, step, more=more)
        inputs = {"rows": order[:, step * size : (step + 1) * size], **noise}
        if self.stack.column.width:
            inputs[_PARAMETERS] = self.stack.cost_parameters(size, phase, epoch, step)
        if not self._inputs:
            self._inputs = {name: torch.empty_like(values) for name, values in inputs.items()}
        for name, values in inputs.items():
            self._inputs[name].copy_(values)

    def _captured(self) -> Callable[[], None]:
        """The step as a CUDA graph; the trial steps before the capture leave no trace."""
        before = {name: values.clone() for name, values in self.state().items()}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.stream(side):
                for _ in range(2):
                    self._step()
            torch.cuda.current_stream().wait_stream(side)
            with torch.cuda.graph(graph):
                self._step()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            sentence = f"the training step could not be captured and runs eagerly: {error}"
            warnings.warn(sentence, StakesWarning, stacklevel=2)
            return self._step
        finally:
            self.load_state(before)
        return graph.replay


def _named(code: int, companion: str) -> str:
    if code & _SCORE:
        return "score"
    return companion if code & _DECISION else "gradient"
