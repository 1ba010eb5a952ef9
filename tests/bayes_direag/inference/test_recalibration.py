from functools import cache
from typing import ClassVar

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import expit, logit

from bayes_direag.errors import DirEAGError
from bayes_direag.inference.recalibration import Recalibration, Selected, Votes, from_dataset, recalibrate
from bayes_direag.model.settings import RecalibrationSettings

EPS = 1e-6


def answers(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    support = np.clip(rng.beta(2, 1, n), 0, 1)
    return support, rng.random(n) < expit(0.7 + 1.8 * logit(np.clip(support, EPS, 1 - EPS)))


def selected(support: np.ndarray, correct: np.ndarray, votes: Votes | None = None) -> Selected:
    nothing = np.zeros(support.shape)
    return Selected(support, correct, votes or Votes(nothing, nothing))


def fitted(support: np.ndarray, correct: np.ndarray, told: Votes | None = None, **settings: object) -> Recalibration:
    everything = np.ones((1, len(support)), bool)
    own = selected(support[None], correct[None], told and Votes(*(part[None] for part in told)))
    return recalibrate(own, everything, RecalibrationSettings(**settings))[0]


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
    np.testing.assert_allclose(found(support[None])[0], expected, atol=1e-12)
    np.testing.assert_allclose(found(np.array([[0.0, 1.0]]))[0], [0, 2 / 3], atol=1e-12)


def test_none_is_the_support_itself() -> None:
    support, correct = answers()
    assert (fitted(support, correct, method="none")(support[None]) == support).all()


@pytest.mark.parametrize("right", [True, False])
def test_answers_all_right_or_all_wrong_stay_finite(right: bool) -> None:
    support, _ = answers()
    found = fitted(support, np.full(len(support), right))
    assert np.isfinite([found.coefficients["intercept"].item(), found.coefficients["slope"].item()]).all()
    assert (found(support[None]).mean() > support.mean()) == right


def test_only_the_chosen_questions_count_and_each_row_stands_alone() -> None:
    support, correct = answers()
    chosen = np.stack([np.arange(300) < 200, np.arange(300) >= 100])
    corrupted = np.where(chosen, correct, ~correct)
    batch = recalibrate(selected(np.tile(support, (2, 1)), corrupted), chosen, RecalibrationSettings())
    for row, found in zip(chosen, batch, strict=True):
        alone = fitted(support[row], correct[row])
        np.testing.assert_allclose(found.coefficients["slope"], alone.coefficients["slope"], rtol=1e-8)
        np.testing.assert_allclose(
            found.coefficients["intercept"], alone.coefficients["intercept"], rtol=1e-7, atol=1e-10
        )


@pytest.mark.parametrize("method", ["platt", "release", "temperature", "isotonic", "none"])
def test_storing_loses_nothing(method: str) -> None:
    support, correct = answers()
    found = fitted(support, correct, method=method)
    again = from_dataset(xr.Dataset.from_dict(found.to_dataset().to_dict()))
    assert again.method == method
    assert (again(support[None]) == found(support[None])).all()


@cache
def fitted_once(method: str) -> Recalibration:
    return fitted(*answers(), method=method)


@pytest.mark.parametrize("method", ["platt", "release", "temperature", "isotonic", "none"])
@given(values=st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_it_is_monotone_stays_in_range_and_keeps_missing_missing(method: str, values: list[float]) -> None:
    found = fitted_once(method)
    ordered = np.sort(np.array(values))
    after = found(ordered[None])[0]
    assert ((after >= 0) & (after <= 1)).all()
    assert (np.diff(after) >= -1e-15).all()
    assert np.isnan(found(np.array([[np.nan]]))).all()


class TestVotes:
    """The two terms of the plain votes."""

    SETTINGS: ClassVar = {"scale": 0.7, "votes": True}

    @staticmethod
    def votes(n: int = 300) -> Votes:
        rng = np.random.default_rng(5)
        return Votes(rng.normal(1, 1.5, n), rng.choice([0, 0, 0.1, 0.4], n))

    def test_the_optimum_of_the_stated_objective(self) -> None:
        (support, correct), votes = answers(), self.votes()
        found = fitted(support, correct, votes, **self.SETTINGS)
        z = logit(np.clip(support, EPS, 1 - EPS))

        def negative_log_density(t: np.ndarray) -> float:
            score = t[0] + t[1] * z + t[2] * (votes.agreement - z) + t[3] * votes.missing
            prior = ((t - [0, 1, 0, 0]) ** 2).sum() / 0.7**2
            return float(np.logaddexp(0, np.where(correct, -score, score)).sum() + prior / 2)

        theirs = optimize.minimize(negative_log_density, [0, 1, 0, 0], method="BFGS", options={"gtol": 1e-7})
        ours = [found.coefficients[name].item() for name in ("intercept", "slope", "agreement", "missing")]
        np.testing.assert_allclose(ours, theirs.x, atol=1e-5)

    def test_what_a_fit_makes_of_them(self) -> None:
        (support, correct), votes = answers(), self.votes()
        found = fitted(support, correct, votes, **self.SETTINGS)
        a, b, c, d = (found.coefficients[name].item() for name in ("intercept", "slope", "agreement", "missing"))
        z = logit(np.clip(support, EPS, 1 - EPS))
        expected = expit(a + b * z + c * (votes.agreement - z) + d * votes.missing)
        np.testing.assert_allclose(found(support[None], votes)[0], expected, rtol=1e-12)
        np.testing.assert_allclose(found(support[None])[0], expit(a + b * z), rtol=1e-12)
        again = from_dataset(xr.Dataset.from_dict(found.to_dataset().to_dict()))
        assert (again(support[None], votes) == found(support[None], votes)).all()

    def test_votes_that_say_nothing_change_nothing(self) -> None:
        support, correct = answers()
        z = logit(np.clip(support, EPS, 1 - EPS))
        found = fitted(support, correct, Votes(z, np.zeros(300)), **self.SETTINGS)
        without = fitted(support, correct, scale=0.7)
        assert found.coefficients["agreement"].item() == pytest.approx(0, abs=1e-9)
        assert found.coefficients["missing"].item() == pytest.approx(0, abs=1e-9)
        for name, value in without.coefficients.items():
            np.testing.assert_allclose(found.coefficients[name], value, rtol=1e-7)

    def test_only_platt_has_them(self) -> None:
        assert RecalibrationSettings(**self.SETTINGS).terms == ("intercept", "slope", "agreement", "missing")
        assert RecalibrationSettings(**self.SETTINGS, method="release").terms == ("intercept", "slope")
        assert fitted(*answers(), self.votes(), **self.SETTINGS, method="isotonic").method == "isotonic"


def test_by_hand() -> None:
    candidate = np.array([[0, 0, 1, -1, -1], [0, 0, 0, -1, 0], [-1, -1, -1, -1, -1], [2, 1, -1, 0, 1]])
    votes = Votes.of(candidate, np.array([0, 0, -1, 0]))
    np.testing.assert_allclose(votes.agreement, np.log([2.5 / 1.5, 4.5 / 0.5, 0.5 / 0.5, 1.5 / 3.5]))
    np.testing.assert_allclose(votes.missing, [0.4, 0.2, 1.0, 0.2])


def test_a_batch_of_selections() -> None:
    candidate = np.array([[0, 0, 1], [1, 0, -1]])
    selected = np.array([[0, 1], [1, 0], [1, 1]])
    votes = Votes.of(candidate, selected)
    for row, own in enumerate(selected):
        alone = Votes.of(candidate, own)
        assert (votes.agreement[row] == alone.agreement).all()
        assert (votes.missing[row] == alone.missing).all()


@given(
    st.lists(st.lists(st.integers(-1, 3), min_size=4, max_size=4), min_size=1, max_size=6), st.permutations(range(4))
)
def test_the_order_of_levels_and_the_names_of_candidates_mean_nothing(rows: list[list[int]], order: list[int]) -> None:
    candidate = np.array(rows)
    selected = candidate.max(axis=1)
    votes = Votes.of(candidate, selected)
    moved = Votes.of(candidate[:, order], selected)
    names = np.array([2, 0, 3, 1, -1])  # the last is looked up by -1
    renamed = Votes.of(names[candidate], names[selected])
    for other in (moved, renamed):
        np.testing.assert_array_equal(other.agreement, votes.agreement)
        np.testing.assert_array_equal(other.missing, votes.missing)
    assert (np.isfinite(votes.agreement) & (votes.missing >= 0) & (votes.missing <= 1)).all()
