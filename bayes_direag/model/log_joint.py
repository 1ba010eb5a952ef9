r"""The log joint density of raw parameters and labels, arranged for the many evaluations that a fit takes.

It is the density of :func:`bayes_direag.model.model.direag`. Of the states of a question only two sums matter, the
concentration T of what came true and S of all states together, as its likelihood is T / S. With
:math:`g_{il} = w_l \tilde q_{il}` what a usable report gives its answer,

.. math::

    N_i &= \beta_0 + \gamma \sum_l (w_l - g_{il}) \\
    S_i &= \eta + N_i + \sum_l g_{il} \\
    T_i &= \begin{cases}
        \frac{m_i}{K_i + 1} \eta + \sum_{l \text{ right}} g_{il} & m_i \text{ of } K_i \text{ candidates are right} \\
        \frac{1}{K_i + 1} \eta + N_i & \text{none is: the null came true}
    \end{cases}

What does not depend on parameters is worked out once, levels come first, and the gradient is written out.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpyro
from jax.scipy.special import logit
from jaxtyping import Array, Float

from bayes_direag.model.evidence import Parameters, Reports
from bayes_direag.model.model import Labels, Raw, natural_parameters, raw_parameters, raw_priors
from bayes_direag.model.settings import Preset, Variant

#: Beyond it odds are cut off, so that odds times their inverse stay 1.
_LARGEST_EXPONENT = 700.0


class Outcomes(NamedTuple):
    """Reports and what came true, as the density needs them.

    Attributes
    ----------
    stated : (level, problem) array
        Stated confidences, clipped, on the logit scale; 0 where there is no usable report.
    usable : (level, problem) array
        1 where there is a usable report, else 0.
    right : (level, problem) array
        1 where its answer is right, else 0.
    null : (problem,) array
        1 where no candidate is right, else 0.
    share : (problem,) array
        The share of the prior strength that what came true has.
    weight : (problem,) array
        Weight of each question's log-likelihood.
    """

    stated: Float[Array, "level problem"]
    usable: Float[Array, "level problem"]
    right: Float[Array, "level problem"]
    null: Float[Array, " problem"]
    share: Float[Array, " problem"]
    weight: Float[Array, " problem"]

    @classmethod
    def of(cls, reports: Reports, labels: Labels, eps: float) -> "Outcomes":
        """Arrange reports and labels; stated confidences are clipped to ``[eps, 1 - eps]``."""
        usable = jnp.asarray(reports.candidate).T >= 0
        stated = logit(jnp.clip(jnp.asarray(reports.confidence, float), eps, 1 - eps)).T
        some = jnp.asarray(labels.n_correct) > 0
        return cls(
            jnp.where(usable, stated, 0.0),
            usable.astype(float),
            (jnp.asarray(labels.correct).T & usable).astype(float),
            (~some).astype(float),
            jnp.where(some, labels.n_correct, 1) / (jnp.asarray(reports.n_candidates) + 1.0),
            jnp.asarray(labels.weight, float),
        )


class Concentrations(NamedTuple):
    """Of what came true (T above) and of all states together (S), by question."""

    true: Float[Array, " problem"]
    total: Float[Array, " problem"]

    def log_likelihood(self) -> Float[Array, " problem"]:
        """Return the log probability of what came true."""
        return jnp.log(self.true / self.total)


def log_prior(raw: Raw, outcomes: Outcomes, preset: Preset, variant: Variant) -> Float[Array, ""]:
    """Return the log density of the raw parameters before anything is known."""
    priors = raw_priors(preset, variant, outcomes.stated.shape[0], jnp.sum(outcomes.weight))
    return sum((jnp.sum(prior.log_prob(raw[name])) for name, prior in priors.items()), jnp.zeros(()))


def log_joint(raw: Raw, outcomes: Outcomes, preset: Preset, variant: Variant) -> Float[Array, ""]:
    """Return the log joint density of raw parameters and labels."""
    likelihood = total_log_likelihood(natural_parameters(raw, preset, variant), outcomes)
    return log_prior(raw, outcomes, preset, variant) + likelihood


def arranged(outcomes: Outcomes, *, preset: Preset, variant: Variant) -> None:
    """Draw the parameters; the likelihood in one piece."""
    raw = raw_parameters(preset, variant, outcomes.stated.shape[0], jnp.sum(outcomes.weight))
    numpyro.factor("target", total_log_likelihood(natural_parameters(raw, preset, variant), outcomes))


def given(parameters: Parameters, outcomes: Outcomes) -> Float[Array, "level problem"]:
    """Return the evidence that each report gives its answer; 0 where there is no usable one."""
    return parameters.weight[:, None] * _calibrated(parameters, outcomes.stated, outcomes.usable)[0]


def concentrations(parameters: Parameters, outcomes: Outcomes) -> Concentrations:
    """Return the concentrations of every question."""
    calibrated, complement = _calibrated(parameters, outcomes.stated, outcomes.usable)
    to_all = parameters.weight @ calibrated
    to_right = parameters.weight @ (outcomes.right * calibrated)
    null = _null(parameters, parameters.weight @ complement)
    true = outcomes.share * parameters.prior_strength + outcomes.null * null + to_right
    return Concentrations(true, parameters.prior_strength + null + to_all)


def of_level(parameters: Parameters, outcomes: Outcomes, level: Array) -> Concentrations:
    """Return what one level's reports contribute to the concentrations."""
    one = parameters._replace(
        weight=parameters.weight[level],
        bias=None if parameters.bias is None else parameters.bias[level],
        null_base=jnp.zeros_like(parameters.null_base),
    )
    calibrated, complement = _calibrated(one, outcomes.stated[level], outcomes.usable[level])
    own = one.weight * calibrated
    null = _null(one, one.weight * complement)
    return Concentrations(outcomes.null * null + outcomes.right[level] * own, null + own)


@jax.custom_vjp
def total_log_likelihood(parameters: Parameters, outcomes: Outcomes) -> Float[Array, ""]:
    """Return the weighted sum of the log-likelihoods of all questions."""
    return outcomes.weight @ concentrations(parameters, outcomes).log_likelihood()


def _forward(parameters: Parameters, outcomes: Outcomes) -> tuple[Float[Array, ""], Parameters]:
    """Return the sum, and the gradient with respect to the parameters, in place of anything to compute it from."""
    level = parameters.weight
    calibrated, complement = _calibrated(parameters, outcomes.stated, outcomes.usable)
    found = concentrations(parameters, outcomes)
    true, total = outcomes.weight / found.true, -outcomes.weight / found.total
    null = total + outcomes.null * true  # by the null's concentration
    gain = jnp.zeros(()) if parameters.null_gain is None else parameters.null_gain
    by_given = outcomes.right * true[None, :] + total[None, :]
    everyone = jnp.ones_like(total)
    own = Parameters(
        weight=(by_given * calibrated) @ everyone + gain * (complement @ null),
        prior_strength=outcomes.share @ true + jnp.sum(total),
        null_base=jnp.sum(null),
    )
    if parameters.bias is not None:
        by_score = (by_given - gain * null[None, :]) * calibrated * complement
        own = own._replace(bias=level * (by_score @ everyone))
        if parameters.slope is not None:
            own = own._replace(slope=level @ jnp.einsum("lp,lp->l", by_score, outcomes.stated))
    if parameters.null_gain is not None:
        own = own._replace(null_gain=null @ (level @ complement))
    return outcomes.weight @ found.log_likelihood(), own


def _backward(gradient: Parameters, cotangent: Float[Array, ""]) -> tuple[Parameters, None]:
    return jax.tree.map(lambda own: own * cotangent, gradient), None


total_log_likelihood.defvjp(_forward, _backward)


def _calibrated(
    parameters: Parameters, stated: Float[Array, "*level problem"], usable: Float[Array, "*level problem"]
) -> tuple[Float[Array, "*level problem"], Float[Array, "*level problem"]]:
    """Return the calibrated confidences and their complements, each without cancellation; 0 where none is usable."""
    if parameters.bias is None:
        return usable, jnp.zeros_like(usable)
    score = jnp.broadcast_to(parameters.bias[..., None], stated.shape)
    if parameters.slope is not None:
        score = score + parameters.slope * stated
    odds_against = jnp.exp(jnp.minimum(-score, _LARGEST_EXPONENT))
    calibrated = usable / (1 + odds_against)
    return calibrated, calibrated * odds_against


def _null(parameters: Parameters, lost: Float[Array, " problem"]) -> Float[Array, " problem"]:
    """Return the null's concentration beside its share of the prior, given what the reports lack of certainty."""
    gain = parameters.null_gain
    return jnp.broadcast_to(parameters.null_base, lost.shape) if gain is None else parameters.null_base + gain * lost
