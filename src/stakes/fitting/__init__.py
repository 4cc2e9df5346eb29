"""From a table and a cost to a fitted forecaster, what it is worth, and its report."""
