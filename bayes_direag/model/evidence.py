"""The evidence equations in JAX, for what is differentiated or drawn inside NumPyro.

No candidate has an axis of its own: each distinct answer of a question is a state at the first level that gives it. The
level axis comes first, because most of a fit's time goes into sums over levels, which then run along whole rows. The
work has the precision of the confidences; the project's own MAP fits run in double precision.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bayes_direag.model.equations import Parameters, Reports


class Evidence(NamedTuple):
    """The parts of each question's Dirichlet concentration, and its votes; 0 where there is no usable report."""

    #: Each state's part of the prior strength, ``eta / (K + 1)``.
    share: Float[Array, " problem"]
    #: What each report adds to its answer, ``weight * calibrated``.
    given: Float[Array, "level problem"]
    #: Concentration of the null.
    null: Float[Array, " problem"]
    #: What each report adds to the log odds of its answer; None without votes.
    vote: Float[Array, "level problem"] | None


@jax.jit  # traced once, however often the model is
def log_scores(reports: Reports, parameters: Parameters) -> Float[Array, "state problem"]:
    """Return log P up to a constant for each question: of the answer of every level, and of the null, last.

    An answer that several levels give has its score at the first of them. The others, and levels without a usable
    report, have minus infinity.
    """
    precision = jnp.asarray(reports.logit_confidence).dtype
    parameters = jax.tree.map(lambda value: jnp.asarray(value, precision), parameters)
    candidate, weighed = jnp.asarray(reports.candidate).T, evidence(reports, parameters)
    sharpness = 1.0 if parameters.sharpness is None else parameters.sharpness
    answers = sharpness * jnp.log(weighed.share[None] + sums_by_answer(weighed.given, candidate))
    if weighed.vote is not None:
        answers = answers + sums_by_answer(weighed.vote, candidate)
    scores = jnp.where(is_first_mention(candidate), answers, -jnp.inf)
    return jnp.concatenate([scores, sharpness * jnp.log(weighed.null)[None]])


def evidence(reports: Reports, parameters: Parameters) -> Evidence:
    """Return what every report adds to the states of its question."""
    logits = jnp.swapaxes(jnp.asarray(reports.logit_confidence), 0, 1)
    weights, usable = parameters.weight, jnp.asarray(reports.candidate).T >= 0
    by_level = parameters if parameters.bias is None else parameters._replace(bias=parameters.bias[:, None])
    calibrated, complement = (jnp.where(usable, part, 0.0) for part in calibrate(logits, by_level))
    gain = 0.0 if parameters.null_gain is None else parameters.null_gain
    share = parameters.prior_strength / (jnp.asarray(reports.n_candidates) + 1).astype(logits.dtype)
    # a sum over levels as a product of matrices: twice as fast as a reduction
    null = share + parameters.null_base + gain * (weights @ complement)
    vote = None
    if parameters.has_votes:
        constant = 0.0 if parameters.vote is None else parameters.vote[:, None]
        if parameters.label_vote is not None:
            label_votes = jnp.pad(parameters.label_vote, ((0, 0), (0, 1)))  # the last column, index -1, is no label
            constant = constant + label_votes[jnp.arange(len(weights))[:, None], jnp.asarray(reports.label).T]
        from_confidence = 0.0 if parameters.vote_slope is None else over_signals(logits, parameters.vote_slope)
        vote = jnp.where(usable, constant + from_confidence, 0.0)
    return Evidence(share, weights[:, None] * calibrated, null, vote)


@jax.jit
def is_first_mention(candidate: Int[Array, "level problem"]) -> Bool[Array, "level problem"]:
    """Tell whether each level is the first that gives its answer; False without a usable report."""
    earlier = [jnp.any(candidate[:level] == candidate[level][None], axis=0) for level in range(len(candidate))]
    return (candidate >= 0) & ~jnp.stack(earlier)


@jax.custom_vjp
def sums_by_answer(
    values: Float[Array, "level problem"], candidate: Int[Array, "level problem"]
) -> Float[Array, "level problem"]:
    """Return for every report the sum of the values of all reports that give its answer; 0 without a usable report.

    A sum for each report is faster than one for each candidate, whose places have to be looked up.
    """
    return jnp.asarray(_sums_by_answer(values, candidate))


@jax.jit
def _sums_by_answer(
    values: Float[Array, "level problem"], candidate: Int[Array, "level problem"]
) -> Float[Array, "level problem"]:
    rows = zip(candidate, values, strict=True)
    sums = sum(jnp.where(candidate == other[None], value[None], 0.0) for other, value in rows)
    return jnp.where(candidate >= 0, sums, 0.0)


# Agreement is symmetric, so the sum is its own transpose.
sums_by_answer.defvjp(
    lambda values, candidate: (_sums_by_answer(values, candidate), candidate),
    lambda candidate, slopes: (_sums_by_answer(jnp.where(candidate >= 0, slopes, 0.0), candidate), None),
)


def calibrate(
    logit_confidence: Float[Array, "..."], parameters: Parameters
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Return every report's calibrated confidence and its complement, each without cancellation.

    Without ``bias`` the calibrated confidence is 1; without ``slope`` it depends on the level alone.
    """
    if parameters.bias is None:
        return jnp.ones_like(logit_confidence), jnp.zeros_like(logit_confidence)
    if parameters.slope is None:
        return _belief_and_doubt(jnp.broadcast_to(parameters.bias, logit_confidence.shape))
    stretched = over_signals(logit_confidence, parameters.slope)
    return _belief_and_doubt(jnp.broadcast_to(parameters.bias, stretched.shape) + stretched)


def over_signals(logits: Float[Array, "..."], slope: Float[Array, "*signal"]) -> Float[Array, "*shape"]:
    """Return the sum over signals of slope times logit; a single signal has no axis of its own."""
    return jnp.tensordot(logits, slope, axes=jnp.ndim(slope))


@jax.custom_jvp
def _belief_and_doubt(score: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Return the sigmoids of a score and of its negative, from one exponential."""
    odds_against = jnp.exp(jnp.minimum(-score, math.log(np.finfo(score.dtype).max) - 1))
    belief = 1 / (1 + odds_against)
    return belief, belief * odds_against


@_belief_and_doubt.defjvp
def _slopes(
    primals: tuple[Float[Array, "*shape"]], tangents: tuple[Float[Array, "*shape"]]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return both with their derivatives, which overflow for large scores under automatic differentiation."""
    belief, doubt = _belief_and_doubt(*primals)
    slope = belief * doubt * tangents[0]
    return (belief, doubt), (slope, -slope)


def padded_size(n: int, *, least: int = 1024, per_octave: int = 1) -> int:
    """Round a size up, so that few shapes are compiled: ``per_octave`` sizes between a number and its double.

    Examples
    --------
    >>> [padded_size(n) for n in (3, 1024, 1025)]
    [1024, 1024, 2048]
    >>> [padded_size(n, least=64, per_octave=8) for n in (3, 65, 1000, 1319)]
    [64, 72, 1024, 1408]
    """
    octave = max(least, 1 << max(n - 1, 0).bit_length()) // 2
    step = max(octave // per_octave, 1)
    return max(least, -(-n // step) * step)
