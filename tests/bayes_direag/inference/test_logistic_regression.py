import numpy as np
import pytest
from scipy import optimize, stats

from bayes_direag.inference.logistic_regression import LogisticRegressions


def posterior(n: int = 40, prior_sd: float = 0.7) -> LogisticRegressions:
    rng = np.random.default_rng(0)
    features = np.stack([np.ones(n), rng.normal(size=n), np.log(rng.uniform(0.1, 1, n))], axis=1)
    weight = rng.choice([0.25, 1.0, 3.0], n)
    right, mean = rng.random(n) < 0.6, np.array([0.0, 1.0, 0.0])
    return LogisticRegressions(features, right, weight, np.zeros(n, int), mean, np.full((1, 3), prior_sd))


def log_density(given: LogisticRegressions, point: np.ndarray) -> float:
    p = 1 / (1 + np.exp(-given.features @ point))
    likelihood = given.weight @ stats.bernoulli.logpmf(given.right, p)
    return float(likelihood + stats.norm.logpdf(point, given.prior_mean, given.prior_sd[0]).sum())


POINTS = np.array([[0.3, 1.4, -0.2], [0.0, 1.0, 0.0], [-8.0, 5.0, 2.0]])


def test_densities_are_those_of_the_equation() -> None:
    regression = posterior()
    densities = regression.log_densities(POINTS)
    expected = [log_density(regression, point) for point in POINTS]
    np.testing.assert_allclose(np.diff(densities), np.diff(expected), rtol=1e-12)


@pytest.mark.parametrize("point", POINTS)
def test_gradient_and_curvature_are_derivatives_of_the_density(point: np.ndarray) -> None:
    regression = posterior()
    gradient = optimize.approx_fprime(point, lambda x: -log_density(regression, x), 1e-7)
    np.testing.assert_allclose(regression.gradients(point[None])[0], gradient, atol=2e-4)
    curvature = optimize.approx_fprime(point, lambda x: regression.gradients(x[None])[0], 1e-7)
    np.testing.assert_allclose(regression.hessians(point[None])[0], curvature, atol=2e-4)


@pytest.mark.parametrize("prior_sd", [0.05, 0.7, 100.0])
def test_logistic_regression_finds_the_mode(prior_sd: float) -> None:
    regression = posterior(prior_sd=prior_sd)
    (mode,), (n_steps,) = regression.modes()
    theirs = optimize.minimize(lambda x: -log_density(regression, x), regression.prior_mean, method="BFGS", tol=1e-9)
    np.testing.assert_allclose(mode, theirs.x, atol=1e-5)
    assert 0 < n_steps < 20


def test_logistic_regression_halves_steps_for_a_prior_far_from_the_answers() -> None:
    """From there a whole Newton step raises the loss."""
    features, right = np.linspace(-3, 3, 60)[:, None], np.linspace(-3, 3, 60) > 0
    prior = np.array([-30.0]), np.array([[50.0]])
    regression = LogisticRegressions(features, right, np.ones(60), np.zeros(60, int), *prior)
    modes, _ = regression.modes()
    assert np.abs(regression.gradients(modes)).max() <= 1e-8
    assert regression.losses(modes) < regression.losses(np.zeros((1, 1)))


def test_plain_steps_lead_to_the_mode_in_the_end() -> None:
    regression = posterior()
    np.testing.assert_allclose(regression.descended(0.5, 20_000), regression.modes()[0], atol=1e-8)
