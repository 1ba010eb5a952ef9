"""Which pictures there are of an evaluation and of a fit, and that they show the numbers that come with them."""

import numpy as np
import pandas as pd
import pytest

from analysis.display.document import LeftOut
from analysis.evaluation import Evaluation
from analysis.learned import fit_pictures
from analysis.pictures import benefit_picture, evaluation_pictures, reliability_picture, risk_coverage_picture
from analysis.scores.selective import aurc
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.figure_checks import assert_stands_alone
from tests.analysis.fits import random_fit
from tests.analysis.made_runs import random_said, write_run


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory) -> Evaluation:
    rng = np.random.default_rng(1)
    said = {
        name: random_said(rng, 50, sharpness=2) for name in ("majority", "mean_confidence_platt", "steerconf", "direag")
    }
    return Evaluation.read(write_run(tmp_path_factory.mktemp("run") / "run", said, level=0.9))


def test_each_stands_alone_and_says_what_was_held_out(evaluation):
    pictures = list(evaluation_pictures(evaluation))
    assert [picture.name for picture in pictures] == ["reliability", "risk_coverage", "benefit"]
    for picture in pictures:
        assert_stands_alone(picture.figure)
        assert "svamp" in picture.caption
        assert "5-fold cross-fit" in picture.caption
        assert picture.tables.keys() == {picture.name}


def test_benefit_and_accuracy_stand_by_benefit_and_under_their_names(evaluation):
    figure, table = benefit_picture(evaluation).figure, evaluation.ranked
    for axes, name in zip(figure.axes, ("benefit", "accuracy_of_all"), strict=True):
        np.testing.assert_allclose(axes.collections[1].get_offsets()[:, 0], table[name])
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert set(names) == {"DirEAG", "majority vote", "mean confidence with Platt scaling", "SteerConf"}


def test_reliability_is_that_of_the_bins(evaluation):
    picture = reliability_picture(evaluation)
    bins = picture.tables["reliability"]
    above, below = picture.figure.axes
    np.testing.assert_array_equal(above.lines[1].get_xydata(), bins[["probability", "right"]])
    ends = np.array([segment[:, 1] for segment in above.collections[0].get_segments()])
    np.testing.assert_array_equal(ends, bins.loc[bins["n"] > 0, ["right_low", "right_high"]])
    assert [bar.get_height() for bar in below.containers[0]] == bins["n"].tolist()
    assert bins["n"].sum() == 50


def test_error_curves_are_of_the_method_its_rival_and_the_vote(evaluation):
    picture = risk_coverage_picture(evaluation)
    (axes,) = picture.figure.axes
    marked, *lines = axes.lines
    assert set(marked.get_ydata()) == {10}
    for name, line in zip(("direag", "mean_confidence_platt", "majority"), lines, strict=True):
        table, rows = (
            whole[whole["method"] == name] for whole in (picture.tables["risk_coverage"], evaluation.predictions)
        )
        np.testing.assert_allclose(line.get_xydata(), 100 * table[["coverage", "risk"]])
        mean = aurc(rows["probability"].to_numpy(), rows["correct"].to_numpy(bool))[0]
        assert line.get_label().endswith(f": {100 * mean:.1f}% on average")


@pytest.mark.parametrize("said", [[(0.9, True), (0.9, True)], [(None, False)]])
def test_everything_right_and_nothing_answered(tmp_path, said):
    found = list(evaluation_pictures(Evaluation.read(write_run(tmp_path / "run", {"direag": said}))))
    assert len(found) == (3 if said[0][0] else 0)
    for picture in found:
        assert_stands_alone(picture.figure)


def test_every_picture_of_a_fit_says_what_was_fitted():
    pictures = list(fit_pictures(random_fit(simulate_observations(50, seed=4), n_draws=6), level=0.9))
    assert [picture.name for picture in pictures] == ["parameters", "calibration_curves", "recalibration"]
    for picture in pictures:
        assert not isinstance(picture, LeftOut)
        caption = " ".join(picture.figure.get_supxlabel().split())
        assert "Fitted to 50 questions of handmade" in caption
        assert "90% interval" in caption
        assert all(isinstance(table, pd.DataFrame) and len(table) for table in picture.tables.values())
