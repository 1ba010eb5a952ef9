"""A result as a document of sentences, tables and pictures, which the terminal, a page, Markdown and LaTeX print.

Texts are escaped by every printer; only text in `backticks` is set as code.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pandas as pd

from analysis.display.glossary import PICTURE_WORDS
from analysis.display.style import figure_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Severity = Literal["fine", "warning", "failure"]
type Record = Mapping[Hashable, Any]


class Statements(NamedTuple):
    """The main result, sentence by sentence."""

    sentences: tuple[str, ...]


class Paragraph(NamedTuple):
    """A few sentences; their role sets how much they stand out."""

    text: str
    role: Literal["", "title", "note", "fine", "warning", "failure"] = ""


class Terms(NamedTuple):
    """Names and what they mean."""

    title: str
    items: tuple[tuple[str, str], ...]


class Cell(NamedTuple):
    """A text, further lines in smaller letters, and marks: best, fine, warning or failure."""

    text: str
    detail: str = ""
    marks: tuple[str, ...] = ()


class Column(NamedTuple):
    """A header, a detail for a page, and whether the column holds numbers, names, names to type, or sentences."""

    header: str
    detail: str = ""
    holds: Literal["number", "name", "key", "prose"] = "number"


class Table(NamedTuple):
    """A table whose first column names the rows.

    ``source``: where its numbers are available as data. ``focus``: the row that the document is about.
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
    """A figure, and the tables behind it by the name of their file; the glossary says how to read it."""

    name: str
    figure: "Figure"
    tables: Mapping[str, pd.DataFrame] = MappingProxyType({})
    caption: str = ""

    @property
    def words(self) -> tuple[str, str]:
        """Its title and how to read it."""
        title, meaning = PICTURE_WORDS.get(self.name, (self.name, ""))
        return title, f"{meaning} {self.caption}".strip()

    @property
    def alt(self) -> str:
        """The figure's own title and caption on one line."""
        texts = f"{self.figure.get_suptitle()}. {self.figure.get_supxlabel()} {self.caption}"
        return " ".join(texts.replace("\\$", "$").split())


class LeftOut(NamedTuple):
    """A picture that cannot be drawn, and why."""

    name: str
    reason: str

    @property
    def text(self) -> str:
        """Say that it is left out."""
        return f"{PICTURE_WORDS[self.name][0]} This picture is left out: {self.reason}."


class Verdict(NamedTuple):
    """Findings, each with its status."""

    items: tuple[tuple[Severity, str], ...]


Block = Statements | Paragraph | Terms | Table | Picture | LeftOut | Verdict


class Section(NamedTuple):
    """One part of a document; links use its ``name``."""

    name: str
    title: str
    blocks: tuple[Block, ...]


class Document(NamedTuple):
    """A whole document; on a page the first section is open, the others are folded."""

    title: str
    about: str
    subtitle: str
    sections: tuple[Section, ...]


class Result(ABC):
    """A result that a notebook shows as its table."""

    @property
    @abstractmethod
    def table(self) -> pd.DataFrame:
        """The main table."""

    @abstractmethod
    def _draw(self, axes: "Axes") -> None: ...

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw it on these axes, or on those of a new figure in the project's style, which a notebook shows."""
        if ax is None:
            from matplotlib import pyplot as plt

            with figure_style():
                return self.plot(plt.subplots()[1])
        self._draw(ax)
        return ax

    def _repr_html_(self) -> str:
        table = self.table.to_html(index=False, na_rep="", float_format="{:.3g}".format)
        return f"<p>{escape(repr(self))}</p>\n{table}"
