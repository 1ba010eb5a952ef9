from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.distributions import Normal
from numpyro.handlers import seed, trace
from numpyro.infer.util import log_density
from scipy import stats

from bayes_direag.data.observations import Observations
from bayes_direag.model.evidence import Reports
from bayes_direag.model.model import (
    Labels,
    direag,
    natural_parameters,
    penalised_loss,
    pooled_over_levels,
    raw_from_vector,
    raw_priors,
    recalibration,
)
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import VARIANTS, Preset, Variant
from tests.bayes_direag import brute_force

EVERY = [(preset, variant) for preset in PRESETS.values() for variant in VARIANTS]
each_model = pytest.mark.parametrize(
    ("preset", "variant"), EVERY, ids=[f"{preset.name}-{variant}" for preset, variant in EVERY]
)


def some_raw(preset: Preset, variant: Variant, n_levels: int = 5, at: int = 0) -> dict[str, jax.Array]:
    rng = np.random.default_rng(at)
    return {
        name: jnp.asarray(rng.normal(size=n_levels if name in ("weight", "bias") else ()))
        for name in preset.free_parameters(variant)
    }


def some_labels(observations: Observations) -> Labels:
    weight = np.where(np.arange(len(observations)) % 7 == 0, 0.0, 1.0 + np.arange(len(observations)) % 3)
    return Labels.of(observations, weight)


@each_model
def test_loss_is_the_printed_equation(preset: Preset, variant: Variant, simulated: Observations) -> None:
    raw, labels = some_raw(preset, variant), some_labels(simulated)
    values = brute_force.natural(raw, preset)
    total = 0.0
    for i, weight in enumerate(labels.weight):
        own = brute_force.reports_of(simulated, i)
        support = brute_force.support(brute_force.concentrations(own, values, preset.eps))
        gold = simulated.questions[i].gold_answer
        total -= weight * np.log(support[gold if gold in support else brute_force.NULL])
    entries = np.concatenate([np.ravel(value) for value in raw.values()])
    if preset.penalty is not None:
        penalty = preset.penalty * np.mean(entries**2)
    else:
        priors = brute_force.raw_priors(raw, preset, labels.weight.sum())
        squares = [np.sum(((np.asarray(raw[name]) - loc) / scale) ** 2) for name, (loc, scale) in priors.items()]
        penalty = sum(squares) / (2 * labels.weight.sum())
    expected = total / labels.weight.sum() + penalty
    found = penalised_loss(raw, Reports.of(simulated), labels, preset=preset, variant=variant)
    np.testing.assert_allclose(float(found), expected, rtol=1e-12)


@each_model
def test_loss_is_the_joint_density_up_to_a_constant(preset: Preset, variant: Variant, simulated: Observations) -> None:
    reports, labels = Reports.of(simulated), some_labels(simulated)
    model = partial(direag, preset=preset, variant=variant)

    def gap(at: int) -> float:
        raw = some_raw(preset, variant, at=at)
        sites = {f"{name}_raw": value for name, value in raw.items()}
        joint, _ = log_density(model, (reports, labels), {}, sites)
        loss = penalised_loss(raw, reports, labels, preset=preset, variant=variant)
        return float(-joint / labels.weight.sum() - loss)

    np.testing.assert_allclose([gap(1), gap(2)], gap(0), rtol=1e-10)


def test_the_penalty_is_a_prior_whose_scale_follows_the_questions() -> None:
    priors = raw_priors(PRESETS["paper"], "confidence", 5, 800.0)
    n_raw = 5 + 5 + 4
    for prior in priors.values():
        assert isinstance(prior, Normal)
        np.testing.assert_allclose(float(prior.scale), np.sqrt(n_raw / (2 * 0.001 * 800.0)))


def test_a_question_of_weight_zero_has_no_influence(simulated: Observations) -> None:
    preset, variant = PRESETS["paper"], "confidence"
    raw, labels = some_raw(preset, variant), some_labels(simulated)
    corrupted = labels.correct.copy()
    corrupted[labels.weight == 0] = ~corrupted[labels.weight == 0]
    before, after = (
        float(
            penalised_loss(raw, Reports.of(simulated), labels._replace(correct=correct), preset=preset, variant=variant)
        )
        for correct in (labels.correct, corrupted)
    )
    assert before == after


def test_several_right_answers_share_one_state() -> None:
    preset = PRESETS["paper"]
    raw = some_raw(preset, "confidence", n_levels=3)
    reports = Reports(np.array([[0.9, 0.6, 0.8]]), np.array([[0, 1, 2]]), np.array([3]))
    values = brute_force.natural(raw, preset)
    own = [(0, "a", 0.9), (1, "b", 0.6), (2, "c", 0.8)]
    support = brute_force.support(brute_force.concentrations(own, values, preset.eps))
    labels = Labels(np.array([[True, False, True]]), np.array([2]), np.ones(1))
    entries = np.concatenate([np.ravel(value) for value in raw.values()])
    expected = -np.log(support["a"] + support["c"]) + preset.penalty * np.mean(entries**2)
    found = float(penalised_loss(raw, reports, labels, preset=preset, variant="confidence"))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@each_model
def test_the_joint_density_is_that_of_the_equations(preset: Preset, variant: Variant, simulated: Observations) -> None:
    """The constant too: normal priors on raw parameters, and the log support of what came true."""
    reports, labels = Reports.of(simulated), some_labels(simulated)
    raw = some_raw(preset, variant)
    total = float(labels.weight.sum())
    expected = sum(
        stats.norm.logpdf(np.asarray(raw[name]), loc, scale).sum()
        for name, (loc, scale) in brute_force.raw_priors(raw, preset, total).items()
    )
    values = brute_force.natural(raw, preset)
    for i, weight in enumerate(labels.weight):
        alpha = brute_force.concentrations(brute_force.reports_of(simulated, i), values, preset.eps)
        gold = simulated.questions[i].gold_answer
        expected += weight * np.log(brute_force.support(alpha)[gold if gold in alpha else brute_force.NULL])
    sites = {f"{name}_raw": value for name, value in raw.items()}
    found, _ = log_density(partial(direag, preset=preset, variant=variant), (reports, labels), {}, sites)
    np.testing.assert_allclose(float(found), expected, rtol=1e-12)


def test_pooled_levels_are_centre_and_spread_and_offset() -> None:
    pooled = PRESETS["pooled"]
    raw = {
        "weight": jnp.asarray([-1.0, 0.0, 2.0]),
        "weight_centre": jnp.asarray(1.5),
        "weight_spread": jnp.log(0.25),
        "bias": jnp.asarray([0.5, 0.0, -1.0]),
        "bias_centre": jnp.asarray(-0.5),
        "bias_spread": jnp.log(2.0),
        "slope": jnp.log(0.5),
        "null_base": jnp.asarray(0.0),
        "null_gain": jnp.asarray(0.0),
    }
    found = natural_parameters(raw, pooled, "confidence")
    np.testing.assert_allclose(found.weight, np.exp([1.25, 1.5, 2.0]), rtol=1e-12)
    np.testing.assert_allclose(found.bias, [0.5, -0.5, -2.5], rtol=1e-12)
    assert float(found.null_base) == pytest.approx(np.log(2))
    centre_and_spread = pooled_over_levels(raw, pooled)
    assert {name: float(value) for name, value in centre_and_spread.items()} == pytest.approx(
        {"weight_centre": 1.5, "weight_spread": 0.25, "bias_centre": -0.5, "bias_spread": 2.0}
    )
    assert pooled_over_levels({"weight": raw["weight"]}, PRESETS["bayes"]) == {}


@each_model
def test_without_labels_targets_are_drawn_from_the_support(preset: Preset, variant: Variant) -> None:
    reports = Reports(np.full((4000, 3), 0.8), np.tile([[0, 1, 0]], (4000, 1)), np.full(4000, 2))
    sites = trace(seed(direag, jax.random.key(4))).get_trace(reports, preset=preset, variant=variant)
    drawn = np.asarray(sites["target"]["value"])
    raw = {name: sites[f"{name}_raw"]["value"] for name in preset.free_parameters(variant)}
    values = brute_force.natural(raw, preset)
    support = brute_force.support(
        brute_force.concentrations([(0, "a", 0.8), (1, "b", 0.8), (2, "a", 0.8)], values, preset.eps)
    )
    counts = [np.sum(drawn == state) for state in (0, 1, 3)]
    assert sum(counts) == 4000
    probabilities = [support["a"], support["b"], support[brute_force.NULL]]
    for count, p in zip(counts, probabilities, strict=True):
        assert abs(count - 4000 * p) < 4.5 * np.sqrt(4000 * p * (1 - p)) + 1


def test_the_raw_vector_is_read_in_the_recorded_order() -> None:
    raw = raw_from_vector(np.arange(14.0), preset=PRESETS["release"], variant="confidence", n_levels=5)
    assert list(raw) == ["weight", "bias", "slope", "prior_strength", "null_base", "null_gain"]
    assert raw["weight"].tolist() == [0, 1, 2, 3, 4]
    assert raw["bias"].tolist() == [5, 6, 7, 8, 9]
    assert [float(raw[name]) for name in list(raw)[2:]] == [10, 11, 12, 13]
    with pytest.raises(ValueError, match="has 13 entries; confidence with 5 levels has 14"):
        raw_from_vector(np.arange(13.0), preset=PRESETS["paper"], variant="confidence", n_levels=5)


def test_centre_and_spread_follow_their_offsets_in_the_raw_vector() -> None:
    raw = raw_from_vector(np.arange(11.0), preset=PRESETS["pooled"], variant="confidence", n_levels=2)
    assert {name: value.tolist() for name, value in raw.items()} == {
        "weight": [0, 1],
        "weight_centre": 2,
        "weight_spread": 3,
        "bias": [4, 5],
        "bias_centre": 6,
        "bias_spread": 7,
        "slope": 8,
        "null_base": 9,
        "null_gain": 10,
    }


def test_bayes_fixes_the_scale_that_the_likelihood_cannot_see() -> None:
    bayes = PRESETS["bayes"]
    assert "prior_strength" not in bayes.free_parameters("confidence")
    assert float(natural_parameters(some_raw(bayes, "confidence"), bayes, "confidence").prior_strength) == 1.0


def test_recalibration_is_a_logistic_regression_with_a_prior_at_the_identity() -> None:
    rng = np.random.default_rng(0)
    score, correct = jnp.asarray(rng.normal(size=30)), jnp.asarray(rng.random(30) < 0.6)
    sites = {"intercept": jnp.asarray(0.3), "slope": jnp.asarray(1.4)}
    terms = {"intercept": jnp.ones(30), "slope": score}
    found, _ = log_density(recalibration, (terms, correct), {"prior_scale": 0.7}, sites)
    p = 1 / (1 + np.exp(-(0.3 + 1.4 * np.asarray(score))))
    expected = stats.bernoulli.logpmf(np.asarray(correct), p).sum()
    expected += stats.norm.logpdf(0.3, 0, 0.7) + stats.norm.logpdf(1.4, 1, 0.7)
    np.testing.assert_allclose(float(found), expected, rtol=1e-12)


def test_labels_count_the_right_candidates(simulated: Observations) -> None:
    labels = Labels.of(simulated, np.ones(len(simulated)))
    golds = [question.gold_answer for question in simulated.questions]
    expected = [int(gold in own) for gold, own in zip(golds, simulated.candidates, strict=True)]
    assert labels.n_correct.tolist() == expected
    padded = labels.padded(len(simulated) + 3)
    assert padded.weight[-3:].tolist() == [0, 0, 0]
