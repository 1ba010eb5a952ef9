"""``direag tables``: what it prints in each format, what it writes, what it refuses."""

import io
import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayes_direag.errors import DirEAGError
from tests import command_line
from tests.analysis.display.test_typeset import check_latex
from tests.analysis.made_runs import random_said, write_run
from tests.command_line import direag

FILES = {
    *(f"table{number}.{suffix}" for number in (1, 2) for suffix in ("csv", "json", "md", "tex")),
    *(f"figure{number}.{suffix}" for number in (2, 3) for suffix in ("png", "csv")),
    "claims.csv",
    "differences.csv",
}

succeed, refuse = partial(command_line.succeed, "tables"), partial(command_line.refuse, "tables")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder, rng = tmp_path_factory.mktemp("runs"), np.random.default_rng(0)
    said = {name: random_said(rng, 30, sharpness=1) for name in ("mean_confidence", "confidence", "direag")}
    return (
        write_run(folder / "a_b", said, dataset="sums", model="50% & more"),
        write_run(folder / "b", said, dataset="SVAMP", model="google/gemma-2-9b-it"),
    )


def test_console(runs: tuple[Path, Path]) -> None:
    text = succeed(*runs)
    assert text.startswith("Of 4 comparisons by benefit, DirEAG is better in ")
    assert "What the paper claims, counted over settings" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["printed", *["9-0-0"] * 4] in rows
    # The tables themselves are in --out.
    assert "sums" not in text
    whole = succeed(*runs, "--all")
    assert "sums, 50% & more" in whole.replace("50% & more, sums", "sums, 50% & more")
    assert max(len(line) for line in whole.splitlines() if str(runs[0].parent) not in line) <= 80


def test_latex_and_markdown(runs: tuple[Path, Path]) -> None:
    latex = succeed(*runs, "--format", "latex")
    check_latex(latex)
    assert latex.count(r"\begin{table}") == 7
    assert r"50\% \& more" in latex
    markdown = succeed(*runs, "--format", "markdown")
    assert markdown.count("\n### ") == 6


def test_out_writes_everything(runs: tuple[Path, Path], tmp_path: Path) -> None:
    target = tmp_path / "tables"
    assert f"Written to {target}:\ntable1 and table2" in succeed(*runs, "--out", target)
    assert {path.name for path in target.iterdir()} == FILES
    printed = pd.read_csv(io.StringIO(succeed(*runs, "--format", "csv")))
    written = pd.concat([pd.read_csv(target / f"table{number}.csv") for number in (1, 2)], ignore_index=True)
    pd.testing.assert_frame_equal(printed, written)
    assert printed["table"].tolist() == [1] * 14 + [2] * 8
    for number in (1, 2):
        record = json.loads((target / f"table{number}.json").read_text())
        own = written[written["table"] == number]
        assert [row["method"] for row in record["rows"]] == own["method"].tolist()
        assert (record["interval_level"], record["seed"], record["ece_bins"]) == (0.95, 0, 10)
        assert [run["n_evaluated"] for run in record["runs"]] == [30, 30]
        assert [row["accuracy"] is None for row in record["rows"]] == own["n"].isna().tolist()
        check_latex((target / f"table{number}.tex").read_text())
    differences = pd.read_csv(target / "differences.csv")
    assert len(differences) == 2 * 2 * 5


def test_the_seed_and_the_level_are_handed_on(runs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def record(folders: list[Path], **options: object) -> None:
        asked.update(options, folders=folders)
        raise DirEAGError("enough")

    monkeypatch.setattr("analysis.paper.paper_results.paper_results", record)
    refuse(*runs, "--seed", 5, "--level", 0.5)
    assert (asked["folders"], asked["seed"], asked["level"]) == (list(runs), 5, 0.5)


def test_refusals(runs: tuple[Path, Path], tmp_path: Path) -> None:
    first, _ = runs
    assert "saw no such folder; expected a folder written by direag evaluate" in refuse(tmp_path / "nowhere")
    assert "saw this run twice" in refuse(first, first.parent / "." / first.name)
    assert "--level 95.0: expected a probability between 0 and 1" in refuse(first, "--level", 95)
    assert "saw an earlier evaluation there" in refuse(first, "--out", first)
    assert "there is no folder" in refuse(first, "--out", tmp_path / "no" / "tables")
    (tmp_path / "file").touch()
    assert "saw a file" in refuse(first, "--out", tmp_path / "file")
    assert direag("tables", first, "--format", "word").exit_code == 2
    assert {path.name for path in tmp_path.iterdir()} == {"file"}
