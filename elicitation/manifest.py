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

from bayes_direag.data.atomic import atomic_path
from bayes_direag.errors import DirEAGError
from elicitation.engines import EngineInfo
from elicitation.questions import Problem


class Session(BaseModel):
    """One session of a run; a resumed run has several."""

    model_config = ConfigDict(extra="forbid")

    started: str = Field(default_factory=lambda: now())
    ended: str | None = None  # None if it was killed
    engine: EngineInfo | None = None  # None if nothing was asked
    generations: int | None = None
    models: list[str] = Field(default_factory=list)  # that replies named
    outcome: str = "running"  # complete, killed, or the type of the error
    versions: dict[str, str] = Field(default_factory=lambda: installed_versions())


class Manifest(BaseModel):
    """The settings and results of a run, without any API key."""

    model_config = ConfigDict(extra="forbid")

    format: int = 1
    identity: dict[str, JsonValue]  # what must not change when the run is resumed
    protocol: JsonValue  # the full prompts
    policy: JsonValue = None
    questions: dict[str, JsonValue]
    complete: bool = False  # whether there are no open slots
    counts: dict[str, int] = Field(default_factory=dict)  # of generations, and of settled replies by status
    levels: list[dict[str, JsonValue]] = Field(default_factory=list)
    sessions: list[Session] = Field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write the manifest, completely or not at all."""
        with atomic_path(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")


def earlier_sessions(path: Path) -> list[Session]:
    """Return the sessions in a manifest, none if there is no manifest.

    A session whose outcome is still ``running`` was killed. Raises DirEAGError if the file is not a manifest.
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


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a run depends on."""
    numbers = {"python": platform.python_version()}
    for name in ("bayes-direag", "httpx2", "pydantic"):
        with suppress(PackageNotFoundError):
            numbers[name] = version(name)
    return numbers


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
