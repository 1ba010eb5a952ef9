"""The parts of a report, and the HTML page made of them.

Texts are escaped; only text in `backticks` is set as code.
"""

import base64
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from analysis.display.style import LeftOut, Words, figure_style
from analysis.display.style import Picture as Drawn
from bayes_direag.commands.console import visible
from bayes_direag.data.atomic import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Mark = Literal["", "best", "fine", "warning", "failure"]


class Statements(NamedTuple):
    """The report's result, sentence by sentence."""

    sentences: tuple[str, ...]


class Paragraph(NamedTuple):
    """A few sentences; their role sets how much they stand out."""

    text: str
    role: Literal["", "note", "fine", "warning", "failure"] = ""


class Bullets(NamedTuple):
    """Sentences in no order."""

    items: tuple[str, ...]


class Terms(NamedTuple):
    """Names and what they mean."""

    title: str
    items: tuple[tuple[str, str], ...]


class Dot(NamedTuple):
    """Answers with similar probabilities: the mean probability, the share right with its interval, and their number."""

    said: float
    right: float
    low: float
    high: float
    n: int


class Chart(NamedTuple):
    """The share of right answers by their probability, drawn in the colours of the page."""

    caption: str
    dots: tuple[Dot, ...]


class Explorer(NamedTuple):
    """All questions, to filter, sort and open; not shown without scripts.

    ``levels`` names the columns of reports. Each question is a dictionary as the script reads it; see ``explorer.js``.
    """

    levels: tuple[str, ...]
    questions: tuple[dict[str, object], ...]

    @property
    def data(self) -> str:
        """The content as JSON that is safe inside a script element."""
        return json.dumps(self._asdict(), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


class Cell(NamedTuple):
    """A text, a detail in smaller letters, and how the cell stands out."""

    text: str
    detail: str = ""
    mark: Mark = ""


class Column(NamedTuple):
    """A header, a detail in smaller letters, and whether the column holds numbers, names or sentences."""

    header: str
    detail: str = ""
    holds: Literal["number", "name", "prose"] = "number"


class Table(NamedTuple):
    """A table whose first column names the rows.

    ``source``: where its numbers are available as data. ``focus``: the row that the report is about.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    source: str = ""
    focus: str = ""

    @classmethod
    def of(
        cls,
        caption: str,
        records: Iterable[Any],
        columns: Mapping[Column, Callable[[Any], Cell | str]],
        note: str = "",
        source: str = "",
        focus: str = "",
    ) -> "Table":
        """Make a table with one row per record; a column is a function from a record to a cell or its text."""

        def cell(content: Cell | str) -> Cell:
            return Cell(content) if isinstance(content, str) else content

        rows = tuple(tuple(cell(show(record)) for show in columns.values()) for record in records)
        return cls(caption, tuple(columns), rows, note, source, focus)


class Picture(NamedTuple):
    """A figure and how to read it; its own title and caption serve as the alternative text."""

    name: str
    title: str
    how_to_read: str
    figure: "Figure"

    @property
    def alt(self) -> str:
        """The figure's title and caption on one line."""
        return " ".join(f"{self.figure.get_suptitle()}. {self.figure.get_supxlabel()}".replace("\\$", "$").split())


class Verdict(NamedTuple):
    """Findings, each with its mark."""

    items: tuple[tuple[Literal["fine", "warning", "failure"], str], ...]


class Command(NamedTuple):
    """Commands to type."""

    text: str


Block = Statements | Paragraph | Bullets | Terms | Chart | Table | Explorer | Picture | Verdict | Command


class Section(NamedTuple):
    """One part of the report; links use its ``name``. The first section is open, the others are folded."""

    name: str
    title: str
    blocks: tuple[Block, ...]


class Report(NamedTuple):
    """A whole report."""

    title: str
    about: str
    subtitle: str
    sections: tuple[Section, ...]


def worded(
    pictures: Iterable[Drawn | LeftOut], words: Words, prefix: str, on_step: Callable[[str], None]
) -> Iterator[Block]:
    """Yield the pictures in the order of their words; for one that cannot be drawn, a sentence that says why."""
    by_name: dict[str, Drawn | LeftOut] = {}
    for picture in pictures:
        on_step(f"drawing {picture.name}")
        by_name[picture.name] = picture
    for name, (title, how_to_read) in words.items():
        match by_name.get(name):
            case Drawn(_, figure, _):
                yield Picture(f"{prefix}-{name}", title, how_to_read, figure)
            case LeftOut(_, reason):
                yield Paragraph(f"{title} This picture is left out: {reason}.", "note")


_HERE = Path(__file__).parent
#: Dots per inch, and the largest side of a WebP picture in dots.
_DPI, _MOST_DOTS = 200, 16383
#: A larger picture is compressed with loss.
_MOST_BYTES = 300_000
#: Inches that may be added around a figure.
_EDGE = 0.5


def write_page(report: Report, path: str | Path) -> None:
    """Write a report as one HTML file, completely or not at all; an earlier file is replaced."""
    html = render(report)
    with atomic_path(path) as partial_path:
        partial_path.write_text(html, encoding="utf-8", newline="\n")


def render(report: Report) -> str:
    """Return a report as HTML; the same report gives the same text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "kind": lambda block: type(block).__name__.lower(),
        "pieces": _pieces,
        "data_uri": _data_uri,
    }
    css, script = ((_HERE / name).read_text(encoding="utf-8") for name in ("report.css", "explorer.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = environment.get_template("template.html.j2")
    return visible(template.render(report=report, css=css, script=script, digest=digest))


def _pieces(text: str) -> list[str]:
    """Split a text at its backticks: every second piece is code."""
    return re.split(r"`([^`]+)`", text)


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
