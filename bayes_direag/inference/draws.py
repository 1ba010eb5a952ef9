"""Draws of the model's raw parameters, whatever drew them."""

from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike
from numpyro.infer import MCMC

from bayes_direag.errors import DirEAGError
from bayes_direag.inference.nuts import Draws, statistics_of
from bayes_direag.model.model import RawDraws, sites


def raw_draws_of(draws: MCMC | Draws | Mapping[str, ArrayLike], names: Sequence[str]) -> Draws:
    """Take the raw parameters of these names, and the statistics, out of draws of any kind.

    Statistics that a NumPyro run has not collected are NaN, as are all of draws without any.

    Raises
    ------
    DirEAGError
        If a parameter's site is missing.
    """
    if isinstance(draws, Draws):
        return draws
    samples = draws.get_samples(group_by_chain=True) if isinstance(draws, MCMC) else draws
    missing = [f"{name}_raw" for name in names if f"{name}_raw" not in samples]
    if missing:
        raise DirEAGError(f"draws: there is no site {missing[0]!r}; expected {', '.join(sites(dict.fromkeys(names)))}.")
    raw: RawDraws = {name: np.asarray(samples[f"{name}_raw"]) for name in names}
    fields = draws.get_extra_fields(group_by_chain=True) if isinstance(draws, MCMC) else {}
    return Draws(raw, statistics_of(fields, next(iter(raw.values())).shape[:2]))
