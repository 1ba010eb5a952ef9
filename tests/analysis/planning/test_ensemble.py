"""Posteriors narrowed by labels to come, against conjugate ones; and the choice of questions, against brute force."""

import numpy as np
import pytest
from scipy.special import expit

from analysis.planning.ensemble import (
    equally_telling,
    futures,
    information,
    logistic_scores,
    most_telling,
    narrowed,
    outcome_scores,
)


def coin_draws(a: float, b: float, n: int = 200, seed: int = 1) -> np.ndarray:
    """Return draws of the probability of a coin, as (sample, question, state)."""
    p = np.random.default_rng(seed).beta(a, b, n)
    return np.stack([p, 1 - p], axis=1)[:, None, :]


@pytest.mark.parametrize(("a", "b"), [(3.0, 5.0), (20.0, 4.0)])
@pytest.mark.parametrize("k", [0, 10, 300])
def test_a_coin_narrows_as_the_beta_posterior_does(a: float, b: float, k: int) -> None:
    """The expected posterior variance of a Beta(a, b) after k tosses is the prior's times (a + b) / (a + b + k)."""
    draws = coin_draws(a, b)
    learned = information(outcome_scores(draws))
    after = narrowed(draws[:, 0, 0], learned, k)
    # a prior of a + b + 1 tosses is what a normal approximation makes of it
    kept = (a + b + 1) / (a + b + 1 + k)
    assert after.var() / draws[:, 0, 0].var() == pytest.approx(kept, rel=0.1)
    assert after.mean() == pytest.approx(draws[:, 0, 0].mean())


def test_a_logistic_regression_narrows_as_its_fisher_information_says() -> None:
    rng = np.random.default_rng(2)
    covariance = np.array([[0.04, 0.01], [0.01, 0.02]])
    draws = rng.multivariate_normal([0.3, 1.0], covariance, 300)
    z = rng.normal(1.0, 1.5, 200)
    p = expit(0.3 + z)
    learned = information(logistic_scores(draws[:, :1] + draws[:, 1:] * z, p))
    design = np.stack([np.ones_like(z), z], axis=1)
    fisher = (design.T * (p * (1 - p))) @ design / len(z)
    for k in (0, 50, 1000):
        expected = np.linalg.inv(np.linalg.inv(np.cov(draws.T)) + k * fisher)
        assert np.cov(narrowed(draws, learned, k).T) == pytest.approx(expected, rel=1e-6)


def test_what_the_questions_do_not_tell_stays_as_it_is() -> None:
    told, untold = np.random.default_rng(3).normal(size=(2, 200))
    told, untold = told - told.mean(), untold - untold.mean()
    untold -= told * (told @ untold) / (told @ told)  # uncorrelated to the last digit, in the sample itself
    probability = expit(told * 0.05)
    learned = information(outcome_scores(np.stack([probability, 1 - probability], axis=1)[:, None, :]))
    after = narrowed(np.stack([told, untold], axis=1), learned, 100_000)
    assert after[:, 0].std() < 0.5 * told.std()
    assert after[:, 1] == pytest.approx(untold, abs=0.01)


def test_no_label_changes_nothing_and_more_labels_narrow_more() -> None:
    draws = coin_draws(2, 3)
    quantities = np.random.default_rng(1).normal(size=(200, 4, 2)) + draws
    learned = information(outcome_scores(draws))
    assert narrowed(quantities, learned, 0) == pytest.approx(quantities)
    spreads = [narrowed(quantities, learned, k).var(axis=0).sum() for k in (0, 5, 50, 500)]
    assert (np.diff(spreads) < 0).all()
    wider = np.concatenate([draws, np.zeros((200, 1, 3))], axis=2)  # states that never occur
    assert information(outcome_scores(wider)).value == pytest.approx(learned.value)


@pytest.mark.parametrize("k", [0, 20, 2000])
def test_futures_vary_as_the_draws_do_and_expectations_as_labels_teach(k: int) -> None:
    draws = coin_draws(6, 4)
    learned = information(outcome_scores(draws))
    expected, true = futures(draws[:, 0, :1], learned, k, 4_000, np.random.default_rng(1))
    left = narrowed(draws[:, 0, 0], learned, k).var()
    assert true.var() == pytest.approx(draws[:, 0, 0].var(), rel=0.06)
    assert (true - expected).var() == pytest.approx(left, rel=0.06)
    assert expected.var() == pytest.approx(draws[:, 0, 0].var() - left, rel=0.06, abs=1e-6)


def made_scores(seed: int, n: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    matters = rng.normal(size=(7, 5))
    return rng.normal(size=(n, 3, 5)) * rng.random((n, 1, 1)), matters.T @ matters / 7


@pytest.mark.parametrize("seed", range(3))
def test_questions_are_chosen_by_what_they_tell_together(seed: int) -> None:
    scores, aim = made_scores(seed)
    chosen, gain = most_telling(scores, aim, 5)

    def variance(rows: list[int]) -> float:
        precision = np.eye(5) + sum((scores[row].T @ scores[row] for row in rows), np.zeros((5, 5)))
        return float(np.trace(aim @ np.linalg.inv(precision)))

    before: list[int] = []
    for question, own in zip(chosen.tolist(), gain, strict=True):
        gains = {row: variance(before) - variance([*before, row]) for row in range(len(scores)) if row not in before}
        assert question == max(gains, key=lambda row: gains[row])
        assert own == pytest.approx(gains[question])
        before.append(question)


def test_worth_is_counted_in_labels_of_random_questions() -> None:
    """Of questions that are all alike, one is worth one."""
    draws = np.repeat(coin_draws(3, 4, 60), 8, axis=1)
    scores = outcome_scores(draws)
    learned = information(scores)
    told = learned.value > 1e-4 * learned.value.max()
    aim = np.ones((1, 1))
    _, gain = most_telling(scores @ learned.direction[:, told], aim, 8)
    worth = equally_telling(np.cumsum(gain), learned.value[told], aim)
    assert worth == pytest.approx(np.arange(1, 9))
    assert equally_telling(np.array([0.0, 2.0]), learned.value[told], aim).tolist() == [0.0, np.inf]
