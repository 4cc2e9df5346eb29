"""The reproduction of the paper: its tasks, what is trained, its claims, its figures, and one report of them all."""
