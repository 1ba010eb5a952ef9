"""Engines: what draws replies. This one is canned; the ones that ask servers are in chat_engine.py and server.py."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from bayes_direag.errors import DirEAGError
from elicitation.generation import ChatRequest, Generation
from elicitation.journal import read_identity, read_journal


class EngineError(DirEAGError):
    """An engine that cannot be reached, stopped working, or refuses what it is asked."""


class Deferred(Exception):  # noqa: N818 (nothing is wrong)
    """Raised by an engine whose reply to a request comes later: the run goes on with the others, and stays open."""


@dataclass(frozen=True)
class EngineInfo:
    """What a manifest says about an engine.

    Attributes
    ----------
    kind : str
        ``openai``, ``vllm`` (started by the run itself), ``batch`` or ``canned``.
    endpoints : tuple of str
        Where it was reached, without user names and passwords; empty for a server started by the run itself.
    server_version, context
        As the server states them (only vLLM has a version); the latter is the model's longest, in tokens.
    model_source, arguments
        The folder or name that a server started by the run itself was given, and the further arguments.
    device : str, optional
        The GPU that it ran on, if its model was fetched for it.
    """

    kind: str
    endpoints: tuple[str, ...] = ()
    server_version: str | None = None
    context: int | None = None
    model_source: str | None = None
    arguments: tuple[str, ...] = ()
    device: str | None = None


@runtime_checkable
class Engine(Protocol):
    """What a run needs: entered only if there is something to ask, and left whatever happens.

    An engine may also have an ``identity``, a mapping of JSON values: what a run that goes on must find unchanged,
    beyond the name of the model.

    Attributes
    ----------
    model : str
        The name of the model.
    lanes : int
        The number of separate servers; a run sends the levels of one question down one lane.
    """

    model: str
    lanes: int = 1

    async def __aenter__(self) -> EngineInfo:
        """Make the engine ready."""
        ...

    async def __aexit__(self, *error: Any) -> None:
        """Release what the engine holds; nothing, unless an engine says otherwise."""

    async def generate(self, request: ChatRequest, lane: int = 0) -> Generation:
        """Draw one reply; raise Deferred if it comes later."""
        ...

    async def watch(self) -> None:
        """Raise EngineError as soon as the engine is known to be dead; by default wait for ever."""
        await asyncio.Event().wait()


class CannedEngine(Engine):
    """An engine without a model, for tests and tutorials.

    Parameters
    ----------
    reply, model
        What makes of a request the text, or a whole generation; and the name that the engine goes by.
    """

    def __init__(self, reply: Callable[[ChatRequest], str | Generation], model: str = "canned") -> None:
        self.model = model
        self._reply = reply

    @classmethod
    def replay(cls, journal: str | Path) -> "CannedEngine":
        """Return an engine that gives the replies of a journal again, and refuses what it does not hold."""
        model = str(read_identity(journal).get("model", "canned"))
        entries = {entry.key: entry for entry in read_journal(journal)}

        def reply(request: ChatRequest) -> Generation:
            entry = entries.get(request.key)
            if entry is None or entry.prompt != request.digest:
                raise EngineError(
                    f"{journal}: saw no reply to {request.key} in these words; expected one. Give the questions, "
                    "protocol and settings of that run."
                )
            return entry.generation

        return cls(reply, model)

    async def __aenter__(self) -> EngineInfo:
        """Do nothing."""
        return EngineInfo("canned")

    async def generate(self, request: ChatRequest, lane: int = 0) -> Generation:  # noqa: ARG002 (there is one)
        """Return the canned reply."""
        await asyncio.sleep(0)
        reply = self._reply(request)
        return Generation(reply) if isinstance(reply, str) else reply
