"""The parameters of a posterior container as a table."""

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float

from bayes_direag.inference.posterior import apart, parameter_draws
from bayes_direag.model.evidence import Parameters

#: Multiplying these by one constant leaves every prediction as it is.
_SHARE_SCALE = frozenset({"weight", "prior_strength", "null_base"})


def parameter_table(tree: xr.DataTree) -> pd.DataFrame:
    """Tabulate the parameters of a posterior container.

    Returns
    -------
    DataFrame
        A row a parameter (and level): ``parameter``, ``level`` (missing for those without), ``mean`` and
        ``sd`` over the posterior draws (sd missing for a single one), ``relative``, the mean in units of
        the total weight of all levels, which unlike the mean is identified by the data (but see below), and
        ``raw``, the mean on the real line (missing where fixed). The coefficients of a logistic
        recalibration close the table.

    Notes
    -----
    In variant ``level`` the column ``relative`` is not identified either, nor are bias and null_gain, unless
    null_gain is fixed. The likelihood sees of them only what a report gives its own answer, ``weight *
    sigmoid(bias)``, and what it gives the null, ``null_gain * weight * sigmoid(-bias)``; another null_gain with
    weights and biases to match leaves every prediction as it is, and the total weight does not stay the same.
    """
    posterior = apart(parameter_draws(tree))
    total = posterior["weight"].sum("level")
    rows = []
    pooled = [str(name) for name in posterior if str(name).endswith(("_centre", "_spread"))]
    natural = [str(own) for name in Parameters._fields for own in posterior if _is_natural(str(own), name)]
    for name in (*natural, *pooled):
        if "label" in posterior[name].dims:
            for label in posterior["label"].to_numpy():
                own = posterior[[name, f"{name}_raw"]].sel(label=label, drop=True)
                rows += _rows(f"{name}[{label}]", own[name], None, own[f"{name}_raw"])
            continue
        raw = posterior.get(f"{name}_raw")
        scaled = posterior[name] / total if name in _SHARE_SCALE else None
        rows += _rows(name, posterior[name], scaled, raw)
    final = tree["recalibration"].to_dataset()
    if "intercept" in final:
        rows += [row for name in final.data_vars for row in _rows(f"recalibration_{name}", final[name], None, None)]
    return pd.DataFrame(rows, columns=["parameter", "level", "mean", "sd", "relative", "raw"])


def _is_natural(own: str, name: str) -> bool:
    return own == name or (own.startswith(f"{name}[") and own.endswith("]"))


def _rows(
    name: str, draws: xr.DataArray, scaled: xr.DataArray | None, raw: xr.DataArray | None
) -> list[dict[str, object]]:
    """Return the table rows of one parameter, one a level."""
    names = [str(level) for level in draws["level"].to_numpy()] if "level" in draws.dims else [None]

    def samples(values: xr.DataArray) -> Float[np.ndarray, "sample level"]:
        return np.asarray(values.to_numpy().reshape(-1, len(names)))

    missing = np.full(len(names), np.nan)
    means = {"mean": draws, "relative": scaled, "raw": raw}
    columns = {key: missing if values is None else samples(values).mean(axis=0) for key, values in means.items()}
    columns["sd"] = samples(draws).std(axis=0, ddof=1) if len(samples(draws)) > 1 else missing
    return [
        {"parameter": name, "level": level} | {key: float(values[place]) for key, values in columns.items()}
        for place, level in enumerate(names)
    ]
