"""The page of the service: one HTML file in the look of the reports, which asks nobody but the service."""

import base64
import hashlib
from functools import cache
from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

__all__ = ["page"]

_PARTS = {"styles": ("page.css", "service.css"), "script": ("page.js", "charts.js", "service.js")}


@cache
def page(needs_token: bool) -> Response:
    """The page, with a policy that lets it run what is in it and ask its own service.

    Args:
        needs_token: Whether the page has to ask its reader for a token.
    """
    parts = {name: "\n".join(map(_text, files)) for name, files in _PARTS.items()}
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(_text("service.html"))
    content = template.render({name: Markup(text) for name, text in parts.items()}, needs_token=needs_token)
    policy = (
        f"default-src 'none'; style-src {_digest(parts['styles'])}; script-src {_digest(parts['script'])}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Response(content, media_type="text/html", headers={"Content-Security-Policy": policy})


def _text(name: str) -> str:
    """A template of the service, or of the reports where it has none of that name."""
    for package in ("stakes.serving", "stakes.reports"):
        file = resources.files(package).joinpath("templates", name)
        if file.is_file():
            return file.read_text("utf-8")
    raise FileNotFoundError(name)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
