"""What the paper's tables say in words and figures."""

import numpy as np
import pandas as pd
import pytest

from analysis.display.document import Cell, Paragraph, Section, Table
from analysis.evaluation import Evaluation
from analysis.paper.paper_layouts import (
    differences_section,
    paper_section,
    what_differs,
)
from analysis.paper.paper_tables import (
    METHODS_TABLE,
    PRINTED_TABLES,
    VARIANTS_TABLE,
    PrintedTable,
    paper_differences,
    paper_table,
)
from tests.analysis.made_runs import random_said, write_run

DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Evaluation]:
    """One with a cell in the paper, one without."""
    folder, rng = tmp_path_factory.mktemp("runs"), np.random.default_rng(0)
    said = {name: random_said(rng, 40, sharpness=1) for name in ("vanilla", "majority", "confidence", "direag")}
    said["vanilla"] = [(None, False)] * 3 + said["vanilla"][3:-1] + [(0.5, None)]
    all_right = {"direag": [(1.0, True)] * 40, "mean_confidence": [(0.5, True)] * 40}
    stranger = write_run(folder / "b", all_right, dataset=None, model="[b]llama[/b]", n_fitted=9)
    return [Evaluation.read(path) for path in (write_run(folder / "a", said), stranger)]


def section_of(runs: list[Evaluation], table: PrintedTable, level: float = 0.95) -> Section:
    return paper_section(table, paper_table(table, runs, level=level, seed=0), runs, level)


def tables_of(section: Section) -> list[Table]:
    return [block for block in section.blocks if isinstance(block, Table)]


def caption_of(section: Section) -> str:
    (text,) = [block.text for block in section.blocks if isinstance(block, Paragraph)]
    return text


def rows_of(table: Table) -> dict[str, tuple[Cell, ...]]:
    """Return the figures of each row by its name."""
    return {row[0].text: row[1:] for row in table.rows}


def texts(cells: tuple[Cell, ...]) -> list[str]:
    return [cell.text for cell in cells]


def as_float(text: str) -> float:
    return float(text.replace(MINUS, "-"))


class TestPaperSection:
    def test_headers_carry_the_bins_and_the_directions_and_the_caption_the_marks(self, runs):
        found = section_of(runs, METHODS_TABLE)
        assert caption_of(found).startswith("Best of each column in bold, second best underlined")
        headers = [column.header for column in tables_of(found)[0].columns]
        assert headers == ["method", "Acc ↑", "ECE ↓\n(10 bins)", "Brier ↓", "AUROC ↑", "PR-P ↑", "PR-N ↑"]
        assert tables_of(section_of(runs, VARIANTS_TABLE))[0].columns[0].header == "variant"

    def test_each_method_has_its_lines(self, runs):
        with_cell, without = tables_of(section_of(runs, METHODS_TABLE))
        whole, absent = "  95% interval\n  printed\n  difference", "  printed"
        expected = dict.fromkeys(METHODS_TABLE.rows, absent) | {"Vanilla": whole, "DirEAG": whole}
        assert {row[0].text: row[0].detail for row in with_cell.rows} == expected
        assert [row[0].detail for row in without.rows if row[0].detail] == ["  95% interval"] * 2

    @pytest.mark.parametrize("table", PRINTED_TABLES, ids=lambda table: table.subject)
    def test_the_three_lines_agree_as_shown(self, runs, table):
        for name, *cells in tables_of(section_of(runs, table))[0].rows:
            if "difference" in name.detail:
                for cell in cells:
                    _, printed, difference = cell.detail.splitlines()
                    assert as_float(cell.text) - as_float(printed) == pytest.approx(as_float(difference), abs=1e-9)

    def test_values_are_those_of_the_run(self, runs):
        own = runs[0].metrics.set_index("method").loc["direag"]
        cells = rows_of(tables_of(section_of(runs, METHODS_TABLE))[0])["DirEAG"]
        assert as_float(cells[2].text) == round(own["brier"], 4)
        low, high = cells[2].detail.splitlines()[0].split(DASH)
        assert (as_float(low), as_float(high)) == (round(own["brier_low"], 3), round(own["brier_high"], 3))
        # Qwen2.5-7B, SVAMP, DirEAG as printed.
        printed = [cell.detail.splitlines()[1] for cell in cells]
        assert printed == ["0.8510", "0.0176", "0.0925", "0.8125", "0.9383", "0.5375"]

    def test_undefined_and_missing_are_dashes(self, runs):
        rows = rows_of(tables_of(section_of(runs, METHODS_TABLE))[1])
        assert texts(rows["Top-K"]) == [DASH] * 6
        assert texts(rows["DirEAG"]) == ["1.0000", "0.0000", "0.0000", DASH, DASH, DASH]
        assert [cell.marks for cell in rows["DirEAG"]] == [("best",)] * 3 + [()] * 3
        assert [cell.detail for cell in rows["DirEAG"]][3:] == [DASH] * 3

    def test_notes_say_how_the_figures_came_about(self, runs):
        tables = tables_of(section_of(runs, METHODS_TABLE))
        names = "Qwen2.5-7B, SVAMP", "[b]llama[/b], unnamed dataset"
        assert [table.caption for table in tables] == [
            f"{name} ({run.folder})" for name, run in zip(names, runs, strict=True)
        ]
        assert [table.source for table in tables] == [str(run.folder) for run in runs]
        first, second = (table.note for table in tables)
        said = [
            "40 questions, 5-fold cross-fit, MAP, preset paper",
            "1000 questions, 5-fold cross-fit",
            "DirEAG 0.4244",
        ]
        said += [
            "Self-cons. and Ans. entropy: not in this run; needs direag evaluate --samples.",
            "--methods",
            "--topk",
        ]
        assert all(words in first for words in (*said, "Vanilla 3."))
        assert len(first.splitlines()) == 7
        assert all(words in second for words in ("fitted to 9 others", "no such cell", "evaluate --vanilla-level"))


class TestDifferences:
    @pytest.fixture
    def found(self, runs: list[Evaluation]) -> tuple[pd.DataFrame, Section]:
        differences = paper_differences(runs, level=0.9, seed=0, n_resamples=99)
        return differences, differences_section(differences, runs, 0.9, 99)

    def test_rows(self, found):
        differences, section = found
        table = tables_of(section)[0]
        assert [(row[0].text, row[0].detail) for row in table.rows] == [
            ("Vanilla", "  90% interval"),
            ("+ Conf. evidence", "  90% interval"),
        ]
        headers = [column.header for column in table.columns]
        assert headers == ["method", "n", "benefit", "adjusted\np", "Brier score", "adjusted\np"]
        rows = differences[differences["other"] == "Vanilla"].set_index("metric")
        cells = rows_of(table)["Vanilla"]
        assert int(cells[0].text) == 39
        assert as_float(cells[1].text) == round(rows.loc["benefit", "difference"], 4)
        assert as_float(cells[2].text) == round(rows.loc["benefit", "p_adjusted"], 3)
        assert as_float(cells[3].text) == round(rows.loc["brier", "difference"], 4)
        low, high = cells[3].detail.split(" to ")
        assert as_float(low) == round(rows.loc["brier", "low"], 4)
        assert as_float(high) == round(rows.loc["brier", "high"], 4)

    def test_the_caption_says_how(self, found):
        section = found[1]
        assert "99 permutations, so never below 0.0100), adjusted for all 6 comparisons" in caption_of(section)
        assert any("false-discovery rate of 10%" in table.note for table in tables_of(section))

    def test_a_run_without_direag_says_so(self, tmp_path):
        run = Evaluation.read(write_run(tmp_path / "run", {"vanilla": [(0.5, True)]}))
        found = differences_section(paper_differences([run], level=0.95, seed=0), [run], 0.95)
        assert "bold" not in caption_of(found) + caption_of(section_of([run], VARIANTS_TABLE))
        (table,) = tables_of(found)
        assert table.rows == ()
        assert table.note == "Nothing to compare: this run lacks DirEAG, or has nothing beside it."


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
            columns=["other", "metric", "n", "difference", "p_adjusted"],
        )
        assert what_differs(rows, 0.05).splitlines() == [
            "At a false-discovery rate of 5%, DirEAG has a lower benefit than A and B and a higher benefit than C.",
            "0 to 80 questions do not tell it from D in benefit and from E and F in Brier score; that does not make "
            "them equal.",
        ]
        assert what_differs(rows[:1], 0.05).startswith("At a false-discovery rate of 5%, DirEAG has a lower")
        assert "do not tell" not in what_differs(rows[:1], 0.05)
        assert "At a" not in what_differs(rows[4:5], 0.05)
