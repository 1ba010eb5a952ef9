r"""Newton's method in a box, with few Hessians, as an optimiser of NumPyro's SVI: it finds the mode of every MAP fit.

The ELBO of a point mass (AutoDelta) is the log joint density at its point, without noise. So a single update of SVI can
search until it has converged, as :class:`numpyro.optim.Minimize` does.

The problems have a dozen or a few dozen parameters, one flat direction in which only the penalty or a prior has
curvature, and, under some presets, active bounds. A projected Newton method (Bertsekas 1982, doi:10.1137/0320018) needs
few steps, but a Hessian costs as much as a dozen gradients. So the Hessian is computed only once in several steps, made
positive definite by the absolute values of its eigenvalues, and updated in between from the gradients (BFGS, damped as
in Powell 1978, doi:10.1007/BFb0067703). In each step the active coordinates, which the gradient holds at a bound, are
fixed, and the step is halved along the projected arc until the loss falls (Armijo). A model of many parameters has no
matrix: each of its steps solves for the Newton step by conjugate gradients.

The search has converged when every coordinate of the projected gradient, ``x - clip(x - gradient, low, high)``, is
below the tolerance. Everything is pure JAX: it can be compiled, and mapped over a batch of problems.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_factor, cho_solve
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int
from numpyro.optim import Minimize

from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.unconstrained import Model, n_searches, start_and_bounds

#: The search ends when no coordinate of the projected gradient exceeds this.
TOLERANCE = 1e-9
_LARGEST_STEP = 2.0
_SMALLEST_CURVATURE = 1e-10  # relative to the largest
_NO_CURVATURE = 1e-12
_SUFFICIENT_DECREASE = 1e-4
_HALVINGS = 40
_LEAST_AGREEMENT = 0.1
_DIFFERENCE = float(np.finfo(float).eps) ** (1 / 3)


type Params = dict[str, Array]
Point = Float[Array, " parameter"]
Square = Float[Array, "parameter parameter"]

#: Most parameters of which matrices are held; more need fewer products with the Hessian than it has columns. And most
#: such products of one step.
MOST_DENSE, _PRODUCTS = 100, 100

#: A search has converged if no coordinate of the projected gradient exceeds this.
GRADIENT_TOLERANCE = 1e-6
_START_SD, _SAME_LOSS = 2.0, 1e-6


class ProjectedNewton(Minimize):  # type: ignore[misc]
    """The optimiser of a MAP fit: one update of SVI with an AutoDelta guide ends at the mode.

    Parameters
    ----------
    starts : mapping of str to array, optional
        Values of the guide's parameters by name, with a leading axis of searches: each starts there, and the lowest
        minimum is kept. By default there is one search, from where the guide is.
    low, high : mapping of str to array, optional
        Bounds of the guide's parameters by name, such as ``bias_auto_loc``. The others have none.
    scale : array
        The loss is divided by this in the search. With the total weight of the questions, the tolerance does not depend
        on their number.
    **search
        Arguments of :func:`minimise_in_box`; coordinates are in the order of the parameters' names.
    """

    def __init__(
        self,
        *,
        starts: Mapping[str, Float[Array | np.ndarray, "search ..."]] | None = None,
        low: Mapping[str, ArrayLike] | None = None,
        high: Mapping[str, ArrayLike] | None = None,
        scale: ArrayLike = 1.0,
        **search: Any,
    ) -> None:
        super().__init__()
        self.starts, self._low, self._high = starts, low or {}, high or {}
        self._scale, self._search = scale, search

    @classmethod
    def for_model(
        cls,
        model: Model,
        data: LikelihoodData,
        *,
        initial: Params | None = None,
        curvature: Square | None = None,
    ) -> "ProjectedNewton":
        """Return the optimiser with which a fit by MAP searches for the mode of a model with these data.

        Use it for ``without_bounds(model)``, which leaves the bounds to it. A model may ask for several searches: all
        but the first start at random places, the same for every fit, and each has one displacement for all levels, so
        that their order does not matter.

        Parameters
        ----------
        initial
            Unconstrained parameters to start from alone, instead; where they are NaN, from the model's own start.
        curvature
            The curvature there; NaN if it is not known.
        """
        start, bounds = start_and_bounds(model, data)
        n = n_searches(model) if initial is None else 1
        if initial is not None:
            start = {name: jnp.where(jnp.isnan(initial[name]), value, initial[name]) for name, value in start.items()}
        moves = np.random.default_rng(0).normal(0.0, _START_SD, (n, len(start)))
        moves[0] = 0.0
        starts = {
            f"{name}_auto_loc": jnp.asarray(value)[None] + move.reshape(n, *[1] * jnp.ndim(value))
            for (name, value), move in zip(start.items(), moves.T, strict=True)
        }
        low, high = ({f"{name}_auto_loc": ends[end] for name, ends in bounds.items()} for end in (0, 1))
        return cls(starts=starts, low=low, high=high, scale=jnp.sum(data.weight), curvature=curvature)

    def init(self, params: Params) -> tuple[Array, tuple[Params, "Found"]]:
        """Return the state before the first update, in which nothing has been found."""
        point, none = ravel_pytree(params)[0], jnp.zeros((), jnp.int32)
        unknown, size = jnp.full((), jnp.nan, point.dtype), dense_size(len(point))
        initial = Minimum(point, unknown, jnp.zeros_like(point), unknown, jnp.zeros((size, size), point.dtype), none)
        return none, (params, Found(initial, none, none))

    def get_params(self, state: tuple[Array, tuple[Params, "Found"]]) -> Params:
        """Return the parameters of a state."""
        return state[1][0]

    def get_minimum(self, state: tuple[Array, tuple[Params, "Found"]]) -> "Found":
        """Return where the last update ended, and the numbers of searches and optima."""
        return state[1][1]

    def eval_and_update(
        self,
        fn: Callable[[Params], tuple[Array, None]],
        state: tuple[Array, tuple[Params, "Found"]],
        forward_mode_differentiation: bool = False,  # noqa: ARG002 - numpyro's signature
    ) -> tuple[tuple[Array, None], tuple[Array, tuple[Params, "Found"]]]:
        """Search for the minimum; return the loss there, and the state."""
        params = self.get_params(state)
        current, unravel = ravel_pytree(params)
        starts = (
            current[None]
            if self.starts is None
            else jax.vmap(lambda start: ravel_pytree(start)[0])(
                {name: jnp.asarray(self.starts[name], value.dtype) for name, value in params.items()}
            )
        )

        @jax.jit  # so that the model is traced once, and not for every derivative
        def loss(point: Point) -> Float[Array, ""]:
            return fn(unravel(point))[0] / self._scale

        def bound(bounds: Mapping[str, ArrayLike], otherwise: float) -> Point:
            filled = {name: jnp.full_like(value, bounds.get(name, otherwise)) for name, value in params.items()}
            return jnp.asarray(ravel_pytree(filled)[0])

        low, high = bound(self._low, -jnp.inf), bound(self._high, jnp.inf)

        def search(start: Point) -> Minimum:
            return minimise_in_box(loss, start, low, high, **{"tolerance": TOLERANCE} | self._search)

        lowest = _lowest(search, starts)
        return (lowest.minimum.value * self._scale, None), (state[0] + 1, (unravel(lowest.minimum.point), lowest))


def dense_size(n_parameters: int) -> int:
    """Return the size of the matrices of so many parameters; 0 where they are so many that none is held."""
    return n_parameters if n_parameters <= MOST_DENSE else 0


class Found(NamedTuple):
    """The lowest minimum of several searches."""

    minimum: "Minimum"
    n_searches: Int[Array, ""]
    #: Number of different optima that they ended in.
    n_optima: Int[Array, ""]


def _lowest(search: Callable[[Point], "Minimum"], starts: Float[Array, "search parameter"]) -> Found:
    """Search from every start, and keep the lowest minimum; the first of equal ones."""
    n = jnp.asarray(len(starts), jnp.int32)
    if len(starts) == 1:
        return Found(search(starts[0]), n, n)
    ends = each_in_turn(search, n, starts)
    loss = jnp.where(ends.projected_gradient <= GRADIENT_TOLERANCE, ends.value, jnp.inf)
    lowest, ordered = jnp.argmax(loss <= loss.min() + _SAME_LOSS), jnp.sort(loss)
    differ = jnp.isfinite(ordered[1:]) & (ordered[1:] > ordered[:-1] + _SAME_LOSS)
    return Found(jax.tree.map(lambda values: values[lowest], ends), n, 1 + differ.sum(dtype=jnp.int32))


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


class Minimum(NamedTuple):
    """The last point of a minimisation."""

    point: Point
    value: Float[Array, ""]
    gradient: Point
    #: Largest absolute coordinate of the projected gradient; 0 at an exact optimum of the box.
    projected_gradient: Float[Array, ""]
    #: A positive definite approximation to the Hessian; empty for many parameters.
    curvature: Square
    n_steps: Int[Array, ""]


def minimise_in_box(
    fn: Callable[[Point], Float[Array, ""]],
    start: Point,
    low: Point,
    high: Point,
    *,
    tolerance: float,
    curvature: Float[Array, "dense dense"] | None = None,
    steps_by_hessian: int | Int[Array, ""] = 20,
    max_steps: int = 500,
    is_exact: bool | Bool[Array, ""] = False,
) -> Minimum:
    """Minimise a twice differentiable function within ``low <= x <= high``.

    The start is moved into the box first. Of more than :data:`MOST_DENSE` parameters no matrix is held, and the
    ``curvature`` is empty. Otherwise the start's Hessian is computed unless an approximate ``curvature`` without NaN is
    given, and again after every ``steps_by_hessian`` steps; 1 is Newton's method. If ``is_exact``, the curvature at the
    end is its Hessian, otherwise one that gradients have told since. If the loss is not finite at the
    start, or no longer falls, the search ends with a projected gradient above the tolerance (or NaN), which the caller
    has to check.
    """
    value_and_gradient = jax.jit(jax.value_and_grad(fn))  # so that the derivative is traced once
    n, is_dense = len(start), dense_size(len(start)) > 0

    def evaluate(number: Int[Array, ""] | int, state: _Progress) -> _Evaluated:
        """Take the trial step; or one of the displacements from the last point by which the Hessian is learned."""
        coordinate, step = _displacement(number, state.minimum.point)
        point = jnp.clip(state.minimum.point + 0.5**state.halvings * state.step, low, high)
        point = jnp.where(state.learns, state.minimum.point.at[coordinate].add(step), point)
        return _Evaluated(point, *value_and_gradient(point))

    def evaluated(state: _Progress) -> tuple[_Evaluated, Square]:
        """Evaluate once, or for a whole Hessian: one place, so that the function is compiled once."""

        def add(number: Int[Array, ""], sums: tuple[_Evaluated, Square]) -> tuple[_Evaluated, Square]:
            found = evaluate(number, state)
            return found, _added(sums[1], number, state.minimum.point, found.gradient)

        nothing = _Evaluated(state.step, state.minimum.value, state.step), jnp.zeros_like(state.minimum.curvature)
        found: tuple[_Evaluated, Square] = lax.fori_loop(0, jnp.where(state.learns, 2 * n, 1), add, nothing)
        return found

    def advance(state: _Progress) -> _Progress:
        if not is_dense:
            return tried(state, evaluate(0, state))
        found, rows = evaluated(state)
        progress: _Progress = lax.cond(state.learns, lambda: learned(state, rows), lambda: tried(state, found))
        return progress

    def active_at(current: Minimum) -> Bool[Array, " parameter"]:
        return _active(current.point, current.gradient, current.projected_gradient, low, high)

    def learned(state: _Progress, rows: Square) -> _Progress:
        """Step by the Hessian."""
        current, active, count = state.minimum, active_at(state.minimum), jnp.zeros_like(state.age)
        done = ~(current.projected_gradient > tolerance)
        matrix = convex(_free((rows + rows.T) / 2, active))
        current = current._replace(curvature=matrix)
        return _Progress(current, _newton_step(matrix, current.gradient), count, count, done, ~state.learns)

    def tried(state: _Progress, found: _Evaluated) -> _Progress:
        """Accept the trial step, or halve it."""
        current, (point, value, gradient) = state.minimum, found
        moved = point - current.point
        noise = 8 * float(np.finfo(point.dtype).eps) * jnp.abs(current.value)
        falls = value <= current.value + _SUFFICIENT_DECREASE * current.gradient @ moved + noise
        turned = gradient - current.gradient
        matrix = _updated(current.curvature, moved, turned) if is_dense else current.curvature
        distance = jnp.max(jnp.abs(point - jnp.clip(point - gradient, low, high)))
        trial = Minimum(point, value, gradient, distance, matrix, current.n_steps + 1)
        current = jax.tree.map(lambda new, old: jnp.where(falls, new, old), trial, current)
        age, halvings = jnp.where(falls, state.age + 1, state.age), jnp.where(falls, 0, state.halvings + 1)

        stuck = (halvings > _HALVINGS) | (jnp.all(moved == 0) & (current.n_steps > 0))
        searches = current.projected_gradient > tolerance
        learns = jnp.where(searches, (age >= steps_by_hessian) | (stuck & (age > 0)), is_exact)
        active = active_at(current)
        if is_dense:
            step = jnp.where(falls, _newton_step(_free(current.curvature, active), current.gradient), state.step)
        else:
            learns = jnp.zeros((), bool)
            step = lax.cond(falls, lambda: _truncated_step(gradient_at, current, active), lambda: state.step)
        done = ~(searches | learns) | (stuck & ~learns) | (searches & (current.n_steps >= max_steps))
        return _Progress(current, step, halvings, age, done, learns & ~done)

    def gradient_at(point: Point) -> Point:
        return jnp.asarray(value_and_gradient(point)[1])

    zero, count, unknown = jnp.zeros_like(start), jnp.zeros((), jnp.int32), jnp.full((), jnp.nan, start.dtype)
    size = dense_size(len(start))
    unknown_curvature = jnp.full((size, size), jnp.nan, start.dtype)
    curvature = unknown_curvature if curvature is None else curvature
    known = jnp.all(jnp.isfinite(curvature))
    initial = Minimum(
        point=jnp.clip(start, low, high),
        value=jnp.full_like(unknown, jnp.inf),
        gradient=zero,
        projected_gradient=unknown,
        curvature=jnp.where(known, curvature, jnp.eye(size, dtype=start.dtype)),
        n_steps=count - 1,
    )
    first = _Progress(
        initial, zero, count, jnp.where(known, count, steps_by_hessian), jnp.zeros((), bool), jnp.zeros((), bool)
    )
    return lax.while_loop(lambda state: ~state.done, advance, first).minimum


class _Progress(NamedTuple):
    """The last accepted point, the step to try from there, and whether the search is done."""

    minimum: Minimum
    step: Point
    #: How often the step has been halved.
    halvings: Int[Array, ""]
    #: Steps since the last Hessian.
    age: Int[Array, ""]
    done: Bool[Array, ""]
    #: Whether the Hessian is computed next.
    learns: Bool[Array, ""]


class _Evaluated(NamedTuple):
    """A point where the function has been evaluated."""

    point: Point
    value: Float[Array, ""]
    gradient: Point


def hessian(gradient: Callable[[Point], Point], x: Point) -> Square:
    """Return the Hessian of a function by central differences of its gradient.

    They are as precise as a search or a mass matrix needs (1e-9 of the largest entry), take half the time of second
    derivatives here, and leave those uncompiled: most of what a search took to compile.
    """

    def add(number: Int[Array, ""], rows: Square) -> Square:
        coordinate, step = _displacement(number, x)
        return _added(rows, number, x, gradient(x.at[coordinate].add(step)))

    rows: Square = lax.fori_loop(0, 2 * len(x), add, jnp.zeros((len(x), len(x)), x.dtype))
    return (rows + rows.T) / 2


def _displacement(number: Int[Array, ""] | int, x: Point) -> tuple[Int[Array, ""] | int, Float[Array, ""]]:
    """Return the coordinate, and by how much it is moved, of one of the evaluations that a Hessian takes."""
    coordinate = number // 2
    size = _DIFFERENCE * jnp.maximum(1.0, jnp.abs(x[coordinate]))
    return coordinate, jnp.where(number % 2 == 0, size, -size)


def _added(rows: Square, number: Int[Array, ""], x: Point, gradient: Point) -> Square:
    """Add what a displacement tells of a row of the Hessian."""
    coordinate, step = _displacement(number, x)
    return rows.at[coordinate].add(gradient / (2 * step))


def convex(hessian: Square) -> Square:
    """Return the Hessian with its eigenvalues replaced by their absolute values, bounded away from 0."""
    curvature, basis = jnp.linalg.eigh(hessian)
    floor = jnp.maximum(_SMALLEST_CURVATURE * jnp.max(jnp.abs(curvature)), _NO_CURVATURE)
    return jnp.asarray(basis @ jnp.diag(jnp.maximum(jnp.abs(curvature), floor)) @ basis.T)


def _updated(curvature: Square, moved: Point, turned: Point) -> Square:
    """Return the curvature after a damped BFGS update from a move and the change of gradient."""
    expected = curvature @ moved
    along, seen = moved @ expected, moved @ turned
    agrees = seen >= _LEAST_AGREEMENT * along
    share = jnp.where(agrees, 1.0, (1 - _LEAST_AGREEMENT) * along / jnp.where(agrees, 1.0, along - seen))
    damped = share * turned + (1 - share) * expected
    new = curvature - jnp.outer(expected, expected) / along + jnp.outer(damped, damped) / (moved @ damped)
    return jnp.where(along > 0, new, curvature)


def _active(
    x: Point, gradient: Point, distance: Float[Array, ""], low: Point, high: Point
) -> Bool[Array, " parameter"]:
    """Return which coordinates lie at a bound, or within 1e-6 of it, and are pushed against it by the gradient."""
    margin = jnp.minimum(1e-6, distance)
    return ((x <= low + margin) & (gradient > 0)) | ((x >= high - margin) & (gradient < 0))


def _free(curvature: Square, active: Bool[Array, " parameter"]) -> Square:
    """Return the curvature of the free coordinates, and the identity for those that are held."""
    return jnp.where(~active[:, None] & ~active[None, :], curvature, jnp.eye(len(active), dtype=curvature.dtype))


def _newton_step(curvature: Square, gradient: Point) -> Point:
    """Return the Newton step, shortened so that no coordinate moves by more than ``_LARGEST_STEP``."""
    return _shortened(-cho_solve(cho_factor(curvature), gradient))


class _Conjugate(NamedTuple):
    """How far conjugate gradients have come."""

    step: Point
    #: What the step leaves of the equation, and the direction to go next.
    residual: Point
    direction: Point
    done: Bool[Array, ""]
    n: Int[Array, ""]


def _truncated_step(
    gradient_at: Callable[[Point], Point], current: Minimum, active: Bool[Array, " parameter"]
) -> Point:
    """Return the Newton step by conjugate gradients, shortened likewise; they end where the curvature is negative.

    As in Nocedal and Wright 2006, algorithm 7.1, doi:10.1007/978-0-387-40065-5.
    """
    _, pulled_back = jax.vjp(gradient_at, current.point)
    size = jnp.linalg.norm(current.gradient)
    accuracy = size * jnp.minimum(0.1, jnp.sqrt(size))

    def advance(state: _Conjugate) -> _Conjugate:
        step, residual, direction, _, n = state
        product = jnp.where(active, direction, pulled_back(jnp.where(active, 0.0, direction))[0])
        along, length = direction @ product, residual @ residual
        is_convex = along > _NO_CURVATURE * (direction @ direction)
        share = length / jnp.where(is_convex, along, 1.0)
        step = jnp.where(is_convex, step + share * direction, jnp.where(n > 0, step, direction))
        left = residual - share * product
        direction = left + left @ left / length * direction
        return _Conjugate(step, left, direction, ~is_convex | (jnp.linalg.norm(left) <= accuracy), n + 1)

    downhill = -current.gradient
    none = jnp.zeros_like(downhill), downhill, downhill, size == 0, jnp.zeros((), jnp.int32)
    end = lax.while_loop(lambda state: ~state.done & (state.n < _PRODUCTS), advance, _Conjugate(*none))
    return _shortened(end.step)


def _shortened(step: Point) -> Point:
    return jnp.asarray(step * jnp.minimum(1.0, _LARGEST_STEP / jnp.max(jnp.abs(step))))
