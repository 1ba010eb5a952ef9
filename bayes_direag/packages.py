"""Import of ``analysis`` and ``elicitation`` from beside this package, even if the user has folders of these names.

A user's project may have packages with these common names, and Python imports the first on its path.
"""

import sys
from importlib import import_module
from pathlib import Path

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
