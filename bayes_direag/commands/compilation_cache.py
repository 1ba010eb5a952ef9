"""Where the front door keeps compiled computations, so that the next command need not compile them again."""

import os
import sys
from pathlib import Path

from platformdirs import user_cache_path


def keep_compiled() -> None:
    """Have JAX keep what takes it long to compile in a folder of the user's own; before JAX is imported.

    Whoever has set JAX's own variables (``JAX_COMPILATION_CACHE_DIR``, ``JAX_ENABLE_COMPILATION_CACHE``) is obeyed. A
    folder that cannot be made, or JAX being there already, leaves everything as it was.
    """
    if "jax" in sys.modules or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    folder = compiled_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")


def compiled_folder() -> Path:
    """Return the folder; it may be emptied at any time."""
    return user_cache_path("bayes-direag", appauthor=False) / "compiled"
