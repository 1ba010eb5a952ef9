"""Two fits of one variant against each other, as a rule a MAP and the posterior around it.

What each has learned, in quantities that the data can speak of; what each says of the same questions; how well each
does where the right answers are known.
"""

from collections.abc import Hashable
from itertools import product
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float
from scipy.special import expit

from analysis.display.style import (
    REFERENCE,
    RIGHT,
    WRONG,
    diagonal,
    figure_style,
    forest,
    headed_figure,
    plain,
    row_labels,
)
from analysis.methods.direag import after_calibration
from analysis.scores.paired import paired_table
from analysis.scores.scoring import cluster_column, scored_rows
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.posterior import natural_draws
from bayes_direag.model.settings import Link

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scale = Literal["raw", "relative"]

#: Which quantiles of the shifts a summary gives.
SHIFT_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

#: Multiplying these by one constant leaves every prediction as it is.
_SCALED_TOGETHER = ("weight", "prior_strength", "null_base")
_RAW_NAMES: dict[Link, str] = {"identity": "{}", "exp": "log_{}", "softplus": "inverse_softplus_{}"}

_Draws = dict[tuple[str, str | None], Float[np.ndarray, " sample"]]


class ParameterComparison(NamedTuple):
    """What two fits have learned, side by side.

    ``table``: one row per quantity (and level, by name): ``quantity``; ``level``, missing for those without; ``point``,
    the first fit's value (its mean over several draws); ``mean``, ``sd``, ``low`` and ``high`` of the second over its
    draws, the last two its equal-tailed interval; ``distance``, point less mean in units of sd. Over a single draw
    there is neither sd nor interval nor distance, and no distance in what is the same in every draw: all NaN.
    ``scale``: ``raw``, the parameters on the real line, where both fits were found; ``relative``, what of them no
    choice of scale changes. ``interval_level``: posterior probability of the intervals.
    """

    table: pd.DataFrame
    scale: Scale
    interval_level: float


def compare_parameters(point: Fit, posterior: Fit, *, interval_level: float = 0.9) -> ParameterComparison:
    """Put the parameters of two fits of one variant side by side.

    Weight, prior_strength and null_base may be multiplied by one number without changing any prediction; what pins
    that number differs between presets. Where both fits have the same model settings, and these fix one of the
    three, parameters are compared on the raw scale. Everywhere else only what does not depend on the number
    is: weights as shares of their total, prior_strength and null_base in units of it; bias, slope and null_gain as
    they are. In variant ``level`` another number is free, between weight, bias and null_gain. What is compared there
    is the evidence a report gives its answer (``weight * sigmoid(bias)``, as a share of the total over levels) and
    the evidence it gives the null (``null_gain * weight * sigmoid(-bias)``), in units of the same total.

    A logistic recalibration that both have closes the table.

    Raises DirEAGError if the fits differ in variant or in levels.

    Notes
    -----
    The mode on the real line is not the mean of a share, nor of a raw parameter whose posterior is skewed: where the
    two fits have the same prior, distances well below 1 are what to expect.
    """
    _check_same_model(point, posterior)
    scale: Scale = "raw" if _scale_is_fixed_alike(point, posterior) else "relative"
    first, second = _quantities(point, scale), _quantities(posterior, scale)
    tails = [(1 - interval_level) / 2, (1 + interval_level) / 2]
    rows = []
    for name, level in (key for key in first if key in second):
        value, draws = float(first[name, level].mean()), second[name, level]
        mean, sd, low, high = float(draws.mean()), np.nan, np.nan, np.nan
        if len(draws) > 1:
            sd, (low, high) = float(draws.std(ddof=1)), map(float, np.quantile(draws, tails))
        # Of what does not vary, rounding may leave a trace of a spread.
        distance = (value - mean) / sd if sd > 1e-12 else np.nan
        row = {"quantity": name, "level": level, "point": value, "mean": mean, "sd": sd, "low": low, "high": high}
        rows.append(row | {"distance": distance})
    return ParameterComparison(pd.DataFrame(rows), scale, interval_level)


def compare_predictions(
    first: Fit, second: Fit, observations: Observations, *, interval_level: float = 0.9
) -> pd.DataFrame:
    """Predict the same questions from two fits.

    Returns: One row per question, in order: ``problem_id``; ``first_answer``, ``second_answer``, and whether they
    differ (``changed``); ``first_confidence``, ``second_confidence``, and second minus first (``shift``), which
    compares two different answers if the answer changed; ``first_low``, ``first_high``, ``second_low`` and
    ``second_high``, posterior intervals of the confidences (NaN for a single draw); ``first_correct`` and
    ``second_correct``, missing without a label; ``first_state_probability`` and ``second_state_probability``, of the
    observed state; ``first_fitted`` and ``second_fitted``, whether the fit learned from this ``problem_id``;
    ``cluster``, the number of the question's cluster. For unanswered questions answers, confidences and what follows
    from them are missing. Raises LevelError and DirEAGError as :meth:`Fit.predict
    <bayes_direag.fits.fit.Fit.predict>`.
    """
    columns: dict[str, object] = {
        "problem_id": pd.Series(observations.problem_id, dtype="str"),
        "cluster": cluster_column(observations),
    }
    for name, fit in (("first", first), ("second", second)):
        predicted = fit.predict(observations, interval_level=interval_level)
        columns[f"{name}_answer"] = predicted["answer"]
        columns[f"{name}_confidence"] = predicted["confidence"]
        for bound in ("low", "high"):
            columns[f"{name}_{bound}"] = predicted.get(f"confidence_{bound}", np.nan)
        right = pd.Series(observations.is_right(predicted["answer"]), dtype="boolean")
        columns[f"{name}_correct"] = right.where(observations.labelled & observations.answered)
        aligned = fit.aligned(observations)
        columns[f"{name}_state_probability"] = after_calibration(fit, aligned).state_probability(aligned)
        columns[f"{name}_fitted"] = fit.has_seen(observations)
    table = pd.DataFrame(columns)
    differ = (table["first_answer"] != table["second_answer"]).astype("boolean")
    table["changed"] = differ.where(observations.answered)
    table["shift"] = table["second_confidence"] - table["first_confidence"]
    return table


class PredictionSummary(NamedTuple):
    """The differences between two fits' predictions of ``n`` answered questions; ``unanswered``: the others.

    ``first_fitted``, ``second_fitted``: how many of the n each fit learned from. ``changed``:
    number of changed answers. Shifts are second minus first confidence, NaN without questions; ``largest_shift`` is the
    largest in absolute value, at question ``largest_at``; quantiles are by share. Widths are those of the second fit's
    intervals, NaN for a single draw.
    """

    n: int
    unanswered: int
    first_fitted: int
    second_fitted: int
    changed: int
    mean_shift: float
    mean_absolute_shift: float
    largest_shift: float
    largest_at: str | None
    shift_quantiles: dict[float, float]
    mean_width: float
    median_width: float
    largest_width: float

    @property
    def held_out(self) -> bool:
        """Whether neither fit learned from any of the questions."""
        return self.first_fitted == 0 == self.second_fitted


def summarise_predictions(table: pd.DataFrame) -> PredictionSummary:
    """Summarise the table of :func:`compare_predictions`."""
    answered = table[table["shift"].notna()]
    shift, width = answered["shift"], answered["second_high"] - answered["second_low"]
    farthest = answered.iloc[int(shift.abs().argmax())] if len(answered) else None
    return PredictionSummary(
        n=len(answered),
        unanswered=len(table) - len(answered),
        first_fitted=int(answered["first_fitted"].sum()),
        second_fitted=int(answered["second_fitted"].sum()),
        changed=int(answered["changed"].sum()),
        mean_shift=float(shift.mean()),
        mean_absolute_shift=float(shift.abs().mean()),
        largest_shift=np.nan if farthest is None else float(farthest["shift"]),
        largest_at=None if farthest is None else str(farthest["problem_id"]),
        shift_quantiles={share: float(shift.quantile(share)) for share in SHIFT_QUANTILES},
        mean_width=float(width.mean()),
        median_width=float(width.median()),
        largest_width=float(width.max()),
    )


def seen_in_fitting(summary: PredictionSummary, names: tuple[str, str]) -> str:
    """Say whether the predicted questions were held out from both fits, and if not, how many were fitted to."""
    if summary.held_out:
        return "held out: neither fit has learned from any of them"
    first, second, n = summary.first_fitted, summary.second_fitted, summary.n
    by = "both fits" if first == second else f"{names[0]}, {second} by {names[1]}"
    return f"in sample: {first} of {n} questions were fitted to by {by}"


def score_predictions(table: pd.DataFrame, *, seed: int, n_resamples: int = 1000, level: float = 0.95) -> pd.DataFrame:
    """Score both fits on answered questions with a known answer; see :func:`~analysis.scores.paired.paired_table`.

    ``table``: from :func:`compare_predictions`.
    """
    first, second = (
        scored_rows(
            table[["cluster"]].assign(
                **{part: table[f"{name}_{part}"] for part in ("confidence", "correct", "state_probability")}
            )
        )
        for name in ("first", "second")
    )
    return paired_table(first, second, seed=seed, n_resamples=n_resamples, level=level)


def parameter_figure(comparison: ParameterComparison, captions: tuple[str, str]) -> "Figure":
    """Draw the point estimate of every quantity against the posterior, in posterior standard deviations.

    Quantities without a spread are left out. ``captions`` describe the two fits.
    """
    rows = comparison.table[comparison.table["sd"] > 0].reset_index(drop=True)
    low, high = ((rows[bound] - rows["mean"]) / rows["sd"] for bound in ("low", "high"))
    outside = (rows["distance"] < low) | (rows["distance"] > high)
    scale = {
        "raw": "Raw parameters, on the real line.",
        "relative": "Weight, prior strength and null base as ratios, as the data do not identify their scale.",
    }[comparison.scale]
    caption = (
        f"Diamonds: {captions[0]}; hollow outside the bar. Bars: {comparison.interval_level:.0%} interval of "
        f"{captions[1]}, its mean at 0. {scale}"
    )
    with figure_style():
        figure = headed_figure("Point estimate against posterior", caption, 0.6 + 0.21 * len(rows))
        axes = figure.add_subplot()
        axes.axvline(0, color=REFERENCE, linewidth=1)
        forest(
            axes,
            *(values.to_numpy(float) for values in (rows["distance"], low, high)),
            colour=RIGHT,
            marker="D",
            hollow=outside.to_numpy(bool),
        )
        name = rows["quantity"].str.replace("_", " ")
        row_labels(axes, name.where(rows["level"].isna(), name + " · " + rows["level"].astype(str)).tolist())
        axes.tick_params(axis="y", labelsize=8)
        axes.set_xlabel("distance from the posterior mean (posterior standard deviations)")
    return figure


def shift_figure(predictions: pd.DataFrame, captions: tuple[str, str], interval_level: float) -> "Figure":
    """Draw the confidences of two fits against each other, with changed answers marked.

    ``predictions``: from :func:`compare_predictions`. ``captions``: names of the fits.
    """
    rows = predictions[predictions["shift"].notna()]
    changed = rows["changed"].to_numpy(bool)
    caption = f"{len(rows)} answered questions, {seen_in_fitting(summarise_predictions(predictions), captions)}."
    if rows["second_low"].notna().any():
        caption += f" Lines: {interval_level:.0%} posterior interval."
    with figure_style():
        figure = headed_figure("Confidence in the selected answer", caption, 5.4, width=5.8)
        axes = figure.add_subplot()
        diagonal(axes)
        for chosen, colour, marker, size, name in (
            (~changed, RIGHT, "o", 10, "same answer"),
            (changed, WRONG, "^", 26, "answer changed"),
        ):
            shown = rows[chosen]
            x = shown["first_confidence"]
            axes.vlines(x, shown["second_low"], shown["second_high"], color=colour, linewidth=0.7, alpha=0.25)
            axes.scatter(
                x,
                shown["second_confidence"],
                s=size,
                color=colour,
                marker=marker,
                edgecolor="white",
                linewidth=0.3,
                zorder=3,
                label=f"{name} (n = {len(shown)})",
            )
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.set_xlabel(plain(f"confidence, {captions[0]}"))
        axes.set_ylabel(plain(f"confidence, {captions[1]}"))
        axes.legend(loc="upper left")
    return figure


def _check_same_model(first: Fit, second: Fit) -> None:
    unshared = sorted(set(first.level_names) ^ set(second.level_names))
    if first.variant != second.variant:
        seen = f"different variants, {first.variant} and {second.variant}"
    elif unshared:
        seen = f"different levels: {len(unshared)} are in one of them only, {unshared[0]!r} among these"
    else:
        return
    raise DirEAGError(
        f"the fits have {seen}; expected the same, so that their parameters mean the same. NUTS fits of several "
        "variants can be compared by leave-one-out."
    )


def _scale_is_fixed_alike(first: Fit, second: Fit) -> bool:
    """Return whether both fits have the same model, with a fixed parameter that sets the common scale."""
    return first.preset.model_settings == second.preset.model_settings and any(
        first.preset.parameter(name).fixed is not None for name in _SCALED_TOGETHER
    )


def _quantities(fit: Fit, scale: Scale) -> _Draws:
    """Return the draws of the compared quantities, by name and level."""
    quantities = _raw_quantities(fit) if scale == "raw" else _relative_quantities(fit)
    final = fit.tree["recalibration"].to_dataset()
    if "intercept" in final and fit.recalibration.method != "none":
        quantities |= {f"recalibration_{name}": final[name] for name in final.data_vars}
    return {
        (name, ", ".join(map(str, place.values())) or None): draws.sel(place).to_numpy().ravel()
        for name, draws in quantities.items()
        for place in _places(draws)
    }


def _places(draws: xr.DataArray) -> list[dict[Hashable, object]]:
    """Return the coordinates of each number of a draw: its level, label or signal."""
    dims = [dim for dim in draws.dims if dim not in ("chain", "draw")]
    return [dict(zip(dims, place, strict=True)) for place in product(*(draws[dim].to_numpy() for dim in dims))]


def _raw_quantities(fit: Fit) -> dict[str, xr.DataArray]:
    """Return the free parameters on the real line, named after their link; pooled ones as centre + spread * offset."""
    posterior = natural_draws(fit.tree).merge(fit.tree["unconstrained_posterior"].to_dataset(), join="exact")
    quantities = {}
    for name in fit.preset.parameters(fit.variant):
        if fit.preset.pools(name):
            raw = posterior[f"{name}_centre"] + posterior[f"{name}_spread"] * posterior[f"{name}_raw"]
        elif f"{name}_raw" in posterior:
            raw = posterior[f"{name}_raw"]
        else:
            continue
        quantities[_RAW_NAMES[fit.preset.parameter(name).link].format(name)] = raw
    return quantities


def _relative_quantities(fit: Fit) -> dict[str, xr.DataArray]:
    """Return the quantities that the likelihood identifies."""
    natural = natural_draws(fit.tree)
    if fit.variant == "level":
        given = natural["weight"] * expit(natural["bias"])
        total = given.sum("level")
        quantities = {
            "evidence_share": given / total,
            "doubt_relative": natural["null_gain"] * natural["weight"] * expit(-natural["bias"]) / total,
        }
    else:
        total = natural["weight"].sum("level")
        quantities = {"weight_share": natural["weight"] / total} | {
            name: natural[name]
            for name in ("bias", "slope", "null_gain", "sharpness", "vote", "vote_slope")
            if name in natural
        }
    return quantities | {f"{name}_relative": natural[name] / total for name in ("prior_strength", "null_base")}
