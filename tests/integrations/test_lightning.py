"""Metrics and callback for Lightning: the numbers of the evaluation, over all batches and processes."""

import importlib.util
import os
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import refuses
from torch import Tensor, nn
from torch import distributed as processes
from torch.utils.data import DataLoader, TensorDataset

import stakes
from stakes.errors import SettingError, ShapeError
from stakes.evaluation.metrics import Assessor
from stakes.integrations import lightning as plugin
from stakes.integrations.lightning import CostReliability, DecisionCallback, DecisionMetric, ReliabilityBins

COST = stakes.ImbalanceCost(short=4.0, long=1.0, lower=0.0, upper=3.0)
CASES, MEMBERS, SITES = 50, 10, 3
quiet = pytest.mark.filterwarnings("ignore")  # Lightning's own advice on workers and loggers


def forecasts() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (
        torch.rand(CASES, MEMBERS, SITES, generator=generator, dtype=torch.float64),
        torch.rand(CASES, SITES, generator=generator, dtype=torch.float64),
    )


def evaluated(samples: Tensor, outcome: Tensor) -> dict[str, Tensor]:
    """The same numbers from the evaluation."""
    assessed = Assessor(COST)(samples, outcome)
    means = {name: assessed[name].double().mean() for name in ("cost", "expected_cost", "gap")}
    error, spread = (assessed[name].double().square().mean() for name in ("error", "spread"))
    ratio = ((samples.shape[-2] + 1) / samples.shape[-2] * spread / error).sqrt()
    return means | {"squared_error": error, "variance": spread, "spread_skill": ratio}


def test_the_metric_over_batches_is_the_evaluation_of_all_cases() -> None:
    samples, outcome = forecasts()
    metric = DecisionMetric(COST)
    for rows in torch.arange(CASES).split(16):
        metric.update(samples[rows], outcome[rows])
    torch.testing.assert_close(metric.compute(), evaluated(samples, outcome))
    metric.reset()
    metric.update(samples[:5], outcome[:5])
    torch.testing.assert_close(metric.compute(), evaluated(samples[:5], outcome[:5]))


@pytest.mark.parametrize("bins", [1, 7, 10, 80])
def test_bins_of_the_predicted_cost_hold_equally_many_cases(bins: int) -> None:
    samples, outcome = forecasts()
    reliability = CostReliability(COST, bins)
    for rows in torch.arange(CASES).split(16):
        reliability.update(samples[rows], outcome[rows])
    shown = ReliabilityBins(*(values.reshape(-1) for values in reliability.compute()))
    assessed = Assessor(COST)(samples, outcome)
    order, count = assessed["expected_cost"].argsort(), min(bins, CASES)
    rows = [order[torch.arange(CASES) * count // CASES == each] for each in range(count)]
    assert shown.cases.tolist() == [len(each) for each in rows]
    for name, metric in {"predicted": "expected_cost", "realised": "cost"}.items():
        torch.testing.assert_close(getattr(shown, name), torch.stack([assessed[metric][each].mean() for each in rows]))


def test_other_layouts_and_masks() -> None:
    samples, outcome = forecasts()
    mask = torch.arange(CASES) % 3 > 0
    outcome[~mask] = torch.nan
    metric = DecisionMetric(COST, member_dim=0)
    metric.update(samples.movedim(-2, 0), outcome, mask)
    torch.testing.assert_close(metric.compute(), evaluated(samples[mask], outcome[mask]))
    metric.update(samples.movedim(-2, 0), outcome, torch.zeros(CASES, dtype=torch.bool))
    torch.testing.assert_close(metric.compute(), evaluated(samples[mask], outcome[mask]))


def test_single_precision_is_summed_in_double() -> None:
    cost = stakes.ShortfallCost(5.0)
    metric = DecisionMetric(cost)
    samples, outcome = torch.tensor([[[0.1], [0.3]]]), torch.tensor([[0.2]])
    for _ in range(3):
        metric.update(samples.expand(100_000, -1, -1), outcome.expand(100_000, -1))
    once = DecisionMetric(cost)
    once.update(samples, outcome)
    torch.testing.assert_close(metric.compute(), once.compute(), rtol=1e-12, atol=0.0)


PARTS = (slice(0, 31), slice(31, CASES)), (slice(0, CASES), slice(CASES, CASES))  # the second process may have none


def be_one_of_two(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    if "lo" in {name for _, name in socket.if_nameindex()}:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    processes.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    samples, outcome = forecasts()
    numbers = []
    for parts in PARTS:
        metric, reliability = DecisionMetric(COST), CostReliability(COST)
        for rows in torch.arange(CASES)[parts[rank]].split(16):
            if len(rows):
                metric.update(samples[rows], outcome[rows])
                reliability.update(samples[rows], outcome[rows])
        numbers.append((metric.compute(), tuple(reliability.compute())))
    torch.save(numbers, folder / f"process {rank}")
    processes.destroy_process_group()


@quiet  # a process without a batch computes before its first update
def test_two_processes_have_the_numbers_of_one(tmp_path: Path) -> None:
    from forked_processes import forked

    samples, outcome = forecasts()
    reliability = CostReliability(COST)
    reliability.update(samples, outcome)
    both = [forked(partial(be_one_of_two, rank, tmp_path)) for rank in range(2)]
    for rank, process in enumerate(both):
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        for numbers, bins in torch.load(tmp_path / f"process {rank}"):
            torch.testing.assert_close(numbers, evaluated(samples, outcome))
            torch.testing.assert_close(bins, tuple(reliability.compute()))


def test_the_figure_has_a_point_for_each_bin() -> None:
    for bins in (1, 5):
        reliability = CostReliability(COST, bins)
        reliability.update(*forecasts())
        figure, axes = reliability.plot()
        points, diagonal = axes.get_lines()
        torch.testing.assert_close(torch.tensor(points.get_ydata()), reliability.compute().realised.reshape(-1))
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata())
    assert reliability.plot(ax=axes) == (figure, axes)


def test_what_makes_no_metric_is_refused_in_one_sentence() -> None:
    samples, outcome = forecasts()
    refuses(ShapeError, "member_dim -2", DecisionMetric(COST).update, samples.movedim(-2, 0), outcome)
    metric = DecisionMetric(COST)
    metric.update(samples, outcome)
    refuses(ShapeError, "10 members", metric.update, samples[:, 1:], outcome)
    refuses(ShapeError, "mask", metric.update, samples, outcome, torch.ones(CASES))
    refuses(SettingError, "bins", CostReliability, COST, bins=0)


def fresh_plugin() -> Any:
    """The plugin's module once more, as a new process would import it."""
    spec = importlib.util.spec_from_file_location("fresh_lightning", str(plugin.__file__))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        for name in ("pytorch_lightning", "lightning", "lightning.pytorch"):
            patch.setitem(sys.modules, name, None)
        alone = fresh_plugin()
        alone.DecisionMetric(COST).update(*forecasts())  # which needs torchmetrics only
        refuses(SettingError, r'pytorch_lightning: pip install "stakes\[lightning\]"', alone.DecisionCallback, COST)
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    refuses(SettingError, r'needs the package torchmetrics: pip install "stakes\[lightning\]"', fresh_plugin)


def test_an_old_version_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchmetrics.__version__", "0.11.4")
    refuses(SettingError, r"needs torchmetrics 1\.4 or newer, got 0\.11\.4", fresh_plugin)


def forecaster(lightning: Any, **returned: Any) -> Any:
    """A small module of Lightning whose `validation_step` returns what the callback needs, or something else."""

    class Forecaster(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.network = nn.Linear(4, SITES)
            objective = stakes.DecisionAwareObjective(stakes.EnergyScore(), stakes.DecisionScore(COST), 0.3)
            self.loss = stakes.DecisionAwareLoss(objective)
            self.register_buffer("noise", torch.randn(1, MEMBERS, 1))

        def members(self, features: Tensor) -> Tensor:
            cases = len(features)
            return self.network(
                torch.cat([features[:, None].expand(-1, MEMBERS, -1), self.noise.expand(cases, -1, -1)], -1)
            )

        def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
            return self.loss(self.members(batch[0]), batch[1])

        def validation_step(self, batch: tuple[Tensor, Tensor], index: int, dataloader_idx: int = 0) -> Any:
            return returned.get("instead", {"samples": self.members(batch[0]), "outcome": batch[1]})

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    return Forecaster()


def loader(cases: int = 40) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(1)
    features = torch.rand(cases, 3, generator=generator)
    return DataLoader(TensorDataset(features, features.flip(-1)), batch_size=16)


def trainer(lightning: Any, folder: Path, callbacks: list[Any], **options: Any) -> Any:
    given = {"logger": False, "enable_checkpointing": False, "max_epochs": 2} | options
    quietly = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return lightning.Trainer(callbacks=callbacks, default_root_dir=folder, **quietly, **given)


def validated(lightning: Any, folder: Path, **options: Any) -> tuple[Any, Any]:
    """A model after two epochs, and its trainer, with the model of least cost kept."""
    best = lightning.callbacks.ModelCheckpoint(folder, monitor="val_cost", filename="best")
    callback = DecisionCallback(COST, bins=4, folder=folder / "figures")
    model, run = (
        forecaster(lightning),
        trainer(lightning, folder, [callback, best], enable_checkpointing=True, **options),
    )
    run.fit(model, loader(), loader())
    return model, run


def require_validated(model: Any, run: Any, folder: Path) -> None:
    """What was logged last is the evaluation of the model as it is; there is a figure of every validation."""
    features, outcome = loader().dataset.tensors
    expected = evaluated(model.members(features).detach(), outcome)
    logged = {name.removeprefix("val_"): value for name, value in run.callback_metrics.items()}
    torch.testing.assert_close(logged, {name: value.float() for name, value in expected.items()})
    assert sorted(path.name for path in (folder / "figures").iterdir()) == ["reliability_3.svg", "reliability_6.svg"]
    assert "40 cases in 4 bins" in (folder / "figures" / "reliability_6.svg").read_text()
    assert (folder / "best.ckpt").exists()


@quiet
def test_the_callback_logs_the_evaluation_of_the_model(tmp_path: Path) -> None:
    import pytorch_lightning

    require_validated(*validated(pytorch_lightning, tmp_path), tmp_path)


@quiet
def test_the_callback_says_what_validation_step_must_return(tmp_path: Path) -> None:
    import pytorch_lightning

    for wrong, told in (({"loss": torch.zeros(())}, r"\['loss'\]"), (torch.zeros(()), "Tensor")):
        run = trainer(pytorch_lightning, tmp_path, [DecisionCallback(COST)])
        model = forecaster(pytorch_lightning, instead=wrong)
        refuses(SettingError, f"validation_step .*{told}", run.validate, model, loader(), verbose=False)


@quiet
def test_one_of_several_loaders_is_judged(tmp_path: Path) -> None:
    import pytorch_lightning

    callback = DecisionCallback(COST, dataloader=1)
    model, run = forecaster(pytorch_lightning), trainer(pytorch_lightning, tmp_path, [callback])
    run.validate(model, [loader(), loader(8)], verbose=False)
    assert callback.reliability.compute().cases.sum() == 8
    refuses(SettingError, "data loader 1", run.validate, model, loader(), verbose=False)


@pytest.mark.plugins
@quiet
def test_both_names_of_lightning_and_tensorboard(tmp_path: Path) -> None:
    """The callback has the base class of one of them, and serves both."""
    import lightning.pytorch
    import pytorch_lightning
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for library in (lightning.pytorch, pytorch_lightning):
        folder = tmp_path / library.__name__
        logger = library.loggers.TensorBoardLogger(folder / "board")
        require_validated(*validated(library, folder, logger=logger), folder)
        events = EventAccumulator(logger.log_dir)
        events.Reload()
        assert events.Tags()["images"] == ["val_reliability"]
        assert len(events.Scalars("val_cost")) == 2


@pytest.mark.plugins
@quiet
def test_two_processes_of_a_trainer_log_what_one_does(tmp_path: Path) -> None:
    import lightning.pytorch

    callback = DecisionCallback(COST, bins=4, folder=tmp_path / "figures")
    model = forecaster(lightning.pytorch)
    features, outcome = loader().dataset.tensors
    expected = evaluated(model.members(features).detach(), outcome)
    run = trainer(lightning.pytorch, tmp_path, [callback], strategy="ddp_fork", devices=2)
    (logged,) = run.validate(model, loader(), verbose=False)
    torch.testing.assert_close(
        {name.removeprefix("val_"): torch.tensor(value) for name, value in logged.items()},
        {name: value.float() for name, value in expected.items()},
    )
    assert "40 cases in 4 bins" in (tmp_path / "figures" / "reliability_0.svg").read_text()
