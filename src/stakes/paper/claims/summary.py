"""Judged claims as a table and as plain values."""

from collections.abc import Iterable
from math import isfinite
from typing import Any

import pandas as pd

from stakes.paper.claims.claim import Check, Judgement

__all__ = ["claims_record", "claims_table"]

_CHECK_COLUMNS = ("check", "effect", "low", "high", "unit", "expected", "paper", "counts", "check_verdict")
_COLUMNS = ("claim", "subject", "choice", "verdict", *_CHECK_COLUMNS, "note")


def claims_table(judgements: Iterable[Judgement]) -> pd.DataFrame:
    """One line a check, and one for a judgement that has none."""
    rows = []
    for judgement in judgements:
        claim = judgement.claim
        head = {"claim": claim.identifier, "subject": claim.subject, "choice": judgement.choice}
        head |= {"verdict": judgement.verdict, "note": judgement.note}
        rows += [head | _plain(check) for check in judgement.checks] or [head]
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def claims_record(judgements: Iterable[Judgement]) -> dict[str, Any]:
    """By claim: what it says, how it is measured, and by choice the verdict, the checks and what was missing."""
    record: dict[str, Any] = {}
    for judgement in judgements:
        claim = judgement.claim
        texts = {"subject": claim.subject, "statement": claim.statement, "how": claim.how, "choices": {}}
        record.setdefault(claim.identifier, texts)["choices"][judgement.choice] = {
            "verdict": judgement.verdict,
            "checks": [_plain(check) for check in judgement.checks],
            "note": judgement.note,
        }
    return record


def _plain(check: Check) -> dict[str, Any]:
    mean, low, high = (value if isfinite(value) else None for value in check.effect)
    values = (check.what, mean, low, high, check.unit, check.expectation, check.paper, check.counts, check.verdict)
    return dict(zip(_CHECK_COLUMNS, values, strict=True))
