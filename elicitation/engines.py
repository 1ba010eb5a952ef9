"""Engines, which draw replies: their interface, and one with canned replies. Others ask servers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from bayes_direag.errors import DirEAGError
from elicitation.generation import ChatRequest, Generation
from elicitation.journal import read_journal


class EngineError(DirEAGError):
    """An engine that cannot be reached, has stopped, or refuses a request."""


class Engine:
    """The interface of an engine: a run enters it only if there is something to ask, and always leaves it."""

    #: The name of the model.
    model: str
    #: The number of separate servers; a run sends all levels of a question to one lane.
    lanes: int = 1
    #: The number of concurrent requests in each lane, unless the run has a number of its own.
    takes: int = 64
    #: The names of models in the replies, which may be others; the first twenty.
    replied_by: Set[str] = frozenset()
    #: What a user should know of the servers.
    remarks: Sequence[str] = ()

    @property
    def identity(self) -> Mapping[str, JsonValue]:
        """What, like the name of the model, must not change when a run is resumed; by default nothing else."""
        return {}

    async def __aenter__(self) -> dict[str, object]:
        """Make the engine ready, and return its description for the manifest."""
        return {"kind": type(self).__name__}

    async def __aexit__(self, *error: Any) -> None:
        """Release the resources of the engine; by default there are none."""

    async def generate(self, request: ChatRequest, lane: int = 0) -> Generation:
        """Draw one reply."""
        raise NotImplementedError


class CannedEngine(Engine):
    """An engine without a model, for tests and tutorials.

    Parameters
    ----------
    reply, model
        The function that makes the text, or a generation, of a request; the name of the model.
    """

    def __init__(self, reply: Callable[[ChatRequest], str | Generation], model: str = "canned") -> None:
        self.model, self._reply = model, reply

    @classmethod
    def replay(cls, journal: str | Path) -> "CannedEngine":
        """Return an engine that repeats the replies of a journal, and refuses other requests."""
        identity, entries = read_journal(journal)

        def reply(request: ChatRequest) -> Generation:
            entry = entries.get(request.key)
            if entry is None or entry.prompt != request.digest:
                raise EngineError(
                    f"{journal}: saw no reply to {request.key} with this prompt; expected one. Give the questions, "
                    "protocol and settings of that run."
                )
            return entry.generation

        return cls(reply, str(identity.get("model", "canned")))

    async def generate(self, request: ChatRequest, lane: int = 0) -> Generation:  # noqa: ARG002 (there is one)
        """Return the canned reply."""
        await asyncio.sleep(0)
        reply = self._reply(request)
        return Generation(reply) if isinstance(reply, str) else reply
