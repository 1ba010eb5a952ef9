"""The frame of a figure: titles, captions, panels and rows."""

import numpy as np
import pandas as pd
import pytest

from analysis.display.style import figure_style, forest, headed_figure, row_labels, without_formulas
from tests.analysis.figure_checks import assert_stands_alone


class TestNames:
    @pytest.mark.parametrize("name", ["", "$", "a$b$c", "$\\frac{$"])
    def test_a_dollar_sign_starts_no_formula(self, name):
        assert without_formulas(name).replace("\\$", "$") == name
        with figure_style():
            figure = headed_figure(name or "-", f"About {name}.", 1.5)
            axes = figure.add_subplot(xlabel="x", ylabel="y")
            row_labels(axes, [name])
        assert_stands_alone(figure, "About")


def test_forest_runs_from_the_top():
    with figure_style():
        figure = headed_figure("T", "C", 1.0)
        axes = figure.add_subplot()
        value, low, high = np.array([1.0, 2.0, 3.0]), np.array([0.5, np.nan, 2.5]), np.array([1.5, np.nan, 3.5])
        estimates = pd.DataFrame({"value": value, "low": low, "high": high})
        forest(axes, estimates, colour="#0072B2")
        row_labels(axes, ["a", "b", "c"])
    (bars, dots) = axes.collections
    assert dots.get_offsets().tolist() == [[1, 2], [2, 1], [3, 0]]
    assert bars.get_segments()[0].tolist() == [[0.5, 2], [1.5, 2]]
    placed = {label.get_text(): height for label, height in zip(axes.get_yticklabels(), axes.get_yticks(), strict=True)}
    assert placed == {"a": 2, "b": 1, "c": 0}
