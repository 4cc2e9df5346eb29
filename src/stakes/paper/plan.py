"""What a reproduction trains and evaluates: the paper's grids, the choices it leaves open, and our portfolios.

A part is one task, one model and one choice of settings; it becomes one study.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stakes.errors import SettingError, did_you_mean
from stakes.paper.assess import METRICS_VERSION, Assessment, data_place
from stakes.paper.studies import Key
from stakes.settings import canonical_text, to_plain
from stakes.tasks import find_task
from stakes.tasks.simulation import KnownTruth
from stakes.tasks.task import Task
from stakes.training.run_settings import task_data
from stakes.training.sweep import Sweep, read_sweep, with_overrides

__all__ = ["CHOICES", "MAIN", "REDUCED", "SUBJECTS", "Part", "planned_parts"]

MAIN = "main"
SUBJECTS = ("synthetic", "wind", "frost", "portfolio")

CHOICES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    MAIN: ("our main settings", {}),
    "epsilon": ("the denoiser predicts epsilon, as the paper says, not v", {"model.prediction": "epsilon"}),
    "epsilon_signal": (
        "epsilon, and the decision term weighted by alpha-bar",
        {"model.prediction": "epsilon", "model.decision_weighting": "signal"},
    ),
    "raw_schedule": ("DDPM's noise schedule unscaled at T = 100", {"model.endpoints": "raw"}),
    "biased_score": ("the biased estimator of the energy score", {"training.score_estimator": "biased"}),
    "debiased": ("the debiased decision score", {"training.decision_estimator": "debiased"}),
    "more_members": ("30 members in training instead of 10", {"training.members": 30}),
    "decision_alone": ("the decision loss alone (weight 1)", {}),
    "crps_of_total": ("energy score + CRPS of the total, a rival", {"training.companion": "crps_of_total"}),
    "variogram": ("energy score + variogram score, a rival", {"training.companion": "variogram"}),
}
"""Every choice by name: what it is, and the settings it changes."""


@dataclass(frozen=True)
class Part:
    """One task, model and choice: its sweep, and how it is evaluated."""

    subject: str
    task: str
    model: str
    choice: str = MAIN
    settings: Mapping[str, Any] = field(default_factory=dict)  # dotted names, on top of the task's own
    grid: Mapping[str, Sequence[float]] = field(default_factory=dict)  # axes that take the place of the task's own
    assessment: Assessment = field(default_factory=Assessment)

    @property
    def key(self) -> Key:
        """The name of its study."""
        return Key(self.task, self.model, self.choice, self.settings.get("task.sites"))

    @property
    def fingerprint(self) -> str:
        """What its study depends on, in short."""
        points = [(point.run.name, to_plain(point.run.task)) for point in self.sweep().points]
        data = self.data_digests()
        assessment = to_plain(replace(self.assessment, device="cpu", processes=1))
        text = canonical_text([METRICS_VERSION, str(self.key), points, data, assessment])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def data_digests(self) -> dict[str, str]:
        """What its data are in short, by task: a file may change under its name.

        Simulated data come from the settings, but for their last bits, which depend on the processor.
        """
        tasks = [point.run.task for point in self.sweep().points if not isinstance(point.run.task, KnownTruth)]
        distinct = {data_place(task, self.assessment)[1]: task for task in tasks}.values()
        return {canonical_text(to_plain(task)): _digest(task) for task in distinct}

    def sweep(self) -> Sweep:
        """Its runs."""
        own = {axis: list(values) for axis, values in find_task(self.task).paper.grid.items()}
        axes = own | {axis: list(values) for axis, values in self.grid.items()}
        base: dict[str, Any] = {"task": {"name": self.task}}
        if self.model != "policy":  # which is no model of members: the grid of its sweep says for what it is trained
            base["model"] = {"name": self.model}
        values = with_overrides(base, {**CHOICES[self.choice][1], **self.settings})
        return read_sweep({**values, "grid": axes})


def _digest(task: Task) -> str:
    data = task_data(task)
    outcomes = (cases.outcome.numpy().tobytes() for cases in (data.train, data.validation, data.test))
    return hashlib.sha256(b"".join(outcomes)).hexdigest()


_WEEK = 28  # cases, six hours apart
_DIFFUSION_CHOICES = ("epsilon", "epsilon_signal", "raw_schedule", "biased_score", "debiased", "more_members")
_IMPLICIT_CHOICES = {
    "wind": ("biased_score", "debiased", "more_members", "decision_alone"),
    "frost": ("biased_score", "debiased", "more_members"),
}
_RIVALS = ("crps_of_total", "variogram")
_SHORT_PATIENCE = {"training.patience": 200}  # of other choices and records: the best epoch is near 100
_FULL = {"synthetic": {}, "wind": {"training.batch": 1024}, "frost": {"training.batch": 1024}}
_ASSESSMENTS = {
    "synthetic": Assessment(200, group="data_seed"),
    "wind": Assessment(500, "penalty", block=_WEEK),
    "frost": Assessment(500, "false_alarm_ratio", block=_WEEK),
    "simulated_portfolio": Assessment(200, "penalty", validation=True),
    "french_load": Assessment(200, "short", block=_WEEK, validation=True),
    "irish_wind": Assessment(200, "penalty", block=7, validation=True),
    "european_wind": Assessment(200, "penalty", block=_WEEK, validation=True),
}
_FEWER: Mapping[str, Mapping[str, Sequence[float]]] = {  # the grid on which the other choices are judged
    "synthetic": {"decision_weight": (0.0, 0.5, 0.9, 0.95), "seed": (0, 1)},
    "wind": {"decision_weight": (0.0, 0.5, 0.9), "task.penalty": (5.0,)},
    "frost": {"decision_weight": (0.0, 0.3, 0.9), "task.false_alarm_ratio": (0.3, 0.5)},
}
_FEWER_WEIGHTS = {"decision_weight": (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)}
_ALONE = {"decision_weight": (0.0, 0.9, 1.0)}


def planned_parts(
    subjects: Sequence[str], quick: bool = False, model: str | None = None, record: str | None = None
) -> list[Part]:
    """The parts of these subjects, main ones first."""
    for subject in subjects:
        if subject not in SUBJECTS:
            hint = did_you_mean(subject, (*SUBJECTS, "all"))
            raise SettingError(f"there is no task {subject!r} to reproduce; {hint}")
    models = ("implicit", "diffusion")
    if model is not None and model not in models:
        raise SettingError(f"there is no model {model!r}; {did_you_mean(model, models)}")
    parts = [part for subject in subjects for part in _PARTS[subject](record)]
    chosen = [part for part in parts if model in (None, part.model) or part.model == "policy"]
    if not chosen:
        raise SettingError(f"the paper has no {model} model for {', '.join(subjects)}; choose another model or task")
    ordered = sorted(chosen, key=lambda part: part.choice != MAIN)
    return [_quick(part) for part in ordered if part.choice in _quick_choices(part)] if quick else ordered


def _synthetic(record: str | None) -> list[Part]:
    if record is not None:
        raise SettingError("the synthetic task has no record: --record is for wind and frost")
    return _with_choices(Part("synthetic", "synthetic", "diffusion"), _DIFFUSION_CHOICES)


def _on_record(task: str, record: str | None) -> list[Part]:
    own = {} if record is None else {"task.record": record}
    implicit, diffusion = (Part(task, task, model, settings=own) for model in ("implicit", "diffusion"))
    if record is not None:
        return [_patient(_main(implicit)), _patient(_main(diffusion))]
    return [
        *_with_choices(implicit, _IMPLICIT_CHOICES[task]),
        *_with_choices(diffusion, ("epsilon", "epsilon_signal", "raw_schedule")),
    ]


def _main(part: Part) -> Part:
    settings = {**_FULL.get(part.task, {}), **part.settings}
    return replace(part, settings=settings, assessment=_ASSESSMENTS[part.task])


def _with_choices(part: Part, choices: Sequence[str]) -> list[Part]:
    main = _main(part)
    others = []
    for choice in choices:
        grid = {**_FEWER.get(part.task, {}), **(_ALONE if choice == "decision_alone" else {})}
        others.append(_patient(replace(main, choice=choice, grid=grid)))
    return [main, *others]


def _patient(part: Part) -> Part:
    """With less patience, where an epoch is long."""
    return replace(part, settings={**part.settings, **_SHORT_PATIENCE}) if part.task in ("wind", "frost") else part


def _portfolio(record: str | None) -> list[Part]:
    if record is not None:
        raise SettingError("the portfolios have no record to choose: --record is for wind and frost")
    parts = []
    for model in ("implicit", "diffusion"):
        for sites in (60, 20, 5):
            grid = {} if (model, sites) == ("implicit", 60) else _FEWER_WEIGHTS
            parts.append(Part("portfolio", "simulated_portfolio", model, MAIN, {"task.sites": sites}, grid))
        grid = {} if model == "implicit" else _FEWER_WEIGHTS
        for task in ("french_load", "irish_wind", "european_wind"):
            parts.append(Part("portfolio", task, model, grid=grid))
    parts = [_main(part) for part in parts]
    parts = [_with_members(part, 100) if part.model == "diffusion" else part for part in parts]
    rivals = [part for part in parts if part.model == "implicit" and part.settings.get("task.sites") in (None, 60)]
    others = [replace(part, choice=rival, grid=_FEWER_WEIGHTS) for part in rivals for rival in _RIVALS]
    wind = [part for part in rivals if part.task in ("simulated_portfolio", "european_wind")]
    others += [replace(part, choice="more_members", grid=_FEWER_WEIGHTS) for part in wind]
    return parts + others + [replace(part, model="policy") for part in rivals]


_PARTS = {
    "synthetic": _synthetic,
    "wind": lambda record: _on_record("wind", record),
    "frost": lambda record: _on_record("frost", record),
    "portfolio": _portfolio,
}

REDUCED = (
    "With --quick there are fewer weights, one or two training seeds, a few epochs, fewer members a forecast and 25 "
    "steps of the diffusion model. Its verdicts show that everything works, not what is true."
)
_QUICK_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "synthetic": {"training.epochs": 60},
    "wind": {"training.epochs": 8, "training.pretraining_epochs": 8, "training.validate_every": 2},
    "frost": {"training.epochs": 12, "training.validate_every": 2},
    "simulated_portfolio": {"training.epochs": 20, "training.pretraining_epochs": 20},
    "french_load": {"training.epochs": 8, "training.pretraining_epochs": 8},
    "irish_wind": {"training.epochs": 10, "training.pretraining_epochs": 10},
    "european_wind": {"training.epochs": 10, "training.pretraining_epochs": 10},
}
_QUICK_GRIDS: Mapping[str, Mapping[str, Sequence[float]]] = {
    "synthetic": {"decision_weight": (0.0, 0.5, 0.9, 0.95), "seed": (0, 1)},
    "wind": {"decision_weight": (0.0, 0.5, 0.9), "seed": (0, 1)},
    "frost": {"decision_weight": (0.0, 0.1, 0.3, 0.9), "seed": (0, 1)},
}
_QUICK_CHOICE_GRIDS: Mapping[str, Mapping[str, Sequence[float]]] = {
    "synthetic": {"decision_weight": (0.0, 0.9), "seed": (0,)},
    "wind": {"decision_weight": (0.0, 0.9), "task.penalty": (5.0,), "seed": (0, 1)},
    "frost": {"decision_weight": (0.0, 0.3), "task.false_alarm_ratio": (0.3,), "seed": (0, 1)},
}
_QUICK_PORTFOLIO = {"decision_weight": (0.0, 0.3, 0.6), "seed": (0, 1)}
_QUICK_BESIDE = {"decision_weight": (0.0, 0.3), "seed": (0, 1)}  # rivals, and fewer sites


def _quick_choices(part: Part) -> tuple[str, ...]:
    if part.subject == "portfolio":
        return (MAIN, *_RIVALS)
    if part.task == "synthetic":
        return (MAIN, "epsilon", "raw_schedule", "debiased")
    return (MAIN, "debiased", "decision_alone") if part.model == "implicit" else (MAIN,)


def _with_members(part: Part, members: int) -> Part:
    return replace(part, assessment=replace(part.assessment, members=members))


def _quick(part: Part) -> Part:
    """The same with fewer weights, seeds, epochs and members: a reduced run."""
    settings = {**part.settings, **_QUICK_SETTINGS[part.task]}
    members = 100 if part.subject != "portfolio" else 50
    if part.model == "diffusion":
        settings["model.steps"] = 25
        members = 60 if part.subject != "portfolio" else 20
    grids = _QUICK_GRIDS if part.choice == MAIN else _QUICK_CHOICE_GRIDS
    beside = part.choice != MAIN or part.settings.get("task.sites", 60) != 60
    grid = {**part.grid, **grids.get(part.task, _QUICK_BESIDE if beside else _QUICK_PORTFOLIO)}
    if part.choice == "decision_alone":
        grid["decision_weight"] = _ALONE["decision_weight"]
    return _with_members(replace(part, settings=settings, grid=grid), members)
