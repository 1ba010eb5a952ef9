from functools import cache

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import expit, logit

from bayes_direag.inference.recalibration import Outcomes, from_dataset, recalibrate
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
    again = from_dataset(xr.Dataset.from_dict(recalibration.to_dataset().to_dict()))
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
