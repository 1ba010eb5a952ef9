"""Pictures of comparisons: what is drawn, where, and that nothing else is touched."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.comparison.comparison import ParameterComparison, parameter_figure, shift_figure
from analysis.comparison.loo_comparison import EvaluationComparison, LooComparison, difference_figure, loo_figure


def parameters() -> Figure:
    table = pd.DataFrame(
        {
            "quantity": ["weight_share", "weight_share", "slope", "fixed"],
            "level": ["$low", "high", None, None],
            "point": [0.2, 0.8, 1.5, 1.0],
            "mean": [0.3, 0.7, 1.0, 1.0],
            "sd": [0.1, 0.1, 0.2, 0.0],
            "low": [0.1, 0.5, 0.8, 1.0],
            "high": [0.5, 0.9, 1.3, 1.0],
            "distance": [-1.0, 1.0, 2.5, np.nan],
        }
    )
    return parameter_figure(ParameterComparison(table, "relative", 0.9), ("MAP (n = 9)", "NUTS (n = 9)"))


def shifts() -> Figure:
    table = pd.DataFrame(
        {
            "first_confidence": [0.2, 0.9, 0.5, np.nan],
            "second_confidence": [0.3, 0.8, 0.6, np.nan],
            "shift": [0.1, -0.1, 0.1, np.nan],
            "changed": pd.Series([False, True, False, pd.NA], dtype="boolean"),
            "second_low": [0.1, 0.7, 0.4, np.nan],
            "second_high": [0.4, 0.9, 0.7, np.nan],
            "first_fitted": [True, False, False, False],
            "second_fitted": [True, False, False, False],
            "problem_id": list("abcd"),
        }
    )
    return shift_figure(table, ("one", "other"), 0.9)


def leave_one_out() -> Figure:
    table = pd.DataFrame(
        {
            "model": ["best", "worse"],
            "difference": [0.0, -6.0],
            "difference_se": [0.0, 2.0],
            "distinguishable": pd.Series([pd.NA, True], dtype="boolean"),
        }
    )
    return loo_figure(LooComparison(table, 50))


def differences() -> Figure:
    rows = [
        {"evaluation": name, "metric": metric, "difference": sign * 0.01, "low": -0.02, "high": 0.03}
        for name, sign in (("a", 1), ("b", -1), ("c", 1))
        for metric in ("accuracy", "adaptive_ece")
    ]
    return difference_figure(EvaluationComparison(pd.DataFrame(rows), "base", 40, 0, 0.95), "direag")


FIGURES = [parameters, shifts, leave_one_out, differences]
each_figure = pytest.mark.parametrize("draw", FIGURES, ids=lambda draw: draw.__name__)


def words(figure: Figure) -> str:
    figure.draw_without_rendering()
    texts = figure.findobj(mpl.text.Text)
    return " ".join(" ".join(text.get_text().split()) for text in texts)


def marks(figure: Figure) -> list[list[list[float]]]:
    """Return the places of the markers of every scatter of a figure."""
    return [
        np.round(collection.get_offsets(), 6).tolist()
        for axes in figure.axes
        for collection in axes.collections
        if type(collection).__name__ == "PathCollection"
    ]


def test_parameters_are_drawn_from_the_top_in_posterior_standard_deviations() -> None:
    figure = parameters()
    assert "n = 9" in words(figure)
    assert marks(figure) == [[[-1.0, 2.0], [1.0, 1.0], [2.5, 0.0]]]
    (axes,) = figure.axes
    labels = dict(zip(axes.get_yticks().tolist(), [t.get_text() for t in axes.get_yticklabels()], strict=True))
    assert labels == {2: r"weight share · \$low", 1: "weight share · high", 0: "slope"}
    bars = [segment[:, 0].tolist() for segment in axes.collections[0].get_segments()]
    np.testing.assert_allclose(bars, [[-2, 2], [-2, 2], [-1, 1.5]])
    faces = axes.collections[1].get_facecolor()
    assert (faces[2] == 1).all()
    assert not (faces[:2] == 1).all(axis=1).any()


def test_changed_answers_have_a_marker_of_their_own() -> None:
    figure = shifts()
    assert marks(figure) == [[[0.2, 0.3], [0.5, 0.6]], [[0.9, 0.8]]]
    text = words(figure)
    assert "3 answered questions" in text
    assert "same answer (n = 2)" in text
    assert "answer changed (n = 1)" in text
    assert "in sample: 1 of 3 questions were fitted to by both fits" in text


def test_leave_one_out_bars_are_two_standard_errors() -> None:
    figure = leave_one_out()
    (axes,) = figure.axes
    bars = [segment[:, 0].tolist() for segment in axes.collections[0].get_segments()]
    assert bars == [[0, 0], [-10, -2]]
    assert "best predicts left-out questions better than worse." in words(figure)
    assert "50 questions" in words(figure)


def test_every_evaluation_has_a_panel() -> None:
    figure = differences()
    assert [axes.get_title(loc="left").split("\n")[0] for axes in figure.axes] == ["a", "b", "c"]
    assert marks(figure)[1] == [[-0.01, 1.0], [-0.01, 0.0]]
    text = words(figure)
    assert "40 held-out questions" in text
    assert "accuracy ↑" in text
    assert "adaptive ece ↓" in text
