"""Whether a fit has converged, and what to do if not: by the gradient of a MAP, or ArviZ's figures of NUTS chains."""

from collections.abc import Iterator
from itertools import count
from math import ceil
from operator import gt, le
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from bayes_direag.fits.fit import Fit
from bayes_direag.fits.parameters import identified_draws
from bayes_direag.inference.newton import GRADIENT_TOLERANCE
from bayes_direag.model.settings import SamplingSettings

#: A fit has converged if R-hat is at most, and effective draws for each chain and BFMI are above, these limits
#: (Vehtari et al. 2021, doi:10.1214/20-BA1221), and no more than one draw in a thousand diverged. With fewer draws than
#: SHORT_RUN in all chains together, chance alone exceeds 1.01: with 42 parameters, in 45 % of runs of two perfect
#: chains of 300 draws (1.02 in 2 %).
RHAT_LIMIT, RHAT_LIMIT_OF_SHORT_RUNS, ESS_PER_CHAIN, BFMI_LIMIT = 1.01, 1.02, 100.0, 0.3
SHORT_RUN, DRAWS_A_DIVERGENCE = 2000, 1000

#: More draws to advise: so many times what the effective draws ask for, from twice as many to ten times.
_AMPLE, _FEWEST, _MOST = 1.25, 2, 10


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
        return all(fine for fine, _ in self.figures())

    def figures(self) -> Iterator[tuple[bool, str]]:
        """Yield for each figure whether it is fine, and its words, with as many digits as show it."""
        for words, value, limit, within, least_digits in (
            ("R-hat at most {} (up to {})", self.largest_rhat, self.rhat_limit, le, 3),
            ("effective draws at least {} (above {})", self.smallest_ess, ESS_PER_CHAIN * self.chains, gt, 0),
            ("BFMI at least {} (above {})", self.smallest_bfmi, BFMI_LIMIT, gt, 2),
            ("{} divergences (up to {})", self.divergences, self.draws // DRAWS_A_DIVERGENCE, le, 0),
        ):
            fine = within(value, limit)
            shown = (f"{value:.{digits}f}" for digits in count(least_digits))
            yield fine, words.format(next(text for text in shown if within(float(text), limit) == fine), f"{limit:g}")

    def __str__(self) -> str:
        """Return the figures, each with its limit."""
        return ", ".join(words for _, words in self.figures())


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


class ConvergenceVerdict(NamedTuple):
    """Whether a fit has converged: ``warning`` if it has, with a few divergences. The text names the remedy."""

    severity: Literal["fine", "warning", "failure"]
    text: str


def convergence_verdict(fit: Fit) -> ConvergenceVerdict:
    """Say whether a fit has converged, by which figures, and what to do if it has not."""
    summary = convergence_summary(fit)
    if isinstance(summary, OptimumSummary):
        if summary.converged:
            return ConvergenceVerdict("fine", f"Converged: {summary}.")
        return ConvergenceVerdict("failure", f"NOT converged: {summary}. What now: docs/diagnostics.md.")
    diverged = smaller_steps = ""
    if summary.divergences > 0:
        diverged = f"{summary.divergences:.0f} of {summary.draws:,} draws diverged, {_where_draws_diverge(fit)}"
        smaller_steps = f"smaller steps ({_smaller_steps(fit)})"
    if summary.converged:
        text = f"Converged: {summary}."
        if not diverged:
            return ConvergenceVerdict("fine", text)
        return ConvergenceVerdict(
            "warning", f"{text} {diverged}: intervals may be a little narrow. Surer: take {smaller_steps}."
        )
    *of_chains, (few_diverge, _) = figures = list(summary.figures())
    faults = ", ".join(words for fine, words in figures if not fine)
    remedies = [] if few_diverge else [smaller_steps]
    if not all(fine for fine, _ in of_chains):
        remedies.append(f"more draws ({_more_draws(fit, summary)})")
    where = "" if few_diverge else f" {diverged}."
    return ConvergenceVerdict(
        "failure", f"NOT converged: {faults}.{where} Do not believe these draws: take {' and '.join(remedies)}."
    )


def _where_draws_diverge(fit: Fit) -> str:
    """Name the parameters whose divergent draws lie at least a standard deviation away, the farthest three."""
    from arviz_base import dataset_to_dataframe

    draws = dataset_to_dataframe(identified_draws(fit.tree), sample_dims=["chain", "draw"])
    away = (draws[fit.tree["sample_stats"]["diverging"].to_numpy().ravel()].mean() - draws.mean()) / draws.std()
    far = away[away.abs() >= 1].sort_values(key=abs, ascending=False)[:3]
    named = [f"{'high' if distance > 0 else 'low'} {name}" for name, distance in far.items()]
    return f"at {', '.join(named)}" if named else "at no parameter in particular"


def _smaller_steps(fit: Fit) -> str:
    """Name the acceptance rate half as far from 1, or from the default if that is nearer."""
    sampling = fit.settings.sampling or SamplingSettings()
    return f"--target-accept {1 - min(1 - sampling.target_accept_prob, 0.02) / 2:.4g}"


def _more_draws(fit: Fit, summary: SamplerSummary) -> str:
    """Name the draws of each chain that give enough effective ones, and the default warm-up if there was less."""
    ratio = _AMPLE * ESS_PER_CHAIN * summary.chains / summary.smallest_ess
    factor = min(max(_FEWEST, ceil(ratio)), _MOST) if np.isfinite(ratio) else _FEWEST
    words, default = f"--draws {factor * summary.draws // summary.chains}", SamplingSettings().num_warmup
    few = fit.settings.sampling is not None and fit.settings.sampling.num_warmup < default
    return f"{words} --warmup {default}" if few else words


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
