"""The picture of a learning curve: one panel per metric, one line per method, its name where the line ends."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.display.document import Block, Cell, Column, Paragraph, Statements, Table
from analysis.display.glossary import BENEFIT, METRIC_WORDS
from analysis.display.style import MARKERS, figure_style, headed_figure
from analysis.display.text import counted, number, with_interval
from analysis.methods.calibrations import CLIP
from analysis.methods.registry import CALIBRATED, is_sampled, suffix_of
from analysis.scores.scoring import SELECTION_SCORES
from bayes_direag.fits.convergence import BFMI_LIMIT, ESS_PER_CHAIN, RHAT_LIMIT, SamplerSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: The metrics that are shown; all are in the summary.
SHOWN = ("benefit", "accuracy_of_all", "log_score", "nll", "smece")

#: The method that is DirEAG by its defaults, and the methods that are always on the first screen.
DEFAULT_FIT = "map_bayes_calibrated"
_ALWAYS, _FIRST_METHODS = (DEFAULT_FIT, "majority", "majority_platt"), 5

#: What the metrics are, for a caption.
EXPLAINED = (
    f"Benefit, by which methods are ranked: {BENEFIT}. Accuracy: an unanswered question counts as wrong. Log score: of "
    "the whole distribution over candidates and null, of methods that state one. Of its own answers: says whether "
    f"probabilities hold, and not which method is better. NLL: confidences clipped to {CLIP}..{1 - CLIP}."
)


def curve_blocks(summary: pd.DataFrame, interval_level: float, *, everything: bool = True) -> Iterator[Block]:
    """Yield the result in sentences, and a table for each metric of :data:`SHOWN`, or one of benefit with few methods.

    Figures of the best group are marked.
    """
    tables = shown_metrics(summary)
    yield Statements(tuple(_sentences(tables["benefit"], interval_level)))
    group = (
        "Means over the splits, ± standard error. * The best with so many labels, and all that the "
        f"{interval_level:.0%} interval of the paired difference does not show to be worse."
    )
    if not everything:
        yield _mean_table("benefit", _first_methods(tables["benefit"]))
        yield Paragraph(f"{group} All methods and metrics: --all.", "note")
        return
    for metric, rows in tables.items():
        yield _mean_table(metric, rows)
    text = f"{group} ↓ less is better, ↑ more. {EXPLAINED} Brier score, ECE, AUROC: see summary.csv."
    yield Paragraph(text, "note")


def _sentences(benefit: pd.DataFrame, interval_level: float) -> Iterator[str]:
    """Say with each number of labels which method is best, and whether DirEAG is shown to be worse."""
    for n_labels, rows in benefit.groupby("n_labels"):
        by_method = {row["method"]: row for row in rows.to_dict("records")}
        best, own = rows["best"].iloc[0], by_method.get(DEFAULT_FIT)
        if pd.isna(best):
            continue
        says = f"{n_labels} labels: {best} is best (benefit {number(by_method[best]['mean'])})."
        if own is not None and best != DEFAULT_FIT:
            size = with_interval(own["difference"], own["low"], own["high"], signed=True)
            shown = "is not shown to be worse" if own["in_best_group"] else "is worse"
            says += f" DirEAG ({DEFAULT_FIT}) {shown}: {number(own['mean'])}, difference {size}."
        n_others, n_worse = len(rows) - 1, int((~rows["in_best_group"]).sum())
        worse = f"{n_worse} of {counted(n_others, 'other method')} shown to be worse ({interval_level:.0%} intervals)."
        yield f"{says} {worse}" if n_others else says


def _first_methods(benefit: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of DirEAG, the votes and the best others."""
    methods = benefit["method"].unique()
    kept = sorted(methods, key=lambda method: method not in _ALWAYS)[:_FIRST_METHODS]
    return benefit[benefit["method"].isin(kept)]


def _mean_table(metric: str, rows: pd.DataFrame) -> Table:
    columns = (Column("method", holds="name"), *(Column(f"{n} labels") for n in rows["n_labels"].unique()))
    body = (
        (Cell(str(method)), *map(_mean_cell, group["mean"], group["standard_error"], group["in_best_group"]))
        for method, group in rows.groupby("method", sort=False)
    )
    return Table(metric_title(metric), columns, tuple(body))


def shown_metrics(summary: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rows of each metric and the methods that have it, ordered by mean benefit with the most labels."""
    benefit = summary[(summary["metric"] == "benefit") & (summary["n_labels"] == summary["n_labels"].max())]
    place = benefit.set_index("method")["mean"].rank(ascending=False, method="first")
    ordered = summary.sort_values("method", key=lambda names: names.map(place), kind="stable")
    defined = ordered[ordered["mean"].notna().groupby([ordered["metric"], ordered["method"]]).transform("any")]
    return {metric: rows for metric in SHOWN if len(rows := defined[defined["metric"] == metric])}


def metric_title(metric: str) -> str:
    """Name a metric, with an arrow that says which way is better."""
    of = "" if metric in SELECTION_SCORES else " of its own answers"
    return f"{METRIC_WORDS[metric].header}{of} {METRIC_WORDS[metric].arrow}"


def sampling_note(results: pd.DataFrame) -> str:
    """Say how many of the NUTS fits behind some results did not converge."""
    sampled = results[results["method"].map(is_sampled)]
    source = sampled["method"].str.removesuffix(CALIBRATED)
    fits = sampled.assign(source=source).drop_duplicates(["source", "n_labels", "split"])
    summaries = map(SamplerSummary._make, fits[list(SamplerSummary._fields)].itertuples(index=False))
    n_poor = sum(not summary.converged for summary in summaries)
    return (
        f"{n_poor} of {len(fits)} NUTS fits did not converge (an R-hat of {RHAT_LIMIT} or more that chance does not "
        f"explain, {ESS_PER_CHAIN:.0f} or fewer effective draws a chain, a BFMI of {BFMI_LIMIT} or less, or "
        "divergences).\n"
    )


def _mean_cell(mean: float, error: float, in_best_group: bool) -> Cell:
    spread = "" if math.isnan(error) or math.isnan(mean) else f" ± {number(error, bare=True)}"
    return Cell(f"{number(mean)}{spread}", marks=("best",) if in_best_group else ())


#: Marks are moved aside by at most this factor, so that their bars are told apart.
_ASIDE = 1.12
#: Inches that a line of text is high.
_LABEL_HEIGHT = 0.155

_COLOURS = ("#000000", "#8C8C8C", "#CC79A7", "#E69F00", "#56B4E9", "#0072B2", "#009E73", "#D55E00", "#7A3B69")


#: Of what the labels say beyond a straight line of logits.
_OTHER_CALIBRATIONS = ("_isotonic", "_beta", "_venn")


class _Look(NamedTuple):
    colour: str
    marker: str
    line: str


def learning_curve_figure(summary: pd.DataFrame, about: str, interval_level: float) -> "Figure":
    """Draw benefit, accuracy, log score, NLL and smECE of every method against the number of labels."""
    looks = _looks(summary["method"].unique().tolist())
    caption = (
        f"{about} Mean over splits, with bars of one standard error either way; ↓ less is better, ↑ more. Filled "
        "marks, and with the most labels a star: the best with so many labels, and every method that the "
        f"{interval_level:.0%} interval of the paired difference does not show to be worse. Dotted: "
        f"without recalibration, dashed: isotonic, beta, Venn-Abers, solid: all others. {EXPLAINED}"
    )
    tables = shown_metrics(summary)
    heights = [max(2.0, _LABEL_HEIGHT * (rows["method"].nunique() + 1)) for rows in tables.values()]
    with figure_style():
        height = sum(heights) + 0.45 * len(heights)
        figure = headed_figure("How good is each method with so many labels?", caption, height, width=7.2)
        panels = figure.subplots(len(tables), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (metric, rows), own_height in zip(panels, tables.items(), heights, strict=True):
            _draw_panel(axes, rows, looks, own_height)
            axes.set_ylabel(metric_title(metric))
        panels[-1].set_xlabel("labelled questions learned from")
    return figure


def spread_out(place: Float[np.ndarray, " label"], gap: float) -> Float[np.ndarray, " label"]:
    """Move labels on a line of length 1 as little as possible (least squares) until none is nearer than ``gap``.

    Examples
    --------
    >>> spread_out(np.array([0.5, 0.1, 0.5]), gap=0.2).round(2)
    array([0.4, 0.1, 0.6])
    """
    from sklearn.isotonic import isotonic_regression

    n = len(place)
    gap = min(gap, 1 / max(n - 1, 1))
    order = np.argsort(place, kind="stable")
    offset = gap * np.arange(n)
    moved = np.empty(n)
    moved[order] = isotonic_regression(place[order] - offset, y_min=0.0, y_max=max(1 - gap * (n - 1), 0.0)) + offset
    return moved


def _draw_panel(axes: "Axes", rows: pd.DataFrame, looks: dict[str, _Look], height: float) -> None:
    counts, methods = rows["n_labels"].unique(), rows["method"].unique().tolist()
    ends = []
    for method, aside in zip(methods, np.linspace(1 / _ASIDE, _ASIDE, len(methods) + 2)[1:-1], strict=True):
        shown, look = rows[rows["method"] == method], looks[method]
        n, mean = aside * shown["n_labels"].to_numpy(float), shown["mean"].to_numpy(float)
        error = shown["standard_error"].to_numpy(float)
        axes.plot(n, mean, color=look.colour, linestyle=look.line, linewidth=1.4)
        axes.vlines(n, mean - error, mean + error, color=look.colour, linewidth=0.8, alpha=0.6)
        face = np.where(shown["in_best_group"], look.colour, "white")
        axes.scatter(n, mean, s=26, marker=look.marker, color=face.tolist(), edgecolor=look.colour, zorder=3)
        if len(defined := np.flatnonzero(~np.isnan(mean))):
            star = " *" if shown["in_best_group"].to_numpy()[defined[-1]] else ""
            ends.append((method, f"{method}{star}", n[defined[-1]], mean[defined[-1]]))
    axes.set_xscale("log")
    axes.set_xticks(counts, [str(n) for n in counts])
    axes.minorticks_off()
    axes.set_xlim(counts.min() / 1.25, counts.max() * 1.25)
    low, high = axes.get_ylim()
    places = spread_out(np.array([(value - low) / (high - low) for *_, value in ends]), _LABEL_HEIGHT / height)
    for (method, name, n, value), place in zip(ends, places, strict=True):
        axes.annotate(
            name,
            (n, value),
            (1.05, place),
            textcoords="axes fraction",
            va="center",
            fontsize=9,
            color=looks[method].colour,
            arrowprops={
                "arrowstyle": "-",
                "color": looks[method].colour,
                "linewidth": 0.6,
                "relpos": (0, 0.5),
                "shrinkA": 0,
                "shrinkB": 4,
            },
            annotation_clip=False,
        )


def _looks(methods: list[str]) -> dict[str, _Look]:
    """Give every source (a method without its suffix) a colour and a mark, and every suffix a line."""
    sources = [method.removesuffix(suffix_of(method)) for method in methods]
    numbers = {source: number for number, source in enumerate(dict.fromkeys(sources))}
    looks = {}
    for method, source in zip(methods, sources, strict=True):
        number, suffix = numbers[source], suffix_of(method)
        raw = not suffix and sources.count(source) > 1
        line = ":" if raw else "--" if suffix in _OTHER_CALIBRATIONS else "-"
        marker = MARKERS[(number + number // len(_COLOURS)) % len(MARKERS)]
        looks[method] = _Look(_COLOURS[number % len(_COLOURS)], marker, line)
    return looks
