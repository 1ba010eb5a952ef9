r"""What the labels have taught, and what still comes from the prior alone.

The *flat direction* is the direction in raw space that the data constrain least relative to the prior. With every
parameter in units of its prior (there the prior is a standard normal), it is the eigenvector :math:`u` of
the posterior covariance :math:`S` with the largest eigenvalue:

.. math:: \lambda = \max_{\|u\| = 1} u^\top S u = \max_a
          \frac{\operatorname{var}(a^\top x \mid \text{data})}{\operatorname{var}(a^\top x)}

the share of the prior's variance that is left. Why relative to the prior: the eigenvalues of the posterior covariance
as it stands depend on the units of the parameters; those of :math:`S` do not, nor do they change with any linear
change of parameters. Why the covariance: for a normal posterior :math:`S^{-1} = I + H` with H the information in the
data, so the largest :math:`\lambda` is the least informed direction, whether one asks which combination of parameters
is known worst (:math:`a`) or along which displacement (:math:`u`) the posterior falls off most slowly; and a covariance
of draws needs no derivative and no inverse.

The *scale* is a curve rather than a direction: multiplying weight, prior_strength and null_base by one number changes
no prediction. A preset may fix prior_strength, which makes it the unit; else the prior alone holds the scale.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from bayes_direag.fits.convergence import ParameterDraws
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.posterior import parameter_draws, sampled_parameters
from bayes_direag.model.evidence import Parameters
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import State, natural_parameters, raw_from_vector

#: Over so many draws, at most, the likelihood is moved.
_MOVED_DRAWS = 200

TotalLogLikelihood = Callable[[Float[np.ndarray, "sample parameter"]], Float[np.ndarray, " sample"]]


@dataclass(frozen=True, eq=False)
class FlatDirection:
    """The direction that the data constrain least relative to the prior.

    ``loadings``: ``parameter``, ``level`` and ``loading``, in prior standard deviations and the order of the draws; of
    length 1, and the largest positive. ``variance_left``: posterior over prior variance along it: 1 where the labels
    taught nothing; from few draws of many parameters it comes out too large, and may exceed 1. ``likelihood_change``:
    by how many nats the log-likelihood of all questions moves, typically (the median over the draws), with a step of
    one posterior standard deviation up or down the direction. 0: the prior alone determines it. A normal posterior held
    by the data alone has 0.76; more than that says that the posterior is curved, and wide only so.
    """

    loadings: pd.DataFrame
    variance_left: float
    likelihood_change: float


@dataclass(frozen=True, eq=False)
class Scale:
    """The common scale of weight, prior_strength and null_base, and what holds it.

    ``fixed``: whether the preset fixes prior_strength, which is then the unit of the others; if not, the prior alone
    holds the scale. ``factor``: exp of the posterior standard deviation of the log of ``sum(weight) + prior_strength +
    null_base``. ``likelihood_change``: by how many nats the log-likelihood moves, typically, when weight, null_base and
    (unless fixed) prior_strength are multiplied or divided by that factor: 0 but for rounding unless fixed.
    ``correlation``: of that logarithm with the place along the flat direction, over the draws; NaN where either does
    not vary.
    """

    fixed: bool
    factor: float
    likelihood_change: float
    correlation: float


def learning(draws: ParameterDraws) -> pd.DataFrame:
    r"""Say how far the posterior of every parameter has left its prior.

    Returns: A row a parameter (and level): ``parameter``, ``level``, ``prior_mean``, ``prior_sd``, ``mean``, ``sd``,
    ``contraction``, :math:`1 - \operatorname{var}_{\text{posterior}} / \operatorname{var}_{\text{prior}}` (0: nothing
    learned; negative: more spread than the prior), and ``z_score``, (mean - prior_mean) / prior_sd. Source: Schad,
    Betancourt and Vasishth (2021), doi:10.1037/met0000275.
    """
    flat = draws.flat
    mean, sd = flat.mean(axis=0), flat.std(axis=0, ddof=1)
    return draws.names.assign(
        prior_mean=draws.prior_mean,
        prior_sd=draws.prior_sd,
        mean=mean,
        sd=sd,
        contraction=1 - (sd / draws.prior_sd) ** 2,
        z_score=(mean - draws.prior_mean) / draws.prior_sd,
    )


def correlations(draws: ParameterDraws) -> pd.DataFrame:
    """Return the posterior correlation of every pair of parameters, the strongest first.

    Returns: ``first`` and ``second``, labels as ``weight[cautious]``, and ``correlation``; NaN, and last, with a
    parameter that does not move. No rows for a single parameter.
    """
    moving = np.where(np.ptp(draws.flat, axis=0) > 0, draws.flat, np.nan)
    matrix = np.atleast_2d(np.corrcoef(moving, rowvar=False))
    rows, columns = np.triu_indices(len(matrix), k=1)
    labels = np.array(draws.labels, dtype=object)
    table = pd.DataFrame(
        {
            "first": pd.Series(labels[rows], dtype="str"),
            "second": pd.Series(labels[columns], dtype="str"),
            "correlation": matrix[rows, columns],
        }
    )
    return table.sort_values("correlation", key=np.abs, ascending=False, ignore_index=True)


def flat_direction(draws: ParameterDraws, log_likelihood: TotalLogLikelihood) -> FlatDirection:
    """Find the direction that the data constrain least relative to the prior; NaN throughout if a draw is not finite.

    ``log_likelihood``: of all questions together, at each of some raw vectors.
    """
    if not np.isfinite(draws.values).all():
        return FlatDirection(draws.names.assign(loading=np.nan), np.nan, np.nan)
    variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(draws.standardised, rowvar=False)))
    direction = directions[:, -1]
    direction = direction * np.sign(direction[np.abs(direction).argmax()])
    some = _thinned(draws.flat)
    step = np.sqrt(variances[-1]) * draws.prior_sd * direction
    here = log_likelihood(some)
    change = [log_likelihood(some + sign * step) - here for sign in (1.0, -1.0)]
    loadings = draws.names.assign(loading=direction)
    return FlatDirection(loadings, float(variances[-1]), float(np.median(np.abs(change))))


def total_log_likelihood(fit: Fit) -> TotalLogLikelihood:
    """Return the log-likelihood of all questions of a fit, weighted as it was fitted, as a function of raw vectors."""
    preset, variant = fit.preset.model_settings, fit.variant
    sizes = fit.likelihood_data.sizes

    def natural(vector: Float[Array, " parameter"]) -> Parameters:
        raw = raw_from_vector(vector, preset=preset, variant=variant, **sizes)
        return natural_parameters(raw, preset, variant)

    def at(vectors: Float[np.ndarray, "sample parameter"]) -> Float[np.ndarray, " sample"]:
        with jax.enable_x64(True):
            return _totals(fit, jax.vmap(natural)(jnp.asarray(vectors)))

    return at


def scale(fit: Fit, draws: ParameterDraws, flat: FlatDirection) -> Scale:
    """Say what holds the scale that no prediction depends on, and whether it is the flat direction."""
    fixed = fit.preset.prior_strength.fixed is not None
    posterior = parameter_draws(fit.tree)
    total = posterior["weight"].sum("level") + posterior["prior_strength"] + posterior["null_base"]
    logs = np.log(total.to_numpy().ravel())
    factor = float(np.exp(logs.std(ddof=1)))
    with jax.enable_x64(True):
        some = jax.tree.map(_thinned, sampled_parameters(fit.tree))
    here, changes = _totals(fit, some), []
    for by in (factor, 1 / factor):
        prior_strength = some.prior_strength * (1 if fixed else by)
        moved = some._replace(weight=some.weight * by, null_base=some.null_base * by, prior_strength=prior_strength)
        changes.append(_totals(fit, moved) - here)
    place = draws.standardised @ flat.loadings["loading"].to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = float(np.corrcoef(place, logs)[0, 1])
    return Scale(fixed, factor, float(np.median(np.abs(changes))), correlation)


def _totals(fit: Fit, parameters: Parameters) -> Float[np.ndarray, " sample"]:
    with jax.enable_x64(True):
        return np.asarray(_total_log_likelihoods(parameters, fit.likelihood_data))


@jax.jit
def _total_log_likelihoods(parameters: Parameters, data: LikelihoodData) -> Float[Array, " sample"]:
    totals: Array = jax.lax.map(
        lambda sample: jnp.sum(State(data, sample).log_prob(jnp.asarray(data.target))), parameters
    )
    return totals


def _thinned(values: Float[np.ndarray | Array, "sample ..."]) -> Float[np.ndarray, "some ..."]:
    return np.asarray(values)[:: max(1, -(-len(values) // _MOVED_DRAWS))]
