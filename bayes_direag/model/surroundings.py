"""What a program of one's own reads beside its argument (globals, closures, its object), for which it is compiled.

In a notebook these change between two fits. JAX alone would not see it, and fit what it has compiled before.
"""

import io
import pickle
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

#: Modules whose values are compared by what they hold, beside that of the program; all others by identity.
_OPEN = ("builtins", "types", "functools", "collections", "numpy", "jaxlib._jax")


@dataclass(frozen=True)
class Surroundings:
    """The values that a program reads; equal if a program that is compiled for one holds for the other."""

    content: bytes
    #: What is compared by identity, which is kept, so that nothing else gets its ``id``.
    kept: tuple[object, ...] = field(compare=False)

    @classmethod
    def of(cls, program: object) -> "Surroundings":
        """Look at a function, method, partial or callable object as it is now, and at functions of its module."""
        written = program
        while isinstance(written, partial):
            written = written.func
        content = io.BytesIO()
        reader = _Reader(content, getattr(written, "__module__", None))
        reader.dump(program)
        return cls(content.getvalue(), tuple(reader.kept))


class _Reader(pickle.Pickler):
    """Write values down, and functions by the values that they read."""

    def __init__(self, content: io.BytesIO, module: str | None) -> None:
        super().__init__(content, protocol=5)
        self.module, self.kept = module, list[object]()

    def persistent_id(self, value: Any) -> int | None:
        """Return the identity of what is not looked into."""
        if isinstance(value, FunctionType | type | ModuleType):
            is_open = getattr(value, "__module__", "") == self.module
        else:
            is_open = type(value).__module__ in (self.module, *_OPEN)
        if is_open:
            return None
        self.kept.append(value)
        return id(value)

    def reducer_override(self, value: Any) -> Any:
        """Return what functions and classes read as the state of a nameless object, so that they may name themselves.

        What cannot be written, such as a lock or a generator, is compared by identity.
        """
        read: tuple[object, ...] = ()
        if isinstance(value, FunctionType):
            names = (name for name in _names(value.__code__) if name in value.__globals__)
            cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
            read = {name: value.__globals__[name] for name in names}, cells, value.__defaults__, value.__kwdefaults__
        elif isinstance(value, type):
            read = {name: each for name, each in vars(value).items() if not name.startswith("__")}, value.__bases__
        else:
            with suppress(Exception):
                value.__reduce_ex__(5)
                return NotImplemented
        self.kept.append(value)
        return object, (), (id(value), *read)


def _names(code: CodeType) -> list[str]:
    inner = (name for each in code.co_consts if isinstance(each, CodeType) for name in _names(each))
    return sorted({*code.co_names, *inner})
