"""A folder for files that may lie beside others, but not in an evaluation's own folder."""

from pathlib import Path

from bayes_direag.commands.options import require_parent
from bayes_direag.errors import DirEAGError


def check_free_folder(target: Path) -> None:
    """Refuse ``--out`` where it is a file, has no folder to lie in, or is an evaluation's own folder.

    Raises DirEAGError in each of these cases.
    """
    from analysis.runs.evaluated_run import MANIFEST  # here, as its import takes a while

    require_parent(target)
    if target.exists() and not target.is_dir():
        raise DirEAGError(f"--out {target}: saw a file; expected a folder, new or not. Choose another name.")
    if (target / MANIFEST).exists():
        raise DirEAGError(f"--out {target}: saw an evaluation there; expected a folder of its own. Choose another.")
