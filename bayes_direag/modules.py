"""Modules that Python would not find by name alone: our own packages beside this one, and files of the user.

A user's project may have packages called ``analysis`` or ``elicitation`` too, and Python imports the first on its path.
"""

import importlib.util
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from bayes_direag.errors import DirEAGError

#: The folder in which this package, ``analysis`` and ``elicitation`` are installed.
HOME = Path(__file__).resolve().parents[1]


class ShadowError(DirEAGError, ModuleNotFoundError):
    """A package of ours cannot be imported, because one of the user with its name has been."""


def take(name: str) -> None:
    """Import a package from :data:`HOME`, if it is there, regardless of ``sys.path``.

    Raises ShadowError if a module of the user with that name has been imported before.
    """
    if not (HOME / name).is_dir():
        return
    sys.path.insert(0, str(HOME))
    try:
        module = import_module(name)
    finally:
        sys.path.remove(str(HOME))
    if HOME / name not in map(Path, getattr(module, "__path__", ())):
        raise ShadowError(
            f"{name} of bayes-direag cannot be imported; saw {module.__file__}, which Python found first; expected "
            f"{HOME / name}. Run Python with -P (which leaves the current folder out), or rename your package."
        )


def function_of(name: str) -> Callable[..., Any]:
    """Return the function that ``FILE.py:FUNCTION`` names; the file is run.

    Raises DirEAGError if there is no such file or function, or the file cannot be run.
    """
    file, _, function = name.rpartition(":")
    path, expected = Path(file).expanduser(), "expected FILE.py:FUNCTION, such as models.py:my_model."
    if not path.is_file():
        raise DirEAGError(f"{name}: there is no file {file}; {expected}")
    module = _run(path)
    value: object = getattr(module, function, None)
    if not callable(value):
        names = ", ".join(key for key, known in vars(module).items() if callable(known) and key[0] != "_")
        raise DirEAGError(
            f"{name}: saw no function {function!r} in {file}; expected one of {names or 'its functions'}."
        )
    return value


def _run(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise DirEAGError(f"{path}: saw another file; expected a Python file, whose name ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that Python finds the text of its functions
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise DirEAGError(f"{path}: {type(error).__name__}: {error}; expected a file that runs.") from error
    return module
