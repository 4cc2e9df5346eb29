"""Models that emit members."""
