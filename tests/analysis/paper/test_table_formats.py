"""One layout on a terminal, in Markdown and in LaTeX: nothing lost, nothing mistaken for markup."""

import html
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from analysis.paper.table_formats import Cell, Layout, Row, Section, to_console, to_latex, to_markdown

DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
#: What is said of the table's structure, in LaTeX itself and booktabs; what stands for a character is in ESCAPED.
STRUCTURE = {"begin", "end", "label", "caption", "par", "shortstack", "textbf", "underline"}
STRUCTURE |= {"centering", "small", "scriptsize", "footnotesize", "setlength", "tabcolsep", "linewidth", "smallskip"}
STRUCTURE |= {"toprule", "midrule", "bottomrule", "addlinespace"}
ESCAPED = {"textbackslash": "\\", "textasciicircum": "^", "textasciitilde": "~", "textless": "<", "textgreater": ">"}
ESCAPED |= {"textbar": "|", "uparrow": "↑", "downarrow": "↓"}
NASTY = r"50% of_a & b: {x} $1 #2 ^~ \textbf{no} [y] <b>|*z*| --samples"


def layout(name: str = "plain", rows: tuple[Row, ...] | None = None) -> Layout:
    some = (
        Row("first", (Cell(".9000", 1), Cell(".1000", 2))),
        Row("  95% interval", (Cell(f".880{DASH}.920"), Cell(f".090{DASH}.110")), is_detail=True),
        Row("second", (Cell(DASH), Cell(f"{MINUS}.2000", 1))),
        Row("third", (Cell(".8000", 2), Cell(".3000", 3))),
    )
    section = Section(f"{name} model", f"runs/{name}", some if rows is None else rows, (f"a note on {name}",))
    return Layout(
        "key", f"Table of {name}", ("method", "Accuracy ↑", "ECE ↓\n(10 bins)"), (section,), "How to read it."
    )


def on_console(table: Layout, *, styled: bool = False) -> str:
    file = io.StringIO()
    Console(file=file, width=80, force_terminal=styled, color_system="standard" if styled else None).print(
        to_console(table)
    )
    return file.getvalue()


def plain_latex(text: str) -> str:
    """Undo the escapes of a text, which must hold no other markup."""
    text = re.sub(r"\\([a-z]+)\{\}|\$\\([a-z]+)\$", lambda found: ESCAPED[found[1] or found[2]], text)
    text = text.replace("$-$", MINUS).replace("{[}", "[").replace("{]}", "]").replace("--", DASH).replace("-{}", "-")
    return re.sub(r"\\([{}$&#_%])", r"\1", text)


def check_latex(text: str) -> None:
    """Make sure that LaTeX with booktabs can read it, as far as that shows without LaTeX."""
    text = re.sub(r"(?<!\\)%.*", "", text)
    assert set(re.findall(r"\\([a-zA-Z]+)", text.replace(r"\\", ""))) <= STRUCTURE | set(ESCAPED)
    depth, open_environments = 0, []
    for part in re.findall(r"\\begin\{\w+\}|\\end\{\w+\}|\\.|[{}]", text, flags=re.DOTALL):
        if part.startswith(("\\begin{", "\\end{")):
            name = part.split("{")[1]
            assert depth == 0
            if part.startswith("\\begin"):
                open_environments.append(name)
            else:
                assert open_environments.pop() == name
        elif part in "{}":
            depth += 1 if part == "{" else -1
            assert depth >= 0
    assert (depth, open_environments) == (0, [])
    bare = re.sub(r"\\.", "", text)
    assert not re.search(r"[#^~_]", bare)
    assert all(line.count("$") % 2 == 0 for line in bare.splitlines())
    assert text.replace("\n", "").isprintable()
    for columns, body in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", text, flags=re.DOTALL):
        rows = [line for line in body.splitlines() if "&" in line]
        assert rows
        for row in rows:
            assert len(re.findall(r"(?<!\\)&", row)) == len(columns) - 1
            assert row.endswith(r" \\")


class TestConsole:
    def test_marks(self):
        text = on_console(layout(), styled=True)
        body = text.partition("first")[2]
        assert re.findall(r"\x1b\[1m\s*(\S+?)\s*\x1b", body) == [".9000", f"{MINUS}.2000"]
        assert re.findall(r"\x1b\[4m\s*(\S+?)\s*\x1b", body) == [".1000", ".8000"]
        assert "\x1b[2m" in next(line for line in text.splitlines() if "95% interval" in line)
        assert "Best of each column in bold, second best underlined" in text

    def test_everything_is_there(self):
        lines = [line.split() for line in on_console(layout()).splitlines()]
        for words in (
            ["first", ".9000", ".1000"],
            ["second", DASH, f"{MINUS}.2000"],
            ["plain", "model", "(runs/plain)"],
        ):
            assert words in lines
        assert ["ECE", "↓"] in lines
        assert ["method", "Accuracy", "↑", "(10", "bins)"] in lines
        assert ["a", "note", "on", "plain"] in lines

    def test_the_widest_content_fits_in_80_columns(self):
        span = Cell(f"1.000{DASH}1.000")
        rows = (Row("+ Level Reliability", (span,) * 6), Row("  99.99% interval", (span,) * 6, is_detail=True))
        wide = Layout("k", "t", ("variant", *["Accuracy ↑"] * 6), (Section("s", "r", rows, ()),), "c")
        text = on_console(wide)
        assert max(map(len, text.splitlines())) <= 80
        assert "…" not in text
        assert text.count(f"1.000{DASH}1.000") == 12

    def test_markup_is_shown_as_it_is(self):
        assert "[red]x[/red] :+1: model" in on_console(layout("[red]x[/red] :+1:"))

    def test_without_ranks_there_is_no_word_of_them(self):
        plain = layout(rows=(Row("only", (Cell("1"), Cell("2"))),))
        for text in (on_console(plain), to_markdown(plain), to_latex(plain)):
            assert "bold" not in text
            assert "How to read it." in text


class TestMarkdown:
    def test_it_is_a_table(self):
        lines = to_markdown(layout()).splitlines()
        assert lines[:3] == ["## Table of plain", "", "### plain model (runs/plain)"]
        assert [line for line in lines if line.startswith("|")] == [
            "| method | Accuracy ↑ | ECE ↓<br>(10 bins) |",
            "| --- | ---: | ---: |",
            "| first | **.9000** | *.1000* |",
            f"|   95% interval | .880{DASH}.920 | .090{DASH}.110 |",
            f"| second | {DASH} | **{MINUS}.2000** |",
            "| third | *.8000* | .3000 |",
        ]
        assert "second best in italics" in lines[-1]

    def test_names_are_not_markup(self):
        row = Row(NASTY, (Cell("1"), Cell("2")))
        text = to_markdown(layout("a_b_c *d* `e` <script>", (row,)))
        (line,) = [line for line in text.splitlines() if "50%" in line]
        assert len(re.findall(r"(?<!\\)\|", line)) == 4
        assert not re.search(r"(?<!\\)[*_`<\[]", text.replace("<br>", ""))


class TestLatex:
    def test_it_is_a_table(self):
        text = to_latex(layout())
        check_latex(text)
        body = text.partition("\\midrule\n")[2].partition("\\bottomrule")[0].splitlines()
        assert body == [
            r"first & \textbf{.9000} & \underline{.1000} \\",
            r"{\scriptsize 95\% interval} & {\scriptsize .880--.920} & {\scriptsize .090--.110} \\",
            r"\addlinespace",
            r"second & -- & \textbf{$-$.2000} \\",
            r"\addlinespace",
            r"third & \underline{.8000} & .3000 \\",
        ]
        assert r"\begin{tabular}{lrr}" in text
        assert r"Accuracy $\uparrow$ & \shortstack[r]{ECE $\downarrow$ \\ (10 bins)} \\" in text
        assert r"\caption{Table of plain: plain model}" in text

    def test_each_section_is_a_float_with_a_label_of_its_own(self):
        two = Layout("key", "t", ("a", "b", "c"), layout("x").sections + layout("y").sections, "c")
        text = to_latex(two)
        check_latex(text)
        assert re.findall(r"\\label\{(.*?)\}", text) == ["tab:key-1", "tab:key-2"]
        assert text.count(r"\begin{table}") == 2

    def test_empty_details_stay_empty(self):
        detail = Row("  x", (Cell(""), Cell("1")), is_detail=True)
        text = to_latex(layout(rows=(Row("a", (Cell("1"), Cell("2"))), detail)))
        assert r"{\scriptsize x} &  & {\scriptsize 1} \\" in text

    def test_the_folder_is_a_comment_of_one_line(self):
        odd = Layout("k", "t", ("a", "b", "c"), (Section("s", "run\n\\input{x}", layout().sections[0].rows, ()),), "")
        text = to_latex(odd)
        assert text.startswith("% From run \\input{x}. Needs")
        check_latex(text)

    @given(st.text(max_size=40) | st.just(NASTY))
    def test_any_name_compiles_and_reads_back(self, name):
        row = Row(name, (Cell(name, 1), Cell(name)))
        text = to_latex(layout("x", (row,)))
        # Spaces and what cannot be printed are spaces; everything else must come back.
        expected = " ".join("".join(one if one.isprintable() else " " for one in name).split())
        check_latex(text)
        (line,) = [line for line in text.split("\n") if r"& \textbf{" in line]
        label, _, rest = line.removesuffix(r" \\").partition(r" & \textbf{")
        assert plain_latex(label) == expected
        assert rest == f"{label}}} & {label}"


@pytest.mark.parametrize("dress", [on_console, to_markdown, to_latex])
def test_every_dress_tells_the_same(dress) -> None:
    text = html.unescape(dress(layout()))
    for part in (".9000", ".880", "95", "Table of plain", "runs/plain", "a note on plain", "How to read it."):
        assert part in text
