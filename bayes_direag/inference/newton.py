r"""Newton's method in a box: the deterministic optimiser behind every MAP fit.

The problems have a dozen or two parameters, one flat direction that only the penalty curves, and, under some
presets, bounds that bind. A projected Newton method (Bertsekas 1982, doi:10.1137/0320018) converges on
them quadratically: at each step the coordinates held at a bound by the gradient are fixed, the Hessian of
the others is made positive definite by taking the absolute value of its eigenvalues, and the step is halved
along the projected arc until the loss falls (Armijo).

It has converged when the projected gradient, ``x - clip(x - gradient, low, high)``, is below the tolerance in
every coordinate. Everything is pure JAX: it can be compiled, and mapped over a batch of problems.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

_LARGEST_STEP = 2.0
_SMALLEST_CURVATURE = 1e-10  # relative to the largest
_NO_CURVATURE = 1e-12
_SUFFICIENT_DECREASE = 1e-4
_HALVINGS = 40


class Minimum(NamedTuple):
    """Where a minimisation stopped.

    Attributes
    ----------
    point : (parameter,) array
    value : () array
    projected_gradient : () array
        Largest absolute coordinate of the projected gradient; 0 at an exact optimum of the box.
    n_steps : () array
    """

    point: Float[Array, " parameter"]
    value: Float[Array, ""]
    projected_gradient: Float[Array, ""]
    n_steps: Int[Array, ""]


def minimise_in_box(
    fn: Callable[[Float[Array, " parameter"]], Float[Array, ""]],
    start: Float[Array, " parameter"],
    low: Float[Array, " parameter"],
    high: Float[Array, " parameter"],
    *,
    tolerance: float,
    max_steps: int = 500,
) -> Minimum:
    """Minimise a twice differentiable function within ``low <= x <= high``.

    The start is moved into the box first. A loss that is not finite at the start, or a search that no longer
    falls, ends the run with a projected gradient above the tolerance (or NaN): the caller has to look.
    """

    def gradient_and_value(x: Array) -> tuple[Array, Array]:
        value, gradient = jax.value_and_grad(fn)(x)
        return gradient, value

    def advance(state: _Progress) -> _Progress:
        x = state.point
        gradient, curved_along, value = jax.linearize(gradient_and_value, x, has_aux=True)
        hessian = lax.map(curved_along, jnp.eye(len(x), dtype=x.dtype))  # row by row: less memory to go through
        distance = jnp.max(jnp.abs(x - jnp.clip(x - gradient, low, high)))
        here = Minimum(x, value, distance, state.minimum.n_steps)

        step = _newton_step(hessian, gradient, _held(x, gradient, distance, low, high))
        new = _line_search(fn, x, value, gradient, step, low, high)
        done = ~(distance > tolerance) | jnp.all(new == x) | (here.n_steps >= max_steps)
        ahead = here._replace(n_steps=here.n_steps + jnp.where(done, 0, 1))
        return _Progress(jnp.where(done, x, new), ahead, done)

    unknown = jnp.full((), jnp.nan, start.dtype)
    nowhere = Minimum(start, unknown, unknown, jnp.zeros((), jnp.int32))
    first = _Progress(jnp.clip(start, low, high), nowhere, jnp.zeros((), bool))
    return lax.while_loop(lambda state: ~state.done, advance, first).minimum


class _Progress(NamedTuple):
    """The point to look at next, how the point before it was, and whether to stop there."""

    point: Float[Array, " parameter"]
    minimum: Minimum
    done: Bool[Array, ""]


def _held(
    x: Float[Array, " parameter"],
    gradient: Float[Array, " parameter"],
    distance: Float[Array, ""],
    low: Float[Array, " parameter"],
    high: Float[Array, " parameter"],
) -> Bool[Array, " parameter"]:
    """Return which coordinates lie at (or all but at) a bound that the gradient pushes them against."""
    near = jnp.minimum(1e-6, distance)
    return ((x <= low + near) & (gradient > 0)) | ((x >= high - near) & (gradient < 0))


def _newton_step(
    hessian: Float[Array, "parameter parameter"],
    gradient: Float[Array, " parameter"],
    held: Bool[Array, " parameter"],
) -> Float[Array, " parameter"]:
    """Return a descent step: Newton among the free coordinates, plain gradient among the held ones."""
    coupled = ~held[:, None] & ~held[None, :]
    free = jnp.where(coupled, hessian, jnp.eye(len(gradient), dtype=hessian.dtype))
    curvature, basis = jnp.linalg.eigh(free)
    floor = jnp.maximum(_SMALLEST_CURVATURE * jnp.max(jnp.abs(curvature)), _NO_CURVATURE)
    step = -basis @ ((basis.T @ gradient) / jnp.maximum(jnp.abs(curvature), floor))
    return jnp.asarray(step * jnp.minimum(1.0, _LARGEST_STEP / jnp.max(jnp.abs(step))))


def _line_search(
    fn: Callable[[Float[Array, " parameter"]], Float[Array, ""]],
    x: Float[Array, " parameter"],
    value: Float[Array, ""],
    gradient: Float[Array, " parameter"],
    step: Float[Array, " parameter"],
    low: Float[Array, " parameter"],
    high: Float[Array, " parameter"],
) -> Float[Array, " parameter"]:
    """Halve the step along the projected arc until the loss falls enough; stay where no length does."""
    noise = 8 * float(np.finfo(x.dtype).eps) * jnp.abs(value)

    def arc(halvings: Array) -> Array:
        return jnp.clip(x + step * 0.5**halvings, low, high)

    def falls(new: Array) -> Array:
        return fn(new) <= value + _SUFFICIENT_DECREASE * gradient @ (new - x) + noise

    def too_long(halvings: Array) -> Array:
        return (halvings < _HALVINGS) & ~falls(arc(halvings))

    halvings = lax.while_loop(too_long, lambda n: n + 1, jnp.zeros((), jnp.int32))
    return jnp.where(halvings < _HALVINGS, arc(halvings), x)
