"""What a fit has learned against the printed equations, draw by draw; reports read off fits; counts by hand; drawn."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit, logit

from analysis.learned import (
    GRID,
    LabelledReports,
    calibration_curves,
    calibration_curves_figure,
    fitted_support,
    recalibration_curve,
    recalibration_figure,
    stated_confidences,
)
from analysis.parameters import compared_parameters, parameters_picture
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.figure_checks import assert_stands_alone
from tests.analysis.fits import made_fit, natural, random_fit
from tests.analysis.handmade_reports import observe, with_gaps

ABOUT = "Fitted to some questions."
OBSERVATIONS = simulate_observations(30, seed=2)


@pytest.fixture(scope="module")
def several() -> Fit:
    return random_fit(OBSERVATIONS, n_draws=7)


def draws(fit: Fit, name: str, group: str = "posterior") -> np.ndarray:
    return fit.tree[group][name].to_numpy()[0]


def assert_summary(table: pd.DataFrame, name: str, expected: np.ndarray) -> None:
    """Check means and intervals at level 0.8 over the draws."""
    np.testing.assert_allclose(table[name], expected.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(table[["low", "high"]].T, np.quantile(expected, [0.1, 0.9], axis=0), rtol=1e-12)


class TestSeveralDraws:
    def test_calibration_curves(self, several):
        score = logit(np.clip(GRID, several.preset.eps, 1 - several.preset.eps))
        expected = expit(draws(several, "bias")[:, :, None] + draws(several, "slope")[:, None, None] * score)
        table = calibration_curves(several, 0.8)
        assert table["level"].tolist() == [name for name in several.level_names for _ in GRID]
        assert table["stated"].tolist() == GRID.tolist() * 5
        assert_summary(table, "calibrated", expected.reshape(7, -1))

    def test_recalibration(self, several):
        intercept, slope = (draws(several, name, "recalibration") for name in ("intercept", "slope"))
        expected = expit(intercept[:, None] + slope[:, None] * logit(np.clip(GRID, 1e-6, 1 - 1e-6)))
        table = recalibration_curve(several, 0.8)
        assert table["support"].tolist() == GRID.tolist()
        assert_summary(table, "probability", expected)

    def test_support_is_that_of_the_prediction_or_one_that_had_not_seen_the_question(self, several):
        kept = OBSERVATIONS.select(np.flatnonzero(OBSERVATIONS.answered))
        np.testing.assert_allclose(fitted_support(several), several.predict(kept)["support"], rtol=1e-12)
        tree = several.tree.copy()
        unseen = np.linspace(0, 1, tree["constant_data"].sizes["problem"])
        tree["loo"] = xr.DataTree(xr.Dataset({"support": ("problem", unseen)}))
        np.testing.assert_array_equal(fitted_support(Fit(tree)), unseen)


def test_one_draw_has_no_interval():
    one = random_fit(OBSERVATIONS)
    for function in (calibration_curves, recalibration_curve):
        table = function(one)
        assert table[["low", "high"]].isna().all(axis=None)
        assert table.drop(columns=["low", "high"]).notna().all(axis=None)


class TestVariants:
    def test_level_does_not_look_at_what_is_stated(self):
        fit = random_fit(OBSERVATIONS, variant="level")
        found = calibration_curves(fit).groupby("level", sort=False)["calibrated"].agg(["min", "max"])
        expected = expit(draws(fit, "bias")[0])
        np.testing.assert_allclose(found, np.stack([expected, expected], axis=1), rtol=1e-12)

    def test_count_takes_every_report_in_full(self):
        fit = random_fit(OBSERVATIONS, variant="count")
        assert (calibration_curves(fit)["calibrated"] == 1).all()

    def test_no_recalibration(self):
        fit = random_fit(OBSERVATIONS, recalibration="none")
        np.testing.assert_allclose(recalibration_curve(fit)["probability"], GRID)


class TestLabelledReports:
    @pytest.fixture(scope="class")
    @staticmethod
    def observations() -> Observations:
        return with_gaps()

    def test_of_the_fits_of_a_cross_fit(self, observations):
        expected, fold = observations.select(observations.labelled & observations.answered), np.arange(30) % 3
        assert len(expected.problem_id) == 28
        assert {observations.problem_id[4], observations.problem_id[9]}.isdisjoint(expected.problem_id)
        found = LabelledReports.of_fits([random_fit(observations.select(fold != held_out)) for held_out in range(3)])
        order = [found.problem_id.index(name) for name in expected.problem_id]
        assert sorted(order) == list(range(28))
        np.testing.assert_array_equal(found.confidence[order], expected.confidence)
        np.testing.assert_array_equal(found.correct[order], expected.correct)
        assert found.level_names == expected.level_names

    def test_no_question_and_different_levels(self, observations):
        fit = random_fit(observations.select(slice(0, 0)))
        reports = LabelledReports.of_fits([fit])
        assert reports.confidence.shape == reports.correct.shape == (0, observations.n_levels)
        assert stated_confidences(reports)[["right", "wrong"]].sum().sum() == 0
        tree = fit.tree.copy()
        tree["constant_data"] = xr.DataTree(tree["constant_data"].to_dataset().assign_coords(level=list("abcde")))
        with pytest.raises(DirEAGError, match="saw fits with 2 different sets of levels"):
            LabelledReports.of_fits([fit, Fit(tree)])

    def test_bins_of_stated_confidences_hold_their_upper_edge(self):
        confidence = np.array([[0.0, 1.0], [0.05, 0.95], [0.051, 0.15], [np.nan, 0.29]])
        correct = np.array([[True, False], [False, True], [True, True], [False, True]])
        names = ("a", "b", "c", "d")
        table = stated_confidences(LabelledReports(names, ("one", "two"), confidence, correct))
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
        percent, right = np.arange(101)[:, None] / 100, np.ones((101, 1), bool)
        every = LabelledReports(tuple(map(str, range(101))), ("one",), percent, right)
        assert stated_confidences(every)["right"].tolist() == [6] + [5] * 19


def curves_figure(fit: Fit):
    stated = stated_confidences(LabelledReports.of_fits([fit]))
    return calibration_curves_figure(calibration_curves(fit, 0.8), stated, ABOUT, 0.8)


def test_calibration_curves_and_bands(several):
    figure, table = curves_figure(several), calibration_curves(several, 0.8)
    assert_stands_alone(figure, ABOUT, "mean and 80% interval over the posterior draws")
    above, below = figure.axes
    assert len(above.lines) == 1 + 5
    for line, band in zip(above.lines[1:], above.collections, strict=True):
        rows = table[table["level"] == line.get_label()]
        np.testing.assert_allclose(line.get_xydata(), 100 * rows[["stated", "calibrated"]])
        corners = band.get_paths()[0].vertices[:, 1]
        for bound in ("low", "high"):
            assert np.isin(np.round(100 * rows[bound], 9), np.round(corners, 9)).all()
    assert sum(bar.get_height() for bar in below.containers[0]) == np.sum(~np.isnan(several.fitted.confidence))


def test_levels_that_share_a_curve_have_one_line():
    figure = curves_figure(made_fit(OBSERVATIONS, natural(5, bias=[0.5] * 5)))
    assert_stands_alone(figure, "All levels share one curve.")
    assert len(figure.axes[0].lines) == 2
    assert figure.axes[0].get_legend() is None


def test_of_many_levels_the_highest_lowest_and_some_between_are_named():
    rng = np.random.default_rng(0)
    table = [[(str(rng.integers(1, 4)), float(rng.integers(0, 101))) for _ in range(15)] for _ in range(12)]
    names = [f"some-provider/model-{level:02d}-instruct-turbo-2024" for level in range(15)]
    fit = random_fit(observe(*table, gold="1", names=names))
    figure = curves_figure(fit)
    assert_stands_alone(figure, "A point estimate, without intervals.")
    (above, _), mean = figure.axes, calibration_curves(fit).groupby("level")["calibrated"].mean()
    assert len(above.lines) == 1 + 15
    coloured = [100 * mean.max(), 100 * mean.min()]
    np.testing.assert_allclose([above.lines[place].get_ydata().mean() for place in (-6, -1)], coloured)
    assert len(above.get_legend().get_texts()) == 6
    assert_stands_alone(parameters_picture(compared_parameters({"fit": fit})).figure)


def test_the_forest_has_a_row_for_each_level_and_a_panel_for_each_parameter():
    fits = {"one": random_fit(OBSERVATIONS), "draws": random_fit(OBSERVATIONS, n_draws=7, seed=1)}
    table = compared_parameters(fits)
    picture = parameters_picture(table, ABOUT)
    assert_stands_alone(picture.figure, ABOUT, "Orange diamonds: one, the mode.", "draws, median and 90% interval")
    for axes in picture.figure.axes:
        rows = table[table["parameter"].str.replace("_", " ") == axes.get_title(loc="left")]
        points, (dots, *_) = axes.lines[-1], axes.collections[1:]
        assert points.get_xdata().tolist() == rows.query("model == 'one'")["value"].tolist()
        assert dots.get_offsets()[:, 0].tolist() == rows.query("model == 'draws'")["value"].tolist()
    assert len(picture.figure.axes) == table[table["identified"]]["parameter"].nunique()


def test_the_recalibration_over_the_support(several):
    curve, support = recalibration_curve(several, 0.8), np.linspace(0.2, 1, 30)
    figure = recalibration_figure(curve, support, "in-sample", ABOUT, 0.8)
    assert_stands_alone(figure, ABOUT, "in-sample support of the selected answers, n = 30 fitted questions")
    above, below = figure.axes
    np.testing.assert_allclose(above.lines[-1].get_xydata(), curve[["support", "probability"]])
    assert sum(bar.get_height() for bar in below.containers[0]) == 30
