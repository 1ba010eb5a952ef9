"""Ranks and the test of their uniformity against exact posteriors; coverage against worlds worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from analysis.simulation import ranks_and_coverage
from analysis.simulation.ranks_and_coverage import (
    Placement,
    RankCheck,
    Worlds,
    autocorrelation,
    check_ranks,
    coverage,
    draw_worlds,
    ecdf_band,
    place_truth,
    quantities,
    ranks,
    uniformity_p_value,
    world_support,
)
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.nuts import Draws, draws_for_each
from bayes_direag.inference.recalibration import Outcomes
from bayes_direag.model.evidence import Reports
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.presets import preset
from bayes_direag.model.selection import LogisticRecalibration
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations
from tests.analysis import fits
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
        low, high = found.band()
        share = (found.ranks.to_numpy()[:, :, None] <= np.arange(RANKED)).mean(axis=0)
        assert ((share >= low) & (share <= high)).all()

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


BAYES = preset("bayes")
PLAIN = BAYES.override(recalibration={"method": "none"})
FITTED, FRESH = simulate_observations(12, seed=1), simulate_observations(150, seed=2)
N_WORLDS, N_DRAWS = 40, 100


def drawn(seed: int) -> Worlds:
    return draw_worlds(LikelihoodData.of(FITTED, preset=BAYES), 500, seed=seed)


@pytest.fixture(scope="module")
def many() -> Worlds:
    return drawn(1)


@pytest.fixture(scope="module")
def worlds(many: Worlds) -> Worlds:
    return Worlds({name: value[:N_WORLDS] for name, value in many.raw.items()}, many.target[:N_WORLDS])


def test_worlds_follow_prior_and_model(many: Worlds) -> None:
    for name, (mean, sd) in brute_force.raw_priors(many.raw, BAYES, len(FITTED)).items():
        values = many.raw[name]
        assert values.shape[0] == 500
        assert abs(values.mean() - mean) < 4 * sd / np.sqrt(values.size)
        assert values.std() == pytest.approx(sd, rel=4 / np.sqrt(2 * values.size))
    support = world_support(many, Reports.of(FITTED, BAYES.eps), preset=BAYES, variant="confidence")
    for world in range(3):
        values = brute_force.natural({name: value[world] for name, value in many.raw.items()}, BAYES)
        for question, own in enumerate(FITTED.candidates):
            scores = brute_force.scores(brute_force.reports_of(FITTED, question), values, BAYES.eps)
            expected = brute_force.support(scores)
            padded = [*(expected[answer] for answer in own), *[0.0] * (5 - len(own)), expected[brute_force.NULL]]
            np.testing.assert_allclose(support[world, question], padded, rtol=1e-10)
    occurred = many.target[:, :, None] == np.array([0, 1, 2, 3, 4, -1])
    gap = occurred - support
    noise = np.sqrt((support * (1 - support)).sum(axis=(0, 1)))
    assert (np.abs(gap.sum(axis=(0, 1))) < 4 * noise + 1e-9).all()
    # the support tells worlds and questions apart, too
    assert abs((gap * support).sum()) < 5 * np.sqrt((support**3 * (1 - support)).sum())
    again, other = drawn(1), drawn(2)
    assert (many.target == again.target).all()
    assert (many.raw["weight"] == again.raw["weight"]).all()
    assert (many.raw["weight"] != other.raw["weight"]).all()


@pytest.fixture(scope="module")
def ignorant() -> Draws:
    """Draws from the prior for every world: the posterior of one who has seen no label."""
    rng = np.random.default_rng(5)
    shapes = {name: (N_WORLDS, N_DRAWS, *np.shape(value)) for name, value in fits.CENTRE.items()}
    priors = brute_force.raw_priors(fits.CENTRE, BAYES, len(FITTED))
    raw = {name: rng.normal(*priors[name], shape) for name, shape in shapes.items()}
    return Draws(raw, {"lp": np.zeros((N_WORLDS, N_DRAWS))})


@pytest.fixture(scope="module")
def told() -> list[str]:
    return []


@pytest.fixture(scope="module")
def placed(worlds: Worlds, ignorant: Draws, told: list[str]) -> dict[str, Placement]:
    return place_truth(worlds, ignorant, FITTED, FRESH, preset=PLAIN, variant="confidence", on_step=told.append)


def narrowed(draws: Draws, scale: float) -> Draws:
    raw = {name: value.mean(axis=1, keepdims=True) * (1 - scale) + scale * value for name, value in draws.raw.items()}
    return draws._replace(raw=raw)


class TestWithoutLabels:
    """The truth is one more draw from the prior, so that every interval covers at its level."""

    def test_intervals_cover(self, placed: dict[str, Placement], told: list[str]) -> None:
        assert list(placed) == ["none"]
        table = coverage(placed)
        assert (np.abs(table["coverage"] - table["level"]) < 3 * table["error"]).all()
        assert table["error"].max() < 0.1
        assert placed["none"].question.shape == (N_WORLDS, len(FRESH))
        assert told[0] == f"predicting in world 1 of {N_WORLDS}"
        assert len(told) == N_WORLDS

    def test_narrow_ones_do_not(self, worlds: Worlds, ignorant: Draws) -> None:
        narrow = narrowed(ignorant, 0.4)
        table = coverage(place_truth(worlds, narrow, FITTED, FRESH, preset=PLAIN, variant="confidence"))
        assert (table["coverage"] < table["level"] - 3 * table["error"]).all()


def test_what_it_places_is_what_predict_gives(worlds: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its intervals hold the truth where the placement says so, and the final calibration is given what it should."""
    seen: list[Outcomes] = []
    raw = fits.gaussian_draws(3, spread=0.3, n_chains=1, n_draws=400)
    noise = np.random.default_rng(0).normal(size=(2, 1, 400))
    coefficients = {"intercept": 0.3 + 0.4 * noise[0], "slope": 0.8 + 0.2 * noise[1]}
    final = LogisticRecalibration("platt", coefficients, 1e-6)

    def given(outcomes: Outcomes, *_: object) -> LogisticRecalibration:
        seen.append(outcomes)
        return final

    monkeypatch.setattr(ranks_and_coverage, "draw_recalibration", given)
    one = Worlds({name: value[:1] for name, value in worlds.raw.items()}, worlds.target[:1])
    draws = Draws(raw, {"lp": np.zeros((1, 400))})
    placed = place_truth(one, draws, FITTED, FRESH, preset=BAYES, variant="confidence")

    target = one.target[0]
    assert (target == -1).any()
    labelled = replace(
        FITTED,
        correct=np.array([own == t if t >= 0 else own > 9 for own, t in zip(FITTED.candidate, target, strict=True)]),
    )
    fit = fits.made_posterior(labelled, raw)
    (outcomes,) = seen
    n = len(fit.tree["loo"]["support"])
    np.testing.assert_allclose(outcomes.support[0, :n], fit.tree["loo"]["support"], atol=0.01)
    assert (outcomes.right[0, :n] == fit.tree["loo"]["correct"].to_numpy()).all()
    assert (outcomes.weight == 0.5).all()

    truth = world_support(one, Reports.of(FRESH, BAYES.eps), preset=BAYES, variant="confidence")[0]
    for method in ("none", "platt"):
        fit.tree["recalibration"] = xr.DataTree(replace(final, method=method).to_dataset())
        predicted = Fit(fit.tree).predict(FRESH)
        answers = zip(FRESH.candidates, predicted["answer"], strict=True)
        candidate = [own.index(answer) for own, answer in answers]
        right = truth[np.arange(len(FRESH)), candidate]
        low, high = predicted["confidence_low"].to_numpy(), predicted["confidence_high"].to_numpy()
        share = placed[method].question[0]
        clear = np.abs(np.abs(share - 0.5) - 0.45) > 0.01
        assert (((low <= right) & (right <= high)) == (np.abs(share - 0.5) <= 0.45))[clear].all()
        assert clear.mean() > 0.5
        assert (share[low > right] < 0.5).all(), "the truth lies below"
        assert (share[high < right] > 0.5).all()
        assert ((low > right) | (high < right)).any()
        assert placed[method].width[0] == pytest.approx((high - low).mean(), rel=1e-9)
        expected = np.sqrt(np.mean((predicted["confidence"].to_numpy() - right) ** 2))
        assert placed[method].error[0] == pytest.approx(expected, rel=1e-9)


class TestTable:
    def test_by_hand(self) -> None:
        share = np.array([[0.5, 0.96, 0.04, 0.2], [0.5, 0.5, 0.5, 0.01]])
        bins = np.array([[np.nan, 0.5], [np.nan, np.nan]])
        placed = Placement(share, bins, np.array([0.2, 0.4]), np.array([0.1, 0.3]))
        table = coverage({"none": placed}, levels=(0.9, 0.5))
        assert table["unit"].tolist() == ["question", "question", "bin", "bin"]
        np.testing.assert_allclose(table["coverage"], [(0.5 + 0.75) / 2, (0.25 + 0.75) / 2, 1, 1])
        np.testing.assert_allclose(table["error"][:2], [0.125, 0.25])
        assert table["error"][2:].isna().all()
        assert table["n_worlds"].tolist() == [2, 2, 1, 1]
        np.testing.assert_allclose(table["mean_width"], 0.3)
        np.testing.assert_allclose(table["rmse"], 0.2)

    def test_without_any_bin(self) -> None:
        placed = Placement(np.full((2, 3), 0.5), np.full((2, 2), np.nan), np.zeros(2), np.zeros(2))
        table = coverage({"none": placed}, levels=(0.9,)).set_index("unit")
        assert np.isnan(table.loc["bin", "coverage"])
        assert table.loc["bin", "n_worlds"] == 0


def test_bins(worlds: Worlds, ignorant: Draws, placed: dict[str, Placement]) -> None:
    """A bin's draws are its questions' mean probabilities; one of fewer than 20 questions says nothing."""
    bins = placed["none"].bin
    own = int(np.isfinite(bins).sum(axis=1).argmax())
    truth = world_support(worlds, Reports.of(FRESH, BAYES.eps), preset=BAYES, variant="confidence")
    one = {name: value[own] for name, value in ignorant.raw.items()}
    every = Worlds(one, np.zeros((N_DRAWS, 1), int))
    support = world_support(every, Reports.of(FRESH, BAYES.eps), preset=BAYES, variant="confidence")
    chosen = support.mean(axis=0)[:, :-1].argmax(axis=1)
    rows = np.arange(len(FRESH))
    mean, draws = support.mean(axis=0)[rows, chosen], support[:, rows, chosen]
    right = truth[own, rows, chosen]
    assert np.isfinite(bins[own]).sum() > 1
    for number, found in enumerate(bins[own]):
        mine = (mean >= number / 10) & (mean < (number + 1) / 10)
        if mine.sum() < 20:
            assert np.isnan(found)
        else:
            assert found == np.mean(draws[:, mine].mean(axis=1) < right[mine].mean())
