"""Commands of `python -m reproduction` called in this process, and what they say."""

from functools import partial

import calls

from reproduction.__main__ import main

called = partial(calls.called, command=main)
complaint = partial(calls.complaint, command=main)
