r"""The metric of NUTS (its inverse mass matrix), and how warm-up learns it.

A trajectory is short where the metric is the covariance of the posterior. At first there are no draws to estimate that
from, but where the chains are there is a curvature: the Fisher information of the labels that have come true, one
outer product of scores a question, and the precision of the priors,

.. math:: \sum_i \omega_i \nabla \log P_i \nabla \log P_i^\mathsf{T} + \operatorname{diag}(\sigma^{-2}).

Its inverse serves for the first steps, and is brought up to date while the chains still move to where the posterior is.
From then on the covariance of the draws of each window takes its place, the windows being those of Stan; they are
shrunk towards the metric before, which counts as much as one draw for each parameter. Chains of one posterior learn
one metric between them: that is four times the draws to learn from.
"""

from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.infer.hmc import HMCState
from numpyro.infer.hmc_util import build_adaptation_schedule

from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import log_likelihood, log_prior, raw_from_vector

_AT_FIRST = (0, 10, 25, 50)


def metric_schedule(n_warmup: int) -> dict[int, Literal["curvature", "draws"]]:
    """Return after how many steps the metric is learned anew, and from what; at step 0 first.

    Examples
    --------
    >>> metric_schedule(200)
    {0: 'curvature', 10: 'curvature', 25: 'curvature', 50: 'curvature', 100: 'draws', 150: 'draws'}
    """
    first, *windows = build_adaptation_schedule(n_warmup)
    schedule: dict[int, Literal["curvature", "draws"]] = {step: "curvature" for step in _AT_FIRST if step <= first.end}
    for window in windows[:-1]:
        schedule[window.end + 1] = "draws"
    return schedule


class Survey(NamedTuple):
    """The log joint density around a point: its value, its gradient, and the curvature above."""

    log_joint: Float[Array, ""]
    gradient: Float[Array, " raw"]
    curvature: Float[Array, "raw raw"]


def survey(flat: Float[Array, " raw"], data: LikelihoodData) -> Survey:
    """Look around a point, given as :func:`~bayes_direag.raw_from_vector` takes it."""
    named = partial(raw_from_vector, preset=data.preset, variant=data.variant, n_levels=data.n_levels)

    def reached(flat: Float[Array, " raw"]) -> Float[Array, " problem"]:
        return log_likelihood(named(flat), data)

    def believed(flat: Float[Array, " raw"]) -> Float[Array, ""]:
        return log_prior(named(flat), data)

    score = jax.jacfwd(reached)(flat)
    prior, slope = jax.value_and_grad(believed)(flat)
    # one column sums them all, as the priors are independent
    precision = -jax.jvp(jax.grad(believed), (flat,), (jnp.ones_like(flat),))[1]
    return Survey(
        prior + data.weight @ reached(flat),
        slope + data.weight @ score,
        score.T @ (data.weight[:, None] * score) + jnp.diag(precision),
    )


def metric_from_curvature(
    curvature: Float[np.ndarray, "chain raw raw"], *, shared: bool
) -> Float[np.ndarray, "chain raw raw"]:
    """Return the inverse of each chain's curvature, or of their mean.

    Where a chain is so far out that its curvature is not finite, that of the others stands for it; if none is, 1.
    """
    finite = np.isfinite(curvature).all(axis=(1, 2))
    common = curvature[finite].mean(axis=0) if finite.any() else np.eye(curvature.shape[1])
    own = common[None] if shared else np.where(finite[:, None, None], curvature, common)
    return np.asarray(np.broadcast_to(np.linalg.inv(own), curvature.shape))


def metric_from_draws(
    draws: Float[np.ndarray, "chain step raw"], before: Float[np.ndarray, "chain raw raw"], *, shared: bool
) -> Float[np.ndarray, "chain raw raw"]:
    """Return the covariance of each chain's draws, or of those of all chains, shrunk towards the metric before."""
    own = draws.reshape(1, -1, draws.shape[2]) if shared else draws
    _, n, size = own.shape
    centred = own - own.mean(axis=1, keepdims=True)
    found = (np.swapaxes(centred, 1, 2) @ centred + size * (before[:1] if shared else before)) / (n + size)
    return np.asarray(np.broadcast_to(found, before.shape))


def with_metric(states: HMCState, metric: Float[np.ndarray, "chain raw raw"]) -> HMCState:
    """Give every chain its metric, on the device where the chain is."""
    # numpyro's roots, so that momentums are drawn as it draws them: upper triangular from below
    inverse_root = np.swapaxes(np.linalg.cholesky(metric[:, ::-1, ::-1])[:, ::-1, ::-1], 1, 2)
    old = states.adapt_state
    parts = {
        "inverse_mass_matrix": metric,
        "mass_matrix_sqrt": np.linalg.inv(inverse_root),
        "mass_matrix_sqrt_inv": inverse_root,
    }
    new = {name: jax.device_put(value, getattr(old, name).sharding) for name, value in parts.items()}
    return states._replace(adapt_state=old._replace(**new))
