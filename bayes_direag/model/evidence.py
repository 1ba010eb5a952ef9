r"""The evidence equations, as pure functions on JAX arrays.

Every report of a question passes through its level's calibration curve. The calibrated confidence is evidence for the
report's answer, and its complement is evidence for the *null state* "no candidate is right":

.. math::

    \tilde q_{il} &= \operatorname{sigmoid}(b_l + s \operatorname{logit} q_{il}) \\
    \alpha_i(a) &= \frac{\eta}{K_i + 1} + \sum_{l: a_{il} = a} w_l \tilde q_{il} \\
    \alpha_i(\varnothing) &= \frac{\eta}{K_i + 1} + \beta_0 + \gamma \sum_l w_l (1 - \tilde q_{il}) \\
    P_i &= \alpha_i / \textstyle\sum \alpha_i

That is the paper. Evidence adds up, so support is close to a share of the votes: six of ten agreeing reports cannot
give much more than 0.6. Beyond the paper, evidence may be sharpened, and votes may multiply:

.. math::

    P_i(a) &\propto \alpha_i(a)^{\kappa} \exp \sum_{l: a_{il} = a} (v_l + t_{l a} + u \operatorname{logit} q_{il}) \\
    P_i(\varnothing) &\propto \alpha_i(\varnothing)^{\kappa}

with sharpness :math:`\kappa`, votes :math:`v_l`, votes by label :math:`t_{la}`, and vote slope :math:`u`;
:math:`\kappa = 1`, :math:`v = t = u = 0` is the paper. Votes by label are for answers like yes and no, which mean the
same in all questions: from a judge who nearly always says yes, a no is stronger evidence.

The axes are ``problem``, ``level`` and ``candidate``. A ``state`` is a candidate or, in the last place, the null. A
question has at most one candidate a level, so there are ``level + 1`` states; those that a question lacks have
concentration 0. The dtype of the parameters is kept; the project's own fits run in double precision.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayes_direag.data.observations import Observations
from bayes_direag.model.selection import logit_signals
from bayes_direag.model.settings import LEVEL_PARAMETERS


class Parameters(NamedTuple):
    """The model's natural parameters; None for one that a variant or preset does not have.

    Attributes
    ----------
    weight : (level,) array, >= 0
        How much a level's reports count.
    prior_strength : () array, > 0
        Concentration (eta) that a question's candidates and the null share evenly before any report.
    null_base : () array, >= 0
        Concentration (beta_0) of the null, in addition to its share of the prior.
    bias : (level,) array or None
        Shift of a level's confidences on the logit scale. None: every report counts in full.
    slope : () or (signal,) array or None
        Factor of the stated confidence, or of each signal, on the logit scale. None: confidences are not used.
    null_gain : () array or None
        Factor of the complements' evidence for the null (gamma). None: 0.
    sharpness : () array or None, > 0
        Power to which the concentrations are raised. None: 1.
    vote : (level,) array or None
        What a report adds to the log odds of its answer, at any confidence. None: 0.
    label_vote : (level, label) array or None
        What it adds if its answer is that label. None: 0.
    vote_slope : () or (signal,) array or None
        What it adds for each unit of the logit of its confidence, or of each signal. None: 0.
    """

    weight: Float[Array, " level"]
    prior_strength: Float[Array, ""]
    null_base: Float[Array, ""]
    bias: Float[Array, " level"] | None = None
    slope: Float[Array, "*signal"] | None = None
    null_gain: Float[Array, ""] | None = None
    sharpness: Float[Array, ""] | None = None
    vote: Float[Array, " level"] | None = None
    label_vote: Float[Array, "level label"] | None = None
    vote_slope: Float[Array, "*signal"] | None = None

    @property
    def is_additive(self) -> bool:
        """Whether support is a share of the evidence, as in the paper: no sharpness and no votes."""
        return self.sharpness is None and not self.has_votes

    @property
    def has_votes(self) -> bool:
        """Whether reports add to the log odds of their answers."""
        return not (self.vote is None and self.label_vote is None and self.vote_slope is None)

    def of_slots(self, slots: Sequence[int] | None) -> "Parameters":
        """Repeat the parameters of each level for every column of reports that belongs to it; None: one column each."""
        if slots is None:
            return self
        by_level = {name: getattr(self, name) for name in LEVEL_PARAMETERS}
        by_column = {name: value[..., list(slots)] for name, value in by_level.items() if value is not None}
        if self.label_vote is not None:
            by_column["label_vote"] = self.label_vote[..., list(slots), :]
        return self._replace(**by_column)


class Reports(NamedTuple):
    """What each level reported on each question.

    Attributes
    ----------
    logit_confidence : (problem, level) or (problem, level, signal) array
        Stated confidences, clipped to ``[eps, 1 - eps]``, on the logit scale. 0 (an even chance) where a report does
        not state one; any finite number where there is no usable report.
    candidate : (problem, level) array
        Index of the reported answer among the question's own candidates; -1 where there is no usable report.
    n_candidates : (problem,) array
        Number of distinct answers, K.
    label : (problem, level) array or None
        Index of the reported answer among the labels; -1 for any other answer, and where there is no usable report.
        None: the model has no votes by label.
    """

    logit_confidence: Float[Array | np.ndarray, "problem level *signal"]
    candidate: Int[Array | np.ndarray, "problem level"]
    n_candidates: Int[Array | np.ndarray, " problem"]
    label: Int[Array | np.ndarray, "problem level"] | None = None

    @classmethod
    def of(cls, observations: Observations, eps: float, labels: Sequence[str] | None = None) -> "Reports":
        """Take the model's arrays from observations; ``labels`` are needed for votes by label only."""
        return cls(
            logit_signals([observations.confidence, *observations.signals.values()], eps),
            observations.candidate,
            observations.n_candidates,
            None if labels is None else observations.label(labels),
        )

    def select(self, index: Int[np.ndarray, " selected"] | slice) -> "Reports":
        """Return some of the questions."""
        selected: Reports = jax.tree.map(lambda array: array[index], self)
        return selected

    def padded(self, size: int) -> "Reports":
        """Append questions without reports until there are ``size``."""
        missing = size - len(self.n_candidates)
        return Reports(
            np.pad(self.logit_confidence, [(0, missing), *[(0, 0)] * (np.ndim(self.logit_confidence) - 1)]),
            np.pad(self.candidate, ((0, missing), (0, 0)), constant_values=-1),
            np.pad(self.n_candidates, (0, missing)),
            None if self.label is None else np.pad(self.label, ((0, missing), (0, 0)), constant_values=-1),
        )


class Evidence(NamedTuple):
    """The parts of each question's Dirichlet concentration, and its votes; 0 where there is no usable report.

    Attributes
    ----------
    share : (problem,) array
        Each state's part of the prior strength, ``eta / (K + 1)``.
    given : (level, problem) array
        What each report adds to its answer, ``weight * calibrated``.
    doubt : (level, problem) array
        What each report adds to the null, ``null_gain * weight * (1 - calibrated)``.
    null : (problem,) array
        Concentration of the null.
    total : (problem,) array
        Concentration of all states together.
    vote : (level, problem) array or None
        What each report adds to the log odds of its answer. None: the model has no votes.
    """

    share: Float[Array, " problem"]
    given: Float[Array, "level problem"]
    doubt: Float[Array, "level problem"]
    null: Float[Array, " problem"]
    total: Float[Array, " problem"]
    vote: Float[Array, "level problem"] | None


def evidence(reports: Reports, parameters: Parameters) -> Evidence:
    """Return what every report adds to the states of its question.

    The level axis comes first, because most of a fit's time goes into sums over levels, which then run along whole
    rows.
    """
    weights, usable = parameters.weight, jnp.asarray(reports.candidate).T >= 0
    by_level = parameters if parameters.bias is None else parameters._replace(bias=parameters.bias[:, None])
    logits = jnp.swapaxes(jnp.asarray(reports.logit_confidence, weights.dtype), 0, 1)
    calibrated, complement = (jnp.where(usable, part, 0.0) for part in calibrate(logits, by_level))
    gain = 0.0 if parameters.null_gain is None else parameters.null_gain
    share = parameters.prior_strength / (reports.n_candidates + 1)
    # sums over levels as products of matrices: twice as fast as reductions
    beyond_prior = parameters.null_base + gain * (weights @ complement)
    total = parameters.prior_strength + beyond_prior + weights @ calibrated
    given, doubt = weights[:, None] * calibrated, gain * (weights[:, None] * complement)
    vote = None
    if parameters.has_votes:
        constant = 0.0 if parameters.vote is None else parameters.vote[:, None]
        if parameters.label_vote is not None:
            label_votes = jnp.pad(parameters.label_vote, ((0, 0), (0, 1)))  # the last column, index -1, is no label
            constant = constant + label_votes[jnp.arange(len(weights))[:, None], jnp.asarray(reports.label).T]
        from_confidence = 0.0 if parameters.vote_slope is None else over_signals(logits, parameters.vote_slope)
        vote = jnp.where(usable, constant + from_confidence, 0.0)
    return Evidence(share, given, doubt, share + beyond_prior, total, vote)


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


def candidate_sums(
    values: Float[Array, "level problem"], reports: Reports, n_candidates: int
) -> Float[Array, "candidate problem"]:
    """Add up the reports' values by candidate; 0 for a candidate that a question lacks."""
    candidate = jnp.asarray(reports.candidate).T
    zeros = jnp.zeros((n_candidates, candidate.shape[1]), values.dtype)
    return zeros.at[candidate, jnp.arange(candidate.shape[1])].add(values)


def log_scores(
    reports: Reports, weighed: Evidence, parameters: Parameters, n_candidates: int
) -> Float[Array, "state problem"]:
    """Return log P up to a constant for each question, the null last; minus infinity for a state that it lacks.

    Parameters
    ----------
    n_candidates
        Length of the candidate axis, at least the most candidates of any question.
    """
    sharpness = 1.0 if parameters.sharpness is None else parameters.sharpness
    exists = jnp.arange(n_candidates)[:, None] < jnp.asarray(reports.n_candidates)[None]
    candidates = sharpness * jnp.log(weighed.share[None] + candidate_sums(weighed.given, reports, n_candidates))
    if weighed.vote is not None:
        candidates = candidates + candidate_sums(weighed.vote, reports, n_candidates)
    scores = jnp.where(exists, candidates, -jnp.inf)
    return jnp.concatenate([scores, sharpness * jnp.log(weighed.null)[None]])


def concentration(
    reports: Reports, parameters: Parameters, n_candidates: int | None = None
) -> Float[Array, "problem state"]:
    """Return the Dirichlet concentration of every state of every question, the null last.

    States beyond a question's K candidates have concentration exactly 0. A question without usable reports has the null
    as its only state. The candidate axis is ``n_candidates`` long; by default, as long as there are levels.
    """
    weighed, size = evidence(reports, parameters), n_candidates or reports.candidate.shape[1]
    exists = jnp.arange(size)[:, None] < jnp.asarray(reports.n_candidates)[None]
    candidates = weighed.share[None] + candidate_sums(weighed.given, reports, size)
    return jnp.concatenate([jnp.where(exists, candidates, 0.0), weighed.null[None]]).T


def support(reports: Reports, parameters: Parameters, n_candidates: int | None = None) -> Float[Array, "problem state"]:
    """Return the probability P of each state, the null last; rows sum to 1.

    Without sharpness and votes P is the Dirichlet mean, ``alpha / sum(alpha)``. The axes are those of
    :func:`concentration`.
    """
    if parameters.is_additive:
        alpha = concentration(reports, parameters, n_candidates)
        return alpha / jnp.sum(alpha, axis=1, keepdims=True)
    size = n_candidates or reports.candidate.shape[1]
    return jax.nn.softmax(log_scores(reports, evidence(reports, parameters), parameters, size), axis=0).T


@jax.jit
def supports(reports: Reports, parameters: Parameters) -> Float[Array, "sample problem state"]:
    """Return :func:`support` for parameters with a leading sample axis, one sample after the other."""
    by_sample: Array = jax.vmap(support, in_axes=(None, 0))(reports, parameters)
    return by_sample


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
