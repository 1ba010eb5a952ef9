"""Which answer a question gets, and with how much support, over the draws of a posterior or the fits of a batch.

Questions are worked through in pieces of bounded memory, padded to few distinct shapes; no result depends on
the piece.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayes_direag.evidence import (
    Parameters,
    Reports,
    concentration,
    log_support,
    padded_size,
    selected_candidate,
)
from bayes_direag.observations import Observations

_CELLS = 1 << 22
_LARGEST_PIECE = 1 << 16


class Selection(NamedTuple):
    """The selected answers of some questions.

    Attributes
    ----------
    candidate : (problem,) array
        The candidate of greatest mean support over the samples; -1 for a question without candidates.
    support : (sample, problem) array
        Its support in every sample; NaN without candidates.
    null_probability : (problem,) array
        Mean support of the null.
    change_probability : (problem,) array
        Share of the samples in which another candidate has the greatest support; NaN without candidates.
    """

    candidate: Int[np.ndarray, " problem"]
    support: Float[np.ndarray, "sample problem"]
    null_probability: Float[np.ndarray, " problem"]
    change_probability: Float[np.ndarray, " problem"]


def select(observations: Observations, parameters: Parameters, eps: float) -> Iterator[Selection]:
    """Select one answer a question from all samples together, piece by piece.

    Parameters
    ----------
    parameters
        Each with a leading sample axis.
    """
    for reports, n in pieces(observations, n_samples=parameters.weight.shape[0]):
        with jax.enable_x64(True):
            found = _selection(reports, parameters, eps)
        candidate, support, null, change = (np.asarray(part)[..., :n] for part in found)
        some = candidate >= 0
        yield Selection(candidate, np.where(some, support, np.nan), null, np.where(some, change, np.nan))


def select_each(
    observations: Observations, parameters: Parameters, eps: float
) -> tuple[Int[np.ndarray, "batch problem"], Float[np.ndarray, "batch problem"]]:
    """Select answers for each fit of a batch on its own: candidate and support as in :class:`Selection`.

    Parameters
    ----------
    parameters
        Each with a leading batch axis.
    """
    members = [
        jax.tree.map(lambda value, here=member: value[here : here + 1], parameters)
        for member in range(parameters.weight.shape[0])
    ]
    candidate, support = zip(*(_whole(observations, member, eps) for member in members), strict=True)
    return np.stack(candidate), np.stack(support)


def _whole(
    observations: Observations, parameters: Parameters, eps: float
) -> tuple[Int[np.ndarray, " problem"], Float[np.ndarray, " problem"]]:
    pieces = list(select(observations, parameters, eps))
    return (
        np.concatenate([piece.candidate for piece in pieces]),
        np.concatenate([piece.support[0] for piece in pieces]),
    )


def supports(reports: Reports, parameters: Parameters, eps: float) -> Float[Array, "sample problem state"]:
    """Return the support of every state of every question in every sample."""
    alpha = jax.vmap(lambda sample: concentration(reports, sample, eps))(parameters)
    return jnp.exp(jax.vmap(log_support)(alpha))


@partial(jax.jit, static_argnames="eps")
def _selection(
    reports: Reports, parameters: Parameters, eps: float
) -> tuple[Int[Array, " problem"], Float[Array, "sample problem"], Float[Array, " problem"], Float[Array, " problem"]]:
    support = supports(reports, parameters, eps)
    mean = jnp.mean(support, axis=0)
    n_candidates = jnp.asarray(reports.n_candidates)
    candidate = selected_candidate(mean, n_candidates)
    index = jnp.maximum(candidate, 0)[None, :, None]
    mine = jnp.take_along_axis(support, index, axis=2)[:, :, 0]
    in_sample = jax.vmap(lambda one: selected_candidate(one, n_candidates))(support)
    return candidate, mine, mean[:, -1], jnp.mean(in_sample != candidate[None, :], axis=0, dtype=support.dtype)


def pieces(observations: Observations, n_samples: int) -> Iterator[tuple[Reports, int]]:
    """Yield the reports in padded pieces, each with its number of real questions."""
    everything = Reports.of(observations)
    n = len(observations)
    size = min(padded_size(n), _LARGEST_PIECE, max(_CELLS // n_samples, 1))
    for start in range(0, max(n, 1), size):
        piece = Reports(*(array[start : start + size] for array in everything))
        yield piece.padded(size), len(piece.n_candidates)
