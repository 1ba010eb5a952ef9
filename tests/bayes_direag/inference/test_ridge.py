"""Moves along the ridge keep what a usual report counts for, and leave the posterior as it is."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logit

from bayes_direag.inference.ridge import along_ridges, has_ridges, ridge_sweep, usual_report
from bayes_direag.model.evidence import Reports
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, State, log_joint, natural_parameters, raw_priors
from bayes_direag.model.presets import preset
from bayes_direag.model.settings import Link, Preset, Variant

CONFIDENCE = np.array([[0.9, 0.2], [0.6, 0.5], [0.8, 0.5]])
REPORTS = Reports(logit(CONFIDENCE), np.array([[0, 0], [0, -1], [0, 1]]), np.array([1, 1, 2]))


def data_of(settings: Preset, variant: Variant = "confidence") -> LikelihoodData:
    target, weight = np.array([0, -1, 1]), np.array([1.0, 3.0, 0.0])
    return LikelihoodData(REPORTS, target, REPORTS.candidate, np.ones(3, int), weight, settings, variant, 3)


def raw_of(data: LikelihoodData) -> Raw:
    rng = np.random.default_rng(0)
    raw = {
        "weight": jnp.asarray(rng.normal(1, 0.5, 2) ** 2 + 0.1),
        "bias": jnp.asarray(rng.normal(size=2)),
        "slope": jnp.asarray(0.3),
        "null_base": jnp.asarray(0.2),
        "null_gain": jnp.asarray(-0.1),
    }
    return {name: raw[name] for name in data.preset.free_parameters(data.variant)}


def with_link(link: Link) -> Preset:
    return preset("bayes").override(weight={"link": link})


def test_the_usual_report_is_the_mean_of_those_that_count() -> None:
    usual = usual_report(data_of(preset("bayes")))
    np.testing.assert_allclose(usual, [(logit(0.9) + 3 * logit(0.6)) / 4, logit(0.2)])


@pytest.mark.parametrize(
    ("settings", "variant", "expected"),
    [
        (preset("bayes"), "confidence", True),
        (preset("bayes"), "count", False),
        (preset("pooled"), "confidence", False),
    ],
)
def test_there_are_ridges_where_each_level_has_both_of_its_own(
    settings: Preset, variant: Variant, expected: bool
) -> None:
    assert has_ridges(data_of(settings, variant)) == expected


@pytest.mark.parametrize("variant", ["level", "confidence"])
@pytest.mark.parametrize("link", ["exp", "softplus", "identity"])
def test_a_move_keeps_what_the_usual_report_counts_for(link: Link, variant: Variant) -> None:
    data = data_of(with_link(link), variant)
    before, usual, bias = raw_of(data), usual_report(data), jnp.array([1.5, -2.5])

    def evidence(at: Raw) -> np.ndarray:
        parameters = natural_parameters(at, data.preset, variant)
        slope = 0 if parameters.slope is None else float(parameters.slope)
        return np.asarray(parameters.weight) * expit(np.asarray(parameters.bias) + slope * np.asarray(usual))

    after, log_jacobian = along_ridges(before, bias, usual, data)
    np.testing.assert_array_equal(after["bias"], bias)
    np.testing.assert_allclose(evidence(after), evidence(before))
    back, minus = along_ridges(after, before["bias"], usual, data)
    np.testing.assert_allclose(back["weight"], before["weight"])
    np.testing.assert_allclose(minus, -log_jacobian, atol=1e-12)

    def moved(weight: jax.Array) -> jax.Array:
        return along_ridges(before | {"weight": weight}, bias, usual, data)[0]["weight"]

    stretched = jax.jacobian(moved)(before["weight"])
    np.testing.assert_allclose(stretched, np.diag(np.exp(log_jacobian)), atol=1e-12)


@pytest.mark.parametrize("link", ["exp", "softplus"])
def test_sweeps_leave_the_posterior_as_it_is(link: Link) -> None:
    """Parameters drawn from the prior, and states drawn given them, are a draw from the posterior of these states.

    So they are after sweeps, and over all states the parameters are still from the prior.
    """
    data, n = replace(data_of(with_link(link)), weight=np.ones(3)), 4000
    priors = raw_priors(data.preset, data.variant, 2, 3.0)
    shapes = {name: value.shape for name, value in raw_of(data).items()}

    @jax.jit
    @jax.vmap
    def before_and_after(key: jax.Array) -> tuple[Raw, Raw, jax.Array]:
        of_target, of_sweeps, *keys = jax.random.split(key, len(shapes) + 2)
        before = {name: priors[name].sample(own, shapes[name]) for name, own in zip(shapes, keys, strict=True)}
        state = State(data, natural_parameters(before, data.preset, data.variant))
        drawn = replace(data, target=state.sample(of_target))
        sweeps = jax.random.split(of_sweeps, 5)
        after: Raw = jax.lax.scan(lambda at, own: (ridge_sweep(own, at, drawn), None), before, sweeps)[0]
        return before, after, log_joint(after, drawn) - log_joint(before, drawn)

    before, after, gained = before_and_after(jax.random.split(jax.random.key(2), n))
    assert (np.asarray(after["bias"]) != np.asarray(before["bias"])).mean(axis=0).min() > 0.7
    assert abs(np.mean(gained)) < 4 * np.std(gained) / np.sqrt(n)
    for level in range(2):
        drawn = {name: np.asarray(after[name])[:, level] for name in ("weight", "bias")}
        for name, values in drawn.items():
            known = stats.norm(priors[name].loc, priors[name].scale)
            assert stats.kstest(values, known.cdf).pvalue > 1e-3
        assert abs(np.corrcoef(drawn["weight"], drawn["bias"])[0, 1]) < 4 / np.sqrt(n)


@pytest.mark.parametrize(("link", "variant"), [("exp", "confidence"), ("softplus", "level")])
def test_moves_are_judged_by_the_whole_density(link: Link, variant: Variant) -> None:
    """Level by level, as if the density were computed anew for every offer."""
    data = data_of(with_link(link), variant)
    at, usual = raw_of(data), usual_report(data)
    prior = raw_priors(data.preset, variant, 2, 4.0)["bias"]

    def computed_anew(key: jax.Array) -> Raw:
        raw = at
        draw, accept = jax.random.split(key)
        offered, needed = prior.sample(draw, (2,)), jnp.log(jax.random.uniform(accept, (2,)))
        for level in range(2):
            bias = raw["bias"].at[level].set(offered[level])
            other, log_jacobian = along_ridges(raw, bias, usual, data)
            proposed = jnp.sum(prior.log_prob(raw["bias"]) - prior.log_prob(bias))
            gain = log_joint(other, data) - log_joint(raw, data) + proposed + log_jacobian[level]
            taken = needed[level] < gain
            raw = {name: jnp.where(taken, other[name], raw[name]) for name in raw}
        return raw

    keys = jax.random.split(jax.random.key(1), 200)
    found = jax.jit(jax.vmap(lambda key: ridge_sweep(key, at, data)))(keys)
    expected = jax.jit(jax.vmap(computed_anew))(keys)
    moved = np.asarray(found["bias"]) != np.asarray(at["bias"])[None]
    assert (moved.mean(axis=0) > 0.1).all()
    assert (moved.mean(axis=0) < 1).all()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12)
        if name == "weight":
            np.testing.assert_array_equal(
                np.asarray(found[name])[~moved], np.broadcast_to(at[name], value.shape)[~moved]
            )
