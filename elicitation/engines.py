"""Engines, which draw replies: their interface, and one with canned replies. Others ask servers."""

import asyncio
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pydantic import JsonValue

from bayes_direag.errors import DirEAGError
from elicitation.generation import ChatRequest, Generation
from elicitation.journal import read_identity, read_journal


class EngineError(DirEAGError):
    """An engine that cannot be reached, has stopped, or refuses a request."""


@dataclass(frozen=True)
class EngineInfo:
    """The description of an engine in a manifest.

    Attributes
    ----------
    kind : str
        ``openai``, ``vllm`` (started by the run), ``canned`` or ``panel``.
    endpoints : tuple of str
        Its addresses, without user names and passwords; empty for a server started by the run.
    server_version, context
        As the server states them: its version (vLLM only), and the model's context length in tokens.
    model_source, arguments
        The model's folder or name, and further arguments, of a server started by the run.
    device : str, optional
        The GPU of a server whose model was fetched by the run.
    levels : dict
        The engine of each level in a panel.
    """

    kind: str
    endpoints: tuple[str, ...] = ()
    server_version: str | None = None
    context: int | None = None
    model_source: str | None = None
    arguments: tuple[str, ...] = ()
    device: str | None = None
    levels: Mapping[str, "EngineInfo"] = field(default_factory=dict)


@runtime_checkable
class Engine(Protocol):
    """The interface of an engine: a run enters it only if there is something to ask, and always leaves it.

    Attributes
    ----------
    model : str
        The name of the model.
    lanes : int
        The number of separate servers; a run sends all levels of a question to one lane.
    takes : int
        The number of concurrent requests in each lane, unless the run has a number of its own.
    replied_by : set of str
        The names of models in the replies, which may be others; the first twenty.
    """

    model: str
    lanes: int = 1
    takes: int = 64
    replied_by: Set[str] = frozenset()

    @property
    def identity(self) -> Mapping[str, JsonValue]:
        """What, like the name of the model, must not change when a run is resumed; by default nothing else."""
        return {}

    async def __aenter__(self) -> EngineInfo:
        """Make the engine ready."""
        ...

    async def __aexit__(self, *error: Any) -> None:
        """Release the resources of the engine; by default there are none."""

    async def generate(self, request: ChatRequest, lane: int = 0) -> Generation:
        """Draw one reply."""
        ...

    async def watch(self) -> None:
        """Raise EngineError as soon as the engine has stopped; by default wait for ever."""
        await asyncio.Event().wait()


class CannedEngine(Engine):
    """An engine without a model, for tests and tutorials.

    Parameters
    ----------
    reply, model
        The function that makes the text, or a generation, of a request; the name of the model.
    """

    def __init__(self, reply: Callable[[ChatRequest], str | Generation], model: str = "canned") -> None:
        self.model = model
        self._reply = reply

    @classmethod
    def replay(cls, journal: str | Path) -> "CannedEngine":
        """Return an engine that repeats the replies of a journal, and refuses other requests."""
        model = str(read_identity(journal).get("model", "canned"))
        entries = {entry.key: entry for entry in read_journal(journal)}

        def reply(request: ChatRequest) -> Generation:
            entry = entries.get(request.key)
            if entry is None or entry.prompt != request.digest:
                raise EngineError(
                    f"{journal}: saw no reply to {request.key} with this prompt; expected one. Give the questions, "
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
