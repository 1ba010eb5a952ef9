"""Documents for a terminal of 80 columns; text from files is never read as markup."""

from collections.abc import Iterable, Mapping

import rich.table
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from analysis.display.document import Block, Paragraph, Statements, Status, Table, Terms, Verdict
from bayes_direag.commands.options import plain_table, titled

_STYLES = {
    "best": "bold",
    "second": "underline",
    "fine": "green",
    "warning": "yellow",
    "failure": "bold red",
}
_STATUS: Mapping[Status, str] = {"fine": "ok", "warning": "care", "failure": "FAILS"}


def shown(blocks: Iterable[Block]) -> Group:
    """Return blocks as they are printed, one after the other; pictures are left out."""
    return Group(*(_shown(block) for block in blocks))


def _shown(block: Block) -> RenderableType:
    match block:
        case Statements(sentences):
            return Text("\n\n".join(sentences) + "\n")
        case Paragraph(text, role):
            style = "dim italic" if role == "note" else "bold" if role == "failure" else ""
            return Text(f"{text}\n", style=style)
        case Terms(title, items):
            grid = label_grid(dict(items))
            return titled(title, grid) if title else Group(grid, "")
        case Table():
            return _shown_table(block)
        case Verdict(items):
            grid = rich.table.Table.grid(padding=(0, 2, 0, 0))
            grid.add_column(no_wrap=True)
            for status, text in items:
                grid.add_row(Text(_STATUS[status], style=_STYLES[status]), Text(text))
            return Group(Text("Verdict", style="italic"), Padding(grid, (1, 0)))
        case _:
            return Text()


def _shown_table(table: Table) -> Group:
    """Return a table under its title: names fold, numbers do not; details of cells stand below them."""
    shown = plain_table()
    for column in table.columns:
        if column.holds == "number":
            shown.add_column(column.header, justify="right", no_wrap=True, vertical="bottom")
        else:
            shown.add_column(column.header, overflow="fold", vertical="bottom")
    for line in table.lines():
        cells = (Text(cell.text, style=" ".join(_STYLES[mark] for mark in cell.marks)) for cell in line.cells)
        shown.add_row(*cells, style="dim" if line.is_detail else "")
    return titled(table.caption, shown, table.note)


def label_grid(rows: Mapping[str, str | Text], style: str = "") -> rich.table.Table:
    """Return texts beside their labels."""
    grid = rich.table.Table.grid(padding=(0, 2))
    grid.add_column(overflow="fold", style=style)
    grid.add_column(overflow="fold")
    for label, text in rows.items():
        grid.add_row(Text(label), Text(text) if isinstance(text, str) else text)
    return grid
