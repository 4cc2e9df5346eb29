"""Members of several models as one forecast: shares, seeds, parts, and rows that do not depend on their neighbours."""

import hypothesis
import pytest
import torch
from example_counts import examples
from hypothesis import strategies
from torch import Tensor, nn

from stakes import ImplicitModel
from stakes.models import sample_model
from stakes.models.sample_model import member_shares, pooled_members, pooled_parts

FEATURES, OUTCOMES, SEED = 3, 2, 5


def models(count: int) -> list[nn.Module]:
    torch.manual_seed(0)
    return [ImplicitModel(FEATURES, OUTCOMES, noise=2, hidden=8, layers=2) for _ in range(count)]


def rows(count: int) -> Tensor:
    return torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(0))


@examples(60)
@hypothesis.given(strategies.integers(0, 1000), strategies.integers(1, 50))
def test_shares_add_up_and_differ_by_one_at_most(members: int, count: int) -> None:
    shares = member_shares(members, count)
    assert (len(shares), sum(shares)) == (count, members)
    assert max(shares) - min(shares) <= 1
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize("share_noise", [True, False])
def test_members_are_those_of_each_model_from_its_own_seed(share_noise: bool) -> None:
    ensemble, features = models(3), rows(4)
    together = pooled_members(ensemble, features, 8, SEED, share_noise=share_noise)
    apart = [
        pooled_members([model], features, share, SEED + place, share_noise=share_noise)
        for place, (model, share) in enumerate(zip(ensemble, (3, 3, 2), strict=True))
    ]
    assert together.shape == (4, 8, OUTCOMES)
    assert torch.equal(together, torch.cat(apart, 1))
    assert not torch.equal(apart[0], apart[1])


def test_a_row_does_not_depend_on_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_model, "_MEMBERS_AT_ONCE", {"cpu": 4 * 6})  # four rows of a model at a time
    ensemble, features = models(2), rows(11)
    whole = pooled_members(ensemble, features, 12, SEED)
    for row in (0, 4, 10):
        assert torch.equal(pooled_members(ensemble, features[row : row + 1], 12, SEED)[0], whole[row])
    others = features + 1
    others[5] = features[5]
    assert torch.equal(pooled_members(ensemble, others, 12, SEED)[5], whole[5])


@pytest.mark.parametrize("share_noise", [True, False])
def test_parts_hold_every_row_once(share_noise: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_model, "_MEMBERS_HELD", 4 * 10)  # four rows at a time
    ensemble, features = models(2), rows(11)
    parts = list(pooled_parts(ensemble, features, 10, SEED, share_noise=share_noise))
    assert [place for place, _ in parts] == [slice(0, 4), slice(4, 8), slice(8, 12)]
    for place, members in parts:
        seed = SEED if share_noise else SEED + place.start
        expected = pooled_members(ensemble, features[place], 10, seed, share_noise=share_noise)
        assert torch.equal(members, expected)
    together = torch.cat([members for _, members in parts])
    assert torch.equal(together, pooled_members(ensemble, features, 10, SEED, share_noise=share_noise)) is share_noise
