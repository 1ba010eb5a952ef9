"""How wide the posterior's intervals are against how many labelled questions it has learned from."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.convergence import sampler_summary
from bayes_direag.fits.fitting import fit_nuts
from bayes_direag.model.settings import Preset, SamplingSettings, Variant

#: Sampling that suffices for the width of an interval, if not for the report of a fit.
SHORT_RUNS = SamplingSettings(n_chains=2, n_warmup=500, n_draws=500)


def width_by_labels(
    observations: Observations,
    sizes: Sequence[int],
    *,
    preset: str | Preset = "bayes",
    variant: Variant = "confidence",
    sampling: SamplingSettings = SHORT_RUNS,
    interval_level: float = 0.9,
    seed: int = 0,
    allow_weighted: bool = False,
    on_step: Callable[[str], None] = lambda _: None,
) -> pd.DataFrame:
    """Fit to nested random subsets of the labelled questions, and measure the intervals on those left over.

    The smaller subset is part of the larger, and all are measured on the same questions: the answered ones in
    none of the subsets, labelled or not.

    Parameters
    ----------
    sizes
        Numbers of labelled questions, in any order; equal ones are taken once.
    interval_level
        Posterior probability of the intervals.
    seed
        Draws the subsets, and seeds every fit.
    on_step
        Told the name of each fit as it begins.

    Returns
    -------
    DataFrame
        A row a size, ascending: ``n_labels``; ``n_questions``, which the widths are over; ``mean_width``,
        ``low_width``, ``median_width`` and ``high_width``, the mean and the 10 %, 50 % and 90 % quantiles of the widths
        of the confidences' intervals; ``divergences`` of the fit and its ``largest_rhat`` over all parameters.

    Raises
    ------
    DirEAGError
        Without sizes, for one below 1, or if the largest leaves no answered question over.
    """
    usable = np.flatnonzero(observations.labelled & observations.answered)
    wanted = sorted(set(sizes))
    if not wanted or wanted[0] < 1 or wanted[-1] > len(usable):
        raise DirEAGError(
            f"numbers of labels {', '.join(map(str, sizes)) or 'none'}: expected one or more between 1 and the "
            f"{len(usable)} questions that are both labelled and answered."
        )
    order = np.random.default_rng(seed).permutation(usable)
    left_over = observations.answered.copy()
    left_over[order[: wanted[-1]]] = False
    if not left_over.any():
        raise DirEAGError(
            f"{wanted[-1]} labels: that is every answered question, and leaves none to measure intervals on; "
            f"expected fewer than {len(usable)}. Ask for a smaller number."
        )
    measured = observations.select(left_over)
    rows = []
    for size in wanted:
        on_step(f"fitting {variant} to {size} labelled questions")
        fit = fit_nuts(
            observations.select(np.sort(order[:size])),
            preset=preset,
            variant=variant,
            sampling=sampling,
            seed=seed,
            allow_weighted=allow_weighted,
        )
        table = fit.predict(measured, interval_level=interval_level)
        width = (table["confidence_high"] - table["confidence_low"]).to_numpy()
        low, median, high = np.quantile(width, [0.1, 0.5, 0.9])
        sampler = sampler_summary(fit)
        rows.append(
            {
                "n_labels": size,
                "n_questions": len(measured),
                "mean_width": float(width.mean()),
                "low_width": float(low),
                "median_width": float(median),
                "high_width": float(high),
                "divergences": sampler.divergences,
                "largest_rhat": sampler.largest_rhat,
            }
        )
    return pd.DataFrame(rows)
