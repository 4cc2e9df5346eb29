"""The soak test of the service, in short."""

import asyncio
import os

from hostile_requests import attack, memory_of_all
from service_load import decision_request, load, moves, nonsense


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_a_load_is_answered_without_an_error(address: str) -> None:
    found = asyncio.run(load(port_of(address), os.getpid(), 0.5, 8, decision_request()))
    assert set(found.statuses) == {200}
    assert len(found.latencies) == found.statuses[200] >= 8
    assert "p99" in found.text


def test_moves_of_a_slider_are_answered(address: str) -> None:
    found = asyncio.run(moves(port_of(address), 5))
    assert len(found) == 5
    assert min(found) > 0


def test_nonsense_is_refused(address: str) -> None:
    statuses = asyncio.run(nonsense(port_of(address), 150, seed=0))
    assert {status // 100 for status in statuses} == {4}


def test_hostile_requests_are_refused_in_time_and_stop_nobody(address: str) -> None:
    """The bodies of this service are small: most of the requests are refused unread."""
    seen = asyncio.run(attack(port_of(address), 60, seed=0))
    assert seen.statuses.total() == 60
    assert seen.statuses.keys() <= {200, 413, 422}
    assert len(seen.health) > 1
    assert memory_of_all(os.getpid()) > 100
