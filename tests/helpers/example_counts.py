"""How many examples a property is tried with: a quarter of them in `make test`, all of them in `make soak`."""

import os

from hypothesis import settings

SHARE = 1 if "STAKES_TEST_ALL_EXAMPLES" in os.environ else 4


def examples(count: int) -> settings:
    return settings(max_examples=count // SHARE, deadline=None, derandomize=True)
