r"""Identifiability: what the labels have taught, and what only the prior determines.

The *flat direction* is the direction in raw space that the data constrain least relative to the prior. With every
parameter in units of its prior, it is the eigenvector :math:`u` of the posterior covariance :math:`S` with the largest
eigenvalue

.. math:: \lambda = \max_{\|u\| = 1} u^\top S u = \max_a
      \frac{\operatorname{var}(a^\top x \mid \text{data})}{\operatorname{var}(a^\top x)},

the share of the prior's variance that is left. For a normal posterior :math:`S^{-1} = I + H`, where H is the
information in the data, so it is the displacement along which the posterior falls most slowly.

The common scale of weight, prior_strength and null_base, on which no prediction depends, is such a direction where a
preset does not fix prior_strength as the unit.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from bayes_direag.fits.fit import Fit
from bayes_direag.model.equations import Parameters
from bayes_direag.model.evidence import log_scores
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import State, natural_parameters, raw_from_vector, raw_priors
from bayes_direag.model.selection import IDENTITY

#: The most draws at which changes of the likelihood are computed.
_MOVED_DRAWS = 200

TotalLogLikelihood = Callable[[Float[np.ndarray, "sample parameter"]], Float[np.ndarray, " sample"]]


@dataclass(frozen=True, eq=False)
class FlatDirection:
    """The direction that the data constrain least relative to the prior, as loadings in prior standard deviations.

    ``variance_left``: the share of the prior's variance that is left. ``likelihood_change``: by how many nats a step of
    one posterior standard deviation changes the log-likelihood (median over draws): 0 if the prior alone determines the
    direction, 0.76 for a normal posterior that the data alone determine.
    """

    loadings: pd.DataFrame
    variance_left: float
    likelihood_change: float


def priors(fit: Fit, draws: pd.DataFrame) -> pd.DataFrame:
    """Return ``mean`` and ``sd`` of the normal prior of each column of raw parameters and calibration coefficients."""
    data = fit.likelihood_data
    raw = raw_priors(fit.preset, fit.variant, total_weight=float(data.weight.sum()), **data.sizes)
    moments = {name: (float(prior.loc), float(prior.scale)) for name, prior in raw.items()}
    scale_of_final = fit.preset.recalibration.prior_scale(fit.n_questions)
    moments |= {f"recalibration_{name}": (value, scale_of_final) for name, value in IDENTITY.items()}
    rows = [moments[parameter.partition("[")[0]] for parameter in draws.columns.get_level_values("parameter")]
    return pd.DataFrame(rows, draws.columns, columns=["mean", "sd"])


def learning(draws: pd.DataFrame, prior: pd.DataFrame) -> pd.DataFrame:
    r"""Compare the posterior of every parameter with its prior: contraction and z score.

    .. math:: 1 - \operatorname{var}_{\text{posterior}} / \operatorname{var}_{\text{prior}}, \qquad
              (\operatorname{E}_{\text{posterior}} - \operatorname{E}_{\text{prior}}) / \operatorname{sd}_{\text{prior}}

    Source: Schad, Betancourt and Vasishth (2021), doi:10.1037/met0000275.
    """
    table = prior.add_prefix("prior_").assign(mean=draws.mean(skipna=False), sd=draws.std(skipna=False))
    contraction = 1 - (table["sd"] / table["prior_sd"]) ** 2
    z_score = (table["mean"] - table["prior_mean"]) / table["prior_sd"]
    return table.assign(contraction=contraction, z_score=z_score).reset_index()


def parameter_labels(parameters: pd.DataFrame) -> pd.Series:
    """Return the parameters' names with levels: ``weight[cautious]``, ``slope``."""
    name, level = parameters["parameter"], parameters["level"]
    return name.where(level.isna(), name + "[" + level.fillna("") + "]")


def flat_direction(draws: pd.DataFrame, prior: pd.DataFrame, log_likelihood: TotalLogLikelihood) -> FlatDirection:
    """Find the direction that the data constrain least relative to the prior; NaN if a draw is not finite."""
    names, values = draws.columns.to_frame(index=False), draws.to_numpy()
    if not np.isfinite(values).all():
        return FlatDirection(names.assign(loading=np.nan), np.nan, np.nan)
    prior_sd = prior.loc[draws.columns, "sd"].to_numpy()
    variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(values / prior_sd, rowvar=False)))
    direction = directions[:, -1]
    direction = direction * np.sign(direction[np.abs(direction).argmax()])
    some = _thinned(values)
    step = np.sqrt(variances[-1]) * prior_sd * direction
    here = log_likelihood(some)
    change = [log_likelihood(some + sign * step) - here for sign in (1.0, -1.0)]
    return FlatDirection(names.assign(loading=direction), float(variances[-1]), float(np.median(np.abs(change))))


def total_log_likelihood(fit: Fit) -> TotalLogLikelihood:
    """Return the weighted log-likelihood of all questions of a fit as a function of raw vectors."""
    preset, variant = fit.preset.model_settings, fit.variant
    data = fit.likelihood_data

    def natural(vector: Float[Array, " parameter"]) -> Parameters:
        raw = raw_from_vector(vector, preset=preset, variant=variant, **data.sizes)
        parameters: Parameters = natural_parameters(raw, preset, variant, data.agreement)
        return parameters

    def at(vectors: Float[np.ndarray, "sample parameter"]) -> Float[np.ndarray, " sample"]:
        with jax.enable_x64(True):
            return _totals(fit, jax.vmap(natural)(jnp.asarray(vectors)))

    return at


def _totals(fit: Fit, parameters: Parameters) -> Float[np.ndarray, " sample"]:
    with jax.enable_x64(True):
        return np.asarray(_total_log_likelihoods(parameters, fit.likelihood_data))


@jax.jit
def _total_log_likelihoods(parameters: Parameters, data: LikelihoodData) -> Float[Array, " sample"]:
    def total(sample: Parameters) -> Float[Array, ""]:
        state = State(log_scores(data.reports, sample.of_slots(data.slots)), data.merged, data.weight)
        return jnp.sum(state.log_prob(jnp.asarray(data.target)))

    totals: Array = jax.lax.map(total, parameters)
    return totals


def _thinned(values: Float[np.ndarray, "sample ..."]) -> Float[np.ndarray, "some ..."]:
    return values[:: max(1, -(-len(values) // _MOVED_DRAWS))]
