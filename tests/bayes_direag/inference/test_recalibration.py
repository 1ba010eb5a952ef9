"""The final calibration, against SciPy; its posterior, against a fine grid of its own."""

from functools import cache
from typing import NamedTuple

import arviz_stats
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from scipy.special import expit, log_expit, logit

from bayes_direag.errors import ConvergenceError
from bayes_direag.fits.container import calibration_group, calibration_of
from bayes_direag.inference import logistic_regression
from bayes_direag.inference.recalibration import Outcomes, draw_recalibration, recalibrate
from bayes_direag.model.selection import Recalibration
from bayes_direag.model.settings import RecalibrationSettings

EPS = 1e-6


def answers(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    support = np.clip(rng.beta(2, 1, n), 0, 1)
    return support, rng.random(n) < expit(0.7 + 1.8 * logit(np.clip(support, EPS, 1 - EPS)))


def outcomes(support: np.ndarray, correct: np.ndarray, weight: np.ndarray | None = None) -> Outcomes:
    """Make a batch of one where none is given."""
    support, correct = np.atleast_2d(support), np.atleast_2d(correct)
    weight = np.ones(support.shape) if weight is None else np.atleast_2d(weight).astype(float)
    return Outcomes(support, correct, weight)


def fitted(support: np.ndarray, correct: np.ndarray, **settings: object) -> Recalibration:
    return recalibrate(outcomes(support, correct), RecalibrationSettings(**settings))[0]


def after(found: Recalibration, support: np.ndarray) -> np.ndarray:
    return found.of_selected(support[None])[0]


def values(found: Recalibration) -> list[float]:
    return [coefficient.item() for coefficient in found.coefficients.values()]


def objective(a: float, b: float, support: np.ndarray, correct: np.ndarray, penalty: float) -> float:
    score = a + b * logit(np.clip(support, EPS, 1 - EPS))
    return float(np.mean(np.logaddexp(0, np.where(correct, -score, score))) + penalty / 2 * (a**2 + (b - 1) ** 2))


@pytest.mark.parametrize("penalty", [0.001, 0.1])
def test_recalibration_by_platt_is_the_optimum_of_the_stated_objective(penalty: float) -> None:
    support, correct = answers()
    recalibration = fitted(support, correct, penalty=penalty)
    theirs = optimize.minimize(lambda x: objective(*x, support, correct, penalty), [0, 1], method="Nelder-Mead",
                               options={"xatol": 1e-9, "fatol": 1e-14, "maxiter": 4000})  # fmt: skip
    assert objective(*values(recalibration), support, correct, penalty) <= theirs.fun + 1e-12
    np.testing.assert_allclose(values(recalibration), theirs.x, atol=1e-5)


def test_recalibration_prior_scale_does_not_depend_on_the_number_of_questions() -> None:
    support, correct = answers()
    for n in (1, 2):
        repeated = np.tile(support, n), np.tile(correct, n)
        by_penalty = fitted(*repeated, penalty=1 / (0.5**2 * n * len(support)))
        recalibration = fitted(*repeated, scale=0.5).coefficients["slope"]
        np.testing.assert_allclose(recalibration, by_penalty.coefficients["slope"], rtol=1e-7)


def test_recalibration_by_release_takes_its_1200_gradient_steps() -> None:
    support, correct = answers()
    score, a, b = logit(np.clip(support, EPS, 1 - EPS)), 0.0, 1.0
    for _ in range(1200):
        residual = expit(a + b * score) - correct
        a, b = (a - 0.05 * (residual.mean() + 0.001 * a), b - 0.05 * ((residual * score).mean() + 0.001 * (b - 1)))
    recalibration = fitted(support, correct, method="release")
    np.testing.assert_allclose(values(recalibration), [a, b], rtol=1e-9)


def test_recalibration_by_none_is_the_support_itself() -> None:
    support, correct = answers()
    assert (after(fitted(support, correct, method="none"), support) == support).all()


@pytest.mark.parametrize("right", [True, False])
def test_recalibration_stays_finite_where_all_answers_are_right_or_wrong(right: bool) -> None:
    support, _ = answers()
    recalibration = fitted(support, np.full(len(support), right))
    assert np.isfinite(values(recalibration)).all()
    assert (after(recalibration, support).mean() > support.mean()) == right


def test_recalibration_counts_only_the_chosen_questions_of_each_row() -> None:
    support, correct = answers()
    chosen = np.stack([np.arange(300) < 200, np.arange(300) >= 100])
    corrupted = np.where(chosen, correct, ~correct)
    batch = recalibrate(outcomes(np.tile(support, (2, 1)), corrupted, chosen), RecalibrationSettings())
    for row, found in zip(chosen, batch, strict=True):
        alone = fitted(support[row], correct[row])
        np.testing.assert_allclose(values(found), values(alone), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("method", ["platt", "release", "none"])
def test_recalibration_stored_loses_nothing(method: str) -> None:
    support, correct = answers()
    recalibration = fitted(support, correct, method=method)
    again = calibration_of(calibration_group(recalibration))
    assert again.method == method
    assert (after(again, support) == after(recalibration, support)).all()


@cache
def fitted_once(method: str) -> Recalibration:
    return fitted(*answers(), method=method)


@pytest.mark.parametrize("method", ["platt", "release", "none"])
@given(support=st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_recalibration_is_monotone_stays_in_range_and_keeps_missing_missing(method: str, support: list[float]) -> None:
    recalibration = fitted_once(method)
    final = after(recalibration, np.sort(support))
    assert ((final >= 0) & (final <= 1)).all()
    assert (np.diff(final) >= -1e-15).all()
    assert np.isnan(recalibration.of_selected(np.array([[np.nan]]))).all()


def test_recalibration_takes_a_weight_for_repetition() -> None:
    (support, correct), times = answers(40), np.arange(40) % 3
    repeated = fitted(np.repeat(support, times), np.repeat(correct, times))
    weighted = recalibrate(outcomes(support, correct, times), RecalibrationSettings())[0]
    at = np.linspace(0.05, 0.95, 7)
    np.testing.assert_allclose(after(weighted, at), after(repeated, at), rtol=1e-6)


def test_recalibration_counts_several_selections_by_equal_parts() -> None:
    support = np.array([[[0.5, 0.3, 0.2], [0.1, 0.7, 0.2]]])
    outcomes = support, np.array([[False, True, False], [False, False, True]]), np.array([[1.0, 3.0]])
    selections = np.array([[0, 1]]), np.array([[1, 1]])
    found = Outcomes.of_selected(*outcomes, *selections)
    np.testing.assert_allclose(found.support, [[0.5, 0.7, 0.3, 0.7]])
    assert found.right.tolist() == [[False, False, True, False]]
    assert found.weight.tolist() == [[0.5, 1.5, 0.5, 1.5]]


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
