"""Sentences that stand in files beside their tests; `make snapshots` writes these files anew."""

import os
from pathlib import Path


def assert_as_kept(path: Path, said: str) -> None:
    """What is said is what the file has."""
    if os.environ.get("RENEW"):
        path.write_text(said, "utf-8")
    assert said == path.read_text("utf-8")
