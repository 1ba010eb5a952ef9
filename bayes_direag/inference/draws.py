"""Draws of the model's raw parameters, whatever drew them."""

from collections.abc import Mapping, Sequence

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Shaped
from numpyro.infer import MCMC

from bayes_direag.errors import DirEAGError
from bayes_direag.inference.nuts import Draws
from bayes_direag.model.model import RawDraws, sites

#: What NumPyro calls the statistics of a draw, and what the container does; to be collected as ``extra_fields``.
NUMPYRO_STATISTICS = {
    "potential_energy": "lp",
    "energy": "energy",
    "diverging": "diverging",
    "num_steps": "n_steps",
    "accept_prob": "acceptance_rate",
    "adapt_state.step_size": "step_size",
}


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


def statistics_of(
    fields: Mapping[str, ArrayLike], shape: tuple[int, ...]
) -> dict[str, Shaped[np.ndarray, "chain draw"]]:
    """Return NumPyro's statistics under the container's names; NaN for those that are not there."""
    unknown = np.full(shape, np.nan)
    stats = {name: np.asarray(fields.get(field, unknown)) for field, name in NUMPYRO_STATISTICS.items()}
    stats["lp"] = -stats["lp"]
    stats["tree_depth"] = np.floor(np.log2(np.maximum(stats["n_steps"], 1))) + 1
    return stats
