"""What a folder of results has, and the numbers behind Figures 2 and 3, against figures worked out here."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.evaluation import Evaluation, evaluate
from analysis.paper.printed import METHODS_TABLE
from analysis.paper.results import base_rates, null_means, write_results
from analysis.scores.scoring import score
from bayes_direag.data.observations import Observations
from tests.analysis.figure_checks import assert_stands_alone
from tests.analysis.made_runs import random_said, write_run
from tests.analysis.paper.test_tables import run_with


def run(model: str, method: str = "direag", n: int = 40) -> Evaluation:
    """Return a run of n questions, half of them right; of the wrong ones a quarter has a right candidate."""
    number = np.arange(n)
    confidence, right = np.where(number % 4 == 0, 0.5, 0.2 + 0.6 * (number % 2)), number % 2 == 1
    null = 0.1 + 0.2 * (~right)
    rows = pd.DataFrame(
        {
            "problem_id": [f"q{k}" for k in number],
            "fold": "0",
            "method": method,
            "answer": "1",
            "probability": confidence,
            "correct": pd.array(right, "boolean"),
            "null_probability": null,
            "state_probability": np.where(right | (number % 8 == 0), 0.6, null),
            "cluster": pd.array([pd.NA] * n, "Int64"),
        }
    )
    plain = run_with({method: {}}, models=(model,), datasets=("svamp",))
    return replace(plain, predictions=rows, metrics=score(rows, seed=0, n_resamples=20))


@pytest.fixture(scope="module")
def runs() -> list[Evaluation]:
    return [run("google/gemma-2-9b-it"), run("llama"), run("qwen2.5-7b", method="vanilla")]


def test_the_base_rate_stands_beside_ours_and_beside_the_printed(runs: list[Evaluation]) -> None:
    figure = base_rates(runs, seed=0)
    table = figure.rows
    assert table["model"].tolist() == ["Gemma-2-9B-it", "llama"]
    # 10 of 40 at .5, and 30 with an error of .2.
    assert table["brier"].tolist() == pytest.approx([(10 * 0.25 + 30 * 0.04) / 40] * 2)
    assert table["base_rate_brier"].tolist() == [0.25] * 2
    printed = METHODS_TABLE.figures().loc[("Gemma-2-9B-it", "SVAMP", "DirEAG")]
    first, stranger = table.to_dict("records")
    gain = printed["accuracy"] * (1 - printed["accuracy"]) - printed["brier"]
    assert (first["brier_gain_printed"], first["auroc_gain_printed"]) == pytest.approx((gain, printed["auroc"] - 0.5))
    assert np.isnan([stranger["brier_gain_printed"], stranger["auroc_gain_printed"]]).all()
    drawn = figure.draw()
    assert_stands_alone(drawn, "95%", "Table 1")
    labels = [label.get_text() for label in drawn.axes[0].get_yticklabels()]
    assert labels == ["Gemma-2-9B-it, SVAMP, paper", "llama, SVAMP, paper"]
    for axes, name in zip(drawn.axes, ("brier_gain", "auroc_gain"), strict=True):
        ends = table[[f"{name}_low", f"{name}_high"]].to_numpy()
        np.testing.assert_allclose([bar[:, 0] for bar in axes.collections[0].get_segments()], ends)
        diamonds = np.ma.filled(axes.collections[-1].get_offsets()[:, 0], np.nan)
        np.testing.assert_allclose(diamonds, table[f"{name}_printed"])


def test_support_of_the_null_where_right_and_where_nothing_is() -> None:
    figure = null_means([run("llama", "confidence"), run("llama"), run("qwen2.5-7b", "confidence", n=1)], seed=0)
    assert figure.rows[["n_correct", "n_absent"]].to_numpy().tolist() == [[20, 15], [0, 0]]
    np.testing.assert_allclose(figure.rows.loc[0, ["correct", "absent", "difference"]].to_numpy(float), [0.1, 0.3, 0.2])
    assert_stands_alone(figure.draw(), "95%", "before the final calibration")


@pytest.mark.slow
def test_figure_3_is_that_of_the_released_code(golden: Path) -> None:
    """The means of its own null probabilities of the set mid: see the README of the golden figures."""
    observations = Observations.read(golden / "mid.parquet")
    found = evaluate(observations, preset="release", methods=["confidence", "direag"], seed=20260517, n_resamples=1)
    (row,) = null_means([found], seed=0).rows.to_dict("records")
    assert (row["correct"], row["absent"]) == pytest.approx((0.1990, 0.7439), abs=0.001)


def test_everything_is_written_and_again(tmp_path: Path) -> None:
    rng, names = np.random.default_rng(0), ("mean_confidence", "confidence", "direag")
    said = {name: random_said(rng, 30, sharpness=1) for name in names}
    folders = [
        write_run(tmp_path / "a_b", said, dataset="sums", model="50% & more"),
        write_run(tmp_path / "b", said, dataset="SVAMP", model="google/gemma-2-9b-it"),
    ]
    target = tmp_path / "tables"
    shown = write_results(folders, target, "Prompts: my own.", 0)
    files = {f"table{k}.{end}" for k in (1, 2) for end in ("csv", "html", "tex")}
    files |= {f"figure{k}.{end}" for k in (2, 3) for end in ("png", "csv")}
    assert {path.name for path in target.iterdir()} == files
    table = pd.read_csv(target / "table1.csv")
    assert table["source"].value_counts().to_dict() == {"printed": 7, "paper": 4}
    confidence, right = (np.array(column, float) for column in zip(*said["direag"], strict=True))
    assert table["brier"].iloc[-1] == pytest.approx(((confidence - right) ** 2).mean())
    for path in (target / "table1.html", target / "table1.tex"):
        assert "Table 1. Prompts: my own. Bold: the paper's method." in path.read_text()
    assert "50% & more, sums\n" in shown
    assert max(map(len, shown.splitlines())) <= 80
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    write_results(folders, target, "Prompts: my own.", 0)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
