"""The paper's claims, counted: those that its printed figures bear out, and those of runs."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from analysis.display.terminal import shown
from analysis.evaluation import Evaluation
from analysis.paper.paper_claims import PRINTED, claims_section, paper_claims
from analysis.paper.paper_tables import METHODS_TABLE, VARIANTS_TABLE, paper_differences
from bayes_direag.model.presets import preset
from tests.analysis.made_runs import random_said, write_run


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Two runs of one preset and one of another: DirEAG clearly better than Vanilla, equal to one before it."""
    n, folder = 200, tmp_path_factory.mktemp("claims")
    said = {"vanilla": [(0.9, k % 2 == 0) for k in range(n)], "direag": [(0.9, k % 10 > 0) for k in range(n)]}
    said["confidence"] = said["direag"]
    said["steerconf"] = random_said(np.random.default_rng(0), n, sharpness=1)
    run = Evaluation.read(write_run(folder / "run", said))
    runs = [
        run,
        run,
        replace(
            run,
            record=run.record.model_copy(
                update={"settings": run.settings.model_copy(update={"preset": preset("release")})}
            ),
        ),
    ]
    return paper_claims(paper_differences(runs, level=0.9, seed=0, n_resamples=100))


def counts(claims: pd.DataFrame, method: str, other: str, metric: str, source: str) -> list[int]:
    rows = claims.set_index(["method", "other", "metric", "source"])
    names = ["n", "better", "equal", "worse", "clearly_better", "clearly_worse"]
    return rows.loc[(method, other, metric, source), names].tolist()


def test_runs_are_counted_by_preset_with_their_intervals(claims):
    for metric in ("accuracy", "ece", "brier"):
        assert counts(claims, "DirEAG", "Vanilla", metric, "paper") == [2, 2, 0, 0, 2, 0]
        assert counts(claims, "DirEAG", "+ Conf. evidence", metric, "release") == [1, 0, 1, 0, 0, 0]
    # AUROC is the same by chance of what was made up: equal confidences
    assert counts(claims, "DirEAG", "Vanilla", "auroc", "paper") == [2, 0, 2, 0, 0, 0]
    assert "Top-K" not in set(claims.loc[claims["source"] != PRINTED, "other"])


def test_without_a_pair_in_the_runs_what_is_printed_is_left(tmp_path):
    run = Evaluation.read(write_run(tmp_path / "run", {"vanilla": [(0.5, True)]}))
    assert set(paper_claims(paper_differences([run], level=0.9, seed=0))["source"]) == {PRINTED}


@pytest.mark.parametrize(
    ("method", "other", "metric", "expected"),
    [
        # A lower ECE than every baseline, in all settings but one of Self-cons.
        *(("DirEAG", other, "ece", (8 if other == "Self-cons." else 9, 0)) for other in list(METHODS_TABLE.rows)[:-1]),
        # Accuracy comes from aggregation: above a single reply everywhere, but below five plain samples in six of nine.
        ("DirEAG", "Vanilla", "accuracy", (9, 0)),
        ("DirEAG", "Self-cons.", "accuracy", (3, 0)),
        ("DirEAG", "Self-cons.", "brier", (6, 0)),
        ("DirEAG", "Mean conf.", "brier", (7, 0)),
        ("DirEAG", "SteerConf", "brier", (8, 0)),
        # The rungs: confidences change the answers, levels and the last step do not.
        ("+ Level Reliability", "Count-only + Cal.", "accuracy", (0, 9)),
        ("+ Conf. evidence", "+ Level Reliability", "accuracy", (6, 3)),
        ("DirEAG", "+ Conf. evidence", "accuracy", (0, 9)),
        # Calibration comes from the last step.
        ("+ Conf. evidence", "+ Level Reliability", "ece", (0, 0)),
        ("DirEAG", "+ Conf. evidence", "ece", (9, 0)),
        ("DirEAG", "+ Conf. evidence", "brier", (9, 0)),
    ],
)
def test_what_the_printed_figures_bear_out(claims, method, other, metric, expected):
    n, better, equal, *_ = counts(claims, method, other, metric, PRINTED)
    assert (n, better, equal) == (9, *expected)


def test_it_says_in_80_columns_what_was_counted(claims):
    section = claims_section(claims, 0.9)
    table, note = section.blocks
    assert (len(table.rows), len(VARIANTS_TABLE.rows)) == (11, 4)
    name, accuracy, *_ = table.rows[0]
    assert (name.text, name.detail) == ("DirEAG against Vanilla", "  printed\n  paper\n  release")
    assert accuracy.detail == "9-0-0\n2-0-0 (2-0)\n1-0-0 (1-0)"
    assert "90% interval" in note.text
    console = Console(file=io.StringIO(), width=80, markup=False, emoji=False, highlight=False)
    console.print(shown(section.blocks))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
