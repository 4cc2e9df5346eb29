"""How tasks of many sites are trained: ours, since the paper has no portfolio."""

from dataclasses import replace

from stakes.method.training_settings import DiffusionSettings, ImplicitSettings, TrainingSettings
from stakes.tasks.task import PaperSettings

__all__ = ["MANY_LOADS", "MANY_WIND_SITES"]

_NETWORK = (64, 3)  # wider, with fewer layers than the paper's

MANY_WIND_SITES = PaperSettings(
    models=(ImplicitSettings(16, *_NETWORK), DiffusionSettings(16, *_NETWORK)),
    training=TrainingSettings(epochs=40, pretraining_epochs=40, validate_every=2, validation_members=20),
    grid={
        "decision_weight": tuple(tenth / 10 for tenth in range(10)),
        "seed": (0, 1, 2),
        "task.penalty": (5.0, 20.0),
    },
)
MANY_LOADS = PaperSettings(
    models=MANY_WIND_SITES.models,
    training=replace(
        MANY_WIND_SITES.training, epochs=30, pretraining_epochs=30, members=20, decision_estimator="debiased"
    ),
    grid={axis: values for axis, values in MANY_WIND_SITES.grid.items() if axis != "task.penalty"},
)
