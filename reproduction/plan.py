"""What a reproduction trains and evaluates: the paper's grids, the choices it leaves open, and our portfolios."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from reproduction.runs.evaluations import METRICS_VERSION, Assessment, place_of_task
from reproduction.runs.settings import task_data
from reproduction.runs.sweep import Sweep, read_sweep, with_overrides
from reproduction.study_collection import StudyKey
from reproduction.tasks import find_task
from reproduction.tasks.task import KnownTruth, Task
from stakes.errors import SettingError, did_you_mean
from stakes.settings import canonical_text, to_plain

_EVERYWHERE: Mapping[str, Any] = {
    "training.members": 20,
    "training.decision_estimator": "plain",
    "training.pretraining_epochs": 0,
    "training.epochs": 100,
    "training.patience": 20,
}
_LINEAR: Mapping[str, Any] = {"model.linear": True, "training.weight_decay": 0.1}
_POINTWISE: Mapping[str, Any] = {"training.score": "pointwise"}

BASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "pointwise": ("point by point", _POINTWISE),
    "pointwise_linear": ("point by point, linear start", {**_POINTWISE, **_LINEAR}),
    "energy": ("energy score", {}),
    "energy_linear": ("energy score, linear start", _LINEAR),
}
"""What a forecast is trained on before anything is added, by name: in words, and as settings."""

TOTAL, SHUFFLED = "total", "shuffled"
METHODS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "decision": ("decision", {}),
    "many": ("decision, 64 members", {"training.decision_member_count": 64}),
    TOTAL: ("CRPS of the total, a rival", {"training.companion": "crps_of_total"}),
    "variogram": ("variogram score, a rival", {"training.companion": "variogram"}),
    SHUFFLED: ("members shuffled by past errors, a rival", {}),
}
"""What is added to a base, by name: in words, and as settings."""


@dataclass(frozen=True)
class ScoreChoice:
    """A base and what is added to it."""

    base: str  # a key of `BASES`
    method: str = "decision"  # a key of `METHODS`

    @property
    def name(self) -> str:
        """The name of the choice: that of the base, and of a method other than the decision."""
        return self.base if self.method == "decision" else f"{self.base}_{self.method}"

    @property
    def title(self) -> str:
        """Both in words."""
        return f"{BASES[self.base][0]} + {METHODS[self.method][0]}"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of its runs, by dotted name."""
        return {**_EVERYWHERE, **BASES[self.base][1], **METHODS[self.method][1]}


_CHOICES = {choice.name: choice for choice in (ScoreChoice(base, method) for base in BASES for method in METHODS)}

SCORE_CHOICES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    name: (choice.title, choice.settings) for name, choice in _CHOICES.items()
}
"""The choices of studies by name: what each is, and the settings it changes."""


def score_choice(name: str) -> ScoreChoice | None:
    """The base and method of a study's choice; None for a choice of another kind."""
    return _CHOICES.get(name)


MAIN = "main"
PAPER_STEPS = 200  # of projected gradient descent where forecasts are evaluated
SUBJECTS = ("synthetic", "wind", "frost", "portfolio")
PROGRAMS = "programs"
"""A further subject, decisions with many parts, which has its own methods and its own page."""

_CHAIN: Mapping[str, Any] = {"model.chain_steps": 10, "model.chain_gradient": 3}

CHOICES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    MAIN: ("the paper's settings, read literally", {}),
    "improved": (
        "the denoiser predicts v, and the noise schedule is scaled to T = 100",
        {"model.prediction": "v", "model.endpoints": "scaled"},
    ),
    "scaled_schedule": ("epsilon, and the noise schedule scaled to T = 100", {"model.endpoints": "scaled"}),
    "signal": ("the decision term weighted by alpha-bar", {"model.decision_weighting": "signal"}),
    "biased_score": ("the biased estimator of the energy score", {"training.score_estimator": "biased"}),
    "debiased": ("the debiased decision score", {"training.decision_estimator": "debiased"}),
    "more_members": ("30 members in training instead of 10", {"training.members": 30}),
    "structured": ("structured members in training", {"model.structured": True}),
    "keep_last": ("the weights of the last epoch, without early stopping", {"training.keep": "last"}),
    "projected_gradient": (
        "actions by 50 steps of projected gradient descent in training, 200 in the evaluation",
        {"training.solver": "projected_gradient"},
    ),
    "late_cutoff": ("a power curve that falls later, P(20 m/s) = 0.98", {"task.cutoff_sharpness": 2.0}),
    "reduced": ("fewer seeds, weights and epochs, for two cores", {"training.patience": 60}),
    "rolling": ("seven test years, 2015 to 2021, each with the 15 years before the last one to train", {}),
    "rolling_nora10": ("six test years off Norway, 1974 to 1979", {"task.record": "wind_nora10"}),
    "chain": ("the decision looks through the last 3 of 10 steps of the reverse chain", _CHAIN),
    "chain_score": (
        "the decision looks through the chain by its score function",
        {**_CHAIN, "model.chain_gradient": 0},
    ),
    "diffusion_dfl": (
        "the cost alone through all 10 steps of the chain, as Diffusion-DFL: a rival",
        {**_CHAIN, "model.chain_gradient": 10},
    ),
    "tail_crps": ("energy score + threshold-weighted CRPS, a rival", {"training.companion": "tail_crps"}),
    "decision_alone": ("the decision loss alone (weight 1)", {}),
    "crps_of_total": ("energy score + CRPS of the total, a rival", {"training.companion": "crps_of_total"}),
    "variogram": ("energy score + variogram score, a rival", {"training.companion": "variogram"}),
    **SCORE_CHOICES,
}
"""Every choice by name: what it is, and the settings it changes."""

NOT_SHIPPED: Mapping[str, str] = {
    "european_wind": "European wind",
    "gefcom_wind": "GEFCom2014 wind",
    "new_york_load": "New York load",
}
"""Tasks whose data the user has to have, by name: what they are called."""


@dataclass(frozen=True)
class PlannedStudy:
    """One task, model and choice: its sweep, and how it is evaluated."""

    subject: str  # one of `SUBJECTS`
    task: str  # the name of the task; the portfolios are several
    model: str  # "implicit", "diffusion", or "policy" for the direct policy without a forecast
    choice: str = MAIN  # a key of `CHOICES`
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Sequence[float]] = field(default_factory=dict)
    assessment: Assessment = field(default_factory=Assessment)  # how its runs are evaluated

    @property
    def key(self) -> StudyKey:
        """The key under which it is found in a reproduction."""
        return StudyKey(self.task, self.model, self.choice, self.settings.get("task.sites"))

    @property
    def fingerprint(self) -> str:
        """A digest of all that its results depend on."""
        points = [(point.run.name, to_plain(point.run.task)) for point in self.sweep.points]
        data = self.data_digests()
        assessment = to_plain(replace(self.assessment, device="cpu", processes=1))
        text = canonical_text([METRICS_VERSION, str(self.key), points, data, assessment])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def data_digests(self) -> dict[str, str]:
        """A digest of its data by task: a file may change under its name.

        Simulated data come from the settings, but for their last bits, which depend on the processor.
        """
        tasks = [point.run.task for point in self.sweep.points if not isinstance(point.run.task, KnownTruth)]
        distinct = {place_of_task(task, self.assessment)[1]: task for task in tasks}.values()
        return {canonical_text(to_plain(task)): _digest(task) for task in distinct}

    @cached_property
    def sweep(self) -> Sweep:
        """The runs to train."""
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
# How many seeds each grid has is fixed here, before the first run.
_DIFFUSION_CHOICES: tuple[str, ...] = ("scaled_schedule", "signal", "biased_score", "debiased", "more_members")
_DIFFUSION_CHOICES += ("structured", "keep_last", "projected_gradient", "chain", "chain_score", "diffusion_dfl")
_RIVALS_ON_ONE_SITE = ("tail_crps", "decision_alone")
_IMPLICIT_CHOICES = {
    "wind": ("biased_score", "debiased", "more_members", "late_cutoff", "projected_gradient"),
    "frost": ("reduced", "biased_score", "debiased", "more_members"),
}
_RIVALS = ("crps_of_total", "variogram")
_LARGE_BATCH = {"training.batch": 1024}  # which the paper does not state
_FULL = {"synthetic": {}, "wind": _LARGE_BATCH, "frost": _LARGE_BATCH}
_OF_DIFFUSION = {"training.validation_draws": 16, "training.validation_members": 10}
_ASSESSMENTS = {
    "synthetic": Assessment(200, group="data_seed"),
    "wind": Assessment(500, "penalty", block=_WEEK),
    "frost": Assessment(500, "false_alarm_ratio", block=_WEEK),
    "simulated_portfolio": Assessment(200, "penalty", validation=True),
    "french_load": Assessment(200, "short", block=_WEEK, validation=True),
    "irish_wind": Assessment(200, "penalty", block=7, validation=True),
    "european_wind": Assessment(200, "penalty", block=_WEEK, validation=True),
    "gefcom_wind": Assessment(200, "penalty", block=42, validation=True),  # four hours apart
    "new_york_load": Assessment(200, "short", block=42, validation=True),
}
_FEWER: Mapping[str, Mapping[str, Sequence[float]]] = {  # the grid on which the other choices are judged
    "synthetic": {"decision_weight": (0.0, 0.5, 0.9, 0.95), "task.data_seed": (0,)},
    "wind": {"decision_weight": (0.0, 0.5, 0.9), "task.penalty": (5.0,)},
    "frost": {"decision_weight": (0.0, 0.3, 0.9), "task.false_alarm_ratio": (0.3, 0.5), "seed": (0, 1, 2)},
}
_GRIDS: Mapping[tuple[str, str, str], Mapping[str, Sequence[float]]] = {  # of single studies
    ("synthetic", "diffusion", "improved"): {},
    ("wind", "diffusion", MAIN): {"decision_weight": (0.0, 0.5, 0.9)},
    ("frost", "diffusion", MAIN): {"decision_weight": (0.0, 0.1, 0.3, 0.9), "seed": (0, 1, 2, 3, 4)},
    ("frost", "implicit", "reduced"): {
        "decision_weight": (0.0, 0.3, 0.9),
        "task.false_alarm_ratio": (0.3, 0.5),
        "seed": (0, 1, 2),
    },
    ("wind", "diffusion", "reduced"): {
        "decision_weight": (0.0, 0.5, 0.9),
        "task.penalty": (5.0,),
        "seed": (0, 1),
    },
    ("frost", "diffusion", "chain"): {
        "decision_weight": (0.0, 0.3, 0.9),
        "task.false_alarm_ratio": (0.5,),
        "seed": (0, 1, 2),
    },
}
_ROLLING = {"rolling": tuple(range(2015, 2022)), "rolling_nora10": tuple(range(1974, 1980))}
_FEWER_WEIGHTS = {"decision_weight": (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)}
_ALONE = {"decision_alone": (0.0, 1.0), "diffusion_dfl": (0.0, 1.0)}


def planned_studies(
    subjects: Sequence[str],
    quick: bool = False,
    model: str | None = None,
    record: str | None = None,
    tables: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> list[PlannedStudy]:
    """The studies of some subjects, those of the main settings first; with other settings on top, these alone."""
    for subject in subjects:
        if subject not in SUBJECTS:
            hint = did_you_mean(subject, (*SUBJECTS, "all", PROGRAMS))
            raise SettingError(f"there is no task {subject!r} to reproduce; {hint}")
    models = ("implicit", "diffusion")
    if model is not None and model not in models:
        raise SettingError(f"there is no model {model!r}; {did_you_mean(model, models)}")
    planned = [_with_tables(study, tables) for subject in subjects for study in _PLANS[subject](record)]
    chosen = [study for study in planned if model in (None, study.model) or _is_rival_of_portfolios(study)]
    if not chosen:
        raise SettingError(f"the paper has no {model} model for {', '.join(subjects)}; choose another model or task")
    ordered = sorted(chosen, key=lambda study: study.choice != MAIN)
    if quick:
        ordered = [_quick(study) for study in ordered if study.choice in _quick_choices(study)]
    return ordered if not overrides else [_overridden(study, overrides) for study in ordered if study.choice == MAIN]


SOLVER = "solver"
"""A setting of training and evaluation at once: "exact" or "projected_gradient", with the paper's 50 and 200 steps."""


def _overridden(study: PlannedStudy, overrides: Mapping[str, Any]) -> PlannedStudy:
    """The same with those of the settings that it has: a value, or a list of values of an axis of the grid."""
    known = {name: value for name, value in overrides.items() if name in setting_names(study)}
    grid, settings, assessment = dict(study.grid), dict(study.settings), study.assessment
    for name, value in known.items():
        if name in find_task(study.task).paper.grid or isinstance(value, list):
            grid[name] = value if isinstance(value, list) else [value]
        elif name == SOLVER:
            settings["training.solver"] = value
            assessment = replace(assessment, solver_steps=PAPER_STEPS if value == "projected_gradient" else None)
        else:
            settings[name] = value
    return replace(study, settings=settings, grid=grid, assessment=assessment)


def setting_names(study: PlannedStudy) -> set[str]:
    """The settings that a study has, by dotted name."""
    run = replace(study, grid={axis: values[:1] for axis, values in study.grid.items()}).sweep.points[0].run
    of_parts = {"task": run.task, "training": run.training} | ({} if study.model == "policy" else {"model": run.model})
    names = {f"{part}.{name}" for part, settings in of_parts.items() for name in to_plain(settings) if name != "name"}
    return names | {"decision_weight", "seed", SOLVER}


def unknown_settings(overrides: Mapping[str, Any], planned: Sequence[PlannedStudy]) -> list[str]:
    """Those that no study at hand has; raises where no study of the reproduction has them either."""
    here = {name for study in planned for name in setting_names(study)}
    rest = [name for name in overrides if name not in here]
    if rest:
        every = sorted({name for study in planned_studies(SUBJECTS) for name in setting_names(study)})
        for name in rest:
            if name not in every:
                raise SettingError(f"there is no setting {name!r}; {did_you_mean(name, every)}")
    return rest


def _is_rival_of_portfolios(study: PlannedStudy) -> bool:
    return study.model == "policy" and study.subject == "portfolio"


def _with_tables(study: PlannedStudy, folder: str | None) -> PlannedStudy:
    if folder is None or study.task not in NOT_SHIPPED:
        return study
    return replace(study, settings={**study.settings, "task.tables": folder})


def _synthetic(record: str | None) -> list[PlannedStudy]:
    if record is not None:
        raise SettingError("the synthetic task has no record: --record is for wind and frost")
    diffusion = PlannedStudy("synthetic", "synthetic", "diffusion")
    studies = _with_choices(diffusion, ("improved", *_DIFFUSION_CHOICES, *_RIVALS_ON_ONE_SITE))
    return [*studies, _fewer(_main(replace(diffusion, model="gaussian"))), _main(replace(diffusion, model="policy"))]


def _on_record(task: str, record: str | None) -> list[PlannedStudy]:
    own = {} if record is None else {"task.record": record}
    implicit, diffusion = (PlannedStudy(task, task, model, settings=own) for model in ("implicit", "diffusion"))
    if record is not None:
        return [_less_patient(_main(implicit)), _less_patient(_main(diffusion))]
    through_chain = ("chain",) if task == "frost" else ("reduced",)
    return [
        *_with_choices(implicit, (*_IMPLICIT_CHOICES[task], *_RIVALS_ON_ONE_SITE)),
        *_with_choices(diffusion, ("improved", *through_chain)),
        *([_rolling(implicit, choice) for choice in _ROLLING] if task == "wind" else []),
        _less_patient(_fewer(_main(replace(implicit, model="gaussian")))),
        _fewer(_main(replace(implicit, model="policy"))),
    ]


def _main(study: PlannedStudy) -> PlannedStudy:
    of_model = _OF_DIFFUSION if study.model == "diffusion" and study.subject != "portfolio" else {}
    settings = {**_FULL.get(study.task, {}), **of_model, **study.settings}
    grid = {**_GRIDS.get((study.task, study.model, MAIN), {}), **study.grid}
    return replace(study, settings=settings, grid=grid, assessment=_ASSESSMENTS[study.task])


def _with_choices(study: PlannedStudy, choices: Sequence[str]) -> list[PlannedStudy]:
    main = _main(study)
    others = [_less_patient(_fewer(replace(main, choice=choice))) for choice in choices]
    return [main, *(_through_projection(each) for each in others)]


def _fewer(study: PlannedStudy) -> PlannedStudy:
    """On the grid of the other choices."""
    known = _GRIDS.get((study.task, study.model, study.choice)) if study.choice != MAIN else None
    grid = dict(_FEWER[study.task] if known is None else known)
    if study.choice in _ALONE:
        grid["decision_weight"] = _ALONE[study.choice]
    return replace(study, grid=grid)


def _through_projection(study: PlannedStudy) -> PlannedStudy:
    if study.choice != "projected_gradient":
        return study
    return replace(study, assessment=replace(study.assessment, solver_steps=PAPER_STEPS))


def _rolling(study: PlannedStudy, choice: str) -> PlannedStudy:
    """Every test year as a data set of its own."""
    grid = {**_FEWER["wind"], "task.test_year": _ROLLING[choice]}
    assessment = replace(_ASSESSMENTS["wind"], group="test_year")
    return _less_patient(replace(_main(study), choice=choice, grid=grid, assessment=assessment))


def _less_patient(study: PlannedStudy) -> PlannedStudy:
    """With less patience, where an epoch is long and the choice does not say."""
    if "training.patience" in CHOICES[study.choice][1] or study.task not in ("wind", "frost"):
        return study
    epochs = 60 if study.choice == "decision_alone" else 200  # the best epoch is near 100, or before
    return replace(study, settings={**study.settings, "training.patience": epochs})


def _portfolio(record: str | None) -> list[PlannedStudy]:
    if record is not None:
        raise SettingError("the portfolios have no record to choose: --record is for wind and frost")
    planned = []
    for model in ("implicit", "diffusion"):
        for sites in (60, 20, 5):
            grid = {} if (model, sites) == ("implicit", 60) else _FEWER_WEIGHTS
            planned.append(PlannedStudy("portfolio", "simulated_portfolio", model, MAIN, {"task.sites": sites}, grid))
        grid = {} if model == "implicit" else _FEWER_WEIGHTS
        for task in ("french_load", "irish_wind", "european_wind"):
            planned.append(PlannedStudy("portfolio", task, model, grid=grid))
    planned = [_main(study) for study in planned]
    planned = [_with_members(study, 100) if study.model == "diffusion" else study for study in planned]
    rivals = [study for study in planned if study.model == "implicit" and study.key.sites in (None, 60)]
    others = [replace(study, choice=rival, grid=_FEWER_WEIGHTS) for study in rivals for rival in _RIVALS]
    wind = [study for study in rivals if study.task in ("simulated_portfolio", "european_wind")]
    others += [replace(study, choice="more_members", grid=_FEWER_WEIGHTS) for study in wind]
    policies = [replace(study, model="policy") for study in rivals]
    return [*planned, *others, *policies, *(study for task in _SCORED for study in _scored(task))]


_SEEDS = tuple(range(10))
_FEW_WEIGHTS = (0.0, 0.1, 0.3, 0.6)
# The rows of the lead time; hourly cases train in larger batches, for fewer epochs.
_SCORED: Mapping[str, Mapping[str, Any]] = {
    "european_wind": {"model.gap": 4},
    "gefcom_wind": {"model.gap": 24, "training.batch": 512, "training.epochs": 60},
    "irish_wind": {"model.gap": 1},
    "new_york_load": {"model.gap": 48, "training.batch": 512, "training.epochs": 60},
}


def _scored(task: str) -> Iterator[PlannedStudy]:
    """Every base with what is added to it; the variogram score from a plain start alone, and one policy for all."""
    for choice in (ScoreChoice(base, method) for base in BASES for method in METHODS):
        linear = "model.linear" in choice.settings
        settings = {name: value for name, value in _SCORED[task].items() if linear or name != "model.gap"}
        weights = (0.0,) if choice.method == SHUFFLED else _FEW_WEIGHTS
        grid: dict[str, Sequence[float]] = {"decision_weight": weights, "seed": _SEEDS}
        if "task.penalty" in find_task(task).paper.grid:
            grid["task.penalty"] = (5.0, 20.0) if choice.base == "pointwise" else (20.0,)
        study = _main(PlannedStudy("portfolio", task, "implicit", choice.name, settings, grid))
        if choice.method == SHUFFLED:
            study = replace(study, assessment=replace(study.assessment, shuffled=True))
        if not (linear and choice.method == "variogram"):
            yield study
        if choice == ScoreChoice("pointwise"):
            yield replace(study, model="policy")


_PLANS = {
    "synthetic": _synthetic,
    "wind": lambda record: _on_record("wind", record),
    "frost": lambda record: _on_record("frost", record),
    "portfolio": _portfolio,
}

REDUCED = (
    "With --budget quick there are few weights, one or two seeds, a few epochs and few members a forecast, and one "
    "test year. Its verdicts show that everything works; whether a claim is true it cannot judge: models stop long "
    "before they are trained, and the seeds are too few to tell an effect from chance."
)
_QUICK_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "synthetic": {"training.epochs": 40},
    "wind": {"training.epochs": 8, "training.pretraining_epochs": 8, "training.validate_every": 2},
    "frost": {"training.epochs": 12, "training.validate_every": 2},
    "simulated_portfolio": {"training.epochs": 12, "training.pretraining_epochs": 12},
    "french_load": {"training.epochs": 8, "training.pretraining_epochs": 8},
    "irish_wind": {"training.epochs": 10, "training.pretraining_epochs": 10},
    "european_wind": {"training.epochs": 10, "training.pretraining_epochs": 10},
    "gefcom_wind": {"training.epochs": 4},
    "new_york_load": {"training.epochs": 4},
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


def _quick_choices(study: PlannedStudy) -> tuple[str, ...]:
    if study.subject != "portfolio" and study.model not in ("implicit", "diffusion"):
        return ()
    if study.subject == "portfolio":
        return (MAIN, *_RIVALS, "pointwise", ScoreChoice("pointwise", SHUFFLED).name)
    if study.task == "synthetic":
        return (MAIN, "improved")
    return (MAIN, "debiased", "decision_alone") if study.model == "implicit" else (MAIN,)


def _with_members(study: PlannedStudy, members: int) -> PlannedStudy:
    return replace(study, assessment=replace(study.assessment, members=members))


def _quick(study: PlannedStudy) -> PlannedStudy:
    """The same with fewer weights, seeds, epochs and members: a reduced run."""
    settings = {**study.settings, **_QUICK_SETTINGS[study.task]}
    members = 100 if study.subject != "portfolio" else 50
    if study.model == "diffusion":
        members = 40
        if study.subject == "portfolio":
            settings["model.steps"], members = 25, 20
    grids = _QUICK_GRIDS if study.choice == MAIN else _QUICK_CHOICE_GRIDS
    beside = study.choice != MAIN or study.settings.get("task.sites", 60) != 60
    grid = {**study.grid, **grids.get(study.task, _QUICK_BESIDE if beside else _QUICK_PORTFOLIO)}
    if study.assessment.shuffled:
        grid["decision_weight"] = (0.0,)
    if study.choice in _ALONE:
        grid["decision_weight"] = _ALONE[study.choice]
    return _with_members(replace(study, settings=settings, grid=grid), members)
