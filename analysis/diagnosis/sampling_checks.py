"""Has the sampler explored the posterior? Convergence of every parameter, and how each chain has moved."""

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float

from analysis.diagnosis.parameter_draws import ParameterDraws

#: Convergence asks for an R-hat below, effective numbers of draws above, and a BFMI above these; and no divergence.
RHAT_LIMIT = 1.01
ESS_LIMIT = 400.0
BFMI_LIMIT = 0.3

#: Where numpyro's NUTS cuts a trajectory: at 2**10 - 1 steps.
MAX_TREE_DEPTH = 10


def convergence(draws: ParameterDraws) -> pd.DataFrame:
    r"""Say of every parameter how well its chains agree, and how exactly its mean is known.

    Returns
    -------
    DataFrame
        A row a parameter (and level): ``parameter``, ``level``; ``rhat``, rank-normalised and split, the larger of
        its bulk and folded versions; ``ess_bulk`` and ``ess_tail``, effective numbers of draws over all chains for
        the location and for the 5 % and 95 % quantiles; ``mcse``, the Monte-Carlo standard error of the mean,
        and ``mcse_relative``, that error in posterior standard deviations. NaN where undefined: draws that are not
        finite, a parameter that never moves, a single chain (for R-hat).

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), doi:10.1214/20-BA1221.
    """
    rows = [_convergence_of(draws.values[:, :, column]) for column in range(draws.values.shape[2])]
    return pd.concat([draws.names, pd.DataFrame(rows)], axis=1)


def chain_statistics(sample_stats: xr.Dataset) -> pd.DataFrame:
    """Say of every chain how NUTS has moved.

    Parameters
    ----------
    sample_stats
        ``diverging``, ``tree_depth``, ``energy``, ``acceptance_rate`` and ``step_size`` by chain and draw.

    Returns
    -------
    DataFrame
        A row a chain: ``chain``; ``draws``; ``divergences``, how many of them diverged; ``at_max_depth``, the share
        of them whose trajectory was cut at depth :data:`MAX_TREE_DEPTH`; ``bfmi``, the energy's Bayesian
        fraction of missing information (Betancourt 2016, arXiv:1604.00695); ``acceptance``, the mean acceptance
        rate; ``step_size``, its mean.
    """
    from arviz_stats import bfmi  # here, and below: its import takes a second, which a MAP fit need not wait for

    energy = sample_stats["energy"].to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        fraction = np.asarray(bfmi(energy), float)
    return pd.DataFrame(
        {
            "chain": sample_stats["chain"].to_numpy(),
            "draws": energy.shape[1],
            "divergences": sample_stats["diverging"].to_numpy().sum(axis=1),
            "at_max_depth": (sample_stats["tree_depth"].to_numpy() >= MAX_TREE_DEPTH).mean(axis=1),
            "bfmi": np.where(np.isfinite(fraction), fraction, np.nan),
            "acceptance": sample_stats["acceptance_rate"].to_numpy().mean(axis=1),
            "step_size": sample_stats["step_size"].to_numpy().mean(axis=1),
        }
    )


def _convergence_of(values: Float[np.ndarray, "chain draw"]) -> dict[str, float]:
    if not np.isfinite(values).all() or not np.ptp(values) > 0:
        return dict.fromkeys(("rhat", "ess_bulk", "ess_tail", "mcse", "mcse_relative"), np.nan)
    from arviz_stats import ess, mcse, rhat

    with np.errstate(divide="ignore", invalid="ignore"):
        error = _defined(mcse(values, method="mean"))
        return {
            "rhat": _defined(rhat(values)),
            "ess_bulk": _defined(ess(values, method="bulk")),
            "ess_tail": _defined(ess(values, method="tail", prob=(0.05, 0.95))),
            "mcse": error,
            "mcse_relative": error / float(values.std(ddof=1)),
        }


def _defined(value: object) -> float:
    """Return a finite number as it is; infinite and undefined ones as NaN."""
    number = float(np.asarray(value))
    return number if np.isfinite(number) else np.nan
