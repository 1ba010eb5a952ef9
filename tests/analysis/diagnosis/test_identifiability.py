"""What the labels taught, against normal posteriors whose every figure is known."""

import numpy as np
import pandas as pd
import pytest

from analysis.diagnosis.identifiability import (
    flat_direction,
    learning,
    priors,
    total_log_likelihood,
)
from bayes_direag.fits.convergence import sampled_draws
from bayes_direag.model import presets
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import APART, gaussian_draws, good_fit, made_posterior, replaced
from tests.bayes_direag import brute_force

PRIOR_MEAN = np.array([2.0, -1.0, 0.5])
PRIOR_SD = np.array([1.5, 2.0, 0.4])
COLUMNS = pd.MultiIndex.from_tuples([("weight", "a"), ("weight", "b"), ("slope", None)], names=["parameter", "level"])
PRIOR = pd.DataFrame({"mean": PRIOR_MEAN, "sd": PRIOR_SD}, COLUMNS)


def normal_posterior(information: np.ndarray, n: int = 20_000) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return draws whose sample moments are exactly those of the posterior, its mean and covariance.

    The likelihood is normal around the origin of the standardised parameters moved by one, with this information.
    """
    precision = information + np.eye(3)
    covariance = np.linalg.inv(precision)
    mean = covariance @ information @ np.ones(3)
    noise = np.random.default_rng(0).standard_normal((n, 3))
    noise -= noise.mean(axis=0)
    white = noise @ np.linalg.inv(np.linalg.cholesky(np.cov(noise, rowvar=False))).T
    standard = mean + white @ np.linalg.cholesky(covariance).T
    return pd.DataFrame(PRIOR_MEAN + PRIOR_SD * standard, columns=COLUMNS), mean, covariance


INFORMATION = np.array([[4.0, 3.5, 0.2], [3.5, 4.0, -0.1], [0.2, -0.1, 9.0]])


def quadratic(vectors: np.ndarray, information: np.ndarray = INFORMATION) -> np.ndarray:
    off = (vectors - PRIOR_MEAN) / PRIOR_SD - 1
    return -np.einsum("si,ij,sj->s", off, information, off) / 2


class TestPriors:
    def test_of_raw_parameters_and_of_the_final_calibration(self):
        fit = good_fit()
        names = fit.preset.free_parameters("confidence")
        expected = brute_force.raw_priors(dict.fromkeys(names, 0.0), fit.preset, np.nan)
        expected |= {"recalibration_intercept": (0, 0.2), "recalibration_slope": (1, 0.2)}
        found = priors(fit, sampled_draws(fit))
        assert len(found) == 29
        for (name, _), prior in found.iterrows():
            assert tuple(prior) == expected[name]

    def test_a_penalty_is_read_as_a_prior(self):
        raw = gaussian_draws(1, centre=APART) | {"prior_strength": np.full((4, 250), -1.0)}
        fit = made_posterior(simulate_observations(60, seed=1), raw, preset=presets.preset("paper"))
        found = priors(fit, fit.draws("raw"))["sd"]
        assert found.tolist() == pytest.approx([np.sqrt(14 / (2 * 0.001 * 60))] * 14)


class TestLearning:
    def test_against_the_closed_form(self):
        draws, mean, covariance = normal_posterior(INFORMATION)
        table = learning(draws, PRIOR)
        assert table["contraction"].tolist() == pytest.approx(1 - np.diag(covariance))
        assert table["z_score"].tolist() == pytest.approx(mean)
        assert table["mean"].tolist() == pytest.approx(PRIOR_MEAN + PRIOR_SD * mean)
        assert table["sd"].tolist() == pytest.approx(PRIOR_SD * np.sqrt(np.diag(covariance)))
        assert table["parameter"].tolist() == ["weight", "weight", "slope"]
        assert table["level"].isna().tolist() == [False, False, True]


class TestFlatDirection:
    def test_against_the_closed_form(self):
        draws, _, covariance = normal_posterior(INFORMATION)
        found = flat_direction(draws, PRIOR, quadratic)
        values, vectors = np.linalg.eigh(covariance)
        direction = vectors[:, -1] * np.sign(vectors[np.abs(vectors[:, -1]).argmax(), -1])
        assert found.variance_left == pytest.approx(values[-1])
        assert found.loadings["loading"].tolist() == pytest.approx(direction)
        assert found.loadings["parameter"].tolist() == ["weight", "weight", "slope"]
        # the prior is half the posterior's precision along (1, -1): information 0.5 against 1
        assert found.variance_left == pytest.approx(1 / 1.5, abs=0.01)
        assert np.sign(direction[0]) != np.sign(direction[1])

    def test_it_is_the_direction_whatever_the_units(self):
        draws = normal_posterior(INFORMATION)[0]
        units = np.array([100.0, 0.01, 3.0])
        one = flat_direction(draws, PRIOR, quadratic)
        same = flat_direction(draws * units, PRIOR.mul(units, axis=0), lambda x: quadratic(x / units))
        assert same.variance_left == pytest.approx(one.variance_left)
        assert same.loadings["loading"].tolist() == pytest.approx(one.loadings["loading"].tolist())
        assert same.likelihood_change == pytest.approx(one.likelihood_change)

    @pytest.mark.parametrize("strength", [0.0, 0.5, 50.0])
    def test_what_the_likelihood_says_along_it(self, strength):
        draws, mean, _ = normal_posterior(strength * np.eye(3))
        found = flat_direction(draws, PRIOR, lambda vectors: quadratic(vectors, strength * np.eye(3)))
        left = 1 / (1 + strength)
        # Along the direction u a draw is off the likelihood's centre by N(m, left), and a step moves by sqrt(left)
        centre = ((mean - 1) @ found.loadings["loading"].to_numpy()) / np.sqrt(left)
        z = np.random.default_rng(1).standard_normal(400_000)
        expected = np.median(np.abs(strength * left * np.stack([(centre + z) + 0.5, -(centre + z) + 0.5])))
        assert found.variance_left == pytest.approx(left)
        assert found.likelihood_change == pytest.approx(expected, rel=0.12, abs=1e-12)

    def test_draws_that_are_not_finite(self):
        draws = normal_posterior(INFORMATION)[0]
        draws.iloc[0, 0] = np.nan
        found = flat_direction(draws, PRIOR, quadratic)
        assert np.isnan(found.variance_left)
        assert found.loadings["loading"].isna().all()


class TestOfAFit:
    def test_the_likelihood_is_that_of_the_fit_with_questions_as_they_were_weighted(self):
        fit = good_fit()
        flat = fit.draws("raw").to_numpy()[::100]
        expected = fit.tree["log_likelihood"]["target"].to_numpy().reshape(1000, -1)[::100]
        np.testing.assert_allclose(total_log_likelihood(fit)(flat), expected.sum(axis=1), rtol=1e-12)
        weight = np.where(fit.fitted.gold_generated, 1.0, 3.0)
        weighed = replaced(fit, "constant_data", weight_in_likelihood=weight)
        np.testing.assert_allclose(total_log_likelihood(weighed)(flat), expected @ weight, rtol=1e-12)

    def test_the_flat_direction_is_the_scale_where_only_the_scale_varies(self):
        step = np.random.default_rng(5).standard_normal((4, 250))
        raw = gaussian_draws(5, spread=1e-3)
        settings = presets.preset("bayes").override(prior_strength={"fixed": None, "link": "exp", "scale": 1.0})
        settings = settings.override(null_base={"link": "exp"})
        raw |= {
            "weight_centre": raw["weight_centre"] + step,
            "null_base": raw["null_base"] + step,
            "prior_strength": step,
        }
        fit = made_posterior(simulate_observations(120, seed=3), raw, preset=settings)
        draws = fit.draws("raw")
        prior = priors(fit, draws)
        flat = flat_direction(draws, prior, total_log_likelihood(fit))
        loading = flat.loadings.set_index("parameter")["loading"]
        assert flat.likelihood_change < 0.05
        # In units of the prior: 1/1.5 for the centre of the weights, 1/2 for null_base, 1 for prior_strength
        assert loading["prior_strength"] / loading["null_base"] == pytest.approx(2, rel=0.02)
        assert loading["prior_strength"] / loading["weight_centre"] == pytest.approx(1.5, rel=0.02)
