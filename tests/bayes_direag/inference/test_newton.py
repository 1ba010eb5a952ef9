from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from bayes_direag.inference.newton import Minimum, minimise_in_box

INF = np.inf


@partial(jax.jit, static_argnames=("fn", "max_steps"))
def compiled(fn, start, low, high, given, max_steps, search) -> Minimum:
    return minimise_in_box(lambda x: fn(x, *given), start, low, high, tolerance=1e-10, max_steps=max_steps, **search)


def minimise(fn, start, low=-INF, high=INF, *given, max_steps=500, **search) -> Minimum:
    start = jnp.asarray(start, float)
    box = (jnp.broadcast_to(jnp.asarray(side, float), start.shape) for side in (low, high))
    return compiled(fn, start, *box, given, max_steps, {"steps_by_hessian": 20} | search)


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def badly_scaled(x):
    return jnp.sum(jnp.asarray([1e-4, 1.0, 1e4]) * (x - jnp.asarray([3.0, -2.0, 1.0])) ** 2)


@pytest.mark.parametrize(
    ("fn", "start", "expected"),
    [
        (rosenbrock, [-1.2, 1.0, -0.5, 2.0], [1.0] * 4),
        (badly_scaled, [0.0, 0.0, 0.0], [3.0, -2.0, 1.0]),
        (lambda x: jnp.sum(jnp.logaddexp(x, -2 * x)), [30.0, -30.0], [np.log(2) / 3] * 2),
    ],
)
def test_newton_finds_known_minima(fn, start, expected) -> None:
    minimum = minimise(fn, start)
    np.testing.assert_allclose(minimum.point, expected, atol=1e-6)
    assert minimum.projected_gradient <= 1e-10
    assert 0 < minimum.n_steps < 60


def test_newton_leaves_a_saddle() -> None:
    minimum = minimise(lambda x: (x[0] ** 2 - 1) ** 2 + x[1] ** 2, [1e-3, 0.7])
    np.testing.assert_allclose(np.abs(minimum.point), [1, 0], atol=1e-8)


def bowl(x, matrix, centre):
    return 0.5 * (x - centre) @ matrix @ (x - centre) + jnp.sum(jnp.cosh(x))


VALUE_AND_GRADIENT = jax.jit(jax.value_and_grad(bowl))


@pytest.mark.parametrize("steps_by_hessian", [1, 20])
@pytest.mark.parametrize("seed", range(8))
def test_newton_in_a_box_agrees_with_a_bounded_solver(seed: int, steps_by_hessian: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(6, 6))
    matrix, centre = root @ root.T + 0.1 * np.eye(6), rng.normal(size=6) * 2
    low, high = -rng.random(6), rng.random(6)
    minimum = minimise(bowl, np.zeros(6), low, high, matrix, centre, steps_by_hessian=steps_by_hessian)
    theirs = optimize.minimize(
        VALUE_AND_GRADIENT, np.zeros(6), (matrix, centre), jac=True, method="L-BFGS-B",
        bounds=list(zip(low, high, strict=True)), options={"ftol": 1e-16, "gtol": 1e-10, "maxiter": 10_000},
    )  # fmt: skip
    assert minimum.projected_gradient <= 1e-10
    assert float(minimum.value) <= theirs.fun + 1e-12
    np.testing.assert_allclose(minimum.point, theirs.x, atol=1e-5)


def test_newton_moves_a_start_into_the_box() -> None:
    minimum = minimise(lambda x: jnp.sum(x), [5.0, 5.0], low=-1.0, high=2.0)
    assert minimum.point.tolist() == [-1, -1]
    assert minimum.projected_gradient == 0


def test_newton_does_not_converge_where_the_loss_is_not_a_number() -> None:
    minimum = minimise(lambda x: jnp.sum(jnp.log(x)), [-1.0])
    assert not minimum.projected_gradient <= 1e-6


def test_newton_shows_too_few_steps_in_the_gradient() -> None:
    minimum = minimise(rosenbrock, [-1.2, 1.0, -0.5, 2.0], max_steps=3)
    assert minimum.n_steps == 3
    assert minimum.projected_gradient > 1e-3


def test_newton_takes_a_known_curvature_for_the_hessian() -> None:
    there = minimise(badly_scaled, [0.0, 0.0, 0.0])
    np.testing.assert_allclose(there.curvature, np.diag([2e-4, 2.0, 2e4]), rtol=1e-6, atol=1e-9)
    wrong = minimise(badly_scaled, [2.0, -1.0, 0.0], curvature=2 * there.curvature, max_steps=1)
    right = minimise(badly_scaled, [2.0, -1.0, 0.0], curvature=there.curvature, max_steps=1)
    np.testing.assert_allclose(wrong.point, [2.5, -1.5, 0.5])  # half of the way, as it was told
    np.testing.assert_allclose(right.point, [3.0, -2.0, 1.0])


def test_newton_ends_with_the_hessian_if_it_is_to_be_exact() -> None:
    start = [1.2, 1.2, 1.2, 1.2]
    for known in ({}, {"curvature": jnp.eye(4)}):
        end = minimise(rosenbrock, start, **known, is_exact=jnp.asarray(True), steps_by_hessian=1000)
        assert end.projected_gradient <= 1e-10
        np.testing.assert_allclose(end.curvature, jax.jit(jax.hessian(rosenbrock))(end.point), rtol=1e-6, atol=1e-5)


def test_newton_learns_the_curvature_between_hessians() -> None:
    wrong = jnp.eye(4)
    learning = minimise(rosenbrock, [1.2, 1.2, 1.2, 1.2], curvature=wrong, steps_by_hessian=1000)
    assert learning.projected_gradient <= 1e-10
    assert learning.n_steps < 60
    assert np.linalg.eigvalsh(learning.curvature).min() > 0
    hessian = jax.jit(jax.hessian(rosenbrock))(learning.point)
    np.testing.assert_allclose(learning.curvature, hessian, rtol=0.1, atol=0.1 * np.abs(hessian).max())
