r"""The NumPyro models: evidence aggregation and the final binary recalibration.

Which state of a question comes true is a categorical draw with the Dirichlet mean as its probabilities, that
is a one-trial Dirichlet-multinomial with concentration alpha. One draw a question says nothing about the
spread of that Dirichlet: intervals come from the posterior over parameters alone.

Parameters are sampled *raw*, on the real line, so that the mode AutoDelta finds and the density NUTS explores
are the same; the natural ones are deterministic functions of them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int
from numpyro.handlers import mask, scale

from bayes_direag.data.observations import Observations
from bayes_direag.model.evidence import Parameters, Reports, concentration, log_support, target_concentration
from bayes_direag.model.settings import IDENTITY, LEVEL_PARAMETERS, VARIANT_PARAMETERS, Link, Preset, Variant

Raw = dict[str, Float[Array, "..."]]
RawDraws = dict[str, Float[Array | np.ndarray, "chain draw ..."]]


class Labels(NamedTuple):
    """What is known of the right answers, and how much each question counts.

    Attributes
    ----------
    correct : (problem, level) array
        Whether a level's answer is right; False where there is no usable report.
    n_correct : (problem,) array
        Number of right candidates; several may be right, none means the null came true.
    weight : (problem,) array
        Weight of each question's log-likelihood; 0 leaves it out (unlabelled, unanswered or held out).
    """

    correct: Bool[Array | np.ndarray, "problem level"]
    n_correct: Int[Array | np.ndarray, " problem"]
    weight: Float[Array | np.ndarray, " problem"]

    @classmethod
    def of(cls, observations: Observations, weight: Float[np.ndarray, " problem"]) -> "Labels":
        """Take what is known out of observations."""
        return cls(observations.correct, observations.correct_candidate.sum(axis=1), weight)

    def select(self, index: Int[np.ndarray, " selected"]) -> "Labels":
        """Take some questions, by number."""
        return Labels(*(array[index] for array in self))

    def padded(self, size: int) -> "Labels":
        """Append questions of weight 0 until there are ``size``."""
        missing = size - len(self.n_correct)
        return Labels(
            np.pad(self.correct, ((0, missing), (0, 0))),
            np.pad(self.n_correct, (0, missing)),
            np.pad(self.weight, (0, missing)),
        )


def direag(reports: Reports, labels: Labels | None = None, *, preset: Preset, variant: Variant) -> None:
    """Draw the parameters, then the state of each question that comes true (site ``target``).

    Without labels the target is drawn from all states, and every question counts once. With labels it is observed; the
    states that did not come true are then merged into one (see
    :func:`~bayes_direag.model.evidence.target_concentration`), and the target is the first of the two.
    """
    n_questions, n_levels = reports.candidate.shape
    total = jnp.asarray(n_questions, float) if labels is None else jnp.sum(labels.weight)
    raw = raw_parameters(preset, variant, n_levels, total)
    parameters = natural_parameters(raw, preset, variant)
    for name in VARIANT_PARAMETERS[variant]:
        numpyro.deterministic(name, getattr(parameters, name))
    for name, value in pooled_over_levels(raw, preset).items():
        numpyro.deterministic(name, value)

    with numpyro.plate("problem", n_questions):
        if labels is None:
            support = log_support(concentration(reports, parameters, preset.eps))
            numpyro.sample("target", dist.Categorical(logits=_finite(support)))
            return
        alpha = target_concentration(reports, labels.correct, labels.n_correct, parameters, preset.eps)
        counts = labels.weight > 0
        with mask(mask=counts), scale(scale=jnp.where(counts, labels.weight, 1.0)):
            numpyro.sample("target", dist.Categorical(logits=_finite(log_support(alpha))), obs=0)


def recalibration(
    terms: dict[str, Float[Array, " problem"]],
    correct: Bool[Array, " problem"] | None,
    *,
    prior_scale: ArrayLike,
    weight: Float[Array, " problem"] | None = None,
) -> None:
    """Draw a coefficient for each term around the identity, then which selected answers are right (site ``correct``).

    Parameters
    ----------
    terms
        What each coefficient multiplies, see :func:`bayes_direag.inference.recalibration.linear_terms`.
    prior_scale
        Standard deviation of the coefficients' normal priors.
    weight
        How often each question counts; once if left out.
    """
    drawn = {name: numpyro.sample(name, dist.Normal(IDENTITY[name], prior_scale)) for name in terms}
    score = sum((drawn[name] * term for name, term in terms.items()), start=jnp.zeros(()))
    counts = jnp.ones(score.shape, bool) if weight is None else weight > 0
    times = 1.0 if weight is None else jnp.where(counts, weight, 1.0)
    with numpyro.plate("problem", score.shape[0]), mask(mask=counts), scale(scale=times):
        if correct is None:
            numpyro.sample("correct", dist.Bernoulli(logits=score))
        else:  # written out: the gradient of numpyro's Bernoulli is wrong at logit 0, that is at support 0.5
            numpyro.factor("correct", jax.nn.log_sigmoid(jnp.where(correct, score, -score)))


def raw_parameters(preset: Preset, variant: Variant, n_levels: int, total_weight: Float[Array, ""]) -> Raw:
    """Draw the free raw parameters, each at a site of its own (``weight_raw``, ...)."""
    raw: Raw = {}
    for name, prior in raw_priors(preset, variant, n_levels, total_weight).items():
        if name in LEVEL_PARAMETERS:
            with numpyro.plate(f"{name}_level", n_levels):
                raw[name] = numpyro.sample(f"{name}_raw", prior)
        else:
            raw[name] = numpyro.sample(f"{name}_raw", prior)
    return raw


def natural_parameters(raw: Raw, preset: Preset, variant: Variant) -> Parameters:
    """Map raw parameters to natural ones, each through its link; fixed ones take their fixed value.

    A pooled parameter is put together first: ``centre + spread * offset``.
    """
    pooled = pooled_over_levels(raw, preset)
    dtype = next(iter(raw.values())).dtype
    natural: Raw = {}
    for name in VARIANT_PARAMETERS[variant]:
        own = preset.parameter(name)
        if name not in raw:
            natural[name] = jnp.asarray(own.fixed, dtype)
        elif preset.pools(name):
            natural[name] = _linked(pooled[f"{name}_centre"] + pooled[f"{name}_spread"] * raw[name], own.link)
        else:
            natural[name] = _linked(raw[name], own.link)
    return Parameters(**natural)


def pooled_over_levels(raw: Raw, preset: Preset) -> Raw:
    """Return centre and spread of each pooled parameter, on the scale of its raw value; empty without pooling."""
    return {
        name: _linked(value, preset.parameter(name).link)
        for name, value in raw.items()
        if name.endswith(("_centre", "_spread"))
    }


def penalised_loss(raw: Raw, reports: Reports, labels: Labels, *, preset: Preset, variant: Variant) -> Float[Array, ""]:
    r"""Return the objective that a MAP fit minimises, written out.

    .. math:: \frac{\sum_i \omega_i \{-\log P_i(\mathrm{target}_i)\}}{\sum_i \omega_i} + \text{penalty}

    with the penalty ``lambda * mean(raw**2)`` or, under proper priors,
    ``sum(((raw - loc) / scale)**2) / (2 * sum(omega))``. It differs from the negative log joint density of
    :func:`direag`, divided by the total weight, by a constant. NaN where no question counts.

    Parameters
    ----------
    raw
        The free raw parameters by name, as :func:`raw_from_vector` gives them.
    """
    reached = log_likelihood(raw, reports, labels, preset=preset, variant=variant)
    total = jnp.sum(labels.weight)
    penalty = jnp.zeros(())
    for name, prior in raw_priors(preset, variant, reports.candidate.shape[1], total).items():
        penalty = penalty + jnp.sum(((raw[name] - prior.loc) / prior.scale) ** 2) / (2 * total)
    return -jnp.sum(jnp.where(labels.weight > 0, labels.weight * reached, 0.0)) / total + penalty


def log_likelihood(
    raw: Raw, reports: Reports, labels: Labels, *, preset: Preset, variant: Variant
) -> Float[Array, " problem"]:
    """Return the log probability of what came true, question by question, not weighted."""
    parameters = natural_parameters(raw, preset, variant)
    alpha = target_concentration(reports, labels.correct, labels.n_correct, parameters, preset.eps)
    return log_support(alpha)[:, 0]


def raw_priors(preset: Preset, variant: Variant, n_levels: int, total_weight: ArrayLike) -> dict[str, dist.Normal]:
    """Return the prior of each free raw parameter; a penalty is read as Normal(0, sqrt(D / (2 lambda W)))."""
    names = preset.free_parameters(variant)
    n_raw = sum(n_levels if name in LEVEL_PARAMETERS else 1 for name in names)
    from_penalty = jnp.sqrt(n_raw / (2 * preset.penalty * jnp.asarray(total_weight))) if preset.penalty else None
    settings = {name: preset.parameter(name) for name in names}
    return {
        name: dist.Normal(raw.loc, from_penalty if raw.scale is None else raw.scale) for name, raw in settings.items()
    }


def raw_from_vector(
    vector: Float[Array | np.ndarray, " raw"], *, preset: Preset, variant: Variant, n_levels: int
) -> Raw:
    """Name the entries of a flat raw vector: weights, biases, slope, prior strength, null base, null gain.

    Centre and spread of a pooled parameter follow its offsets.

    Raises
    ------
    ValueError
        If its length is not that of the variant's free parameters.
    """
    names = preset.free_parameters(variant)
    sizes = [n_levels if name in LEVEL_PARAMETERS else 1 for name in names]
    if len(vector) != sum(sizes):
        raise ValueError(f"the raw vector has {len(vector)} entries; {variant} with {n_levels} levels has {sum(sizes)}")
    parts = jnp.split(jnp.asarray(vector), np.cumsum(sizes)[:-1].tolist())
    return {name: part if name in LEVEL_PARAMETERS else part[0] for name, part in zip(names, parts, strict=True)}


def _finite(log_probability: Float[Array, "problem state"]) -> Float[Array, "problem state"]:
    """Give impossible states the least finite number, which numpyro asks of logits; their probability stays 0."""
    return jnp.maximum(log_probability, float(np.finfo(log_probability.dtype).min))


def _linked(raw: Float[Array, "..."], link: Link) -> Float[Array, "..."]:
    match link:
        case "softplus":
            return jax.nn.softplus(raw)
        case "exp":
            return jnp.exp(raw)
        case "identity":
            return raw
