"""Convergence: the gradient of a MAP; R-hat, effective draws, Monte-Carlo errors and the statistics of NUTS chains."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Bool, Float

from bayes_direag.fits.fit import Fit
from bayes_direag.inference.map import GRADIENT_TOLERANCE

#: A fit has converged if R-hat is below (or chance explains it), effective draws for each chain and BFMI are above
#: these limits, and no draw diverged. 100 draws a chain are 50 of each of its halves (Vehtari et al. 2021).
RHAT_LIMIT = 1.01
ESS_PER_CHAIN = 100.0
BFMI_LIMIT = 0.3

#: The probability that chance makes an R-hat of perfect chains larger than ``rhat_by_chance``, for any parameter.
_FALSE_ALARM = 0.05

#: The depth at which numpyro's NUTS cuts a trajectory, at 2**10 - 1 steps.
MAX_TREE_DEPTH = 10


class SamplerSummary(NamedTuple):
    """The worst figures of a NUTS run; NaN where undefined.

    Attributes
    ----------
    chains : int
        Number of chains.
    largest_rhat, smallest_ess : float
        Over all parameters, including those of the final calibration; the smaller of bulk and tail ESS.
    n_apart : int
        Number of parameters on which the chains do not agree: R-hat is not below :data:`RHAT_LIMIT`, and larger than
        chance makes it.
    smallest_bfmi : float
        Over all chains.
    divergences : float
        Number of divergent draws in all chains.
    """

    chains: int
    largest_rhat: float
    n_apart: int
    smallest_ess: float
    smallest_bfmi: float
    divergences: float

    @classmethod
    def of(cls, parameters: pd.DataFrame, chains: pd.DataFrame) -> "SamplerSummary":
        """Summarise the tables of :func:`convergence` and :func:`chain_statistics`."""
        return cls(
            len(chains),
            float(parameters["rhat"].to_numpy(float).max()),  # NaN if any is NaN
            int(is_apart(parameters).sum()),
            float(parameters[["ess_bulk", "ess_tail"]].to_numpy(float).min()),
            float(chains["bfmi"].to_numpy(float).min()),
            chains["divergences"].to_numpy().sum().item(),
        )

    @property
    def converged(self) -> bool:
        """Whether all figures are within the limits; NaN is not."""
        return (
            self.n_apart == 0
            and self.smallest_ess > ESS_PER_CHAIN * self.chains
            and self.smallest_bfmi > BFMI_LIMIT
            and self.divergences == 0
        )

    def __str__(self) -> str:
        """Return the figures, each with its limit."""
        by_chance = "" if self.n_apart or self.largest_rhat < RHAT_LIMIT else ", or by chance: too few draws to tell"
        return (
            f"R-hat at most {self.largest_rhat:.3f} (below {RHAT_LIMIT}{by_chance}), effective draws at least "
            f"{self.smallest_ess:.0f} (above {ESS_PER_CHAIN * self.chains:.0f}), BFMI at least "
            f"{self.smallest_bfmi:.2f} (above {BFMI_LIMIT}), {self.divergences} divergences (none)"
        )


class OptimumSummary(NamedTuple):
    """How a MAP was found, and its largest gradient; NaN where undefined."""

    penalised_loss: float
    projected_gradient: float
    newton_steps: int
    starts: int
    optima: int

    @property
    def converged(self) -> bool:
        """Whether the gradient is small enough; NaN is not."""
        return self.projected_gradient <= GRADIENT_TOLERANCE

    def __str__(self) -> str:
        """Return the gradient with its limit."""
        return gradient_in_words(self.projected_gradient)


def gradient_in_words(gradient: float) -> str:
    """Return a gradient with its limit."""
    return f"gradient {gradient:.1g} (at most {GRADIENT_TOLERANCE:g} is fine)"


def convergence_summary(fit: Fit) -> SamplerSummary | OptimumSummary:
    """Return the figures by which a fit has converged or not."""
    if fit.method == "nuts":
        return sampler_summary(fit)
    stats = fit.tree["sample_stats"].to_dataset()
    return OptimumSummary(
        float(stats["loss"].mean()),
        float(stats["projected_gradient"].max()),
        *(int(stats[name].max()) for name in ("n_steps", "n_starts", "n_optima")),
    )


def convergence_verdict(summary: SamplerSummary | OptimumSummary) -> str:
    """Say whether a fit has converged, and by which figures."""
    return f"{'Converged' if summary.converged else 'NOT converged'}: {summary}."


def is_apart(parameters: pd.DataFrame) -> Bool[np.ndarray, " parameter"]:
    """Return on which parameters of :func:`convergence` chance does not explain that the chains differ; NaN counts."""
    return ~(parameters["rhat"] < np.fmax(parameters["rhat_by_chance"], RHAT_LIMIT)).to_numpy()


def sampler_summary(fit: Fit) -> SamplerSummary:
    """Return the worst figures of a NUTS fit."""
    return SamplerSummary.of(convergence(sampled_draws(fit)), chain_statistics(fit.tree["sample_stats"].to_dataset()))


def sampled_draws(fit: Fit) -> pd.DataFrame:
    """Return the draws of all that was sampled: raw parameters, then coefficients of the final calibration, if any."""
    final = fit.recalibration
    if final.method == "none":
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
        its bulk and folded versions; ``rhat_by_chance``, which chains without fault exceed for any parameter of the
        table with a probability of 5 %: see :func:`rhat_by_chance`; ``ess_bulk`` and ``ess_tail``, effective draws over
        all chains for the location and for the 5 % and 95 % quantiles; ``mcse``, the Monte-Carlo standard error of the
        mean; ``mcse_relative``, that error in posterior standard deviations. NaN for draws that are not finite, for a
        parameter that does not move, and, as to the R-hats, for a single chain.

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
            "rhat_by_chance": rhat_by_chance(values),
            "ess_bulk": ess(values, method="bulk", **axes),
            "ess_tail": ess(values, method="tail", prob=(0.05, 0.95), **axes),
            "mcse": error,
            "mcse_relative": error / values.std(axis=(0, 1), ddof=1),
        }
    table = pd.DataFrame(figures, draws.columns)
    return table.where(np.isfinite(table)).reset_index()


def rhat_by_chance(values: Float[np.ndarray, "chain draw parameter"]) -> Float[np.ndarray, " parameter"]:
    r"""Return the R-hats that chains without fault exceed, for any of the parameters, with a probability of 5 %.

    Let each of the :math:`m` half chains have :math:`n` draws that count as :math:`n_e` independent ones. The variance
    of their means, in terms of the variance within, is then :math:`F / n_e`, with :math:`F` of
    :math:`m - 1` and :math:`m (n_e - 1)` degrees of freedom, and

    .. math:: \hat R^2 = \frac{n-1}{n} + \frac{F}{n_e}.

    Both R-hats of each parameter, bulk and folded, count as independent, which is cautious. The effective draws are
    those of each chain by itself, so that chains in different places do not excuse themselves: the fewer of the draws
    and of their distances from the median. NaN for a single chain.

    Source: Gelman and Rubin (1992), doi:10.1214/ss/1177011136, on :math:`F`; Vehtari et al. (2021) on ranks, by which
    draws of any distribution are nearly normal.
    """
    from arviz_stats import ess
    from scipy.stats import f

    n_chains, n_draws, n_parameters = values.shape
    if n_chains == 1:
        return np.full(n_parameters, np.nan)
    n_half, half_chains = n_draws // 2, 2 * n_chains
    distances = np.abs(values - np.median(values, axis=(0, 1)))
    sizes = [ess(chain[None], chain_axis=0, draw_axis=1) for part in (values, distances) for chain in part]
    independent = np.reshape(sizes, (2, n_chains, n_parameters)).sum(axis=1).min(axis=0) / half_chains
    independent = np.minimum(independent, n_half)
    level = (1 - _FALSE_ALARM) ** (1 / (2 * n_parameters))
    quantile = f.ppf(level, half_chains - 1, half_chains * (independent - 1))
    return np.asarray(np.sqrt((n_half - 1) / n_half + quantile / independent))


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
