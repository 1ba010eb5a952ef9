"""The learned parameters of a fit as tables and figures: calibration curves, weights and biases, final calibration.

Values are means over the draws with equal-tailed intervals, which are NaN for a MAP. Weight, prior_strength and
null_base are shown relative to the total weight of all levels, since only these ratios are identified.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from analysis.display.document import LeftOut, Picture, Record
from analysis.display.glossary import PARAMETERS
from analysis.display.style import (
    REFERENCE,
    RIGHT,
    diagonal,
    figure_style,
    fitting,
    forest,
    headed_figure,
    panel_grid,
    row_labels,
)
from analysis.scores.scoring import draw_columns
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.posterior import prior_draws, sampled_parameters
from bayes_direag.model.equations import clipped_logit
from bayes_direag.model.presets import label
from bayes_direag.model.selection import IDENTITY, distribution, odds_against

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Number of draws of a prior, and the parameters that only mean something in units of the total weight.
_PRIOR_DRAWS, _RELATIVE = 2000, ("prior_strength", "null_base")

#: Points of a curve, from 0 to 1 in steps of half a percent.
GRID = np.linspace(0, 1, 201)


def calibration_curves(fit: Fit, level: float = 0.95) -> pd.DataFrame:
    """Return the share of a level's weight that goes to its answer, for stated confidences from 0 to 1.

    With several signals the curve is for reports in which all signals are equal.
    """
    parameters = sampled_parameters(fit.tree)
    signals = () if parameters.slope is None else parameters.slope.shape[1:]
    stated = np.multiply.outer(clipped_logit(GRID, fit.preset.eps), np.ones(signals))
    parts = []
    for number, name in enumerate(fit.level_names):
        curve = 1 / (1 + odds_against(stated, np.full(len(GRID), number), parameters).T)
        parts.append(pd.DataFrame({"level": name, "stated": GRID} | draw_columns(curve, level, "calibrated")))
    return pd.concat(parts, ignore_index=True)


def level_quantities(fit: Fit, level: float = 0.95) -> pd.DataFrame:
    """Return each level's ``share`` of the total weight and, if the variant has one, its ``bias`` (logit scale)."""
    natural, draws = fit.draws(), {"share": fit.draws("relative")["weight"]}
    if "bias" in natural:
        draws["bias"] = natural["bias"]
    levels = pd.Series(fit.level_names, dtype="str")
    parts = (
        {"quantity": name, "level": levels} | draw_columns(values.to_numpy(), level, "value")
        for name, values in draws.items()
    )
    return pd.concat(map(pd.DataFrame, parts), ignore_index=True)


def shared_quantities(fit: Fit, level: float = 0.95) -> pd.DataFrame:
    """Return the identified quantities that all levels share, with the coefficients of a logistic final calibration.

    ``prior_low``, ``prior_high``: the interval of the prior.
    """
    natural, relative = fit.draws().droplevel("level", axis=1), fit.draws("relative").droplevel("level", axis=1)
    shown = ("slope", "null_gain", "sharpness", "vote_slope")
    draws = {name: natural[name] for field in shown for name in map(str, natural) if name.partition("[")[0] == field}
    draws |= {f"{name} / total weight": relative[name] for name in _RELATIVE}
    if fit.recalibration.method != "none":
        draws |= {f"recalibration {name}": natural[f"recalibration_{name}"] for name in fit.recalibration.coefficients}
    table = pd.DataFrame({"quantity": pd.Series(list(draws), dtype="str")})
    table = table.assign(**draw_columns(pd.DataFrame(draws).to_numpy(), level, "value"))
    ends = np.quantile(_shared_prior(fit, list(draws)), [(1 - level) / 2, (1 + level) / 2], axis=1)
    return table.assign(prior_low=ends[0], prior_high=ends[1])


def _shared_prior(fit: Fit, quantities: Sequence[str]) -> Float[np.ndarray, "quantity draw"]:
    """Draw quantities that all levels share from their priors."""
    import jax

    data = fit.likelihood_data
    drawn = prior_draws(data, n_draws=_PRIOR_DRAWS, key=jax.random.key(0))
    values = {f"{name} / total weight": drawn[name] / drawn["weight"].sum(axis=-1) for name in _RELATIVE}
    scale = fit.preset.recalibration.prior_scale(fit.n_questions)
    normal = np.random.default_rng(0).standard_normal(_PRIOR_DRAWS)
    values |= {f"recalibration {name}": value + scale * normal for name, value in IDENTITY.items()}
    rows = []
    for quantity in quantities:
        field = quantity.partition("[")[0]
        place = [name for name in quantities if name.partition("[")[0] == field].index(quantity)
        rows.append(values[quantity] if quantity in values else drawn[field].reshape(_PRIOR_DRAWS, -1)[:, place])
    return np.stack(rows)


def recalibration_curve(fit: Fit, level: float = 0.95) -> pd.DataFrame:
    """Return the final probability for every support from 0 to 1: ``support``, ``probability``, ``low``, ``high``.

    In a partial fit, that of a question with all reports.
    """
    curve = fit.recalibration.of_selected(GRID[None])
    return pd.DataFrame({"support": GRID, **draw_columns(curve, level, "probability")})


def fitted_support(fit: Fit) -> Float[np.ndarray, " problem"]:
    """Return the support of each fitted question's selected answer: leave-one-out under NUTS, in-sample for a MAP."""
    if "loo" in fit.tree:
        return fit.left_out["support"].to_numpy()
    states = distribution(fit.reports(fit.fitted), sampled_parameters(fit.tree, fit.fitted.slots))
    return np.asarray(states[:, :-1].max(axis=1))


#: Bins of stated confidence in percent; like those of the ECE right-closed, the first also left-closed.
STATED_EDGES = np.arange(0, 101, 5)


@dataclass(frozen=True, eq=False)
class LabelledReports:
    """The reports on labelled, answered questions.

    ``level_names``: the level of each column; the columns of a group have the same name. ``confidence`` (problem,
    level): as stated, NaN without a usable report. ``correct`` (problem, level): whether the level's answer is right.
    """

    problem_id: tuple[str, ...]
    level_names: tuple[str, ...]
    confidence: Float[np.ndarray, "problem level"]
    correct: Bool[np.ndarray, "problem level"]

    @classmethod
    def of_observations(cls, observations: Observations) -> "LabelledReports":
        """Take the labelled, answered questions of observations."""
        chosen = np.flatnonzero(observations.labelled & observations.answered)
        kept = observations.select(chosen)
        names = kept.groups or kept.level_names
        return cls(kept.problem_id, names, kept.confidence, kept.correct)

    @classmethod
    def of_fits(cls, fits: Sequence[Fit]) -> "LabelledReports":
        """Take the fitted questions of several fits, such as those of all folds, each question once."""
        levels = {fit.fitted.groups or fit.fitted.level_names for fit in fits}
        if len(levels) != 1:
            raise DirEAGError(f"saw fits with {len(levels)} different sets of levels; expected the same in all.")
        parts = [fit.fitted for fit in fits]
        names = np.concatenate([np.array(part.problem_id, dtype=object) for part in parts])
        kept = np.sort(np.unique(names, return_index=True)[1])
        confidence, correct = (
            np.concatenate(arrays)[kept]
            for arrays in zip(*((part.confidence, part.correct) for part in parts), strict=True)
        )
        return cls(tuple(names[kept]), levels.pop(), confidence, correct)


def stated_confidences(reports: LabelledReports) -> pd.DataFrame:
    """Count right and wrong answers of each level by the stated confidence, in bins of 5 points."""
    # most confidences are whole percentages; rounding keeps 15 % on an edge, which 0.15 * 100 misses
    percent = np.round(reports.confidence * 100, 9)
    place = np.searchsorted(STATED_EDGES[1:-1], percent, side="left")
    tables = []
    for level, name in enumerate(reports.level_names):
        usable, right = ~np.isnan(percent[:, level]), reports.correct[:, level]
        table = pd.DataFrame({"level": name, "low": STATED_EDGES[:-1], "high": STATED_EDGES[1:]})
        for outcome, kept in (("right", usable & right), ("wrong", usable & ~right)):
            table[outcome] = np.bincount(place[kept, level], minlength=len(table))
        tables.append(table)
    by_column = pd.concat(tables, ignore_index=True)
    return by_column.groupby(["level", "low", "high"], sort=False, as_index=False).sum()


_GREEN = "#009E73"

#: A prior is drawn as far from the posterior as this many times the posterior's width.
_FAR = 2.0

#: Values of shared quantities that change nothing.
_REFERENCE_VALUES = {"slope": 1.0, "sharpness": 1.0, "vote_slope": 0.0} | {
    f"recalibration {name}": value for name, value in IDENTITY.items()
}


def calibration_curves_figure(
    curves: pd.DataFrame, stated: pd.DataFrame, about: str, interval_level: float
) -> "Figure":
    """Draw the calibration curve of each level over the distribution of its stated confidences."""
    names = curves["level"].unique().tolist()
    caption = (
        f"{about} {_spread(curves, interval_level, 'Line and shaded area', ', pointwise')} Dashed: as stated. The "
        "calibrated confidence is the share of the level's weight that goes to its answer; the rest counts against all "
        "answers. Grey bars: how often each confidence was stated, with a scale for each panel; n: usable reports."
    )
    n_columns = 3 if len(names) > 4 else 2
    counts = (stated["right"] + stated["wrong"]).groupby(stated["level"]).sum()
    with figure_style():
        title = "Learned calibration: what a stated confidence counts for"
        figure = headed_figure(title, caption, 0.6 + 1.75 * -(-len(names) // n_columns))
        titles = [(name, f"n = {counts[name]}") for name in names]
        panels = panel_grid(figure, titles, n_columns, x_label="stated (%)", y_label="calibrated (%)")
        for axes, name in zip(panels, names, strict=True):
            _draw_stated(axes, stated[stated["level"] == name])
            diagonal(axes, 100.0)
            _draw_band(axes, curves[curves["level"] == name], "stated", "calibrated", scale=100.0)
        panels[0].set(xlim=(0, 100), ylim=(0, 100), xticks=[0, 50, 100], yticks=[0, 50, 100])
        for axes in panels:
            axes.margins(0)
    return figure


def level_figure(quantities: pd.DataFrame, about: str, interval_level: float) -> "Figure":
    """Draw the weight and the bias of each level."""
    names = quantities["level"].unique().tolist()
    kinds = quantities["quantity"].unique().tolist()
    biased = "bias" in kinds
    caption = (
        f"{about} {_spread(quantities, interval_level, 'Dots and bars')} Weight: share of the total of all levels; "
        "dashed: equal shares."
    )
    if biased:
        caption += " Bias: on the logit scale; the lower, the less the level's reports count for their answers."
    title = f"Learned weight {'and bias ' if biased else ''}of each level"
    with figure_style():
        figure = headed_figure(title, caption, 0.9 + 0.3 * len(names))
        panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
        for axes, kind, colour, marker in zip(panels, kinds, (RIGHT, _GREEN), "os", strict=False):
            rows = quantities[quantities["quantity"] == kind]
            scale = 100 if kind == "share" else 1
            _dashed(axes, 100 / len(names) if kind == "share" else 0.0)
            forest(axes, scale * rows[["value", "low", "high"]], colour=colour, marker=marker)
        row_labels(panels[0], [fitting(name, 2.2) for name in names])
        panels[0].set_xlim(left=0)
        panels[0].set_xlabel("share of the total weight (%)")
        if biased:
            panels[1].set_xlabel("bias (logit)")
    return figure


def shared_figure(quantities: pd.DataFrame, about: str, interval_level: float) -> "Figure":
    """Draw the identified quantities that all levels share, each on its own scale."""
    keys = [re.split(r" /|\[", name)[0].replace(" ", "_") for name in quantities["quantity"]]
    meaning = " ".join(f"{key}: {PARAMETERS[key]}." for key in dict.fromkeys(keys))
    spread = _spread(quantities, interval_level, "Dots and bars")
    prior = f"Grey: {interval_level:.0%} interval of the prior."
    caption = f"{about} {spread} {prior} Dashed: the value that changes nothing. {meaning}"
    with figure_style():
        figure = headed_figure("Learned quantities that all levels share", caption, 0.4 + 0.62 * len(quantities))
        panels = figure.subplots(len(quantities), 1, squeeze=False)[:, 0]
        for axes, row in zip(panels, quantities.to_dict("records"), strict=True):
            name = str(row["quantity"])
            at = _REFERENCE_VALUES.get(name)  # None for the slope of one of several signals
            if at is not None:
                _dashed(axes, at)
            axes.hlines(0, row["prior_low"], row["prior_high"], color="0.85", linewidth=9, zorder=0)
            forest(axes, pd.DataFrame([row], columns=["value", "low", "high"]), colour=RIGHT)
            row_labels(axes, [name])
            axes.set_xlim(*_reach(row))
            axes.locator_params(axis="x", nbins=6)
        panels[-1].set_xlabel("value, without a unit; each row has its own scale")
    return figure


def _reach(row: Record) -> tuple[float, float]:
    """Return the ends of an axis for a posterior and its prior, of which a part far from the posterior is left out."""
    low, high = (row["value"], row["value"]) if np.isnan(row["low"]) else (row["low"], row["high"])
    far = _FAR * (high - low) or np.inf
    left, right = max(min(low, row["prior_low"]), low - far), min(max(high, row["prior_high"]), high + far)
    edge = 0.08 * (right - left)
    return (0.0 if left >= 0 else left - edge), right + edge


def recalibration_figure(
    curve: pd.DataFrame,
    support: Float[np.ndarray, " problem"],
    kind: str,
    about: str,
    interval_level: float,
) -> "Figure":
    """Draw the final probability against support, over the distribution of support (leave-one-out or in-sample)."""
    caption = (
        f"{about} {_spread(curve, interval_level, 'Line and shaded area', ', pointwise')} Dashed: support left as it "
        f"is. Below: the {kind} support of the selected answers, n = {len(support)} fitted questions; where "
        "there are none, the curve is extrapolated."
    )
    with figure_style():
        figure = headed_figure("Final recalibration: from support to the probability of being right", caption, 4.6)
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
        diagonal(above)
        _draw_band(above, curve, "support", "probability")
        above.set(xlim=(0, 1), ylim=(0, 1), ylabel="final probability")
        below.hist(support, bins=np.linspace(0, 1, 41).tolist(), color="0.45")
        below.set_ylabel("questions")
        below.set_xlabel("support of the selected answer")
    return figure


def _draw_band(axes: "Axes", curve: pd.DataFrame, at: str, value: str, scale: float = 1.0) -> None:
    """Draw one column against another, with the band from ``low`` to ``high``."""
    x, y, low, high = (scale * curve[name].to_numpy() for name in (at, value, "low", "high"))
    axes.fill_between(x, low, high, color=RIGHT, alpha=0.25, linewidth=0)
    axes.plot(x, y, color=RIGHT, linewidth=2)


def _dashed(axes: "Axes", at: float) -> None:
    axes.axvline(at, color=REFERENCE, linewidth=1, linestyle=(0, (4, 3)))


def _draw_stated(axes: "Axes", rows: pd.DataFrame) -> None:
    count = (rows["right"] + rows["wrong"]).to_numpy(float)
    width = (rows["high"] - rows["low"]).to_numpy(float)
    axes.bar(rows["low"], 35 * count / max(count.max(), 1), width * 0.9, align="edge", color="0.8", zorder=0.5)


def _spread(table: pd.DataFrame, interval_level: float, what: str, how: str = "") -> str:
    """Describe the band or bar, or why there is none."""
    if table["low"].isna().all():
        return "A point estimate, without intervals."
    return f"{what}: mean and {interval_level:.0%} interval over the posterior draws{how}."


def fit_pictures(fit: Fit, *, level: float = 0.95) -> Iterator[Picture | LeftOut]:
    """Draw what a fit has learned: weights and biases, calibration curves, shared parameters, final calibration.

    Parameters
    ----------
    fit
        A fit by MAP or NUTS.
    level
        Posterior probability of the intervals.
    """
    about = describe_fit(fit)
    if fit.variant == "level":
        about += " Weight, bias and null gain trade off here: the prior, not the data, separates them."

    def picture(name: str, figure: "Figure", table: pd.DataFrame, **others: pd.DataFrame) -> Picture:
        return Picture(name, figure, {name: table.assign(interval_level=level), **others})

    levels = level_quantities(fit, level)
    yield picture("levels", level_figure(levels, about, level), levels)
    if fit.variant == "count":
        yield LeftOut("calibration_curves", "variant count has none: every report counts in full")
    else:
        curves, stated = calibration_curves(fit, level), stated_confidences(LabelledReports.of_fits([fit]))
        figure = calibration_curves_figure(curves, stated, about, level)
        yield picture("calibration_curves", figure, curves, calibration_curves_stated=stated)
    shared = shared_quantities(fit, level)
    yield picture("shared", shared_figure(shared, about, level), shared)
    if fit.recalibration.method == "none":
        yield LeftOut("recalibration", "there is none, so support is the final probability")
        return
    curve, support = recalibration_curve(fit, level), fitted_support(fit)
    fitted = pd.DataFrame({"problem_id": fit.fitted.problem_id, "support": support})
    kind = "leave-one-out" if "loo" in fit.tree else "in-sample"
    figure = recalibration_figure(curve, support, kind, about, level)
    yield picture("recalibration", figure, curve, recalibration_support=fitted)


def describe_fit(fit: Fit) -> str:
    """Describe a fit and its questions in a sentence."""
    attributes = fit.tree.attrs
    method = {"map": "MAP", "nuts": f"NUTS ({fit.n_samples} draws)"}[attributes["method"]]
    source = ", ".join(attributes[name] for name in ("dataset", "model") if attributes[name] != "not stated")
    return (
        f"Fitted to {fit.n_questions} questions{f' of {source}' if source else ''}: {method}, preset "
        f"{label(fit.preset)}, variant {fit.variant}."
    )
