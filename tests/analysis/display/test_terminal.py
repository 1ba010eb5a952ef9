"""A document on a terminal of 80 columns."""

import io
import re

from rich.console import Console

from analysis.display.document import Cell, Column, Paragraph, Statements, Table, Terms, Verdict
from analysis.display.terminal import shown

COLUMNS = Column("method", holds="name"), Column("log score"), Column("accuracy")
ROWS = (
    (Cell("first"), Cell("0.500", "[0.400, 0.600]", ("best",)), Cell("0.7")),
    (Cell("a" * 90), Cell("0.600", "[0.500, 0.700]"), Cell("0.6", marks=("failure",))),
)


def printed(*blocks, width: int = 80, styled: bool = False) -> str:
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=styled, color_system="standard" if styled else None).print(
        shown(blocks)
    )
    return file.getvalue()


def test_terminal_stars_the_best_number_of_a_column():
    table = Table("scores", COLUMNS, ROWS[:1], "a note")
    lines = printed(table).splitlines()
    assert (lines[0], lines[-2]) == ("scores", "a note")
    assert "0.500*" in lines[3]
    assert re.search(r"\x1b\[1m *0\.500\*\x1b\[0m", printed(table, styled=True))
    named = Table("names", COLUMNS, ((Cell("first", marks=("best",)), Cell("1"), Cell("2")),))
    assert "*" not in printed(named)


def test_terminal_puts_details_below_their_cells_and_breaks_names_at_hyphens():
    long = Cell("provider-model-instruct-turbo-2024"), Cell("1"), Cell("2")
    text = printed(Table("scores", COLUMNS, (ROWS[0], long)))
    assert re.search(r"first +0\.500\* +0\.7\n +\[0\.400, 0\.600\]", text)
    assert re.search(r"\nprovider-model-instruct- +1 +2\nturbo-2024", text)
    assert re.search(r"\[0\.400, *\n +0\.600\]", printed(Table("scores", COLUMNS, ROWS[:1]), width=24))


def test_terminal_prints_nothing_wider_than_it_and_cuts_nothing_off():
    text = "What is said " * 20
    everything = (
        *(Statements((text,)), Paragraph(text, "title"), Terms("terms", (("name", text),))),
        *(Verdict((("warning", text),)), Table(text, COLUMNS, ROWS, text)),
    )
    lines = printed(*everything)
    assert max(map(len, lines.splitlines())) <= 80
    assert "…" not in lines
    assert lines.count("a") >= 90
    assert "care" in lines
