"""A service that listens on a free port of this machine, in a thread."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import uvicorn
from forked_processes import ForkedCommand
from golden.make_bundle import FOLDER, LAYOUT, table
from starlette.types import ASGIApp

from stakes.artifacts.folder import STORED_CASES, record_file, save_cases
from stakes.service.app import create_app
from stakes.service.server import ServiceSettings, make_server, open_listener
from stakes.service.sources import open_source
from stakes.service.workers import Answering, fork_workers


def golden_fit(folder: Path) -> Path:
    """A fit with cases to look at: load from wind, sun and price, weights 0.9 and 0."""
    shutil.copytree(FOLDER / "fit", folder)
    save_cases(folder, LAYOUT.cases(table(20)))
    record_file(folder, STORED_CASES.as_posix())
    return folder


def golden_service(folder: Path, settings: ServiceSettings, make: Callable[[], Answering] | None = None) -> ASGIApp:
    return create_app(open_source(folder, None, settings), make)


def forked_fork_server(entry: str, stdin: int, environment: Mapping[str, str]) -> ForkedCommand:
    """In place of `start_interpreter`, which takes seconds: the fork server as a fork of this process."""
    assert entry.endswith(f":{fork_workers.__name__}")
    return ForkedCommand(fork_workers, stdin=stdin, start_new_session=True)


@contextmanager
def listening(app: ASGIApp, settings: ServiceSettings) -> Iterator[str]:
    """The address of the service while it runs."""
    server = make_server(app, settings)
    with open_listener(replace(settings, host="127.0.0.1", port=0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            _wait(server)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def _wait(server: uvicorn.Server) -> None:
    while not server.started:
        time.sleep(0.01)
