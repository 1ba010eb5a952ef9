"""Prior sensitivity: how far priors and labels pull on what is learned, and on what is predicted.

The density of the priors, or the likelihood, is raised to a power near 1, and the draws are weighted accordingly; the
sensitivity is the speed at which the distribution of a quantity moves. Quantities are those that labels can identify:
shared parameters, weights relative to their total, and the predicted share of right answers. The offsets of pooled
levels count as a part of the model and not of the prior: the prior is that of their spread.

Source: Kallioinen, Paananen, Bürkner and Vehtari (2024), doi:10.1007/s11222-023-10366-5; ``psense`` of ArviZ.
"""

import warnings

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Bool, Float

from analysis.diagnosis.identifiability import TotalLogLikelihood, parameter_labels
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.parameters import SCALED_TOGETHER
from bayes_direag.inference.posterior import sampled_parameters
from bayes_direag.model.selection import States, evaluate_samples

#: A quantity of less sensitivity does not depend on the prior, or the likelihood (Kallioinen et al.).
SENSITIVE = 0.05
#: The mean support of the selected answers to the fitted questions.
PREDICTED = "predicted share of right answers"


def prior_sensitivity(fit: Fit, prior: pd.DataFrame, log_likelihood: TotalLogLikelihood) -> pd.DataFrame:
    """Return the sensitivity of each ``quantity`` to the ``prior`` and the ``likelihood``; NaN if it is not finite.

    ``prior``: from :func:`~analysis.diagnosis.identifiability.priors`. The last quantity is :data:`PREDICTED`.
    """
    from arviz_stats import psense

    raw, quantities = fit.draws("raw"), identified_draws(fit)
    table = pd.DataFrame({"quantity": quantities.columns, "prior": np.nan, "likelihood": np.nan})
    values = raw.to_numpy()
    if not np.isfinite(values).all():
        return table
    moments = prior.loc[raw.columns].to_numpy()
    log_priors = (-(((values - moments[:, 0]) / moments[:, 1]) ** 2) / 2)[:, ~_is_offset(raw)].sum(axis=1)
    sizes = fit.tree["posterior"].sizes

    def by_chain(draws: pd.Series | Float[np.ndarray, " sample"]) -> xr.DataArray:
        return xr.DataArray(np.reshape(draws, (sizes["chain"], sizes["draw"])), dims=("chain", "draw"))

    densities = {"prior": log_priors, "likelihood": log_likelihood(values)}
    groups = {f"log_{name}": xr.Dataset({name: by_chain(density)}) for name, density in densities.items()}
    groups["posterior"] = xr.Dataset({name: by_chain(draws) for name, draws in quantities.items()})
    tree = xr.DataTree.from_dict(groups)
    # a density or quantity that hardly moves leaves no tail to smooth, and is not sensitive
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings(action="ignore"):
        for name in densities:
            found = psense(tree, group=name)
            table[name] = [float(found[quantity]) for quantity in table["quantity"]]
    return table


def identified_draws(fit: Fit) -> pd.DataFrame:
    """Return the draws of what labels can identify, one column per quantity, named in words."""
    natural, relative = fit.draws(), fit.draws("relative")
    names, levels = (natural.columns.get_level_values(part) for part in ("parameter", "level"))
    shared = levels.isna() & ~names.isin(SCALED_TOGETHER) & ~names.str.startswith("recalibration_")
    draws = pd.concat([natural.loc[:, shared], relative], axis=1)
    draws.columns = pd.Index(parameter_labels(draws.columns.to_frame(index=False)))
    selected = fit.left_out["candidate"].to_numpy()

    def of_selected(states: States) -> Float[np.ndarray, " sample"]:
        chosen = selected[states.place]
        support: Float[np.ndarray, " sample"] = states.support[chosen, np.arange(len(chosen))].sum(axis=0)
        return support

    parameters = sampled_parameters(fit.tree, fit.fitted.slots)
    support = sum(evaluate_samples(fit.reports(fit.fitted), parameters, of_selected))
    return draws.loc[:, draws.std() > 0].assign(**{PREDICTED: support / len(selected)})


def _is_offset(raw: pd.DataFrame) -> Bool[np.ndarray, " parameter"]:
    """Return which raw parameters are a pooled level's offset from the centre."""
    names = raw.columns.get_level_values("parameter")
    return np.asarray(raw.columns.get_level_values("level").notna() & (names + "_spread").isin(names))
