"""A cost in words: how it is written, a user's own file, and whether it fits the data."""
