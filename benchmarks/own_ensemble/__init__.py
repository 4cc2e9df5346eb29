"""What are forecasts that somebody else makes worth, as they come and corrected by their own past errors?

    python -m benchmarks.own_ensemble FOLDER [--problems ...] [--thin N] [--jobs N] [--json FILE] [--page FILE]

`problems` reads the real forecasts with what happened from a folder of tables that cannot be shipped, `rivals` are the
textbook's corrections, written without the library, and `judgement` compares each of them with `stakes.Recalibrator`
by what their actions cost on cases that nobody has seen.
"""
