"""How good a forecast and its decisions were, and how sure one can be of it."""
