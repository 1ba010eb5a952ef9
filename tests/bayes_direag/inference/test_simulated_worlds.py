"""The check of sampler and intervals in simulated worlds: what it says of `fit_nuts`, and that it finds wrong draws."""

import numpy as np
import pandas as pd
import pytest

from bayes_direag import LikelihoodData, Observations, simulate_observations
from bayes_direag.model.settings import SamplingSettings
from tests.benchmarks.simulated_worlds import N_RANKED, compared, draw_worlds, uniformity

SHORT = SamplingSettings(num_chains=2, num_warmup=250, num_samples=250)
N_ASKED = 40


@pytest.mark.parametrize(
    ("shift", "width"), [(0.5, 1.0), (-0.5, 1.0), (0.0, 0.6), (0.0, 1.6)], ids=["high", "low", "narrow", "wide"]
)
def test_wrong_draws_are_found(shift: float, width: float) -> None:
    """A posterior off by that many of its own deviations is found among 21 quantities."""
    rng, n = np.random.default_rng(1), 200
    truth, drawn = rng.normal(size=n), shift + width * rng.normal(size=(n, N_RANKED))
    ranks = pd.DataFrame({"wrong": (drawn < truth[:, None]).sum(axis=1), "right": rng.integers(N_RANKED + 1, size=n)})
    result = uniformity(ranks)["p"]
    assert 21 * result["wrong"] < 0.01 < result["right"]


@pytest.fixture(scope="module")
def questions() -> tuple[Observations, Observations]:
    """Questions to learn from, and others to predict."""
    observations = simulate_observations(N_ASKED + 200, seed=1)
    observations = observations.select(observations.answered)
    return observations.select(slice(0, N_ASKED)), observations.select(slice(N_ASKED, None))


@pytest.mark.slow
@pytest.mark.usefixtures("optimised")
def test_sampler_and_intervals_are_right(questions: tuple[Observations, Observations]) -> None:
    worlds = draw_worlds(LikelihoodData.of(questions[0], preset="bayes"), 60, seed=1)
    comparisons = list(compared(worlds, *questions, sampling=SHORT))
    table = uniformity(pd.DataFrame([world.ranks for world in comparisons]))
    assert len(table) == 2 * 5 + 8 + 3
    assert table["p_adjusted"].min() > 0.01, table
    assert sum(world.diverged for world in comparisons) <= 3
    by_method = pd.concat([world.coverage for world in comparisons]).groupby(level=0)
    mean, error = by_method.mean(), by_method.sem()
    units = ["questions", "bins"]
    assert (error[units] < 0.04).all(axis=None)
    assert (np.abs(mean.loc["none", units] - 0.9) < 3 * error.loc["none", units]).all(), mean
    assert (mean.loc["platt", units] > 0.9 - 2 * error.loc["platt", units]).all(), mean


@pytest.mark.slow
@pytest.mark.usefixtures("optimised")
def test_simulated_worlds_find_a_wrong_prior(questions: tuple[Observations, Observations]) -> None:
    """The bias of the worlds lies two prior standard deviations above what the fit expects."""
    shifted = {"bias": np.random.default_rng(2).normal(4.0, 2.0, 20)}
    worlds = draw_worlds(LikelihoodData.of(questions[0], preset="bayes"), 20, seed=5, given=shifted)
    comparisons = compared(worlds, *questions, sampling=SHORT)
    assert uniformity(pd.DataFrame([world.ranks for world in comparisons]))["p_adjusted"].min() < 0.01
