"""Folders of results, which are written completely or not at all, and never replace other files."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from analysis.display.document import LeftOut, Picture
from analysis.display.style import save_figure
from bayes_direag.commands.options import require_parent
from bayes_direag.data.atomic import atomic_path, folder_beside
from bayes_direag.data.files import as_records, write_table
from bayes_direag.errors import DirEAGError
from bayes_direag.model.settings import Settings


def versions(*names: str) -> dict[str, str]:
    """Return the versions of this package and of others, for a record."""
    return {name: version(name) for name in ("bayes-direag", *names)}


def jsonable(value: object) -> object:
    """Return a result for JSON: tables as lists of rows, dataclasses as dicts, undefined numbers as None."""
    if isinstance(value, Settings):
        return value.model_dump(mode="json")
    if isinstance(value, pd.DataFrame):
        return jsonable(as_records(value))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(name): jsonable(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_record(record: Mapping[str, object], path: Path) -> None:
    """Write a record as JSON, completely or not at all."""
    text = json.dumps(jsonable(record), indent=2, allow_nan=False)
    with atomic_path(path) as partial_path:
        partial_path.write_text(f"{text}\n", encoding="utf-8")


@dataclass(frozen=True)
class ResultFolder:
    """A kind of result folder: its JSON ``record``, the names of its CSV tables and PNG figures, and other files."""

    kind: str
    record: str
    tables: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def contents(self) -> frozenset[str]:
        """The names of all files that it may have."""
        tables, figures = (f"{name}.csv" for name in self.tables), (f"{name}.png" for name in self.figures)
        return frozenset((self.record, *tables, *figures, *self.others))

    def write(
        self,
        folder: str | Path,
        record: Mapping[str, object],
        tables: Mapping[str, pd.DataFrame],
        pictures: Iterable[Picture | LeftOut],
    ) -> None:
        """Write a result as a folder, completely or not at all; an earlier result of this kind is replaced."""
        with self.replacing(folder) as whole:
            for name, table in tables.items():
                write_table(table, whole / f"{name}.csv")
            for picture in pictures:
                if isinstance(picture, Picture):
                    save_figure(picture.figure, whole / f"{picture.name}.png")
            write_record(record, whole / self.record)

    def check(self, folder: str | Path) -> None:
        """Raise DirEAGError unless writing to the folder replaces nothing but an earlier result of this kind."""
        folder = Path(folder)
        require_parent(folder)
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
                f"{folder}: saw {seen}; expected a new or empty folder, or one with an earlier {self.kind} and "
                "nothing else. Choose another, or move away what is there."
            )

    def check_apart(self, folder: Path) -> None:
        """Raise DirEAGError unless files can be added to the folder, and it is no result of this kind."""
        require_parent(folder)
        if folder.exists() and not folder.is_dir():
            raise DirEAGError(f"{folder}: saw a file; expected a folder, new or not. Choose another name.")
        if (folder / self.record).exists():
            raise DirEAGError(
                f"{folder}: saw an earlier {self.kind} there; expected a folder of its own. Choose another."
            )

    def _strangers(self, folder: Path) -> list[str]:
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
        """Yield an empty folder that replaces ``folder`` if the block succeeds; if it fails, nothing changes."""
        self.check(folder)
        folder = Path(folder).resolve()
        with folder_beside(folder) as temporary:
            whole, before = temporary / "whole", temporary / "before"
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
