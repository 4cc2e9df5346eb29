"""A fitted forecaster or recalibrator on disk."""
