"""Figures 2 and 3: the numbers behind them, against figures worked out here."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.evaluation import Evaluation, evaluate
from analysis.paper.paper_results import gain_figure, null_means, null_means_figure, printed_gains
from analysis.paper.paper_tables import METHODS_TABLE
from analysis.scores.scoring import score
from bayes_direag.data.observations import Observations
from tests.analysis.figure_checks import assert_stands_alone
from tests.analysis.paper.test_paper_tables import run_with


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
            "confidence": confidence,
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


def test_the_base_rate_stands_beside_ours_and_beside_the_printed(runs):
    table = printed_gains(runs, level=0.9, seed=0)
    assert table["model"].tolist() == ["Gemma-2-9B-it", "llama"]
    # 10 of 40 at .5, and 30 with an error of .2.
    assert table["brier"].tolist() == pytest.approx([(10 * 0.25 + 30 * 0.04) / 40] * 2)
    assert table["base_rate_brier"].tolist() == [0.25] * 2
    printed = METHODS_TABLE.figures().loc[("Gemma-2-9B-it", "SVAMP", "DirEAG")]
    first, stranger = table.to_dict("records")
    gain = printed["accuracy"] * (1 - printed["accuracy"]) - printed["brier"]
    assert (first["brier_gain_printed"], first["auroc_printed"]) == pytest.approx((gain, printed["auroc"]))
    assert np.isnan([stranger["brier_printed"], stranger["auroc_gain_printed"]]).all()
    figure = gain_figure(table, 0.9)
    assert_stands_alone(figure, "90%", "Table 1")
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["Gemma-2-9B-it, SVAMP", "llama, SVAMP"]
    for axes, name in zip(figure.axes, ("brier_gain", "auroc_gain"), strict=True):
        ends = table[[f"{name}_low", f"{name}_high"]].to_numpy()
        np.testing.assert_allclose([bar[:, 0] for bar in axes.collections[0].get_segments()], ends)
        # Diamonds: what is printed, and nothing of a stranger.
        diamonds = np.ma.filled(axes.collections[-1].get_offsets()[:, 0], np.nan)
        np.testing.assert_allclose(diamonds, table[f"{name}_printed"])


def test_support_of_the_null_where_right_and_where_nothing_is():
    runs = [run("llama", "confidence"), run("llama"), run("qwen2.5-7b", "confidence", n=1)]
    table = null_means(runs, level=0.9, seed=0)
    assert table[["n_correct", "n_absent"]].to_numpy().tolist() == [[20, 15], [0, 0]]
    np.testing.assert_allclose(table.loc[0, ["correct", "absent", "difference"]].to_numpy(float), [0.1, 0.3, 0.2])
    figure = null_means_figure(table, 0.9)
    assert_stands_alone(figure, "90%", "before the final calibration", "orange squares")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["llama, SVAMP", "Qwen2.5-7B, SVAMP\n(no question without a right candidate)"]
    single = null_means([run("llama", "confidence", n=4)], level=0.9, seed=0).assign(n_absent=1)
    (label,) = null_means_figure(single, 0.9).axes[0].get_yticklabels()
    assert label.get_text() == "llama, SVAMP\n(one question without a right candidate)"


@pytest.mark.slow
def test_figure_3_is_that_of_the_released_code(golden: Path):
    """The means of its own null probabilities of the set mid: see the README of the golden figures."""
    observations = Observations.read(golden / "mid.parquet")
    found = evaluate(observations, preset="release", methods=["confidence", "direag"], seed=20260517, n_resamples=1)
    (row,) = null_means([found], level=0.9, seed=0).to_dict("records")
    assert (row["correct"], row["absent"]) == pytest.approx((0.1990, 0.7439), abs=0.001)


def test_without_the_method_there_is_nothing_to_draw(runs):
    assert printed_gains(runs[2:], level=0.9, seed=0).empty
    assert null_means(runs[2:], level=0.9, seed=0).empty
