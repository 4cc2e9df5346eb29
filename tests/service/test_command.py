"""`stakes serve`: it starts, says where, ends when told to, and says in one line why it does not start."""

import importlib.util
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from calls import called, complaint
from forked_processes import forked
from golden.make_bundle import FOLDER

from stakes.cli import main
from stakes.service import workers as worker_processes
from stakes.training.processes import start_interpreter


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_ends_it_when_what_was_asked_is_answered(
    fit: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a fork of this process; SIGTERM ends the fork server that a user has, a fresh interpreter."""
    if number == signal.SIGTERM:
        monkeypatch.setattr(worker_processes, "start_interpreter", start_interpreter)
    process = forked(lambda: main(["serve", str(fit), "--port", "0"]))
    assert process.stderr is not None
    with process, ThreadPoolExecutor(1) as threads:
        try:
            line = process.stderr.readline()
            assert line.startswith("stakes serves http://127.0.0.1:")
            address = line.split()[2]
            body = {"features": [[0.0, 0.0, 0.0]] * 300, "member_count": 2000}
            asked = threads.submit(httpx.post, f"{address}v1/decide", json=body, timeout=60)
            while not asked.done() and httpx.get(f"{address}healthz").json()["pending"] == 0:
                pass
            assert not asked.done()
            process.send_signal(number)
            assert asked.result().status_code == 200
            assert process.wait(60) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--host", "0.0.0.0"], "token"),
        (["--port", "99999"], "port"),
        (["--token", ""], "token"),
        (["--cost", "imbalence:short=1"], "imbalence"),
        (["--max-rows", "0"], "max_rows"),
    ],
)
def test_why_it_does_not_start(words: list[str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert expected in complaint("serve", str(FOLDER / "fit"), *words)
    monkeypatch.setenv("STAKES_TOKEN", "tab\there")
    assert "token" in complaint("serve", str(FOLDER / "fit"))


def test_help_names_the_options_and_imports_no_server() -> None:
    code, output, errors = called("serve", "--help")
    assert (code, errors) == (0, "")
    options = ("FOLDER", "--host", "--port", "--token", "STAKES_TOKEN", "--cost", "--max-rows", "--timeout")
    assert [option for option in options if option not in output] == []
    script = (
        "import sys, stakes.cli; stakes.cli.main(['serve', '--help']); print({'torch', 'fastapi'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_a_folder_without_a_fit_and_an_address_in_use_are_one_line(tmp_path: Path) -> None:
    assert "bundle.json" in complaint("serve", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert "in use" in complaint("serve", str(FOLDER / "fit"), "--port", port)


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = importlib.util.find_spec

    def lacking(name: str, *rest: Any) -> Any:
        return None if name == "uvicorn" else whole(name, *rest)

    monkeypatch.setattr("stakes.cli.serve.find_spec", lacking)
    assert "stakes[serve]" in complaint("serve", str(FOLDER / "fit"))
