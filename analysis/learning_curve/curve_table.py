"""A learning curve as tables for a terminal of 80 columns: a metric each, methods by number of labels."""

import math

import pandas as pd
from rich.console import Group
from rich.text import Text

from analysis.learning_curve.calibrators import CLIP
from analysis.learning_curve.curve import CURVE_METRICS
from analysis.learning_curve.methods import ANSWERS, METHODS, is_sampled
from bayes_direag.commands.options import plain_table, titled
from bayes_direag.fits.convergence import BFMI_LIMIT, ESS_LIMIT, RHAT_LIMIT, SamplerSummary

#: The metrics that are shown; all are in the summary.
SHOWN = ("nll", "brier", "smece", "accuracy")

SAME_ANSWERS = "Accuracy: of the answers, which no calibration changes; vote_* methods select those of majority."


def curve_tables(summary: pd.DataFrame, interval_level: float) -> Group:
    """Return a table for each metric of :data:`SHOWN`, those of the best group starred and bold.

    Parameters
    ----------
    summary
        From :func:`~analysis.learning_curve.summary.summarise`.
    """
    legend = (
        "Means over the splits, ± standard error; ↓ less is better, ↑ more. * The best with so many labels, and all "
        f"that the {interval_level:.0%} interval of the paired difference does not show to be worse. NLL: confidences "
        f"clipped to {CLIP}..{1 - CLIP}. {SAME_ANSWERS} ECE, AUROC: see summary.csv."
    )
    return Group(*(_table(summary, metric) for metric in SHOWN), Text(legend, style="dim italic"), "")


def shown_rows(summary: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return what there is to show of a metric: of the accuracy, one method for all that select the same answers."""
    rows = summary[summary["metric"] == metric]
    if metric != "accuracy":
        return rows
    return rows.assign(method=rows["method"].map(ANSWERS)).drop_duplicates(["n_labels", "method"])


def metric_title(metric: str) -> str:
    """Name a metric, with an arrow that says which way is better."""
    quantity = CURVE_METRICS[metric]
    return f"{quantity.title} {'↑' if quantity.more_is_better else '↓'}"


def sampling_note(results: pd.DataFrame) -> str:
    """Say how many of the NUTS fits behind some results did not converge."""
    sampled = results[results["method"].map(is_sampled)]
    fits = sampled.assign(source=sampled["method"].map(METHODS)).drop_duplicates(["source", "n_labels", "split"])
    summaries = map(SamplerSummary._make, fits[list(SamplerSummary._fields)].itertuples(index=False))
    n_poor = sum(not summary.converged for summary in summaries)
    return (
        f"{n_poor} of {len(fits)} NUTS fits did not converge (an R-hat of {RHAT_LIMIT} or more, {ESS_LIMIT:.0f} or "
        f"fewer effective draws, a BFMI of {BFMI_LIMIT} or less, or divergences).\n"
    )


def _table(summary: pd.DataFrame, metric: str) -> Group:
    rows = shown_rows(summary, metric)
    table = plain_table("method")
    for n_labels in rows["n_labels"].unique():
        table.add_column(f"{n_labels} labels", justify="right", no_wrap=True)
    for method, group in rows.groupby("method", sort=False):
        cells = map(_cell, group["mean"], group["standard_error"], group["in_best_group"])
        table.add_row(Text(str(method)), *cells)
    return titled(metric_title(metric), table)


def _cell(mean: float, error: float, in_best_group: bool) -> Text:
    if math.isnan(mean):
        return Text("\N{EN DASH}")
    spread = "" if math.isnan(error) else f" ± {error:.3f}".replace("0.", ".", 1)
    return Text(f"{mean:.3f}{spread}{'*' if in_best_group else ' '}", style="bold" if in_best_group else "")
