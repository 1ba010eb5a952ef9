"""What a program reads beside its argument is compared by value, or by identity where it cannot be."""

from collections.abc import Callable
from functools import partial
from threading import Lock

import jax.numpy as jnp
import numpy as np
import pytest

from bayes_direag.model.surroundings import Surroundings

SCALE = {"of": 1.0}
LOCK, OFFSET = Lock(), 0.0


def helper(value: float) -> float:
    return value * SCALE["of"] if value > 0 else program(value)


def program(value: float) -> float:
    with LOCK:
        return next(helper(each) for each in np.array([value]))


class Holder:
    def __init__(self) -> None:
        self.array = jnp.ones(2)

    def __call__(self, value: float) -> float:
        return self.method(value)

    def method(self, value: float) -> float:
        return float(self.array.sum()) * value + OFFSET


def test_surroundings_follow_globals_of_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Surroundings.of(program)
    assert Surroundings.of(program) == before
    monkeypatch.setitem(SCALE, "of", 2.0)
    assert Surroundings.of(program) != before
    monkeypatch.setitem(SCALE, "of", 1.0)
    assert Surroundings.of(program) == before
    monkeypatch.setattr(f"{__name__}.helper", lambda value: value)
    assert Surroundings.of(program) != before


@pytest.mark.parametrize("of_holder", [lambda it: it, lambda it: it.method, lambda it: partial(it.method, 2.0)])
def test_surroundings_follow_what_an_object_holds(of_holder: Callable[[Holder], object], monkeypatch) -> None:
    holder = Holder()
    before = Surroundings.of(of_holder(holder))
    assert Surroundings.of(of_holder(holder)) == before
    monkeypatch.setattr(f"{__name__}.OFFSET", 1.0)
    assert Surroundings.of(of_holder(holder)) != before
    monkeypatch.setattr(f"{__name__}.OFFSET", 0.0)
    assert Surroundings.of(of_holder(holder)) == before
    holder.array = 2 * holder.array
    assert Surroundings.of(of_holder(holder)) != before


def test_surroundings_follow_closures_and_arrays_that_change_in_place() -> None:
    array, empty = np.ones(3), 0.0

    def scaled(value: float, *, factor: float = 1.0) -> np.ndarray:
        return (lambda: array * value * factor * later)()

    before = Surroundings.of(scaled)
    array[1] = 2.0
    changed = Surroundings.of(scaled)
    assert changed != before
    later = empty
    assert Surroundings.of(scaled) != changed
    assert scaled(1.0).tolist() == [0, 0, 0]
