"""Numbers of ERA5 that are made up."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

NAMES = ("u10", "v10", "u100", "v100", "t2m", "d2m", "skt", "sp")


def values(name: str, times: Any, latitudes: Sequence[float], longitudes: Sequence[float]) -> NDArray[np.float64]:
    """(T, Y, X): a plausible number of that variable, different everywhere; longitudes count from -180 to 180."""
    hours = (np.asarray(times).astype("datetime64[h]") - np.datetime64("1940-01-01", "h")).astype(float)
    east = (np.asarray(longitudes) + 180) % 360 - 180
    wave = np.sin(hours / 8766 * 2 * np.pi)[:, None, None] + hours[:, None, None] / 1e6
    place = np.asarray(latitudes)[:, None] / 90 + east[None, :] / 1000
    return (280.0 if name in ("t2m", "d2m", "skt") else 3.0) + NAMES.index(name) / 10 + 4 * wave + place
