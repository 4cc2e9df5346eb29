"""Costs that other packages bring, named by entry points."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from calls import called
from refusals import refuses

from stakes.cost_spec import spec as specs
from stakes.cost_spec.spec import CostSpec
from stakes.errors import CostError

CODE = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Tracking:
    weight: float
    side: str = "both"
    lower: float = 0.0
    upper: float = 30.0

    def __call__(self, action, outcome):
        return self.weight * (action[..., 0] - outcome[..., 0]) ** 2

def function(action, outcome):
    return 0 * action[..., 0]
"""
COSTS = """
[stakes.costs]
tracking = tracking_costs:Tracking
newsvendor = tracking_costs:Tracking
function = tracking_costs:function
gone = tracking_costs:Gone
"""
TEXT = "tracking:weight=2,side=low,unit=EUR"


def install(folder: Path, version: str) -> None:
    """What pip leaves of a tiny package."""
    about = folder / version / f"tracking_costs-{version}.dist-info"
    about.mkdir(parents=True)
    (folder / version / "tracking_costs.py").write_text(CODE)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tracking-costs\nVersion: {version}\n")
    (about / "entry_points.txt").write_text(COSTS)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    for version in ("1.0", "2.0"):
        install(folder, version)
    return folder


@pytest.fixture
def package(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(installed / "1.0")
    specs._kind.cache_clear()
    yield installed
    specs._kind.cache_clear()
    sys.modules.pop("tracking_costs", None)


def test_a_cost_of_a_package_is_understood_by_name(package: Path) -> None:
    spec = CostSpec.parse(TEXT)
    cost = spec.build()
    assert (type(cost).__name__, cost.weight, cost.side) == ("Tracking", 2.0, "low")
    assert str(spec) == TEXT
    assert type(CostSpec.parse("newsvendor:underage=4,overage=1").build()).__module__.startswith("stakes.")
    refuses(CostError, "tracking:weight=1", CostSpec.parse, "tracking")
    refuses(CostError, "'wight'", CostSpec.parse, "tracking:wight=2")
    refuses(CostError, "parameter weight", CostSpec.parse, "tracking:weight=1..5")
    refuses(CostError, "dataclass", CostSpec.parse, "function:weight=1")
    refuses(CostError, "gone of tracking-costs 1.0", CostSpec.parse, "gone:weight=1")
    refuses(CostError, "'tracking'", CostSpec.parse, "trakcing:weight=1")


def test_a_fit_asks_for_the_version_that_it_was_made_with(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = CostSpec.parse(TEXT).record()
    assert record["package"] == "tracking-costs 1.0"
    assert CostSpec.from_record(record).build() == CostSpec.parse(TEXT).build()
    specs._kind.cache_clear()
    monkeypatch.syspath_prepend(package / "2.0")
    refuses(CostError, "tracking-costs 1.0, got tracking-costs 2.0", CostSpec.from_record, record)


def test_the_commands_know_it(package: Path) -> None:
    (package / "members.csv").write_text("m0,m1\n1,2\n")
    code, table, _ = called("decide", "--members", str(package / "members.csv"), "--cost", TEXT, "--quiet")
    assert (code, table.splitlines()[1].split(",")[1]) == (0, "1.5")
