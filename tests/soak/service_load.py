"""A service under load, under nonsense, and beside a call in the same process.

    python tests/soak/service_load.py [--seconds 60] [--connections 50] [--malformed 1000] [--calls 300]

`stakes serve` runs in a process of its own with a small fit; this process asks it for decisions over as many
connections at once as there may be, each a new question as soon as the last one is answered. Then come requests that
are wrong in one way or another, then, one after the other in turn, the same decision over HTTP and by
`DecisionAwareForecaster.solve` here, and last the moves of a slider on the page, each for another cost.
"""

import argparse
import asyncio
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from stakes.artifacts.fits import save_bundle
from stakes.cost_spec.spec import CostSpec
from stakes.data.tables.layout import TableLayout
from stakes.forecasting.forecaster import DecisionAwareForecaster

NAMES = ("wind", "sun", "price")
SPEC = CostSpec.parse("imbalance:short=4,long=1,upper=9")
MEMBERS = 500
GROWTH = 0.05  # of the resident memory, from the second quarter of the load to the last
SLOWER = 3.0  # than the call in the same process
MOVE_MILLISECONDS = 50  # for 95 of 100 moves of a slider


@dataclass(frozen=True)
class Load:
    """What came of a load: latencies in seconds, statuses, and the server's memory in MiB, second by second."""

    seconds: float
    latencies: list[float]
    statuses: Counter[int]
    memory: list[float]

    @property
    def growth(self) -> float:
        quarter = max(1, len(self.memory) // 4)
        before, after = (
            statistics.median(part) for part in (self.memory[quarter : 2 * quarter], self.memory[-quarter:])
        )
        return after / before - 1

    @property
    def text(self) -> str:
        p50, p99 = np.quantile(self.latencies, [0.5, 0.99]) * 1e3
        rate = len(self.latencies) / self.seconds
        memory = f"memory {self.memory[0]:.0f} MiB at first, {self.memory[-1]:.0f} at last, {self.growth:+.1%}"
        return (
            f"{len(self.latencies)} answers in {self.seconds:.0f} s, {rate:.0f} a second, p50 {p50:.1f} ms, "
            f"p99 {p99:.1f} ms, statuses {dict(self.statuses)}; {memory}"
        )


def decision_request(members: int | None = None) -> bytes:
    body = {"features": [dict.fromkeys(NAMES, 0.25)]} | ({} if members is None else {"member_count": members})
    return post("/v1/decide", json.dumps(body).encode())


def post(path: str, content: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head.encode() + f"Content-Length: {len(content)}\r\n\r\n".encode() + content


async def answer(reader: asyncio.StreamReader) -> int:
    """The status of an answer that is then read whole; 0 where the other side has gone."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0
    lines = head.decode("latin-1").lower().split("\r\n")
    lengths = [int(line.partition(":")[2]) for line in lines if line.startswith("content-length:")]
    if lengths:
        await reader.readexactly(lengths[0])
    return int(lines[0].split()[1])


def memory_of(process: int) -> float:
    """Resident memory in MiB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


async def load(port: int, process: int, seconds: float, connections: int, request: bytes) -> Load:
    """Ask on all connections, each again and again, for so long."""
    latencies: list[float] = []
    statuses: Counter[int] = Counter()
    memory: list[float] = []
    begin = time.perf_counter()

    async def ask() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() - begin < seconds:
            before = time.perf_counter()
            writer.write(request)
            status = await answer(reader)
            latencies.append(time.perf_counter() - before)
            statuses[status] += 1
            if status == 0:
                break
        writer.close()

    async def watch() -> None:
        while time.perf_counter() - begin < seconds:
            memory.append(memory_of(process))
            await asyncio.sleep(min(1.0, seconds / 8))

    await asyncio.gather(watch(), *(ask() for _ in range(connections)))
    return Load(time.perf_counter() - begin, latencies, statuses, memory)


def malformed_request(generator: random.Random) -> bytes:
    """A request that is wrong in one way or another."""
    whole = decision_request(MEMBERS)
    content = whole.partition(b"\r\n\r\n")[2]
    number = generator.choice([b"NaN", b"1e999", b"-Infinity", b"null", b'"1"', b"[]", b"9" * 400, b"{}"])
    cut = generator.randrange(1, len(content))
    damaged = bytearray(content)
    damaged[generator.randrange(len(damaged))] = generator.choice(b'\x00\xff"{}[]:,')
    return generator.choice(
        [
            post("/v1/decide", content[:cut]),
            post("/v1/decide", bytes(damaged) + b"}"),
            post("/v1/decide", content.replace(b"0.25", number)),
            post("/v1/decide", b"[" * generator.randrange(1, 20_000)),
            post("/v1/decide", generator.randbytes(generator.randrange(200))),
            post("/v1/table", json.dumps({"csv": generator.randbytes(99).decode("latin-1")}).encode()),
            post(f"/v1/{generator.choice(['', 'decides', '../decide', '%00'])}", content),
            whole.replace(b"POST", generator.choice([b"GET", b"PUT", b"DELETE", b"BREW", b"P\x00ST"]), 1),
            whole.replace(b"HTTP/1.1", generator.choice([b"HTTP/x.1", b"HTTP"]), 1),
            whole.replace(b"Host: localhost", generator.choice([b"Host: example.org", b"No host", b"Host: \x00"]), 1),
            whole.replace(b"Content-Length: ", generator.choice([b"Content-Length: -", b"Content-Length: 9e9"]), 1),
            whole.replace(b"Content-Length: ", b"Content-Length: 999999999", 1),
            post("/v1/decide", b" " * 20_000_000) if generator.random() < 0.02 else b"\r\n\r\n\x16\x03\x01\r\n\r\n",
        ]
    )


async def nonsense(port: int, requests: int, seed: int) -> Counter[int]:
    """The statuses of so many malformed requests, each on a connection of its own."""
    generator = random.Random(seed)
    statuses: Counter[int] = Counter()
    for _ in range(requests):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(malformed_request(generator))
        statuses[await asyncio.wait_for(answer(reader), 60)] += 1
        writer.close()
    return statuses


async def side_by_side(port: int, forecaster: DecisionAwareForecaster, calls: int) -> tuple[float, float]:
    """The middle of the times in seconds over HTTP and here, measured in turn."""
    row = pd.DataFrame([dict.fromkeys(NAMES, 0.25)])
    request = decision_request(MEMBERS)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    there, here = [], []
    for _ in range(calls):
        before = time.perf_counter()
        writer.write(request)
        assert await answer(reader) == 200
        between = time.perf_counter()
        forecaster.solve(row)
        there.append(between - before)
        here.append(time.perf_counter() - between)
    writer.close()
    return statistics.median(there), statistics.median(here)


def move_request(place: float) -> bytes:
    """What the page asks when a slider comes to a place between 0 and 1: both forecasts of a case."""
    body = {"features": dict.fromkeys(NAMES, 0.25), "cost": {"short": 0.4 * 100**place, "long": 1}}
    return post("/v1/curve", json.dumps({**body, "forecasts": ["selected", "weight_0"], "points": 201}).encode())


async def moves(port: int, count: int) -> list[float]:
    """How long each of so many moves takes, in seconds."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = []
    for place in range(count):
        before = time.perf_counter()
        writer.write(move_request(place / count))
        assert await answer(reader) == 200
        found.append(time.perf_counter() - before)
    writer.close()
    return found


def fitted(folder: Path) -> DecisionAwareForecaster:
    """A forecaster with the default networks, hardly trained, saved in the folder."""
    draws = np.random.default_rng(0)
    features = pd.DataFrame(draws.uniform(-1, 1, (400, len(NAMES))), columns=list(NAMES))
    load_of = 3 + features.sum(axis=1) + draws.normal(0, 0.3, 400)
    forecaster = DecisionAwareForecaster(
        SPEC.build(), decision_weight=0.5, baseline=True, epochs=1, members=MEMBERS, random_state=0, device="cpu"
    )
    forecaster.fit(features, load_of.rename("load"))
    save_bundle(folder, forecaster, cost_spec=SPEC, layout=TableLayout(("load",), features=NAMES))
    return forecaster


@contextmanager
def serving(fit: Path, *flags: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """`stakes serve` in a process of its own, and its port."""
    command = [sys.executable, "-m", "stakes.cli", "serve", str(fit), "--port", "0", *flags]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        yield server, int(server.stderr.readline().split()[2].rstrip("/").rpartition(":")[2])
    finally:
        server.kill()
        server.wait()


def soak(seconds: float, connections: int, malformed: int, calls: int, seed: int) -> list[str]:
    """All of it; the sentences say what went wrong."""
    with tempfile.TemporaryDirectory(prefix="stakes-soak-") as base:
        forecaster = fitted(Path(base) / "fit")
        with serving(Path(base) / "fit") as (server, port), asyncio.Runner() as runner:
            ask = decision_request()
            runner.run(load(port, server.pid, min(5.0, seconds), connections, ask))  # until all is warm
            found = runner.run(load(port, server.pid, seconds, connections, ask))
            statuses = runner.run(nonsense(port, malformed, seed))
            there, here = runner.run(side_by_side(port, forecaster, calls))
            p50, p95, p99 = np.quantile(runner.run(moves(port, calls)), [0.5, 0.95, 0.99]) * 1e3
            server.send_signal(signal.SIGTERM)
            code = server.wait(60)
            assert server.stderr is not None
            log = server.stderr.read()
    say(f"{connections} connections, one row, {MEMBERS} members: {found.text}")
    say(f"{malformed} malformed requests: statuses {dict(sorted(statuses.items()))}")
    say(f"one row, {MEMBERS} members, p50: {there * 1e3:.2f} ms over HTTP, {here * 1e3:.2f} ms here")
    say(f"moves of a slider, two forecasts: p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} ms")
    faults = {
        f"the load met {dict(found.statuses)}": set(found.statuses) != {200},
        f"memory grew by {found.growth:.1%}": found.growth > GROWTH,
        f"malformed requests met {dict(statuses)}": {status // 100 for status in statuses} != {4},
        f"HTTP takes {there / here:.2f} times as long as the call": there > SLOWER * here,
        f"5 of 100 moves of a slider take longer than {p95:.1f} ms": p95 > MOVE_MILLISECONDS,
        f"the service ended with {code}": code != 0,
        f"the service logged {log[:500]}": "Traceback" in log,
    }
    return [sentence for sentence, wrong in faults.items() if wrong]


def say(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="of the load")
    parser.add_argument("--connections", type=int, default=50, help="at once")
    parser.add_argument("--malformed", type=int, default=1000, help="requests that are wrong")
    parser.add_argument("--calls", type=int, default=300, help="over HTTP and here, to compare, and moves of a slider")
    parser.add_argument("--seed", type=int, default=0, help="of the malformed requests")
    torch.set_num_threads(1)
    troubles = soak(**vars(parser.parse_args(arguments)))
    for sentence in troubles:
        say(sentence)
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
