"""One table in several dresses: for a terminal, in Markdown, in LaTeX.

A :class:`Layout` holds a table's texts in their places and says which are best; a dress decides how that looks. Texts
are shown as they are, whatever markup they look like.
"""

import re
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

_MARKED = "Best of each column in bold, second best {}; figures equal as printed are equally good."
_CONSOLE_STYLE = {1: "bold", 2: "underline"}
_MARKDOWN_MARKS = {1: "**", 2: "*"}
_LATEX_COMMAND = {1: r"\textbf", 2: r"\underline"}

#: What LaTeX would not print as it stands.
_LATEX_TEXT = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "{}$&#_%"},
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",
    "]": "{]}",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "\N{MINUS SIGN}": "$-$",
}


@dataclass(frozen=True)
class Cell:
    """A text, and its rank in its column if it takes part: 1 is the best."""

    text: str
    rank: int | None = None


@dataclass(frozen=True)
class Row:
    """A label and a cell for each further column; a detail tells more of the row above."""

    label: str
    cells: tuple[Cell, ...]
    is_detail: bool = False


@dataclass(frozen=True)
class Section:
    """Rows that belong together, the folder they come from, and what is to be said of them."""

    title: str
    source: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """A table: the headers of all columns (in lines, the first over the labels), its sections, and how to read it.

    ``name`` stands for it in cross-references.
    """

    name: str
    title: str
    headers: tuple[str, ...]
    sections: tuple[Section, ...]
    caption: str

    @property
    def has_ranks(self) -> bool:
        """Whether any cell is ranked."""
        return any(cell.rank for section in self.sections for row in section.rows for cell in row.cells)


def to_console(layout: Layout) -> Group:
    """Return a rich renderable: best in bold, second best underlined, details dimmed."""
    parts: list[Text | Table | str] = [Text(layout.title, style="italic")]
    for section in layout.sections:
        table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
        for position, header in enumerate(layout.headers):
            left = position == 0
            table.add_column(
                Text(header), justify="left" if left else "right", no_wrap=not left, overflow="fold", vertical="bottom"
            )
        for row in section.rows:
            cells = (Text(cell.text, style=_CONSOLE_STYLE.get(cell.rank or 0, "")) for cell in row.cells)
            table.add_row(Text(row.label), *cells, style="dim" if row.is_detail else "")
        notes = (Text(note, style="dim italic") for note in section.notes)
        parts += [Text(f"\n{section.title} ({section.source})"), table, *notes]
    return Group(*parts, Text(f"\n{_caption(layout, 'underlined')}", style="dim italic"), "")


def to_markdown(layout: Layout) -> str:
    """Return Markdown: best in bold, second best in italics."""
    lines = [f"## {_markdown_text(layout.title)}"]
    rule = ["---", *["---:"] * (len(layout.headers) - 1)]
    for section in layout.sections:
        lines += ["", f"### {_markdown_text(f'{section.title} ({section.source})')}", ""]
        lines += map(_markdown_row, ([_markdown_text(header) for header in layout.headers], rule))
        for row in section.rows:
            cells = [f"{mark}{_markdown_text(cell.text)}{mark}" for cell in row.cells for mark in [_mark(cell)]]
            lines.append(_markdown_row([_markdown_text(row.label), *cells]))
        for note in section.notes:
            lines += ["", _markdown_text(note)]
    return "\n".join([*lines, "", _markdown_text(_caption(layout, "in italics")), ""])


def to_latex(layout: Layout) -> str:
    r"""Return LaTeX, a ``table`` a section: best in ``\textbf``, second best in ``\underline``.

    The document needs the package booktabs and nothing else.
    """
    return "\n".join(_latex_table(layout, number, section) for number, section in enumerate(layout.sections, 1))


def _latex_table(layout: Layout, number: int, section: Section) -> str:
    body = []
    for position, row in enumerate(section.rows):
        texts = [_latex_text(row.label), *map(_latex_cell, row.cells)]
        if row.is_detail:
            texts = [text and rf"{{\scriptsize {text}}}" for text in texts]
        elif position:
            body.append(r"\addlinespace")
        body.append(rf"{' & '.join(texts)} \\")
    notes = " ".join((*section.notes, _caption(layout, "underlined")))
    return rf"""% From {" ".join(section.source.split())}. Needs \usepackage{{booktabs}}.
\begin{{table}}
\centering\small
\setlength{{\tabcolsep}}{{3pt}}
\caption{{{_latex_text(f"{layout.title}: {section.title}")}}}
\label{{tab:{layout.name}-{number}}}
\begin{{tabular}}{{l{"r" * (len(layout.headers) - 1)}}}
\toprule
{" & ".join(map(_latex_header, layout.headers))} \\
\midrule
{"\n".join(body)}
\bottomrule
\end{{tabular}}
\par\smallskip
\begin{{minipage}}{{\linewidth}}\footnotesize
{_latex_text(notes)}
\end{{minipage}}
\end{{table}}
"""


def _caption(layout: Layout, second_best: str) -> str:
    return f"{_MARKED.format(second_best)} {layout.caption}" if layout.has_ranks else layout.caption


def _mark(cell: Cell) -> str:
    return _MARKDOWN_MARKS.get(cell.rank or 0, "")


def _markdown_row(texts: list[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\`*_|<\[\]~])", r"\\\1", text).replace("\n", "<br>")


def _latex_cell(cell: Cell) -> str:
    command, text = _LATEX_COMMAND.get(cell.rank or 0), _latex_text(cell.text)
    return f"{command}{{{text}}}" if command else text


def _latex_header(header: str) -> str:
    lines = [_latex_text(line) for line in header.split("\n")]
    return lines[0] if len(lines) == 1 else rf"\shortstack[r]{{{r' \\ '.join(lines)}}}"


def _latex_text(text: str) -> str:
    printable = "".join(character if character.isprintable() else " " for character in text)
    escaped = "".join(_LATEX_TEXT.get(character, character) for character in " ".join(printable.split()))
    # Two hyphens are an en dash to LaTeX: those of the text are kept apart.
    return re.sub("-(?=-)", "-{}", escaped).replace("\N{EN DASH}", "--")
