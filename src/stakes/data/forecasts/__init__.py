"""Forecasts that somebody else makes: members, quantiles, grids, long tables."""
