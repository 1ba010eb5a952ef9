"""Pictures of what a fit has learned: calibration level by level, what counts, and the final recalibration.

Each function returns a figure of its own, to be written with :func:`~analysis.display.style.save_figure`.
``about`` is a sentence for the caption that says what the fit is and what it was fitted to. Bands and bars are drawn
where there is more than one posterior draw.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from analysis.display.style import (
    REFERENCE,
    RIGHT,
    LeftOut,
    Picture,
    Words,
    diagonal,
    figure_style,
    fitting,
    forest,
    headed_figure,
    panel_grid,
    row_labels,
)
from analysis.learned import quantities
from analysis.learned.quantities import LabelledReports, stated_confidences
from analysis.methods.direag import FITTED_METHODS
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import label
from bayes_direag.model.settings import IDENTITY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_GREEN = "#009E73"

#: What the quantities that all levels share stand for; the first of a group speaks for it.
_MEANING = {
    "slope": "Slope: how much a stated confidence matters (0: not at all; 1, dashed: as stated).",
    "null_gain": "Null gain: how much doubt speaks against all answers.",
    "sharpness": "Sharpness: above 1 (dashed), agreement counts for more than its share of the evidence.",
    "vote_slope": "Vote slope: what a surer report adds to the log odds of its answer besides.",
    "prior_strength / total weight": "Prior strength and null base: evidence, before any report, for every answer "
    "and for none; only their ratio to the levels' total weight has a meaning.",
    "recalibration intercept": "Recalibration: intercept 0 and slope 1 (dashed) leave the support as it is.",
}

_REFERENCE_VALUES = {"slope": 1.0, "sharpness": 1.0, "vote_slope": 0.0} | {
    f"recalibration {name}": value for name, value in IDENTITY.items()
}


#: Title of each picture and how to read it, in the order of a report.
WORDS: Words = {
    "levels": (
        "Whom does it listen to?",
        "Left: how much each level counts; on the dashed line all count alike. Right, if there: how its "
        "confidences are moved; left of 0 they are taken for less than stated. A bar is what the labelled "
        "questions leave open.",
    ),
    "calibration_curves": (
        "What is a stated confidence taken for?",
        "On the dashed line it counts as stated, below it for less. A flat curve means that it makes no "
        "difference what was stated. Only where there are grey bars was anything learned.",
    ),
    "shared": (
        "What all levels share",
        "For those who know the model: each number on a scale of its own. The slope says how much stated "
        "confidences matter at all (0: not).",
    ),
    "recalibration": (
        "The last step, from support to probability",
        "The evidence is added up to a support, and this curve makes it a probability of being right. On the "
        "dashed line support is left as it is; a flatter curve says that it was too sure, a steeper one too "
        "timid.",
    ),
}


def calibration_curves_figure(
    curves: pd.DataFrame, stated: pd.DataFrame, about: str, interval_level: float
) -> "Figure":
    """Draw level by level what a stated confidence counts for, over how often it was stated.

    ``curves``: from :func:`~analysis.learned.quantities.calibration_curves`. ``stated``: from
    :func:`~analysis.learned.quantities.stated_confidences`, of the questions fitted to.
    """
    names = curves["level"].unique().tolist()
    caption = (
        f"{about} {_spread(curves, interval_level, 'Line and shaded area', ', point by point')} Dashed: as "
        "stated. The calibrated confidence is the share of the level's weight that its answer is given; the rest "
        "speaks against all answers. "
        "Grey bars: how often what was stated, each panel on its own scale; n: usable reports."
    )
    n_columns = 3 if len(names) > 4 else 2
    counts = (stated["right"] + stated["wrong"]).groupby(stated["level"]).sum()
    with figure_style():
        title = "Learned calibration: what stated confidence is taken for"
        figure = headed_figure(title, caption, 0.6 + 1.75 * -(-len(names) // n_columns))
        titles = [(name, f"n = {counts[name]}") for name in names]
        panels = panel_grid(figure, titles, n_columns, x_label="stated (%)", y_label="calibrated (%)")
        for axes, name in zip(panels, names, strict=True):
            _draw_stated(axes, stated[stated["level"] == name])
            diagonal(axes, 100.0)
            _draw_curve(axes, curves[curves["level"] == name], "stated", "calibrated", scale=100.0)
        panels[0].set(xlim=(0, 100), ylim=(0, 100), xticks=[0, 50, 100], yticks=[0, 50, 100])
        for axes in panels:
            axes.margins(0)
    return figure


def level_figure(quantities: pd.DataFrame, about: str, interval_level: float) -> "Figure":
    """Draw how much each level counts and how it is biased.

    ``quantities``: from :func:`~analysis.learned.quantities.level_quantities`.
    """
    names = quantities["level"].unique().tolist()
    kinds = quantities["quantity"].unique().tolist()
    biased = "bias" in kinds
    caption = (
        f"{about} {_spread(quantities, interval_level, 'Dots and bars')} Weight: share of the total of all levels; "
        "dashed: equal shares."
    )
    if biased:
        caption += " Bias: on the logit scale; the lower, the less the level's reports count for their own answer."
    title = f"Learned weight {'and bias ' if biased else ''}of each level"
    with figure_style():
        figure = headed_figure(title, caption, 0.9 + 0.3 * len(names))
        panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
        for axes, kind, colour, marker in zip(panels, kinds, (RIGHT, _GREEN), "os", strict=False):
            rows = quantities[quantities["quantity"] == kind]
            scale = 100 if kind == "share" else 1
            value, low, high = (scale * rows[column].to_numpy() for column in ("value", "low", "high"))
            _dashed(axes, 100 / len(names) if kind == "share" else 0.0)
            forest(axes, value, low, high, colour=colour, marker=marker)
        row_labels(panels[0], [fitting(name, 2.2) for name in names])
        panels[0].set_xlim(left=0)
        panels[0].set_xlabel("share of the total weight (%)")
        if biased:
            panels[1].set_xlabel("bias (logit)")
    return figure


def shared_figure(quantities: pd.DataFrame, about: str, interval_level: float) -> "Figure":
    """Draw the identified quantities of all levels together, each on its own scale.

    ``quantities``: from :func:`~analysis.learned.quantities.shared_quantities`.
    """
    shown = {name.partition("[")[0] for name in quantities["quantity"]}
    meaning = " ".join(text for name, text in _MEANING.items() if name in shown)
    caption = f"{about} {_spread(quantities, interval_level, 'Dots and bars')} {meaning}"
    with figure_style():
        figure = headed_figure("Learned quantities that all levels share", caption, 0.4 + 0.62 * len(quantities))
        panels = figure.subplots(len(quantities), 1, squeeze=False)[:, 0]
        for axes, row in zip(panels, quantities.to_dict("records"), strict=True):
            name = str(row["quantity"])
            at = _REFERENCE_VALUES.get(name)  # none for the slope of one of several signals
            if at is not None:
                _dashed(axes, at)
            forest(axes, *(np.array([row[column]]) for column in ("value", "low", "high")), colour=RIGHT)
            row_labels(axes, [name])
            axes.margins(x=0.15)
            if row["value"] >= 0 and not row["low"] < 0:
                axes.set_xlim(left=0)
            axes.locator_params(axis="x", nbins=6)
        panels[-1].set_xlabel("value, without a unit; each row has its own scale")
    return figure


def recalibration_figure(
    curve: pd.DataFrame,
    support: Float[np.ndarray, " problem"],
    multiplicity: Int[np.ndarray, " problem"],
    kind: str,
    about: str,
    interval_level: float,
) -> "Figure":
    """Draw the final probability against support, over where support lies.

    ``curve``: from :func:`~analysis.learned.quantities.recalibration_curve`. ``support``: of the questions fitted to,
    from :func:`~analysis.learned.quantities.fitted_support`; ``multiplicity``: how many questions have it; ``kind``:
    what support that is, leave-one-out or in-sample.
    """
    caption = (
        f"{about} {_spread(curve, interval_level, 'Line and shaded area', ', point by point')} Dashed: support left as "
        f"it is. Below: the {kind} support of the selected answers, n = {multiplicity.sum()} questions fitted to; "
        "where there are none, the curve is extrapolated."
    )
    with figure_style():
        figure = headed_figure("Final recalibration: from support to the probability of being right", caption, 4.6)
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
        diagonal(above)
        _draw_curve(above, curve, "support", "probability")
        above.set(xlim=(0, 1), ylim=(0, 1), ylabel="final probability")
        below.hist(support, bins=np.linspace(0, 1, 41).tolist(), weights=multiplicity, color="0.45")
        below.set_ylabel("questions")
        below.set_xlabel("support of the selected answer")
    return figure


def _draw_curve(axes: "Axes", curve: pd.DataFrame, place: str, value: str, scale: float = 1.0) -> None:
    """Draw one column over another, and the band from ``low`` to ``high``."""
    x, y, low, high = (scale * curve[name].to_numpy() for name in (place, value, "low", "high"))
    axes.fill_between(x, low, high, color=RIGHT, alpha=0.25, linewidth=0)
    axes.plot(x, y, color=RIGHT, linewidth=2)


def _dashed(axes: "Axes", at: float) -> None:
    axes.axvline(at, color=REFERENCE, linewidth=1, linestyle=(0, (4, 3)))


def _draw_stated(axes: "Axes", rows: pd.DataFrame) -> None:
    count = (rows["right"] + rows["wrong"]).to_numpy(float)
    width = (rows["high"] - rows["low"]).to_numpy(float)
    axes.bar(rows["low"], 35 * count / max(count.max(), 1), width * 0.9, align="edge", color="0.8", zorder=0.5)


def _spread(table: pd.DataFrame, interval_level: float, what: str, how: str = "") -> str:
    """Say what the band or bar is, or why there is none."""
    if table["low"].isna().all():
        return "One point estimate, so there is no interval."
    return f"{what}: mean and {interval_level:.0%} interval over the posterior draws{how}."


def fit_pictures(fit: Fit, *, level: float = 0.95) -> Iterator[Picture | LeftOut]:
    """Draw a fit: calibration by level, what each level counts, what all share, and the final recalibration.

    ``level``: of all intervals and bands over the posterior draws.
    """
    about = describe_fit(fit)
    if fit.variant == "level":
        about += " Weight, bias and null gain trade off here: the prior, not the data, tells them apart."
    if fit.variant == "count":
        yield LeftOut("calibration_curves", "variant count has none: every report counts in full")
    else:
        curves = quantities.calibration_curves(fit, level)
        stated = stated_confidences(LabelledReports.of_fits([fit]))
        figure = calibration_curves_figure(curves, stated, about, level)
        tables = {"calibration_curves": curves.assign(interval_level=level), "calibration_curves_stated": stated}
        yield Picture("calibration_curves", figure, tables)
    tables = {"levels": quantities.level_quantities(fit, level), "shared": quantities.shared_quantities(fit, level)}
    for (name, table), figure_of in zip(tables.items(), (level_figure, shared_figure), strict=True):
        yield Picture(name, figure_of(table, about, level), {name: table.assign(interval_level=level)})
    if fit.recalibration.method == "none":
        yield LeftOut("recalibration", "there is none: the support is the final probability")
        return
    curve, support = quantities.recalibration_curve(fit, level), quantities.fitted_support(fit)
    fitted = pd.DataFrame({"problem_id": fit.fitted.problem_id, "support": support})
    if fit.is_counted:
        fitted = fitted.assign(multiplicity=fit.multiplicity)
    kind = "leave-one-out" if "loo" in fit.tree else "in-sample"
    figure = recalibration_figure(curve, support, fit.multiplicity, kind, about, level)
    tables = {"recalibration": curve.assign(interval_level=level), "recalibration_support": fitted}
    yield Picture("recalibration", figure, tables)


def describe_fit(fit: Fit) -> str:
    """Say in a sentence what a fit is and what it was fitted to."""
    attributes = fit.tree.attrs
    how = {"map": "MAP", "nuts": f"NUTS ({fit.n_samples} draws)"}[attributes["method"]]
    of = ", ".join(attributes[name] for name in ("dataset", "model") if attributes[name] != "not stated")
    return (
        f"Fitted to {fit.n_questions} questions{f' of {of}' if of else ''}: {how}, preset {label(fit.preset)}, variant "
        f"{fit.variant}."
    )


def calibrated_method(fit: Fit) -> str:
    """Return what the recalibrated predictions of a fit are called among the methods."""
    return next(name for name, pair in FITTED_METHODS.items() if pair == (fit.variant, "confidence"))
