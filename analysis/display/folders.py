"""Folders of results: whole or not there at all, and never in the place of anyone else's files."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bayes_direag.errors import DirEAGError


@dataclass(frozen=True)
class ResultFolder:
    """One kind of folder.

    Attributes
    ----------
    kind : str
        What it holds: "diagnosis".
    record : str
        The file that every such folder has.
    contents : frozenset of str
        Names of all files that it may have, the record among them. ``fits/*.nc`` allows such files in a subfolder.
    """

    kind: str
    record: str
    contents: frozenset[str]

    def check(self, folder: str | Path) -> None:
        """Make sure that writing to the folder loses nothing but an earlier result of the same kind.

        Raises DirEAGError if it is a file or the current folder, or holds anything that no result of this kind has
        written.
        """
        folder = Path(folder)
        if not folder.exists():
            return
        if not folder.is_dir():
            seen = "a file"
        elif folder.resolve() == Path.cwd():
            seen = "the current folder, which cannot be replaced while you are in it"
        else:
            strangers = self._strangers(folder)
            seen = ", ".join(strangers[:3]) + (f", ... ({len(strangers)} in all)" if len(strangers) > 3 else "")
        if seen:
            raise DirEAGError(
                f"--out {folder}: saw {seen}; expected a new or empty folder, or one with an earlier {self.kind} and "
                "nothing else. Choose another, or move away what is there."
            )

    def _strangers(self, folder: Path) -> list[str]:
        """Name what is in a folder, and has not been written there by a result of this kind."""
        entries = sorted(folder.iterdir())
        if not (folder / self.record).is_file():
            return [entry.name for entry in entries]
        subfolders = {name.partition("/")[0] for name in self.contents if "/" in name}
        inside = [file for entry in entries if entry.is_dir() and entry.name in subfolders for file in entry.iterdir()]
        outside = [entry for entry in entries if not (entry.is_dir() and entry.name in subfolders)]
        names = [entry.relative_to(folder).as_posix() for entry in outside + sorted(inside)]
        return [name for name in names if not any(fnmatchcase(name, known) for known in self.contents)]

    @contextmanager
    def replacing(self, folder: str | Path) -> Iterator[Path]:
        """Yield an empty folder that takes the place of ``folder`` once the block has succeeded.

        If the block fails, what was there before is there still, and nothing else.

        Raises DirEAGError as :meth:`check` does.
        """
        self.check(folder)
        folder = Path(folder).resolve()
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
            whole, before = Path(temporary) / "whole", Path(temporary) / "before"
            whole.mkdir()
            yield whole
            try:
                if folder.exists():
                    folder.rename(before)
                whole.rename(folder)
            except BaseException:
                if before.exists() and not folder.exists():
                    before.rename(folder)
                raise
