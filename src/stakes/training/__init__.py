"""Training: one loop for one model or many at once, checkpoints, sweeps."""
