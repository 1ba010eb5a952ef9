"""Convergence of NUTS: R-hat, effective draws and Monte-Carlo errors by parameter, and the statistics of each chain."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayes_direag.fits.fit import Fit
from bayes_direag.model.selection import IsotonicRecalibration

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
    return SamplerSummary.of(convergence(sampled_draws(fit)), chain_statistics(fit.tree["sample_stats"].to_dataset()))


def sampled_draws(fit: Fit) -> pd.DataFrame:
    """Return the draws of all that was sampled: raw parameters, then coefficients of the final calibration, if any."""
    final = fit.recalibration
    if final.method == "none" or isinstance(final, IsotonicRecalibration):
        return fit.draws("raw")
    coefficients = [f"recalibration_{name}" for name in final.coefficients]
    return pd.concat([fit.draws("raw"), fit.draws()[coefficients]], axis=1)


def convergence(draws: pd.DataFrame) -> pd.DataFrame:
    r"""Return how well the chains of every parameter agree, and the error of its mean.

    Parameters
    ----------
    draws
        A row a draw and a column a parameter: see :func:`~bayes_direag.fits.parameters.parameter_draws`.

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

    axes, n_chains = {"chain_axis": 0, "draw_axis": 1}, draws.index.get_level_values("chain").nunique()
    values = draws.to_numpy().reshape(n_chains, -1, draws.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        moves = np.isfinite(values).all(axis=(0, 1)) & (np.ptp(values, axis=(0, 1)) > 0)
        values = np.where(moves, values, np.nan)
        error = mcse(values, method="mean", **axes)
        figures = {
            "rhat": rhat(values, **axes),
            "ess_bulk": ess(values, method="bulk", **axes),
            "ess_tail": ess(values, method="tail", prob=(0.05, 0.95), **axes),
            "mcse": error,
            "mcse_relative": error / values.std(axis=(0, 1), ddof=1),
        }
    table = pd.DataFrame(figures, draws.columns)
    return table.where(np.isfinite(table)).reset_index()


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
