"""A learning curve as tables for a terminal of 80 columns: a metric each, methods by number of labels."""

import math
from collections.abc import Iterator

import pandas as pd
from rich.console import Group
from rich.text import Text

from analysis.display.numbers import number
from analysis.display.tables import shown_table
from analysis.learning_curve.curve import CURVE_METRICS
from analysis.methods.calibrations import CLIP
from analysis.methods.registry import CALIBRATED, is_sampled
from bayes_direag.fits.convergence import BFMI_LIMIT, ESS_LIMIT, RHAT_LIMIT, SamplerSummary

#: The metrics that are shown; all are in the summary.
SHOWN = ("benefit", "accuracy_of_all", "log_score", "nll", "smece")

#: What the metrics are, for a caption.
EXPLAINED = (
    "Benefit: accuracy less Brier score of the selected answers, which methods are ranked by; 1 is perfect, 0 never "
    "answering. Accuracy: an unanswered question counts as wrong. Log score: of the whole distribution over candidates "
    "and null, of methods that state one; for fits, before their final calibration. Of its own answers: says whether "
    f"probabilities hold, and not which method is better. NLL: confidences clipped to {CLIP}..{1 - CLIP}."
)


def curve_tables(summary: pd.DataFrame, interval_level: float) -> Group:
    """Return a table for each metric of :data:`SHOWN`, those of the best group starred and bold.

    Parameters
    ----------
    summary
        From :func:`~analysis.learning_curve.summary.summarise`.
    """
    legend = (
        "Means over the splits, ± standard error; ↓ less is better, ↑ more. * The best with so many labels, and all "
        f"that the {interval_level:.0%} interval of the paired difference does not show to be worse. {EXPLAINED} "
        "Brier score, ECE, AUROC: see summary.csv."
    )
    tables = (_table(metric, rows) for metric, rows in shown_metrics(summary).items())
    return Group(*tables, Text(legend, style="dim italic"), "")


def shown_metrics(summary: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rows of each metric that there is something to show of: of methods for which it is defined.

    Methods stand in the order of their mean benefit with the most labels, the best first.
    """
    benefit = summary[(summary["metric"] == "benefit") & (summary["n_labels"] == summary["n_labels"].max())]
    place = benefit.set_index("method")["mean"].rank(ascending=False, method="first")
    ordered = summary.sort_values("method", key=lambda names: names.map(place), kind="stable")
    defined = ordered[ordered["mean"].notna().groupby([ordered["metric"], ordered["method"]]).transform("any")]
    return {metric: rows for metric in SHOWN if len(rows := defined[defined["metric"] == metric])}


def metric_title(metric: str) -> str:
    """Name a metric, with an arrow that says which way is better."""
    quantity = CURVE_METRICS[metric]
    return f"{quantity.title} {'↑' if quantity.more_is_better else '↓'}"


def sampling_note(results: pd.DataFrame) -> str:
    """Say how many of the NUTS fits behind some results did not converge."""
    sampled = results[results["method"].map(is_sampled)]
    source = sampled["method"].str.removesuffix(CALIBRATED)
    fits = sampled.assign(source=source).drop_duplicates(["source", "n_labels", "split"])
    summaries = map(SamplerSummary._make, fits[list(SamplerSummary._fields)].itertuples(index=False))
    n_poor = sum(not summary.converged for summary in summaries)
    return (
        f"{n_poor} of {len(fits)} NUTS fits did not converge (an R-hat of {RHAT_LIMIT} or more, {ESS_LIMIT:.0f} or "
        f"fewer effective draws, a BFMI of {BFMI_LIMIT} or less, or divergences).\n"
    )


def _table(metric: str, rows: pd.DataFrame) -> Group:
    shown: Iterator[list[str | Text]] = (
        [str(method), *map(_cell, group["mean"], group["standard_error"], group["in_best_group"])]
        for method, group in rows.groupby("method", sort=False)
    )
    return shown_table(metric_title(metric), ["method"], [f"{n} labels" for n in rows["n_labels"].unique()], shown)


def _cell(mean: float, error: float, in_best_group: bool) -> Text:
    spread = "" if math.isnan(error) or math.isnan(mean) else f" ± {number(error, bare=True)}"
    star = "" if math.isnan(mean) else "*" if in_best_group else " "
    return Text(f"{number(mean)}{spread}{star}", style="bold" if in_best_group else "")
