"""Simulation-based calibration: ranks, the test of their uniformity, its size and power, and exact posteriors."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.simulation.interval_coverage import Worlds
from analysis.simulation.simulation_based_calibration import (
    RankCheck,
    autocorrelation,
    check_ranks,
    ecdf_band,
    quantities,
    ranks,
    uniformity_p_value,
)
from bayes_direag.errors import DirEAGError
from bayes_direag.inference.nuts import Draws, draws_for_each
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.presets import preset
from bayes_direag.model.settings import SamplingSettings
from tests.bayes_direag import brute_force, one_level

N, RANKED = 200, 99


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class TestRanks:
    def test_by_hand(self) -> None:
        drawn = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [np.nan, np.nan, np.nan]])
        assert ranks(np.array([0.0, 2.5, 9.0, 1.0]), drawn, rng()).tolist() == [0, 2, 3, 0]

    def test_equal_values_are_put_in_random_order(self) -> None:
        found = ranks(np.ones(4000), np.tile([0.0, 1.0, 1.0, 5.0], (4000, 1)), rng())
        share = np.bincount(found, minlength=5) / 4000
        np.testing.assert_allclose(share, [0, 1 / 3, 1 / 3, 1 / 3, 0], atol=0.03)


class TestAutocorrelation:
    def test_of_an_autoregression(self) -> None:
        noise = rng().normal(size=(50, 2000))
        drawn = np.zeros((50, 2000))
        for t in range(1, 2000):
            drawn[:, t] = 0.6 * drawn[:, t - 1] + noise[:, t]
        assert autocorrelation(drawn + 100 * np.arange(50)[:, None]) == pytest.approx(0.6, abs=0.02)
        assert np.isnan(autocorrelation(np.ones((3, 4))))


class TestUniformity:
    def test_its_size(self) -> None:
        """Under uniform ranks the p-value is at most p with probability p."""
        found = np.array([uniformity_p_value(rng(seed).integers(0, RANKED + 1, N), RANKED) for seed in range(800)])
        for p in (0.01, 0.05, 0.2, 0.5):
            assert np.mean(found <= p) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 800) + 0.002)

    def test_against_brute_force(self) -> None:
        """With few simulations of few draws every outcome can be counted."""
        n, n_ranked = 3, 4
        outcomes = np.stack(np.meshgrid(*[np.arange(n_ranked + 1)] * n), axis=-1).reshape(-1, n)

        def smallest(outcome: np.ndarray) -> float:
            tails = []
            for rank in range(n_ranked):
                count = int((outcome <= rank).sum())
                binomial = stats.binom(n, (rank + 1) / (n_ranked + 1))
                tails.append(min(1.0, 2 * binomial.cdf(count), 2 * (1 - binomial.cdf(count - 1))))
            return min(tails)

        statistic = np.array([smallest(outcome) for outcome in outcomes])
        for outcome, own in list(zip(outcomes, statistic, strict=True))[::17]:
            exact = np.mean(statistic <= own + 1e-12)
            assert uniformity_p_value(outcome, n_ranked) == pytest.approx(exact, abs=0.02)

    @pytest.mark.parametrize(
        ("shift", "width"), [(0.5, 1.0), (-0.5, 1.0), (0.0, 0.6), (0.0, 1.6)], ids=["high", "low", "narrow", "wide"]
    )
    def test_its_power(self, shift: float, width: float) -> None:
        """A posterior off by that many of its own deviations is found out, even among 17 quantities."""
        truth, drawn = rng(1).normal(size=N), shift + width * rng(2).normal(size=(N, RANKED))
        assert 17 * uniformity_p_value(ranks(truth, drawn, rng()), RANKED) < 0.01

    def test_a_sound_posterior_passes(self) -> None:
        truth, drawn = rng(1).normal(size=N), rng(2).normal(size=(N, RANKED))
        assert 17 * uniformity_p_value(ranks(truth, drawn, rng()), RANKED) > 0.01


class TestBand:
    @pytest.mark.parametrize("level", [0.9, 0.99])
    def test_holds_uniform_ranks_at_its_level(self, level: float) -> None:
        low, high = ecdf_band(N, RANKED, level)
        drawn = rng(5).integers(0, RANKED + 1, (2000, N))
        share = (drawn[:, :, None] <= np.arange(RANKED)).mean(axis=1)
        inside = ((share >= low - 1e-12) & (share <= high + 1e-12)).all(axis=1)
        assert inside.mean() == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / 2000) + 0.003)

    def test_leaving_it_is_failing_the_test(self) -> None:
        low, high = ecdf_band(N, RANKED, 0.9)
        for seed in range(60):
            own = rng(seed).binomial(RANKED, rng(seed + 1000).beta(1, 1 + seed / 60, N))
            share = (own[:, None] <= np.arange(RANKED)).mean(axis=0)
            inside = bool(((share >= low - 1e-12) & (share <= high + 1e-12)).all())
            p_value = uniformity_p_value(own, RANKED)
            if abs(p_value - 0.1) > 0.001:
                assert inside == (p_value > 0.1)


DATA = LikelihoodData.of(one_level.observations(), preset=one_level.PRESET)


def one_level_worlds(p_lost: float = 0.0) -> tuple[Worlds, Draws, LikelihoodData]:
    """Draw worlds of the one-level problem, and independently from the exact posterior of each.

    Right answers come from the model, but each is lost (the null comes true) with probability ``p_lost``.
    """
    grid, observations = one_level.posterior(), one_level.observations()
    generator = rng(7)
    prior = np.exp(grid.log_prior) / np.exp(grid.log_prior).sum()
    true = generator.choice(len(prior), size=N, p=prior)
    right = generator.random((N, len(observations))) < grid.support[true] * (1 - p_lost)
    density = grid.log_prior + right @ np.log(grid.support).T + ~right @ np.log1p(-grid.support).T
    posterior = np.exp(density - density.max(axis=1, keepdims=True))
    drawn = np.stack([generator.choice(len(own), size=RANKED, p=own / own.sum()) for own in posterior])
    edge = {name: np.diff(np.unique(value))[0] for name, value in grid.raw.items()}

    def at(points: np.ndarray, name: str) -> np.ndarray:
        """Return somewhere in each point's cell, so that no two draws are equal."""
        return (grid.raw[name][points] + edge[name] * generator.uniform(-0.5, 0.5, points.shape))[..., None]

    truth = {name: at(true, name) for name in grid.raw}
    worlds = Worlds(truth, np.where(right, 0, -1))
    draws = Draws({name: at(drawn, name) for name in grid.raw}, {"lp": np.zeros((N, RANKED))})
    return worlds, draws, DATA


@pytest.fixture(scope="module")
def exact() -> tuple[Worlds, Draws, LikelihoodData]:
    return one_level_worlds()


class TestCheck:
    def test_passes_an_exact_posterior(self, exact: tuple[Worlds, Draws, LikelihoodData]) -> None:
        worlds, draws, data = exact
        found = self.checked(worlds, draws, data)
        derived = ["log_joint", "log_likelihood", "null_held_out", "support_held_out"]
        assert found.table["quantity"].tolist() == ["weight[only]", "bias[only]", *derived]
        assert found.ranks.shape == (N, 6)
        assert found.uniform
        assert (found.table["p_adjusted"] == np.minimum(1, 6 * found.table["p_value"])).all()
        assert found.table["autocorrelation"].abs().max() < 0.05
        assert 0 < found.level < 1

    @pytest.mark.parametrize(
        ("centre", "scale"), [(0.5, 1.0), (0.0, 0.6), (0.0, 1.8)], ids=["shifted", "narrow", "wide"]
    )
    def test_finds_a_wrong_posterior(
        self, exact: tuple[Worlds, Draws, LikelihoodData], centre: float, scale: float
    ) -> None:
        worlds, draws, data = exact

        def spoilt(value: np.ndarray) -> np.ndarray:
            mean, sd = value.mean(axis=1, keepdims=True), value.std(axis=1, keepdims=True)
            return mean + centre * sd + scale * (value - mean)

        wrong = draws._replace(raw={name: spoilt(value) for name, value in draws.raw.items()})
        assert not self.checked(worlds, wrong, data).uniform

    def test_finds_that_no_label_was_looked_at(self, exact: tuple[Worlds, Draws, LikelihoodData]) -> None:
        """Draws from the prior rank every parameter evenly; only what depends on the labels tells."""
        worlds, draws, data = exact
        prior = {
            name: rng(3).choice(value[:, 0], size=(N, RANKED))[..., None] + 1e-9 * rng(4).normal(size=(N, RANKED, 1))
            for name, value in worlds.raw.items()
        }
        found = self.checked(worlds, draws._replace(raw=prior), data).table.set_index("quantity")
        assert (found.loc[["weight[only]", "bias[only]", "support_held_out"], "p_adjusted"] > 0.01).all()
        assert found.loc["log_likelihood", "p_adjusted"] < 0.01

    def test_the_joint_density_has_the_prior(self, exact: tuple[Worlds, Draws, LikelihoodData]) -> None:
        worlds, _, data = exact
        raw, one = {name: value[:, None] for name, value in worlds.raw.items()}, data.reports.select(slice(0, 1))
        found = quantities(raw, worlds.target, data, one, level_names=["only"])
        priors = brute_force.raw_priors(raw, one_level.PRESET, 1)
        expected = sum(stats.norm(*priors[name]).logpdf(value[..., 0]) for name, value in raw.items())
        np.testing.assert_allclose(found["log_joint"] - found["log_likelihood"], expected, rtol=1e-9)

    def test_finds_labels_of_another_model(self) -> None:
        assert not self.checked(*one_level_worlds(p_lost=0.15)).uniform

    def test_needs_enough_draws(self, exact: tuple[Worlds, Draws, LikelihoodData]) -> None:
        worlds, draws, data = exact
        few = draws._replace(stats={"lp": np.zeros((N, 50))})
        with pytest.raises(DirEAGError, match="50 draws a simulation: expected at least the 99"):
            self.checked(worlds, few, data)

    @staticmethod
    def checked(worlds: Worlds, draws: Draws, data: LikelihoodData) -> RankCheck:
        return check_ranks(worlds, draws, data, data.reports.select(slice(0, 1)), level_names=["only"], seed=1)


@pytest.fixture(scope="module")
def sampled() -> tuple[Draws, np.ndarray]:
    """NUTS draws for the labels of the one-level problem, and for the opposite ones."""
    observations = one_level.observations()
    given = np.where(observations.gold_generated, 0, -1)
    target = np.stack([given, -1 - given])
    sampling = SamplingSettings(n_warmup=200, n_draws=10_000)
    return draws_for_each(DATA, target, sampling=sampling, seed=1), target


@pytest.mark.slow
class TestDrawsForEach:
    def test_are_from_each_labels_own_posterior(self, sampled: tuple[Draws, np.ndarray]) -> None:
        draws, target = sampled
        grid = one_level.posterior()
        reached = np.log(grid.support), np.log1p(-grid.support)
        for own, labels in enumerate(target):
            density = grid.log_prior + np.where(labels == 0, *reached).sum(axis=1)
            probability = np.exp(density - density.max())
            probability /= probability.sum()
            for name, values in grid.raw.items():
                mean = probability @ values
                sd = np.sqrt(probability @ (values - mean) ** 2)
                found = draws.raw[name][own]
                assert found.mean() == pytest.approx(mean, abs=0.1 * sd)
                assert found.std() == pytest.approx(sd, rel=0.1)

    def test_log_joint_is_what_nuts_has_evaluated(self, sampled: tuple[Draws, np.ndarray]) -> None:
        draws, target = sampled
        last = DATA.reports.select(slice(-1, None))
        found = quantities(draws.raw, target, DATA, last, level_names=["only"])
        np.testing.assert_allclose(found["log_joint"], draws.stats["lp"], rtol=1e-9)
        np.testing.assert_allclose(found["support_held_out"] + found["null_held_out"], 1, rtol=1e-12)
        first = {name: value[0, 0] for name, value in draws.raw.items()}
        scores = brute_force.scores([(0, "7", 1.0)], brute_force.natural(first, one_level.PRESET), one_level.PRESET.eps)
        assert found["support_held_out"][0, 0] == pytest.approx(brute_force.support(scores)["7"], rel=1e-10)

    def test_bounds_are_refused(self) -> None:
        data = LikelihoodData.of(one_level.observations(), preset=preset("release"), variant="count")
        with pytest.raises(DirEAGError, match="within bounds"):
            draws_for_each(data, np.zeros((2, len(data.weight)), int), sampling=SamplingSettings(), seed=0)


def test_ranks_are_a_table_that_can_be_written(exact: tuple[Worlds, Draws, LikelihoodData]) -> None:
    found = TestCheck.checked(*exact)
    assert isinstance(found.ranks, pd.DataFrame)
    assert found.ranks.to_numpy().min() >= 0
    assert found.ranks.to_numpy().max() <= RANKED
    low, high = found.band()
    share = (found.ranks.to_numpy()[:, :, None] <= np.arange(RANKED)).mean(axis=0)
    assert ((share >= low) & (share <= high)).all()
