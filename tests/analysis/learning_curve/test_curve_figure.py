"""The picture draws the means it is given, marks the best group, and names every line where it ends."""

from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy.optimize import minimize

from analysis.display.style import save_figure
from analysis.learning_curve.curve_figure import learning_curve_figure, spread_out
from analysis.learning_curve.curve_table import SHOWN, metric_title
from analysis.learning_curve.summary import summarise
from analysis.methods.registry import DEFAULT_METHODS
from tests.analysis.figure_checks import assert_stands_alone
from tests.analysis.learning_curve.made_results import made_results


def drawn(methods: tuple[str, ...], counts: tuple[int, ...] = (30, 100, 300)) -> Figure:
    rng = np.random.default_rng(0)
    values = {
        method: {n: 0.4 + 0.02 * place + 2 / n + 0.002 * rng.standard_normal(5) for n in counts}
        for place, method in enumerate(methods)
    }
    summary = summarise(made_results(values), tested_share=0.5)
    return learning_curve_figure(summary, "Some set: 5 splits of 200 questions.", 0.95)


@pytest.mark.parametrize("methods", [("vote_logistic",), (*DEFAULT_METHODS, "nuts_bayes", "nuts_pooled")])
def test_it_stands_alone(methods: tuple[str, ...]) -> None:
    figure = drawn(methods)
    assert_stands_alone(figure, "Some set: 5 splits of 200 questions.", "95% interval", "↓ less is better")
    assert [axes.get_ylabel() for axes in figure.axes] == [metric_title(metric) for metric in SHOWN]
    for axes in figure.axes:
        labels = [text for text in axes.texts if text.get_text()]
        assert {text.get_text() for text in labels} == set(methods)
        assert len({text.get_text() for text in labels}) == len(labels)
        boxes = sorted((Text.get_window_extent(text) for text in labels), key=lambda box: box.y0)
        assert all(lower.y1 <= upper.y0 for lower, upper in pairwise(boxes))
        assert max(box.x1 for box in boxes) <= figure.bbox.x1


def test_lines_and_marks() -> None:
    figure = drawn(("majority", "majority_platt", "majority_isotonic", "vote_logistic", "map_paper"))
    axes = figure.axes[0]
    styles = [line.get_linestyle() for line in axes.lines]
    assert styles == ["-", "-", "--", "-", ":"]  # the best first
    assert axes.lines[4].get_color() == axes.lines[3].get_color() != axes.lines[1].get_color()
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [30, 100, 300])
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 0.48 + 2 / np.array([30, 100, 300]), atol=0.01)
    hollow = [(marks.get_facecolor()[:, :3] == 1).all(axis=1) for marks in axes.collections]
    assert not hollow[0].any()
    assert hollow[4].all()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["30", "100", "300"]


def test_one_number_of_labels(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    save_figure(drawn(("majority", "map_paper"), (30,)), tmp_path / "figure.png")
    assert dict(mpl.rcParams) == before


places = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@given(places)
def test_labels_keep_apart_in_their_order_and_on_the_line(place: list[float]) -> None:
    found = spread_out(np.array(place), gap=0.1)
    order = np.argsort(place, kind="stable")
    assert (np.diff(found[order]) >= 0.1 - 1e-9).all()
    assert found.min() >= -1e-9
    assert found.max() <= 1 + 1e-9


def test_labels_move_as_little_as_possible() -> None:
    place, gap = np.array([0.05, 0.5, 0.52, 0.55, 0.95]), 0.12
    apart = [{"type": "ineq", "fun": lambda x, k=k: x[k + 1] - x[k] - gap} for k in range(4)]
    start = np.linspace(0.1, 0.9, 5)
    best = minimize(lambda x: ((x - place) ** 2).sum(), start, bounds=[(0, 1)] * 5, constraints=apart, tol=1e-12).x
    np.testing.assert_allclose(spread_out(place, gap), best, atol=1e-5)


def test_too_many_labels_share_the_line() -> None:
    np.testing.assert_allclose(spread_out(np.full(5, 0.3), gap=0.5), [0, 0.25, 0.5, 0.75, 1])
