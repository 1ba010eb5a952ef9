"""The mode of the posterior (MAP), for a batch of fits.

The fits of a batch (for example the folds of a cross-fit) share their questions and differ only in their weights; a
held-out question has weight 0. So one compiled computation serves them all. Fits run in double precision, whatever
JAX's global setting.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped
from numpyro.infer import SVI, TraceMeanField_ELBO, init_to_value
from numpyro.infer.autoguide import AutoDelta

from bayes_direag.data.observations import Observations
from bayes_direag.errors import ConvergenceError
from bayes_direag.inference.newton import ProjectedNewton
from bayes_direag.model.evidence import padded_size
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, direag, drawn_parameters, log_joint, raw_priors, sites
from bayes_direag.model.settings import Preset, Variant, raw_shape

#: A fit has converged if no coordinate of the mean loss's projected gradient exceeds this.
GRADIENT_TOLERANCE = 1e-6
#: Fewer questions are padded to this number, since compiling for another shape takes longer than a fit.
_LEAST_SIZE = 512
_LEAST_BATCH = 32

#: Under a penalty the loss may have several optima. Fits to fewer questions than this get further starts, this many.
FEW_QUESTIONS, _MORE_STARTS = 500, 7
_START_SD, _SAME_LOSS = 2.0, 1e-6


class Optimum(NamedTuple):
    """The optima of a batch of MAP fits."""

    #: Free raw parameters by name, each with a leading batch axis.
    raw: Raw
    #: The penalised loss (:func:`penalised_loss`).
    loss: Float[Array | np.ndarray, "*batch"]
    #: Largest coordinate of its projected gradient.
    gradient: Float[Array | np.ndarray, "*batch"]
    #: An approximation to the Hessian of the loss, in the order of the sites' names.
    curvature: Float[Array | np.ndarray, "*batch raw raw"]
    #: Steps of the search.
    n_steps: Int[Array | np.ndarray, "*batch"]
    #: Number of searches, of which this one ended lowest.
    n_starts: Int[Array | np.ndarray, "*batch"]
    #: Number of different optima that they ended in.
    n_optima: Int[Array | np.ndarray, "*batch"]


def map_estimates(
    observations: Observations,
    weight: Float[np.ndarray, "batch problem"],
    *,
    preset: Preset,
    variant: Variant,
    near: Optimum | None = None,
) -> Optimum:
    """Find the MAP of every fit in a batch, from the preset's start or ``near`` optima for almost the same questions.

    Under proper priors the loss seems to have a single optimum: under ``bayes``, 20 random starts led to one optimum on
    each of 50 random choices of 30 and 100 questions from five real files. Under the penalty of ``paper`` most of these
    choices had several optima, and in half of them the preset's start did not lead to the lowest. So fits with a
    penalty to fewer than :data:`FEW_QUESTIONS` are also started from seven random places, the same for every fit, and
    the lowest optimum is kept. With more questions, and under bounds (``release``), only the preset's start is used.
    """
    data = LikelihoodData.weighted(observations, weight[0], preset=preset, variant=variant)
    n = len(observations)
    size = padded_size(n, least=_LEAST_SIZE)
    padded = np.pad(weight, ((0, 0), (0, size - n)))
    few = np.flatnonzero(weight.sum(axis=1) < FEW_QUESTIONS)
    several = len(few) and near is None and preset.penalty and not preset.is_bounded
    with jax.enable_x64(True):
        search = partial(on_batch, partial(_map_estimates, data.padded(size)))
        start = _start(data, len(weight)) if near is None else (near.raw, near.curvature)
        optimum: Optimum = search((padded, *start))
        if several:
            _, unknown = _start(data, len(few))
            others = [search((padded[few], raw, unknown)) for raw in _random_starts(data, len(few))]
            optimum = _lowest(optimum, few, others)
    require_converged(f"the {variant} fit", optimum.gradient, optimum.loss, optimum.n_steps)
    return optimum


def penalised_loss(raw: Raw, data: LikelihoodData) -> Float[Array, ""]:
    r"""Return the objective of a MAP fit: minus the log joint density, up to a constant, divided by the total weight.

    .. math:: \frac{\sum_i \omega_i \{-\log P_i(\mathrm{target}_i)\}}{\sum_i \omega_i} + \text{penalty}

    The penalty is ``lambda * mean(raw**2)`` or, under proper priors,
    ``sum(((raw - loc) / scale)**2) / (2 * sum(omega))``. NaN if no question counts.

    Parameters
    ----------
    raw
        The free raw parameters by name, as :func:`~bayes_direag.raw_from_vector` gives them.
    """
    total = jnp.sum(data.weight)
    return (_log_prior_at_mode(data) - log_joint(raw, data)) / total


def _log_prior_at_mode(data: LikelihoodData) -> Float[Array, ""]:
    priors = raw_priors(data.preset, data.variant, total_weight=jnp.sum(data.weight), **data.sizes)
    sizes = {name: math.prod(raw_shape(name, **data.sizes)) for name in priors}
    return sum((sizes[name] * prior.log_prob(prior.loc) for name, prior in priors.items()), jnp.zeros(()))


def require_converged(
    what: str,
    gradient: Float[Array | np.ndarray, " batch"],
    loss: Float[Array | np.ndarray, " batch"],
    n_steps: Int[Array | np.ndarray, " batch"],
) -> None:
    """Raise ConvergenceError unless every projected gradient is at most :data:`GRADIENT_TOLERANCE` (NaN is not)."""
    reached = np.asarray(gradient) <= GRADIENT_TOLERANCE
    if reached.all():
        return
    worst = int(np.argmin(reached))
    raise ConvergenceError(
        f"{what} did not converge: after {int(n_steps[worst])} steps the largest projected gradient is "
        f"{float(gradient[worst]):.3g} at a mean loss of {float(loss[worst]):.8g}; "
        f"expected at most {GRADIENT_TOLERANCE:g}. Raise the penalty or narrow the priors; if they are the preset's "
        "own, please report it as a bug."
    )


def _start(
    data: LikelihoodData, n: int
) -> tuple[dict[str, Float[np.ndarray, "batch ..."]], Float[np.ndarray, "batch raw raw"]]:
    """Return the preset's start for n fits, and NaN for the curvature there, which is not known."""
    names = data.preset.free_parameters(data.variant)
    shapes = {name: (n, *raw_shape(name, **data.sizes)) for name in names}
    raw = {name: np.full(shape, data.preset.parameter(name).start) for name, shape in shapes.items()}
    n_raw = sum(value[0].size for value in raw.values())
    return raw, np.full((n, n_raw, n_raw), np.nan)


def _random_starts(data: LikelihoodData, n: int) -> Iterator[dict[str, Float[np.ndarray, "batch ..."]]]:
    """Yield further starts; each is shared by all levels, so that the order of the levels does not matter."""
    rng = np.random.default_rng(0)
    for _ in range(_MORE_STARTS):
        yield {name: value + rng.normal(0.0, _START_SD) for name, value in _start(data, n)[0].items()}


def _lowest(optimum: Optimum, few: Int[np.ndarray, " few"], others: Sequence[Optimum]) -> Optimum:
    """Keep the lowest optimum of each fit; the first of equal ones."""
    searches: Optimum = jax.tree.map(lambda first, *more: np.stack([first[few], *more]), optimum, *others)
    loss = np.where(searches.gradient <= GRADIENT_TOLERANCE, searches.loss, np.inf)
    lowest = np.argmax(loss <= loss.min(axis=0) + _SAME_LOSS, axis=0)
    kept: Optimum = jax.tree.map(lambda values: values[lowest, np.arange(len(few))], searches)
    ordered = np.sort(loss, axis=0)
    n_optima = 1 + (np.isfinite(ordered[1:]) & (ordered[1:] > ordered[:-1] + _SAME_LOSS)).sum(axis=0)
    kept = kept._replace(n_starts=kept.n_starts * len(loss), n_optima=n_optima)

    def replaced(
        values: Shaped[np.ndarray, "batch *rest"], new: Shaped[np.ndarray, "few *rest"]
    ) -> Shaped[np.ndarray, "batch *rest"]:
        values = values.copy()
        values[few] = new
        return values

    merged: Optimum = jax.tree.map(replaced, optimum, kept)
    return merged


@jax.jit
def _map_estimates(
    data: LikelihoodData,
    n: Int[Array, ""],
    weight: Float[Array, "batch problem"],
    start: Raw,
    curvature: Float[Array, "batch raw raw"],
) -> Optimum:
    """Find the MAP of the first n fits of a batch."""
    return each_in_turn(partial(_map_estimate, data), n, weight, start, curvature)


def _map_estimate(
    data: LikelihoodData, weight: Float[Array, " problem"], start: Raw, curvature: Float[Array, "raw raw"]
) -> Optimum:
    """Find the MAP of a single fit, by SVI with an AutoDelta guide, in one update.

    The guide needs the parameters alone, so it does not trace the likelihood.
    """
    data = data.with_weight(weight)
    bounds = {name: data.preset.parameter(name).bounds for name in start}
    low, high = ({f"{name}_raw_auto_loc": both[end] for name, both in bounds.items()} for end in (0, 1))
    total, single = jnp.sum(data.weight), jnp.ones((), int)
    optimiser = ProjectedNewton(low=low, high=high, scale=total, curvature=curvature)
    guide = AutoDelta(drawn_parameters, init_loc_fn=init_to_value(values=sites(start)))
    svi = SVI(direag, guide, optimiser, TraceMeanField_ELBO())
    state, _ = svi.update(svi.init(jax.random.key(0), data), data)
    mode, end = svi.get_params(state), optimiser.get_minimum(state.optim_state)
    raw = {name: mode[f"{name}_raw_auto_loc"] for name in start}
    loss = end.value + _log_prior_at_mode(data) / total
    return Optimum(raw, loss, end.projected_gradient, end.curvature, end.n_steps, single, single)


def padded_batch[Tree](batch: Tree) -> Tree:
    """Pad each array of a batch with zeros along its leading axis, so that few shapes are compiled.

    Examples
    --------
    >>> padded_batch(np.ones((5, 3))).shape
    (32, 3)
    """

    def padded(array: Shaped[np.ndarray | Array, "batch *rest"]) -> Shaped[np.ndarray, "size *rest"]:
        missing = padded_size(len(array), least=_LEAST_BATCH) - len(array)
        return np.pad(array, [(0, missing), *[(0, 0)] * (array.ndim - 1)])

    filled: Tree = jax.tree.map(padded, batch)
    return filled


def on_batch[Result](compiled: Callable[..., Result], batch: Any) -> Result:
    """Call a compiled computation with the size of a batch and the padded batch; return NumPy arrays of that size."""
    n = len(jax.tree.leaves(batch)[0])
    padded: Result = compiled(jnp.asarray(n), *padded_batch(batch))
    result: Result = jax.tree.map(lambda values: np.asarray(values)[:n], padded)
    return result


def each_in_turn[Result](function: Callable[..., Result], n: Int[Array, ""], *batch: Any) -> Result:
    """Apply a function to the first n members of a batch; the other results are 0. Pure: it can be compiled."""

    @jax.jit  # so that it is traced once: for its shapes, and in the loop
    def result_of(member: Int[Array, ""]) -> Result:
        return function(*jax.tree.map(lambda array: array[member], batch))

    def step(member: Int[Array, ""], results: Result) -> Result:
        updated: Result = jax.tree.map(lambda values, new: values.at[member].set(new), results, result_of(member))
        return updated

    size = len(jax.tree.leaves(batch)[0])
    shapes = jax.eval_shape(result_of, n)
    zeros = jax.tree.map(lambda shape: jnp.zeros((size, *shape.shape), shape.dtype), shapes)
    results: Result = jax.lax.fori_loop(jnp.zeros_like(n), n, step, zeros)
    return results
