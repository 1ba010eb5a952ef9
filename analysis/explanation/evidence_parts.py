r"""The concentration of one question taken apart by source, and the question with each of its reports taken away.

.. math::

    \alpha(a) = \underbrace{\frac{\eta}{K + 1}}_{\text{prior}}
        + \sum_{l: a_l = a} \underbrace{w_l \tilde q_l}_{\text{report } l} \qquad
    \alpha(\varnothing) = \frac{\eta}{K + 1} + \underbrace{\beta_0}_{\text{null base}}
        + \sum_l \underbrace{\gamma w_l (1 - \tilde q_l)}_{\text{doubt of report } l}

Sharpness and votes act on a state as a whole: what a source adds to the support of a state is its share of that state's
concentration, times the support.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.posterior import sampled_parameters
from bayes_direag.model.evidence import Evidence, Parameters, Reports, calibrate, evidence, support


@dataclass(frozen=True, eq=False)
class EvidenceParts:
    """What one question's reports are worth, in every posterior draw.

    Attributes
    ----------
    level : (report,) array
        The level of each usable report, as a position among those of the fit.
    candidate : (report,) array
        The candidate it names.
    calibrated : (sample, report) array
        Its calibrated confidence, q~.
    weight_share : (sample, report) array
        Its level's share in the weight of all levels; NaN where all weigh nothing.
    concentration : (sample, source, state) array
        What each source gives to each state. Sources: the reports, the prior, the null base. States: the candidates,
        the null. The sum over sources is the concentration.
    state_support : (sample, state) array
        The support of each state.
    """

    level: Int[np.ndarray, " report"]
    candidate: Int[np.ndarray, " report"]
    calibrated: Float[np.ndarray, "sample report"]
    weight_share: Float[np.ndarray, "sample report"]
    concentration: Float[np.ndarray, "sample source state"]
    state_support: Float[np.ndarray, "sample state"]

    @property
    def support(self) -> Float[np.ndarray, "sample source state"]:
        """What each source adds to the support of each state; the sum over sources is the support."""
        share = self.concentration / self.concentration.sum(axis=1, keepdims=True)
        return np.asarray(share * self.state_support[:, None, :])

    @classmethod
    def of(cls, fit: Fit, question: Observations) -> "EvidenceParts":
        """Take apart the only question of some observations, which are aligned with the fit."""
        level = np.flatnonzero(question.usable[0])
        candidate = question.candidate[0, level]
        reports = fit.reports(question)
        with jax.enable_x64(True):
            parameters = sampled_parameters(fit.tree, question.slots)
            calibrated, weighed, supports = _weighed(reports, parameters)
        weights = np.asarray(parameters.weight)
        weight = weights[:, level]
        with np.errstate(invalid="ignore"):
            weight_share = weight / weights.sum(axis=1, keepdims=True)
        concentration = concentration_parts(
            candidate,
            len(question.candidates[0]),
            given=np.asarray(weighed.given)[:, level, 0],
            doubted=np.asarray(weighed.doubt)[:, level, 0],
            prior_strength=np.asarray(parameters.prior_strength),
            null_base=np.asarray(parameters.null_base),
        )
        there = np.asarray(supports)[:, 0, [*range(len(question.candidates[0])), -1]]
        return cls(level, candidate, np.asarray(calibrated)[:, 0, level], weight_share, concentration, there)


@jax.jit
def _weighed(
    reports: Reports, parameters: Parameters
) -> tuple[Float[Array, "sample problem report"], Evidence, Float[Array, "sample problem state"]]:
    """Return the calibrated confidence of every report, what it is worth, and all supports, in every sample."""

    def of_sample(sample: Parameters) -> tuple[Array, Evidence, Array]:
        calibrated = calibrate(jnp.asarray(reports.logit_confidence), sample)[0]
        return calibrated, evidence(reports, sample), support(reports, sample)

    by_sample: tuple[Array, Evidence, Array] = jax.vmap(of_sample)(parameters)
    return by_sample


def concentration_parts(
    candidate: Int[np.ndarray, " report"],
    n_candidates: int,
    *,
    given: Float[np.ndarray, "sample report"],
    doubted: Float[np.ndarray, "sample report"],
    prior_strength: Float[np.ndarray, " sample"],
    null_base: Float[np.ndarray, " sample"],
) -> Float[np.ndarray, "sample source state"]:
    """Lay out what each source gives to each state; see :class:`EvidenceParts` for their order.

    Without reports the null is the only state.

    ``candidate`` (report,): the candidate that each report names. ``given``, ``doubted`` (sample, report): what it
    gives to that candidate, and to the null.

    Examples
    --------
    >>> given, doubted = np.array([[5.0, 7.0]]), np.array([[0.5, 0.0]])
    >>> prior = {"prior_strength": np.array([3.0]), "null_base": np.array([2.0])}
    >>> concentration_parts(np.array([1, 0]), 2, given=given, doubted=doubted, **prior)[0]
    array([[0. , 5. , 0.5],
           [7. , 0. , 0. ],
           [1. , 1. , 1. ],
           [0. , 0. , 2. ]])
    """
    n_samples, n_reports = given.shape
    parts = np.zeros((n_samples, n_reports + 2, n_candidates + 1))
    report = np.arange(n_reports)
    parts[:, report, candidate] = given
    parts[:, report, -1] = doubted
    parts[:, -2, :] = prior_strength[:, None] / (n_candidates + 1)
    parts[:, -1, -1] = null_base
    return parts


def with_and_without_each(question: Observations) -> Observations:
    """Return the only question of some observations as it is, then once without each of its usable reports.

    An answer that only the missing report gave is no candidate there.
    """
    level = np.flatnonzero(question.usable[0])
    copies = question.select(np.zeros(1 + len(level), int))
    missing = np.zeros(copies.usable.shape, bool)
    missing[np.arange(1, len(copies)), level] = True
    return copies.without(missing)
