"""Tables as Markdown and as LaTeX: what stands in them, and that no name is markup."""

import re

from hypothesis import given
from hypothesis import strategies as st

from analysis.display.document import Cell, Column, Paragraph, Section, Table
from analysis.display.typeset import to_latex, to_markdown

DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
#: What is said of the table's structure, in LaTeX itself and booktabs; what stands for a character is in ESCAPED.
STRUCTURE = {"begin", "end", "label", "caption", "par", "shortstack", "textbf", "underline"}
STRUCTURE |= {"centering", "small", "scriptsize", "footnotesize", "setlength", "tabcolsep", "linewidth", "smallskip"}
STRUCTURE |= {"toprule", "midrule", "bottomrule", "addlinespace"}
ESCAPED = {"textbackslash": "\\", "textasciicircum": "^", "textasciitilde": "~", "textless": "<", "textgreater": ">"}
ESCAPED |= {"textbar": "|", "uparrow": "↑", "downarrow": "↓"}
NASTY = r"50% of_a & b: {x} $1 #2 ^~ \textbf{no} [y] <b>|*z*| --samples"
COLUMNS = Column("method", holds="name"), Column("Accuracy ↑"), Column("ECE ↓\n(10 bins)")
ROWS = (
    (
        Cell("first", "  95% interval"),
        Cell(".9000", f".880{DASH}.920", ("best",)),
        Cell(".1000", f".090{DASH}.110", ("second",)),
    ),
    (Cell("second"), Cell(DASH), Cell(f"{MINUS}.2000", marks=("best",))),
    (Cell("third"), Cell(".8000", marks=("second",)), Cell(".3000")),
)


def section(*tables: Table) -> Section:
    return Section("key", "Table of plain", (*tables, Paragraph("How to read it.", "note")))


def table(caption: str = "plain model", rows: tuple[tuple[Cell, ...], ...] = ROWS, source: str = "runs/plain") -> Table:
    return Table(caption, COLUMNS, rows, "a note", source)


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


class TestMarkdown:
    def test_it_is_a_table(self):
        lines = to_markdown(section(table())).splitlines()
        assert lines[:3] == ["## Table of plain", "", "### plain model"]
        assert [line for line in lines if line.startswith("|")] == [
            "| method | Accuracy ↑ | ECE ↓<br>(10 bins) |",
            "| --- | ---: | ---: |",
            "| first | **.9000** | <ins>.1000</ins> |",
            f"|   95% interval | .880{DASH}.920 | .090{DASH}.110 |",
            f"| second | {DASH} | **{MINUS}.2000** |",
            "| third | <ins>.8000</ins> | .3000 |",
        ]
        assert lines[-3:] == ["a note", "", "How to read it."]

    def test_names_are_not_markup(self):
        text = to_markdown(section(table("a_b_c *d* `e` <script>", ((Cell(NASTY), Cell("1"), Cell("2")),))))
        (line,) = [line for line in text.splitlines() if "50%" in line]
        assert len(re.findall(r"(?<!\\)\|", line)) == 4
        assert not re.search(r"(?<!\\)[*_`<\[]", text.replace("<br>", ""))


class TestLatex:
    def test_it_is_a_table(self):
        text = to_latex(section(table()))
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

    def test_each_table_is_a_float_with_a_label_of_its_own(self):
        text = to_latex(section(table("x"), table("y")))
        check_latex(text)
        assert re.findall(r"\\label\{(.*?)\}", text) == ["tab:key-1", "tab:key-2"]
        assert text.count(r"\begin{table}") == 2

    def test_empty_details_stay_empty(self):
        text = to_latex(section(table(rows=((Cell("a", "  x"), Cell("1"), Cell("2", "1")),))))
        assert r"{\scriptsize x} &  & {\scriptsize 1} \\" in text

    def test_the_folder_is_a_comment_of_one_line(self):
        text = to_latex(section(table(source="run\n\\input{x}")))
        assert text.startswith("% From run \\input{x}. Needs")
        check_latex(text)

    @given(st.text(max_size=40) | st.just(NASTY))
    def test_any_name_compiles_and_reads_back(self, name):
        text = to_latex(section(table(rows=((Cell(name), Cell(name, marks=("best",)), Cell(name)),))))
        # Spaces and what cannot be printed are spaces; everything else must come back.
        expected = " ".join("".join(one if one.isprintable() else " " for one in name).split())
        check_latex(text)
        (line,) = [line for line in text.split("\n") if r"& \textbf{" in line]
        label, _, rest = line.removesuffix(r" \\").partition(r" & \textbf{")
        assert plain_latex(label) == expected
        assert rest == f"{label}}} & {label}"
