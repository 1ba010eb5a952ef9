"""Pictures of an evaluation show the numbers they are given."""

import numpy as np
import pandas as pd
import pytest

from analysis.figures.evaluation_plots import (
    base_rate_figure,
    benefit_figure,
    null_state_figure,
    stated_confidence_figure,
)
from analysis.labelled_reports import LabelledReports, stated_confidences
from analysis.scores.state_diagnostics import NULL_GROUPS, null_state
from tests.analysis.figure_checks import assert_stands_alone, said

ABOUT = "Some set, 5-fold cross-fit: no question is predicted by a fit that has seen it."


def gains(n_methods: int, *, unanswered: int = 0) -> pd.DataFrame:
    place = np.arange(n_methods)
    return pd.DataFrame(
        {
            "method": [f"method_{number}" for number in place],
            "n": 100 - unanswered * (place == 0),
            "unanswered": unanswered * (place == 0),
            "accuracy": 0.5,
            "brier_gain": 0.02 * place - 0.03,
            "brier_gain_low": 0.02 * place - 0.05,
            "brier_gain_high": 0.02 * place - 0.01,
            "auroc_gain": 0.1 + 0 * place,
            "auroc_gain_low": 0.05 + 0 * place,
            "auroc_gain_high": 0.15 + 0 * place,
        }
    )


def test_benefit_and_accuracy_stand_in_the_order_given():
    place = np.arange(4)
    values = {"benefit": 0.6 - 0.2 * place, "accuracy_of_all": 0.8 - 0.1 * place}
    ends = {
        f"{name}{end}": value + by for name, value in values.items() for end, by in (("_low", -0.05), ("_high", 0.05))
    }
    worth = pd.DataFrame({"method": [f"method_{k}" for k in place], "n": 100, **values, **ends})
    figure = benefit_figure(worth, ABOUT, 0.9)
    assert_stands_alone(figure, ABOUT, "n = 100 labelled questions", "90% bootstrap interval")
    for axes, name in zip(figure.axes, values, strict=True):
        np.testing.assert_allclose(axes.collections[1].get_offsets()[:, 0], values[name])
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == worth["method"].tolist()


class TestBaseRate:
    def test_points_are_filled_where_all_of_the_interval_is_above_zero(self):
        table = gains(5)
        figure = base_rate_figure(table, ABOUT, 0.9)
        assert_stands_alone(figure, ABOUT, "n = 100.", "90% bootstrap interval")
        left, _ = figure.axes
        dots = left.collections[1]
        np.testing.assert_allclose(dots.get_offsets()[:, 0], table["brier_gain"])
        hollow = (dots.get_facecolor()[:, :3] == 1).all(axis=1)
        assert hollow.tolist() == (table["brier_gain_low"] <= 0).tolist() == [True, True, True, False, False]

    def test_who_answered_fewer_is_named(self):
        figure = base_rate_figure(gains(3, unanswered=7), ABOUT, 0.95)
        assert_stands_alone(figure, "n = 100 answered questions, but method_0 93.")

    def test_without_auroc(self):
        table = gains(2).assign(auroc_gain=np.nan, auroc_gain_low=np.nan, auroc_gain_high=np.nan)
        assert_stands_alone(base_rate_figure(table, ABOUT, 0.95))


def null(n: int, group: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "problem_id": [f"q{number}" for number in range(n)],
            "null_probability": np.linspace(0.01, 0.6, n),
            "correct": pd.array(group == 0, "boolean"),
        }
    )


class TestNullState:
    def test_each_group_adds_up_to_all_of_it(self):
        group = np.arange(60) // 20
        rows = null(60, group)
        found = null_state(rows, pd.Series(group < 2, index=rows["problem_id"]), seed=0, n_resamples=50, level=0.9)
        figure = null_state_figure(found, "direag", ABOUT)
        assert_stands_alone(figure, ABOUT, "direag, n = 60", "90% interval")
        for axes, name in zip(figure.axes, NULL_GROUPS, strict=True):
            assert sum(bar.get_height() for bar in axes.containers[0]) == pytest.approx(100)
            assert axes.get_title(loc="left").startswith(f"{name}: n = 20, mean 0.")
        difference = found.quantity("difference")
        assert f"{difference['value']:+.3f} [{difference['low']:+.3f}, {difference['high']:+.3f}]" in said(figure)

    def test_a_group_without_questions_says_so(self):
        rows = null(10, np.zeros(10, int))
        found = null_state(rows, pd.Series(True, index=rows["problem_id"]), seed=0, n_resamples=5)
        figure = null_state_figure(found, "direag", ABOUT)
        assert_stands_alone(figure, "undefined")
        assert "no candidate right: n = 0, mean undefined" in said(figure)


@pytest.mark.parametrize("n_levels", [2, 9])
def test_stated_confidences_are_stacked(n_levels):
    rng = np.random.default_rng(2)
    confidence = rng.integers(0, 101, (40, n_levels)) / 100
    confidence[:, 0] = np.nan
    correct = ~np.isnan(confidence) & (rng.random((40, n_levels)) < 0.5)
    levels = tuple(f"some-provider/long-model-name-{number}" for number in range(n_levels))
    stated = stated_confidences(
        LabelledReports(tuple(map(str, range(40))), levels, confidence, correct, np.ones(40, int))
    )
    figure = stated_confidence_figure(stated, "Some set, 40 labelled questions.")
    assert_stands_alone(figure, "40 labelled questions")
    assert len(figure.axes) == n_levels
    for number, axes in enumerate(figure.axes):
        right, wrong = axes.containers
        heights = [[bar.get_height() for bar in bars] for bars in (right, wrong)]
        assert heights == stated.loc[stated["level"] == levels[number], ["right", "wrong"]].T.to_numpy().tolist()
        assert [bar.get_y() for bar in wrong] == heights[0]
    assert "n = 0" in figure.axes[0].get_title(loc="left")
