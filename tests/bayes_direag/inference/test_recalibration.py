from functools import cache

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import expit, logit

from bayes_direag.errors import DirEAGError
from bayes_direag.inference.recalibration import Outcomes, from_dataset, recalibrate
from bayes_direag.model.selection import LogisticRecalibration, Recalibration
from bayes_direag.model.settings import RecalibrationSettings

EPS = 1e-6


def answers(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    support = np.clip(rng.beta(2, 1, n), 0, 1)
    return support, rng.random(n) < expit(0.7 + 1.8 * logit(np.clip(support, EPS, 1 - EPS)))


def outcomes(support: np.ndarray, correct: np.ndarray, weight: np.ndarray | None = None) -> Outcomes:
    """One candidate and the null: a batch of one where none is given."""
    support, correct = np.atleast_2d(support), np.atleast_2d(correct)
    weight = np.ones(support.shape) if weight is None else np.atleast_2d(weight).astype(float)
    return Outcomes(np.stack([support, 1 - support], axis=2), np.stack([correct, ~correct], axis=2), weight)


def fitted(support: np.ndarray, correct: np.ndarray, **settings: object) -> Recalibration:
    return recalibrate(outcomes(support, correct), RecalibrationSettings(**settings))[0]


def after(found: Recalibration, support: np.ndarray) -> np.ndarray:
    """The final probability of a single candidate."""
    states = np.stack([support, 1 - support])[:, :, None]
    return found.of_selected(found.of_states(states)[0].T)[0]


def objective(a: float, b: float, support: np.ndarray, correct: np.ndarray, penalty: float) -> float:
    score = a + b * logit(np.clip(support, EPS, 1 - EPS))
    return float(np.mean(np.logaddexp(0, np.where(correct, -score, score))) + penalty / 2 * (a**2 + (b - 1) ** 2))


@pytest.mark.parametrize("penalty", [0.001, 0.1])
def test_platt_is_the_optimum_of_the_stated_objective(penalty: float) -> None:
    support, correct = answers()
    found = fitted(support, correct, penalty=penalty)
    theirs = optimize.minimize(lambda x: objective(*x, support, correct, penalty), [0, 1], method="Nelder-Mead",
                               options={"xatol": 1e-9, "fatol": 1e-14, "maxiter": 4000})  # fmt: skip
    assert (
        objective(found.coefficients["intercept"].item(), found.coefficients["slope"].item(), support, correct, penalty)
        <= theirs.fun + 1e-12
    )
    np.testing.assert_allclose(
        [found.coefficients["intercept"].item(), found.coefficients["slope"].item()], theirs.x, atol=1e-5
    )


def test_a_prior_scale_does_not_depend_on_the_number_of_questions() -> None:
    support, correct = answers()
    twice = np.concatenate([support, support]), np.concatenate([correct, correct])
    by_scale = fitted(support, correct, scale=0.5)
    by_penalty = fitted(support, correct, penalty=1 / (0.5**2 * len(support)))
    np.testing.assert_allclose(by_scale.coefficients["slope"], by_penalty.coefficients["slope"], rtol=1e-7)
    by_scale_twice = fitted(*twice, scale=0.5)
    by_penalty_twice = fitted(*twice, penalty=1 / (0.5**2 * 2 * len(support)))
    np.testing.assert_allclose(by_scale_twice.coefficients["slope"], by_penalty_twice.coefficients["slope"], rtol=1e-7)


def test_release_takes_its_1200_gradient_steps() -> None:
    support, correct = answers()
    score, a, b = logit(np.clip(support, EPS, 1 - EPS)), 0.0, 1.0
    for _ in range(1200):
        residual = expit(a + b * score) - correct
        a, b = (
            a - 0.05 * (residual.mean() + 0.001 * a),
            b - 0.05 * ((residual * score).mean() + 0.001 * (b - 1)),
        )
    found = fitted(support, correct, method="release")
    np.testing.assert_allclose(
        [found.coefficients["intercept"].item(), found.coefficients["slope"].item()], [a, b], rtol=1e-9
    )


def test_temperature_is_the_slope_alone() -> None:
    support, correct = answers()
    found = fitted(support, correct, method="temperature")
    theirs = optimize.minimize_scalar(
        lambda b: objective(0, b, support, correct, 0.0), bounds=(0, 10), method="bounded", options={"xatol": 1e-10}
    )
    assert found.coefficients["intercept"].item() == 0
    np.testing.assert_allclose(found.coefficients["slope"].item(), theirs.x, rtol=1e-5)


def test_temperature_needs_both_right_and_wrong_answers() -> None:
    with pytest.raises(DirEAGError, match="saw 40 right of 40 answers"):
        fitted(np.linspace(0.2, 0.9, 40), np.ones(40, bool), method="temperature")


def test_isotonic_is_the_pooled_means_of_adjacent_violators() -> None:
    support = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    correct = np.array([False, True, False, True, True, False])
    found = fitted(support, correct, method="isotonic")
    expected = [0, 0.5, 0.5, 2 / 3, 2 / 3, 2 / 3]
    np.testing.assert_allclose(after(found, support), expected, atol=1e-12)
    np.testing.assert_allclose(after(found, np.array([0.0, 1.0])), [0, 2 / 3], atol=1e-12)


def test_none_is_the_support_itself() -> None:
    support, correct = answers()
    assert (after(fitted(support, correct, method="none"), support) == support).all()


@pytest.mark.parametrize("right", [True, False])
def test_answers_all_right_or_all_wrong_stay_finite(right: bool) -> None:
    support, _ = answers()
    found = fitted(support, np.full(len(support), right))
    assert np.isfinite([found.coefficients["intercept"].item(), found.coefficients["slope"].item()]).all()
    assert (after(found, support).mean() > support.mean()) == right


def test_only_the_chosen_questions_count_and_each_row_stands_alone() -> None:
    support, correct = answers()
    chosen = np.stack([np.arange(300) < 200, np.arange(300) >= 100])
    corrupted = np.where(chosen, correct, ~correct)
    batch = recalibrate(outcomes(np.tile(support, (2, 1)), corrupted, chosen), RecalibrationSettings())
    for row, found in zip(chosen, batch, strict=True):
        alone = fitted(support[row], correct[row])
        np.testing.assert_allclose(found.coefficients["slope"], alone.coefficients["slope"], rtol=1e-8)
        np.testing.assert_allclose(
            found.coefficients["intercept"], alone.coefficients["intercept"], rtol=1e-7, atol=1e-10
        )


@pytest.mark.parametrize("method", ["softmax", "platt", "release", "temperature", "isotonic", "none"])
def test_storing_loses_nothing(method: str) -> None:
    support, correct = answers()
    found = fitted(support, correct, method=method)
    again = from_dataset(xr.Dataset.from_dict(found.to_dataset().to_dict()))
    assert again.method == method
    assert (after(again, support) == after(found, support)).all()


@cache
def fitted_once(method: str) -> Recalibration:
    return fitted(*answers(), method=method)


@pytest.mark.parametrize("method", ["softmax", "platt", "release", "temperature", "isotonic", "none"])
@given(values=st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_it_is_monotone_stays_in_range_and_keeps_missing_missing(method: str, values: list[float]) -> None:
    found = fitted_once(method)
    ordered = np.sort(np.array(values))
    values = after(found, ordered)
    assert ((values >= 0) & (values <= 1)).all()
    assert (np.diff(values) >= -1e-15).all()
    assert np.isnan(found.of_selected(np.array([[np.nan]]))).all()


@pytest.mark.parametrize("method", ["softmax", "platt", "isotonic", "temperature"])
def test_a_weight_stands_for_repetition(method: str) -> None:
    (support, correct), times = answers(40), np.arange(40) % 3
    repeated = fitted(np.repeat(support, times), np.repeat(correct, times), method=method)
    weighted = recalibrate(outcomes(support, correct, times), RecalibrationSettings(method=method))[0]
    at = np.linspace(0.05, 0.95, 7)
    np.testing.assert_allclose(after(weighted, at), after(repeated, at), rtol=1e-6)


def worlds(n: int = 400, n_candidates: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Support of up to three candidates and the null, 0 for one that is not there, and which of them came true."""
    rng = np.random.default_rng(4)
    support = rng.dirichlet(np.full(n_candidates + 1, 0.6), n)
    support[: n // 3, 1] = 0.0
    support /= support.sum(axis=1, keepdims=True)
    tempered = np.where(support > 0, np.maximum(support, EPS) ** 0.6, 0.0)
    tempered[:, :-1] *= np.exp(0.8)
    cumulated = (tempered / tempered.sum(axis=1, keepdims=True)).cumsum(axis=1)
    came_true = (rng.random(n)[:, None] > cumulated).sum(axis=1)
    return support, came_true[:, None] == np.arange(n_candidates + 1)


class TestAllStates:
    """Method softmax: every candidate and the null."""

    def test_it_is_the_optimum_of_the_stated_objective(self) -> None:
        support, right = worlds()
        right[:40] = right[:40] | right[:40][:, [2, 1, 0, 3]]  # two right candidates, which add up
        found = recalibrate(Outcomes(support[None], right[None], np.ones((1, 400))),
                            RecalibrationSettings(method="softmax", scale=0.7))[0]  # fmt: skip

        def loss(point: np.ndarray) -> float:
            total = (point[0] ** 2 + (point[1] - 1) ** 2) / (2 * 0.7**2)
            for own, came_true in zip(support, right, strict=True):
                value = np.array([p ** point[1] if p > 0 else 0.0 for p in np.where(own > 0, np.maximum(own, EPS), 0)])
                value[:-1] *= np.exp(point[0])
                total -= np.log(value[came_true].sum() / value.sum())
            return total

        theirs = optimize.minimize(loss, [0.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-11})
        ours = [found.coefficients[name].item() for name in ("intercept", "slope")]
        np.testing.assert_allclose(ours, theirs.x, atol=1e-5)

    def test_probabilities_are_the_stated_ones_and_sum_to_one(self) -> None:
        support, _ = worlds()
        coefficients = {"intercept": np.array([[0.3, -1.0]]), "slope": np.array([[0.5, 2.0]])}
        found = LogisticRecalibration("softmax", coefficients, EPS)
        states = found.of_states(np.repeat(support.T[:, :, None], 2, axis=2))
        np.testing.assert_allclose(states.sum(axis=0), 1.0, rtol=1e-12)
        for sample, (a, b) in enumerate([(0.3, 0.5), (-1.0, 2.0)]):
            expected = np.where(support > 0, np.maximum(support, EPS) ** b, 0) * np.array([np.exp(a)] * 3 + [1.0])
            np.testing.assert_allclose(
                states[..., sample].T, expected / expected.sum(axis=1, keepdims=True), rtol=1e-10
            )
        assert (found.of_selected(states[0].T) == states[0].T).all()

    def test_with_a_single_candidate_it_is_platt(self) -> None:
        support, correct = answers()
        inside = (support > 0.01) & (support < 0.99)
        softmax, platt = (fitted(support[inside], correct[inside], method=m) for m in ("softmax", "platt"))
        for name in ("intercept", "slope"):
            np.testing.assert_allclose(softmax.coefficients[name], platt.coefficients[name], rtol=1e-8)

    def test_a_tie_is_even(self) -> None:
        """Two candidates of equal support, one of them right: each is right half of the time."""
        support, right = np.full((200, 3), [0.45, 0.45, 0.1]), np.zeros((200, 3), bool)
        right[::2, 0] = right[1::2, 1] = True
        found = recalibrate(Outcomes(support[None], right[None], np.ones((1, 200))),
                            RecalibrationSettings(method="softmax", scale=1.0))[0]  # fmt: skip
        states = found.of_states(np.array([0.45, 0.45, 0.1])[:, None, None])[:, 0, 0]
        assert states[0] == states[1] > 0.45


def test_of_several_selections_each_counts_an_equal_part() -> None:
    support = np.array([[[0.5, 0.3, 0.2], [0.1, 0.7, 0.2]]])
    given = support, np.array([[False, True, False], [False, False, True]]), np.array([[1.0, 3.0]])
    selections = np.array([[0, 1]]), np.array([[1, 1]])
    alone = Outcomes.of_selected("platt", *given, *selections)
    np.testing.assert_allclose(alone.support[0, :, 0], [0.5, 0.7, 0.3, 0.7])
    np.testing.assert_allclose(alone.support.sum(axis=2), 1.0)
    assert alone.right[0].tolist() == [[False, True], [False, True], [True, False], [False, True]]
    every = Outcomes.of_selected("softmax", *given, *selections)
    np.testing.assert_array_equal(every.support, np.concatenate([support, support], axis=1))
    others = [True, False, True]
    assert every.right[0].tolist() == [[False, True, True], others, [False, True, False], others]
    assert every.weight.tolist() == alone.weight.tolist() == [[0.5, 1.5, 0.5, 1.5]]
