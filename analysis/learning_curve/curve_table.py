"""A learning curve as tables for a terminal of 80 columns: a metric each, methods by number of labels."""

import math

import pandas as pd
from rich.console import Group
from rich.text import Text

from analysis.diagnosis.sampling_checks import RHAT_LIMIT
from analysis.learning_curve.calibrators import CLIP
from analysis.learning_curve.curve import CURVE_METRICS
from analysis.learning_curve.methods import METHODS, is_sampled
from analysis.tables import plain_table, titled

#: The metrics that are shown; all are in the summary.
SHOWN = ("nll", "brier", "smece")


def curve_tables(summary: pd.DataFrame, interval_level: float) -> Group:
    """Return a table for each metric of :data:`SHOWN`, those of the best group starred and bold.

    Parameters
    ----------
    summary
        From :func:`~analysis.learning_curve.summary.summarise`.
    """
    legend = (
        "Means over the splits, ± standard error; less is better. * The best with so many labels, and all that the "
        f"{interval_level:.0%} interval of the paired difference does not show to be worse. NLL: confidences clipped "
        f"to {CLIP}..{1 - CLIP}. ECE, AUROC and accuracy: see summary.csv."
    )
    return Group(*(_table(summary, metric) for metric in SHOWN), Text(legend, style="dim italic"), "")


def sampling_note(results: pd.DataFrame) -> str:
    """Say how many of the NUTS fits behind some results are not to be relied on; nothing where there are none."""
    sampled = results[results["method"].map(is_sampled)]
    fits = sampled.assign(source=sampled["method"].map(METHODS)).drop_duplicates(["source", "n_labels", "split"])
    poor = ~(fits["largest_rhat"] < RHAT_LIMIT) | (fits["divergences"] > 0)
    if fits.empty:
        return ""
    return f"{poor.sum()} of {len(fits)} NUTS fits have an R-hat of {RHAT_LIMIT} or more, or divergences.\n"


def _table(summary: pd.DataFrame, metric: str) -> Group:
    rows = summary[summary["metric"] == metric]
    table = plain_table("method")
    for n_labels in rows["n_labels"].unique():
        table.add_column(f"{n_labels} labels", justify="right", no_wrap=True)
    for method, own in rows.groupby("method", sort=False):
        cells = map(_cell, own["mean"], own["standard_error"], own["in_best_group"])
        table.add_row(Text(str(method)), *cells)
    return titled(CURVE_METRICS[metric].title, table)


def _cell(mean: float, error: float, in_best_group: bool) -> Text:
    if math.isnan(mean):
        return Text("\N{EN DASH}")
    spread = "" if math.isnan(error) else f" ± {error:.3f}".replace("0.", ".", 1)
    return Text(f"{mean:.3f}{spread}{'*' if in_best_group else ' '}", style="bold" if in_best_group else "")
