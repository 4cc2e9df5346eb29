"""Corrections of known numbers, which move members and spread them about their mean."""

import numpy as np

import stakes
from stakes.forecasting.error_model import ErrorModel, ForecastTerms


def moving(cases: int, shift: tuple[float, ...], factor: tuple[float, ...]) -> stakes.Correction:
    """x becomes mean + shift + factor (x - mean)."""
    models = [
        ErrorModel(
            "normal", 1.0, (None, None), 0.0, 1.0, 1e-9, {"constant": far}, {"constant": wide}, (-50.0, 50.0), ()
        )
        for far, wide in zip(shift, np.log(factor).tolist(), strict=True)
    ]
    names = tuple(f"y{place}" for place in range(len(shift)))
    terms = ForecastTerms(forecast=False)
    return stakes.Correction("members", names, ((None, None),) * len(shift), cases, terms, tuple(models))
