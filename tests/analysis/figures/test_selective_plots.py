"""Curves of selective prediction show the numbers they are given."""

import numpy as np
import pandas as pd
import pytest

from analysis.figures.selective_plots import selective_figure
from analysis.held_out import scores_by_method
from analysis.scores.selective import aurc, risk_coverage, selective_table
from tests.analysis.figure_checks import assert_stands_alone, said


def predictions(n_methods: int) -> pd.DataFrame:
    rng = np.random.default_rng(n_methods)
    parts = []
    for number in range(n_methods):
        confidence = rng.integers(0, 6, 80) / 5 if number == 0 else rng.random(80)
        correct = pd.array(rng.random(80) < 0.3 + confidence / 2, "boolean")
        parts.append(pd.DataFrame({"method": f"method_number_{number}", "confidence": confidence, "correct": correct}))
    return pd.concat(parts, ignore_index=True)


def drawn(n_methods: int, kind: str):
    table = predictions(n_methods)
    curves = {
        str(name): risk_coverage(rows["confidence"].to_numpy(), rows["correct"].to_numpy(bool))
        for name, rows in table.groupby("method", sort=False)
    }
    summary = selective_table(table, seed=0, n_resamples=20, level=0.9)
    return curves, summary, selective_figure(curves, summary, "Some set, held out.", 0.9, kind=kind)


@pytest.mark.parametrize("n_methods", [1, 13])
def test_a_panel_for_each_method(n_methods):
    curves, summary, figure = drawn(n_methods, "risk-coverage")
    assert_stands_alone(figure, "Some set, held out.", "90% bootstrap interval")
    assert len(figure.axes) == n_methods
    for axes, curve in zip(figure.axes, curves.values(), strict=True):
        own = next(line for line in axes.lines if line.get_linewidth() == 2)
        np.testing.assert_allclose(own.get_xydata(), 100 * curve[["coverage", "risk"]])
        assert len(axes.lines) >= n_methods + 1
    first = summary.iloc[0]
    title = f"method_number_0, n = 80 AURC {first['aurc']:.3f}".replace(" 0.", " .")
    assert title in said(figure)


def test_the_dotted_line_has_the_area_of_the_best_order():
    _, summary, figure = drawn(2, "risk-coverage")
    for axes, row in zip(figure.axes, summary.to_dict("records"), strict=True):
        best = next(line for line in axes.lines if line.get_linestyle() == ":")
        assert best.get_ydata().mean() / 100 == pytest.approx(row["oracle_aurc"])


def test_accuracy_against_rejection_is_its_mirror_image():
    _, _, risk = drawn(2, "risk-coverage")
    _, _, accuracy = drawn(2, "accuracy-rejection")
    assert_stands_alone(accuracy)
    for one, other in zip(risk.axes, accuracy.axes, strict=True):
        for line, mirrored in zip(one.lines, other.lines, strict=True):
            np.testing.assert_allclose(mirrored.get_xydata(), 100 - line.get_xydata(), atol=1e-9)


def test_the_stops_of_few_distinct_confidences_are_marked():
    curves, _, figure = drawn(1, "risk-coverage")
    curve = curves["method_number_0"]
    stops = figure.axes[0].lines[-1]
    np.testing.assert_allclose(stops.get_xdata(), 100 * curve.loc[curve["attainable"], "coverage"])
    assert len(stops.get_xdata()) == 6


def test_everything_right():
    confidence, correct = np.array([0.2, 0.9]), np.array([True, True])
    table = pd.DataFrame({"method": "m", "confidence": confidence, "correct": pd.array(correct, "boolean")})
    summary = selective_table(table, seed=0, n_resamples=5)
    curve = risk_coverage(confidence, correct)
    assert aurc(confidence, correct)[0] == 0
    for kind in ("risk-coverage", "accuracy-rejection"):
        assert_stands_alone(selective_figure({"m": curve}, summary, "Some set.", 0.95, kind=kind))


def test_a_method_that_answered_nothing_has_an_empty_panel():
    table = predictions(2)
    table.loc[table["method"] == "method_number_1", "confidence"] = np.nan
    scores = scores_by_method(table)
    curves = {name: risk_coverage(one.confidence, one.correct) for name, one in scores.items()}
    figure = selective_figure(
        curves, selective_table(table, seed=0, n_resamples=5), "Some set.", 0.95, kind="risk-coverage"
    )
    assert_stands_alone(figure)
    assert "method_number_1, n = 0 AURC undefined" in said(figure)
