import os
import runpy
import signal
import threading
import time
import warnings
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch
from forked_processes import Forked, forked
from refusals import refuses

from stakes.errors import InterruptedTraining, SettingError, StakesError, StakesWarning, WorkerError
from stakes.training.processes import MEMORY, Outcome, called_for_each, outcomes, stop_asked, tell


class StubbornError(Exception):
    """Can be pickled, but not made again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


def called(function: Any, *given: Any, processes: int = 1, **options: Any) -> dict[Any, Outcome[Any]]:
    """What came of a call for each argument, in other processes."""
    return dict(outcomes(function, {each: (each,) for each in given}, processes, **options))


def test_results_come_by_their_keys(workers: list[Forked]) -> None:
    here = os.getpid()
    results = dict(called_for_each(lambda number: (number + 1, os.getpid()), {n: (n,) for n in range(5)}, 2))
    assert {key: value for key, (value, _) in results.items()} == {n: n + 1 for n in range(5)}
    assert here not in {process for _, process in results.values()}
    assert len(workers) == 2, "a process that has returned a result takes the next call"


@pytest.mark.usefixtures("no_workers")
@pytest.mark.parametrize(("calls", "processes"), [(3, 1), (1, 3), (0, 3)])
def test_one_process_is_this_one(calls: int, processes: int) -> None:
    results = called_for_each(lambda: os.getpid(), dict.fromkeys(range(calls), ()), processes)
    assert list(results) == [(n, os.getpid()) for n in range(calls)]


def test_a_process_has_a_session_one_thread_and_memory_of_its_own(workers: list[Forked]) -> None:
    torch.set_num_threads(2)
    try:
        (outcome,) = called(lambda _: (torch.get_num_threads(), os.getsid(0) == os.getpid()), 0).values()
    finally:
        torch.set_num_threads(1)
    assert outcome.unwrap() == (1, True)
    assert workers[0].options["env"] == MEMORY | dict(os.environ)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_dies_fails_its_own_call_only(number: signal.Signals, workers: list[Forked]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    results = called(lambda call: call == 1 and os.kill(os.getpid(), number), *range(4), processes=2)
    assert str(results[1].error) == f"its process was ended by {number.name}"
    assert isinstance(results[1].error, WorkerError)
    assert [results[call] for call in (0, 2, 3)] == [Outcome(False, None)] * 3
    assert -number in {process.returncode for process in workers}


@pytest.mark.usefixtures("workers")
def test_a_process_that_ends_itself_says_with_which_code() -> None:
    (outcome,) = called(os._exit, 7).values()
    assert str(outcome.error) == "its process ended with exit code 7"


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("sent", [0, 3, 1000])
def test_a_process_that_dies_in_the_middle_of_an_answer_is_noticed(sent: int) -> None:
    def answer_in_part(_: int) -> bytes:
        def send_in_part(self: Connection, content: bytes) -> None:
            os.write(self.fileno(), bytes(content)[:sent])
            os.kill(os.getpid(), signal.SIGKILL)

        Connection._send = send_in_part  # type: ignore[attr-defined, method-assign]
        return bytes(1_000_000)

    (outcome,) = called(answer_in_part, 0).values()
    assert isinstance(outcome.error, WorkerError)


@pytest.mark.usefixtures("workers")
def test_an_error_comes_back_with_the_place_where_it_was_raised() -> None:
    def fail(_: int) -> None:
        raise KeyError("missing")

    (outcome,) = called(fail, 0).values()
    assert repr(outcome.error) == "KeyError('missing')"
    assert outcome.error is not None
    assert "in fail" in outcome.error.__notes__[0]
    refuses(KeyError, "missing", dict, called_for_each(fail, {0: (0,), 1: (1,)}, 2))


@pytest.mark.usefixtures("workers")
def test_what_cannot_travel_is_an_error() -> None:
    def fail(_: int) -> None:
        raise StubbornError("first", "second")

    refuses(SettingError, "picklable", called, lambda _: None, threading.Lock())
    (returned,) = called(lambda _: threading.Lock(), 0).values()
    assert "TypeError: cannot pickle" in str(returned.error)
    (raised,) = called(fail, 0).values()
    assert isinstance(raised.error, StakesError)
    assert "TypeError" in str(raised.error)


@pytest.mark.usefixtures("workers")
def test_what_a_process_tells_is_heard_before_its_result() -> None:
    heard: list[tuple[int, Mapping[str, Any]]] = []

    def speak(call: int) -> str:
        tell({"call": call})
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # in a fork of these tests they are errors
            warnings.warn("careful", StakesWarning, stacklevel=1)
            warnings.warn("a library would have it done otherwise", FutureWarning, stacklevel=1)
        return "done"

    results = called(speak, 1, 2, hear=lambda key, line: heard.append((key, line)))
    assert heard == [(n, line) for n in (1, 2) for line in ({"call": n}, {"warning": "careful"})]
    assert {outcome.unwrap() for outcome in results.values()} == {"done"}
    with pytest.warns(StakesWarning, match="careful"):
        called(speak, 3)


def test_nobody_is_told_and_nobody_asks_in_a_process_that_nobody_started() -> None:
    tell({"warning": "nobody hears this"})
    assert not stop_asked()


@pytest.mark.usefixtures("workers")
def test_what_a_process_prints_is_no_answer(capfd: pytest.CaptureFixture[str]) -> None:
    called(lambda _: os.write(1, b"printed\n"), 0)
    assert capfd.readouterr() == ("", "printed\n")


def patient(call: int) -> None:
    """Works until it is asked to stop."""
    tell({"at work": call})
    while not stop_asked():
        time.sleep(0.005)
    raise InterruptedTraining("interrupted")


def test_all_are_asked_to_stop_and_nothing_more_begins(workers: list[Forked]) -> None:
    heard: list[int] = []
    results = called(
        patient, *range(4), processes=2, stop=lambda: len(heard) == 2, hear=lambda key, line: heard.append(key)
    )
    assert sorted(results) == sorted(heard) == [0, 1]
    assert {str(outcome.error) for outcome in results.values()} == {"interrupted"}
    assert called(patient, 0, stop=lambda: True) == {}
    assert len(workers) == 2


def test_whoever_leaves_early_ends_all(workers: list[Forked]) -> None:
    def first(call: int) -> None:
        if call:
            patient(call)

    for key, _ in outcomes(first, {0: (0,), 1: (1,)}, 2):
        assert key == 0
        break
    assert {process.returncode for process in workers} == {-signal.SIGKILL}


SCRIPT = """
import numpy as np
import stakes

class Quadratic:
    lower, upper = 0.0, 3.0

    def __call__(self, action, outcome):
        return (action - outcome).square().sum(-1) + slope(action[..., 0])

slope = lambda action: 0.1 * action
features = np.random.default_rng(0).random((60, 2))
settings = dict(decision_weight="auto", weights=(0.0, 0.5), epochs=1, random_state=0)
one, two = (
    stakes.DecisionAwareForecaster(Quadratic(), **settings, n_jobs=n).fit(features, features.sum(1)) for n in (1, 2)
)
assert type(two.cost) is Quadratic
assert np.array_equal(one.sample(features), two.sample(features))
assert one.frontier_ == two.frontier_
print("the same")
"""


def test_a_script_shares_what_it_defines_and_takes_no_module_of_the_working_folder(tmp_path: Path) -> None:
    script = tmp_path / "elsewhere" / "script.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)  # without `if __name__ == "__main__":`
    for module in ("json", "torch", "stakes"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit(f'{__file__} was imported')")

    def run() -> None:
        os.chdir(tmp_path)
        runpy.run_path(str(script), run_name="__main__")

    with forked(run) as process:  # the processes that it starts are interpreters of their own
        output, errors = process.communicate()
    assert (process.returncode, output, errors) == (0, "the same\n", "")
