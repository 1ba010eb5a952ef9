"""A panel: levels that ask several models, each at its own endpoints."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from pydantic import JsonValue

from elicitation.chat_engine import ChatEngine
from elicitation.engines import Engine, EngineError, EngineInfo
from elicitation.generation import ChatRequest, Generation
from elicitation.prompts import Level


class Panel(Engine):
    """The engine of each level, by its name and in the order of the levels; levels may share one."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._names, self._engines = tuple(engines), tuple(engines.values())
        self._different = tuple(dict.fromkeys(self._engines))
        self.model = ", ".join(dict.fromkeys(engine.model for engine in self._different))
        self.lanes = max(engine.lanes for engine in self._different)
        self._stack = AsyncExitStack()

    @property
    def identity(self) -> dict[str, JsonValue]:
        """What must not change when a run is resumed."""
        return {name: value for engine in self._different for name, value in engine.identity.items()}

    async def __aenter__(self) -> EngineInfo:
        """Make all engines ready."""
        async with AsyncExitStack() as stack:
            infos = {engine: await stack.enter_async_context(engine) for engine in self._different}
            self._stack = stack.pop_all()
        self.takes = min(engine.takes for engine in self._different)
        levels = {name: infos[engine] for name, engine in zip(self._names, self._engines, strict=True)}
        return EngineInfo("panel", levels=levels)

    async def __aexit__(self, *error: Any) -> None:
        self.replied_by = frozenset().union(*(engine.replied_by for engine in self._different))
        await self._stack.__aexit__(*error)

    async def generate(self, request: ChatRequest, lane: int = 0) -> Generation:
        """Draw one reply of the level's model."""
        engine = self._engines[request.key.level]
        return await engine.generate(request, lane % engine.lanes)

    async def watch(self) -> None:
        """Raise EngineError as soon as one engine has stopped."""
        async with asyncio.TaskGroup() as group:
            for engine in self._different:
                group.create_task(engine.watch())


def connect(
    levels: Sequence[Level],
    urls: Sequence[str],
    model: str | None,
    *,
    served: Engine | None = None,
    key_variable: str,
    timeout: float,
) -> Engine:
    """Return the engine that asks each level's model at its endpoints, for which those of the run stand in.

    A level without a model and endpoints of its own is asked of ``served``, if that is given. Raises EngineError if a
    level has no model, or no endpoint.
    """
    engines: dict[object, Engine] = {}
    panel: dict[str, Engine] = {}
    for level in levels:
        if served is not None and not level.is_asked_elsewhere:
            panel[level.name] = served
            continue
        name, endpoints, key = level.model or model, level.base_url or tuple(urls), level.key_variable or key_variable
        if name is None or not endpoints:
            option, own = ("--model", "model") if name is None else ("--base-url", "base_url")
            raise EngineError(
                f"level {level.name!r}: saw no {option}, and no {own} of its own; expected the model and the endpoint "
                f"of each level. Give {option}, or {own} under [levels.{level.name}] in the file for --levels."
            )
        place = name, endpoints, key
        if place not in engines:
            engines[place] = ChatEngine(endpoints, name, key_variable=key, timeout=timeout)
        panel[level.name] = engines[place]
    return Panel(panel) if len({*panel.values()}) > 1 else next(iter(panel.values()))
