"""The pictures of an evaluation, one function each, with the numbers in them."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.display.document import Picture
from analysis.display.style import (
    REFERENCE,
    RIGHT,
    WRONG,
    figure_style,
    forest,
    headed_figure,
    reliability_figure,
    row_labels,
)
from analysis.display.text import percent
from analysis.evaluation import Evaluation
from analysis.methods.registry import spoken
from analysis.scores.calibration import binned_reliability
from analysis.scores.scoring import scored_rows
from analysis.scores.selective import risk_coverage

_GREEN = "#009E73"
#: Below this share of the answers a few questions decide, and no error curve is drawn.
_LEAST_SHARE = 0.05
#: The share of errors at which the error curves have a line to compare with.
_MARKED_ERROR = 0.1


def evaluation_pictures(evaluation: Evaluation) -> Iterator[Picture]:
    """Draw an evaluation; nothing if its method has answered no labelled question."""
    if evaluation.calibration.n:
        yield reliability_picture(evaluation)
        yield risk_coverage_picture(evaluation)
        yield benefit_picture(evaluation)


def reliability_picture(evaluation: Evaluation) -> Picture:
    """Draw how often the answers of the evaluation's method are right, by the probability given."""
    answered, level = evaluation.answered, evaluation.settings.interval_level
    bins = binned_reliability(answered.confidence, answered.correct, level=level)
    figure = reliability_figure({f"probability that {spoken(evaluation.method)} gives": bins})
    caption = f"Bars: {percent(level, 0)} intervals, of which some miss by chance."
    return Picture("reliability", figure, {"reliability": bins.assign(interval_level=level)}, caption)


def benefit_picture(evaluation: Evaluation) -> Picture:
    """Draw the benefit and the accuracy of every method."""
    columns = {"benefit": "benefit", "accuracy_of_all": "accuracy"}
    table, level = evaluation.ranked, evaluation.settings.interval_level
    shown = table[["method", *(f"{name}{end}" for name in columns for end in ("", "_low", "_high"))]]
    with figure_style():
        figure = headed_figure("What the answers are worth, by method", "", 0.9 + 0.27 * len(table))
        panels = figure.subplots(1, 2, sharey=True)
        looks = ((RIGHT, "o"), (_GREEN, "s"))
        for axes, (name, label), (colour, marker) in zip(panels, columns.items(), looks, strict=True):
            forest(axes, table[[name, f"{name}_low", f"{name}_high"]], colour=colour, marker=marker)
            axes.margins(x=0.08)
            axes.set_xlabel(f"{label}\n(more is better)")
        row_labels(panels[0], [spoken(name) for name in table["method"]])
    caption = (
        f"Bars: {percent(level, 0)} intervals over questions; methods share their questions, "
        "so bars that overlap may still differ clearly."
    )
    return Picture("benefit", figure, {"benefit": shown.assign(interval_level=level)}, caption)


def risk_coverage_picture(evaluation: Evaluation) -> Picture:
    """Draw the errors among the surest answers: of the method, the strongest rival, and votes if these are others."""
    by_method = dict(list(evaluation.predictions.groupby("method")))
    names = [evaluation.method, evaluation.rival, *(["majority"] if "majority" not in evaluation.rival else [])]
    answered = {name: scored_rows(by_method[name]).answered for name in dict.fromkeys(names) if name in by_method}
    curves = {name: risk_coverage(rows.confidence, rows.correct) for name, rows in answered.items()}
    worst = max(curve.loc[curve["coverage"] >= _LEAST_SHARE, "risk"].max() for curve in curves.values())
    with figure_style():
        figure = headed_figure("Errors among the surest answers", "", 3.2)
        axes = figure.subplots()
        axes.axhline(100 * _MARKED_ERROR, color=REFERENCE, linewidth=1, linestyle=(0, (4, 3)))
        for colour, (name, curve) in zip((RIGHT, WRONG, _GREEN), curves.items(), strict=False):
            label = f"{spoken(name)}: {percent(curve['risk'].mean())} on average"
            axes.plot(100 * curve["coverage"], 100 * curve["risk"], color=colour, linewidth=2, label=label)
        axes.set(xlim=(100 * _LEAST_SHARE, 100), ylim=(0, min(100.0, 110 * np.fmax(worst, 1.2 * _MARKED_ERROR))))
        axes.set(xlabel="share answered, the surest first (%)", ylabel="errors (%)")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1))
    caption = f"Dashed: {percent(_MARKED_ERROR, 0)} errors."
    tables = {"risk_coverage": pd.concat(curves, names=["method", None]).reset_index(level=0)}
    return Picture("risk_coverage", figure, tables, caption)
