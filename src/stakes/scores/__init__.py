"""Scoring rules, the decision score, and the objective made of both."""
