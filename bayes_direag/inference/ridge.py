r"""Moves along the ridge of weight and bias, between the steps of NUTS.

What the likelihood sees of a level is above all the evidence that its usual report gives,

.. math:: w_l \operatorname{sigmoid}(b_l + s \, \bar x_l),

with :math:`\bar x_l` the mean of the level's stated confidences on the logit scale: a lower bias is made good by a
higher weight. Where the sigmoid saturates the ridge bends into a plateau, on which all reports of the level count in
full; a chain that has strayed there can take hundreds of NUTS steps to find back. So after every step each level in
turn is offered another bias, drawn from the prior, and the weight with which its usual report counts for the same.
Accepting as Metropolis and Hastings say, with the Jacobian of that change, leaves the posterior as it is.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Key

from bayes_direag.model.evidence import Parameters, evidence
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, log_prior, natural_parameters, raw_priors
from bayes_direag.model.settings import Link, Preset, Variant


class Concentrations(NamedTuple):
    """Of the state that occurred and of all states together, by question."""

    true: Float[Array, " problem"]
    total: Float[Array, " problem"]

    def log_likelihood(self) -> Float[Array, " problem"]:
        """Return the log probability of the state that occurred."""
        return jnp.log(self.true / self.total)


def concentrations(parameters: Parameters, data: LikelihoodData) -> Concentrations:
    """Return the concentrations of every question."""
    weighed = evidence(data.reports, parameters)
    target = jnp.asarray(data.target)
    right = jnp.sum(jnp.where(target[None] == data.merged.T, weighed.given, 0.0), axis=0)
    true = jnp.where(target < 0, weighed.null, data.n_merged * weighed.share + right)
    return Concentrations(true, weighed.total)


def of_level(parameters: Parameters, data: LikelihoodData, level: Array) -> Concentrations:
    """Return what one level's reports contribute to the concentrations."""
    alone = parameters._replace(
        weight=parameters.weight[level][None],
        bias=None if parameters.bias is None else parameters.bias[level][None],
        null_base=jnp.zeros_like(parameters.null_base),
        prior_strength=jnp.zeros_like(parameters.prior_strength),
    )
    logits, candidate = (jnp.asarray(array)[:, level][:, None] for array in data.reports[:2])
    reports = data.reports._replace(logit_confidence=logits, candidate=candidate)
    return concentrations(alone, replace(data, reports=reports, merged=jnp.asarray(data.merged)[:, level][:, None]))


class Ridge(NamedTuple):
    """Where the ridges of all levels lie.

    Attributes
    ----------
    usual : (level,) array
        Mean stated confidence of each level, clipped, on the logit scale; 0 for a level without reports.
    """

    preset: Preset
    variant: Variant
    usual: Float[Array, " level"]

    @classmethod
    def of(cls, data: LikelihoodData) -> "Ridge | None":
        """Take the usual reports from the questions that count; None where weight or bias is not a level's own."""
        if data.variant == "count" or data.preset.pools("weight") or data.preset.pools("bias"):
            return None
        usable = jnp.asarray(data.reports.candidate >= 0, float) * data.weight[:, None]
        total = jnp.sum(usable, axis=0)
        usual = jnp.sum(usable * data.reports.logit_confidence, axis=0) / jnp.where(total > 0, total, 1.0)
        return cls(data.preset, data.variant, usual)

    def along(self, raw: Raw, level: Array, bias: Array) -> tuple[Raw, Float[Array, ""]]:
        """Move a level to another bias, its usual report counting for the same.

        Returns
        -------
        raw, log_jacobian
            Where it is then, and the log of how much the change stretches the raw weight.
        """
        link = self.preset.parameter("weight").link
        before = _log_natural(raw["weight"][level], link)
        moved = raw | {"bias": raw["bias"].at[level].set(bias)}
        after = before + (self._log_calibrated(raw) - self._log_calibrated(moved))[level]
        weight = moved["weight"].at[level].set(_raw(after, link))
        return moved | {"weight": weight}, _log_slope(after, link) - _log_slope(before, link)

    def _log_calibrated(self, raw: Raw) -> Float[Array, " level"]:
        own = natural_parameters(raw, self.preset, self.variant)
        score = raw["bias"] if own.slope is None else raw["bias"] + own.slope * self.usual
        return jax.nn.log_sigmoid(score)


def along_every_ridge(key: Key[Array, ""], raw: Raw, ridge: Ridge, data: LikelihoodData) -> tuple[Raw, Bool[Array, ""]]:
    """Offer every level another bias under the posterior; see :func:`ridge_sweep`.

    A level's move changes what that level contributes and nothing else, so a sweep costs little more than one
    evaluation of the density.
    """
    natural = partial(natural_parameters, preset=ridge.preset, variant=ridge.variant)
    believed = partial(log_prior, data=data)

    def change(
        kept: tuple[Concentrations, Array], before: Raw, after: Raw, level: Array
    ) -> tuple[Array, tuple[Concentrations, Array]]:
        here, likelihood = kept
        own = (of_level(natural(at), data, level) for at in (before, after))
        there = Concentrations(*(whole - old + new for whole, old, new in zip(here, *own, strict=True)))
        reached = jnp.asarray(data.weight) @ there.log_likelihood()
        return reached - likelihood + believed(after) - believed(before), (there, reached)

    here = concentrations(natural(raw), data)
    scale = raw_priors(ridge.preset, ridge.variant, len(ridge.usual), jnp.sum(data.weight))["bias"].scale
    kept = (here, jnp.asarray(data.weight) @ here.log_likelihood())
    return ridge_sweep(key, raw, kept, ridge=ridge, change=change, scale=scale)


def ridge_sweep[Kept](
    key: Key[Array, ""],
    raw: Raw,
    kept: Kept,
    *,
    ridge: Ridge,
    change: Callable[[Kept, Raw, Raw, Array], tuple[Float[Array, ""], Kept]],
    scale: ArrayLike,
) -> tuple[Raw, Bool[Array, ""]]:
    """Offer every level another bias, one after the other.

    Parameters
    ----------
    kept
        What ``change`` needs to know of where the parameters are, beside themselves.
    change
        Given that, the parameters before and after a level's move, and the level, returns the change of the log
        density, and what is to be kept where the move is made.
    scale
        Standard deviation of the biases' prior, around the preset's ``loc``.

    Returns
    -------
    raw, moved
        Where the parameters are afterwards, and whether that is elsewhere.
    """
    loc = ridge.preset.parameter("bias").loc

    def offer(
        now: tuple[Raw, Kept, Array], level_and_key: tuple[Array, Key[Array, ""]]
    ) -> tuple[tuple[Raw, Kept, Array], None]:
        (raw, kept, moved), (level, key) = now, level_and_key
        draw, accept = jax.random.split(key)
        before = raw["bias"][level]
        bias = jnp.asarray(loc + scale * jax.random.normal(draw, (), before.dtype))
        other, log_jacobian = ridge.along(raw, level, bias)
        gained, there = change(kept, raw, other, level)
        proposed = ((bias - loc) ** 2 - (before - loc) ** 2) / (2 * scale**2)
        taken = jnp.log(jax.random.uniform(accept, (), before.dtype)) < gained + proposed + log_jacobian
        raw, kept = jax.tree.map(lambda new, old: jnp.where(taken, new, old), (other, there), (raw, kept))
        return (raw, kept, moved | taken), None

    n_levels = len(ridge.usual)
    levels = (jnp.arange(n_levels), jax.random.split(key, n_levels))
    (raw, _, moved), _ = jax.lax.scan(offer, (raw, kept, jnp.zeros((), bool)), levels)
    return raw, moved


def _log_natural(raw: Float[Array, ""], link: Link) -> Float[Array, ""]:
    return raw if link == "exp" else jnp.log(jax.nn.softplus(raw) if link == "softplus" else raw)


def _raw(log_natural: Float[Array, ""], link: Link) -> Float[Array, ""]:
    if link == "exp":
        return log_natural
    natural = jnp.exp(log_natural)
    return natural + jnp.log(-jnp.expm1(-natural)) if link == "softplus" else natural


def _log_slope(log_natural: Float[Array, ""], link: Link) -> Float[Array, ""]:
    """Return the log of the raw value's slope in the log of the natural one."""
    if link == "exp":
        return jnp.zeros_like(log_natural)
    return log_natural - jnp.log(-jnp.expm1(-jnp.exp(log_natural))) if link == "softplus" else log_natural
