"""What `compare_commits.py` compares: run under one tree, `python probes.py TREE RESULTS`, by names that users have.

Nothing here imports a module of the package but `stakes` itself, since modules move; commands are called as the tree's
pyproject.toml names them. What a probe finds is kept under keys such as `fit_linear/state.json#/weights/0`.
"""

import io
import json
import os
import pickle
import re
import runpy
import signal
import socket
import subprocess
import sys
import time
import tomllib
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

CASES, PARTS, MEMBERS = 3, 4, 9  # of a program
_PATIENCE = 180.0  # seconds until a process of ours has begun or ended
_PYTHON = "import sys; sys.argv = ['stakes', *sys.argv[1:]]; from {module} import {name}; sys.exit({name}())"
_UNTOLD = re.compile(  # keys that say when, where, how fast, or the hash of what is compared itself
    r"(.*_)?(seconds|created|started|finished|elapsed|pid|host|bytes|size|sha256|digest|fingerprint|versions?)"
)
_PROBES: dict[str, Callable[["Probed"], None]] = {}


def probe(function: Callable[["Probed"], None]) -> Callable[["Probed"], None]:
    """A probe of this file, run in the order of the file."""
    _PROBES[function.__name__] = function
    return function


class Probed:
    """What is found by the probes of a tree, by key: numbers, texts and arrays."""

    def __init__(self, tree: Path) -> None:
        script = tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]["stakes"]
        self.entry, self.tree, self.here, self.name = script.split(":"), tree, Path.cwd(), ""
        self.found: dict[str, Any] = {}
        self._seen: dict[Path, tuple[int, int]] = {}

    # What is kept

    def keep(self, key: str, value: Any) -> None:
        """A value of any kind, its parts under keys of their own."""
        self._keep(f"{self.name}/{key}", value)

    def _keep(self, key: str, value: Any) -> None:
        import numpy as np
        import pandas as pd
        import torch

        if isinstance(value, torch.Tensor):
            value = value.detach().numpy()
        if isinstance(value, pd.DataFrame):
            value = {str(name): value[name].to_numpy() for name in value.columns}
        elif hasattr(value, "_asdict"):
            value = value._asdict()
        elif hasattr(value, "__dataclass_fields__"):
            value = vars(value)
        if isinstance(value, np.ndarray) and value.dtype.kind in "OUSMm":
            value = np.datetime_as_string(value).tolist() if value.dtype.kind == "M" else value.astype(str).tolist()
        if isinstance(value, Mapping):
            for name, part in value.items():
                if not _UNTOLD.fullmatch(str(name)):
                    self._keep(f"{key}{'/' if '#' in key else '#/'}{name}", part)
        elif isinstance(value, list | tuple):
            for place, part in enumerate(value):
                self._keep(f"{key}{'/' if '#' in key else '#/'}{place}", part)
        elif isinstance(value, np.ndarray | bool | int | float) or value is None:
            self.found[key] = value
        else:
            self.found[key] = self._plain(str(value))

    def _plain(self, text: str) -> str:
        """A text without what differs from run to run."""
        for place, name in ((self.here, "HERE"), (self.tree, "TREE")):
            text = text.replace(str(place), name)
        text = re.sub(r"\b[0-9a-f]{16,64}\b|sha256-[\w+/=]{44}", "HASH", text)  # the latter of a page's own scripts
        today = [(datetime.now(UTC) - timedelta(days=days)).date().isoformat() for days in (0, 1)]
        text = re.sub(rf"(?:{'|'.join(today)})[T ][\d:.]+(?:Z|\+00:00)?", "NOW", text)
        return re.sub(r"\b\d+(?:\.\d+)? (?:s|ms|seconds?|min)\b", "TIME", text)

    def keep_files(self) -> None:
        """All files that are new or have changed, by what is in them."""
        for path in sorted(self.here.rglob("*")):
            if not path.is_file() or path.is_symlink() or path.suffix in (".lock", ".log"):
                continue
            stamp = (path.stat().st_mtime_ns, path.stat().st_size)
            if self._seen.get(path) != stamp:
                self._seen[path] = stamp
                self.keep(str(path.relative_to(self.here)), _content(path))

    # How commands are run

    def command(self, *words: str, name: str = "", module: str = "") -> None:
        """Run a command of `stakes`, or of another module, and keep all that comes of it."""
        code, output, errors = self._called(words, module)
        label = name or words[0]
        self.keep(f"{label}.code", code)
        self.keep(f"{label}.stderr", errors)
        try:
            self.keep(f"{label}.stdout", json.loads(output) if "--json" in words else output)
        except ValueError:
            self.keep(f"{label}.stdout", output)
        self.keep_files()

    def _called(self, words: Iterable[str], module: str) -> tuple[int, str, str]:
        before = sys.argv
        with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
            try:
                if module:
                    sys.argv = [module, *words]
                    runpy.run_module(module, run_name="__main__", alter_sys=True)
                    code: Any = 0
                else:
                    code = getattr(__import__(self.entry[0], fromlist=["_"]), self.entry[1])(list(words))
            except SystemExit as ending:
                code = ending.code
            finally:
                sys.argv = before
        return int(code or 0), output.getvalue(), errors.getvalue()

    def started(self, *words: str, module: str = "") -> "subprocess.Popen[bytes]":
        """A command in a process of its own."""
        code = _PYTHON.format(module=self.entry[0], name=self.entry[1])
        start = ["-m", module] if module else ["-c", code]
        return subprocess.Popen([sys.executable, *start, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def interrupted(self, sign: str, *words: str, after: float = 0.0, module: str = "") -> None:
        """A command that is asked to end once there are files of a pattern, and some seconds after."""
        process = self.started(*words, module=module)
        if not _waited(lambda: process.poll() is not None or any(self.here.glob(sign))):
            process.kill()
        time.sleep(after)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=_PATIENCE)
        if process.returncode == 0:
            sys.stderr.write(f"  {words[0]} ended before it could be interrupted\n")

    @contextmanager
    def serving(self, *words: str) -> Iterator[Callable[..., Any]]:
        """A service, and what asks it a question and keeps the answer."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        address, count = f"http://127.0.0.1:{port}", [0]
        process = self.started("serve", *words, "--port", str(port))
        try:
            if not _waited(lambda: process.poll() is not None or _answer(f"{address}/healthz")[0] == 200):
                raise TimeoutError("the service does not answer")

            def ask(path: str, **body: Any) -> Any:
                status, text = _answer(address + path, body or None)
                answer = _parsed(text.replace(f":{port}", ":PORT"))
                count[0] += 1
                self.keep(f"{words[0]} {count[0]:02} {path}", {"status": status, "answer": answer})
                return answer

            yield ask
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


def _waited(done: Callable[[], bool]) -> bool:
    until = time.monotonic() + _PATIENCE
    while not done():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _answer(address: str, body: Any = None) -> tuple[int, str]:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, content, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _content(path: Path) -> Any:
    """What is in a file: numbers, texts and arrays by name, or its bytes."""
    import numpy as np
    import pandas as pd

    if path.suffix == ".json":
        return _parsed(path.read_text("utf-8"))
    if path.suffix == ".jsonl":
        return [_parsed(line) for line in path.read_text("utf-8").splitlines()]
    if path.suffix == ".csv":
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        return {name: table[name].tolist() for name in table.columns}
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, "numpy") as file:
            return {"metadata": file.metadata(), **{name: file.get_tensor(name) for name in file.keys()}}  # noqa: SIM118
    if path.suffix == ".nc":
        import xarray as xr

        with xr.open_dataset(path, decode_times=False) as data:
            return {str(name): np.asarray(values) for name, values in data.variables.items()}
    if path.suffix in (".html", ".svg", ".md", ".txt", ".toml", ".py"):
        return path.read_text("utf-8")
    return path.read_bytes().hex()


# What the files of a user are


def _write_tables(folder: Path) -> None:
    """Tables of loads, customers, members, quantiles and past forecasts."""
    import numpy as np
    import pandas as pd

    random = np.random.default_rng(0)
    times = pd.date_range("2020-01-01", periods=320, freq="6h", name="time")
    temp = 10 + 5 * np.sin(np.arange(320) / 30) + random.normal(0, 1, 320)
    load = 6 + 2 * np.cos(2 * np.pi * times.hour / 24) - 0.1 * temp + random.normal(0, 0.3, 320)
    table = pd.DataFrame({"load": load.round(4), "temp": temp.round(3), "bought": (load + 0.2).round(3)}, times)
    table.iloc[[40, 41], 1] = np.nan
    table[:300].to_csv(folder / "load.csv")
    table.to_csv(folder / "longer.csv")
    table[-40:].assign(their_penalty=np.linspace(2, 40, 40).round(2)).to_csv(folder / "new.csv")
    days = pd.date_range("2020-01-01", periods=160, name="day")
    level = random.normal(5, 1, 160)
    hours = {f"h{hour}": (level + hour + random.normal(0, 0.3, 160)).round(3) for hour in range(3)}
    pd.DataFrame({"level": level.round(3), **hours}, days).to_csv(folder / "days.csv")
    centre = random.uniform(0.3, 0.7, 60)
    issued = pd.date_range("2020-01-01", periods=60, freq="12h", name="time")
    members = (centre[:, None] + random.normal(0, 0.05, (60, 12))).round(4)
    pd.DataFrame(members, issued, [f"m{place}" for place in range(12)]).to_csv(folder / "members.csv")
    pd.DataFrame(np.quantile(members, [0.1, 0.5, 0.9], axis=1).T.round(4), issued, ["q10", "q50", "q90"]).to_csv(
        folder / "quantiles.csv"
    )
    pd.DataFrame({"power": (centre + random.normal(0, 0.05, 60)).round(4)}, issued).to_csv(folder / "outcomes.csv")
    sites = pd.DataFrame(np.concatenate([members[:, :3], 2 * members[:, 3:6]], 1), issued)
    sites.columns = [f"{site}_m{place}" for site in "ab" for place in range(3)]
    sites.to_csv(folder / "sites.csv")
    past = random.normal(10, 3, 250)
    seen = pd.DataFrame((past[:, None] + random.normal(0, 0.4, (250, 8)) - 2).round(3)).add_prefix("m")
    seen.insert(0, "time", pd.date_range("2020-01-01", periods=250))
    seen = seen.assign(power=(past + random.normal(0, 1, 250)).round(3), done=12.0)
    seen[:160].to_csv(folder / "past.csv", index=False)
    seen.to_csv(folder / "grown.csv", index=False)
    training = "[training]\nepochs = 2\nvalidate_every = 1\nmembers = 2\nvalidation_members = 4\nbatch = 400\n"
    model = '[model]\nname = "implicit"\nhidden = 4\nlayers = 1\nnoise = 2\n'
    run = f'task = "synthetic"\ndecision_weight = 0.5\n{model}{training}'
    (folder / "run.toml").write_text(run)
    (folder / "longer.toml").write_text(run.replace("epochs = 2", "epochs = 150"))
    grid = "[grid]\ndecision_weight = [0, 0.3]\nseed = [0, 1]\n"
    (folder / "sweep.toml").write_text(f'task = "synthetic"\n{model}{training}{grid}')
    (folder / "own.py").write_text("def cost(action, outcome):\n    return (action[..., 0] - outcome[..., 0]) ** 2\n")
    (folder / "bakery.toml").write_text(
        'unit = "EUR"\n[decide.hours]\ncost = 12\nupper = 10\n[recourse.missing]\ncost = "margin"\n[limits]\n'
        'staff = "sum(hours) <= staff"\n[recourse_constraints]\ndemand = "rate * hours + missing >= outcome"\n'
        "[numbers]\nstaff = 2\nrate = [3, 2, 1]\nmargin = [10, 20, 30]\n"
    )


# Decisions, by the names that `stakes` exports


def _programs() -> dict[str, tuple[Any, Any]]:
    """Decisions with many parts and solvers for them, by name."""
    import torch

    import stakes

    price = torch.tensor([1.0, 1.3, 0.8, 1.1], dtype=torch.float64)
    budget = torch.ones(1, PARTS), torch.tensor([5.0])

    def smooth(action: Any, outcome: Any) -> Any:
        return (torch.nn.functional.softplus(5 * (outcome - action)) + action / 5).sum(-1)

    def in_words(recourse: Mapping[str, Any], row: str, **limits: str) -> Any:
        decide = {"plan": stakes.Quantity(cost=price.tolist(), upper=9, square=0.1)}
        return stakes.Program(decide=decide, recourse=recourse, limits=limits, recourse_constraints={"balance": row})

    quantity, eye = stakes.Quantity, torch.eye(PARTS, dtype=torch.float64)
    missing = {"missing": quantity(cost=[5.0, 6.0, 7.0, 8.0])}
    mended = {"bought": quantity(cost=5), "urgent": quantity(cost=3, upper=0.2), "spilled": quantity(cost=0.3)}
    matrices = stakes.ScenarioProgram(
        T=eye, W=torch.ones(PARTS), h_y=eye, q=torch.full((PARTS,), 6.0), p=price, P=eye / 5, lower=torch.zeros(PARTS)
    )
    free, ramped = stakes.ScheduleCost(4.0, 1.0), stakes.ScheduleCost(4.0, 1.0, 0.7, 0.5)
    return {
        "schedule": (ramped, None),
        "schedule by program": (ramped, stakes.InteriorPoint()),
        "schedule smoothed": (ramped, stakes.InteriorPoint(smoothing=0.01)),
        "schedule linear": (stakes.ScheduleCost(5.0, 2.0, ramp=0.4, upper=4.0), None),
        "schedule free": (free, None),
        "schedule each": (stakes.ScheduleCost(price + 3, price, ramp=0.6), None),
        "allocation": (stakes.AllocationCost(4.0, 1.0, 6.0), None),
        "allocation rich": (stakes.AllocationCost(price + 2, 1.0, 60.0), None),
        "storage": (stakes.StorageCost(price, 6.0, 0.1, 0.5, 0.8), None),
        "arbitrage": (stakes.ArbitrageCost(0.7, 1.0, 0.9, 0.3), None),
        "tail of schedules": (stakes.CVaRCost(ramped, 0.4), None),
        "tail of storage": (stakes.CVaRCost(stakes.StorageCost(price, 6.0, 0.1, 0.5, 0.8), 0.5, 0.6), None),
        "tail of one": (stakes.CVaRCost(stakes.NewsvendorCost(3.0, 1.0, 0.0, 20.0), 0.4), None),
        "function": (stakes.cost_function(smooth, 0.0, 9.0, True, limits=budget), None),
        "function unknown": (stakes.cost_function(smooth, 0.0, 9.0, limits=budget), None),
        "words": (in_words(missing, "plan + missing >= outcome", budget="sum(plan) <= 7"), None),
        "words in groups": (in_words(mended, "plan + bought + urgent - spilled = outcome", cap="sum(plan) <= 6"), None),
        "words in steps": (in_words(missing, "plan + missing >= outcome", ramp="abs(change(plan)) <= 0.4"), None),
        "words impossible": (in_words(missing, "plan + missing >= outcome", no="sum(plan) <= -1"), None),
        "matrices": (matrices, None),
    }


def _members(*shape: int, seed: int = 0) -> Any:
    import torch

    drawn = torch.randn(*shape, PARTS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) / 4
    return drawn.abs() + torch.tensor([0.7, 1.7, 2.7, 2.2], dtype=torch.float64)


def _decided(probed: Probed, key: str, cost: Any, samples: Any, solver: Any = None, weights: Any = None) -> None:
    """Action, certificate and gradient."""
    import stakes

    leaf = samples.clone().requires_grad_()
    probed.keep(key, stakes.solve_action(cost, samples, solver, weights=weights))
    action = stakes.optimal_action(cost, leaf, solver, weights=weights)
    if action.requires_grad:
        action.nan_to_num().square().sum().backward()
    probed.keep(f"{key} gradient", leaf.grad)


@probe
def programs(probed: Probed) -> None:
    """Forty programs with their gradients, half of them of weighted members; what limits save, and checks of some."""
    import torch

    import stakes

    weights = torch.arange(1.0, MEMBERS + 1, dtype=torch.float64).expand(CASES, MEMBERS)
    for name, (cost, solver) in _programs().items():
        samples = _members(CASES, MEMBERS)
        samples = samples[..., :1] if name == "tail of one" else samples
        if name == "matrices":
            solved = cost.solve(samples.requires_grad_(), gradient=True)
            solved.action.square().sum().backward()
            probed.keep(name, {"action": solved.action, "gradient": samples.grad})
            probed.keep(f"{name} weighted", cost.solve(samples.detach(), weights).action)
            continue
        _decided(probed, name, cost, samples, solver)
        _decided(probed, f"{name} weighted", cost, samples + 0.5, solver, weights)
        if name in ("schedule", "allocation", "storage", "words"):
            limits = stakes.limit_prices(cost, samples)
            probed.keep(f"{name} limits", {"binds": limits.binds, "price": limits.price, "places": limits.places})
            probed.keep(f"{name} checked", str(stakes.check_program(cost, _members(12, MEMBERS))))


@probe
def costs(probed: Probed) -> None:
    """Every cost of one number: actions, certificates, gradients, with weights, by solvers, and checked."""
    import torch

    import stakes

    known = {
        "imbalance": stakes.ImbalanceCost(3.0, 1.0, 0.0, 9.0),
        "newsvendor": stakes.NewsvendorCost(9.0, 1.0, 0.0, 9.0),
        "shortfall": stakes.ShortfallCost(5.0),
        "wind": stakes.WindDispatchCost(20.0),
        "protection": stakes.ProtectionCost(2.0, 0.5),
        "frost": stakes.ProtectionCost(2.0, 0.5, "below", 2.0, 3.0, 2.0),
        "of each case": stakes.NewsvendorCost(torch.tensor([1.0, 5.0, 9.0], dtype=torch.float64), 1.0, 0.0, 9.0),
        "function": stakes.cost_function(lambda a, y: (a[..., 0] - y.mean(-1)) ** 2, 0.0, 4.0, True),
        "waves": stakes.cost_function(lambda a, y: torch.sin(3 * a[..., 0]) * y.mean(-1), 0.0, 4.0),
    }
    samples = _members(CASES, 30, seed=1)
    samples = samples / samples.amax()
    weights = torch.arange(1.0, 31.0, dtype=torch.float64).expand(CASES, 30)
    for name, cost in known.items():
        for solver in (None, stakes.NewtonBisection(), stakes.ProjectedGradient(steps=20)):
            _decided(probed, f"{name} by {type(solver).__name__}", cost, 4 * samples, solver)
        _decided(probed, f"{name} weighted", cost, 4 * samples, None, weights)
        _decided(probed, f"{name} single", cost, samples.float())
        score = stakes.DecisionScore(cost, "debiased")(samples, samples[:, 0])
        probed.keep(f"{name} score", score)
        if name != "of each case":
            probed.keep(f"{name} checked", str(stakes.check_cost(cost, 4 * _members(12, 20))))
    shared = stakes.ParameterRange(1, 50)
    probed.keep("range", [shared.middle, list(shared.points(5)), shared.at(torch.rand(4, generator=_seeded()))])


def _seeded(seed: int = 0) -> Any:
    import torch

    return torch.Generator().manual_seed(seed)


@probe
def scores(probed: Probed) -> None:
    """Every score with its gradient, the objective and the loss."""
    import torch

    import stakes

    cost = stakes.ShortfallCost(5.0)
    samples, outcome = (torch.rand(6, *shape, 3, generator=_seeded(), dtype=torch.float64) for shape in ((12,), ()))
    rules = {
        "energy": stakes.EnergyScore(),
        "biased": stakes.EnergyScore("biased"),
        "almost": stakes.EnergyScore("almost_fair"),
        "pointwise": stakes.PointwiseCRPS(),
        "threshold": stakes.ThresholdWeightedCRPS(0.5, "below"),
        "variogram": stakes.VariogramScore(),
        "total": stakes.TotalCRPS(cost),
        "mixture": stakes.ScoreMixture((stakes.EnergyScore(), stakes.TotalCRPS(cost)), (1.0, 0.5), (2.0, 3.0)),
        "decision": stakes.DecisionScore(cost),
    }
    for name, rule in rules.items():
        leaf = samples.clone().requires_grad_()
        value = rule(leaf, outcome)
        value.sum().backward()
        probed.keep(name, {"value": value, "gradient": leaf.grad})
    objective = stakes.DecisionAwareObjective(rules["energy"], rules["decision"], 0.4)
    known = torch.tensor([True, True, False, True, True, True])
    terms = objective.from_samples(samples, outcome, mask=known, case_weight=torch.arange(6.0))
    probed.keep("objective", {"total": terms.total, "score": terms.score, "mean": terms.mean().total})
    loss = stakes.DecisionAwareLoss(objective)
    loss.estimate_scales(samples, outcome)
    probed.keep("loss", {"value": loss(samples, outcome), **dict(loss.named_buffers())})


@probe
def models(probed: Probed) -> None:
    """Weights and members of every model, and the power of a turbine."""
    import torch

    import stakes

    features, outcome = (torch.randn(40, width, generator=_seeded(width)) for width in (3, 2))
    for make in (stakes.ImplicitModel, stakes.DiffusionModel, stakes.LinearModel):
        torch.manual_seed(0)
        model = make(3, 2) if make is stakes.LinearModel else make(3, 2, hidden=8, layers=2)
        model.fit_scaling(features, outcome)
        draw = model.training_draw(features, outcome, model.draw_noise(40, 5, _seeded()))
        probed.keep(make.__name__, {name.replace(".", "_"): values for name, values in model.state_dict().items()})
        probed.keep(f"{make.__name__} draw", draw)
        for shared in (False, True):
            probed.keep(f"{make.__name__} {shared}", model.sample(features[:4], 6, _seeded(), share_noise=shared))
    probed.keep("power", stakes.PowerCurve()(torch.linspace(0, 30, 31)))


@probe
def estimators(probed: Probed) -> None:
    """Forecasters and recalibrators in Python: forecasts, decisions, and what was learned."""
    import numpy as np

    import stakes

    random = np.random.default_rng(0)
    features = random.uniform(size=(160, 2))
    outcome = features.mean(1) + random.normal(0, 0.1, 160)
    cost = stakes.ShortfallCost(5.0)
    kinds = {
        "network": {"decision_weight": 0.5},
        "diffusion": {"model": "diffusion", "decision_weight": 0.3, "base": "none"},
        "linear": {"model": "linear", "decision_weight": 0.0},
        "chosen": {"weights": (0.0, 0.4), "ensemble": 2},
        "trees": {"base": "trees", "decision_weight": 0.2},
    }
    for name, given in kinds.items():
        forecaster = stakes.DecisionAwareForecaster(cost, epochs=2, members=20, random_state=0, device="cpu", **given)
        forecaster.fit(features, outcome)
        found = {"members": forecaster.sample(features[:5]), "actions": forecaster.decide(features[:20])}
        probed.keep(name, found | {"score": forecaster.score(features, outcome)})
    newsvendor = stakes.NewsvendorCost(9.0, 1.0, -10.0, 10.0)
    known = random.normal(size=(400, 1))
    seen = known[:, 0] + 2 + random.normal(size=400)
    times = np.datetime64("2020-01-01T00") + 24 * np.arange(400) * np.timedelta64(1, "h")
    forms = {"members": known + 0.5 * random.normal(size=(400, 10)), "points": known[:, 0]}
    for name, given in forms.items():
        recalibrator = stakes.Recalibrator(newsvendor, decision_weights=(0.5,)).fit(given, seen, times=times, leads=24)
        new = {"times": times[:5], "leads": 24}
        found = {"actions": recalibrator.decide(given[:5], **new), "members": recalibrator.sample(given[:5], **new)}
        probed.keep(f"recalibrated {name}", found | {"score": recalibrator.score(given, seen, times=times, leads=24)})
    ensemble = known[..., None] + 0.5 * random.normal(size=(400, 10, 2))
    correction = stakes.Correction.fit(ensemble, ensemble.mean(1) + random.normal(size=(400, 2)), times, by=("season",))
    probed.keep("corrected", correction.apply(ensemble[:20], times[:20]))


# Commands

_FIT = ("load.csv", "--target", "load", "--time", "time", "--lags", "0,24", "--lead", "24", "--known", "temp")
_SMALL = ("--members", "30", "--quiet", "--device", "cpu", "--workers", "1")
_COST = "imbalance:short=10,long=1,upper=20,unit=EUR"
_NEWSVENDOR = "newsvendor:underage=9,overage=1,upper=30,unit=EUR"


@probe
def fit_linear(probed: Probed) -> None:
    """A linear fit, and all that is asked of its folder."""
    more = ("--model", "linear", "--baseline-action", "bought", "--calendar", "hour")
    probed.command("fit", *_FIT, "--cost", _COST, *more, "--out", "linear", *_SMALL)
    probed.command("decide", "linear", "new.csv", "--out", "linear.parquet")
    probed.command("evaluate", "linear", "longer.csv", "--cases", "linear-cases.csv", "--json")
    probed.command("refit", "linear", "longer.csv", "--out", "again", "--quiet", "--device", "cpu", "--json")


@probe
def fit_network(probed: Probed) -> None:
    """Two epochs of a network with decision weights; decisions and evaluations of the fit, and its report."""
    network = ("--epochs", "2", "--weights", "0,0.5", "--seed", "3")
    probed.command("fit", *_FIT, "--cost", _COST, *network, "--out", "network", *_SMALL, "--json")
    probed.command("decide", "network", "new.csv", "--quantiles", "0.05,0.5", name="decide.text")
    probed.command("decide", "network", "new.csv", "--last", "--json", name="decide.last")
    probed.command("decide", "network", "new.csv", "--out", "actions.csv", "--cost", _NEWSVENDOR)
    probed.command("evaluate", "network", "longer.csv", "--block", "4", name="evaluate.text")
    probed.command("report", "network", "--out", "report.html")


@probe
def fit_shared(probed: Probed) -> None:
    """A fit for a range of decision makers, with a weight that is given."""
    given = ("--decision-weight", "0.4", "--conditioned", "--epochs", "2", "--base", "none")
    probed.command("fit", *_FIT, "--cost", "shortfall:penalty=1..50", *given, "--out", "shared", *_SMALL)
    probed.command("decide", "shared", "new.csv", "--cost", "shortfall:penalty=@their_penalty", "--json")
    probed.command("evaluate", "shared", "longer.csv", "--cost", "shortfall:penalty=5", "--json")


@probe
def fit_schedule(probed: Probed) -> None:
    """A decision with many parts, from the table to the report."""
    table = ("days.csv", "--target", "h0:h2", "--features", "level", "--cost", "schedule:short=5,long=1,ramp=0.8")
    trained = ("--decision-weight", "0.3", "--epochs", "2")
    probed.command("fit", *table, *trained, "--out", "plan", *_SMALL)
    probed.command("decide", "plan", "days.csv", "--out", "plan.csv")
    probed.command("evaluate", "plan", "days.csv", "--json")


@probe
def fit_resumed(probed: Probed) -> None:
    """A fit that was interrupted and goes on, and a backtest."""
    words = ("--cost", _COST, "--decision-weight", "0.5", "--base", "none", "--out", "stopped")
    probed.interrupted("stopped/fit.json", "fit", *_FIT, *words, "--epochs", "200", *_SMALL, after=1.0)
    probed.command("fit", *_FIT, *words, "--epochs", "200", *_SMALL)
    words = ("--cost", _COST, "--model", "linear", "--origins", "2", "--out", "backtest")
    probed.command("backtest", *_FIT, *words, *_SMALL, "--json")


@probe
def ensembles(probed: Probed) -> None:
    """Members, quantiles and sites in files: decisions, evaluations, and checks of costs."""
    cost = ("--cost", "shortfall:penalty=5")
    for name in ("members", "quantiles"):
        given = ("--members", f"{name}.csv", *cost)
        probed.command("decide", *given, "--out", f"{name}-actions.csv", name=f"decide.{name}")
        judged = (*given, "--outcomes", "outcomes.csv", "--cases", f"{name}-cases.csv")
        probed.command("evaluate", *judged, "--json", name=f"evaluate.{name}")
        probed.command("check-cost", *given, name=f"check.{name}")
    several, one = ("decide", "--members", "sites.csv", "--json"), ("decide", "--members", "members.csv")
    probed.command(*several, "--cost", "allocation:short=3,long=1,budget=1.2", name="decide.sites")
    probed.command(*several, "--sites", "each", *cost, name="decide.each")
    probed.command(*one, "--cost", "shortfall:penalty=5,cvar_level=0.5", name="decide.tail")
    probed.command(*one, "--cost", "own.py:cost:lower=0,upper=1", "--last", name="decide.own")
    probed.command("evaluate", "--members", "members.csv", "--outcomes", "outcomes.csv", *cost, name="evaluate.text")


@probe
def checks(probed: Probed) -> None:
    """Checks of costs, records, and what is refused: exit codes and sentences."""
    probed.command("check-cost", "load.csv", "--target", "load", "--cost", _COST, "--json", "--plot", "cost.svg")
    probed.command("check-cost", "--cost", "protection:threshold=1,false_alarm_ratio=0.5", name="check.draws")
    probed.command("check-cost", "days.csv", "--target", "h0:h2", "--cost", "bakery.toml", name="check.program")
    probed.command("data", "list", "--json", name="data.list")
    probed.command("data", "export", "wind_irish", "--out", "wind.parquet", name="data.export")
    refused = {
        "no cost": ("decide", "--members", "members.csv"),
        "no file": ("decide", "--members", "nothing.csv", "--cost", "shortfall:penalty=5"),
        "bad cost": ("decide", "--members", "members.csv", "--cost", "shortfall:penalty=-5"),
        "bad name": ("decide", "--members", "members.csv", "--cost", "shortfal:penalty=5"),
        "bad level": ("decide", "--members", "members.csv", "--cost", "shortfall:penalty=5", "--quantiles", "2"),
        "bad flag": ("fit", *_FIT, "--cost", _COST, "--nothing", "1", "--out", "none"),
        "no target": ("fit", "load.csv", "--target", "loads", "--cost", _COST, "--out", "none"),
        "no folder": ("decide", "nothing", "new.csv"),
        "bad weight": ("fit", *_FIT, "--cost", _COST, "--decision-weight", "2", "--out", "none"),
    }
    for name, words in refused.items():
        probed.command(*words, name=name)
    for command in ("fit", "decide", "evaluate", "recalibrate", "monitor", "serve", "check-cost"):
        probed.command(command, "--help", name=f"help.{command}")


@probe
def recalibrated(probed: Probed) -> None:
    """A recalibration, decisions and evaluations of it, and whether errors have left what was learned."""
    words = ("past.csv", "--forecast", "m0:m7", "--outcome", "power", "--lead", "24", "--cost", _NEWSVENDOR)
    more = ("--baseline-action", "done", "--decision-weights", "0.5", "--quiet", "--json")
    probed.command("recalibrate", *words, *more, "--out", "mended")
    probed.command("decide", "mended", "grown.csv", "--out", "mended.csv")
    probed.command("evaluate", "mended", "grown.csv", "--json")
    probed.command("monitor", "mended", "grown.csv", "--json", name="monitor.json")
    probed.command("monitor", "mended", "grown.csv", "--alpha", "0.2")


@probe
def runs(probed: Probed) -> None:
    """Runs and sweeps of a named task: weights and metrics, also after a resume."""
    here, quietly = {"module": "reproduction"}, ("--quiet", "--device", "cpu")
    probed.command("train", "run.toml", "--out", "run", *quietly, **here)
    words = ("longer.toml", "--out", "broken", *quietly, "--checkpoint-seconds", "0")
    probed.interrupted("broken/checkpoints/*.json", "train", *words, **here)
    probed.command("resume", "broken", *quietly, **here)
    probed.command("sweep", "sweep.toml", "--out", "sweep", *quietly, "--workers", "1", **here)
    probed.command("evaluate", "run", "--json", **here)


@probe
def service(probed: Probed) -> None:
    """Fifty requests to a fit with two forecasts."""
    with probed.serving("network") as ask:
        features = ask("/v1/model")["features"]
        rows = [[round(each["typical"] + place / 10, 3) for each in features] for place in range(8)]
        ask("/v1/cases")
        ask("/healthz")
        for count in range(1, 9):
            ask("/v1/decide", features=rows[:count])
            ask("/v1/forecast", features=rows[:count], member_count=10 + count, with_members=count < 3)
            ask("/v1/curve", features=rows[count - 1], points=21)
        for short in (1, 2, 5, 20):
            ask("/v1/decide", features=rows[:2], cost={"short": short}, quantiles=[0.25])
            ask("/v1/decide", members=[[1.0, 2.0, 3.0 + short], [4.0, 5.0, 6.0]])
            ask("/v1/decide", members=[[1.0, 2.0, 6.0]], member_levels=[0.1, 0.5, 0.9], cost={"long": short})
        ask("/v1/decide", features=rows, forecast="weight_0")
        ask("/v1/table", csv=(probed.here / "new.csv").read_text())
        for body in ({"features": []}, {"features": [[1.0]]}, {"rows": 1}, {"features": rows, "member_count": 0}):
            ask("/v1/decide", **body)
        ask("/v1/decide", features=rows, cost={"shorts": 1})
        ask("/v1/decide", features=rows, forecast="none")
        ask("/v1/curve", features=rows[0], points=1)
        ask("/v1/parts", features=rows[0])
        ask("/v1/nothing", features=rows)
    with probed.serving("mended") as ask:
        known = [{"time": "2020-07-01T00:00:00Z"}]
        ask("/v1/decide", members=[[8.0 + place for place in range(8)]], known=known)
        ask("/v1/decide", members=[[8.0 + place for place in range(8)]])


def main(tree: Path, results: Path, wanted: Iterable[str] = ()) -> None:
    """Run the probes in the current folder, and keep what they find."""
    import torch

    import stakes

    if not Path(stakes.__file__ or "").is_relative_to(tree):
        raise SystemExit(f"stakes is imported from {stakes.__file__}, and not from {tree}")
    torch.set_num_threads(1)
    probed = Probed(tree)
    _write_tables(probed.here)
    probed.keep_files()
    probed.found.clear()
    for name, function in _PROBES.items():
        if wanted and name not in wanted:
            continue
        probed.name, started = name, time.perf_counter()
        try:
            function(probed)
            told = ""
        except Exception:  # one that fails under both commits alike is a fault of the probe
            told = traceback.format_exc()
            probed.found[f"{name}/failed"] = told.strip().splitlines()[-1]
        sys.stderr.write(f"  {name:14}{time.perf_counter() - started:6.1f} s\n{told}")
    results.write_bytes(pickle.dumps(probed.found))


if __name__ == "__main__":
    os.environ["COLUMNS"], os.environ["NO_COLOR"] = "120", "1"
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
