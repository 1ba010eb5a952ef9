"""The manifest of a run: everything needed to repeat it."""

import hashlib
import json
import platform
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from bayes_direag.data.files import atomic_path
from bayes_direag.errors import DirEAGError
from elicitation.engines import EngineInfo
from elicitation.questions import Problem


class Session(BaseModel):
    """One stretch of work on a run: a run that was resumed has several.

    Attributes
    ----------
    started, ended
        In UTC, in ISO form; ``ended`` is None if the session was killed.
    engine, generations
        What answered, None if nothing was asked; and how many generations were finished.
    outcome
        ``running``, ``complete``, ``waiting`` (for a batch service), ``killed``, or the kind of error that ended it.
    versions
        Of Python and of the packages that count.
    """

    model_config = ConfigDict(extra="forbid")

    started: str = Field(default_factory=lambda: now())
    ended: str | None = None
    engine: EngineInfo | None = None
    generations: int | None = None
    outcome: str = "running"
    versions: dict[str, str] = Field(default_factory=lambda: versions())


class Manifest(BaseModel):
    """What a run was made with and what came out; never a key.

    Attributes
    ----------
    identity, protocol
        What must not change when the run is resumed; the prompts in full.
    questions
        Name, kind, number and SHA-256 of the questions, and the odd rows of the source.
    complete, counts, levels
        Whether every reply is there; generations, and settled replies by status; the summary by level.
    sessions
        In order.
    """

    model_config = ConfigDict(extra="forbid")

    format: int = 1
    identity: dict[str, JsonValue]
    protocol: JsonValue
    questions: dict[str, JsonValue]
    complete: bool = False
    counts: dict[str, int] = Field(default_factory=dict)
    levels: list[dict[str, JsonValue]] = Field(default_factory=list)
    sessions: list[Session] = Field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write the manifest; whole or not at all."""
        with atomic_path(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")


def earlier_sessions(path: Path) -> list[Session]:
    """Return the sessions that a manifest names, none if there is no manifest.

    One that still says ``running`` had no time to say more, and has been killed. Raises DirEAGError if the file is no
    manifest.
    """
    if not path.exists():
        return []
    try:
        sessions = Manifest.model_validate_json(path.read_text(encoding="utf-8")).sessions
    except (ValidationError, UnicodeDecodeError) as error:
        raise DirEAGError(
            f"{path}: saw no manifest of this version; expected one. Move it away; the run needs only the journal."
        ) from error
    ended = {"outcome": "killed"}
    return [session.model_copy(update=ended if session.outcome == "running" else None) for session in sessions]


def questions_digest(problems: Sequence[Problem]) -> str:
    """Return the SHA-256 of the ids, texts and gold answers of questions, in their order."""
    texts = [[problem.problem_id, problem.question, problem.gold_answer] for problem in problems]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of what a run depends on."""
    numbers = {"python": platform.python_version()}
    for name in ("bayes-direag", "openai", "pydantic"):
        with suppress(PackageNotFoundError):
            numbers[name] = version(name)
    return numbers


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
