"""What a fit is and has learned: as blocks of a document, as curves of its calibrations, as pictures.

Curves are means over the draws with equal-tailed intervals, which are NaN for a MAP.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.display.document import Block, Column, LeftOut, Paragraph, Picture, Table, Terms, Verdict
from analysis.display.style import RIGHT, diagonal, figure_style, headed_figure
from analysis.display.text import percent, told_apart
from analysis.parameters import compared_parameters, parameter_tables, parameters_picture
from analysis.scores.scoring import draw_columns
from bayes_direag.data.remarks import voting_remark
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.convergence import OptimumSummary, convergence_summary, convergence_verdict
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import label
from bayes_direag.model.selection import clipped_logit, distribution
from bayes_direag.model.settings import Preset
from bayes_direag.model.states import supports

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: Points of a curve, from 0 to 1 in steps of half a percent.
GRID = np.linspace(0, 1, 201)


def calibration_curves(fit: Fit, level: float = 0.95) -> pd.DataFrame:
    """Return the support of the answer of a report that stands alone, by its level, for stated confidences from 0 to 1.

    With several signals the curve is for reports in which all signals are equal. Raises DirEAGError for a model of
    one's own whose function is not given.
    """
    known = fit.evaluation(fit.fitted)
    alone = replace(known, data=known.data.lone(clipped_logit(GRID, fit.preset.eps)))
    columns = draw_columns(supports(alone)[:, :, 0], level, "calibrated")
    names = np.repeat(np.array(fit.level_names, object), len(GRID))
    return pd.DataFrame({"level": names, "stated": np.tile(GRID, len(fit.level_names))} | columns)


def recalibration_curve(fit: Fit, level: float = 0.95) -> pd.DataFrame:
    """Return the final probability for every support from 0 to 1: ``support``, ``probability``, ``low``, ``high``.

    That of a question with all reports.
    """
    curve = fit.recalibration.of_selected(GRID[None])
    return pd.DataFrame({"support": GRID, **draw_columns(curve, level, "probability")})


def fitted_support(fit: Fit) -> Float[np.ndarray, " problem"]:
    """Return the support of each fitted question's selected answer: leave-one-out under NUTS, in-sample for a MAP."""
    if "loo" in fit.tree:
        return fit.left_out["support"].to_numpy()
    states = distribution(fit.evaluation(fit.fitted))
    return np.asarray(states[:, :-1].max(axis=1))


#: Bins of stated confidence in percent; like those of the ECE right-closed, the first also left-closed.
STATED_EDGES = np.arange(0, 101, 5)


def stated_confidences(fit: Fit) -> pd.DataFrame:
    """Count right and wrong answers of each level to the fitted questions by stated confidence, in bins of 5 points."""
    # most confidences are whole percentages; rounding keeps 15 % on an edge, which 0.15 * 100 misses
    percent = np.round(fit.fitted.confidence * 100, 9)
    bins = np.searchsorted(STATED_EDGES[1:-1], percent, side="left")
    tables = []
    for level, name in enumerate(fit.fitted.groups or fit.fitted.level_names):
        usable, right = ~np.isnan(percent[:, level]), fit.fitted.correct[:, level]
        table = pd.DataFrame({"level": name, "low": STATED_EDGES[:-1], "high": STATED_EDGES[1:]})
        for outcome, kept in (("right", usable & right), ("wrong", usable & ~right)):
            table[outcome] = np.bincount(bins[kept, level], minlength=len(table))
        tables.append(table)
    by_column = pd.concat(tables, ignore_index=True)
    return by_column.groupby(["level", "low", "high"], sort=False, as_index=False).sum()


#: Curves with a colour and a name; where levels differ and are more, the others are grey.
_NAMED_CURVES = 6


def calibration_picture(fit: Fit, about: str, interval_level: float) -> Picture:
    """Draw the calibration curve of each level, one if all share it, over the stated confidences of all levels."""
    curves, stated = calibration_curves(fit, interval_level), stated_confidences(fit)
    by_level = {str(name): rows for name, rows in curves.groupby("level", sort=False)}
    mean = np.array([rows["calibrated"].mean() for rows in by_level.values()])
    shared = len(by_level) > 1 and np.ptp([rows["calibrated"] for rows in by_level.values()], axis=0).max() < 1e-9
    highest_first = np.argsort(-mean, kind="stable")
    ranks = np.linspace(0, len(mean) - 1, min(len(mean), _NAMED_CURVES)).round().astype(int)
    named = [list(by_level)[number] for number in ([0] if shared else highest_first[ranks])]
    others = [] if shared else [name for name in by_level if name not in named]
    counts = (stated["right"] + stated["wrong"]).groupby(stated["low"]).sum()
    caption = (
        f"{about} {_spread(curves, interval_level)} {'All levels share one curve. ' if shared else ''}Dashed: as "
        "stated. The support of an answer that one level alone gives; the rest is that it is wrong. "
        f"Below: how often each confidence was stated, n = {counts.sum():,} usable reports."
    )
    with figure_style():
        figure = headed_figure("What a stated confidence counts for", caption, 4.6)
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
        diagonal(above, 100.0)
        for rows in (by_level[name] for name in others):
            above.plot(100 * rows["stated"], 100 * rows["calibrated"], color="0.75", linewidth=1)
        for number, (name, shown) in enumerate(zip(named, told_apart(named, 24), strict=True)):
            look = {"color": f"C{number}", "label": shown}
            _draw_band(above, by_level[name], "stated", "calibrated", scale=100.0, **look)
        if len(named) > 1:
            more = f"\ngrey: {len(others)} others" if others else ""
            above.legend(title=f"highest first{more}", loc="upper left", bbox_to_anchor=(1, 1))
        above.set(xlim=(0, 100), ylim=(0, 100), ylabel="counts as (%)")
        below.bar(counts.index, counts, 0.9 * (STATED_EDGES[1] - STATED_EDGES[0]), align="edge", color="0.45")
        below.set(xlabel="stated confidence (%)", ylabel="reports")
    tables = {"calibration_curves": curves.assign(interval_level=interval_level), "calibration_curves_stated": stated}
    return Picture("calibration_curves", figure, tables)


def recalibration_picture(fit: Fit, about: str, interval_level: float) -> Picture | LeftOut:
    """Draw the final probability against support, over the distribution of support (leave-one-out or in-sample)."""
    if fit.recalibration.method == "none":
        return LeftOut("recalibration", "there is none, so support is the final probability")
    curve, support = recalibration_curve(fit, interval_level), fitted_support(fit)
    kind = "leave-one-out" if "loo" in fit.tree else "in-sample"
    caption = (
        f"{about} {_spread(curve, interval_level)} Dashed: support left as it is. Below: the {kind} support of the "
        f"selected answers, n = {len(support)} fitted questions; where there are none, the curve is extrapolated."
    )
    with figure_style():
        figure = headed_figure("From support to the probability of being right", caption, 4.6)
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
        diagonal(above)
        _draw_band(above, curve, "support", "probability")
        above.set(xlim=(0, 1), ylim=(0, 1), ylabel="final probability")
        below.hist(support, bins=np.linspace(0, 1, 41).tolist(), color="0.45")
        below.set_ylabel("questions")
        below.set_xlabel("support of the selected answer")
    fitted = pd.DataFrame({"problem_id": fit.fitted.problem_id, "support": support})
    tables = {"recalibration": curve.assign(interval_level=interval_level), "recalibration_support": fitted}
    return Picture("recalibration", figure, tables)


def _draw_band(
    axes: "Axes", curve: pd.DataFrame, at: str, value: str, scale: float = 1.0, color: str = RIGHT, label: str = ""
) -> None:
    x, y, low, high = (scale * curve[name].to_numpy() for name in (at, value, "low", "high"))
    axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
    axes.plot(x, y, color=color, linewidth=2, label=label)


def _spread(table: pd.DataFrame, interval_level: float) -> str:
    if table["low"].isna().all():
        return "A point estimate, without intervals."
    return f"Line and shaded area: mean and {interval_level:.0%} interval over the posterior draws, pointwise."


def fit_pictures(fit: Fit, *, level: float = 0.95) -> Iterator[Picture | LeftOut]:
    """Draw what a fit has learned: its parameters, calibration curves and final calibration.

    ``level`` is the posterior probability of the intervals of curves.
    """
    about = describe_fit(fit)
    if fit.preset.variant == "level":
        about += " Weight, bias and null gain trade off here: the prior, not the data, separates them."
    yield parameters_picture(compared_parameters({"fit": fit}), about)
    for name, picture in (("calibration_curves", calibration_picture), ("recalibration", recalibration_picture)):
        try:
            yield picture(fit, about, level)
        except DirEAGError as error:  # the function of a model of one's own is not given
            yield LeftOut(name, str(error).removesuffix("."))


def describe_fit(fit: Fit) -> str:
    """Describe a fit and its questions in a sentence."""
    attributes = fit.tree.attrs
    method = {"map": "MAP", "nuts": f"NUTS ({fit.n_samples} draws)"}[attributes["method"]]
    source = ", ".join(attributes[name] for name in ("dataset", "model") if attributes[name] != "not stated")
    holdout = f", {len(fit.calibrated_on)} more for its final calibration" if fit.calibrated_on else ""
    return (
        f"Fitted to {fit.n_questions} questions{f' of {source}' if source else ''}{holdout}: {method}, preset "
        f"{_model_of(fit)}."
    )


_SCALE_NOTE_OF_LEVEL = (
    "Variant level: the labels determine weight x sigmoid(bias) and null_gain x weight x sigmoid(-bias), up to a "
    "common scale. Only the prior determines weight, bias and null_gain themselves, and their shares."
)
_AGREEMENT_NOTE = (
    "agrees: how often a level's answer is the one that most others give, over all questions given, labelled or not. "
    "by chance: the same for answers to different questions. In the model bayes, what lies beyond chance moves weight "
    "and vote."
)


def fit_terms(fit: Fit, title: str) -> Terms:
    """Say what a fit is: how it was made, from what, and in which setting."""
    attributes, final, summary = fit.tree.attrs, fit.recalibration.method, convergence_summary(fit)
    if isinstance(summary, OptimumSummary):
        how = f"MAP, the mode of the posterior; {_searched(summary, fit.preset)}"
        n_folds = fit.preset.recalibration.out_of_fold
        calibrated_on = f"out-of-fold support, {n_folds} folds" if n_folds else "the questions fitted to"
    else:
        how = f"NUTS, the whole posterior: {fit.n_samples // summary.chains} draws of each of {summary.chains} chains"
        calibrated_on = "leave-one-out support"
    if fit.calibrated_on:
        calibrated_on = f"{len(fit.calibrated_on)} questions kept apart"
    rows = {
        "method": how,
        "model": _model_of(fit),
        "learned from": f"{fit.n_questions} questions with {fit.answers} answers",
        "dataset, model": f"{attributes['dataset']}; {attributes['model']}",
        "levels": f"{len(fit.level_names)}: {', '.join(fit.level_names)}",
        "recalibration": final if final == "none" else f"{final}, on {calibrated_on}",
    }
    if (fit.fitted.weight != 1).any():
        rows["weights"] = f"the questions count as {fit.fitted.weight.sum():.4g} together"
    if fit.preset.is_weighted:
        rows["NOTE"] = "questions are weighted unequally: the posterior is not that of a probability model"
    if len(fit.fitted.signals) > 1:
        rows["signals"] = ", ".join(fit.fitted.signal_names)
    if note := voting_remark(fit.fitted):
        rows["votes"] = note
    rows |= {
        "seed": str(attributes["seed"]),
        "observations": f"SHA-256 {attributes['observations_sha256'][:16]}…",
        "versions": ", ".join(f"{name} {number}" for name, number in json.loads(attributes["versions"]).items()),
    }
    return Terms(title, tuple(rows.items()))


def convergence_block(fit: Fit) -> Verdict:
    """Say whether a fit has converged."""
    return Verdict((convergence_verdict(fit),))


def learned_blocks(fit: Fit) -> Iterator[Block]:
    """Yield the parameters of a fit and, where the model looks at it, how often its levels agree."""
    if fit.preset.variant == "level":
        yield Paragraph(_SCALE_NOTE_OF_LEVEL, "note")
    yield from parameter_tables(compared_parameters({"fit": fit}), is_own=fit.preset.is_own)
    if agreement := fit.fitted.agreement:
        yield Table.of(
            "How often levels agree",
            zip(fit.level_names, agreement.share, agreement.by_chance, strict=True),
            {
                Column("level", holds="name"): lambda row: row[0],
                Column("agrees"): lambda row: percent(row[1], 0),
                Column("by chance"): lambda row: percent(row[2], 0),
            },
            _AGREEMENT_NOTE,
        )


def _model_of(fit: Fit) -> str:
    """Return the preset, and the variant if it does not look at stated confidences."""
    return label(fit.preset) + ("" if fit.preset.variant == "confidence" else f", variant {fit.preset.variant}")


def _searched(summary: OptimumSummary, preset: Preset) -> str:
    """Say which optimum was found, if there may be several."""
    text = f"penalised loss {summary.penalised_loss:.6f}"
    if summary.starts > 1:
        lowest = f"the lowest of {summary.optima} optima" if summary.optima > 1 else "one optimum"
        return f"{text}, {lowest} from {summary.starts} starts"
    return f"{text}, from the usual start alone: there may be lower optima" if preset.plain_reports else text
