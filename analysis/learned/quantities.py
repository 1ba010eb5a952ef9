"""What a fit has learned, as tables: how levels calibrate, how much they count, and the final recalibration.

Over several posterior draws every value is a mean, with the equal-tailed interval of the draws, pointwise along a
curve. A MAP has one draw: its value, and intervals that are NaN.

Multiplying weight, prior_strength and null_base by one number changes no prediction, so these appear as ratios to the
total weight of all levels, which the data can speak of.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float

from bayes_direag.fits.fit import Fit
from bayes_direag.inference.posterior import parameter_draws, sampled_parameters
from bayes_direag.model.evidence import calibrate, supports
from bayes_direag.model.selection import LogisticRecalibration, clipped_logit

#: Places along a curve, from 0 to 1; every half percent.
GRID = np.linspace(0, 1, 201)


def calibration_curves(fit: Fit, level: float = 0.95) -> pd.DataFrame:
    """Return what every level's stated confidence counts for, from 0 to 100 %.

    Returns: A row a level and stated confidence: ``level``, ``stated``, ``calibrated`` (the share of the level's weight
    that its answer is given), ``low``, ``high``. Constant in the stated confidence for the variant ``level``, and 1 for
    ``count``.
    """
    grid = clipped_logit(GRID, fit.preset.eps)
    with jax.enable_x64(True):
        stated = jnp.broadcast_to(jnp.asarray(grid)[:, None], (len(GRID), len(fit.level_names)))
        parameters = sampled_parameters(fit.tree)
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

    Returns: A row a quantity: ``quantity``, ``value``, ``low``, ``high``. Those that the variant has, of ``slope``,
    ``null_gain``, ``prior_strength / total weight``, ``null_base / total weight``, and ``recalibration intercept`` and
    ``recalibration slope`` where the final calibration is logistic.
    """
    posterior = parameter_draws(fit.tree)
    total = posterior["weight"].sum("level")
    draws = {name: posterior[name] for name in ("slope", "null_gain") if name in posterior}
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
        return fit.tree["loo"]["support"].to_numpy()
    with jax.enable_x64(True):
        data = fit.likelihood_data
        every = np.asarray(supports(data.reports, sampled_parameters(fit.tree, data.slots)))
    return np.asarray(every.mean(axis=0)[:, :-1].max(axis=1))


def _summary(
    draws: Float[np.ndarray, "sample place"], name: str, level: float
) -> dict[str, Float[np.ndarray, " place"]]:
    """Return the mean over the draws under that name, and the interval: NaN for a single draw."""
    if len(draws) == 1:
        low = high = np.full(draws.shape[1], np.nan)
    else:
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return {name: draws.mean(axis=0), "low": low, "high": high}
