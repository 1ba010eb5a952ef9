"""How different levels are, as a MAP learns it."""

from collections.abc import Sequence

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from scipy.special import logsumexp

from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map, fit_map_batch
from bayes_direag.inference.map import map_estimates
from bayes_direag.inference.spreads import learned_spreads, map_with_spreads, spread_intervals
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.simulate import simulate_observations
from tests.bayes_direag import one_level


def panel(skills: Sequence[float], n: int, *, groups: bool = False) -> Observations:
    """Return questions with two options, that each level answers rightly with its own probability."""
    rng = np.random.default_rng(0)
    questions = []
    for number in range(n):
        right = "AB"[rng.integers(2)]
        said = [right if rng.random() < skill else {"A": "B", "B": "A"}[right] for skill in skills]
        reports = tuple(
            Observation(level=level, level_name=f"level {level}", answer=answer, group="runs" if groups else None)
            for level, answer in enumerate(said)
        )
        questions.append(Question(problem_id=f"{number}", gold_answer=right, observations=reports))
    return Observations.from_questions(questions, answers="choice")


ALIKE, UNLIKE = panel([0.75] * 8, 300), panel(np.linspace(0.5, 0.97, 8), 300)
#: Without agreement, which explains the differences of these panels.
PRESET = PRESETS["bayes"].override(weight_agreement=None, vote_agreement=None)


@pytest.fixture(scope="module")
def fits() -> dict[str, Fit]:
    return {"alike": fit_map(ALIKE, preset=PRESET), "unlike": fit_map(UNLIKE, preset=PRESET)}


def test_the_evidence_is_that_of_quadrature_up_to_the_error_of_laplace() -> None:
    """One pooled level: offset and centre by Gauss-Hermite quadrature, whose weights are the priors."""
    preset = PRESET.override(
        null_base={"fixed": 0.5},
        weight={"loc": 1.0, "scale": 0.8},
        sharpness={"fixed": 1.3},
        vote=None,
        vote_spread=None,
    )
    asked = one_level.observations()
    spread = np.array([0.1, 0.3, 0.6, 1.2])
    given = {"weight_spread": np.log(spread)}
    weight = np.ones((4, len(asked)))
    found = map_estimates(asked, weight, preset=preset, variant="count", given=given).log_evidence
    node, share = np.polynomial.hermite_e.hermegauss(60)
    offset, centre = (values[..., None] for values in np.meshgrid(node, 1 + 0.8 * node))
    odds = (0.5 + np.exp(np.clip(centre + spread * offset, -50, 30))) ** 1.3
    right, n = asked.gold_generated.sum(), len(asked)
    density = right * np.log(odds) - n * np.log1p(odds)
    exact = logsumexp(density, axis=(0, 1), b=np.outer(share, share)[..., None]) + stats.norm.logpdf(
        np.log(spread), np.log(0.4), 1.0
    )
    np.testing.assert_allclose(found - found[0], exact - exact[0], atol=0.05)


def test_levels_that_are_alike_come_out_alike_and_others_do_not(fits: dict[str, Fit]) -> None:
    spread = {name: spread_intervals(fit.tree)["weight_spread"] for name, fit in fits.items()}
    log_weight = {name: np.log(fit.tree["posterior"]["weight"].to_numpy().ravel()) for name, fit in fits.items()}
    assert spread["alike"].high < spread["unlike"].value
    assert np.ptp(log_weight["alike"]) < 0.3 < 0.8 < np.ptp(log_weight["unlike"])
    assert (np.diff(log_weight["unlike"]) > 0).mean() > 0.8


def test_each_fit_of_a_batch_has_spreads_of_its_own(fits: dict[str, Fit]) -> None:
    whole = Observations.from_questions(
        [
            question.model_copy(update={"problem_id": f"{kind} {question.problem_id}"})
            for kind, part in (("alike", ALIKE), ("unlike", UNLIKE))
            for question in part.questions
        ],
        answers="choice",
    )
    first = np.arange(len(whole)) < len(ALIKE)
    together = fit_map_batch(whole, np.stack([first, ~first]), preset=PRESET)
    for fit, alone in zip(together, fits.values(), strict=True):
        for group in ("posterior", "spread_evidence"):
            xr.testing.assert_allclose(fit.tree[group].to_dataset(), alone.tree[group].to_dataset(), atol=1e-5)


def test_given_parameters_are_kept_and_the_others_are_at_their_mode(simulated: Observations) -> None:
    everything, settings = np.ones((1, len(simulated))), {"preset": PRESETS["bayes"], "variant": "confidence"}
    given = {"weight_spread": np.log([0.7]), "vote_spread": np.log([0.2])}
    found = map_estimates(simulated, everything, **settings, given=given)
    assert {name: found.raw[name].tolist() for name in given} == {name: value.tolist() for name, value in given.items()}
    again = map_estimates(simulated, everything, **settings, given=given, near=found)
    np.testing.assert_allclose(again.loss, found.loss, rtol=1e-12)
    np.testing.assert_allclose(again.log_evidence, found.log_evidence, rtol=1e-9)
    assert again.n_steps[0] <= 1


def test_the_fit_is_the_one_of_most_evidence(fits: dict[str, Fit]) -> None:
    for fit in fits.values():
        evidence = fit.tree["spread_evidence"].to_dataset()
        best = evidence.isel(point=int(evidence["log_evidence"].argmax("point")))
        for name in learned_spreads(fit.preset, fit.variant):
            raw = fit.tree["unconstrained_posterior"][f"{name}_raw"]
            assert float(raw.squeeze()) == float(best[f"{name}_raw"])


def test_without_evidence_an_interval_is_that_of_the_prior(fits: dict[str, Fit]) -> None:
    tree = fits["alike"].tree.copy()
    points = tree["spread_evidence"].to_dataset()
    raw = points["weight_spread_raw"].to_numpy(), points["vote_spread_raw"].to_numpy()
    prior = stats.norm.logpdf(raw[0], np.log(0.4)) + stats.norm.logpdf(raw[1], np.log(0.3))
    tree["spread_evidence"] = xr.DataTree(points.assign(log_evidence=("point", prior)))
    for name, median in {"weight_spread": 0.4, "vote_spread": 0.3}.items():
        found = spread_intervals(tree, probability=0.8)[name]
        expected = median * np.exp(stats.norm.ppf([0.1, 0.9]))
        np.testing.assert_allclose(found[1:], expected, rtol=0.03)


@pytest.mark.parametrize("name", ["paper", "release"])
def test_presets_without_spreads_learn_none(name: str, simulated: Observations) -> None:
    preset, weight = PRESETS[name], np.ones((1, len(simulated)))
    found, evidence = map_with_spreads(simulated, weight, preset=preset, variant="confidence")
    assert evidence == []
    assert found.loss[0] == map_estimates(simulated, weight, preset=preset, variant="confidence").loss[0]
    assert "spread_evidence" not in fit_map(simulated, preset=preset).tree.children


def test_a_spread_without_a_prior_of_its_own_is_at_the_joint_mode(simulated: Observations) -> None:
    under_penalty = PRESETS["paper"].override(weight_spread={"link": "exp", "start": 0.0})
    assert learned_spreads(under_penalty, "confidence") == ()
    bounded = PRESETS["bayes"].override(weight_spread={"high": np.log(0.5)})
    spread = fit_map(simulated, preset=bounded).tree["spread_evidence"]["weight_spread_raw"]
    assert float(spread.max()) == np.log(0.5)


@pytest.mark.parametrize(
    ("observations", "settings", "expected"),
    [
        (one_level.observations(), {}, {"weight_spread", "vote_spread"}),
        (panel([0.7] * 4, 40, groups=True), {}, {"weight_spread", "vote_spread"}),
        (UNLIKE.select(slice(0, 20)), {"variant": "count"}, {"weight_spread", "vote_spread"}),
        (UNLIKE.select(slice(0, 20)), {"preset": "judges"}, {"weight_spread", "vote_spread"}),
        (
            UNLIKE.select(slice(0, 20)),
            {"preset": PRESETS["bayes"].override(vote=None, vote_spread=None, vote_agreement=None)},
            {"weight_spread"},
        ),
        (simulate_observations(30, seed=0, signals=("words",)), {}, {"weight_spread", "vote_spread"}),
        (UNLIKE.select(slice(0, 1)), {}, {"weight_spread", "vote_spread"}),
    ],
    ids=["one level", "a group", "count", "judges", "no votes", "signals", "one question"],
)
def test_every_kind_of_panel(observations: Observations, settings: dict[str, str], expected: set[str]) -> None:
    intervals = spread_intervals(fit_map(observations, **settings).tree)
    assert set(intervals) == expected
    for spread in intervals.values():
        assert 0 < spread.low < spread.value < spread.high < 8


def test_a_partial_fit_has_the_spreads_of_whole_questions(fits: dict[str, Fit]) -> None:
    for name, asked in {"alike": ALIKE, "unlike": UNLIKE}.items():
        partial = fit_map(asked, preset=PRESET, partial=True)
        assert spread_intervals(partial.tree) == spread_intervals(fits[name].tree)
        assert not np.allclose(partial.tree["posterior"]["weight"], fits[name].tree["posterior"]["weight"], rtol=1e-3)


@pytest.mark.slow
def test_nuts_learns_about_the_same(nuts: Fit) -> None:
    draws = nuts.draws()["weight_spread"].to_numpy().ravel()
    found = spread_intervals(nuts.tree)["weight_spread"]
    np.testing.assert_allclose(found, [draws.mean(), *np.quantile(draws, [0.05, 0.95])], rtol=1e-12)
    usual = spread_intervals(fit_map(nuts.fitted).tree)["weight_spread"]
    np.testing.assert_allclose(np.log(found[1:]), np.log(usual[1:]), atol=0.5)
