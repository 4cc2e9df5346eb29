"""The soak test of the service, in short."""

import asyncio
import os

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
