"""What a fit has learned against the printed equations, draw by draw; reports read off fits; counts by hand; drawn."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit, logit
from scipy.stats import norm

from analysis.learned import (
    GRID,
    LabelledReports,
    calibration_curves,
    calibration_curves_figure,
    fitted_support,
    level_figure,
    level_quantities,
    recalibration_curve,
    recalibration_figure,
    shared_figure,
    shared_quantities,
    stated_confidences,
)
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.figure_checks import assert_stands_alone, said
from tests.analysis.fits import good_fit, random_fit
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

    def test_levels(self, several):
        table = level_quantities(several, 0.8)
        weight = draws(several, "weight")
        assert_summary(table[table["quantity"] == "share"], "value", weight / weight.sum(axis=1, keepdims=True))
        assert_summary(table[table["quantity"] == "bias"], "value", draws(several, "bias"))
        assert table["level"].tolist() == list(several.level_names) * 2

    def test_shared(self, several):
        total = draws(several, "weight").sum(axis=1)
        expected = {
            "slope": draws(several, "slope"),
            "null_gain": draws(several, "null_gain"),
            "prior_strength / total weight": draws(several, "prior_strength") / total,
            "null_base / total weight": draws(several, "null_base") / total,
            "recalibration intercept": draws(several, "intercept", "recalibration"),
            "recalibration slope": draws(several, "slope", "recalibration"),
        }
        table = shared_quantities(several, 0.8)
        assert table["quantity"].tolist() == list(expected)
        assert_summary(table, "value", np.stack(list(expected.values()), axis=1))

    def test_their_priors(self):
        fit = good_fit()
        table = shared_quantities(fit, 0.8).set_index("quantity")
        assert table["value"]["sharpness"] == pytest.approx(fit.tree["posterior"]["sharpness"].mean().item())
        assert "vote_slope" not in table.index
        table = table[["prior_low", "prior_high"]]
        undrawn = fit.tree.copy()
        del undrawn["posterior_predictive"]
        prior = Fit(undrawn).with_predictive().tree["prior"].to_dataset().squeeze("chain")
        expected = {name: prior[name] for name in ("slope", "null_gain", "sharpness")}
        expected["null_base / total weight"] = prior["null_base"] / prior["weight"].sum("level")
        for name, drawn in expected.items():
            low, high = table.loc[name]
            # Shares of 1000 other draws: four standard errors.
            assert float((drawn < low).mean()) == pytest.approx(0.1, abs=0.038)
            assert float((drawn > high).mean()) == pytest.approx(0.1, abs=0.038)
        scale = fit.preset.recalibration.prior_scale(fit.n_questions)
        expected_ends = 1 + scale * norm.ppf([0.1, 0.9])
        assert table.loc["recalibration slope"].tolist() == pytest.approx(expected_ends.tolist(), abs=0.15 * scale)

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
    for function in (calibration_curves, level_quantities, shared_quantities, recalibration_curve):
        table = function(one)
        assert table[["low", "high"]].isna().all(axis=None)
        assert table.drop(columns=["low", "high"]).notna().all(axis=None)
    np.testing.assert_allclose(level_quantities(one)["value"][5:], draws(one, "bias")[0])


class TestVariants:
    def test_level_does_not_look_at_what_is_stated(self):
        fit = random_fit(OBSERVATIONS, variant="level")
        found = calibration_curves(fit).groupby("level", sort=False)["calibrated"].agg(["min", "max"])
        expected = expit(draws(fit, "bias")[0])
        np.testing.assert_allclose(found, np.stack([expected, expected], axis=1), rtol=1e-12)
        assert "slope" not in set(shared_quantities(fit)["quantity"])

    def test_count_takes_every_report_in_full(self):
        fit = random_fit(OBSERVATIONS, variant="count")
        assert (calibration_curves(fit)["calibrated"] == 1).all()
        assert set(level_quantities(fit)["quantity"]) == {"share"}
        ratios = ["prior_strength / total weight", "null_base / total weight"]
        assert shared_quantities(fit)["quantity"].tolist()[:2] == ratios
        figure = level_figure(level_quantities(fit), ABOUT, 0.95)
        assert len(figure.axes) == 1
        assert "Bias" not in said(figure)

    def test_no_recalibration(self):
        fit = random_fit(OBSERVATIONS, recalibration="none")
        np.testing.assert_allclose(recalibration_curve(fit)["probability"], GRID)
        assert not any("recalibration" in name for name in shared_quantities(fit)["quantity"])


class TestLabelledReports:
    @pytest.fixture(scope="class")
    @staticmethod
    def observations() -> Observations:
        return with_gaps()

    def test_of_observations_and_of_the_fits_of_a_cross_fit(self, observations):
        expected, fold = LabelledReports.of_observations(observations), np.arange(30) % 3
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
    for axes, (_, rows) in zip(figure.axes, table.groupby("level", sort=False), strict=True):
        np.testing.assert_allclose(axes.lines[-1].get_xydata(), 100 * rows[["stated", "calibrated"]])
        corners = axes.collections[0].get_paths()[0].vertices[:, 1]
        for bound in ("low", "high"):
            assert np.isin(np.round(100 * rows[bound], 9), np.round(corners, 9)).all()


def test_shares_and_biases(several):
    table = level_quantities(several, 0.8)
    figure = level_figure(table, ABOUT, 0.8)
    assert_stands_alone(figure, ABOUT, "80% interval", "Bias")
    share, bias = (axes.collections[1].get_offsets() for axes in figure.axes)
    np.testing.assert_allclose(share[:, 0], 100 * table["value"][:5])
    np.testing.assert_allclose(bias[:, 0], table["value"][5:])
    assert {label.get_text() for label in figure.axes[0].get_yticklabels()} == set(several.level_names)


def test_many_levels_with_long_names():
    rng = np.random.default_rng(0)
    table = [[(str(rng.integers(1, 4)), float(rng.integers(0, 101))) for _ in range(15)] for _ in range(12)]
    names = [f"some-provider/model-{level:02d}-instruct-turbo-2024" for level in range(15)]
    fit = random_fit(observe(*table, gold="1", names=names))
    figure = curves_figure(fit)
    assert_stands_alone(figure, "A point estimate, without intervals.")
    assert len(figure.axes) == 15
    assert_stands_alone(level_figure(level_quantities(fit), ABOUT, 0.95))


def test_what_levels_share_each_on_its_own_scale(several):
    table = shared_quantities(several, 0.8)
    figure = shared_figure(table, ABOUT, 0.8)
    assert_stands_alone(figure, ABOUT)
    for axes, (_, row) in zip(figure.axes, table.iterrows(), strict=True):
        prior, _, dot = axes.collections
        assert dot.get_offsets().tolist() == [[row["value"], 0]]
        assert prior.get_segments()[0][:, 0].tolist() == [row["prior_low"], row["prior_high"]]
        low, high = axes.get_xlim()
        assert low <= min(row["low"], 0 if row["low"] >= 0 else row["low"])
        assert high > row["high"]
    assert "slope: how much" in said(figure)


def test_the_recalibration_over_the_support(several):
    curve, support = recalibration_curve(several, 0.8), np.linspace(0.2, 1, 30)
    figure = recalibration_figure(curve, support, "in-sample", ABOUT, 0.8)
    assert_stands_alone(figure, ABOUT, "in-sample support of the selected answers, n = 30 fitted questions")
    above, below = figure.axes
    np.testing.assert_allclose(above.lines[-1].get_xydata(), curve[["support", "probability"]])
    assert sum(bar.get_height() for bar in below.containers[0]) == 30
