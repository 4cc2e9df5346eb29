"""How many of our files the main jobs run through: `python tests/safety/files_used.py [TREE]`.

A file counts where one of its functions is called, in whatever process: by `fit` (400 rows, a linear model), by
`decide` of that fit, by `decide --members`, and by a second request to the service of that fit. The last line is how
long `decide` takes for three rows from a cold start. `--names` lists the files.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COST = "--cost=newsvendor:underage=4,overage=1,upper=20"
JOBS = {
    "fit, 400 rows, linear": ("fit", "table.csv", "--target", "load", "--model", "linear", COST, "--out", "saved"),
    "decide FOLDER": ("decide", "saved", "table.csv", "--out", "decided.csv"),
    "decide --members": ("decide", "--members", "members.csv", COST, "--out", "decided_members.csv"),
}
WATCH = '''"""Every interpreter that starts here writes down which files of ours it calls, once a second at most."""
import os, sys, threading, time

HOME, LOG, last = os.environ["USED_HOME"], os.environ["USED_LOG"], {}


def see(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(HOME) and code.co_flags & 1:  # functions, not bodies of classes
        now = time.time()
        if now - last.get(code.co_filename, 0.0) > 1.0:
            last[code.co_filename] = now
            with open(LOG, "a") as log:
                log.write(f"{now} {code.co_filename[len(HOME) + 1:]}\\n")


threading.setprofile(see)
sys.setprofile(see)
'''


def write_tables(folder: Path) -> None:
    import numpy as np
    import pandas as pd

    random = np.random.default_rng(0)
    times = pd.date_range("2020-01-01", periods=400, freq="6h", name="time")
    temp = 10 + 5 * np.sin(np.arange(400) / 30) + random.normal(0, 1, 400)
    load = 6 + 2 * np.cos(2 * np.pi * times.hour / 24) - 0.1 * temp + random.normal(0, 0.3, 400)
    table = pd.DataFrame({"load": load, "temp": temp}, times)
    table.to_csv(folder / "table.csv")
    table[-3:].to_csv(folder / "three.csv")
    members = pd.DataFrame(np.asarray(load)[:60, None] + random.normal(0, 0.3, (60, 12)), times[:60])
    members.add_prefix("m").to_csv(folder / "members.csv")


class Watched:
    """Commands of a tree, and the files they call."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self._folder, self._log = folder, folder / "used.log"
        (folder / "watch").mkdir()
        (folder / "watch" / "sitecustomize.py").write_text(WATCH)
        source = str(tree / "src")
        self.plain = {**os.environ, "PYTHONPATH": source, "COLUMNS": "120", "OMP_NUM_THREADS": "1"}
        home = str(Path(source, "stakes"))
        paths = os.pathsep.join([str(folder / "watch"), source])
        self._watching = {**self.plain, "PYTHONPATH": paths, "USED_HOME": home, "USED_LOG": str(self._log)}

    def run(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "stakes.cli", *words]
        own = self._watching if environment is None else environment
        subprocess.run(command, cwd=self._folder, env=own, check=True, stdout=subprocess.DEVNULL)

    def called(self, since: float = 0.0) -> list[str]:
        """The files that were called since a moment."""
        lines = [line.split(" ", 1) for line in self._log.read_text().splitlines()]
        return sorted({path for moment, path in lines if float(moment) >= since})

    @contextmanager
    def serving(self) -> Iterator[str]:
        """The address of a service of the fit."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "stakes.cli", "serve", "saved", "--port", str(port)]
        service = subprocess.Popen(command, cwd=self._folder, env=self._watching, stderr=subprocess.PIPE, text=True)
        try:
            assert service.stderr is not None
            while "serves" not in (line := service.stderr.readline()):
                assert line, "the service ended"
            yield f"http://127.0.0.1:{port}"
        finally:
            service.terminate()
            service.wait()


def ask(address: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def measured(tree: Path) -> tuple[dict[str, list[str]], float]:
    """The files of every job, and the seconds of a cold start."""
    files = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_tables(folder)
        watched = Watched(tree, folder)
        for name, words in JOBS.items():
            start = time.time()
            watched.run(words)
            files[name] = watched.called(start)
        with watched.serving() as address:
            features = ask(f"{address}/v1/model")["features"]
            body = {"features": [[each["typical"] for each in features]]}
            ask(f"{address}/v1/decide", body)
            time.sleep(1.5)  # more than the second within which nothing is written down again
            start = time.time()
            ask(f"{address}/v1/decide", body)
            files["a request"] = watched.called(start)
        start = time.perf_counter()
        watched.run(("decide", "saved", "three.csv", "--out", "three_decided.csv"), watched.plain)
        return files, time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?", type=Path, default=ROOT, help="a checkout; this one by default")
    parser.add_argument("--names", action="store_true", help="name the files")
    given = parser.parse_args(arguments)
    files, seconds = measured(given.tree.resolve())
    for name, each in files.items():
        sys.stdout.write(f"{name:<24}{len(each):>4} files\n")
        sys.stdout.write("".join(f"    {path}\n" for path in each) if given.names else "")
    sys.stdout.write(f"decide FOLDER, 3 rows, from a cold start: {seconds:.2f} s\n")


if __name__ == "__main__":
    main()
