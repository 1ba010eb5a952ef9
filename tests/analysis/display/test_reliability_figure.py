"""Reliability diagrams show the numbers they are given."""

import numpy as np
import pytest

from analysis.display.reliability_figure import reliability_figure
from analysis.scores.reliability import Reliability, reliability
from tests.analysis.figure_checks import assert_stands_alone, said


@pytest.fixture(scope="module")
def found() -> dict[str, Reliability]:
    rng = np.random.default_rng(3)
    confidence = rng.random(300)
    correct = rng.random(300) < confidence
    return {
        name: reliability(shown, correct, rng=0, n_resamples=30, level=0.9)
        for name, shown in (("before recalibration\nconfidence", confidence**2), ("after\ndireag", confidence))
    }


def test_before_and_after_stand_side_by_side(found):
    figure = reliability_figure(found, "Some set, 5-fold cross-fit.")
    assert_stands_alone(figure, "Some set, 5-fold cross-fit.", "90% Wilson intervals")
    rows = np.reshape(figure.axes, (3, 2))
    for column, one in zip(rows.T, found.values(), strict=True):
        bins = one.bins[one.bins["n"] > 0]
        np.testing.assert_array_equal(column[0].lines[1].get_xydata(), bins[["probability", "right"]])
        ends = np.array([segment[:, 1] for segment in column[0].collections[0].get_segments()])
        np.testing.assert_array_equal(ends, bins[["right_low", "right_high"]])
        np.testing.assert_array_equal(column[1].lines[1].get_xydata(), one.curve[["confidence", "right"]])
        assert [bar.get_height() for bar in column[2].containers[0]] == one.bins["n"].tolist()
        assert {text.get_text() for text in column[2].texts} >= set(map(str, bins["n"]))
        assert f"ECE {one.ece:.3f} smECE {one.smece:.3f}" in said(figure)


def test_few_distinct_confidences_are_marked():
    one = reliability(np.repeat([0.2, 0.8, 1.0], 10), np.arange(30) >= 12, rng=0, n_resamples=10)
    figure = reliability_figure({"majority": one}, "Some set.")
    assert_stands_alone(figure, "Some set.")
    assert figure.axes[1].lines[1].get_marker() == "o"
    heights = [bar.get_height() for bar in figure.axes[2].containers[0]]
    assert [place for place, height in enumerate(heights) if height] == [1, 7, 9]
