"""Small studies of given numbers, as a function that makes them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import ArrayLike

from reproduction.study import AXES, Study
from stakes.evaluation.metrics import LEVELS


def study(
    forecasts: Mapping[str, ArrayLike],
    cases: Mapping[str, ArrayLike] | None = None,
    weights: Sequence[float] = (0.0,),
    parameters: Sequence[float] = (1.0,),
    block: int = 1,
    **about: Any,
) -> Study:
    """Metrics (parameters, groups, weights, seeds, cases[, levels]), less their first axes where those have length 1.

    What is known of the cases is (cases,), (groups, cases) or (parameters, groups, cases).
    """
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in forecasts.items()}
    shaped = {name: _filled(values, 6 if name == "quantile" else 5) for name, values in arrays.items()}
    sizes = next(iter(shaped.values())).shape
    axes = [list(parameters), np.arange(sizes[1]), list(weights), np.arange(sizes[3]), np.arange(sizes[4])]
    variables = {name: ((*AXES, "level")[: values.ndim], values) for name, values in shaped.items()}
    coordinates = dict(zip(AXES, axes, strict=True)) | {"level": list(LEVELS)}
    known = {name: (("parameter", "group", "case"), _filled(np.asarray(v), 3)) for name, v in (cases or {}).items()}
    every = {
        name: (dims, np.broadcast_to(values, (len(axes[0]), sizes[1], sizes[4])))
        for name, (dims, values) in known.items()
    }
    of_cases = {name: values for name, values in coordinates.items() if name in ("parameter", "group", "case")}
    return Study(xr.Dataset(variables, coordinates), xr.Dataset(every, of_cases), about, block)


def _filled(values: Any, dimensions: int) -> Any:
    return values.reshape((1,) * (dimensions - values.ndim) + values.shape)


@pytest.fixture(scope="session")
def make_study() -> Callable[..., Study]:
    return study
