"""The draws of a fit as one labelled array: what the sampler moved, a column a parameter and level."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from bayes_direag.fit import Fit
from bayes_direag.model import raw_priors
from bayes_direag.settings import IDENTITY


@dataclass(frozen=True, eq=False)
class ParameterDraws:
    """Draws of scalar parameters, and the normal prior of each.

    Attributes
    ----------
    parameter : tuple of str
        What each is called.
    level : tuple of str or None
        The level it belongs to; None where it is of all levels.
    values : (chain, draw, parameter) array
        The draws.
    prior_mean, prior_sd : (parameter,) array
        Of its normal prior.
    """

    parameter: tuple[str, ...]
    level: tuple[str | None, ...]
    values: Float[np.ndarray, "chain draw parameter"]
    prior_mean: Float[np.ndarray, " parameter"]
    prior_sd: Float[np.ndarray, " parameter"]

    @property
    def labels(self) -> list[str]:
        """One name each: ``weight[cautious]``, ``slope``."""
        pairs = zip(self.parameter, self.level, strict=True)
        return [name if level is None else f"{name}[{level}]" for name, level in pairs]

    @property
    def names(self) -> pd.DataFrame:
        """A row each: ``parameter`` and ``level`` (missing where it is of all levels)."""
        columns = {"parameter": self.parameter, "level": self.level}
        return pd.DataFrame({name: pd.Series(values, dtype="str") for name, values in columns.items()})

    @property
    def flat(self) -> Float[np.ndarray, "sample parameter"]:
        """All draws, chains one after the other."""
        return self.values.reshape(-1, self.values.shape[2])

    @property
    def standardised(self) -> Float[np.ndarray, "sample parameter"]:
        """All draws in units of the prior: there the prior is Normal(0, 1)."""
        return np.asarray((self.flat - self.prior_mean) / self.prior_sd)


def raw_draws(fit: Fit) -> ParameterDraws:
    """Return every raw parameter, on the real line, where NUTS has moved and where every prior is normal.

    Those that the preset fixes are not among them. Under a preset that pools levels ``weight`` is a level's offset
    from ``weight_centre`` in units of ``weight_spread``, and likewise ``bias``.
    """
    posterior = fit.tree["posterior"].to_dataset()
    n_levels = len(fit.level_names)
    total = float(fit.tree["constant_data"]["weight_in_likelihood"].sum())
    parameters: list[str] = []
    levels: list[str | None] = []
    columns, means, sds = [], [], []
    for name, prior in raw_priors(fit.preset, fit.variant, n_levels, total).items():
        draws = posterior[f"{name}_raw"].to_numpy()
        own = fit.level_names if draws.ndim == 3 else (None,)
        parameters += [name] * len(own)
        levels += own
        columns.append(draws.reshape(*draws.shape[:2], len(own)))
        means += [float(prior.loc)] * len(own)
        sds += [float(prior.scale)] * len(own)
    return ParameterDraws(
        tuple(parameters), tuple(levels), np.concatenate(columns, axis=2), np.array(means), np.array(sds)
    )


def recalibration_draws(fit: Fit) -> ParameterDraws | None:
    """Return the coefficients of the final calibration; None where support is left as it is."""
    if fit.recalibration.method == "none":
        return None
    final = fit.tree["recalibration"].to_dataset()
    names = fit.preset.recalibration.terms
    prior_scale = fit.preset.recalibration.prior_scale(fit.tree["constant_data"].sizes["problem"])
    return ParameterDraws(
        tuple(f"recalibration_{name}" for name in names),
        (None,) * len(names),
        np.stack([final[name].to_numpy() for name in names], axis=2),
        np.array([IDENTITY[name] for name in names]),
        np.full(len(names), prior_scale),
    )
