"""Costs as text, and in TOML and Python files."""
