"""Documents for a terminal of 80 columns; text from files is never read as markup."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import rich.table
from rich.console import Console, ConsoleOptions, Group, RenderableType

from analysis.display.document import Block, Paragraph, Severity, Statements, Table, Terms, Verdict
from bayes_direag.commands.console import visible_text
from bayes_direag.commands.options import plain_table, titled

_STYLES = {
    "best": "bold",
    "fine": "green",
    "warning": "yellow",
    "failure": "bold red",
}
_SEVERITY: Mapping[Severity, str] = {"fine": "ok", "warning": "care", "failure": "FAILS"}


def shown(blocks: Iterable[Block]) -> Group:
    """Return blocks as they are printed, one after the other; pictures are left out."""
    return Group(*(_shown(block) for block in blocks))


def _shown(block: Block) -> RenderableType:
    match block:
        case Statements(sentences):
            return visible_text("\n\n".join(sentences) + "\n")
        case Paragraph(text, role):
            return visible_text(
                f"{text}\n",
                {"note": "dim italic", "title": "bold", "fine": "bold", "failure": "bold"}.get(role, ""),
            )
        case Terms(title, items):
            grid = rich.table.Table.grid(padding=(0, 2))
            for _ in range(2):
                grid.add_column(overflow="fold")
            for name, meaning in items:
                grid.add_row(visible_text(name), visible_text(meaning))
            return titled(title, grid) if title else Group(grid, "")
        case Table():
            return _ShownTable(block)
        case Verdict(items):
            grid = rich.table.Table.grid(padding=(0, 2, 0, 0))
            grid.add_column(no_wrap=True)
            for status, text in items:
                grid.add_row(visible_text(_SEVERITY[status], _STYLES[status]), visible_text(text))
            return Group(grid, "")
        case _:
            return visible_text("")


@dataclass(frozen=True)
class _ShownTable:
    """A table under its title: names fold, numbers and keys do not, and the best number of a column has a star.

    Details of cells stand below them. A table that would be wider than the console has none, and narrow headers.
    """

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        whole = self._rows(narrow=False)
        rows = whole if self._least_width(whole) <= options.max_width else self._rows(narrow=True)
        yield titled(self.table.caption, rows, self.table.note)

    def _least_width(self, rows: rich.table.Table) -> int:
        """Return the width at which names are folded as far as can be."""
        texts = [[str(column.header), *map(str, column.cells)] for column in rows.columns]
        longest = [max(len(line) for text in column for line in text.splitlines() or [""]) for column in texts]
        return sum(width if rows.columns[place].no_wrap else 1 for place, width in enumerate(longest)) + len(texts) - 1

    def _rows(self, *, narrow: bool) -> rich.table.Table:
        numbers = [column.holds == "number" for column in self.table.columns]
        best = {place for row in self.table.rows for place, cell in enumerate(row) if "best" in cell.marks}
        has_prose = any(column.holds == "prose" for column in self.table.columns)
        shown = plain_table()
        for column in self.table.columns:
            header = column.header.replace(" ", "\n") if narrow and column.holds == "number" else column.header
            shown.add_column(
                header,
                justify="right" if column.holds == "number" else "left",
                no_wrap=column.holds in ("number", "key"),
                overflow="fold",
                vertical="top" if has_prose else "bottom",
            )
        for line in self.table.lines():
            if line.is_detail and narrow:
                continue
            cells = []
            for place, cell in enumerate(line.cells):
                star = "*" if "best" in cell.marks else " " * (place in best)
                text = f"{cell.text}{star}" if numbers[place] else cell.text
                cells.append(visible_text(text, " ".join(_STYLES[mark] for mark in cell.marks)))
            shown.add_row(*cells, style="dim" if line.is_detail else "")
        return shown
