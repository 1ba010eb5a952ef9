"""What stands in the packages installed beside this one, although a folder of the user's bears the name of one.

``analysis`` and ``elicitation`` are names that a project may have of its own, and Python takes the first on its path.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from bayes_direag.errors import DirEAGError

#: The folder that this package and those beside it are installed in.
HOME = Path(__file__).resolve().parents[1]


class ShadowError(DirEAGError, ModuleNotFoundError):
    """A package of ours that cannot be imported, as one of the user's with its name has been."""


def take(name: str) -> None:
    """Import a package; one beside this one is taken from there, whatever comes first on ``sys.path``.

    Raises
    ------
    ShadowError
        If a module of the user's with that name has been imported before.
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
    """The last finder of ``sys.meta_path``: says why a module of ours was not found, where that is why."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:  # noqa: ARG004 - Python's signature
        """Raise if the module is one of ours, but another package has its package's name."""
        top, _, rest = name.partition(".")
        module, ours = sys.modules.get(top), HOME.joinpath(*name.split("."))
        if rest and module and not _is_ours(module) and (ours.is_dir() or ours.with_suffix(".py").is_file()):
            raise _shadowed(name, module)


def _is_ours(module: Any) -> bool:
    return HOME / module.__name__ in map(Path, getattr(module, "__path__", ()))


def _shadowed(name: str, module: Any) -> ShadowError:
    return ShadowError(
        f"{name} of bayes-direag cannot be imported; saw {module.__file__}, which Python found first under the name "
        f"{module.__name__}; expected {HOME / module.__name__}. Use the command direag, run Python with -P (the "
        "current folder is then left out), or give yours another name."
    )
