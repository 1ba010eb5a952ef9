"""What the paper's tables say in words and figures."""

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from analysis.paper.paper_layouts import (
    Cell,
    Layout,
    Row,
    Section,
    differences_layout,
    paper_layout,
    to_console,
    to_latex,
    to_markdown,
    what_differs,
)
from analysis.paper.paper_tables import (
    METHODS_TABLE,
    PRINTED_TABLES,
    VARIANTS_TABLE,
    PrintedTable,
    method_differences,
    paper_table,
)
from analysis.runs.evaluated_run import EvaluatedRun, read_evaluated_run
from tests.analysis.made_runs import random_said, write_run

DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[EvaluatedRun]:
    """One with a cell in the paper, one without."""
    folder, rng = tmp_path_factory.mktemp("runs"), np.random.default_rng(0)
    said = {name: random_said(rng, 40, sharpness=1) for name in ("vanilla", "majority", "confidence", "direag")}
    said["vanilla"] = [(None, False)] * 3 + said["vanilla"][3:-1] + [(0.5, None)]
    all_right = {"direag": [(1.0, True)] * 40, "mean_confidence": [(0.5, True)] * 40}
    stranger = write_run(folder / "b", all_right, dataset=None, model="[b]llama[/b]", n_fitted=9)
    return [read_evaluated_run(path) for path in (write_run(folder / "a", said), stranger)]


def laid_out(runs: list[EvaluatedRun], table: PrintedTable, level: float = 0.95) -> Layout:
    return paper_layout(table, paper_table(table, runs, level=level, seed=0), runs, level)


def texts(row: Row) -> list[str]:
    return [cell.text for cell in row.cells]


def as_float(text: str) -> float:
    return float(text.replace(MINUS, "-"))


class TestPaperLayout:
    def test_headers_carry_the_bins_and_the_directions_and_the_caption_the_marks(self, runs):
        found = laid_out(runs, METHODS_TABLE)
        assert found.caption.startswith("Best of each column in bold, second best underlined")
        assert found.headers == ("method", "Accuracy ↑", "ECE ↓\n(10 bins)", "Brier ↓", "AUROC ↑", "PR-P ↑", "PR-N ↑")
        assert laid_out(runs, VARIANTS_TABLE).headers[0] == "variant"

    def test_each_method_has_its_lines(self, runs):
        with_cell, without = laid_out(runs, METHODS_TABLE).sections
        labels = [row.label for row in with_cell.rows]
        whole, absent = ["  95% interval", "  printed", "  difference"], ["  printed"]
        expected = dict.fromkeys(METHODS_TABLE.rows, absent) | {"Vanilla": whole, "DirEAG": whole}
        assert labels == [line for name, details in expected.items() for line in (name, *details)]
        assert [row.label for row in without.rows if row.is_detail] == ["  95% interval"] * 2

    @pytest.mark.parametrize("table", PRINTED_TABLES, ids=lambda table: table.subject)
    def test_the_three_lines_agree_as_shown(self, runs, table):
        rows = laid_out(runs, table).sections[0].rows
        for position, row in enumerate(rows):
            if row.label == "  difference":
                ours, _, printed, gap = (texts(one) for one in rows[position - 3 : position + 1])
                for a, b, difference in zip(ours, printed, gap, strict=True):
                    assert as_float(a) - as_float(b) == pytest.approx(as_float(difference), abs=1e-9)

    def test_values_are_those_of_the_run(self, runs):
        own = runs[0].metrics.set_index("method").loc["direag"]
        rows = laid_out(runs, METHODS_TABLE).sections[0].rows
        value, span, printed, _ = rows[-4:]
        assert value.label == "DirEAG"
        assert as_float(value.cells[2].text) == round(own["brier"], 4)
        low, high = span.cells[2].text.split(DASH)
        assert (as_float(low), as_float(high)) == (round(own["brier_low"], 3), round(own["brier_high"], 3))
        # Qwen2.5-7B, SVAMP, DirEAG as printed.
        assert texts(printed) == [".8510", ".0176", ".0925", ".8125", ".9383", ".5375"]
        assert {cell.marks for row in rows if row.is_detail for cell in row.cells} == {()}

    def test_undefined_and_missing_are_dashes(self, runs):
        rows = {row.label: row for row in laid_out(runs, METHODS_TABLE).sections[1].rows}
        assert texts(rows["Top-K"]) == [DASH] * 6
        assert texts(rows["DirEAG"]) == ["1.0000", ".0000", ".0000", DASH, DASH, DASH]
        assert [cell.marks for cell in rows["DirEAG"].cells] == [BEST] * 3 + [()] * 3
        assert texts(rows["  95% interval"])[3:] == [DASH] * 3

    def test_notes_say_how_the_figures_came_about(self, runs):
        sections = laid_out(runs, METHODS_TABLE).sections
        assert [section.title for section in sections] == ["Qwen2.5-7B, SVAMP", "[b]llama[/b], unnamed dataset"]
        assert [section.source for section in sections] == [str(run.folder) for run in runs]
        first, second = (list(section.notes) for section in sections)
        assert first == [
            "Ours: 40 questions, 5-fold cross-fit, MAP, preset paper.",
            "Printed: 1000 questions, 5-fold cross-fit, MAP; without intervals.",
            "Benefit (accuracy minus Brier score, 0 without an answer), which the paper does not have: DirEAG .4244 "
            "and Vanilla .2729.",
            "Self-cons. and Ans. entropy: not in this run; needs direag evaluate --samples.",
            "Mean conf. and SteerConf: not in this run; needs direag evaluate --methods.",
            "Top-K: not in this run; needs direag evaluate --topk.",
            "Questions without an answer, which benefit alone counts: Vanilla 3.",
        ]
        assert second[:2] == [
            "Ours: 40 questions, fitted to 9 others, MAP, preset paper.",
            "The paper has no such cell, so no printed figures stand here.",
        ]
        assert "Vanilla: not in this run; needs direag evaluate --vanilla-level." in second


class TestDifferencesLayout:
    @pytest.fixture
    def found(self, runs: list[EvaluatedRun]) -> tuple[pd.DataFrame, Layout]:
        differences = method_differences(runs, level=0.9, seed=0, n_resamples=99)
        return differences, differences_layout(differences, runs, 0.9, 99)

    def test_rows(self, found):
        differences, layout = found
        section = layout.sections[0]
        assert [row.label for row in section.rows] == [
            "Vanilla",
            "  90% interval",
            "+ Conf. evidence",
            "  90% interval",
        ]
        assert layout.headers == ("method", "n", "benefit", "adjusted\np", "Brier score", "adjusted\np")
        rows = differences[differences["name"] == "vanilla"].set_index("metric")
        shown = texts(section.rows[0])
        assert int(shown[0]) == 39
        assert as_float(shown[1]) == round(rows.loc["benefit", "difference"], 4)
        assert as_float(shown[2]) == round(rows.loc["benefit", "p_adjusted"], 3)
        assert as_float(shown[3]) == round(rows.loc["brier", "difference"], 4)
        low, high = section.rows[1].cells[3].text.split(" to ")
        assert as_float(low) == round(rows.loc["brier", "low"], 4)
        assert as_float(high) == round(rows.loc["brier", "high"], 4)

    def test_the_caption_says_how(self, found):
        assert "99 permutations, so never below .0100), adjusted for all 6 comparisons" in found[1].caption
        assert any("false-discovery rate of 10%" in note for section in found[1].sections for note in section.notes)

    def test_a_run_without_direag_says_so(self, tmp_path):
        run = read_evaluated_run(write_run(tmp_path / "run", {"vanilla": [(0.5, True)]}))
        found = differences_layout(method_differences([run], level=0.95, seed=0), [run], 0.95)
        assert "bold" not in found.caption + laid_out([run], VARIANTS_TABLE).caption
        assert found.sections[0].rows == ()
        assert found.sections[0].notes == ("Nothing to compare: this run lacks DirEAG, or has nothing beside it.",)


class TestWhatDiffers:
    def test_each_case(self):
        rows = pd.DataFrame(
            [
                ("A", "benefit", 100, -0.1, 0.01),
                ("B", "benefit", 100, -0.1, 0.05),
                ("C", "benefit", 90, 0.1, 0.04),
                ("D", "benefit", 80, -0.1, 0.06),
                ("E", "brier", 70, 0.0, 1.0),
                ("F", "brier", 0, np.nan, np.nan),
            ],
            columns=["method", "metric", "n", "difference", "p_adjusted"],
        )
        assert what_differs(rows, 0.05).splitlines() == [
            "At a false-discovery rate of 5%, DirEAG has a lower benefit than A and B and a higher benefit than C.",
            "0 to 80 questions do not tell it from D in benefit and from E and F in Brier score; that does not make "
            "them equal.",
        ]
        assert what_differs(rows[:1], 0.05).startswith("At a false-discovery rate of 5%, DirEAG has a lower")
        assert "do not tell" not in what_differs(rows[:1], 0.05)
        assert "At a" not in what_differs(rows[4:5], 0.05)


def test_everything_fits_in_80_columns(runs: list[EvaluatedRun], tmp_path: Path) -> None:
    """With all figures at their widest: four-digit counts, a perfect and a hopeless method."""
    n = 1234
    extreme = {"count_calibrated": [(1.0, True)] * n, "level_calibrated": [(1.0, False)] * n}
    extreme["direag"] = [(1.0, k % 2 == 0) for k in range(n)]
    wide = [*runs, read_evaluated_run(write_run(tmp_path / "wide", extreme))]
    file = io.StringIO()
    console = Console(file=file, width=80, markup=False, emoji=False, highlight=False)
    for table in PRINTED_TABLES:
        console.print(to_console(laid_out(wide, table)))
    differences = method_differences(wide, level=0.95, seed=0, n_resamples=50)
    console.print(to_console(differences_layout(differences, wide, 0.95, 50)))
    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert re.search(rf"{MINUS}1\.0000", text)
    assert f"1.000{DASH}1.000" in text


DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
#: What is said of the table's structure, in LaTeX itself and booktabs; what stands for a character is in ESCAPED.
STRUCTURE = {"begin", "end", "label", "caption", "par", "shortstack", "textbf", "underline"}
STRUCTURE |= {"centering", "small", "scriptsize", "footnotesize", "setlength", "tabcolsep", "linewidth", "smallskip"}
STRUCTURE |= {"toprule", "midrule", "bottomrule", "addlinespace"}
ESCAPED = {"textbackslash": "\\", "textasciicircum": "^", "textasciitilde": "~", "textless": "<", "textgreater": ">"}
ESCAPED |= {"textbar": "|", "uparrow": "↑", "downarrow": "↓"}
BEST, SECOND = ("bold",), ("underline",)
NASTY = r"50% of_a & b: {x} $1 #2 ^~ \textbf{no} [y] <b>|*z*| --samples"


def layout(name: str = "plain", rows: tuple[Row, ...] | None = None) -> Layout:
    some = (
        Row("first", (Cell(".9000", BEST), Cell(".1000", SECOND))),
        Row("  95% interval", (Cell(f".880{DASH}.920"), Cell(f".090{DASH}.110")), is_detail=True),
        Row("second", (Cell(DASH), Cell(f"{MINUS}.2000", BEST))),
        Row("third", (Cell(".8000", SECOND), Cell(".3000"))),
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

    def test_markup_is_shown_as_it_is(self):
        assert "[red]x[/red] :+1: model" in on_console(layout("[red]x[/red] :+1:"))


class TestMarkdown:
    def test_it_is_a_table(self):
        lines = to_markdown(layout()).splitlines()
        assert lines[:3] == ["## Table of plain", "", "### plain model (runs/plain)"]
        assert [line for line in lines if line.startswith("|")] == [
            "| method | Accuracy ↑ | ECE ↓<br>(10 bins) |",
            "| --- | ---: | ---: |",
            "| first | **.9000** | <ins>.1000</ins> |",
            f"|   95% interval | .880{DASH}.920 | .090{DASH}.110 |",
            f"| second | {DASH} | **{MINUS}.2000** |",
            "| third | <ins>.8000</ins> | .3000 |",
        ]
        assert lines[-1] == "How to read it."

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
        row = Row(name, (Cell(name, BEST), Cell(name)))
        text = to_latex(layout("x", (row,)))
        # Spaces and what cannot be printed are spaces; everything else must come back.
        expected = " ".join("".join(one if one.isprintable() else " " for one in name).split())
        check_latex(text)
        (line,) = [line for line in text.split("\n") if r"& \textbf{" in line]
        label, _, rest = line.removesuffix(r" \\").partition(r" & \textbf{")
        assert plain_latex(label) == expected
        assert rest == f"{label}}} & {label}"
