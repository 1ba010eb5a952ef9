"""A report as one HTML file that needs nothing else: no network, no script, no font of its own.

Names, answers and questions come from files that anyone may have written, so every text is escaped, and a content
security policy in the page forbids whatever it does not bring along.
"""

import base64
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.display.blocks import Report
from analysis.display.style import figure_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_HERE = Path(__file__).parent
#: Dots an inch, sharp on a phone; no side of a WebP picture has more than so many. Bytes of one that are not yet much.
_DPI, _MOST_DOTS = 200, 16383
_MOST_BYTES = 300_000
#: Inches that may be added around a figure.
_EDGE = 0.5


def render(report: Report) -> str:
    """Return a report as HTML; the same report gives the same text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"pieces": _pieces, "data_uri": _data_uri}
    css = (_HERE / "report.css").read_text(encoding="utf-8")
    return environment.get_template("template.html.j2").render(report=report, css=css)


def _pieces(text: str) -> list[str]:
    """Split a text where code begins and ends, which stands in backticks: every second piece is code."""
    return re.split(r"`([^`]+)`", text)


def _data_uri(figure: "Figure") -> str:
    """Return a figure as an address that holds it, as WebP: without loss it takes 0.4 of the bytes of PNG.

    Where that is still much (traces of many draws are noise, which nothing packs) it is packed with a loss that the eye
    does not see.
    """
    whole = _webp(figure, lossless=True)
    packed = whole if len(whole) <= _MOST_BYTES else _webp(figure, quality=85)
    return f"data:image/webp;base64,{base64.b64encode(packed).decode()}"


def _webp(figure: "Figure", **options: bool | int) -> bytes:
    dots = min(_DPI, _MOST_DOTS / (max(figure.get_size_inches()) + _EDGE))
    file = io.BytesIO()
    with figure_style():
        figure.savefig(file, format="webp", dpi=dots, pil_kwargs=options)
    return file.getvalue()
