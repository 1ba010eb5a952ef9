"""The frame of a figure: titles, captions, panels and rows."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba

from analysis.display.style import (
    figure_style,
    fitting,
    forest,
    headed_figure,
    panel_grid,
    row_labels,
    without_formulas,
)
from tests.analysis.figure_checks import assert_apart, assert_stands_alone


class TestNames:
    def test_a_short_one_stays(self):
        assert fitting("gpt-4o", 1.5) == "gpt-4o"

    def test_a_long_one_is_broken_between_its_parts(self):
        assert fitting("Meta-Llama-3.1-70B-Instruct-Turbo", 1.8) == "Meta-Llama-3.1-70B-\nInstruct-Turbo"

    @pytest.mark.parametrize("name", ["x" * 200, "very-" * 40 + "long", "first " + "y" * 90])
    def test_of_too_long_a_one_both_ends_are_shown(self, name):
        lines = fitting(name, 1.5).split("\n")
        assert len(lines) == 2
        assert name.startswith(lines[0])
        assert lines[1].startswith("\N{HORIZONTAL ELLIPSIS}")
        assert name.endswith(lines[1][1:])
        assert max(map(len, lines)) < 30

    @pytest.mark.parametrize("name", ["", "$", "a$b$c", "$\\frac{$"])
    def test_a_dollar_sign_starts_no_formula(self, name):
        assert without_formulas(name).replace("\\$", "$") == name
        with figure_style():
            figure = headed_figure(name or "-", f"About {name}.", 1.5)
            panel_grid(figure, [(name or "-", name)], 3, x_label="x", y_label="y")
        assert_stands_alone(figure, "About")


@pytest.mark.parametrize("n", [1, 2, 5, 15])
def test_a_grid_of_panels(n):
    titles = [(f"provider/model-number-{number:02d}-instruct-2024-07-18-turbo", f"n = {number}") for number in range(n)]
    with figure_style():
        figure = headed_figure("A title " * 15, "A caption that says much. " * 12, 2.0 * -(-n // 3))
        panels = panel_grid(figure, titles, 3, x_label="x (%)", y_label="y (%)")
    assert len(panels) == len(figure.axes) == n
    assert_stands_alone(figure, "A caption that says much.")
    lowest = [axes for number, axes in enumerate(panels) if number + 3 >= n]
    assert [axes for axes in panels if axes.get_xlabel()] == lowest
    assert [axes for axes in panels if axes.get_ylabel()] == panels[::3]
    for axes in lowest:
        assert axes.get_xticklabels()[0].get_visible()
    assert_apart(figure)


def test_a_forest_runs_from_the_top():
    with figure_style():
        figure = headed_figure("T", "C", 1.0)
        axes = figure.add_subplot()
        value, low, high = np.array([1.0, 2.0, 3.0]), np.array([0.5, np.nan, 2.5]), np.array([1.5, np.nan, 3.5])
        estimates = pd.DataFrame({"value": value, "low": low, "high": high})
        forest(axes, estimates, colour="#0072B2", filled=np.array([True, False, True]))
        row_labels(axes, ["a", "b", "c"])
    (bars, dots) = axes.collections
    assert dots.get_offsets().tolist() == [[1, 2], [2, 1], [3, 0]]
    assert dots.get_facecolor().tolist() == [list(to_rgba(colour)) for colour in ("#0072B2", "white", "#0072B2")]
    assert bars.get_segments()[0].tolist() == [[0.5, 2], [1.5, 2]]
    placed = {label.get_text(): place for label, place in zip(axes.get_yticklabels(), axes.get_yticks(), strict=True)}
    assert placed == {"a": 2, "b": 1, "c": 0}
