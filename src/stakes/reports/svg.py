"""An SVG document made safe to stand inside an HTML page, next to others."""

import re
import xml.etree.ElementTree as ElementTree

from markupsafe import Markup

from stakes.errors import SettingError

__all__ = ["inline_svg"]

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_STRUCTURE = {"a", "defs", "desc", "g", "style", "svg", "symbol", "title", "use"}
_SHAPES = {"circle", "ellipse", "image", "line", "path", "polygon", "polyline", "rect", "text", "textPath", "tspan"}
_PAINTS = {"clipPath", "linearGradient", "marker", "mask", "pattern", "radialGradient", "stop"}
_REFERENCE = re.compile(r"""url\(\s*(['"]?)#([^)'"\s]+)\1\s*\)""")
_FOREIGN_REFERENCE = re.compile(r"url\((?!#)", re.IGNORECASE)
_RULE = re.compile(r"([^{}@]+)\{([^{}@]*)\}")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def inline_svg(svg: str, identifier: str, label: str) -> Markup:
    """The drawing as an `<svg>` element called `identifier`, announced as an image called `label`.

    Every id inside is prefixed with `identifier--`, style rules reach this drawing only, and whatever is no drawing
    (prolog, metadata, scripts, event handlers, links, addresses outside the document) is left out.
    """
    root = _parsed(svg, identifier)
    _clean(root, identifier)
    root.attrib |= {"xmlns": _SVG, "xmlns:xlink": _XLINK, "id": identifier, "role": "img", "aria-label": label}
    root.tail = None
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _parsed(svg: str, identifier: str) -> ElementTree.Element:
    if "<!ENTITY" in svg:
        raise SettingError(f"the SVG of {identifier} must not define entities, got a document type with <!ENTITY")
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise SettingError(f"the SVG of {identifier} must be well-formed XML, got a fault: {error}") from error
    if _local_name(root) != "svg" or "viewBox" not in root.attrib:
        raise SettingError(f"the SVG of {identifier} must be an <svg> with a viewBox, got <{root.tag}>")
    return root


def _clean(element: ElementTree.Element, prefix: str) -> None:
    """Rename and strip the element and all below it, in place."""
    name = _local_name(element)
    element.tag = "g" if name == "a" else name  # what is inside a link stays, as a group
    if name == "style":
        element.text = _scoped(element.text or "", prefix)
    element.attrib = dict(filter(None, (_attribute(*pair, prefix) for pair in element.attrib.items())))
    for child in list(element):
        if _local_name(child) in _STRUCTURE | _SHAPES | _PAINTS:
            _clean(child, prefix)
        else:
            element.remove(child)


def _local_name(element: ElementTree.Element) -> str:
    """The name of an SVG element, empty for one of another language."""
    namespace, _, name = element.tag.rpartition("}")
    return name if namespace in ("", "{" + _SVG) else ""


def _attribute(name: str, value: str, prefix: str) -> tuple[str, str] | None:
    """The attribute as it may stand in the page; None if it may not."""
    if name in ("href", f"{{{_XLINK}}}href"):
        return _target(value, prefix)
    if name.startswith("{") or name.lower().startswith("on"):
        return None
    if name == "id":
        return name, f"{prefix}--{value}"
    value = _renamed(value, prefix)
    return None if _FOREIGN_REFERENCE.search(value) else (name, value)


def _target(address: str, prefix: str) -> tuple[str, str] | None:
    if address.startswith("#"):
        return "xlink:href", f"#{prefix}--{address[1:]}"
    return ("xlink:href", "".join(address.split())) if address.startswith("data:image/") else None


def _renamed(value: str, prefix: str) -> str:
    return _REFERENCE.sub(rf"url(#{prefix}--\2)", value)


def _scoped(css: str, prefix: str) -> str:
    """The plain rules of a style sheet, `*{fill: red}` as `:where([id="prefix"]) :is(*){fill: red}`."""
    rules = [(selector.strip(), _renamed(body, prefix)) for selector, body in _RULE.findall(_COMMENT.sub("", css))]
    kept = [(selector, body) for selector, body in rules if not _FOREIGN_REFERENCE.search(body)]
    return "".join(f':where([id="{prefix}"]) :is({_own(selector, prefix)}){{{body}}}' for selector, body in kept)


def _own(selector: str, prefix: str) -> str:
    """The selector with `#name` as an attribute, since a prefix may hold signs that CSS would read otherwise."""
    return re.sub(r"#([\w-]+)", rf'[id="{prefix}--\1"]', selector)
