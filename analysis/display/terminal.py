"""Documents for a terminal of 80 columns; text from files is never read as markup."""

import textwrap
from collections.abc import Iterable, Mapping

import rich.table
from rich.console import Group, RenderableType
from rich.text import Text

from analysis.display.document import Block, Cell, Column, Paragraph, Severity, Statements, Table, Terms, Verdict
from bayes_direag.commands.console import visible, visible_text
from bayes_direag.commands.options import plain_table, titled

_STYLES = {"best": "bold", "fine": "green", "warning": "yellow", "failure": "bold red"}
_SEVERITY: Mapping[Severity, str] = {"fine": "ok", "warning": "care", "failure": "FAILS"}
#: Longer names are broken, at hyphens where they have some.
_NAME_WIDTH = 24


def shown(blocks: Iterable[Block]) -> Group:
    """Return blocks as they are printed, one after the other; pictures are left out."""
    return Group(*map(_shown, blocks))


def _shown(block: Block) -> RenderableType:
    match block:
        case Statements(sentences):
            return visible_text("\n\n".join(sentences) + "\n")
        case Paragraph(text, role):
            style = {"note": "dim italic", "title": "bold", "fine": "bold", "failure": "bold"}.get(role, "")
            return visible_text(f"{text}\n", style)
        case Terms(title, items):
            grid = _grid((visible_text(name), visible_text(meaning)) for name, meaning in items)
            return titled(title, grid) if title else Group(grid, "")
        case Verdict(items):
            marks = ((visible_text(_SEVERITY[status], _STYLES[status]), visible_text(text)) for status, text in items)
            return Group(_grid(marks), "")
        case Table(caption, columns, rows, note):
            return titled(caption, _table(columns, rows), note)
        case _:
            return visible_text("")


def _grid(rows: Iterable[tuple[Text, Text]]) -> rich.table.Table:
    grid = rich.table.Table.grid(padding=(0, 2))
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid


def _table(columns: tuple[Column, ...], rows: tuple[tuple[Cell, ...], ...]) -> rich.table.Table:
    table = plain_table()
    for column in columns:
        table.add_column(
            column.header,
            justify="right" if column.holds == "number" else "left",
            no_wrap=column.holds == "key",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(_text(cell, column) for cell, column in zip(row, columns, strict=True)))
    return table


def _text(cell: Cell, column: Column) -> Text:
    """Return a cell with its detail below it; the best number has a star, under which others have a blank."""
    text = visible(cell.text)
    if column.holds == "name":
        lines = textwrap.wrap(text, _NAME_WIDTH, break_long_words=False)
        text = "\n".join(part for line in lines for part in textwrap.wrap(line, _NAME_WIDTH))
    if column.holds == "number" and "best" in cell.marks:
        text += "*"
    shown = Text(text, " ".join(_STYLES[mark] for mark in cell.marks))
    return shown.append(f"\n{visible(cell.detail)}", "dim") if cell.detail else shown
