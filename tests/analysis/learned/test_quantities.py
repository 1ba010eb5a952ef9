"""What a fit has learned against the printed equations, draw by draw."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit, logit

from analysis.learned.quantities import (
    GRID,
    calibration_curves,
    fitted_support,
    level_quantities,
    recalibration_curve,
    shared_quantities,
)
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import random_fit


@pytest.fixture(scope="module")
def observations() -> Observations:
    return simulate_observations(30, seed=2)


@pytest.fixture(scope="module")
def several(observations) -> Fit:
    return random_fit(observations, n_draws=7)


@pytest.fixture(scope="module")
def one(observations) -> Fit:
    return random_fit(observations)


def draws(fit: Fit, name: str, group: str = "posterior") -> np.ndarray:
    return fit.tree[group][name].to_numpy()[0]


def assert_summary(table: pd.DataFrame, name: str, expected: np.ndarray, level: float) -> None:
    np.testing.assert_allclose(table[name], expected.mean(axis=0), rtol=1e-12)
    bounds = np.quantile(expected, [(1 - level) / 2, (1 + level) / 2], axis=0)
    np.testing.assert_allclose(table[["low", "high"]].to_numpy().T, bounds, rtol=1e-12)


class TestSeveralDraws:
    def test_calibration_curves(self, several):
        score = logit(np.clip(GRID, several.preset.eps, 1 - several.preset.eps))
        expected = expit(draws(several, "bias")[:, :, None] + draws(several, "slope")[:, None, None] * score)
        table = calibration_curves(several, 0.8)
        assert table["level"].tolist() == [name for name in several.level_names for _ in GRID]
        assert table["stated"].tolist() == GRID.tolist() * 5
        assert_summary(table, "calibrated", expected.reshape(7, -1), 0.8)

    def test_levels(self, several):
        table = level_quantities(several, 0.8)
        weight = draws(several, "weight")
        assert_summary(table[table["quantity"] == "share"], "value", weight / weight.sum(axis=1, keepdims=True), 0.8)
        assert_summary(table[table["quantity"] == "bias"], "value", draws(several, "bias"), 0.8)
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
        assert_summary(table, "value", np.stack(list(expected.values()), axis=1), 0.8)

    def test_recalibration(self, several):
        intercept, slope = (draws(several, name, "recalibration") for name in ("intercept", "slope"))
        expected = expit(intercept[:, None] + slope[:, None] * logit(np.clip(GRID, 1e-6, 1 - 1e-6)))
        table = recalibration_curve(several, 0.8)
        assert table["support"].tolist() == GRID.tolist()
        assert_summary(table, "probability", expected, 0.8)

    def test_support_is_that_of_the_prediction(self, several, observations):
        kept = observations.select(np.flatnonzero(observations.answered))
        np.testing.assert_allclose(fitted_support(several), several.predict(kept)["support"], rtol=1e-12)

    def test_support_that_had_not_seen_the_question_comes_first(self, several):
        tree = several.tree.copy()
        n = tree["constant_data"].sizes["problem"]
        tree["loo"] = xr.DataTree(xr.Dataset({"support": ("problem", np.linspace(0, 1, n))}))
        np.testing.assert_array_equal(fitted_support(Fit(tree)), np.linspace(0, 1, n))


def test_one_draw_has_no_interval(one):
    for function in (calibration_curves, level_quantities, shared_quantities, recalibration_curve):
        table = function(one)
        assert table[["low", "high"]].isna().all(axis=None)
        assert table.drop(columns=["low", "high"]).notna().all(axis=None)
    np.testing.assert_allclose(level_quantities(one)["value"][5:], draws(one, "bias")[0])


class TestVariants:
    def test_level_does_not_look_at_what_is_stated(self, observations):
        fit = random_fit(observations, variant="level")
        found = calibration_curves(fit).groupby("level", sort=False)["calibrated"].agg(["min", "max"])
        expected = expit(draws(fit, "bias")[0])
        np.testing.assert_allclose(found, np.stack([expected, expected], axis=1), rtol=1e-12)
        assert "slope" not in set(shared_quantities(fit)["quantity"])

    def test_count_takes_every_report_in_full(self, observations):
        fit = random_fit(observations, variant="count")
        assert (calibration_curves(fit)["calibrated"] == 1).all()
        assert set(level_quantities(fit)["quantity"]) == {"share"}
        ratios = ["prior_strength / total weight", "null_base / total weight"]
        assert shared_quantities(fit)["quantity"].tolist()[:2] == ratios

    def test_isotonic_recalibration(self, observations):
        fit = random_fit(observations, recalibration="isotonic")
        expected = np.interp(GRID, [0.2, 0.5, 0.9], [0.1, 0.6, 0.8])
        np.testing.assert_allclose(recalibration_curve(fit)["probability"], expected)
        assert not any("recalibration" in name for name in shared_quantities(fit)["quantity"])

    def test_no_recalibration(self, observations):
        fit = random_fit(observations, recalibration="none")
        np.testing.assert_allclose(recalibration_curve(fit)["probability"], GRID)
        assert not any("recalibration" in name for name in shared_quantities(fit)["quantity"])
