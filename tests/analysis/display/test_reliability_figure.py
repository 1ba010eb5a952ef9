"""Reliability diagrams show the numbers they are given, side by side."""

import numpy as np

from analysis.display.reliability_figure import reliability_figure
from analysis.scores.reliability import binned_reliability
from tests.analysis.figure_checks import assert_stands_alone


def test_before_and_after_stand_side_by_side() -> None:
    rng = np.random.default_rng(3)
    confidence = rng.random(300)
    correct = rng.random(300) < confidence
    found = {"before": binned_reliability(confidence**2, correct), "after": binned_reliability(confidence, correct)}
    figure = reliability_figure(found, "Some set, 5-fold cross-fit.")
    assert_stands_alone(figure, "Some set, 5-fold cross-fit.")
    for (above, below), bins in zip(np.reshape(figure.axes, (2, 2)).T, found.values(), strict=True):
        shown = bins[bins["n"] > 0]
        np.testing.assert_array_equal(above.lines[1].get_xydata(), bins[["probability", "right"]])
        ends = np.array([segment[:, 1] for segment in above.collections[0].get_segments()])
        np.testing.assert_array_equal(ends, shown[["right_low", "right_high"]])
        assert [bar.get_height() for bar in below.containers[0]] == bins["n"].tolist()
