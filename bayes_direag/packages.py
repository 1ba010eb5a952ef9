"""Import of ``analysis`` and ``elicitation`` from beside this package, even if the user has folders of these names.

A user's project may have packages with these common names, and Python imports the first on its path.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from bayes_direag.errors import DirEAGError

#: The folder in which this package, ``analysis`` and ``elicitation`` are installed.
HOME = Path(__file__).resolve().parents[1]


class ShadowError(DirEAGError, ModuleNotFoundError):
    """One of these packages cannot be imported, because a package of the user with its name has been."""


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
    if not _is_ours(module):
        raise _shadowed(name, module)


class Shadowed:
    """The last finder of ``sys.meta_path``: explains why a module of ours was not found, if it is shadowed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:  # noqa: ARG004 - Python's signature
        """Raise ShadowError if the module is ours, but another package has the name of its package."""
        top, _, rest = name.partition(".")
        module, ours = sys.modules.get(top), HOME.joinpath(*name.split("."))
        if rest and module and not _is_ours(module) and (ours.is_dir() or ours.with_suffix(".py").is_file()):
            raise _shadowed(name, module)


def _is_ours(module: Any) -> bool:
    return HOME / module.__name__ in map(Path, getattr(module, "__path__", ()))


def _shadowed(name: str, module: Any) -> ShadowError:
    return ShadowError(
        f"{name} of bayes-direag cannot be imported; saw {module.__file__}, which Python found first under the name "
        f"{module.__name__}; expected {HOME / module.__name__}. Use the command direag, run Python with -P (which "
        "leaves the current folder out), or rename your package."
    )
