"""The density arranged for sampling is that of the NumPyro model, gradient and all."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpyro.infer.util import log_density

from bayes_direag.model.evidence import Reports
from bayes_direag.model.log_joint import (
    Concentrations,
    Outcomes,
    arranged,
    concentrations,
    log_joint,
    of_level,
    total_log_likelihood,
)
from bayes_direag.model.model import Labels, Raw, direag, log_likelihood, natural_parameters, raw_from_vector
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import LEVEL_PARAMETERS, VARIANTS, Preset, Variant
from tests.bayes_direag.conftest import reports

PRESET = {**PRESETS, "fixed": PRESETS["bayes"].override(slope={"fixed": 0.7}, null_gain={"fixed": 0.3})}
N_LEVELS = 4

every_model = pytest.mark.parametrize("variant", VARIANTS)
#: Each preset under each variant; some of them by default.
every_preset = pytest.mark.parametrize(
    ("name", "variant"),
    [
        pytest.param(name, variant, marks=() if variant == usual else pytest.mark.slow)
        for name, usual in zip(PRESET, ("count", "level", "confidence", "confidence", "confidence"), strict=True)
        for variant in VARIANTS
    ],
)


def raw(preset: Preset, variant: Variant, seed: int = 0) -> Raw:
    size = sum(N_LEVELS if name in LEVEL_PARAMETERS else 1 for name in preset.free_parameters(variant))
    vector = np.random.default_rng(seed).normal(size=size)
    return raw_from_vector(vector, preset=preset, variant=variant, n_levels=N_LEVELS)


@st.composite
def labelled(draw: st.DrawFn) -> tuple[Reports, Labels]:
    """Draw reports and what is right of them: any candidates, some questions by no level, some of weight 0."""
    told = draw(reports(n=6, levels=N_LEVELS))
    candidate = np.asarray(told.candidate)
    right = draw(st.lists(st.sets(st.integers(0, N_LEVELS - 1)), min_size=6, max_size=6))
    own = [{k for k in one if k < n} for one, n in zip(right, told.n_candidates.tolist(), strict=True)]
    correct = np.array([[k in one for k in row] for row, one in zip(candidate.tolist(), own, strict=True)])
    weight = draw(st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=6, max_size=6))
    return told, Labels(correct, np.array([len(one) for one in own]), np.array([1.0, *weight[1:]]))


@every_preset
def test_value_and_gradient_are_those_of_the_numpyro_model(name: str, variant: Variant) -> None:
    settings = PRESET[name]
    outcome = labelled_by_hand()
    outcomes = Outcomes.of(*outcome, settings.eps)
    for seed in range(3):
        here = raw(settings, variant, seed)

        def theirs(here: Raw) -> jax.Array:
            sites = {f"{name}_raw": value for name, value in here.items()}
            found: jax.Array = log_density(partial(direag, preset=settings, variant=variant), outcome, {}, sites)[0]
            return found

        expected, slope = jax.jit(jax.value_and_grad(theirs))(here)
        ours = jax.jit(jax.value_and_grad(partial(log_joint, preset=settings, variant=variant)))
        found, own = ours(here, outcomes)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        sites = {f"{name}_raw": value for name, value in here.items()}
        in_one_piece, _ = log_density(partial(arranged, preset=settings, variant=variant), (outcomes,), {}, sites)
        np.testing.assert_allclose(in_one_piece, expected, rtol=1e-12)
        for parameter, value in slope.items():
            np.testing.assert_allclose(own[parameter], value, rtol=1e-9, atol=1e-11, err_msg=parameter)


def labelled_by_hand() -> tuple[Reports, Labels]:
    """Six questions: several right answers, none, a missing level, no usable level, held out."""
    candidate = np.array([[0, 0, 1, -1], [0, 1, 2, 2], [0, 0, 0, 0], [-1, -1, -1, -1], [1, 0, 1, 0], [0, 1, 1, 2]])
    correct = np.array([[1, 1, 0, 0], [1, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 1]], bool)
    confidence = np.array(
        [[0.9, 1, 0, 0.5], [0.3, 0.6, 0.7, 0.8], [1, 1, 0.2, 0.4], [0.5] * 4, [0.1, 0, 1, 0.99], [0.6] * 4]
    )
    told = Reports(confidence, candidate, np.array([2, 3, 1, 0, 2, 3]))
    return told, Labels(correct, np.array([1, 2, 0, 0, 1, 1]), np.array([1.0, 2.0, 1.0, 1.0, 0.0, 3.5]))


@every_model
@given(outcome=labelled())
def test_each_question_has_the_models_likelihood(variant: Variant, outcome: tuple[Reports, Labels]) -> None:
    settings = PRESETS["bayes"]
    here = raw(settings, variant)
    found = concentrations(natural_parameters(here, settings, variant), Outcomes.of(*outcome, settings.eps))
    expected = log_likelihood(here, *outcome, preset=settings, variant=variant)
    np.testing.assert_allclose(found.log_likelihood(), expected, rtol=1e-12, atol=1e-13)


@every_model
def test_the_levels_contributions_and_the_prior_make_up_the_whole(variant: Variant) -> None:
    settings = PRESETS["bayes"]
    own = natural_parameters(raw(settings, variant), settings, variant)
    outcomes = Outcomes.of(*labelled_by_hand(), settings.eps)
    prior = Concentrations(
        outcomes.share * own.prior_strength + outcomes.null * own.null_base,
        jnp.broadcast_to(own.prior_strength + own.null_base, outcomes.null.shape),
    )
    parts = [of_level(own, outcomes, jnp.asarray(level)) for level in range(N_LEVELS)]
    for field, (whole, *summands) in enumerate(zip(concentrations(own, outcomes), prior, *parts, strict=True)):
        np.testing.assert_allclose(whole, sum(summands), rtol=1e-13, err_msg=str(field))


@every_model
def test_the_written_gradient_is_that_of_automatic_differentiation(variant: Variant) -> None:
    settings = PRESETS["pooled"]
    outcomes = Outcomes.of(*labelled_by_hand(), settings.eps)
    own = natural_parameters(raw(settings, variant, seed=4), settings, variant)
    found = jax.grad(lambda own: 3 * total_log_likelihood(own, outcomes))(own)
    expected = jax.grad(lambda own: 3 * outcomes.weight @ concentrations(own, outcomes).log_likelihood())(own)
    for name, value in expected._asdict().items():
        if value is not None:
            np.testing.assert_allclose(getattr(found, name), value, rtol=1e-11, atol=1e-13, err_msg=name)


def test_far_out_nothing_cancels() -> None:
    """Where a sampler's first steps led: weights up to e**640, confidences of 1 or 0 but for far less than rounding."""
    settings = PRESETS["bayes"]
    far = {
        "weight_raw": jnp.array([640.0, 390.0, 200.0, 460.0]),
        "bias_raw": jnp.array([-30.0, -29.0, -30.0, 31.0]),
        "slope_raw": jnp.asarray(17.0),
        "null_base_raw": jnp.asarray(86.0),
        "null_gain_raw": jnp.asarray(-6.0),
    }
    here = {name.removesuffix("_raw"): value for name, value in far.items()}
    outcomes = Outcomes.of(*labelled_by_hand(), settings.eps)

    def ours(here: Raw) -> jax.Array:
        return total_log_likelihood(natural_parameters(here, settings, "confidence"), outcomes)

    def theirs(here: Raw) -> jax.Array:
        told, labels = labelled_by_hand()
        return jnp.sum(labels.weight * log_likelihood(here, told, labels, preset=settings, variant="confidence"))

    found, own = jax.value_and_grad(ours)(here)
    np.testing.assert_allclose(found, theirs(here), rtol=1e-9)
    for name, value in here.items():
        for place in np.ndindex(value.shape):
            low, high = (theirs(here | {name: value.at[place].add(step)}) for step in (-1e-3, 1e-3))
            np.testing.assert_allclose(own[name][place], (high - low) / 2e-3, rtol=1e-6, atol=1e-6, err_msg=name)
