"""The parameters of a posterior container as a table."""

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float

from bayes_direag.inference.posterior import apart, parameter_draws
from bayes_direag.model.equations import Parameters

#: Predictions do not change if all of these are multiplied by one constant.
_SHARE_SCALE = frozenset({"weight", "prior_strength", "null_base"})


def parameter_table(tree: xr.DataTree) -> pd.DataFrame:
    """Tabulate the parameters of a posterior container.

    Returns
    -------
    DataFrame
        One row per parameter (and level): ``parameter``; ``level`` (missing without one); ``mean`` and ``sd`` over the
        posterior draws (sd missing for a single draw); ``relative``, the mean in units of the total weight of all
        levels, which the data identify, unlike the mean (but see below); ``raw``, the mean on the real line (missing
        for fixed parameters). The last rows are the coefficients of a logistic recalibration.

    Notes
    -----
    In variant ``level`` neither ``relative`` nor bias and null_gain are identified, unless null_gain is fixed. The
    likelihood depends only on ``weight * sigmoid(bias)`` and ``null_gain * weight * sigmoid(-bias)``: for another
    null_gain there are weights and biases, with another total weight, that give the same predictions.
    """
    posterior = apart(parameter_draws(tree))
    total = posterior["weight"].sum("level")
    rows = []
    names = [str(name) for name in posterior]
    natural = [name for field in Parameters._fields for name in names if name == field or _is_of_signal(name, field)]
    pooled = [name for name in names if name.endswith(("_centre", "_spread"))]
    for name in (*natural, *pooled):
        if "label" in posterior[name].dims:
            for label in posterior["label"].to_numpy():
                of_label = posterior[[name, f"{name}_raw"]].sel(label=label, drop=True)
                rows += _rows(f"{name}[{label}]", of_label[name], None, of_label[f"{name}_raw"])
            continue
        raw = posterior.get(f"{name}_raw")
        scaled = posterior[name] / total if name in _SHARE_SCALE else None
        rows += _rows(name, posterior[name], scaled, raw)
    final = tree["recalibration"].to_dataset()
    if "intercept" in final:
        rows += [row for name in final.data_vars for row in _rows(f"recalibration_{name}", final[name], None, None)]
    return pd.DataFrame(rows, columns=["parameter", "level", "mean", "sd", "relative", "raw"])


def _is_of_signal(name: str, field: str) -> bool:
    return name.startswith(f"{field}[") and name.endswith("]")


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
