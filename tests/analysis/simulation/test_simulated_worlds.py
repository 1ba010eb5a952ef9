"""Simulated worlds: truth from the prior, labels from the truth."""

import numpy as np
import pytest

from analysis.simulation.simulated_worlds import Worlds, draw_worlds, misfitting, right_levels, world_support
from bayes_direag.model.evidence import Reports
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.presets import preset
from bayes_direag.model.simulate import simulate_observations
from tests.bayes_direag import brute_force

BAYES = preset("bayes")
REPORTS = Reports(
    logit_confidence=np.array([[2.2, 0.0, 0.8], [-1.4, 0.0, 6.0]]),
    candidate=np.array([[0, 1, 0], [0, -1, 0]]),
    n_candidates=np.array([2, 1]),
)


def test_labels_say_who_gave_what_came_true() -> None:
    target = np.array([[0, 0], [1, -1]])
    assert right_levels(REPORTS.candidate, target).tolist() == [
        [[True, False, True], [True, False, True]],
        [[False, True, False], [False, False, False]],
    ]


def test_nobody_is_right_under_the_null_though_silent() -> None:
    """Silence and the null are both written -1."""
    assert not right_levels(REPORTS.candidate, np.array([[-1, -1]])).any()


class TestMisfit:
    def test_by_hand(self) -> None:
        support = np.array([[[0.8, 0.05, 0.0, 0.15]]])
        found = misfitting(support, np.array([np.log(2)]), np.array([0.5]))
        first = 1 / (1 + 1 / (2 * np.sqrt(0.8 / 0.2)))  # odds of 4 become 2 sqrt(4)
        np.testing.assert_allclose(found, [[[first, (1 - first) * 0.25, 0, (1 - first) * 0.75]]], rtol=1e-12)

    def test_the_identity(self) -> None:
        support = np.random.default_rng(0).dirichlet(np.ones(4), (3, 5))
        np.testing.assert_allclose(misfitting(support, np.zeros(3), np.ones(3)), support, rtol=1e-10)

    def test_the_null_is_never_foremost(self) -> None:
        found = misfitting(np.array([[[0.1, 0.2, 0.7]]]), np.array([1.0]), np.array([1.0]))
        assert found[0, 0, 1] == pytest.approx(1 / (1 + 4 / np.e))
        assert found.sum() == pytest.approx(1)


OBSERVATIONS = simulate_observations(12, seed=1)
N = 500


def drawn(seed: int, misfit: float = 0.0) -> Worlds:
    return draw_worlds(LikelihoodData.of(OBSERVATIONS, preset=BAYES), N, seed=seed, misfit=misfit)


def supports(worlds: Worlds) -> np.ndarray:
    return world_support(worlds, Reports.of(OBSERVATIONS, BAYES.eps), preset=BAYES, variant="confidence")


@pytest.mark.parametrize("misfit", [0.0, 0.5])
def test_worlds_follow_prior_and_model(misfit: float) -> None:
    worlds = drawn(2, misfit)
    for name, (mean, sd) in brute_force.raw_priors(worlds.raw, BAYES, len(OBSERVATIONS)).items():
        values = worlds.raw[name]
        assert values.shape[0] == N
        assert abs(values.mean() - mean) < 4 * sd / np.sqrt(values.size)
        assert values.std() == pytest.approx(sd, rel=4 / np.sqrt(2 * values.size))
    if misfit:
        assert worlds.intercept.std() == pytest.approx(misfit, rel=0.15)
        assert worlds.slope.mean() == pytest.approx(1, abs=0.1)
    else:
        assert (worlds.intercept == 0).all()
        assert (worlds.slope == 1).all()

    support = supports(worlds)
    came_true = worlds.target[:, :, None] == np.array([0, 1, 2, 3, 4, -1])
    gap = came_true - support
    noise = np.sqrt((support * (1 - support)).sum(axis=(0, 1)))
    assert (np.abs(gap.sum(axis=(0, 1))) < 4 * noise + 1e-9).all()
    # the support tells worlds and questions apart, too
    assert abs((gap * support).sum()) < 5 * np.sqrt((support**3 * (1 - support)).sum())


def test_the_support_is_the_models() -> None:
    worlds = drawn(2)
    found = supports(worlds)
    for world in range(3):
        values = brute_force.natural({name: value[world] for name, value in worlds.raw.items()}, BAYES)
        for question, own in enumerate(OBSERVATIONS.candidates):
            scores = brute_force.scores(brute_force.reports_of(OBSERVATIONS, question), values, BAYES.eps)
            expected = brute_force.support(scores)
            padded = [*(expected[answer] for answer in own), *[0.0] * (5 - len(own)), expected[brute_force.NULL]]
            np.testing.assert_allclose(found[world, question], padded, rtol=1e-10)


def test_equal_seeds_give_equal_worlds() -> None:
    first, again, other = drawn(2, 0.5), drawn(2, 0.5), drawn(3, 0.5)
    assert (first.target == again.target).all()
    assert (first.raw["weight"] == again.raw["weight"]).all()
    assert (first.raw["weight"] != other.raw["weight"]).all()
