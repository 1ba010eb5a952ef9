"""Batches whose members are computed one after the other, in one compiled computation for batches of many sizes.

On few cores that is as fast as all members at once (``jax.vmap``), and there is less to compile.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Shaped

from bayes_direag.model.evidence import padded_size

_LEAST_SIZE = 8


def padded_batch[Tree](batch: Tree) -> Tree:
    """Fill each array of a batch up with zeros, along its leading axis, to one of few sizes.

    Examples
    --------
    >>> padded_batch(np.ones((5, 3))).shape
    (8, 3)
    """

    def padded(array: Shaped[np.ndarray, "batch *rest"]) -> Shaped[np.ndarray, "size *rest"]:
        missing = padded_size(len(array), least=_LEAST_SIZE) - len(array)
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
