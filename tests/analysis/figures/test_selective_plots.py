"""The curve of selective prediction shows the numbers it is given."""

import numpy as np
import pandas as pd
import pytest

from analysis.figures.selective_plots import selective_figure
from analysis.held_out import scores_by_method
from analysis.scores.selective import risk_coverage, selective_table
from tests.analysis.figure_checks import assert_stands_alone, said


@pytest.mark.parametrize("n_methods", [1, 2, 5])
def test_three_methods_are_named_and_the_others_grey(n_methods):
    rng = np.random.default_rng(n_methods)
    parts = []
    for number in range(n_methods):
        confidence = rng.integers(0, 6, 80) / 5 if number == 0 else rng.random(80)
        correct = pd.array(rng.random(80) < 0.3 + confidence / (2 + number), "boolean")
        name = "direag" if number == n_methods - 1 else f"method_{number}"  # the last, and not the best
        parts.append(pd.DataFrame({"method": name, "confidence": confidence, "correct": correct}))
    parts.append(pd.DataFrame({"method": "silent", "confidence": [np.nan] * 80, "correct": parts[0]["correct"]}))
    table = pd.concat(parts, ignore_index=True)
    curves = {name: risk_coverage(one.confidence, one.correct) for name, one in scores_by_method(table).items()}
    summary = selective_table(table, seed=0, n_resamples=20, level=0.9)
    figure = selective_figure(curves, summary, "Some set, held out.", 0.9)
    assert_stands_alone(figure, "Some set, held out.", "90% bootstrap interval")
    (axes,) = figure.axes
    named = {line.get_label().partition(",")[0]: line for line in axes.lines if line.get_linewidth() == 2}
    assert len(axes.lines) == n_methods
    assert len(named) == min(n_methods, 3)
    assert "direag" in named
    best = summary.nsmallest(1, "aurc").iloc[0]
    assert f"{best['method']}, n = 80: AURC {best['aurc']:.3f} [{best['aurc_low']:.3f}" in said(figure)
    for name, line in named.items():
        np.testing.assert_allclose(line.get_xydata(), 100 * curves[name][["coverage", "risk"]])
    few = [name for name, line in named.items() if line.get_marker() == "o"]
    assert few == [name for name in named if curves[name]["attainable"].sum() == 6]


@pytest.mark.parametrize("confidence", [[0.2, 0.9], [np.nan, np.nan]])
def test_everything_right_and_nothing_answered(confidence):
    table = pd.DataFrame({"method": "m", "confidence": confidence, "correct": pd.array([True, True], "boolean")})
    curves = {name: risk_coverage(one.confidence, one.correct) for name, one in scores_by_method(table).items()}
    assert_stands_alone(selective_figure(curves, selective_table(table, seed=0, n_resamples=5), "Some set.", 0.95))
