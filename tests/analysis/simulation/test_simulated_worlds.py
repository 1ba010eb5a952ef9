"""Simulated worlds: truth from the prior, labels from the truth."""

import numpy as np
import pytest

from analysis.simulation.simulated_worlds import Worlds, draw_worlds, right_levels, world_support
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


def test_labels_say_who_gave_what_occurred() -> None:
    target = np.array([[0, 0], [1, -1]])
    assert right_levels(REPORTS.candidate, target).tolist() == [
        [[True, False, True], [True, False, True]],
        [[False, True, False], [False, False, False]],
    ]


def test_nobody_is_right_under_the_null_though_silent() -> None:
    """Silence and the null are both written -1."""
    assert not right_levels(REPORTS.candidate, np.array([[-1, -1]])).any()


OBSERVATIONS = simulate_observations(12, seed=1)
N = 500


def drawn(seed: int) -> Worlds:
    return draw_worlds(LikelihoodData.of(OBSERVATIONS, preset=BAYES), N, seed=seed)


def supports(worlds: Worlds) -> np.ndarray:
    return world_support(worlds, Reports.of(OBSERVATIONS, BAYES.eps), preset=BAYES, variant="confidence")


def test_worlds_follow_prior_and_model() -> None:
    worlds = drawn(2)
    for name, (mean, sd) in brute_force.raw_priors(worlds.raw, BAYES, len(OBSERVATIONS)).items():
        values = worlds.raw[name]
        assert values.shape[0] == N
        assert abs(values.mean() - mean) < 4 * sd / np.sqrt(values.size)
        assert values.std() == pytest.approx(sd, rel=4 / np.sqrt(2 * values.size))

    support = supports(worlds)
    occurred = worlds.target[:, :, None] == np.array([0, 1, 2, 3, 4, -1])
    gap = occurred - support
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
    first, again, other = drawn(2), drawn(2), drawn(3)
    assert (first.target == again.target).all()
    assert (first.raw["weight"] == again.raw["weight"]).all()
    assert (first.raw["weight"] != other.raw["weight"]).all()
