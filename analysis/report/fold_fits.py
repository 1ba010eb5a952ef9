"""The fits behind held-out predictions: what they learned, and whether each of them converged."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.runs.folder import FITS
from bayes_direag.fits.convergence import SamplerSummary, sampler_summary
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.map import GRADIENT_TOLERANCE


class Convergence(NamedTuple):
    """How many fits of one variant there are, how many of them converged, and how far the worst of them came."""

    variant: str
    n_fits: int
    n_converged: int
    worst: str


def read_parameters(folder: Path) -> pd.DataFrame:
    """Read the parameters of the fits behind an evaluation; no rows where nothing was fitted."""
    columns = {"fold": "str", "variant": "str", "parameter": "str", "level": "str"}
    path = folder / "parameters.csv"
    if not path.read_text(encoding="utf-8").strip():
        return pd.DataFrame(columns=list(columns))
    missing = ["relative", "projected_gradient"]
    return pd.read_csv(path, dtype=columns, keep_default_na=False, na_values={name: [""] for name in missing})


def convergence_by_variant(folder: Path, parameters: pd.DataFrame, fit_method: str) -> tuple[Convergence, ...]:
    """Judge the fits behind an evaluation, variant by variant: a MAP by its gradient, NUTS by its chains.

    Parameters
    ----------
    folder
        Of the evaluation.
    parameters
        From :func:`read_parameters`; a MAP's gradient stands there, the chains of NUTS have to be read.
    """
    fits = parameters[["variant", "fold"]].drop_duplicates()
    by_variant = {str(variant): rows["fold"].tolist() for variant, rows in fits.groupby("variant", sort=False)}
    if fit_method == "map":
        return tuple(_of_map(variant, parameters[parameters["variant"] == variant]) for variant in by_variant)
    return tuple(
        _of_nuts(variant, [folder / FITS / f"{variant}-{fold}.nc" for fold in by_variant[variant]])
        for variant in by_variant
    )


def _of_map(variant: str, parameters: pd.DataFrame) -> Convergence:
    gradient = parameters.groupby("fold")["projected_gradient"].first().to_numpy(float)
    worst = f"gradient {gradient.max():.1g} (at most {GRADIENT_TOLERANCE:g} is fine)"
    return Convergence(variant, len(gradient), int((gradient <= GRADIENT_TOLERANCE).sum()), worst)


def _of_nuts(variant: str, paths: list[Path]) -> Convergence:
    summaries = [sampler_summary(Fit.load(path)) for path in paths]
    rhat, size, bfmi, divergences = map(np.array, zip(*summaries, strict=True))
    worst = SamplerSummary(rhat.max(), size.min(), bfmi.min(), divergences.sum())
    return Convergence(variant, len(summaries), sum(summary.converged for summary in summaries), str(worst))
