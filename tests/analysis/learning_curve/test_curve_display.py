"""The picture draws the means it is given, marks the best group, and names every line where it ends."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text
from rich.console import Console
from scipy.optimize import minimize

from analysis.display.terminal import shown
from analysis.learning_curve.curve import summarise
from analysis.learning_curve.curve_display import (
    SHOWN,
    curve_blocks,
    learning_curve_figure,
    metric_title,
    sampling_note,
    shown_metrics,
    spread_out,
)
from analysis.methods.registry import CURVE_METHODS, DEFAULT_CURVE
from tests.analysis.figure_checks import assert_stands_alone
from tests.analysis.learning_curve.made_results import made_results

#: More than there are colours, with every kind of line.
MANY = (*DEFAULT_CURVE[:10], "map_bayes", "map_bayes_calibrated", "nuts_bayes")


def drawn(methods: tuple[str, ...], counts: tuple[int, ...] = (30, 100, 300)) -> Figure:
    rng = np.random.default_rng(0)
    values = {
        method: {n: 0.4 + 0.02 * place + 2 / n + 0.002 * rng.standard_normal(5) for n in counts}
        for place, method in enumerate(methods)
    }
    summary = summarise(made_results(values), tested_share=0.5)
    return learning_curve_figure(summary, "Some set: 5 splits of 200 questions.", 0.95)


@pytest.mark.parametrize(("methods", "counts"), [(("vote_logistic",), (30,)), (MANY, (30, 100, 300))])
def test_it_stands_alone(methods: tuple[str, ...], counts: tuple[int, ...]) -> None:
    figure = drawn(methods, counts)
    assert_stands_alone(figure, "Some set: 5 splits of 200 questions.", "95% interval", "↓ less is better")
    assert [axes.get_ylabel() for axes in figure.axes] == [metric_title(metric) for metric in SHOWN]
    for axes in figure.axes:
        labels = [text for text in axes.texts if text.get_text()]
        assert {text.get_text().removesuffix(" *") for text in labels} == set(methods)
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
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [30, 100, 300], rtol=0.12)
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 0.48 + 2 / np.array([30, 100, 300]), atol=0.01)
    bars, marks = axes.collections[::2], axes.collections[1::2]
    hollow = [(own.get_facecolor()[:, :3] == 1).all(axis=1) for own in marks]
    assert not hollow[0].any()
    assert hollow[4].all()
    starred = {text.get_text().removesuffix(" *") for text in axes.texts if text.get_text().endswith(" *")}
    assert "map_paper" in starred
    assert "majority" not in starred
    for own, bar in zip(marks, bars, strict=True):
        middles = np.array([segment.mean(axis=0) for segment in bar.get_segments()])
        np.testing.assert_allclose(middles, own.get_offsets())
    assert [label.get_text() for label in axes.get_xticklabels()] == ["30", "100", "300"]


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


def printed(values: dict[str, dict[int, np.ndarray]]) -> list[str]:
    console = Console(width=80, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(shown(curve_blocks(summarise(made_results(values), tested_share=0.5), 0.95)))
    return capture.get().splitlines()


def test_the_best_group_is_starred() -> None:
    noise = 0.001 * np.array([1, -1, 1, -1])
    lines = printed({"majority": {30: 0.5 + noise}, "map_paper": {30: 0.4 - noise}})
    shown = ("benefit ↑", "accuracy ↑", "log score ↓", "NLL of its own answers ↓")
    titles = [lines.index(title) for title in (*shown, "smECE of its own answers ↓")]
    assert titles == sorted(titles)
    first, log_score = lines[titles[0] : titles[1]], lines[titles[2] : titles[3]]
    assert next(line for line in first if line.startswith("majority")).split()[1:] == ["0.500", "±", ".001*"]
    assert next(line for line in first if line.startswith("map_paper")).split()[1:] == ["0.400", "±", ".001"]
    assert next(line for line in log_score if line.startswith("map_paper")).split()[1:] == ["0.400", "±", ".001*"]
    # Everywhere the method of greatest benefit comes first.
    assert [line.split()[0] for line in log_score if line.startswith("ma")] == ["majority", "map_paper"]
    caption = " ".join(" ".join(lines).split())
    assert "the 95% interval of the paired difference does not show to be worse" in caption
    assert "clipped to 0.01..0.99" in caption


def test_the_longest_names_fit_beside_four_numbers_of_labels() -> None:
    longest = sorted(CURVE_METHODS, key=len)[-5:]
    values = {method: {n: np.array([0.61, 0.62]) for n in (30, 100, 300, 1000)} for method in longest}
    lines = printed(values)
    assert max(map(len, lines)) <= 80
    for method in longest:
        assert sum(line.split()[:1] == [method] for line in lines) == 5


def test_what_states_no_distribution_has_no_row_for_its_log_score() -> None:
    results = made_results({"majority": {30: np.full(3, 0.4)}, "map_paper": {30: np.full(3, 0.5)}})
    results.loc[results["method"] == "majority", "log_score"] = np.nan
    shown = shown_metrics(summarise(results, tested_share=0.5))
    assert shown["log_score"]["method"].tolist() == ["map_paper"]
    assert shown["benefit"]["method"].tolist() == ["map_paper", "majority"]
    assert "log_score" not in shown_metrics(summarise(results[results["method"] == "majority"], tested_share=0.5))


def test_undefined_is_a_dash() -> None:
    lines = printed({"majority": {30: np.array([np.nan, np.nan]), 100: np.array([0.1, 0.2])}})
    assert next(line for line in lines if line.startswith("majority")).split()[:2] == ["majority", "\N{EN DASH}"]


def test_fits_that_did_not_mix_are_counted_once_each() -> None:
    methods = ("majority", "nuts_bayes", "nuts_bayes_calibrated")
    values = {method: {30: np.full(4, 0.5)} for method in methods}
    results = made_results(values)
    figures = {
        "chains": [4, 4, 4, 4],
        "largest_rhat": [1.001, np.nan, 1.002, 1.002],
        "n_apart": [0, 1, 0, 0],
        "smallest_ess": [900, 900, 300, 900],
        "smallest_bfmi": [0.9, 0.9, 0.9, 0.9],
        "divergences": [0, 0, 0, 3],
    }
    for column, numbers in figures.items():
        results.loc[results["method"] != "majority", column] = numbers * 2
    assert sampling_note(results).startswith("3 of 4 NUTS fits did not converge (")
