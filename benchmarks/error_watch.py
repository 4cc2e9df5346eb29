"""How often `stakes monitor` gives a false alarm, how soon it notices a change, and what repeated tests do instead.

    python -m benchmarks.error_watch [--draws 4000] [--json FILE]

Daily errors are standard normal, independent or with a correlation that falls to 1/e in 2, 5 or 10 days (an AR(1) with
0.61, 0.82 and 0.90), and the forecast is right about them: PITs are uniform, and the excess of the cost is the error
itself, less its mean, where it is above 0 (an error below costs nothing). 500 past cases are known, or 140, and one
looks after every new case for a year: by the watch with alpha = 0.05, with blocks of one case and of a week; and by
what takes five minutes to write, Student's test of the mean error or the test of Kolmogorov and Smirnov of all new PITs
so far against all past ones, each at 5 %. A change is there from the first new case, or from day 183 on: the mean moves
by half a standard deviation or by two, the errors are 1.5 times as wide as the forecast says, or two thirds. Eight
minutes on one core.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import ks_2samp, ttest_ind

from benchmarks.false_choices import independent_paths
from benchmarks.timing import processor
from stakes.evaluation.drift import SeenErrors, watch_errors

PAST, FEW, NEW, LATE = 500, 140, 365, 182
RESULTS = Path(__file__).parent / "results" / "error_watch.json"
SLOWER, FEWER = 20, 10  # draws of repeated tests, which are wrong so often that few tell, and of changes

Floats = NDArray[np.float64]
Noticed = Callable[[Floats, Floats], int | None]


def errors(generator: np.random.Generator, days: int, count: int) -> Floats:
    """Standard normal errors (N,) in a row."""
    return generator.normal(size=count) if not days else independent_paths(generator, count, days, 1)[:, 0]


def seen(values: Floats) -> SeenErrors:
    return SeenErrors(ndtr(values), values.clip(0) - 1 / math.sqrt(2 * math.pi))


def by_watch(block: int) -> Noticed:
    def noticed(past: Floats, new: Floats) -> int | None:
        left = watch_errors(seen(past), seen(new), block=block).left
        return left[0].noticed if left else None

    return noticed


def by_repeated(test: Callable[[Floats, Floats], Any]) -> Noticed:
    def noticed(past: Floats, new: Floats) -> int | None:
        looks = (count for count in range(2, len(new) + 1) if test(past, new[:count]).pvalue < 0.05)
        return next(looks, None)

    return noticed


def kolmogorov_smirnov(past: Floats, new: Floats) -> Any:
    return ks_2samp(ndtr(past), ndtr(new), method="asymp")


WAYS: dict[str, Noticed] = {
    "watch, blocks of 1": by_watch(1),
    "watch, blocks of 7": by_watch(7),
    "repeated t-test": by_repeated(ttest_ind),
    "repeated Kolmogorov-Smirnov test": by_repeated(kolmogorov_smirnov),
}
CHANGES: dict[str, Callable[[Floats], Floats]] = {
    "none": lambda values: values,
    "shift by 0.5": lambda values: values + 0.5,
    "shift by 2": lambda values: values + 2,
    "errors 1.5 times as wide": lambda values: 1.5 * values,
    "errors 2/3 as wide": lambda values: values / 1.5,
}


def paths(
    generator: np.random.Generator, change: str, days: int, first: int, past: int = PAST
) -> tuple[Floats, Floats]:
    """Past errors, and new ones that are changed from one of them on."""
    path = errors(generator, days, past + NEW)
    path[past + first :] = CHANGES[change](path[past + first :])
    return path[:past], path[past:]


def false_alarms(way: str, days: int, draws: int, past: int = PAST) -> dict[str, Any]:
    """How often a way sees a change in a year where there is none."""
    generator = np.random.default_rng((days, draws))
    alarms = [WAYS[way](*paths(generator, "none", days, 0, past)) is not None for _ in range(draws)]
    share = round(100 * float(np.mean(alarms)), 1)
    return {"way": way, "days to 1/e": days, "past cases": past, "draws": draws, "false alarms in a year, %": share}


def delays(way: str, change: str, days: int, first: int, draws: int, past: int = PAST) -> dict[str, Any]:
    """After how many changed cases a way notices; those who gave a false alarm before are not counted."""
    generator = np.random.default_rng((days, first, len(change)))
    noticed_at = [WAYS[way](*paths(generator, change, days, first, past)) for _ in range(draws)]
    after = np.array([math.inf if each is None else each - first for each in noticed_at])
    quantiles = np.quantile(after[after > 0], (0.25, 0.5, 0.9), method="lower")
    noticed = {
        f"{share} % after": int(count) if math.isfinite(count) else None
        for share, count in zip((25, 50, 90), quantiles, strict=True)
    }
    about = {"way": way, "change": change, "days to 1/e": days, "from case": first, "past cases": past, "draws": draws}
    return about | noticed


def run(draws: int) -> dict[str, Any]:
    began, alarms, noticed = time.process_time(), [], []
    for way in WAYS:
        for days in (0, 2) if way.startswith("repeated") else (0, 2, 5, 10):
            for past in (PAST,) if way.startswith("repeated") else (PAST, FEW):
                alarms.append(false_alarms(way, days, draws // SLOWER if way.startswith("repeated") else draws, past))
                print(alarms[-1], flush=True)
    for way, days in (("watch, blocks of 1", 0), *(("watch, blocks of 7", days) for days in (0, 2, 5, 10))):
        for change in list(CHANGES)[1:]:
            for first in (0, LATE):
                noticed.append(delays(way, change, days, first, draws // FEWER))
                print(noticed[-1], flush=True)
    for change in list(CHANGES)[1:]:
        noticed.append(delays("watch, blocks of 7", change, 0, 0, draws // FEWER, FEW))
        print(noticed[-1], flush=True)
    seconds = round(time.process_time() - began)
    return {"machine": processor(), "CPU seconds": seconds, "false alarms": alarms, "delays": noticed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--json", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    arguments.json.write_text(json.dumps(run(arguments.draws), indent=1) + "\n")


if __name__ == "__main__":
    main()
