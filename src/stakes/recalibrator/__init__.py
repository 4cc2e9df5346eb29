"""Forecasts that somebody else makes, corrected by their own past errors, rung by rung."""
