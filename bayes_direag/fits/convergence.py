"""Convergence of NUTS: R-hat, effective draws and Monte-Carlo errors by parameter, and the statistics of each chain."""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float

from bayes_direag.fits.fit import Fit
from bayes_direag.model.model import raw_priors
from bayes_direag.model.settings import IDENTITY

#: A fit has converged if R-hat is below, effective draws and BFMI are above these limits, and no draw diverged.
RHAT_LIMIT = 1.01
ESS_LIMIT = 400.0
BFMI_LIMIT = 0.3

#: The depth at which numpyro's NUTS cuts a trajectory, at 2**10 - 1 steps.
MAX_TREE_DEPTH = 10


class SamplerSummary(NamedTuple):
    """The worst figures of a NUTS run; NaN where undefined.

    Attributes
    ----------
    largest_rhat, smallest_ess : float
        Over all parameters, including those of the final calibration; the smaller of bulk and tail ESS.
    smallest_bfmi : float
        Over all chains.
    divergences : float
        Number of divergent draws in all chains.
    """

    largest_rhat: float
    smallest_ess: float
    smallest_bfmi: float
    divergences: float

    @classmethod
    def of(cls, parameters: pd.DataFrame, chains: pd.DataFrame) -> "SamplerSummary":
        """Summarise the tables of :func:`convergence` and :func:`chain_statistics`."""
        return cls(
            float(parameters["rhat"].to_numpy(float).max()),  # NaN if any is NaN
            float(parameters[["ess_bulk", "ess_tail"]].to_numpy(float).min()),
            float(chains["bfmi"].to_numpy(float).min()),
            chains["divergences"].to_numpy().sum().item(),
        )

    @property
    def converged(self) -> bool:
        """Whether all figures are within the limits; NaN is not."""
        return (
            self.largest_rhat < RHAT_LIMIT
            and self.smallest_ess > ESS_LIMIT
            and self.smallest_bfmi > BFMI_LIMIT
            and self.divergences == 0
        )

    def __str__(self) -> str:
        """Return the figures, each with its limit."""
        return (
            f"R-hat at most {self.largest_rhat:.3f} (below {RHAT_LIMIT}), effective draws at least "
            f"{self.smallest_ess:.0f} (above {ESS_LIMIT:.0f}), BFMI at least {self.smallest_bfmi:.2f} (above "
            f"{BFMI_LIMIT}), {self.divergences} divergences (none)"
        )


def sampler_summary(fit: Fit) -> SamplerSummary:
    """Return the worst figures of a NUTS fit."""
    parts = [convergence(draws) for draws in (raw_draws(fit), recalibration_draws(fit)) if draws is not None]
    return SamplerSummary.of(pd.concat(parts), chain_statistics(fit.tree["sample_stats"].to_dataset()))


@dataclass(frozen=True, eq=False)
class ParameterDraws:
    """Draws of scalar parameters, and the normal prior of each.

    Attributes
    ----------
    parameter : tuple of str
        The name of each.
    level : tuple of str or None
        Its level; None for parameters that all levels share.
    values : (chain, draw, parameter) array
        The draws.
    prior_mean, prior_sd : (parameter,) array
        Mean and standard deviation of its normal prior.
    """

    parameter: tuple[str, ...]
    level: tuple[str | None, ...]
    values: Float[np.ndarray, "chain draw parameter"]
    prior_mean: Float[np.ndarray, " parameter"]
    prior_sd: Float[np.ndarray, " parameter"]

    @property
    def labels(self) -> list[str]:
        """The names with levels: ``weight[cautious]``, ``slope``."""
        pairs = zip(self.parameter, self.level, strict=True)
        return [name if level is None else f"{name}[{level}]" for name, level in pairs]

    @property
    def names(self) -> pd.DataFrame:
        """One row per parameter: ``parameter`` and ``level`` (missing for parameters that all levels share)."""
        columns = {"parameter": self.parameter, "level": self.level}
        return pd.DataFrame({name: pd.Series(values, dtype="str") for name, values in columns.items()})

    @property
    def flat(self) -> Float[np.ndarray, "sample parameter"]:
        """All draws, one chain after the other."""
        return self.values.reshape(-1, self.values.shape[2])

    @property
    def standardised(self) -> Float[np.ndarray, "sample parameter"]:
        """All draws in units of the prior, so that the prior is Normal(0, 1)."""
        return np.asarray((self.flat - self.prior_mean) / self.prior_sd)


def raw_draws(fit: Fit) -> ParameterDraws:
    """Return the free raw parameters, which are on the real line and have normal priors.

    Under a preset that pools levels ``weight`` is a level's offset from ``weight_centre`` in units of
    ``weight_spread``, and likewise ``bias``. The level of a vote by label is its level and label.
    """
    posterior = fit.tree["unconstrained_posterior"].to_dataset()
    total = float(fit.tree["constant_data"]["weight_in_likelihood"].sum())
    values: list[np.ndarray] = []
    scalars: list[tuple[str, str | None, float, float]] = []
    sizes = fit.likelihood_data.sizes
    for name, prior in raw_priors(fit.preset, fit.variant, total_weight=total, **sizes).items():
        draws = posterior[f"{name}_raw"]
        places = itertools.product(*(draws[dim].to_numpy() for dim in draws.dims[2:]))
        levels = [", ".join(map(str, place)) or None for place in places]
        scalars += [(name, level, float(prior.loc), float(prior.scale)) for level in levels]
        values.append(draws.to_numpy().reshape(*draws.shape[:2], len(levels)))
    parameters, of_levels, means, sds = zip(*scalars, strict=True)
    return ParameterDraws(parameters, of_levels, np.concatenate(values, axis=2), np.array(means), np.array(sds))


def recalibration_draws(fit: Fit) -> ParameterDraws | None:
    """Return the coefficients of the final calibration; None without one."""
    if fit.recalibration.method == "none":
        return None
    final = fit.tree["recalibration"].to_dataset()
    names = tuple(IDENTITY)
    prior_scale = fit.preset.recalibration.prior_scale(fit.n_questions)
    return ParameterDraws(
        tuple(f"recalibration_{name}" for name in names),
        (None,) * len(names),
        np.stack([final[name].to_numpy() for name in names], axis=2),
        np.array([IDENTITY[name] for name in names]),
        np.full(len(names), prior_scale),
    )


def convergence(draws: ParameterDraws) -> pd.DataFrame:
    r"""Return how well the chains of every parameter agree, and the error of its mean.

    Returns
    -------
    DataFrame
        One row per parameter (and level): ``parameter``, ``level``; ``rhat``, rank-normalised and split, the larger of
        its bulk and folded versions; ``ess_bulk`` and ``ess_tail``, effective draws over all chains for the location
        and for the 5 % and 95 % quantiles; ``mcse``, the Monte-Carlo standard error of the mean; ``mcse_relative``,
        that error in posterior standard deviations. NaN for draws that are not finite, for a parameter that does not
        move, and, as to R-hat, for a single chain.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), doi:10.1214/20-BA1221.
    """
    from arviz_stats import ess, mcse, rhat  # an import of a second, which a MAP fit does not need

    axes = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(divide="ignore", invalid="ignore"):
        moves = np.isfinite(draws.values).all(axis=(0, 1)) & (np.ptp(draws.values, axis=(0, 1)) > 0)
        values = np.where(moves, draws.values, np.nan)
        error = mcse(values, method="mean", **axes)
        figures = {
            "rhat": rhat(values, **axes),
            "ess_bulk": ess(values, method="bulk", **axes),
            "ess_tail": ess(values, method="tail", prob=(0.05, 0.95), **axes),
            "mcse": error,
            "mcse_relative": error / values.std(axis=(0, 1), ddof=1),
        }
    table = pd.DataFrame(figures)
    return pd.concat([draws.names, table.where(np.isfinite(table))], axis=1)


def chain_statistics(sample_stats: xr.Dataset) -> pd.DataFrame:
    """Return the statistics of every chain.

    Parameters
    ----------
    sample_stats
        ``diverging``, ``tree_depth``, ``energy``, ``acceptance_rate`` and ``step_size`` by chain and draw; NaN where
        not recorded, and the results are then NaN too.

    Returns
    -------
    DataFrame
        One row per chain: ``chain``; ``draws``; ``divergences``, the number of divergent draws; ``at_max_depth``, the
        share of draws whose trajectory was cut at depth :data:`MAX_TREE_DEPTH`; ``bfmi``, the Bayesian fraction of
        missing information of the energy (Betancourt 2016, arXiv:1604.00695); ``acceptance`` and ``step_size``, the
        mean acceptance rate and step size.
    """
    from arviz_stats import bfmi

    energy, depth = sample_stats["energy"].to_numpy(), sample_stats["tree_depth"].to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        fraction = np.asarray(bfmi(energy), float)
    return pd.DataFrame(
        {
            "chain": sample_stats["chain"].to_numpy(),
            "draws": energy.shape[1],
            "divergences": sample_stats["diverging"].to_numpy().sum(axis=1),
            "at_max_depth": np.where(np.isnan(depth), np.nan, depth >= MAX_TREE_DEPTH).mean(axis=1),
            "bfmi": np.where(np.isfinite(fraction), fraction, np.nan),
            "acceptance": sample_stats["acceptance_rate"].to_numpy().mean(axis=1),
            "step_size": sample_stats["step_size"].to_numpy().mean(axis=1),
        }
    )
