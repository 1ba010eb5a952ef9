"""What warm-up takes for the metric: curvature where there are no draws yet, then the covariance of the draws."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.hmc import hmc
from numpyro.infer.util import log_density

from bayes_direag.data.observations import Observations
from bayes_direag.inference.mass_matrix import (
    metric_from_curvature,
    metric_from_draws,
    metric_schedule,
    survey,
    with_metric,
)
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import direag, log_likelihood, log_prior, raw_from_vector, sites
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import LEVEL_PARAMETERS, Variant


class TestSchedule:
    def test_windows_grow_and_the_last_steps_keep_their_metric(self) -> None:
        schedule = metric_schedule(1000)
        assert [step for step, how in schedule.items() if how == "draws"] == [100, 150, 250, 450, 950]
        assert list(schedule) == sorted(schedule)

    @pytest.mark.parametrize("n_warmup", [1, 5, 19, 20, 60, 149, 150, 500, 5000])
    def test_there_is_a_metric_from_the_first_step_and_none_after_warm_up(self, n_warmup: int) -> None:
        schedule = metric_schedule(n_warmup)
        assert next(iter(schedule.items())) == (0, "curvature")
        assert max(schedule) < n_warmup
        how = list(schedule.values())
        assert how == sorted(how)


@pytest.mark.parametrize(("name", "variant"), [("bayes", "confidence"), ("pooled", "level"), ("paper", "count")])
def test_a_survey_against_automatic_differentiation(name: str, variant: Variant, labelled: Observations) -> None:
    settings = PRESETS[name]
    weight = np.linspace(0.5, 2, len(labelled))
    data = LikelihoodData.weighted(labelled, weight, preset=settings, variant=variant)
    named = partial(raw_from_vector, preset=settings, variant=variant, n_levels=5)
    names = settings.free_parameters(variant)
    here = jnp.asarray(np.random.default_rng(2).normal(size=sum(5 if own in LEVEL_PARAMETERS else 1 for own in names)))

    @jax.jit
    def expected(flat: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        def joint(flat: jax.Array) -> jax.Array:
            return log_density(direag, (data,), {}, sites(named(flat)))[0]

        def prior(flat: jax.Array) -> jax.Array:
            return log_prior(named(flat), data)

        def reached(flat: jax.Array) -> jax.Array:
            return log_likelihood(named(flat), data)

        return joint(flat), jax.grad(joint)(flat), jax.jacrev(reached)(flat), -jax.hessian(prior)(flat)

    value, gradient, scores, precision = expected(here)
    found = jax.jit(survey)(here, data)
    np.testing.assert_allclose(found.log_joint, value, rtol=1e-12)
    np.testing.assert_allclose(found.gradient, gradient, rtol=1e-8, atol=1e-10)
    outer = sum(w * np.outer(score, score) for w, score in zip(weight, np.asarray(scores), strict=True))
    np.testing.assert_allclose(found.curvature, outer + precision, rtol=1e-8, atol=1e-10)


def test_chains_of_one_posterior_share_their_curvature() -> None:
    curvature = np.array([np.diag([1.0, 4.0]), np.diag([3.0, 6.0])])
    np.testing.assert_allclose(metric_from_curvature(curvature, shared=True), [np.diag([1 / 2, 1 / 5])] * 2)
    own = metric_from_curvature(curvature, shared=False)
    np.testing.assert_allclose(own, [np.diag([1, 1 / 4]), np.diag([1 / 3, 1 / 6])])


@pytest.mark.parametrize("shared", [True, False])
def test_a_chain_without_finite_curvature_takes_that_of_the_others(shared: bool) -> None:
    curvature = np.array([np.diag([1.0, 4]), np.full((2, 2), np.nan), np.diag([3.0, 6])])
    found = metric_from_curvature(curvature, shared=shared)
    np.testing.assert_allclose(found[1], np.diag([1 / 2, 1 / 5]))
    np.testing.assert_allclose(found[0], np.diag([1 / 2, 1 / 5] if shared else [1, 1 / 4]))
    np.testing.assert_array_equal(metric_from_curvature(curvature[1:2], shared=shared), np.eye(2)[None])


@pytest.mark.parametrize("shared", [True, False])
def test_draws_give_their_covariance(shared: bool) -> None:
    root = np.array([[1.0, 0, 0], [0.5, 2, 0], [-1, 0.3, 0.1]])
    draws = np.random.default_rng(0).normal(size=(2, 20_000, 3)) @ root.T
    before = np.broadcast_to(np.eye(3), (2, 3, 3))
    found = metric_from_draws(draws, before, shared=shared)
    np.testing.assert_allclose(found, np.broadcast_to(root @ root.T, (2, 3, 3)), atol=0.15)
    assert (found[0] == found[1]).all() == shared


def test_few_draws_count_for_little() -> None:
    """Chains that stand still keep their metric but for its scale, and it stays one that can be inverted."""
    before = np.array([np.diag([2.0, 3.0])])
    found = metric_from_draws(np.ones((1, 6, 2)), before, shared=False)
    np.testing.assert_allclose(found, before * 2 / 8)


def test_the_metric_is_handed_over_as_numpyro_itself_would() -> None:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(2, 4, 4))
    metric = root @ np.swapaxes(root, 1, 2) + np.eye(4)
    start, _ = hmc(lambda x: 0.5 * x @ x, algo="NUTS")
    states, expected = (
        jax.vmap(lambda own: start(jnp.ones(4), 10, inverse_mass_matrix=own, dense_mass=True))(jnp.asarray(given))
        for given in (np.broadcast_to(np.eye(4), metric.shape), metric)
    )
    found = with_metric(states, metric).adapt_state
    for field in ("inverse_mass_matrix", "mass_matrix_sqrt", "mass_matrix_sqrt_inv"):
        np.testing.assert_allclose(getattr(found, field), getattr(expected.adapt_state, field), atol=1e-12)
