"""The journal of a run: every finished generation, written to disk before it counts."""

import asyncio
import fcntl
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from bayes_direag.errors import DirEAGError
from elicitation.generation import Generation, Key

VERSION = 1


class JournalError(DirEAGError):
    """A journal that cannot be read, written or continued."""


class Entry(BaseModel):
    """One finished generation, which is one line of the journal: its key, its request, and what came back."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    problem_id: str
    level: int
    sample: int
    attempt: int
    seed: int
    prompt: str  # the digest of the messages
    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    final_tokens: Annotated[tuple[tuple[str, float], ...], Field(exclude_if=lambda tokens: not tokens)] = ()
    seconds: float  # from the request to the reply, retries included

    @property
    def key(self) -> Key:
        """The key of the generation."""
        return Key(self.problem_id, self.level, self.sample, self.attempt)

    @property
    def generation(self) -> Generation:
        """The reply of the engine."""
        counts = self.prompt_tokens, self.completion_tokens
        return Generation(self.text, self.finish_reason, *counts, self.final_tokens)


class Journal:
    """An append-only file: a header with the identity of the run, then one line for each finished generation.

    Opening creates the file, or continues it, and locks it. An incomplete last line is removed, as its generation did
    not count. The identity, which is all that determines generations (model, prompts, sampling ...), must be the same,
    unless the journal has no generations. Raises JournalError, and leaves the file unchanged, if it is not a journal,
    is in use, has a generation twice, or was written under another identity.
    """

    def __init__(self, path: str | Path, identity: Mapping[str, JsonValue]) -> None:
        self.path, self.identity, self.entries = Path(path), dict(identity), dict[Key, Entry]()
        self._lock = threading.Lock()
        self._file = self.path.open("ab", buffering=0)
        try:
            self._claim()
            header = json.dumps({"journal": VERSION, "identity": self.identity})
            whole = self.path.read_bytes()
            if not header.encode().startswith(whole):  # neither new nor with an incomplete header
                recorded, self.entries = read_journal(self.path)
                if self.entries:
                    _check_identity(self.path, recorded, json.loads(header)["identity"])
            self._size = whole.rfind(b"\n") + 1 if self.entries else 0
            self._file.truncate(self._size)
            if not self._size:
                self._write(header)
        except BaseException:
            self._file.close()
            raise

    async def append(self, entry: Entry) -> None:
        """Write one generation to disk, waiting in a thread, and add it to the entries.

        Raises JournalError if the disk is full or fails; the line is then removed.
        """
        await asyncio.to_thread(self._write, entry.model_dump_json())
        self.entries[entry.key] = entry

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._file.close()

    def _claim(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise JournalError(
                f"{self.path}: saw another run writing here; expected none. Wait for it, or choose another folder."
            ) from error

    def _write(self, line: str) -> None:
        data, written = line.encode() + b"\n", 0
        with self._lock:
            try:
                while written < len(data):
                    written += os.write(self._file.fileno(), data[written:])
                os.fsync(self._file)
            except OSError as error:
                self._file.truncate(self._size)
                raise JournalError(
                    f"{self.path}: a generation could not be written ({error.strerror or error}); expected a disk with "
                    "space. The generations before it are safe: make room, and give the same command to continue."
                ) from error
            self._size += len(data)


def read_journal(path: str | Path) -> tuple[dict[str, JsonValue], dict[Key, Entry]]:
    """Return the identity and the generations of a journal, without an incomplete last line.

    Raises JournalError if there is no such file, or it is not a journal.
    """
    path = Path(path)
    if not path.is_file():
        raise JournalError(f"{path}: saw no such file; expected the journal of a run. Check the path.")
    first, *lines = path.read_bytes().split(b"\n")
    try:
        header = json.loads(first)
        if header["journal"] != VERSION:
            raise ValueError
        identity = dict(header["identity"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise JournalError(
            f"{path}, line 1: saw {first[:60]!r}; expected the header of a journal of version {VERSION}. Choose "
            "another folder."
        ) from error
    entries: dict[Key, Entry] = {}
    for number, line in enumerate(lines[:-1], 2):
        try:
            entry = Entry.model_validate_json(line)
            if entries.setdefault(entry.key, entry) is not entry:
                raise ValueError
        except ValueError as error:
            raise JournalError(
                f"{path}, line {number}: saw {line[:60]!r}; expected one finished generation, and each once. Remove "
                "the line."
            ) from error
    return identity, entries


def _check_identity(path: Path, recorded: Mapping[str, JsonValue], current: Mapping[str, JsonValue]) -> None:
    before, now = _flat(recorded), _flat(current)
    differences = [
        f"  {name}: {before.get(name, 'nothing')} there, {now.get(name, 'nothing')} here"
        for name in before | now
        if before.get(name) != now.get(name)
    ]
    if differences:
        raise JournalError(
            f"{path}: saw a run with other settings; expected the same, or a new folder:\n"
            + "\n".join(differences)
            + "\nGive the settings of that run to continue it, or choose another folder."
        )


def _flat(values: Mapping[str, JsonValue], prefix: str = "") -> dict[str, str]:
    """Return the JSON text of every setting, by its path."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        path = f"{prefix}{name}"
        flat |= _flat(value, f"{path}.") if isinstance(value, dict) else {path: json.dumps(value)}
    return flat
