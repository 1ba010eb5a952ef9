r"""The models of several settings that borrow from each other: evidence and final calibration.

A *setting* is a (model, dataset) pair, or whatever else questions are grouped by. Every raw parameter of
:mod:`bayes_direag.model.model`, and every coefficient of the final calibration, is a setting's own, and settings are
draws from a population. Levels of one name are the same kind of level wherever they are asked, so each name has a
centre; slope, null_base and null_gain have one each. The log-likelihood is the sum over the settings. A level that a
setting was not asked at is there all the same, and says what the others teach of it.

A parameter of one setting alone has a prior :math:`\mathrm{N}(\mu, \sigma)`. Of S settings together this makes

.. math::

    \theta_s = \mu + \sigma \bigl(\sqrt{1 - r}\, c + \sqrt{r}\, \tau u_s\bigr), \qquad
    c \sim \mathrm{N}(0, 1), \quad u_s \sim \mathrm{N}(0, 1), \quad \tau \sim \mathrm{HalfNormal}(1).

As :math:`\mathrm{E}\,\tau^2 = 1`, a setting's own parameter has the mean and the variance of its prior, whatever S, and
r is the share of that variance that lies between settings. It is 1/9: settings are expected to lie a third of the
prior's standard deviation apart, under preset ``bayes`` 0.5 for a level's weight and 0.7 for its bias, which is about
how far levels are believed to lie apart. The labels of several settings then say how alike they are. Over :math:`\tau`
the tails are hardly heavier than a normal's: the kurtosis is 3.07. A level borrows from the same level of other
settings, not from its neighbours: of several settings the labels say more of a level than its neighbours do.

The centre need not be sampled. With it integrated out the settings have covariance :math:`a^2 I + (1 - r) J` (J all
ones, :math:`a = \sqrt{r}\,\tau`), whose symmetric root gives them from standard normal z, and given them the centre is
normal:

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

#: The share r of a parameter's prior variance that is expected to lie between settings.
BETWEEN = 1 / 9


class Population(NamedTuple):
    """Draws of what settings have in common, and of one that nothing else is known of.

    Attributes
    ----------
    centre : (chain, draw, ...) array
        On the scale of the parameter; a trailing level axis where each level has its own.
    spread : (chain, draw) array
        Standard deviation of the settings around it, on that scale.
    new : (chain, draw, ...) array
        The parameter of another setting of the same population.
    """

    centre: Float[np.ndarray, "chain draw ..."]
    spread: Float[np.ndarray, "chain draw"]
    new: Float[np.ndarray, "chain draw ..."]


def multi_setting_direag(data: LikelihoodData) -> None:
    """Draw the parameters of every setting, and add up the log-likelihoods of the states that occurred.

    Parameters
    ----------
    data
        Each array with a leading axis, setting, and levels of one meaning at one place.
    """
    n_settings = len(data.weight)
    priors = raw_priors(data.preset, data.variant, data.n_levels, 1.0)
    raw = {
        name: sample_settings(name, prior, (n_settings, data.n_levels) if name in LEVEL_PARAMETERS else (n_settings,))
        for name, prior in priors.items()
    }

    def reached(raw: Raw, data: LikelihoodData) -> Float[Array, ""]:
        return jnp.asarray(data.weight) @ log_likelihood(raw, data)

    numpyro.factor("target", jnp.sum(jax.vmap(reached)(raw, data)))


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
        How much a question counts in its setting, 0 in the others; one of none does not count.
    prior_scale
        Standard deviation of the priors of one setting alone.
    """
    counts = setting.sum(axis=1)
    belongs = setting / jnp.where(counts > 0, counts, 1.0)[:, None]
    of_question = {
        name: belongs @ sample_settings(name, dist.Normal(value, prior_scale), (setting.shape[1],))
        for name, value in IDENTITY.items()
    }
    outcome = dist.Bernoulli(logits=of_question["intercept"] + of_question["slope"] * logit_support)
    numpyro.factor("right", counts @ outcome.log_prob(right))


def sample_settings(name: str, prior: dist.Normal, shape: tuple[int, ...]) -> Float[Array, "setting ..."]:
    """Draw a parameter of every setting inside a NumPyro model: sites ``NAME_tau`` and ``NAME_z``.

    Parameters
    ----------
    prior
        Of one setting alone.
    shape
        Number of settings, and of levels where each level has its own.
    """
    tau = numpyro.sample(f"{name}_tau", dist.HalfNormal(1.0))
    z = numpyro.sample(f"{name}_z", dist.Normal(0.0, 1.0).expand(shape).to_event(len(shape)))
    return settings_from(tau, z, prior)


def settings_from(
    tau: Float[Array, ""], z: Float[Array, "setting ..."], prior: dist.Normal
) -> Float[Array, "setting ..."]:
    """Return the parameter of every setting, the centre integrated out."""
    own = BETWEEN**0.5 * tau
    shared = jnp.sqrt(own**2 + (1 - BETWEEN) * len(z)) - own
    values: Array = prior.loc + prior.scale * (own * z + shared * jnp.mean(z, axis=0, keepdims=True))
    return values


def draw_population(
    values: Float[np.ndarray, "chain draw setting ..."],
    tau: Float[np.ndarray, "chain draw"],
    prior: dist.Normal,
    rng: np.random.Generator,
) -> Population:
    """Draw centre and new setting, given the parameter of every setting."""
    loc, scale = float(prior.loc), float(prior.scale)
    own = BETWEEN**0.5 * tau
    wide = own.reshape(*own.shape, *(1,) * (values.ndim - 3))
    total = (1 - BETWEEN) * (values - loc).sum(axis=2) / scale
    precision = wide**2 + (1 - BETWEEN) * values.shape[2]
    centre = total / precision + wide * np.sqrt((1 - BETWEEN) / precision) * rng.normal(size=total.shape)
    new = centre + wide * rng.normal(size=total.shape)
    return Population(loc + scale * centre, scale * own, loc + scale * new)
