"""Documents for a terminal of 80 columns; text from files is never read as markup."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import starmap, zip_longest

import rich.table
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.text import Text

from analysis.display.document import Block, Cell, Column, Paragraph, Severity, Statements, Table, Terms, Verdict
from analysis.display.text import broken, name_parts
from bayes_direag.commands.console import visible_text
from bayes_direag.commands.options import plain_table, titled

_STYLES = {"best": "bold", "fine": "green", "warning": "yellow", "failure": "bold red"}
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


#: A part of a name that is longer than this is broken anywhere; the least width of a column of sentences.
_LONGEST_PART, _LEAST_PROSE = 24, 15


@dataclass(frozen=True)
class _ShownTable:
    """A table under its title: names break between their parts, numbers and keys do not, and the best has a star.

    Details of cells stand below them. A table that would be wider than the console has none, and narrow headers; if
    that is not enough, its last columns are left out, and named below it.
    """

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        columns, width = self.table.columns, options.max_width
        n = len(columns)
        narrow = self._least_width(n, narrow=False) > width
        while n > 2 and self._least_width(n, narrow=narrow) > width:
            n -= 1
        n_folding = sum(column.holds in ("name", "prose") for column in columns[:n])
        share = max(width - self._least_width(n, narrow=narrow), 0) // max(n_folding, 1)
        left_out, note = ", ".join(column.header for column in columns[n:]), self.table.note
        if narrow and any(cell.detail for row in self.table.rows for cell in row):
            note += " A wider window shows more below some figures."
        if left_out:
            note += f" Too wide for this window: {left_out}."
        yield titled(self.table.caption, self._rows(n, share, narrow=narrow), note.strip())

    def _least_width(self, n: int, *, narrow: bool) -> int:
        return sum(self._least(place, narrow=narrow) for place in range(n)) + n - 1

    def _least(self, place: int, *, narrow: bool) -> int:
        """Return the least width of a column."""
        column = self.table.columns[place]
        cells = [row[place] for row in self.table.rows]
        texts = [cell.text for cell in cells] + [_header(column, narrow=narrow)]
        texts += [] if narrow else [line for cell in cells for line in cell.detail.splitlines()]
        if column.holds == "prose":
            return _LEAST_PROSE
        if column.holds == "name":
            return min(max(len(part.rstrip()) for text in texts for part in name_parts(text)), _LONGEST_PART)
        has_star = any("best" in cell.marks for cell in cells)
        return max(len(line) for text in texts for line in text.splitlines() or [""]) + has_star

    def _rows(self, n: int, share: int, *, narrow: bool) -> rich.table.Table:
        columns = self.table.columns[:n]
        best = {place for row in self.table.rows for place, cell in enumerate(row) if "best" in cell.marks}
        has_prose = any(column.holds == "prose" for column in columns)
        shown = plain_table()
        for column in columns:
            shown.add_column(
                _header(column, narrow=narrow),
                justify="right" if column.holds == "number" else "left",
                no_wrap=column.holds in ("number", "key"),
                overflow="fold",
                vertical="top" if has_prose else "bottom",
            )

        def printed(place: int, cell: Cell) -> Text:
            text, holds = cell.text, columns[place].holds
            if holds == "name":
                text = "\n".join(broken(text, self._least(place, narrow=narrow) + share))
            elif holds == "number":
                text += "*" if "best" in cell.marks else " " * (place in best)
            return visible_text(text, " ".join(_STYLES[mark] for mark in cell.marks))

        for row in self.table.rows:
            shown.add_row(*starmap(printed, enumerate(row[:n])))
            details = zip_longest(*("" if narrow else cell.detail.splitlines() for cell in row[:n]), fillvalue="")
            for texts in details:
                shown.add_row(*starmap(printed, enumerate(map(Cell, texts))), style="dim")
        return shown


def _header(column: Column, *, narrow: bool) -> str:
    return column.header.replace(" ", "\n") if narrow and column.holds == "number" else column.header
