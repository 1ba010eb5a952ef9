"""Reports read off fits are those of the observations; counts of stated confidences by hand."""

import numpy as np
import pytest
import xarray as xr

from analysis.learned.quantities import LabelledReports, stated_confidences
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from tests.analysis.fits import random_fit
from tests.analysis.handmade_reports import with_gaps


@pytest.fixture(scope="module")
def observations() -> Observations:
    return with_gaps()


@pytest.fixture(scope="module")
def fits(observations) -> list[Fit]:
    fold = np.arange(30) % 3
    return [random_fit(observations.select(np.flatnonzero(fold != held_out))) for held_out in range(3)]


class TestLabelledReports:
    def test_only_labelled_and_answered_questions(self, observations):
        reports = LabelledReports.of_observations(observations)
        assert len(reports.problem_id) == 28
        assert {observations.problem_id[4], observations.problem_id[9]}.isdisjoint(reports.problem_id)

    def test_the_fits_of_a_cross_fit_hold_them_all(self, observations, fits):
        found, expected = LabelledReports.of_fits(fits), LabelledReports.of_observations(observations)
        order = [found.problem_id.index(name) for name in expected.problem_id]
        assert sorted(order) == list(range(28))
        np.testing.assert_array_equal(found.confidence[order], expected.confidence)
        np.testing.assert_array_equal(found.correct[order], expected.correct)
        assert found.level_names == expected.level_names

    def test_a_fit_to_no_question_has_none(self, observations):
        reports = LabelledReports.of_fits([random_fit(observations.select(slice(0, 0)))])
        assert reports.confidence.shape == reports.correct.shape == (0, observations.n_levels)
        assert stated_confidences(reports)[["right", "wrong"]].sum().sum() == 0

    def test_fits_of_different_levels_are_refused(self, fits):
        tree = fits[0].tree.copy()
        tree["constant_data"] = xr.DataTree(tree["constant_data"].to_dataset().assign_coords(level=list("abcde")))
        with pytest.raises(DirEAGError, match="saw fits with 2 different sets of levels"):
            LabelledReports.of_fits([fits[0], Fit(tree)])


class TestStatedConfidences:
    def test_bins_hold_their_upper_edge(self):
        confidence = np.array([[0.0, 1.0], [0.05, 0.95], [0.051, 0.15], [np.nan, 0.29]])
        correct = np.array([[True, False], [False, True], [True, True], [False, True]])
        table = stated_confidences(
            LabelledReports(("a", "b", "c", "d"), ("one", "two"), confidence, correct, np.ones(4, int))
        )
        counted = table[(table["right"] > 0) | (table["wrong"] > 0)]
        assert counted[["level", "low", "high", "right", "wrong"]].to_numpy().tolist() == [
            ["one", 0, 5, 1, 1],
            ["one", 5, 10, 1, 0],
            ["two", 10, 15, 1, 0],
            ["two", 25, 30, 1, 0],
            ["two", 90, 95, 1, 0],
            ["two", 95, 100, 0, 1],
        ]
        assert len(table) == 40

    def test_every_whole_percentage_falls_where_it_belongs(self):
        percent = np.arange(101)
        reports = LabelledReports(
            tuple(map(str, percent)), ("one",), (percent / 100)[:, None], np.ones((101, 1), bool), np.ones(101, int)
        )
        assert stated_confidences(reports)["right"].tolist() == [6] + [5] * 19
