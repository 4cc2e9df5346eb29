"""All claims of the paper in its order, judged on the studies of a reproduction."""

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

from reproduction.claims.claim import Check, Claim, Judgement
from reproduction.claims.frost import FROST_CLAIMS
from reproduction.claims.method import METHOD_CLAIMS
from reproduction.claims.synthetic import SYNTHETIC_CLAIMS
from reproduction.claims.wind import WIND_CLAIMS
from reproduction.plan import SUBJECTS
from reproduction.study_collection import Studies


def all_claims() -> tuple[Claim, ...]:
    """S1-S6, W1-W7, F1-F9, M1, M2, O1 and T1."""
    return (*SYNTHETIC_CLAIMS, *WIND_CLAIMS, *FROST_CLAIMS, *METHOD_CLAIMS)


def judge_claims(studies: Studies, subjects: Sequence[str] = SUBJECTS) -> list[Judgement]:
    """Every claim of some subjects, and of the method, under every choice that was evaluated."""
    claims = [claim for claim in all_claims() if claim.subject in (*subjects, "method")]
    return [judgement for claim in claims for judgement in claim.judgements(studies)]


def claims_record(judgements: Iterable[Judgement]) -> dict[str, Any]:
    """Judged claims as plain values for JSON, by identifier.

    Each says what it claims and how that is measured and, by choice, has the verdict, the checks and what was missing.
    """
    record: dict[str, Any] = {}
    for judgement in judgements:
        claim = judgement.claim
        texts = {"subject": claim.subject, "statement": claim.statement, "how": claim.how, "choices": {}}
        record.setdefault(claim.identifier, texts)["choices"][judgement.choice] = {
            "verdict": judgement.verdict,
            "checks": [_check_record(check) for check in judgement.checks],
            "note": judgement.note,
        }
    return record


def _check_record(check: Check) -> dict[str, Any]:
    mean, low, high = (value if isfinite(value) else None for value in check.effect)
    return {
        "check": check.what,
        "effect": mean,
        "low": low,
        "high": high,
        "unit": check.unit,
        "expected": check.expectation,
        "paper": check.paper,
        "counts": check.counts,
        "check_verdict": check.verdict,
    }
