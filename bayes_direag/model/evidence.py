r"""The evidence model as pure functions on JAX arrays.

Every report of a question, passed through its level's calibration curve, is evidence for its own answer
and, with what it lacks of certainty, for the *null state* "no candidate is right":

.. math::

    \tilde q_{il} &= \operatorname{sigmoid}(b_l + s \operatorname{logit} q_{il}) \\
    \alpha_i(a) &= \frac{\eta}{K_i + 1} + \sum_{l: a_{il} = a} w_l \tilde q_{il} \\
    \alpha_i(\varnothing) &= \frac{\eta}{K_i + 1} + \beta_0 + \gamma \sum_l w_l (1 - \tilde q_{il}) \\
    P_i &= \alpha_i / \textstyle\sum \alpha_i

Axes are named as everywhere in the project: ``problem``, ``level``, ``candidate``. A ``state`` is a candidate
or, in the last place, the null; a question has at most as many candidates as there are levels, so there are
``level + 1`` states, and a state that a question does not have carries concentration 0. Everything follows
the dtype of its parameters; the project's own fits run in double precision.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logit
from jaxtyping import Array, Bool, Float, Int, Shaped

from bayes_direag.data.observations import Observations


class Parameters(NamedTuple):
    """The model's natural parameters; one that a variant lacks is None.

    Attributes
    ----------
    weight : (level,) array, >= 0
        How much a level's reports count.
    prior_strength : () array, > 0
        Concentration (eta) shared evenly by a question's candidates and the null before any report.
    null_base : () array, >= 0
        Concentration (beta_0) of the null before any report.
    bias : (level,) array or None
        Shift of a level's reports on the logit scale. None: every report counts in full.
    slope : () array or None
        Stretch of the stated confidence on the logit scale. None: the stated confidence is not used.
    null_gain : () array or None
        How much of what a report lacks of certainty goes to the null (gamma). None: nothing does.
    """

    weight: Float[Array, " level"]
    prior_strength: Float[Array, ""]
    null_base: Float[Array, ""]
    bias: Float[Array, " level"] | None = None
    slope: Float[Array, ""] | None = None
    null_gain: Float[Array, ""] | None = None


class Reports(NamedTuple):
    """What the model is told about each question: who said what, and how surely.

    Attributes
    ----------
    confidence : (problem, level) array
        Stated confidences in [0, 1]; any finite number where there is no usable report.
    candidate : (problem, level) array
        Index of the reported answer among the question's own candidates; -1 where there is no usable report.
    n_candidates : (problem,) array
        Number of distinct answers, K.
    """

    confidence: Float[Array | np.ndarray, "problem level"]
    candidate: Int[Array | np.ndarray, "problem level"]
    n_candidates: Int[Array | np.ndarray, " problem"]

    @classmethod
    def of(cls, observations: Observations) -> "Reports":
        """Take the arrays the model needs out of observations."""
        confidence = np.where(observations.usable, observations.confidence, 0.5)
        return cls(confidence, observations.candidate, observations.n_candidates)

    def select(self, index: Int[np.ndarray, " selected"]) -> "Reports":
        """Take some questions, by number."""
        return Reports(*(array[index] for array in self))

    def padded(self, size: int) -> "Reports":
        """Append questions without reports until there are ``size``."""
        missing = size - len(self.n_candidates)
        return Reports(
            np.pad(self.confidence, ((0, missing), (0, 0)), constant_values=0.5),
            np.pad(self.candidate, ((0, missing), (0, 0)), constant_values=-1),
            np.pad(self.n_candidates, (0, missing)),
        )


def padded_size(n: int, *, least: int = 1024, per_octave: int = 1) -> int:
    """Return the next of few sizes, which mean few compilations: so many between a number and its double.

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


def calibrate(
    confidence: Float[Array, "problem level"], parameters: Parameters, eps: float
) -> tuple[Float[Array, "problem level"], Float[Array, "problem level"]]:
    """Return the calibrated confidence of every report and its complement, each without cancellation.

    Stated confidences are clipped to ``[eps, 1 - eps]`` first. Without ``bias`` every report counts 1;
    without ``slope`` a report counts what its level is worth, whatever confidence it states.
    """
    if parameters.bias is None:
        return jnp.ones_like(confidence), jnp.zeros_like(confidence)
    score = _score(confidence.T, parameters.bias, parameters.slope, eps).T
    return jax.nn.sigmoid(score), jax.nn.sigmoid(-score)


def concentration(reports: Reports, parameters: Parameters, eps: float) -> Float[Array, "problem state"]:
    """Return the Dirichlet concentration of every state of every question, the null last.

    States that a question does not have (beyond its K candidates) hold exactly 0. A question without usable
    reports has the null as its only state.
    """
    share, given, null = _evidence(reports, parameters, eps)
    index = jnp.arange(reports.candidate.shape[1])
    vote = reports.candidate[:, :, None] == index[None, None, :]
    candidates = share[:, None] + jnp.sum(jnp.where(vote, given.T[:, :, None], 0.0), axis=1)
    exists = index[None, :] < reports.n_candidates[:, None]
    return jnp.concatenate([jnp.where(exists, candidates, 0.0), null[:, None]], axis=1)


def target_concentration(
    reports: Reports,
    correct: Bool[Array | np.ndarray, "problem level"],
    n_correct: Int[Array | np.ndarray, " problem"],
    parameters: Parameters,
    eps: float,
) -> Float[Array, "problem 2"]:
    """Return the concentration of what came true, and of everything else together.

    What came true is the null where no candidate is right, else the right candidate or, where several are right, any
    of them. Merging states of a Dirichlet adds their concentrations, so these are the two states of the same model
    seen as "it came true, or not".

    Parameters
    ----------
    correct : (problem, level) array
        Whether a level's answer is right; False where there is no usable report.
    n_correct : (problem,) array
        Number of right candidates, 0 to K.
    """
    share, given, null = _evidence(reports, parameters, eps)
    is_right = jnp.asarray(correct).T
    right = n_correct * share + jnp.sum(jnp.where(is_right, given, 0.0), axis=0)
    wrong = (reports.n_candidates - n_correct) * share + jnp.sum(jnp.where(is_right, 0.0, given), axis=0)
    some = jnp.asarray(n_correct) > 0
    return jnp.stack([jnp.where(some, right, null), jnp.where(some, wrong + null, wrong)], axis=1)


def _evidence(
    reports: Reports, parameters: Parameters, eps: float
) -> tuple[Float[Array, " problem"], Float[Array, "level problem"], Float[Array, " problem"]]:
    """Return each state's share of the prior, what each report gives its answer, and the null's concentration.

    Levels come first: sums over them then run along whole rows of questions, which is what takes the time in a fit.
    """
    usable = jnp.asarray(reports.candidate >= 0).T
    weight = jnp.where(usable, parameters.weight[:, None], 0.0)
    share = parameters.prior_strength / (reports.n_candidates + 1)
    null = share + parameters.null_base
    if parameters.bias is None:
        return share, weight, null
    confidence = jnp.asarray(reports.confidence, parameters.weight.dtype).T
    score = _score(confidence, parameters.bias, parameters.slope, eps)
    if parameters.null_gain is not None:
        null = null + parameters.null_gain * jnp.sum(weight * jax.nn.sigmoid(-score), axis=0)
    return share, weight * jax.nn.sigmoid(score), null


def _score(
    confidence: Float[Array, "level problem"],
    bias: Float[Array, " level"],
    slope: Float[Array, ""] | None,
    eps: float,
) -> Float[Array, "level problem"]:
    """Return every report's calibrated confidence on the logit scale."""
    score = jnp.broadcast_to(bias[:, None], confidence.shape)
    return score if slope is None else score + slope * logit(jnp.clip(confidence, eps, 1 - eps))


def log_support(concentration: Float[Array, "problem state"]) -> Float[Array, "problem state"]:
    """Return the log of the Dirichlet mean, ``log(alpha / sum(alpha))``; -inf for a state of concentration 0."""
    exists = concentration > 0
    log_concentration = jnp.where(exists, jnp.log(jnp.where(exists, concentration, 1.0)), -jnp.inf)
    return log_concentration - jnp.log(jnp.sum(concentration, axis=1, keepdims=True))


def selected_candidate(
    support: Float[Array, "problem state"], n_candidates: Shaped[Array, " problem"]
) -> Int[Array, " problem"]:
    """Return the candidate of greatest support, never the null; -1 for a question without candidates.

    Ties go to the candidate whose canonical answer comes first in string order, which is the order of the
    candidates.
    """
    return jnp.where(n_candidates > 0, jnp.argmax(support[:, :-1], axis=1), -1)
