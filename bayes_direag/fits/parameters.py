"""The parameters of a fit: their draws as the one table, and the medians and intervals of these."""

from itertools import product

import numpy as np
import pandas as pd
import xarray as xr

from bayes_direag.model.selection import IDENTITY, tails

#: The order of the presets' parameters in tables; others follow.
_ORDER = ("slope", "bias", "sharpness", "null_gain", "vote", "vote_slope", "label")
#: Predictions do not change if all of these are multiplied by one constant.
SCALED_TOGETHER = ("weight", "prior_strength", "null_base")
_SAMPLE = ("chain", "draw")
#: Posterior probability of the intervals.
INTERVAL_LEVEL = 0.9


def identified_draws(tree: xr.DataTree) -> xr.Dataset:
    """Return the draws of what labels identify: parameters without the common scale of all weights.

    ``share`` of each level in the weight of all, and parameters on their natural scale, but for those of
    :data:`SCALED_TOGETHER`: ``prior_strength_relative`` and ``null_base_relative``, in units of the total weight, stand
    for these. Then the coefficients of a logistic final calibration, as ``recalibration_NAME``. The share of a single
    level is left out; without weights of levels there is no common scale. In variant ``level`` see the notes of
    :func:`parameter_table`.
    """
    natural = tree["posterior"].to_dataset()
    scaled = ("share", *SCALED_TOGETHER) if has_weights(natural) else ()
    shown = {"share": natural["share"]} if scaled and natural.sizes["level"] > 1 else {}
    names = [str(name) for name in natural if name not in scaled]
    order = {name: rank for rank, name in enumerate(_ORDER)}  # what pooled ones share comes after them
    shown |= {name: natural[name] for name in sorted(names, key=lambda name: order.get(name, len(order)))}
    if scaled:
        total = natural["weight"].sum("level")
        units = {"prior_strength": xr.ones_like(total)} | {str(name): values for name, values in natural.items()}
        shown |= {f"{name}_relative": units[name] / total for name in scaled[2:] if name in units}
    final = tree["recalibration"].to_dataset()
    if final.attrs["method"] != "none":
        moving = [
            name for name in IDENTITY if name in final and (final[name].size == 1 or float(final[name].std()) > 0)
        ]
        shown |= {f"recalibration_{name}": final[name] for name in moving}
    return xr.Dataset(shown).transpose(*_SAMPLE, ...)


def parameter_draws(tree: xr.DataTree) -> pd.DataFrame:
    """Tabulate :func:`identified_draws`, then the parameters whose common scale labels do not identify.

    Returns
    -------
    DataFrame
        One row per draw, by ``chain`` and ``draw``; one column per ``parameter`` and ``level`` (missing without one). A
        parameter of each signal or label is named with it, as ``slope[words]``.
    """
    natural = tree["posterior"].to_dataset().transpose(*_SAMPLE, ...)
    parameters = dict(identified_draws(tree))
    parameters |= {name: natural[name] for name in SCALED_TOGETHER if name in natural and name not in parameters}
    index = pd.MultiIndex.from_product([natural[dim].to_numpy().tolist() for dim in _SAMPLE], names=_SAMPLE)
    columns, values = list[tuple[str, object]](), [np.zeros((len(index), 0))]
    for name, draws in parameters.items():
        for labels in product(*(draws[dim].to_numpy() for dim in draws.dims[2:])):
            at = dict(zip(draws.dims[2:], labels, strict=True))
            level = at.pop("level", None)
            columns.append((str(name) + "".join(f"[{of}]" for of in at.values()), level))
        values.append(draws.to_numpy().reshape(len(index), -1))
    names = pd.MultiIndex.from_tuples(columns, names=["parameter", "level"])
    return pd.DataFrame(np.concatenate(values, axis=1), index, names)


def parameter_table(tree: xr.DataTree) -> pd.DataFrame:
    """Summarise :func:`parameter_draws`.

    Returns
    -------
    DataFrame
        One row per column there: ``parameter``; ``level``; whether labels ``identified`` it (but see below), or the
        prior alone sets its scale; and the ``mode`` of a MAP, or the ``median`` of the posterior draws with ``low`` and
        ``high``, the ends of their 90 % interval, NaN if any draw is.

    Notes
    -----
    In variant ``level`` neither shares nor bias and null_gain are identified. The likelihood depends only on
    ``weight * sigmoid(bias)`` and ``null_gain * weight * sigmoid(-bias)``: for another null_gain there are
    weights and biases, with another total weight, that give the same predictions.
    """
    draws, (low, high) = parameter_draws(tree), tails(INTERVAL_LEVEL)
    shares = {"mode": 0.5} if len(draws) == 1 else {"median": 0.5, "low": low, "high": high}
    ends = np.quantile(draws, [*shares.values()], axis=0)
    table = pd.DataFrame(ends.T, draws.columns, [*shares]).reset_index()
    free = SCALED_TOGETHER if has_weights(tree["posterior"].to_dataset()) else ()
    table.insert(2, "identified", ~table["parameter"].isin(free))
    return table


def has_weights(natural: xr.Dataset) -> bool:
    """Whether each level has a weight, and so a share of the weight of all."""
    return "weight" in natural and {*natural["weight"].dims} == {*_SAMPLE, "level"}
