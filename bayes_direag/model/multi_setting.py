r"""The NumPyro models of several settings that are partially pooled: evidence and final calibration.

A *setting* is a (model, dataset) pair, or another grouping of questions. Each setting has its own raw parameters of
:mod:`bayes_direag.model.model` and its own final calibration, drawn from a population of settings. The weight and bias
of levels with the same name share a centre; slope, null_base and null_gain have one centre each. The log-likelihood is
the sum over the settings. A setting also has parameters for levels that it was not asked at, learned from the others.

If a parameter has the prior :math:`\mathrm{N}(\mu, \sigma)` in a single setting, its prior in S settings is

.. math::

    \theta_s = \mu + \sigma \bigl(\sqrt{1 - r}\, c + \sqrt{r}\, \tau u_s\bigr), \qquad
    c \sim \mathrm{N}(0, 1), \quad u_s \sim \mathrm{N}(0, 1), \quad \tau \sim \mathrm{HalfNormal}(1).

As :math:`\mathrm{E}\,\tau^2 = 1`, each setting's parameter has the mean and variance of that prior, for any S, and r is
the expected share of the variance between settings. It is 1/9: settings are expected to differ by a third of the
prior's standard deviation, which under ``bayes`` is 0.5 for a level's weight and 0.7 for its bias, about as much as
levels are expected to differ. The labels then show how similar the settings are. Marginally over :math:`\tau` the prior
is nearly normal: its kurtosis is 3.07. A level is pooled with the same level of other settings, not with the other
levels of its setting, which say less about it.

The centre need not be sampled. With the centre integrated out, the settings have covariance :math:`a^2 I + (1 - r) J`
(J all ones, :math:`a = \sqrt{r}\,\tau`). Its symmetric root maps standard normal z to the settings, and given these the
centre is normal:

.. math::

    x_s = \frac{\theta_s - \mu}{\sigma} &= a z_s + \bigl(\sqrt{a^2 + (1 - r) S} - a\bigr)\, \bar z \\
    \sqrt{1 - r}\, c \mid x, a &\sim
    \mathrm{N}\Bigl(\frac{(1 - r) \sum_s x_s}{a^2 + (1 - r) S}, \frac{(1 - r)\, a^2}{a^2 + (1 - r) S}\Bigr)
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Bool, Float

from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, log_likelihood, raw_priors
from bayes_direag.model.settings import IDENTITY, LEVEL_PARAMETERS

#: The expected share r of a parameter's prior variance between settings.
BETWEEN = 1 / 9


class Population(NamedTuple):
    """Draws of a parameter's centre and spread over settings, and of its value in a new setting.

    Attributes
    ----------
    centre : (chain, draw, ...) array
        On the scale of the parameter; with a trailing level axis for parameters of levels.
    spread : (chain, draw) array
        Standard deviation of the settings around the centre, on that scale.
    new : (chain, draw, ...) array
        The parameter of a new setting from the same population.
    """

    centre: Float[np.ndarray, "chain draw ..."]
    spread: Float[np.ndarray, "chain draw"]
    new: Float[np.ndarray, "chain draw ..."]


def multi_setting_direag(data: LikelihoodData) -> None:
    """Draw the parameters of every setting, and add up the log-likelihoods of the observed states.

    Parameters
    ----------
    data
        Each array with a leading axis, setting, and the same levels in the same order.
    """
    n_settings = len(data.weight)
    priors = raw_priors(data.preset, data.variant, data.n_levels, 1.0)
    raw = {
        name: sample_settings(name, prior, (n_settings, data.n_levels) if name in LEVEL_PARAMETERS else (n_settings,))
        for name, prior in priors.items()
    }

    def weighted(raw: Raw, data: LikelihoodData) -> Float[Array, ""]:
        return jnp.asarray(data.weight) @ log_likelihood(raw, data)

    numpyro.factor("target", jnp.sum(jax.vmap(weighted)(raw, data)))


def multi_setting_recalibration(
    logit_support: Float[Array, " problem"],
    right: Bool[Array, " problem"],
    setting: Float[Array, "problem setting"],
    *,
    prior_scale: float,
) -> None:
    """Draw the coefficients of every setting, then whether each selected answer is right (site ``right``).

    Parameters
    ----------
    logit_support, right
        As in :func:`bayes_direag.model.model.recalibration`.
    setting
        The question's weight in its setting, 0 in the others. A question of weight 0 everywhere does not count.
    prior_scale
        Standard deviation of the priors in a single setting.
    """
    counts = setting.sum(axis=1)
    indicator = setting / jnp.where(counts > 0, counts, 1.0)[:, None]
    of_question = {
        name: indicator @ sample_settings(name, dist.Normal(value, prior_scale), (setting.shape[1],))
        for name, value in IDENTITY.items()
    }
    outcome = dist.Bernoulli(logits=of_question["intercept"] + of_question["slope"] * logit_support)
    numpyro.factor("right", counts @ outcome.log_prob(right))


def sample_settings(name: str, prior: dist.Normal, shape: tuple[int, ...]) -> Float[Array, "setting ..."]:
    """Draw a parameter of every setting inside a NumPyro model: sites ``NAME_tau`` and ``NAME_z``.

    Parameters
    ----------
    prior
        The parameter's prior in a single setting.
    shape
        Number of settings, and of levels for parameters of levels.
    """
    tau = numpyro.sample(f"{name}_tau", dist.HalfNormal(1.0))
    z = numpyro.sample(f"{name}_z", dist.Normal(0.0, 1.0).expand(shape).to_event(len(shape)))
    return settings_from(tau, z, prior)


def settings_from(
    tau: Float[Array, ""], z: Float[Array, "setting ..."], prior: dist.Normal
) -> Float[Array, "setting ..."]:
    """Return the parameter of every setting, with the centre integrated out."""
    spread = BETWEEN**0.5 * tau
    shared = jnp.sqrt(spread**2 + (1 - BETWEEN) * len(z)) - spread
    values: Array = prior.loc + prior.scale * (spread * z + shared * jnp.mean(z, axis=0, keepdims=True))
    return values


def draw_population(
    values: Float[np.ndarray, "chain draw setting ..."],
    tau: Float[np.ndarray, "chain draw"],
    prior: dist.Normal,
    rng: np.random.Generator,
) -> Population:
    """Draw the centre and a new setting, given the parameter of every setting."""
    loc, scale = float(prior.loc), float(prior.scale)
    spread = BETWEEN**0.5 * tau
    spreads = spread.reshape(*spread.shape, *(1,) * (values.ndim - 3))
    total = (1 - BETWEEN) * (values - loc).sum(axis=2) / scale
    precision = spreads**2 + (1 - BETWEEN) * values.shape[2]
    centre = total / precision + spreads * np.sqrt((1 - BETWEEN) / precision) * rng.normal(size=total.shape)
    new = centre + spreads * rng.normal(size=total.shape)
    return Population(loc + scale * centre, scale * spread, loc + scale * new)
