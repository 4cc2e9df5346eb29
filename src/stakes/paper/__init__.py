"""The reproduction of the paper: what it trains, its claims, its figures, and one report of them all."""
