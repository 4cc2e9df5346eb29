"""Decisions with many parts on real records: problems, the methods that solve them, and what these were worth."""
