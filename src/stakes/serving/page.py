"""The page of the service: one HTML file in the look of the reports, which asks nobody but the service."""

import base64
import hashlib
from functools import cache
from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

from stakes.reports.scripts import chart_script, chart_styles, template_text

__all__ = ["page"]

_SCRIPTS = ("decision.js", "coming.js", "service.js")


@cache
def page(needs_token: bool) -> Response:
    """The page, with a policy that lets it run what is in it and ask its own service.

    Args:
        needs_token: Whether the page has to ask its reader for a token.
    """
    styles = "\n".join((template_text("page.css"), chart_styles(), _text("service.css")))
    script = "\n".join((template_text("page.js"), chart_script(), *map(_text, _SCRIPTS)))
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(_text("service.html"))
    content = template.render(styles=Markup(styles), script=Markup(script), needs_token=needs_token)
    policy = (
        f"default-src 'none'; style-src {_digest(styles)}; script-src {_digest(script)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Response(content, media_type="text/html", headers={"Content-Security-Policy": policy})


def _text(name: str) -> str:
    return resources.files("stakes.serving").joinpath("templates", name).read_text("utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
