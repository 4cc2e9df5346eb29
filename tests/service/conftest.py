"""One live service for all tests that change nothing."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch
from live_services import forked_fork_server, golden_fit, golden_service, listening
from user_files import quick_fits, recalibrated  # noqa: F401  fixtures

from stakes.service import workers as worker_processes
from stakes.service.server import ServiceSettings

SETTINGS = ServiceSettings(max_rows=50, max_members=60, max_body_mb=0.1, workers=2)


@pytest.fixture(scope="session", autouse=True)
def forked_nurseries() -> Iterator[None]:
    """What workers are forked from is itself a fork; a process with a GPU cannot be forked once it has computed."""
    with pytest.MonkeyPatch.context() as patch:
        if not torch.cuda.is_available():
            patch.setattr(worker_processes, "start_interpreter", forked_fork_server)
        yield


@pytest.fixture(scope="session")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fit; read it only."""
    return golden_fit(tmp_path_factory.mktemp("served") / "load")


@pytest.fixture(scope="session")
def address(fit: Path, forked_nurseries: None) -> Iterator[str]:
    with listening(golden_service(fit, SETTINGS), SETTINGS) as found:
        yield found


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60) as found:
        yield found
