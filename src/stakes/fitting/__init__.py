"""From a table and a cost to a fitted forecaster, its judgement and its story."""
