"""Several settings as draws from a population, against scipy, closed forms and importance weights."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density
from scipy import stats
from scipy.special import expit, log_expit, logit

from bayes_direag.data.observations import Observations
from bayes_direag.inference.multi_setting import draw_recalibrations, stacked
from bayes_direag.inference.recalibration import Outcomes
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import raw_priors
from bayes_direag.model.multi_setting import (
    BETWEEN,
    draw_population,
    multi_setting_direag,
    multi_setting_recalibration,
    settings_from,
)
from bayes_direag.model.presets import preset
from bayes_direag.model.settings import LEVEL_PARAMETERS, VARIANTS, RecalibrationSettings, SamplingSettings
from bayes_direag.model.simulate import simulate_observations
from tests.bayes_direag import brute_force

PRIOR = dist.Normal(2.0, 1.5)


def covariance(n: int, tau: float) -> np.ndarray:
    """Of n settings in units of the prior's variance: the share between them on the diagonal, the rest everywhere."""
    return BETWEEN * tau**2 * np.eye(n) + (1 - BETWEEN) * np.ones((n, n))


class TestPopulation:
    @pytest.mark.parametrize("n", [1, 2, 5])
    @pytest.mark.parametrize("tau", [0.01, 0.7, 3.0])
    def test_settings_have_the_covariance_of_a_centre_and_a_spread(self, n: int, tau: float) -> None:
        root = np.asarray(settings_from(jnp.asarray(tau), jnp.eye(n), PRIOR)) - 2.0
        np.testing.assert_allclose(root @ root.T, 1.5**2 * covariance(n, tau), atol=1e-12)

    def test_one_setting_alone_is_believed_about_as_its_prior_says(self) -> None:
        """Mean and variance to the letter, and a kurtosis of 3 E[(1 - r + r tau^2)^2]."""
        rng = np.random.default_rng(1)
        n, s = 400_000, 3
        tau, z = np.abs(rng.normal(size=n)), rng.normal(size=(n, s))
        drawn = np.asarray(jax.vmap(lambda t, own: settings_from(t, own, PRIOR))(jnp.asarray(tau), jnp.asarray(z)))
        for setting in range(s):
            unit = (drawn[:, setting] - 2.0) / 1.5
            assert abs(unit.mean()) < 4 / math.sqrt(n)
            assert abs(unit.var() - 1) < 5 * math.sqrt(2.1 / n)
            expected = 3 * ((1 - BETWEEN) ** 2 + 2 * BETWEEN * (1 - BETWEEN) + 3 * BETWEEN**2)
            assert round(expected, 2) == 3.07
            assert abs((unit**4).mean() - expected) < 5 * math.sqrt(110 / n)

    @pytest.mark.parametrize("n", [1, 4])
    def test_centre_and_new_setting_are_those_of_the_joint_normal(self, n: int) -> None:
        tau, n_draws = 1.4, 100_000
        values = np.array([3.1, 2.0, 5.0, 1.7])[:n]
        found = draw_population(
            np.tile(values, (1, n_draws, 1)), np.full((1, n_draws), tau), PRIOR, np.random.default_rng(2)
        )
        joint = 1.5**2 * covariance(n + 1, tau)  # the seen ones, then the new
        gain = joint[-1, :-1] @ np.linalg.inv(joint[:-1, :-1])
        mean, variance = 2.0 + gain @ (values - 2.0), joint[-1, -1] - gain @ joint[:-1, -1]
        assert abs(found.new.mean() - mean) < 4 * math.sqrt(variance / n_draws)
        assert abs(found.new.var() / variance - 1) < 5 * math.sqrt(2 / n_draws)
        own = 1.5**2 * BETWEEN * tau**2
        assert abs(found.centre.mean() - mean) < 4 * math.sqrt(variance / n_draws)
        assert abs(found.centre.var() / (variance - own) - 1) < 5 * math.sqrt(2 / n_draws)
        np.testing.assert_allclose(found.spread, math.sqrt(own))

    def test_each_level_has_a_centre_of_its_own(self) -> None:
        values = np.zeros((2, 300, 3, 2)) + np.array([1.0, 4.0])
        found = draw_population(values, np.full((2, 300), 0.01), PRIOR, np.random.default_rng(0))
        assert found.centre.shape == found.new.shape == (2, 300, 2)
        np.testing.assert_allclose(found.new.mean(axis=(0, 1)), [1.0, 4.0], atol=0.02)


@jax.jit
def log_joint(data: LikelihoodData, sites: dict[str, jax.Array]) -> jax.Array:
    return log_density(multi_setting_direag, (data,), {}, sites)[0]


def two_settings() -> list[Observations]:
    """Seven questions at five levels, and four at three of them; only the first have a label all."""
    first, second = simulate_observations(7, seed=3), simulate_observations(4, seed=4)
    questions = [q.model_copy(update={"observations": q.observations[2:]}) for q in second.questions]
    return [first, Observations.from_questions(questions, answers="numeric")]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_log_joint_density(variant: str, seed: int) -> None:
    """Prior terms by scipy, and every question's likelihood one by one in plain Python."""
    rng, bayes, worlds = np.random.default_rng(seed), preset("bayes"), two_settings()
    levels = worlds[0].level_names
    aligned = [one.align(levels) for one in worlds]
    each = [LikelihoodData.weighted(one, np.ones(len(one)), preset=bayes, variant=variant) for one in aligned]
    names = bayes.free_parameters(variant)
    expected, sites, raw = 0.0, {}, [{}, {}]
    for name, prior in raw_priors(bayes, variant, 5, 1.0).items():
        tau = abs(rng.normal())
        z = rng.normal(size=(2, 5) if name in LEVEL_PARAMETERS else 2)
        sites |= {f"{name}_tau": jnp.asarray(tau), f"{name}_z": jnp.asarray(z)}
        expected += stats.halfnorm.logpdf(tau) + stats.norm.logpdf(z).sum()
        values = np.asarray(settings_from(jnp.asarray(tau), jnp.asarray(z), prior))
        for s in range(2):
            raw[s][name] = values[s]
    assert set(raw[0]) == set(names)
    for own, seen in zip(raw, aligned, strict=True):
        parameters = brute_force.natural(own, bayes)
        for question in range(len(seen)):
            scores = brute_force.scores(brute_force.reports_of(seen, question), parameters, bayes.eps)
            right = [
                a for a, good in zip(seen.candidates[question], seen.correct_candidate[question], strict=False) if good
            ]
            reached = sum(scores[a] for a in right) if right else scores[brute_force.NULL]
            expected += math.log(reached / sum(scores.values()))
    np.testing.assert_allclose(float(log_joint(stacked(each), sites)), expected, rtol=1e-10)


def test_the_log_joint_density_of_the_final_calibration() -> None:
    rng = np.random.default_rng(5)
    support, correct, setting = rng.uniform(0.1, 0.9, 6), rng.random(6) < 0.5, np.array([0, 0, 1, 1, 1, -1])
    known = jnp.asarray(logit(support)), jnp.asarray(correct)
    sites, own, expected = {}, {}, 0.0
    for name, loc in (("intercept", 0.0), ("slope", 1.0)):
        tau, z = abs(rng.normal()), rng.normal(size=2)
        sites |= {f"{name}_tau": jnp.asarray(tau), f"{name}_z": jnp.asarray(z)}
        expected += stats.halfnorm.logpdf(tau) + stats.norm.logpdf(z).sum()
        own[name] = np.asarray(settings_from(jnp.asarray(tau), jnp.asarray(z), dist.Normal(loc, 0.7)))
    for i in range(5):
        score = own["intercept"][setting[i]] + own["slope"][setting[i]] * logit(support[i])
        expected += log_expit(score if correct[i] else -score)
    member = jnp.asarray((setting[:, None] == np.arange(2)).astype(float))
    given = (*known, member), {"prior_scale": 0.7}
    found = jax.jit(lambda sites: log_density(multi_setting_recalibration, *given, sites)[0])(sites)
    np.testing.assert_allclose(float(found), expected, rtol=1e-10)


@pytest.mark.slow
def test_final_calibrations_against_importance_weights() -> None:
    """Sixty labels in one setting, six in another, none in a third, and a new one: draws from the prior, weighted."""
    rng = np.random.default_rng(2)
    sizes = (60, 6)
    support = [expit(rng.normal(1.0, 1.2, n)) for n in sizes]
    correct = [rng.random(n) < expit(-1.0 + 0.6 * logit(one)) for n, one in zip(sizes, support, strict=True)]
    settings = RecalibrationSettings(scale=0.7)
    outcomes = [Outcomes(s[None], y[None], np.ones((1, len(s)))) for s, y in zip(support, correct, strict=True)]
    sampling = SamplingSettings(n_chains=2, n_warmup=200, n_draws=1000)
    found = draw_recalibrations([*outcomes, None], settings, sampling, 0)
    n = 150_000
    prior = {}
    for name, loc in (("intercept", 0.0), ("slope", 1.0)):
        centre, tau, u = rng.normal(size=(n, 1)), np.abs(rng.normal(size=(n, 1))), rng.normal(size=(n, 4))
        prior[name] = loc + settings.scale * (math.sqrt(1 - BETWEEN) * centre + math.sqrt(BETWEEN) * tau * u)
    reached = np.zeros(n)
    for s, (one, y) in enumerate(zip(support, correct, strict=True)):
        for z, right in zip(logit(one), y, strict=True):
            score = prior["intercept"][:, s] + prior["slope"][:, s] * z
            reached += log_expit(score if right else -score)
    weight = np.exp(reached - reached.max())
    weight /= weight.sum()
    for s, own in enumerate([*found.settings, found.new]):
        for name, values in own.coefficients.items():
            mean = weight @ prior[name][:, s]
            sd = math.sqrt(weight @ (prior[name][:, s] - mean) ** 2)
            error = sd * math.sqrt(1 / 400 + (weight**2).sum())  # of 2000 draws at least 400 count
            assert abs(values.mean() - mean) < 4 * error, (s, name)
            np.testing.assert_allclose(values.std(), sd, rtol=0.15)
    assert not found.stats["diverging"].any()


def test_without_a_calibration_support_stays_as_it_is() -> None:
    settings = RecalibrationSettings(method="none", scale=0.5)
    found = draw_recalibrations([None, None], settings, SamplingSettings(n_chains=2, n_draws=25), 0)
    assert found.populations == {}
    assert [own.method for own in (*found.settings, found.new)] == ["none"] * 3
