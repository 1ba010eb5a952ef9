"""Moves along the ridge keep what a usual report counts for, and leave the posterior as it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy import stats
from scipy.special import expit, logit

from bayes_direag.inference.ridge import Ridge, along_every_ridge, ridge_sweep
from bayes_direag.model.evidence import Reports
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, direag, natural_parameters, sites
from bayes_direag.model.presets import preset
from bayes_direag.model.settings import Link, Preset, Variant

CONFIDENCE = np.array([[0.9, 0.2], [0.6, 0.5], [0.8, 0.5]])
REPORTS = Reports(logit(CONFIDENCE), np.array([[0, 0], [0, -1], [0, 1]]), np.array([1, 1, 2]))


def data_of(settings: Preset, variant: Variant = "confidence") -> LikelihoodData:
    target, weight = np.array([0, -1, 1]), np.array([1.0, 3.0, 0.0])
    return LikelihoodData(REPORTS, target, REPORTS.candidate, np.ones(3, int), weight, settings, variant)


def log_joint(raw: Raw, data: LikelihoodData) -> jax.Array:
    return log_density(direag, (data,), {}, sites(raw))[0]


def raw(seed: int = 0) -> Raw:
    rng = np.random.default_rng(seed)
    return {
        "weight": jnp.asarray(rng.normal(1, 0.5, 2) ** 2 + 0.1),
        "bias": jnp.asarray(rng.normal(size=2)),
        "slope": jnp.asarray(0.3),
        "null_base": jnp.asarray(0.2),
        "null_gain": jnp.asarray(-0.1),
    }


def with_link(link: Link) -> Preset:
    return preset("bayes").override(weight={"link": link})


def ridge_of(settings: Preset, variant: Variant = "confidence") -> Ridge | None:
    return Ridge.of(data_of(settings, variant))


def test_the_usual_report_is_the_mean_of_those_that_count() -> None:
    ridge = ridge_of(preset("bayes"))
    assert ridge is not None
    np.testing.assert_allclose(ridge.usual, [(logit(0.9) + 3 * logit(0.6)) / 4, logit(0.2)])


@pytest.mark.parametrize(
    ("settings", "variant"),
    [
        (preset("bayes"), "count"),
        (preset("pooled"), "confidence"),
    ],
)
def test_there_is_none_where_a_level_has_not_both_of_its_own(settings: Preset, variant: Variant) -> None:
    assert ridge_of(settings, variant) is None


@pytest.mark.parametrize("variant", ["level", "confidence"])
@pytest.mark.parametrize("link", ["exp", "softplus", "identity"])
def test_a_move_keeps_what_the_usual_report_counts_for(link: Link, variant: Variant) -> None:
    settings = with_link(link)
    ridge = ridge_of(settings, variant)
    assert ridge is not None
    before = raw()

    def evidence(at: Raw) -> np.ndarray:
        own = natural_parameters(at, settings, variant)
        slope = 0 if own.slope is None else float(own.slope)
        return np.asarray(own.weight) * expit(np.asarray(own.bias) + slope * np.asarray(ridge.usual))

    after, log_jacobian = ridge.along(before, jnp.asarray(1), jnp.asarray(-2.5))
    assert float(after["bias"][1]) == -2.5
    np.testing.assert_allclose(evidence(after), evidence(before))
    assert float(after["weight"][0]) == float(before["weight"][0])
    assert float(after["bias"][0]) == float(before["bias"][0])
    back, minus = ridge.along(after, jnp.asarray(1), before["bias"][1])
    np.testing.assert_allclose(back["weight"], before["weight"])
    np.testing.assert_allclose(minus, -log_jacobian, atol=1e-12)

    def moved(weight: jax.Array) -> jax.Array:
        there, _ = ridge.along(
            before | {"weight": before["weight"].at[1].set(weight)}, jnp.asarray(1), jnp.asarray(-2.5)
        )
        return there["weight"][1]

    np.testing.assert_allclose(log_jacobian, jnp.log(jax.grad(moved)(before["weight"][1])), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("link", ["exp", "softplus"])
def test_many_sweeps_leave_the_distribution_as_it_is(link: Link) -> None:
    """Parameters drawn from a known density are still from it, and each level's bias has been renewed."""
    settings = with_link(link)
    ridge = ridge_of(settings)
    assert ridge is not None
    n, rng = 4000, np.random.default_rng(1)
    at = raw()
    draws = {
        **{name: jnp.broadcast_to(value, (n, *value.shape)) for name, value in at.items()},
        "weight": jnp.asarray(rng.normal(1.0, 0.6, size=(n, 2))),
        "bias": jnp.asarray(rng.normal(-1.0, 1.5, size=(n, 2))),
    }

    def density(at: Raw) -> jax.Array:
        return jnp.sum(-(((at["weight"] - 1.0) / 0.6) ** 2) / 2 - ((at["bias"] + 1.0) / 1.5) ** 2 / 2)

    def change(here: jax.Array, _: Raw, after: Raw, __: jax.Array) -> tuple[jax.Array, jax.Array]:
        there = density(after)
        return there - here, there

    def sweeps(key: jax.Array, at: Raw) -> Raw:
        for own in jax.random.split(key, 5):
            at, _ = ridge_sweep(own, at, density(at), ridge=ridge, change=change, scale=jnp.asarray(3.0))
        return at

    after = jax.jit(jax.vmap(sweeps))(jax.random.split(jax.random.key(2), n), draws)
    assert (np.asarray(after["bias"]) != np.asarray(draws["bias"])).mean(axis=0).min() > 0.4
    for level in range(2):
        assert stats.kstest(np.asarray(after["bias"])[:, level], stats.norm(-1, 1.5).cdf).pvalue > 1e-3
        assert stats.kstest(np.asarray(after["weight"])[:, level], stats.norm(1, 0.6).cdf).pvalue > 1e-3
        both = np.stack([np.asarray(after["weight"])[:, level], np.asarray(after["bias"])[:, level]])
        assert abs(np.corrcoef(both)[0, 1]) < 4 / np.sqrt(n)


@pytest.mark.parametrize(("link", "variant"), [("exp", "confidence"), ("softplus", "level")])
def test_moves_are_judged_by_the_whole_density(link: Link, variant: Variant) -> None:
    """Level by level, as if the density were computed anew for every offer; what did not move is left as it was."""
    settings = with_link(link)
    data, ridge = data_of(settings, variant), ridge_of(settings, variant)
    assert ridge is not None

    def change(here: jax.Array, _: Raw, after: Raw, __: jax.Array) -> tuple[jax.Array, jax.Array]:
        there = log_joint(after, data)
        return there - here, there

    at = {name: value for name, value in raw().items() if name in settings.free_parameters(variant)}

    @jax.jit
    @jax.vmap
    def both(key: jax.Array) -> tuple[tuple[Raw, jax.Array], tuple[Raw, jax.Array]]:
        begin = log_joint(at, data)
        anew = ridge_sweep(key, at, begin, ridge=ridge, change=change, scale=settings.bias.scale)
        return along_every_ridge(key, at, ridge, data), anew

    (found, moved), (expected, expected_moved) = both(jax.random.split(jax.random.key(1), 200))
    np.testing.assert_array_equal(moved, expected_moved)
    assert 0.2 < np.mean(moved) < 1
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12)
        np.testing.assert_array_equal(np.asarray(found[name])[~moved], np.broadcast_to(at[name], value.shape)[~moved])
