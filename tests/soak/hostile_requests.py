"""Requests made to stop a service: long, wide, deep, repeated and huge ones, and work that takes too long.

    python tests/soak/hostile_requests.py [--requests 10000] [--timeout 5] [--ends 10] [--seed 0]

`stakes serve` runs in a process of its own; several connections send it one request after the other. Meanwhile
`/healthz` is asked twenty times a second. Whatever comes, a request must be answered within the time-out and a second,
`/healthz` at once, and the memory of all processes must come back. Then services are ended by SIGTERM while they work.
"""

import argparse
import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

import numpy as np
from adversarial_inputs import tables
from service_load import NAMES, answer, fitted, post, say, serving

CONNECTIONS = 4
SECONDS_OVER = 1.0  # the time-out, that an answer may take
HEALTH_SECONDS = 0.5  # for 99 of 100 looks at /healthz
MEMORY_GROWTH = 0.2
BODY = 15 << 20  # bytes, nearly as many as a body may have
SHARE_OF_WORK = 0.25  # of the rounds with requests that are right and ask for as much as they may
ROUTES = ("decide", "forecast", "curve", "table")


def hostile_requests(seed: int) -> Iterator[tuple[str, bytes]]:
    """Kinds of requests and the requests, without end."""
    for each in count(seed):
        for kind, text in tables(each):
            yield f"table: {kind}", post("/v1/table", json.dumps({"csv": text.decode("latin-1")}).encode())
        for kind, route, content in _bodies(random.Random(each)):
            yield kind, post(f"/v1/{route}", content)


def _bodies(chance: random.Random) -> Iterator[tuple[str, str, bytes]]:
    size = round(10 ** chance.uniform(2, np.log10(BODY)))
    route = chance.choice(ROUTES)
    row = json.dumps(dict.fromkeys(NAMES, 0.25))
    yield "wrong members", "decide", _filled('{"members": [[', '"a"', ",", "]]}", size)
    yield "wrong members, many rows", "decide", _filled('{"members": [', '["a"]', ",", "]}", size)
    yield "wrong members of several outcomes", "decide", _filled('{"members": [[', '["a"]', ",", "]]}", size)
    yield "wrong features", "forecast", _filled('{"features": [[', "null", ",", "]]}", size)
    yield "wrong features, many rows", "forecast", _filled('{"features": [', "[null]", ",", "]}", size)
    yield "wrong levels", "decide", _filled('{"members": [[1]], "quantiles": [', "2", ",", "]}", size)
    yield "wrong forecasts", "curve", _filled('{"features": [0, 0, 0], "forecasts": [', '"x"', ",", "]}", size)
    yield "many members", "decide", _filled('{"members": [[', "1.5", ",", "]]}", size)
    yield "many rows of members", "decide", _filled('{"members": [', "[1.5, 2.5]", ",", "]}", size)
    yield "many rows of features", "decide", _filled('{"features": [', row, ",", "]}", size)
    yield "many features", route, _keys('{"features": [{', "1", "}]}", size)
    yield "many wrong features", "decide", _keys('{"features": [{', '"a"', "}]}", size)
    yield "many parameters", "decide", _keys('{"members": [[1]], "cost": {', "1", "}}", size)
    yield "many wrong parameters", "decide", _keys('{"members": [[1]], "cost": {', "[]", "}}", size)
    yield "many unknown fields", route, _keys("{", "1", "}", size)
    yield "one key again and again", "decide", _filled('{"cost": {', '"short": 1', ",", "}}", size)
    yield "deep", route, b"[" * size
    yield "deep objects", route, b'{"features":' * (size // 12)
    yield "a deep row", "decide", b'{"features": ' + b"[" * size + b"]" * size + b"}"
    yield "a long number", "decide", b'{"members": [[' + b"9" * size + b"]]}"
    yield "long decimals", "decide", b'{"members": [[0.' + b"3" * size + b"]]}"
    yield "a long exponent", "decide", b'{"members": [[1e' + b"9" * size + b"]]}"
    yield "many long numbers", "decide", _filled('{"members": [[', "9" * 300, ",", "]]}", size)
    yield "a long name", "decide", b'{"members": [[1]], "forecast": "' + b"x" * size + b'"}'
    yield "a long key", "decide", b'{"members": [[1]], "' + b"x" * size + b'": 1}'
    yield "a long feature", "decide", b'{"features": [{"' + b"x" * size + b'": 1}]}'
    yield "escapes", "table", b'{"csv": "' + b"\\u0001" * (size // 6) + b'"}'
    yield "halves of characters", "table", b'{"csv": "' + b"\\ud83d" * (size // 6) + b'"}'
    yield "a string that stays open", route, b'{"csv": "' + b"\\" * size
    yield "spaces", route, b" " * size
    yield "bytes", route, chance.randbytes(min(size, 1 << 20))
    yield "commas", route, b"[" + b"," * size + b"]"
    yield "digits in the header", "table", b'{"csv": "' + b"1" * size + b'x,b\\n1,2\\n"}'
    if chance.random() < SHARE_OF_WORK:
        yield "almost too large", "table", b'{"csv": "wind,sun,price\\n' + b"1,2,3\\n" * (BODY // 7) + b'"}'
        yield (
            "as much work as may be",
            "decide",
            _filled('{"features": [', row, ",", '], "member_count": 2000}', 1 << 19),
        )
        yield (
            "as much to tell as may be",
            "forecast",
            _filled('{"with_members": true, "member_count": 2000, "features": [', row, ",", "]}", 400 * len(row)),
        )


def _filled(head: str, part: str, between: str, tail: str, size: int) -> bytes:
    times = max(1, size // (len(part) + len(between)))
    return f"{head}{between.join([part] * times)}{tail}".encode()


def _keys(head: str, value: str, tail: str, size: int) -> bytes:
    times = max(1, size // (len(value) + 12))
    parts = ",".join(f'"k{place}": {value}' for place in range(times))
    return f"{head}{parts}{tail}".encode()


@dataclass
class Seen:
    """What came of the requests: by kind, how long they took in seconds at most, and their statuses."""

    longest: dict[str, float] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    given_up: Counter[str] = field(default_factory=Counter)
    health: list[float] = field(default_factory=list)

    def add(self, kind: str, seconds: float, status: int) -> None:
        self.longest[kind] = max(self.longest.get(kind, 0.0), seconds)
        self.statuses[status] += 1
        if status == 504:
            self.given_up[kind] += 1


async def attack(port: int, requests: int, seed: int) -> Seen:
    """Send so many requests, and look after the health of the service meanwhile."""
    seen = Seen()
    waiting = islice(hostile_requests(seed), requests)
    done = asyncio.Event()

    async def send() -> None:
        for kind, request in waiting:
            begin = time.perf_counter()
            status = await ask(port, request)
            seen.add(kind, time.perf_counter() - begin, status)

    async def look() -> None:
        while not done.is_set():
            begin = time.perf_counter()
            await ask(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            seen.health.append(time.perf_counter() - begin)
            await asyncio.sleep(0.05)

    looking = asyncio.create_task(look())
    await asyncio.gather(*(send() for _ in range(CONNECTIONS)))
    done.set()
    await looking
    return seen


async def ask(port: int, request: bytes) -> int:
    """The status of the answer, on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    try:
        writer.write(request)
        return await asyncio.wait_for(answer(reader), 120)
    finally:
        writer.close()


def memory_of_all(process: int) -> float:
    """MiB that a process and its descendants have in memory, each page counted once."""
    processes, parents = [process], _parents()
    for each in processes:
        processes += [child for child, parent in parents.items() if parent == each]
    return sum(_proportional_memory(each) for each in processes) / 1024


def _parents() -> dict[int, int]:
    stats = {int(path.name): path / "stat" for path in Path("/proc").iterdir() if path.name.isdecimal()}
    return {each: int(text.rpartition(")")[2].split()[1]) for each, stat in stats.items() if (text := _text(stat))}


def _proportional_memory(process: int) -> int:
    lines = _text(Path(f"/proc/{process}/smaps_rollup")).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has ended
        return ""


def end_at_work(fit: Path, timeout: float, requests: Sequence[bytes]) -> float:
    """How long a service takes to end after SIGTERM, in seconds, while it has these requests at work."""

    async def begin(port: int) -> list[asyncio.StreamWriter]:
        writers = [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in requests]
        for writer, request in zip(writers, requests, strict=True):
            writer.write(request)
            await writer.drain()
        await asyncio.sleep(0.3)
        return writers

    with serving(fit, "--timeout", str(timeout)) as (server, port), asyncio.Runner() as runner:
        writers = runner.run(begin(port))
        server.send_signal(signal.SIGTERM)
        before = time.monotonic()
        code = server.wait(timeout + 60)
        assert code == 0, f"the service ended with {code}"
        assert writers
        return time.monotonic() - before


def soak(requests: int, timeout: float, ends: int, seed: int) -> list[str]:
    """All of it; the sentences say what went wrong."""
    with tempfile.TemporaryDirectory(prefix="stakes-soak-") as base:
        fit = Path(base) / "fit"
        fitted(fit)
        with serving(fit, "--timeout", str(timeout)) as (server, port):
            asyncio.run(attack(port, 50, seed + 10**6))  # until all is warm
            before = memory_of_all(server.pid)
            seen = asyncio.run(attack(port, requests, seed))
            time.sleep(2)
            after = memory_of_all(server.pid)
        chance = random.Random(seed)
        slow = [request for kind, request in islice(hostile_requests(seed), 2000) if kind.startswith("as much")]
        seconds = [end_at_work(fit, timeout, chance.choices(slow, k=4)) for _ in range(ends)]
    p99 = float(np.quantile(seen.health, 0.99))
    slowest = sorted(seen.longest.items(), key=lambda item: -item[1])[:5]
    say(f"{requests} requests, {CONNECTIONS} at a time, time-out {timeout:g} s: {dict(sorted(seen.statuses.items()))}")
    say("slowest: " + "; ".join(f"{kind} {took:.2f} s" for kind, took in slowest))
    say(f"given up: {dict(seen.given_up)}")
    say(f"/healthz: {len(seen.health)} looks, p99 {p99 * 1e3:.0f} ms, at most {max(seen.health) * 1e3:.0f} ms")
    say(f"memory of all processes: {before:.0f} MiB before, {after:.0f} after")
    say(f"SIGTERM at work, {ends} times: ended within {max(seconds, default=0.0):.1f} s")
    troubles = [f"{kind} took {took:.1f} s" for kind, took in slowest if took > timeout + SECONDS_OVER]
    troubles += [f"{times} requests met {status}" for status, times in seen.statuses.items() if status in (0, 500)]
    troubles += [f"/healthz took {p99:.2f} s"] if p99 > HEALTH_SECONDS else []
    troubles += [f"memory grew from {before:.0f} to {after:.0f} MiB"] if after > (1 + MEMORY_GROWTH) * before else []
    troubles += [f"SIGTERM took {max(seconds):.1f} s"] if max(seconds, default=0.0) > timeout + 2 else []
    return troubles


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000, help="to send")
    parser.add_argument("--timeout", type=float, default=5.0, help="of the service, in seconds")
    parser.add_argument("--ends", type=int, default=10, help="services to end by SIGTERM while they work")
    parser.add_argument("--seed", type=int, default=0, help="of the requests")
    troubles = soak(**vars(parser.parse_args(arguments)))
    for sentence in troubles:
        say(sentence)
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
