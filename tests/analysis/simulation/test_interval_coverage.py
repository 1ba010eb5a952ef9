"""Worlds with truth from the prior; coverage of intervals there, and against what Fit.predict says."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from analysis.simulation import interval_coverage
from analysis.simulation.interval_coverage import Placement, Worlds, coverage, draw_worlds, place_truth, world_support
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.nuts import Draws
from bayes_direag.inference.recalibration import Outcomes
from bayes_direag.model.evidence import Reports
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.presets import preset
from bayes_direag.model.selection import LogisticRecalibration
from bayes_direag.model.simulate import simulate_observations
from tests.analysis import fits
from tests.bayes_direag import brute_force

BAYES = preset("bayes")
PLAIN = BAYES.override(recalibration={"method": "none"})
FITTED, FRESH = simulate_observations(12, seed=1), simulate_observations(150, seed=2)
N, N_DRAWS = 40, 100


def drawn(seed: int) -> Worlds:
    return draw_worlds(LikelihoodData.of(FITTED, preset=BAYES), 500, seed=seed)


@pytest.fixture(scope="module")
def many() -> Worlds:
    return drawn(1)


@pytest.fixture(scope="module")
def worlds(many: Worlds) -> Worlds:
    return Worlds({name: value[:N] for name, value in many.raw.items()}, many.target[:N])


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
    shapes = {name: (N, N_DRAWS, *np.shape(value)) for name, value in fits.CENTRE.items()}
    priors = brute_force.raw_priors(fits.CENTRE, BAYES, len(FITTED))
    raw = {name: rng.normal(*priors[name], shape) for name, shape in shapes.items()}
    return Draws(raw, {"lp": np.zeros((N, N_DRAWS))})


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
        assert placed["none"].question.shape == (N, len(FRESH))
        assert told[0] == f"predicting in world 1 of {N}"
        assert len(told) == N

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

    monkeypatch.setattr(interval_coverage, "draw_recalibration", given)
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
