"""All claims of the paper, in its order."""

from collections.abc import Sequence

from stakes.paper.claims import frost, method, synthetic, wind
from stakes.paper.claims.claim import Claim, Judgement
from stakes.paper.plan import SUBJECTS
from stakes.paper.studies import Studies

__all__ = ["all_claims", "judge_all"]


def all_claims() -> tuple[Claim, ...]:
    """S1-S6, W1-W7, F1-F9, M1, M2, O1 and T1."""
    return (*synthetic.CLAIMS, *wind.CLAIMS, *frost.CLAIMS, *method.CLAIMS)


def judge_all(studies: Studies, subjects: Sequence[str] = SUBJECTS) -> list[Judgement]:
    """Every claim of these subjects, and of the method, under every choice that was evaluated."""
    claims = [claim for claim in all_claims() if claim.subject in (*subjects, "method")]
    return [judgement for claim in claims for judgement in claim.judgements(studies)]
