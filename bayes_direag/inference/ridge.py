r"""Moves along the ridge of weight and bias, between the steps of NUTS.

What the likelihood sees of a level is above all the evidence that its usual report gives,

.. math:: w_l \operatorname{sigmoid}(b_l + s \, \bar x_l),

with :math:`\bar x_l` the mean of the level's stated confidences on the logit scale: a lower bias is made good by a
higher weight. Where the sigmoid saturates the ridge bends into a plateau, on which all reports of the level count in
full; a chain that has strayed there can take hundreds of NUTS steps to find back. So after every step each level in
turn is offered another bias, drawn from the prior, and the weight with which its usual report counts for the same.
Accepting as Metropolis and Hastings say, with the Jacobian of that change, leaves the posterior as it is.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key
from numpyro.distributions.transforms import ExpTransform, IdentityTransform, SoftplusTransform

from bayes_direag.model.evidence import calibrate, evidence
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, State, natural_parameters, raw_priors

_Sums = tuple[Float[Array, " problem"], Float[Array, " problem"]]
_Place = tuple[_Sums, Float[Array, ""]]

_LINKS = {"exp": ExpTransform(), "softplus": SoftplusTransform(), "identity": IdentityTransform()}


def has_ridges(data: LikelihoodData) -> bool:
    """Whether every level has a weight and a bias of its own."""
    return data.variant != "count" and not data.preset.pools("weight") and not data.preset.pools("bias")


def usual_report(data: LikelihoodData) -> Float[Array, " level"]:
    """Return each level's mean stated confidence, on the logit scale, over what counts; 0 where it has none."""
    usable = jnp.where(jnp.asarray(data.reports.candidate).T >= 0, jnp.asarray(data.weight)[None, :], 0.0)
    total = jnp.sum(usable, axis=1)
    stated = jnp.sum(usable * jnp.asarray(data.reports.logit_confidence).T, axis=1)
    return stated / jnp.where(total > 0, total, 1.0)


def along_ridges(
    raw: Raw, bias: Float[Array, " level"], usual: Float[Array, " level"], data: LikelihoodData
) -> tuple[Raw, Float[Array, " level"]]:
    """Move every level to another bias, its usual report counting for the same.

    Returns
    -------
    raw, log_jacobian
        Where they are then, and the log of how much each level's change stretches its raw weight.
    """

    def calibrated(raw: Raw) -> Float[Array, " level"]:
        return calibrate(usual, natural_parameters(raw, data.preset, data.variant))[0]

    link, before = _LINKS[data.preset.weight.link], raw["weight"]
    moved = raw | {"bias": bias}
    ratio = calibrated(raw) / calibrated(moved)
    weight = ratio * link(before)
    after = link.inv(weight)
    stretched = link.log_abs_det_jacobian(before, link(before)) - link.log_abs_det_jacobian(after, weight)
    return moved | {"weight": after}, jnp.log(ratio) + stretched


def ridge_sweep(key: Key[Array, ""], raw: Raw, data: LikelihoodData) -> Raw:
    """Offer every level another bias, one after the other; return where the parameters are afterwards.

    What a level's move changes depends on that level alone: it is worked out for all levels at once, and only whether
    each is taken is decided in turn.
    """
    prior = raw_priors(data.preset, data.variant, data.n_levels, jnp.sum(data.weight))
    target, counts = jnp.asarray(data.target), jnp.asarray(data.weight)
    draw, accept = jax.random.split(key)
    bias = prior["bias"].sample(draw, raw["bias"].shape)
    moved, log_jacobian = along_ridges(raw, bias, usual_report(data), data)
    # the prior of the bias cancels, as the bias is drawn from it
    gain = log_jacobian + prior["weight"].log_prob(moved["weight"]) - prior["weight"].log_prob(raw["weight"])
    needed = jnp.log(jax.random.uniform(accept, bias.shape, bias.dtype)) - gain

    def by_level(raw: Raw) -> tuple[Float[Array, "level problem"], Float[Array, "level problem"]]:
        """Return what each level adds to the concentrations of the target and of all states."""
        weighed = evidence(data.reports, natural_parameters(raw, data.preset, data.variant))
        named = jnp.where(target[None, :] == jnp.asarray(data.merged).T, weighed.given, 0.0)
        return jnp.where(target[None, :] < 0, weighed.doubt, named), weighed.given + weighed.doubt

    def log_likelihood(of_target: Float[Array, " problem"], of_all: Float[Array, " problem"]) -> Float[Array, ""]:
        return counts @ jnp.log(of_target / of_all)

    def offer(now: _Place, level: tuple[_Sums, Float[Array, ""]]) -> tuple[_Place, Bool[Array, ""]]:
        change, needed = level
        sums = jax.tree.map(jnp.add, now[0], change)
        there = sums, log_likelihood(*sums)
        taken = there[1] - now[1] > needed
        return jax.tree.map(lambda new, old: jnp.where(taken, new, old), there, now), taken

    sums = State(data, natural_parameters(raw, data.preset, data.variant)).concentration(target)
    changes = jax.tree.map(jnp.subtract, by_level(moved), by_level(raw))
    _, taken = jax.lax.scan(offer, (sums, log_likelihood(*sums)), (changes, needed))
    return raw | {name: jnp.where(taken, moved[name], raw[name]) for name in ("weight", "bias")}
