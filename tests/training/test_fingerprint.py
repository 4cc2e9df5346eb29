from collections.abc import Callable

import pytest
import torch

from stakes import ImplicitModel
from stakes.training.replicas import Replica, ReplicaStack
from stakes.training.settings import TrainingSettings
from stakes.training.trainer import fingerprint


class OtherModel(ImplicitModel):
    """The same in all but its name."""


def fingerprint_of(replica: Replica) -> str:
    stack = ReplicaStack([replica], TrainingSettings(), torch.device("cpu"))
    return fingerprint(stack, stack.initial_parameters())


def test_it_does_not_matter_in_which_module_a_class_lives(
    make_replica: Callable[..., Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint_of(make_replica())
    monkeypatch.setattr(ImplicitModel, "__module__", "elsewhere")
    assert fingerprint_of(make_replica()) == before
    replica = make_replica()
    replica.model.__class__ = OtherModel
    assert fingerprint_of(replica) != before
