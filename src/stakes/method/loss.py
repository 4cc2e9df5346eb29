"""The objective as a torch module, for training loops that hold their loss as one."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from stakes.method.models.sample_model import TrainingDraw
from stakes.method.objective import DecisionAwareObjective, ObjectiveTerms

__all__ = ["DecisionAwareLoss"]


class DecisionAwareLoss(nn.Module):
    """A `DecisionAwareObjective` as a loss module: samples and outcome in, one number out.

    Its scales are buffers: `estimate_scales`, called once before training, sets them, they move with the module and
    are saved with it. `terms` holds the means of the last call, detached, for logging.

    Args:
        objective: The mixture whose mean is the loss.
        member_dim: The axis of the samples that the members lie on.
        across_processes: For a batch that is split over the processes of `torch.distributed`, each of which gives its
            part: the scales are then those of all parts, and the loss of a process is its share of the mean over all
            cases, whose average over the processes, which DistributedDataParallel takes of gradients, is that mean.

    >>> import torch, stakes
    >>> objective = stakes.DecisionAwareObjective(
    ...     stakes.EnergyScore(), stakes.DecisionScore(stakes.ShortfallCost(5.0)), decision_weight=0.3)
    >>> loss = stakes.DecisionAwareLoss(objective)
    >>> samples, outcome = torch.rand(32, 10, 1), torch.rand(32, 1)
    >>> loss.estimate_scales(samples, outcome)
    >>> loss(samples, outcome).shape
    torch.Size([])
    """

    score_scale: Tensor
    decision_scale: Tensor

    def __init__(
        self, objective: DecisionAwareObjective, member_dim: int = -2, *, across_processes: bool = False
    ) -> None:
        super().__init__()
        self.objective = objective
        self.member_dim = member_dim
        self.across_processes = across_processes
        for name in ("score_scale", "decision_scale"):
            scale = torch.as_tensor(getattr(objective, name), dtype=torch.get_default_dtype())
            self.register_buffer(name, scale.clone())
        self.terms: ObjectiveTerms | None = None

    def estimate_scales(self, samples: Tensor, outcome: Tensor) -> None:
        """Set both scales so that each term is one on average for these samples.

        Args:
            samples: Members (..., M, D) of training cases, or with the members on `member_dim`.
            outcome: Their outcomes (..., D).
        """
        draw = TrainingDraw.from_samples(samples.detach().movedim(self.member_dim, -2), outcome)
        scaled = self.objective.estimate_scales(draw, across_processes=self.across_processes)
        self.score_scale.fill_(scaled.score_scale)
        self.decision_scale.fill_(scaled.decision_scale)

    def forward(
        self,
        samples: Tensor,
        outcome: Tensor,
        *,
        case_weight: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The mean objective of a batch, one number.

        Args:
            samples: Members (..., M, D), or with the members on `member_dim`, in physical units.
            outcome: Outcomes (..., D).
            case_weight: What each case counts, (...); None counts all alike.
            mask: True where the outcome is known, (...), bool; the other cases count nothing. None takes all as known.
        """
        scaled = replace(self.objective, score_scale=self.score_scale, decision_scale=self.decision_scale)
        cases = scaled.from_samples(samples, outcome, member_dim=self.member_dim, case_weight=case_weight, mask=mask)
        terms = cases.share_of_mean() if self.across_processes else cases.mean()
        decision = None if terms.decision is None else terms.decision.detach()
        self.terms = ObjectiveTerms(terms.total.detach(), terms.score.detach(), decision)
        return terms.total
