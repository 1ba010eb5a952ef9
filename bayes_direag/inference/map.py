"""The mode of the posterior (MAP), for one set of questions or many at once.

A batch of fits (the folds of a cross-fit, say) shares its questions and differs only in their weights, a
held-out question weighing nothing; so one compiled computation does for all. All fits run in double precision,
whatever JAX's global setting.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, Shaped
from numpyro.infer.util import log_density

from bayes_direag.data.observations import Observations
from bayes_direag.errors import ConvergenceError
from bayes_direag.inference.newton import Minimum, minimise_in_box
from bayes_direag.model.evidence import padded_size
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, direag, log_joint, log_likelihood, raw_priors, sites
from bayes_direag.model.settings import Preset, Variant, raw_shape

#: A fit has converged when no coordinate of the mean loss's projected gradient exceeds this.
GRADIENT_TOLERANCE = 1e-6
_AIM = 1e-9
#: Fewer questions are padded to so many: to compile once more takes longer than a fit.
LEAST_SIZE = 2048
_LEAST_BATCH = 32

#: Under a penalty the loss may have several optima: fits to fewer questions than this are started so many times more.
FEW_QUESTIONS, _MORE_STARTS = 500, 7
_START_SD, _SAME_LOSS = 2.0, 1e-6
#: Steps by Hessian where priors are proper, and under a penalty.
_QUASI_NEWTON, _NEWTON = 20, 1


class Optimum(NamedTuple):
    """Where a batch of MAP fits ended.

    Attributes
    ----------
    raw
        Free raw parameters by name, each with a leading batch axis.
    loss : (batch,) array
        The penalised loss there (:func:`penalised_loss`).
    gradient : (batch,) array
        Largest coordinate of its projected gradient.
    curvature : (batch, raw, raw) array
        About the second derivatives of the loss there, in the order of :func:`mode_of`.
    n_steps : (batch,) array
        Steps taken.
    log_likelihood : (batch, problem) array
        Log probability of the state that occurred in each question, whether it counted or not.
    n_starts : (batch,) array
        Searches made, of which this one ended lowest.
    n_optima : (batch,) array
        Different optima that they ended in.
    """

    raw: Raw
    loss: Float[Array | np.ndarray, "*batch"]
    gradient: Float[Array | np.ndarray, "*batch"]
    curvature: Float[Array | np.ndarray, "*batch raw raw"]
    n_steps: Int[Array | np.ndarray, "*batch"]
    log_likelihood: Float[Array | np.ndarray, "*batch problem"]
    n_starts: Int[Array | np.ndarray, "*batch"]
    n_optima: Int[Array | np.ndarray, "*batch"]


def map_estimates(
    observations: Observations,
    weight: Float[np.ndarray, "batch problem"],
    *,
    preset: Preset,
    variant: Variant,
    near: Optimum | None = None,
) -> Optimum:
    """Find the MAP of every fit in a batch.

    Proper priors have left the loss a single optimum wherever it was looked for: under ``bayes``, 20 random starts
    ended in one on each of 50 random choices of 30 and 100 questions of five real files. Under the penalty of ``paper``
    they ended in several in most, the preset's own start not in the lowest in half. There, fits to fewer than
    :data:`FEW_QUESTIONS` are started from seven random places more, the same for every fit, and the lowest optimum is
    kept. With more questions, and under bounds (those of ``release``), it is the one that the preset's start leads to.

    Parameters
    ----------
    weight : (batch, problem) array
        What each question weighs in each fit: see :func:`~bayes_direag.model.likelihood_data.likelihood_weights`.
    near
        Optima of much the same questions, to start from, and from there alone; the preset's own start if left out.

    Raises
    ------
    ConvergenceError
        If a projected gradient is above :data:`GRADIENT_TOLERANCE`, or not a number.
    """
    data = LikelihoodData.weighted(observations, weight[0], preset=preset, variant=variant)
    patterns = data.patterns()
    size = padded_size(len(patterns.member), least=LEAST_SIZE)
    total = np.pad(patterns.total(weight), ((0, 0), (0, size - len(patterns.member))))
    few = np.flatnonzero(total.sum(axis=1) < FEW_QUESTIONS)
    several = len(few) and near is None and preset.penalty and not preset.is_bounded
    with jax.enable_x64(True):
        search = partial(on_batch, partial(_map_estimates, data.select(patterns.member).padded(size)))
        begin = _start(data, len(weight)) if near is None else (near.raw, near.curvature)
        steps = np.full(len(weight), _NEWTON if preset.penalty else _QUASI_NEWTON)
        optimum: Optimum = search((total, *begin, steps))
        if several:
            _, unknown = _start(data, len(few))
            others = [
                search((total[few], start, unknown, np.full(len(few), _QUASI_NEWTON)))
                for start in _random_starts(data, len(few))
            ]
            optimum = _lowest(optimum, few, others)
    require_converged(f"the {variant} fit", optimum.gradient, optimum.loss, optimum.n_steps)
    return optimum._replace(log_likelihood=optimum.log_likelihood[:, patterns.pattern])


def penalised_loss(raw: Raw, data: LikelihoodData) -> Float[Array, ""]:
    r"""Return the objective that a MAP fit minimises: minus the log joint density, up to a constant, by unit of weight.

    .. math:: \frac{\sum_i \omega_i \{-\log P_i(\mathrm{target}_i)\}}{\sum_i \omega_i} + \text{penalty}

    with the penalty ``lambda * mean(raw**2)`` or, under proper priors,
    ``sum(((raw - loc) / scale)**2) / (2 * sum(omega))``: minus the log prior density, that at the prior's mode being 0.
    NaN where no question counts.

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


def mode_of(
    model: Callable[..., None],
    start: dict[str, Array],
    *args: object,
    divide_by: Float[Array, ""],
    low: dict[str, Array] | None = None,
    high: dict[str, Array] | None = None,
    **search: Any,
) -> tuple[dict[str, Array], Minimum]:
    """Find where SVI with an AutoDelta guide converges to, for a model whose sites all live on the real line.

    The ELBO of a point mass is the log joint density at its point, without noise; so
    :func:`~bayes_direag.inference.newton.minimise_in_box` takes the place of stochastic steps. Pure: may be compiled
    and mapped.

    Parameters
    ----------
    model, *args
        The model and its arguments.
    start, low, high
        Where each site starts, and the box it is kept in.
    divide_by
        The loss is minus the ELBO divided by this: with the total weight, a tolerance does not depend on the data's
        size.
    **search
        Of :func:`~bayes_direag.inference.newton.minimise_in_box`; coordinates come in order of the sites' names.
    """
    point, unravel = ravel_pytree(start)

    @jax.jit  # so that the model is traced once, and not for every derivative of it
    def loss(point: Float[Array, " parameter"]) -> Float[Array, ""]:
        joint: Array = log_density(model, args, {}, unravel(point))[0]
        return -joint / divide_by

    everywhere = jnp.full_like(point, jnp.inf)
    lowest = -everywhere if low is None else ravel_pytree(low)[0]
    highest = everywhere if high is None else ravel_pytree(high)[0]
    minimum = minimise_in_box(loss, point, lowest, highest, tolerance=_AIM, **search)
    return unravel(minimum.point), minimum


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
    """Return where n fits under a preset start, and that the curvature there is not known."""
    names = data.preset.free_parameters(data.variant)
    shapes = {name: (n, *raw_shape(name, **data.sizes)) for name in names}
    raw = {name: np.full(shape, data.preset.parameter(name).start) for name, shape in shapes.items()}
    n_raw = sum(value[0].size for value in raw.values())
    return raw, np.full((n, n_raw, n_raw), np.nan)


def _random_starts(data: LikelihoodData, n: int) -> Iterator[dict[str, Float[np.ndarray, "batch ..."]]]:
    """Yield other places to start from; no level is favoured, so that their order means nothing."""
    rng = np.random.default_rng(0)
    for _ in range(_MORE_STARTS):
        yield {name: value + rng.normal(0.0, _START_SD) for name, value in _start(data, n)[0].items()}


def _lowest(optimum: Optimum, few: Int[np.ndarray, " few"], others: Sequence[Optimum]) -> Optimum:
    """Keep the lowest optimum of each fit; of equal ones the first."""
    every: Optimum = jax.tree.map(lambda own, *more: np.stack([own[few], *more]), optimum, *others)
    loss = np.where(every.gradient <= GRADIENT_TOLERANCE, every.loss, np.inf)
    lowest = np.argmax(loss <= loss.min(axis=0) + _SAME_LOSS, axis=0)
    kept: Optimum = jax.tree.map(lambda each: each[lowest, np.arange(len(few))], every)
    ordered = np.sort(loss, axis=0)
    n_optima = 1 + (np.isfinite(ordered[1:]) & (ordered[1:] > ordered[:-1] + _SAME_LOSS)).sum(axis=0)
    kept = kept._replace(n_starts=kept.n_starts * len(loss), n_optima=n_optima)

    def put(
        own: Shaped[np.ndarray, "batch *rest"], new: Shaped[np.ndarray, "few *rest"]
    ) -> Shaped[np.ndarray, "batch *rest"]:
        together = own.copy()
        together[few] = new
        return together

    merged: Optimum = jax.tree.map(put, optimum, kept)
    return merged


@jax.jit
def _map_estimates(
    data: LikelihoodData,
    n: Int[Array, ""],
    weight: Float[Array, "batch problem"],
    start: Raw,
    curvature: Float[Array, "batch raw raw"],
    steps_by_hessian: Int[Array, " batch"],
) -> Optimum:
    """Find the MAP of the first n fits of a batch."""

    def of_member(weight: Float[Array, " problem"], *search: Any) -> Optimum:
        return _map_estimate(data.with_weight(weight), *search)

    return each_in_turn(of_member, n, weight, start, curvature, steps_by_hessian)


def _map_estimate(
    data: LikelihoodData, start: Raw, curvature: Float[Array, "raw raw"], steps_by_hessian: Int[Array, ""]
) -> Optimum:
    """Find the MAP of one fit, without a batch axis."""
    bounds = {name: data.preset.parameter(name).bounds for name in start}
    low, high = (
        sites({name: jnp.full_like(value, bounds[name][end]) for name, value in start.items()}) for end in (0, 1)
    )
    total, once = jnp.sum(data.weight), jnp.ones((), int)
    search: dict[str, Any] = {"low": low, "high": high, "curvature": curvature, "steps_by_hessian": steps_by_hessian}
    mode, end = mode_of(direag, sites(start), data, divide_by=total, **search)
    raw = {name: mode[f"{name}_raw"] for name in start}
    loss = end.value + _log_prior_at_mode(data) / total
    reached = log_likelihood(raw, data)
    return Optimum(raw, loss, end.projected_gradient, end.curvature, end.n_steps, reached, once, once)


def padded_batch[Tree](batch: Tree) -> Tree:
    """Fill each array of a batch up with zeros, along its leading axis, to one of few sizes.

    Examples
    --------
    >>> padded_batch(np.ones((5, 3))).shape
    (32, 3)
    """

    def padded(array: Shaped[np.ndarray, "batch *rest"]) -> Shaped[np.ndarray, "size *rest"]:
        missing = padded_size(len(array), least=_LEAST_BATCH) - len(array)
        return np.pad(array, [(0, missing), *[(0, 0)] * (array.ndim - 1)])

    filled: Tree = jax.tree.map(padded, batch)
    return filled


def on_batch[Result](compiled: Callable[..., Result], batch: Any) -> Result:
    """Call a compiled computation with the number of members of a batch and the batch, filled up; NumPy arrays back."""
    n = len(jax.tree.leaves(batch)[0])
    found: Result = compiled(jnp.asarray(n), *padded_batch(batch))
    own: Result = jax.tree.map(lambda every: np.asarray(every)[:n], found)
    return own


def each_in_turn[Result](function: Callable[..., Result], n: Int[Array, ""], *batch: Any) -> Result:
    """Apply a function to the first n members of a batch; of what is returned the rest is 0. Pure: may be compiled."""

    @jax.jit  # so that it is traced once: for its shapes, and in the loop
    def member(number: Int[Array, ""]) -> Result:
        return function(*jax.tree.map(lambda array: array[number], batch))

    def step(number: Int[Array, ""], found: Result) -> Result:
        put: Result = jax.tree.map(lambda every, one: every.at[number].set(one), found, member(number))
        return put

    size = len(jax.tree.leaves(batch)[0])
    shapes = jax.eval_shape(member, n)
    nothing = jax.tree.map(lambda one: jnp.zeros((size, *one.shape), one.dtype), shapes)
    every: Result = jax.lax.fori_loop(0, n, step, nothing)
    return every
