"""Tables for a terminal of 80 columns. Text from files is shown as it is, whatever markup it looks like."""

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from bayes_direag.commands.options import plain_table, titled


def shown_table(
    title: str,
    names: Sequence[str],
    numbers: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    caption: str = "",
) -> Group:
    """Return a table under its title: columns of names, which fold, then columns of numbers; a caption below.

    A row is a text or :class:`rich.text.Text` a column; an empty one stands for the cells that it lacks.
    """
    table = plain_table(*names)
    for header in numbers:
        table.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return titled(title, table, caption)


def label_grid(rows: Mapping[str, str | Text], style: str = "") -> Table:
    """Return texts beside their labels."""
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold", style=style)
    table.add_column(overflow="fold")
    for label, text in rows.items():
        table.add_row(Text(label), Text(text) if isinstance(text, str) else text)
    return table
