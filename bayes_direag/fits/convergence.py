"""Whether a fit has converged: the gradient of a MAP, or what ArviZ says of NUTS chains."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from bayes_direag.fits.fit import Fit
from bayes_direag.fits.parameters import identified_draws
from bayes_direag.inference.newton import GRADIENT_TOLERANCE

#: A fit has converged if R-hat is at most, and effective draws for each chain and BFMI are above, these limits, and no
#: draw diverged (Vehtari et al. 2021, doi:10.1214/20-BA1221). With fewer draws than SHORT_RUN in all chains together,
#: chance alone exceeds 1.01: with 42 parameters, in 45 % of runs of two perfect chains of 300 draws (1.02 in 2 %).
RHAT_LIMIT, RHAT_LIMIT_OF_SHORT_RUNS, ESS_PER_CHAIN, BFMI_LIMIT = 1.01, 1.02, 100.0, 0.3
SHORT_RUN = 2000


class SamplerSummary(NamedTuple):
    """The worst figures of a NUTS run over all identified parameters and chains; NaN where undefined."""

    chains: int
    draws: int
    largest_rhat: float
    smallest_ess: float
    smallest_bfmi: float
    divergences: float

    @property
    def rhat_limit(self) -> float:
        """The largest R-hat that is fine, by the number of draws of all chains."""
        return RHAT_LIMIT if self.draws >= SHORT_RUN else RHAT_LIMIT_OF_SHORT_RUNS

    @property
    def converged(self) -> bool:
        """Whether all figures are within the limits; NaN is not."""
        enough = self.smallest_ess > ESS_PER_CHAIN * self.chains and self.smallest_bfmi > BFMI_LIMIT
        return self.largest_rhat <= self.rhat_limit and enough and self.divergences == 0

    def __str__(self) -> str:
        """Return the figures, each with its limit."""
        return (
            f"R-hat at most {self.largest_rhat:.3f} (up to {self.rhat_limit}), effective draws at least "
            f"{self.smallest_ess:.0f} (above {ESS_PER_CHAIN * self.chains:.0f}), BFMI at least "
            f"{self.smallest_bfmi:.2f} (above {BFMI_LIMIT}), {self.divergences:.0f} divergences (none)"
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
    loss, gradient = float(stats["loss"].mean()), float(stats["projected_gradient"].max())
    return OptimumSummary(loss, gradient, *(int(stats[name].max()) for name in ("n_steps", "n_starts", "n_optima")))


def convergence_verdict(summary: SamplerSummary | OptimumSummary) -> str:
    """Say whether a fit has converged, and by which figures."""
    return (
        f"Converged: {summary}." if summary.converged else f"NOT converged: {summary}. What now: docs/diagnostics.md."
    )


def convergence(fit: Fit) -> pd.DataFrame:
    """Return ArviZ's ``r_hat``, ``ess_bulk``, ``ess_tail`` and ``mcse_mean`` of each identified parameter and level."""
    from arviz_stats import summary  # an import of a second, which a MAP fit does not need

    with np.errstate(invalid="ignore"):  # chains that never move have no R-hat
        table: pd.DataFrame = summary(identified_draws(fit.tree), kind="diagnostics", round_to="none")
    return table


def sampler_summary(fit: Fit) -> SamplerSummary:
    """Return the worst figures of a NUTS fit."""
    from arviz_stats import bfmi

    table, stats = convergence(fit), fit.tree["sample_stats"].to_dataset()
    return SamplerSummary(
        stats.sizes["chain"],
        fit.n_samples,
        float(table["r_hat"].max(skipna=False)),
        float(table[["ess_bulk", "ess_tail"]].to_numpy(float).min()),
        float(bfmi(fit.tree)["energy"].min(skipna=False)),
        float(stats["diverging"].sum(skipna=False)),
    )
