"""Codes for missing values among outcomes, and numbers that are none."""

import numpy as np
import pytest

from stakes.data.forecasts.checks import missing_code_notes

RAIN = np.array([0.0, 2.0, 0.5, 31.0])
AHEAD = np.array([[1.0, 3.0], [0.0, 4.0], [0.2, 40.0], [5.0, np.nan]])


@pytest.mark.parametrize("code", [-999.0, -99.0, 9999.0, 1e20, float(np.float32(-999.9))])
def test_a_code_is_told_with_its_place(code: float) -> None:
    rain = np.append(RAIN, [np.nan, code, code])
    (note,) = missing_code_notes(rain, AHEAD, "rain", rain, "'seen.csv'")
    assert "in 'rain', data row 6 and 1 row more, beyond all other outcomes and forecasts" in note
    assert note.endswith("if it stands for a missing value, leave the field empty")


@pytest.mark.parametrize(
    "rain",
    [
        RAIN,
        np.append(RAIN, 300.0),  # much, but rain may
        np.append(RAIN, [999.0, 500.0, 1000.0]),  # among others
        np.full(3, -99.0),  # nothing else to hold it against
        np.full(3, np.nan),
        np.append(RAIN + 980, 999.0),  # as large as the others
        np.append(RAIN + 1001, 999.9),
    ],
)
def test_other_numbers_are_not(rain: np.ndarray) -> None:
    forecasts = np.full((3, 1), np.nan) if (rain == -99).all() else AHEAD + (rain[0] if rain[0] > 900 else 0)
    assert missing_code_notes(rain, forecasts, "rain", rain, "'seen.csv'") == ()


def test_a_forecast_with_the_same_code_hides_nothing() -> None:
    notes = missing_code_notes(np.append(RAIN, -999.0), np.append(AHEAD, -999.0), "rain", np.append(RAIN, -999.0), "x")
    assert notes[0].startswith("x has -999 in 'rain', data row 5, beyond")
