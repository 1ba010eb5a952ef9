"""The posterior of the final calibration, against a fine grid of its own."""

from functools import cache
from typing import NamedTuple

import arviz_stats
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, log_expit, logit

from bayes_direag.errors import ConvergenceError
from bayes_direag.inference import logistic_regression
from bayes_direag.inference.recalibration_posterior import draw_recalibration
from bayes_direag.model.selection import Recalibration
from bayes_direag.model.settings import RecalibrationSettings
from tests.bayes_direag.inference.test_recalibration import outcomes

SETTINGS = RecalibrationSettings(scale=0.5)
SHAPE = (4, 2500)
N_DRAWS = SHAPE[0] * SHAPE[1]
#: Support at which final probabilities are compared.
AT = (0.3, 0.6, 0.9, 0.99)


class Labelled(NamedTuple):
    support: np.ndarray
    correct: np.ndarray
    weight: np.ndarray


def labelled(name: str) -> Labelled:
    rng = np.random.default_rng(1)
    n = int(name.split()[0])
    score = rng.normal(1.2, 1.3, n)
    correct = {
        "mixed": (mixed := rng.random(n) < expit(-0.3 + 0.7 * score)),
        "weighted": mixed,
        "right": np.ones(n, bool),
        "wrong": np.zeros(n, bool),
    }
    weight = 0.3 * rng.choice([0.5, 1.0], n) if name.endswith("weighted") else np.ones(n)
    return Labelled(expit(score), correct[name.split()[1]], weight)


class Exact(NamedTuple):
    intercept: np.ndarray
    slope: np.ndarray
    probability: np.ndarray

    def moments(self, values: np.ndarray) -> tuple[float, float]:
        mean = self.probability @ values
        return mean, np.sqrt(self.probability @ (values - mean) ** 2)

    def quantile(self, values: np.ndarray, level: float) -> float:
        order = np.argsort(values)
        return values[order][np.searchsorted(np.cumsum(self.probability[order]), level)]


@cache
def exact(name: str, scale: float = 0.5, n_sides: int = 251) -> Exact:
    """Tabulate the posterior on a square of 8 prior standard deviations either way."""
    side = 8 * scale * np.linspace(-1, 1, n_sides)
    intercept, slope = (part.ravel() for part in np.meshgrid(side, 1 + side, indexing="ij"))
    log_density = stats.norm.logpdf(intercept, 0, scale) + stats.norm.logpdf(slope, 1, scale)
    for support, right, weight in zip(*labelled(name), strict=True):
        log_density += weight * log_expit((intercept + slope * logit(support)) * (1 if right else -1))
    density = np.exp(log_density - log_density.max())
    return Exact(intercept, slope, density / density.sum())


@cache
def drawn(name: str, seed: int = 0) -> Recalibration:
    return draw_recalibration(outcomes(*labelled(name)), SETTINGS, SHAPE, np.random.default_rng(seed))


def size(found: Recalibration, name: str) -> float:
    """How many independent draws they are worth."""
    return float(arviz_stats.ess(found.coefficients[name]))


CASES = ["100 mixed", "100 weighted", "30 right", "1 right"]
MORE = ["30 mixed", "500 mixed", "30 wrong"]


@pytest.mark.parametrize("name", [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)])
def test_recalibration_posterior_is_the_tabulated_one(name: str) -> None:
    """Mean, spread and dependence of the coefficients; means and quantiles of final probabilities."""
    truth, recalibration = exact(name), drawn(name)
    draws = {name: values.ravel() for name, values in recalibration.coefficients.items()}
    assert list(draws) == ["intercept", "slope"]
    for parameter, values in draws.items():
        assert recalibration.coefficients[parameter].shape == SHAPE
        n = size(recalibration, parameter)
        assert n > 0.45 * N_DRAWS
        mean, sd = truth.moments(getattr(truth, parameter))
        assert abs(values.mean() - mean) < 4 * sd / np.sqrt(n)
        assert abs(values.std() / sd - 1) < 5 / np.sqrt(2 * n)
    centred = (truth.intercept - truth.moments(truth.intercept)[0]) * (truth.slope - truth.moments(truth.slope)[0])
    dependence = truth.probability @ centred / truth.moments(truth.intercept)[1] / truth.moments(truth.slope)[1]
    assert abs(np.corrcoef(*draws.values())[0, 1] - dependence) < 5 / np.sqrt(N_DRAWS)
    n = 0.45 * N_DRAWS
    for support in AT:
        values = expit(truth.intercept + truth.slope * logit(support))
        final = recalibration.of_selected(np.full((N_DRAWS, 1), support))[:, 0]
        mean, sd = truth.moments(values)
        assert abs(final.mean() - mean) < 4 * sd / np.sqrt(n)
        for level in (0.05, 0.5, 0.95):
            below = (final <= truth.quantile(values, level)).mean()
            # the exact quantile is known to a cell of the grid
            assert abs(below - level) < 4 * np.sqrt(level * (1 - level) / n) + 0.01


def test_recalibration_posterior_of_a_weak_prior_and_nothing_but_right_answers() -> None:
    """The penalty of preset paper on 30 questions is a scale of 5.8: the posterior is far from normal."""
    settings = RecalibrationSettings()
    truth = exact("30 right", settings.prior_scale(30), 401)
    recalibration = draw_recalibration(outcomes(*labelled("30 right")), settings, SHAPE, np.random.default_rng(0))
    for at in AT:
        mean, _ = truth.moments(expit(truth.intercept + truth.slope * logit(at)))
        drawn = recalibration.of_selected(np.full((N_DRAWS, 1), at))
        error = drawn.std() / np.sqrt(min(size(recalibration, name) for name in recalibration.coefficients))
        assert error < 0.01
        assert abs(drawn.mean() - mean) < 4 * error


def test_recalibration_posterior_draws_equally_by_equal_seeds() -> None:
    first, other = drawn("100 mixed"), drawn("100 mixed", seed=1)
    again = drawn.__wrapped__("100 mixed")
    for name, values in first.coefficients.items():
        np.testing.assert_array_equal(again.coefficients[name], values)
    assert (first.coefficients["intercept"] != other.coefficients["intercept"]).mean() > 0.99


def test_recalibration_posterior_does_not_depend_on_the_bound_on_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn("100 mixed")
    monkeypatch.setattr(logistic_regression, "_AT_ONCE", 10)
    again = drawn.__wrapped__("100 mixed")
    np.testing.assert_allclose(again.coefficients["intercept"], before.coefficients["intercept"], rtol=1e-12)


def test_recalibration_posterior_clips_support_of_0_and_1() -> None:
    settings, right = RecalibrationSettings(scale=0.5, eps=0.01), np.array([False, True, True])
    edge, clipped = (
        draw_recalibration(outcomes(np.array(support), right), settings, (2, 10), np.random.default_rng(0))
        for support in ([0.0, 1.0, 0.7], [0.01, 0.99, 0.7])
    )
    np.testing.assert_allclose(edge.coefficients["slope"], clipped.coefficients["slope"], rtol=1e-12)


def test_recalibration_posterior_refuses_support_that_is_not_a_number() -> None:
    unknown = outcomes(np.array([0.5, np.nan]), np.array([True, False]))
    with pytest.raises(ConvergenceError, match="the recalibration did not converge"):
        draw_recalibration(unknown, SETTINGS, (1, 4), np.random.default_rng(0))
