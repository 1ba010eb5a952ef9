r"""Moves along the ridge of weight and bias, between the steps of NUTS.

What the likelihood sees of a level is above all the evidence that its usual report gives,

.. math:: w_l \operatorname{sigmoid}(b_l + s \, \bar x_l),

with :math:`\bar x_l` the mean of the level's stated confidences on the logit scale: a lower bias is made good by a
higher weight. Where the sigmoid saturates the ridge bends into a plateau, on which all reports of the level count in
full; a chain that has strayed there can take hundreds of NUTS steps to find back. So after every step each level in
turn is offered another bias, drawn from the prior, and the weight with which its usual report counts for the same.
Accepting as Metropolis and Hastings say, with the Jacobian of that change, leaves the posterior as it is.
"""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from numpyro.distributions.transforms import ExpTransform, IdentityTransform, SoftplusTransform

from bayes_direag.model.evidence import Reports, calibrate
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, State, natural_parameters, raw_priors

Concentrations = tuple[Float[Array, " problem"], Float[Array, " problem"]]

_LINKS = {"exp": ExpTransform(), "softplus": SoftplusTransform(), "identity": IdentityTransform()}


class _Place(NamedTuple):
    """Raw parameters, the concentrations of the target and of all states there, and the log-likelihood."""

    raw: Raw
    concentrations: Concentrations
    log_likelihood: Float[Array, ""]


def has_ridges(data: LikelihoodData) -> bool:
    """Whether every level has a weight and a bias of its own."""
    return data.variant != "count" and not data.preset.pools("weight") and not data.preset.pools("bias")


def usual_report(data: LikelihoodData) -> Float[Array, " level"]:
    """Return each level's mean stated confidence, on the logit scale, over what counts; 0 where it has none."""
    usable = jnp.where(data.reports.candidate >= 0, jnp.asarray(data.weight)[:, None], 0.0)
    total = jnp.sum(usable, axis=0)
    return jnp.sum(usable * data.reports.logit_confidence, axis=0) / jnp.where(total > 0, total, 1.0)


def along_ridge(
    raw: Raw, level: Array, bias: Array, usual: Float[Array, " level"], data: LikelihoodData
) -> tuple[Raw, Float[Array, ""]]:
    """Move a level to another bias, its usual report counting for the same.

    Returns
    -------
    raw, log_jacobian
        Where it is then, and the log of how much the change stretches the raw weight.
    """

    def calibrated(raw: Raw) -> Float[Array, ""]:
        return calibrate(usual, natural_parameters(raw, data.preset, data.variant))[0][level]

    link, before = _LINKS[data.preset.weight.link], raw["weight"][level]
    moved = raw | {"bias": raw["bias"].at[level].set(bias)}
    ratio = calibrated(raw) / calibrated(moved)
    weight = ratio * link(before)
    after = link.inv(weight)
    stretched = link.log_abs_det_jacobian(before, link(before)) - link.log_abs_det_jacobian(after, weight)
    return moved | {"weight": raw["weight"].at[level].set(after)}, jnp.log(ratio) + stretched


def ridge_sweep(key: Key[Array, ""], raw: Raw, data: LikelihoodData) -> Raw:
    """Offer every level another bias, one after the other; return where the parameters are afterwards.

    A level's move changes what that level adds to the concentrations and nothing else, so a sweep costs little more
    than one evaluation of the density.
    """
    priors = raw_priors(data.preset, data.variant, data.n_levels, jnp.sum(data.weight))
    usual, target, counts = usual_report(data), jnp.asarray(data.target), jnp.asarray(data.weight)

    def log_likelihood(concentrations: Concentrations) -> Float[Array, ""]:
        of_target, of_all = concentrations
        return counts @ jnp.log(of_target / of_all)

    def offer(now: _Place, level_and_key: tuple[Array, Key[Array, ""]]) -> tuple[_Place, None]:
        level, (draw, accept) = level_and_key[0], jax.random.split(level_and_key[1])
        raw, log_jacobian = along_ridge(now.raw, level, priors["bias"].sample(draw), usual, data)
        left, joined = (_of_level(at, level, data).concentration(target) for at in (now.raw, raw))
        concentrations = jax.tree.map(lambda all_, old, new: all_ - old + new, now.concentrations, left, joined)
        there = _Place(raw, concentrations, log_likelihood(concentrations))
        # the prior of the bias cancels, as the bias is drawn from it
        gain = there.log_likelihood - now.log_likelihood + log_jacobian
        gain += priors["weight"].log_prob(raw["weight"][level]) - priors["weight"].log_prob(now.raw["weight"][level])
        taken = jnp.log(jax.random.uniform(accept, (), gain.dtype)) < gain
        return jax.tree.map(lambda new, old: jnp.where(taken, new, old), there, now), None

    concentrations = State(data, natural_parameters(raw, data.preset, data.variant)).concentration(target)
    levels = (jnp.arange(data.n_levels), jax.random.split(key, data.n_levels))
    place, _ = jax.lax.scan(offer, _Place(raw, concentrations, log_likelihood(concentrations)), levels)
    return place.raw


def _of_level(raw: Raw, level: Array, data: LikelihoodData) -> State:
    """Return what one level's reports alone say, without the prior's share of the concentrations."""

    def of_level(array: Array | np.ndarray) -> Array:
        return jnp.asarray(array)[..., level, None]

    alone = raw | {name: of_level(raw[name]) for name in ("weight", "bias")}
    nothing = jnp.zeros(())
    parameters = natural_parameters(alone, data.preset, data.variant)._replace(
        prior_strength=nothing, null_base=nothing
    )
    logits, candidate, n_candidates = data.reports
    reports = Reports(of_level(logits), of_level(candidate), n_candidates)
    return State(replace(data, reports=reports, merged=of_level(data.merged)), parameters)
