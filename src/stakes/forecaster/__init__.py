"""The estimator: from a table and a cost to a forecast, chosen rung by rung, and its decisions."""
