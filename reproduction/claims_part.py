"""The claims of a report, each with its verdict, which readers can sort and filter."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from stakes.reports.page import OwnPart

Verdict = Literal["holds", "fails", "open"]
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class ClaimRow:
    """A claim, how it was judged, and what came out."""

    identifier: str  # the name of the claim
    statement: str  # what it says
    how: str  # how it was judged
    verdict: Verdict  # whether it holds
    effects: tuple[str, ...] = ()  # what was measured; the first decides
    choice: str = ""  # under which choice of settings it was judged; empty for the main one
    note: str = ""  # what else is to be said


def claims_part(claims: Sequence[ClaimRow]) -> OwnPart:
    """The claims as a part of a report."""
    counts = Counter(claim.verdict for claim in claims)
    loader = FileSystemLoader(_TEMPLATES)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    tally = {verdict: counts[verdict] for verdict in get_args(Verdict)}
    html = Markup(environment.get_template("claims.html").render(rows=claims, tally=tally))
    styles, script = ((_TEMPLATES / f"claims.{kind}").read_text("utf-8") for kind in ("css", "js"))
    return OwnPart("claims", "Claims", html, styles, script)
