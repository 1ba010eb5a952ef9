"""The table and the picture of changed reports show what the test has found."""

import pandas as pd

from analysis.drift import drift_figure, drift_table
from bayes_direag.decisions.drift import Drift
from tests.analysis.figure_checks import assert_stands_alone, said


def made(p_value: float) -> Drift:
    levels = pd.DataFrame(
        {
            "level": ["a_model_with_a_long_name-70B-2024-08-06", "votes $1"],
            "p_value": [p_value, 0.8],
            "agreement_before": [0.61, 0.5],
            "agreement_after": [0.42, 0.51],
            "confidence_before": [0.9, float("nan")],
            "confidence_after": [0.7, float("nan")],
        }
    )
    return Drift(p_value, 0.05, 0.1, 100, 1200, levels, pd.DataFrame())


def test_the_table_has_a_row_a_level():
    table = drift_table(made(0.01))
    assert "100 labelled questions (before), 1,200 new questions (after)" in table.caption
    first, second = ([cell.text for cell in row] for row in table.rows)
    assert first[1:] == ["0.010", "0.610", "0.420", "0.900", "0.700"]
    assert second == ["votes $1", "0.800", "0.500", "0.510", "\N{EN DASH}", "\N{EN DASH}"]


def test_the_picture_stands_alone():
    figure = drift_figure(made(0.01))
    assert_stands_alone(figure, "100 labelled questions", "1,200 new questions", "at most 0.05")
    assert "not like the labelled ones" in said(figure)
    before, after = figure.axes[0].collections[1:]
    assert before.get_offsets()[:, 0].tolist() == [0.61, 0.5]
    assert after.get_offsets()[:, 0].tolist() == [0.42, 0.51]
    red, blue = after.get_facecolor().tolist()
    assert red != blue
    calm = drift_figure(made(0.3))
    assert "No change of the reports was found" in said(calm)
