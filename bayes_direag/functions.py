"""Functions of the user that are named as ``FILE.py:FUNCTION``."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from bayes_direag.errors import DirEAGError


def function_of(name: str) -> Callable[..., Any]:
    """Return the function that ``FILE.py:FUNCTION`` names; the file is run.

    Raises DirEAGError if there is no such file or function, or the file cannot be run.
    """
    file, _, function = name.rpartition(":")
    path, expected = Path(file).expanduser(), "expected FILE.py:FUNCTION, such as models.py:my_model."
    if not path.is_file():
        raise DirEAGError(f"{name}: there is no file {file}; {expected}")
    module = _run(path)
    found: object = getattr(module, function, None)
    if not callable(found):
        known = ", ".join(key for key, value in vars(module).items() if callable(value) and key[0] != "_")
        raise DirEAGError(
            f"{name}: saw no function {function!r} in {file}; expected one of {known or 'its functions'}."
        )
    return found


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
