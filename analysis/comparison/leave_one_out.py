"""Which of several NUTS fits predicts a question best that it has not seen, by leave-one-out predictive density."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float

from analysis.comparison.findings import Drawing, Findings
from analysis.diagnosis.checks import effective_parameters
from analysis.display.document import Column, Table
from analysis.display.style import REFERENCE, RIGHT, forest, row_labels
from analysis.display.text import number
from bayes_direag.data.files import as_records
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.loo import LARGEST_PARETO_K

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Smaller differences, in standard errors or in nats, are not distinguished from 0.
FEWEST_STANDARD_ERRORS = 2.0
LEAST_DIFFERENCE = 4.0


def compare_leave_one_out(fits: Mapping[str, Fit], *, allow_weighted: bool) -> Findings:
    """Compare NUTS fits to the same questions; they may differ in variant and preset."""
    _check_alike(fits, allow_weighted=allow_weighted)
    table = loo_table(fits)
    n = next(iter(fits.values())).n_questions
    said = conclusion(table, n)
    drawing = Drawing(
        "loo",
        "Which model predicts a left-out question best?",
        f"{n} questions, each predicted from all others. Bars: {FEWEST_STANDARD_ERRORS:g} standard errors of the "
        f"difference either way. {said}",
        0.6 + 0.36 * len(table),
        partial(draw_loo, table=table),
    )
    record = {"n": n, "loo": as_records(table), "conclusion": said}
    return Findings((said,), (_shown_loo(table, n),), {"loo": table}, drawing, record)


def loo_table(fits: Mapping[str, Fit]) -> pd.DataFrame:
    """Return the fits in the order of their log predictive density, the best first, by ``arviz_stats.compare``.

    ``difference``, with its standard error, is that to the best fit, question by question (or cluster by cluster), so
    that what is hard for both cancels. ``weight`` is that in the mixture of all that predicts left-out questions best
    (stacking, Yao et al. 2018, doi:10.1214/17-BA1091); it is not the probability of a fit.

    Source: Vehtari, Gelman and Gabry (2017), doi:10.1007/s11222-016-9696-4. Sivula et al. (2025), arXiv:2008.10296, on
    when a difference can be trusted.
    """
    from arviz_stats import ELPDDataLOO, compare  # here: its import takes a second

    pointwise = {name: _by_cluster(fit) for name, fit in fits.items()}
    shared = np.max(list(pointwise.values()), axis=0)  # dividing a question's densities by one number changes nothing
    models = {
        name: ELPDDataLOO(
            elpd=elpd.sum(),
            se=_standard_error(elpd),
            p=effective_parameters(fits[name]),
            n_samples=fits[name].n_samples,
            n_data_points=len(elpd),
            scale="log",
            warning=False,
            good_k=LARGEST_PARETO_K,
            elpd_i=xr.DataArray(elpd - shared),
        )
        for name, elpd in pointwise.items()
    }
    compared = compare(models, method="stacking", round_to="none")
    names = compared.index.tolist()
    difference = compared["elpd_diff"].to_numpy(float)
    error = np.array([_standard_error(pointwise[name] - pointwise[names[0]]) for name in names])
    told = (np.abs(difference) >= FEWEST_STANDARD_ERRORS * error) & (np.abs(difference) >= LEAST_DIFFERENCE)
    return pd.DataFrame(
        {
            "model": names,
            "elpd": compared["elpd"].to_numpy(float),
            "se": compared["se"].to_numpy(float),
            "difference": difference,
            "difference_se": error,
            "distinguishable": pd.Series(told, dtype="boolean").mask(np.arange(len(names)) == 0),
            "p_loo": compared["p"].to_numpy(float),
            "n_bad_k": [int((fits[name].left_out["pareto_k"] > LARGEST_PARETO_K).sum()) for name in names],
            "weight": compared["weight"].to_numpy(float).clip(0, 1),
            "is_weighted": [fits[name].preset.is_weighted for name in names],
        }
    )


def _by_cluster(fit: Fit) -> Float[np.ndarray, " unit"]:
    """Return the log predictive densities, summed over the questions of a cluster."""
    elpd, cluster = fit.left_out["elpd"].to_numpy(), fit.fitted.cluster_number
    return elpd if cluster is None else np.bincount(cluster, elpd)


def _standard_error(pointwise: Float[np.ndarray, " unit"]) -> float:
    """Return the standard error of a sum, by n - 1 where ArviZ divides that of a difference by n; NaN for one term."""
    n = len(pointwise)
    return float(np.sqrt(n * pointwise.var(ddof=1))) if n > 1 else np.nan


def conclusion(table: pd.DataFrame, n: int) -> str:
    """Say which models are distinguishable from the best."""
    best, others = table["model"].iloc[0], table.iloc[1:]
    told = others["distinguishable"].astype(bool)
    worse, alike = (", ".join(others.loc[rows, "model"]) for rows in (told, ~told))
    parts = []
    if worse:
        parts.append(f"{best} predicts left-out questions better than {worse}")
    if alike:
        parts.append(
            f"{best} and {alike} cannot be told apart on these {n} questions (a difference below "
            f"{FEWEST_STANDARD_ERRORS:g} standard errors, or below {LEAST_DIFFERENCE:g})"
        )
    return "; ".join(parts) + "."


def draw_loo(axes: "Axes", table: pd.DataFrame) -> None:
    """Draw every model's difference to the best, with two standard errors either way."""
    reach = FEWEST_STANDARD_ERRORS * table["difference_se"]
    ends = {"low": table["difference"] - reach, "high": table["difference"] + reach}
    axes.axvline(0, color=REFERENCE, linewidth=1)
    forest(axes, table[["difference"]].assign(**ends), colour=RIGHT)
    row_labels(axes, table["model"].tolist())
    axes.set_xlabel("log predictive density minus that of the best (nats; more is better)")


def _shown_loo(table: pd.DataFrame, n: int) -> Table:
    bad = f"k > {LARGEST_PARETO_K}"
    notes = [
        "elpd: log probability of the state that occurred, each question left out, before recalibration, summed; more "
        "is better. p_loo: effective parameters. weight: in the stacked mixture, no probability of the model."
    ]
    if table["n_bad_k"].any():
        notes.append(f"{bad}: questions whose leave-one-out figure is unreliable; differences may be biased.")
    if table["is_weighted"].any():
        notes.append("(weighted): its likelihood is no probability model's; its figures have no meaning of their own.")
    return Table.of(
        f"Leave-one-out on {n} questions",
        table.assign(is_best=np.arange(len(table)) == 0).to_dict("records"),
        {
            Column("model", holds="name"): lambda row: f"{row['model']}{' (weighted)' if row['is_weighted'] else ''}",
            Column("elpd ± se"): lambda row: f"{number(row['elpd'], 1)} ± {number(row['se'], 1)}",
            Column("difference ± se"): lambda row: (
                "best" if row["is_best"] else f"{number(row['difference'], 1)} ± {number(row['difference_se'], 1)}"
            ),
            Column("p_loo"): lambda row: number(row["p_loo"], 1),
            Column(bad): lambda row: str(row["n_bad_k"]),
            Column("weight"): lambda row: number(row["weight"], 2),
        },
        "\n".join(notes),
    )


def _check_alike(fits: Mapping[str, Fit], *, allow_weighted: bool) -> None:
    first_name, first = next(iter(fits.items()))
    for name, fit in fits.items():
        if "loo" not in fit.tree.children:
            raise DirEAGError(
                f"{name} is a {fit.method.upper()} fit, a single point, which has no leave-one-out figures; expected "
                "NUTS fits, or questions to predict (--obs). Fit with fit_nuts (direag fit --method nuts)."
            )
        asked = [(one.fingerprint, one.left_out["problem"].to_numpy().tolist()) for one in (first, fit)]
        if asked[0] != asked[1]:
            raise DirEAGError(
                f"{first_name} and {name} were fitted to different observations (SHA-256 "
                f"{first.fingerprint[:8]}… and {fit.fingerprint[:8]}…); "
                "expected the same, question by question. Fit them to one file."
            )
        if fit.preset.is_weighted and not allow_weighted:
            raise DirEAGError(
                f"{name} weighs questions unequally (null_target_weight {fit.preset.null_target_weight}), which is not "
                "a probability model, so its leave-one-out density is none either; expected weight 1. Fit it with "
                "null_target_weight 1 (--set null_target_weight=1), or say allow_weighted (--allow-weighted) to see "
                "the figures all the same."
            )
