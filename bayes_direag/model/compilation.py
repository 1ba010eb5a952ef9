"""Compile functions for the shapes of their data, and forget what has not been used for long.

What is compiled for a shape holds up to 1,000 memory maps, of which Linux lets a process have 65,530, and up to 100 MB.
"""

import inspect
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import update_wrapper
from threading import Lock
from typing import Any

import jax
import numpy as np

#: How many shapes of a function's data stay compiled: those used last.
KEPT = 8
#: Of so many numbers or fewer the work is done before the optimiser of a compiler has improved it.
_FEW_NUMBERS = 1 << 20


class Compiled[**Arguments, Result]:
    """A function compiled once for all data of one shape; made by :func:`compiled`."""

    def __init__(self, function: Callable[Arguments, Result], static: tuple[str, ...], *, runs_long: bool) -> None:
        update_wrapper(self, function)
        self._function, self._static, self._runs_long = function, static, runs_long
        self._signature, self._lock = inspect.signature(function), Lock()
        #: By shape, the one used last at the end.
        self.programs: OrderedDict[Hashable, Any] = OrderedDict()

    def __call__(self, *arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        """Call the function, compiled."""
        result: Result = self.program(*arguments, **keywords)(*arguments, **keywords)
        return result

    def program(self, *arguments: Arguments.args, **keywords: Arguments.kwargs) -> Any:
        """Return what ``jax.jit`` makes of the function, for arguments of these shapes alone."""
        traced = self._signature.bind(*arguments, **keywords).arguments
        static = tuple(traced.pop(name) for name in self._static)
        leaves, structure = jax.tree.flatten(traced)
        shapes = tuple(np.shape(leaf) for leaf in leaves)
        with self._lock:
            key, forgotten = (static, structure, shapes), None
            program = self.programs.pop(key, None) or self._jitted(sum(map(np.size, leaves)))
            self.programs[key] = program
            if len(self.programs) > KEPT:
                _, forgotten = self.programs.popitem(last=False)
        if forgotten is not None:
            forgotten.clear_cache()
        return program

    def _jitted(self, n_numbers: int) -> Any:
        def function(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
            return self._function(*arguments, **keywords)

        is_short = n_numbers <= _FEW_NUMBERS and not self._runs_long
        options = {"xla_backend_optimization_level": 1} if is_short else {}
        if jax.config.read("jax_disable_most_optimizations"):  # type: ignore[no-untyped-call]
            options = {}
        return jax.jit(update_wrapper(function, self._function), static_argnames=self._static, compiler_options=options)


def compiled[**Arguments, Result](
    *static: str, runs_long: bool = False
) -> Callable[[Callable[Arguments, Result]], Compiled[Arguments, Result]]:
    """Compile a function as ``jax.jit`` does, for the shapes that it was called with last.

    Parameters
    ----------
    static
        The names of arguments that are no data: it is compiled for each of their values.
    runs_long
        Whether a call takes much longer than its compilation, even with few data.
    """
    return lambda function: Compiled(function, static, runs_long=runs_long)
