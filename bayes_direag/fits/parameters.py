"""The parameters of a fit: their draws as a tidy table, and their means and spreads."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_direag.model.selection import IDENTITY

#: The order of the presets' parameters in tables; others follow.
_ORDER = (
    "weight",
    "prior_strength",
    "null_base",
    "null_gain",
    "bias",
    "slope",
    "sharpness",
    "vote",
    "vote_slope",
    "label",
)
#: Predictions do not change if all of these are multiplied by one constant.
SCALED_TOGETHER = ("weight", "prior_strength", "null_base")


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
    return xr.Dataset({name: values.transpose("chain", "draw", ...) for name, values in shown.items()})


def tidy_draws(tree: xr.DataTree) -> pd.DataFrame:
    """Tabulate :func:`identified_draws`, then those parameters whose common scale labels do not identify.

    One row per draw, by ``chain`` and ``draw``; one column per ``parameter`` and ``level`` as in
    :func:`parameter_draws`, by whether it is ``identified``.
    """
    natural, known = tree["posterior"].to_dataset(), identified_draws(tree)
    free = natural[[name for name in SCALED_TOGETHER if name in natural and name not in known]]
    tables = {identified: _tidy(tree, {**draws}) for identified, draws in ((True, known), (False, free))}
    return pd.concat(tables, axis=1, names=["identified"])


def parameter_draws(tree: xr.DataTree) -> pd.DataFrame:
    """Tabulate the draws of the parameters of a posterior container.

    Returns
    -------
    DataFrame
        One row per draw, by ``chain`` and ``draw``; one column per ``parameter`` and ``level`` (missing without one):
        what the model names, the parameters of its equations first, and the coefficients of a logistic final
        calibration. A parameter of each signal or label is named with it, as ``slope[words]``.
    """
    natural, final = tree["posterior"].to_dataset(), tree["recalibration"].to_dataset()
    names = [name for name in ("share", *_ORDER) if name in natural]
    parameters = {name: natural[name] for name in dict.fromkeys((*names, *map(str, natural)))}
    return _tidy(tree, parameters | {f"recalibration_{name}": final[name] for name in IDENTITY if name in final})


def parameter_table(tree: xr.DataTree) -> pd.DataFrame:
    """Summarise the parameters of a posterior container.

    Returns
    -------
    DataFrame
        One row per parameter (and level): ``parameter``; ``level`` (missing without one); the ``mode`` of a MAP, or the
        ``median`` of the posterior draws with ``low`` and ``high``, the ends of their 90 % interval; ``relative``, that
        value in units of the total weight of all levels, which the data identify, unlike the value (but see below). The
        last rows are the coefficients of a logistic recalibration.

    Notes
    -----
    In variant ``level`` neither ``relative`` nor bias and null_gain are identified. The likelihood depends only on
    ``weight * sigmoid(bias)`` and ``null_gain * weight * sigmoid(-bias)``: for another null_gain there are
    weights and biases, with another total weight, that give the same predictions.
    """
    natural = parameter_draws(tree)
    shares = {"mode": 0.5} if len(natural) == 1 else {"median": 0.5, "low": 0.05, "high": 0.95}
    ends = np.quantile(natural, [*shares.values()], axis=0)  # NaN if any draw is
    table = pd.DataFrame(ends.T, natural.columns, [*shares])
    if has_weights(tree["posterior"].to_dataset()):
        total = tree["posterior"]["weight"].sum("level").transpose("chain", "draw").to_numpy().ravel()
        scaled = [name for name in SCALED_TOGETHER if name in natural]
        table["relative"] = natural[scaled].div(total, axis=0).median(skipna=False)
    return table.reset_index()


def has_weights(natural: xr.Dataset) -> bool:
    """Whether each level has a weight, and so a share of the weight of all."""
    return "weight" in natural and {*natural["weight"].dims} == {"chain", "draw", "level"}


def _tidy(tree: xr.DataTree, parameters: Mapping[Any, xr.DataArray]) -> pd.DataFrame:
    """Return one row per draw and one column per number."""
    sizes = tree["posterior"].sizes
    columns, values = list[tuple[str, object]](), [np.zeros((sizes["chain"] * sizes["draw"], 0))]
    for name, draws in parameters.items():
        draws = draws.transpose("chain", "draw", ...)
        for labels in product(*(draws[dim].to_numpy() for dim in draws.dims[2:])):
            at = dict(zip(draws.dims[2:], labels, strict=True))
            level = at.pop("level", None)
            columns.append((str(name) + "".join(f"[{of}]" for of in at.values()), level))
        values.append(draws.to_numpy().reshape(len(values[0]), -1))
    axes = [tree["posterior"][dim].to_numpy().tolist() for dim in ("chain", "draw")]
    index = pd.MultiIndex.from_product(axes, names=["chain", "draw"])
    names = pd.MultiIndex.from_tuples(columns, names=["parameter", "level"])
    return pd.DataFrame(np.concatenate(values, axis=1), index, names)
