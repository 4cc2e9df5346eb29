"""All claims of the paper, in its order."""

from stakes.reporting.claims import frost, method, synthetic, wind
from stakes.reporting.claims.claim import Claim, Judgement
from stakes.reporting.studies import Studies

__all__ = ["all_claims", "judge_all"]


def all_claims() -> tuple[Claim, ...]:
    """S1-S6, W1-W7, F1-F9, M1, M2, O1 and T1."""
    return (*synthetic.CLAIMS, *wind.CLAIMS, *frost.CLAIMS, *method.CLAIMS)


def judge_all(studies: Studies) -> list[Judgement]:
    """Every claim under every choice that was evaluated."""
    return [judgement for claim in all_claims() for judgement in claim.judgements(studies)]
