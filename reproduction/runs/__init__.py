"""Runs of named tasks: settings, folders, stacks and sweeps."""
