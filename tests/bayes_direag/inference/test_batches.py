"""Batches whose members come one after the other give what each gives alone, and share what is compiled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_direag.inference.newton import each_in_turn


def summed(table: jax.Array, weight: jax.Array) -> dict[str, jax.Array]:
    return {"sum": weight @ table, "largest": table.max()}


@jax.jit
def all_summed(n: jax.Array, table: jax.Array, weight: jax.Array) -> dict[str, jax.Array]:
    return each_in_turn(summed, n, table, weight)


@pytest.mark.parametrize("n", [1, 5, 32, 33])
def test_batch_members_are_what_they_are_alone_and_the_rest_is_nothing(n: int) -> None:
    rng = np.random.default_rng(n)
    batch = rng.normal(size=(n, 3, 2)).astype(np.float32), rng.normal(size=(n, 3)).astype(np.float32)
    padded = (np.pad(part, [(0, 64 - n), *[(0, 0)] * (part.ndim - 1)]) for part in batch)
    sums = all_summed(jnp.asarray(n), *padded)
    expected = jax.vmap(summed)(*batch)
    for name, every in sums.items():
        np.testing.assert_allclose(every[:n], expected[name], rtol=1e-6)
        np.testing.assert_array_equal(every[n:], 0)
