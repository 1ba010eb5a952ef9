"""What a fit has learned, as tables: how levels calibrate, how much they count, and the final recalibration.

Over several posterior draws every value is a mean, with the equal-tailed interval of the draws, pointwise along a
curve. A MAP has one draw: its value, and intervals that are NaN.

Multiplying weight, prior_strength and null_base by one number changes no prediction, so these appear as ratios to the
total weight of all levels, which the data can speak of.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from analysis.scores.scoring import mean_and_interval
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.posterior import apart, parameter_draws, sampled_parameters
from bayes_direag.model.evidence import calibrate, supports
from bayes_direag.model.selection import LogisticRecalibration, clipped_logit

#: Places along a curve, from 0 to 1; every half percent.
GRID = np.linspace(0, 1, 201)


def calibration_curves(fit: Fit, level: float = 0.95) -> pd.DataFrame:
    """Return what every level's stated confidence counts for, from 0 to 100 %.

    Returns: A row a level and stated confidence: ``level``, ``stated``, ``calibrated`` (the share of the level's weight
    that its answer is given), ``low``, ``high``. Constant in the stated confidence for the variant ``level``, and 1 for
    ``count``. Of several signals, what counts where all of them say so.
    """
    grid = clipped_logit(GRID, fit.preset.eps)
    with jax.enable_x64(True):
        parameters = sampled_parameters(fit.tree)
        each = () if parameters.slope is None else parameters.slope.shape[1:]
        stated = jnp.broadcast_to(
            jnp.reshape(jnp.asarray(grid), (-1, 1, *(1 for _ in each))), (len(GRID), len(fit.level_names), *each)
        )
        curves = np.asarray(jax.lax.map(lambda sample: calibrate(stated, sample)[0], parameters))
    return pd.concat(
        [
            pd.DataFrame({"level": name, "stated": GRID, **_summary(curves[:, :, number], "calibrated", level)})
            for number, name in enumerate(fit.level_names)
        ],
        ignore_index=True,
    )


def level_quantities(fit: Fit, level: float = 0.95) -> pd.DataFrame:
    """Return what each level has of its own.

    Returns: A row a quantity and level: ``quantity``, ``share`` (of the total weight) or ``bias`` (on the logit scale;
    not for the variant ``count``); ``level``, ``value``, ``low``, ``high``.
    """
    posterior = parameter_draws(fit.tree)
    draws = {"share": posterior["weight"] / posterior["weight"].sum("level")}
    if "bias" in posterior:
        draws["bias"] = posterior["bias"]
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "quantity": name,
                    "level": pd.Series(fit.level_names, dtype="str"),
                    **_summary(values.to_numpy().reshape(-1, len(fit.level_names)), "value", level),
                }
            )
            for name, values in draws.items()
        ],
        ignore_index=True,
    )


def shared_quantities(fit: Fit, level: float = 0.95) -> pd.DataFrame:
    """Return the identified quantities of all levels together.

    Returns: A row a quantity: ``quantity``, ``value``, ``low``, ``high``. Those that the variant has, of ``slope``
    (of several signals each, ``slope[words]``),
    ``null_gain``, ``prior_strength / total weight``, ``null_base / total weight``, and ``recalibration intercept`` and
    ``recalibration slope`` where the final calibration is logistic.
    """
    posterior = apart(parameter_draws(fit.tree))
    total = posterior["weight"].sum("level")
    slopes = [str(name) for name in posterior if str(name).startswith("slope") and not str(name).endswith("_raw")]
    draws = {name: posterior[name] for name in (*slopes, "null_gain") if name in posterior}
    draws |= {f"{name} / total weight": posterior[name] / total for name in ("prior_strength", "null_base")}
    final = fit.tree["recalibration"].to_dataset()
    if isinstance(fit.recalibration, LogisticRecalibration) and fit.recalibration.method != "none":
        draws |= {f"recalibration {name}": final[name] for name in final.data_vars}
    values = np.stack([value.to_numpy().ravel() for value in draws.values()], axis=1)
    return pd.DataFrame({"quantity": pd.Series(list(draws), dtype="str"), **_summary(values, "value", level)})


def recalibration_curve(fit: Fit, level: float = 0.95) -> pd.DataFrame:
    """Return the final probability for every support from 0 to 1: ``support``, ``probability``, ``low``, ``high``."""
    curve = fit.recalibration.of_selected(GRID[None])
    return pd.DataFrame({"support": GRID, **_summary(curve, "probability", level)})


def fitted_support(fit: Fit) -> Float[np.ndarray, " problem"]:
    """Return the support of the selected answer of each question that was fitted to.

    Under NUTS it is the leave-one-out support, which the recalibration has learned from; for a MAP that of the fit
    itself, which has seen the question.
    """
    if "loo" in fit.tree:
        return fit.left_out["support"].to_numpy()
    with jax.enable_x64(True):
        data = fit.likelihood_data
        every = np.asarray(supports(data.reports, sampled_parameters(fit.tree, data.slots)))
    return np.asarray(every.mean(axis=0)[:, :-1].max(axis=1))


def _summary(
    draws: Float[np.ndarray, "sample place"], name: str, level: float
) -> dict[str, Float[np.ndarray, " place"]]:
    """Return the mean over the draws under that name, and the interval."""
    return dict(zip((name, "low", "high"), mean_and_interval(draws, level), strict=True))


#: Bins of stated confidence, in percent: right-closed as those of the ECE, the first also left-closed.
STATED_EDGES = np.arange(0, 101, 5)


@dataclass(frozen=True, eq=False)
class LabelledReports:
    """The reports on labelled, answered questions.

    ``problem_id``, ``level_names``: the questions, and the level that each column is of: several where levels are
    groups. ``confidence`` (problem, level): as stated, in [0, 1]; NaN where there is no usable report. ``correct``
    (problem, level): whether the level's own answer is right; False where there is no usable report. ``multiplicity``
    (problem,): how many questions each stands for.
    """

    problem_id: tuple[str, ...]
    level_names: tuple[str, ...]
    confidence: Float[np.ndarray, "problem level"]
    correct: Bool[np.ndarray, "problem level"]
    multiplicity: Int[np.ndarray, " problem"]

    @classmethod
    def of_observations(cls, observations: Observations) -> "LabelledReports":
        """Take the labelled, answered questions out of observations."""
        chosen = np.flatnonzero(observations.labelled & observations.answered)
        kept = observations.select(chosen)
        names = kept.groups or kept.level_names
        return cls(kept.problem_id, names, kept.confidence, kept.correct, np.ones(len(kept), int))

    @classmethod
    def of_fits(cls, fits: Sequence[Fit]) -> "LabelledReports":
        """Take the questions that any of some fits learned from, each once: those of all folds, in a cross-fit.

        Raises DirEAGError if there is no fit, or they have learned different levels.
        """
        levels = {fit.fitted.groups or fit.fitted.level_names for fit in fits}
        if len(levels) != 1:
            raise DirEAGError(f"saw fits with {len(levels)} different sets of levels; expected the same in all.")
        parts = [fit.fitted for fit in fits]
        names = np.concatenate([np.array(part.problem_id, dtype=object) for part in parts])
        kept = np.sort(np.unique(names, return_index=True)[1])
        confidence, correct = (
            np.concatenate(own)[kept] for own in zip(*((part.confidence, part.correct) for part in parts), strict=True)
        )
        multiplicity = np.concatenate([fit.multiplicity for fit in fits])[kept]
        return cls(tuple(names[kept]), levels.pop(), confidence, correct, multiplicity)


def stated_confidences(reports: LabelledReports) -> pd.DataFrame:
    """Count by level which confidences were stated, and how often the level's own answer was right.

    Returns: A row a level and bin: ``level``; ``low``, ``high``, the bin's edges in percent; ``right``, ``wrong``, how
    many answers of that level were. Reports that were not usable are not counted.
    """
    # Confidences are percentages, most of them whole: rounding keeps 15 % on the edge that 0.15 * 100 misses.
    percent = np.round(reports.confidence * 100, 9)
    place = np.searchsorted(STATED_EDGES[1:-1], percent, side="left")
    tables = []
    for level, name in enumerate(reports.level_names):
        usable, right = ~np.isnan(percent[:, level]), reports.correct[:, level]
        table = pd.DataFrame({"level": name, "low": STATED_EDGES[:-1], "high": STATED_EDGES[1:]})
        for outcome, kept in (("right", usable & right), ("wrong", usable & ~right)):
            table[outcome] = np.bincount(place[kept, level], reports.multiplicity[kept], len(table)).astype(int)
        tables.append(table)
    every = pd.concat(tables, ignore_index=True)
    return every.groupby(["level", "low", "high"], sort=False, as_index=False).sum()
