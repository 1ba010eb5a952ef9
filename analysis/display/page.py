"""A document as one HTML page."""

import base64
import hashlib
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.display.document import Document
from analysis.display.style import figure_style
from bayes_direag.commands.console import visible
from bayes_direag.data.atomic import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_HERE = Path(__file__).parent
#: Dots per inch, and the largest side of a WebP picture in dots.
_DPI, _MOST_DOTS = 200, 16383
#: A larger picture is compressed with loss.
_MOST_BYTES = 300_000
#: Inches that may be added around a figure.
_EDGE = 0.5


def write_page(document: Document, path: str | Path) -> None:
    """Write a document as one HTML file, completely or not at all; an earlier file is replaced."""
    html = render(document)
    with atomic_path(path) as partial_path:
        partial_path.write_text(html, encoding="utf-8", newline="\n")


def render(document: Document) -> str:
    """Return a document as HTML; the same document gives the same text."""
    return filled_page("template.html.j2", "report.css", report=document)


def styled(html: str) -> str:
    """Return a bare page of one table in the style of a report: light or dark, on a desk or a phone."""
    css = "".join((_HERE / name).read_text(encoding="utf-8") for name in ("base.css", "table.css"))
    head = f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>\n{css}</style>\n</head>'
    return html.replace("</head>", head, 1)


def filled_page(template: str, css: str, script: str = "", **content: object) -> str:
    """Return a page that needs nothing else: a template, with the base and its style, and its only script.

    Characters that would reorder or hide text are shown by their escapes.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "kind": lambda block: type(block).__name__.lower(),
        "pieces": _pieces,
        "data_uri": _data_uri,
        "script_json": _script_json,
    }
    style = "\n".join(path.read_text(encoding="utf-8") for path in (_HERE / "base.css", _HERE / css))
    code = (_HERE / script).read_text(encoding="utf-8") if script else ""
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    return visible(environment.get_template(template).render(content, css=style, script=code, digest=digest))


def _pieces(text: str) -> list[str]:
    """Split a text at its backticks: every second piece is code."""
    return re.split(r"`([^`]+)`", text)


def _script_json(content: Mapping[str, object]) -> str:
    """Return the content as JSON that is safe inside a script element."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _data_uri(figure: "Figure") -> str:
    """Return a figure as a data URI of a WebP picture: without loss, unless that is large (as traces of draws are)."""
    picture = _webp(figure, lossless=True)
    if len(picture) > _MOST_BYTES:
        picture = _webp(figure, quality=85)
    return f"data:image/webp;base64,{base64.b64encode(picture).decode()}"


def _webp(figure: "Figure", **options: bool | int) -> bytes:
    dots = min(_DPI, _MOST_DOTS / (max(figure.get_size_inches()) + _EDGE))
    file = io.BytesIO()
    with figure_style():
        figure.savefig(file, format="webp", dpi=dots, pil_kwargs=options)
    return file.getvalue()
