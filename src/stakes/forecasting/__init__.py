"""The forecaster and the recalibrator: candidates, their selection, corrections, decisions."""
