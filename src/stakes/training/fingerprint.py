"""What a stack of replicas depends on, as one hash, and which of its replicas share a pre-training."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass

import torch
from torch import Tensor, nn

from stakes.method.score_mixture import score_weights
from stakes.method.training_settings import TrainingSettings
from stakes.settings import telling_fields
from stakes.training.model_structure import structure
from stakes.training.replicas import ReplicaStack

__all__ = ["fingerprint", "former_fingerprint", "leaders"]

_FORMER_HOMES = {"stakes.method.models.scaling.": "stakes.models.networks.", "stakes.method.models.": "stakes.models."}


def leaders(stack: ReplicaStack, parameters: Tensor) -> list[int]:
    """For each replica the index of the first one with the same seed, data and initial state.

    They share a pre-training, since the decision weight does not matter in it, nor the cost unless the score looks at
    its total.

    Args:
        stack: The replicas.
        parameters: Their initial parameters, (R, P).
    """
    indices = (stack.seed_index, stack.train.index, stack.validation.index)
    sees_cost = "total" in score_weights(stack.settings.score)
    costs = [repr(_described(replica.cost)) if sees_cost else "" for replica in stack.replicas]
    keys = list(zip(costs, *(index.tolist() for index in indices), strict=True))
    state = (parameters, *stack.fixed.values())
    firsts: list[int] = []
    for index, key in enumerate(keys):
        alike = (
            other
            for other in range(index)
            if keys[other] == key and all(torch.equal(values[other], values[index]) for values in state)
        )
        firsts.append(next(alike, index))
    return firsts


def fingerprint(stack: ReplicaStack, parameters: Tensor) -> str:
    """A hash of all that the result of a stack depends on; the same in every process, wherever its classes live.

    Args:
        stack: The replicas.
        parameters: Their initial parameters, (R, P).
    """
    return _digest(stack, parameters, _described_model)


def former_fingerprint(stack: ReplicaStack, parameters: Tensor) -> str:
    """The fingerprint as earlier versions computed it: it named the modules that the classes of models lived in.

    Args:
        stack: The replicas.
        parameters: Their initial parameters, (R, P).
    """
    return _digest(stack, parameters, _formerly_described_model)


def _digest(stack: ReplicaStack, parameters: Tensor, describe: Callable[[nn.Module], str]) -> str:
    digest = hashlib.sha256(_described_settings(stack.settings).encode())
    for replica in stack.replicas:
        asked = () if replica.epochs is None else (replica.epochs,)  # which earlier versions did not know
        seen = ("conditioned",) if replica.conditioned else ()  # nor this
        told = (replica.name, replica.decision_weight, replica.seed, _described(replica.cost), *asked, *seen)
        digest.update(f"{repr(told)[:-1]}, {describe(replica.model)})".encode())
    for values in _tensors(stack, parameters):
        flat = values.cpu().clone(memory_format=torch.contiguous_format).reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _described_settings(settings: TrainingSettings) -> str:
    """As `repr` has them, without those that an earlier version did not have."""
    told = ", ".join(f"{name}={getattr(settings, name)!r}" for name in telling_fields(settings))
    return f"{type(settings).__qualname__}({told})"


def _described_model(model: nn.Module) -> str:
    return repr([(name, kind.__qualname__, values) for name, kind, values in structure(model)])


def _formerly_described_model(model: nn.Module) -> str:
    text = repr(structure(model))
    for now, then in _FORMER_HOMES.items():
        text = text.replace(now, then)
    return text


def _tensors(stack: ReplicaStack, parameters: Tensor) -> Iterator[Tensor]:
    for cases in (stack.train, stack.validation):
        yield from (cases.features, cases.outcome, cases.index)
    yield from (parameters, *stack.fixed.values())


def _described(value: object) -> object:
    """A cost or a part of one, in values that do not change from process to process: functions go by their name."""
    if is_dataclass(value):
        return type(value).__qualname__, [(each.name, _described(getattr(value, each.name))) for each in fields(value)]
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, bool | int | float | str | tuple | None):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)
