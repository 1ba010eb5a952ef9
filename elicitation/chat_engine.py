"""Engines that ask running servers by the OpenAI chat protocol: one model, or a panel of several."""

import asyncio
import json
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import httpx2
from pydantic import JsonValue

from elicitation.engines import Engine, EngineError, EngineInfo
from elicitation.generation import NOT_SENT, ChatRequest, Generation, Sampling, generation_of, without_text
from elicitation.prompts import Level

_PROBE = "(amber|teal)-[0-9]{3}"  # no model says this unconstrained
_RETRIED = {408, 409, 429}  # and all from 500
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 8.0
_LONGEST_START = 30.0  # seconds until a server says what it is
_MOST_BYTES = 1 << 26
_MOST_MODELS = 20
_SHORTEST_SECRET = 8  # a key such as "none" is none, and may be part of a reply
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


class RequestError(Exception):
    """A request without a usable response: place of the endpoint, what was seen, and the status if there was one."""

    def __init__(self, place: int, seen: str, status: int | None = None, wait: float = 0.0) -> None:
        super().__init__(seen if status is None else f"status {status}, {seen}")
        self.place, self.status, self.wait = place, status, wait

    @property
    def is_transient(self) -> bool:
        """Whether the request should be sent again, after ``wait`` seconds or more."""
        return self.status is None or self.status in _RETRIED or self.status >= 500


class ChatEngine(Engine):
    """One model behind one or several endpoints of the OpenAI chat protocol.

    After 408, 409, 429, 5xx, a dropped connection, or a response that is not a chat completion, a request is sent
    again, to the next endpoint, until ``patience`` is over. Redirects are not followed.

    Parameters
    ----------
    urls, model
        The endpoints, for example ``http://127.0.0.1:8000/v1``, and the name by which they serve the model.
    key_variable : str
        The environment variable that holds the API key, if one is needed.
    patience, timeout
        How many seconds after its first failure a request is sent again, and how many one reply may take in all.

    """

    def __init__(
        self,
        urls: Sequence[str],
        model: str,
        *,
        key_variable: str = "OPENAI_API_KEY",
        patience: float = 120.0,
        timeout: float = 900.0,
    ) -> None:
        self.urls = tuple(urls)
        self.lanes = len(self.urls)
        self.model = model
        self.replied_by: set[str] = set()
        self._key = os.environ.get(key_variable, "").strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise EngineError(f"{key_variable}: saw a key with other characters than ASCII; expected an API key.")
        self._patience, self._timeout = patience, timeout
        self._clients: list[httpx2.AsyncClient] = []
        self._stack = AsyncExitStack()
        self._constrained: set[int] = set()  # the endpoints that have been seen to hold a reply to a pattern
        self._json_formats = [0] * self.lanes  # of each endpoint, as far as it has been seen to work
        self._route = list(range(self.lanes))  # the current endpoint of each lane

    async def __aenter__(self) -> EngineInfo:
        """Connect, and check that every endpoint serves the model."""
        self._probing = asyncio.Lock()
        async with AsyncExitStack() as stack:
            self._clients = [await stack.enter_async_context(self._client(url)) for url in self.urls]
            contexts = [await self._check_model(place) for place in range(len(self.urls))]
            version = await self._version()
            self._stack = stack.pop_all()
        return EngineInfo("openai", tuple(map(_public, self.urls)), version, contexts[0])

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.aclose()

    async def generate(self, request: ChatRequest, lane: int = 0) -> Generation:
        """Draw one reply.

        Raises EngineError if the server refuses the request, or failures last longer than ``patience``.
        """
        try:
            return await _patiently(lambda: self._ask(request, lane), self._patience)
        except RequestError as error:
            if error.status == 400 and (reply := without_text(str(error))) is not None:
                return reply
            raise self._refused(error, body=request.sampling.body) from None

    async def _ask(self, request: ChatRequest, lane: int) -> Generation:
        place = self._route[lane]
        try:
            body = request.body(self.model)
            if request.pattern is not None:
                await self._check_constraint(place, request)
            if "response_format" in body:
                return await self._complete_json(place, body, self._json_formats[place])
            return await self._complete(place, body)
        except RequestError as error:
            if error.is_transient and self._route[lane] == place:  # no other request has moved the lane
                self._route[lane] = (place + 1) % len(self.urls)
            raise

    async def _complete_json(self, place: int, body: Mapping[str, object], number: int) -> Generation:
        """Return a chat completion in the strictest form of JSON, from this number on, that an endpoint takes."""
        plain = {name: value for name, value in body.items() if name != "response_format"}
        forms = body, plain | {"response_format": {"type": "json_object"}}, plain
        try:
            reply = await self._complete(place, forms[number])
        except RequestError as error:
            if error.status not in (400, 422) or without_text(str(error)) or number == len(forms) - 1:
                raise
            return await self._complete_json(place, body, number + 1)
        self._json_formats[place] = number
        return reply

    async def _complete(self, place: int, body: Mapping[str, object]) -> Generation:
        """Return a chat completion, without any key that the server echoes."""
        reply = await self._response(place, "POST", "chat/completions", body, self._timeout)
        generation = generation_of(reply)
        if generation is None:
            raise RequestError(place, f"{self._without_keys(str(reply))[:80]!r} for a chat completion")
        match reply:
            case {"model": str(name)} if len(self.replied_by) < _MOST_MODELS:
                self.replied_by.add(name[:200])
        text = self._without_keys(generation.text, shortest=_SHORTEST_SECRET)
        return generation if text == generation.text else replace(generation, text=text, final_tokens=())

    async def _response(self, place: int, method: str, path: str, body: object, within: float) -> object:
        """Return the JSON in the response of an endpoint; raise RequestError if there is none."""
        text = await self._text(place, method, path, body, within)
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            kind = "a page, " if text.lstrip().startswith("<") else ""
            raise RequestError(place, f"{kind}{self._without_keys(text)[:80]!r} for JSON") from None

    async def _text(self, place: int, method: str, path: str, body: object, within: float) -> str:
        """Return the response of an endpoint; raise RequestError if it is none of success."""
        content = bytearray()
        try:
            async with asyncio.timeout(within), self._clients[place].stream(method, path, json=body) as response:
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > _MOST_BYTES:
                        raise RequestError(place, f"over {_MOST_BYTES >> 20} MiB for one reply")
        except TimeoutError:
            raise RequestError(place, f"no complete reply after {within:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise RequestError(place, f"Connection error ({error or type(error).__name__})") from None
        text = content.decode(errors="replace")
        if response.has_redirect_location:
            raise RequestError(
                place, f"a redirect to {self._without_keys(response.headers['location'])[:200]}", response.status_code
            )
        if not response.is_success:
            told = response.headers.get("retry-after", "")
            wait = float(told) if re.fullmatch(r"[0-9]{1,4}", told) else 0.0
            raise RequestError(place, self._without_keys(text)[:4000], response.status_code, wait)
        return text

    async def _check_constraint(self, place: int, request: ChatRequest) -> None:
        """Raise EngineError if an endpoint does not hold a reply to a pattern, which it may ignore; tested once."""
        async with self._probing:
            if place in self._constrained:
                return
            probe = replace(request, messages=({"role": "user", "content": "Say hello."},), pattern=_PROBE)
            try:
                reply = (await self._complete(place, probe.body(self.model))).text
            except RequestError as error:
                if error.is_transient or "structured_outputs" not in str(error):
                    raise
                reply = str(error)
            if not re.fullmatch(_PROBE, reply):
                raise EngineError(
                    f"{_public(self.urls[place])}: saw {reply[:200]!r}, which does not match a pattern; expected a "
                    "server that holds replies to one, such as vLLM. Leave out --set structured=true."
                )
            self._constrained.add(place)

    def _client(self, url: str) -> httpx2.AsyncClient:
        try:
            parts = urlsplit(url)
            _ = parts.port  # ValueError if it is none
            return httpx2.AsyncClient(
                base_url=url,
                headers={"Authorization": f"Bearer {self._key or 'none'}"},
                timeout=httpx2.Timeout(None, connect=5.0),
                limits=httpx2.Limits(max_connections=None),
                trust_env=parts.hostname not in _LOOPBACK,  # whose requests go through no proxy
            )
        except (httpx2.InvalidURL, ValueError) as error:
            shown = url.rpartition("@")[2]
            raise EngineError(f"--base-url: saw {shown!r} ({error}); expected http://HOST:PORT/v1.") from None

    async def _check_model(self, place: int) -> int | None:
        """Return the model's context length, if the server states it."""
        within = min(self._timeout, _LONGEST_START)
        try:
            listed = await _patiently(
                lambda: self._response(place, "GET", "models", None, within), min(self._patience, 4 * _FIRST_WAIT)
            )
        except RequestError as error:
            raise self._refused(error, "the list of models") from None
        match listed:
            case {"data": [*models]} if all(isinstance(model, dict) and "id" in model for model in models):
                contexts = {str(model["id"]): model.get("max_model_len") for model in models}
            case _:
                seen = f"{self._without_keys(str(listed))[:80]!r}"
                raise self._refused(RequestError(place, seen), "the list of models")
        if self.model not in contexts:
            raise EngineError(
                f"{_public(self.urls[place])}: saw a server of {', '.join(contexts)[:400] or 'no model'}; "
                f"expected {self.model!r}. Name the served model with --model, or give another --base-url."
            )
        context = contexts[self.model]
        return context if isinstance(context, int) else None

    async def _version(self) -> str | None:
        root = str(self._clients[0].base_url.join("/version"))
        try:
            answer = await self._response(0, "GET", root, None, min(self._timeout, _LONGEST_START))
        except RequestError:
            return None
        return str(answer["version"])[:80] if isinstance(answer, dict) and "version" in answer else None

    def _without_keys(self, text: str, shortest: int = 1) -> str:
        for secret in (self._key, *(urlsplit(url).password or "" for url in self.urls)):
            text = text.replace(secret, "***") if len(secret) >= shortest else text
        return text

    def _refused(
        self, error: RequestError, expected: str = "a reply", body: Mapping[str, object] = MappingProxyType({})
    ) -> EngineError:
        url, seen = self.urls[error.place], str(error)
        setting = None if error.is_transient else _refused_setting(seen, body)
        if error.status is not None and 300 <= error.status < 400:
            remedy = "Give the new address with --base-url, if you trust it."
        elif setting is not None:
            remedy = f"Leave out what it refuses: {setting}."
        elif expected != "a reply" and not url.rstrip("/").endswith("/v1"):
            remedy = "Does the URL end in /v1?"
        else:
            remedy = "Check the server, and give the same command to continue: finished generations are kept."
        wait = f" within {self._patience:g} s" if error.is_transient and expected == "a reply" else ""
        return EngineError(f"{_public(url)}: saw {seen[:400]}; expected {expected}{wait}. {remedy}")


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


async def _patiently[Result](attempt: Callable[[], Awaitable[Result]], patience: float) -> Result:
    """Return the result of an attempt, which is repeated after transient failures until ``patience`` is over."""
    longest, give_up = _FIRST_WAIT, None
    while True:
        try:
            return await attempt()
        except RequestError as error:
            give_up = time.monotonic() + patience if give_up is None else give_up
            wait = max(error.wait, random.uniform(0, longest))  # noqa: S311 (no secret)
            if not error.is_transient or time.monotonic() + wait > give_up:
                raise
        await asyncio.sleep(wait)
        longest = min(2 * longest, _LONGEST_WAIT)


def _refused_setting(message: str, body: Mapping[str, object]) -> str | None:
    """Return the setting that mends a refusal, None if the message names none: one of ours, or a field of the body."""
    words = re.findall(r"\w+", message)
    if (field := next((word for word in words if word in body), None)) is not None:
        return f"--set body.{field}, or correct its value"
    if not re.search(r"supported|permitted|unknown|unrecognized|unexpected", message, re.IGNORECASE):
        return None
    name = next((word for word in words if word in Sampling.model_fields.keys() - {"body", *NOT_SENT}), None)
    further = " --set max_completion_tokens=4096" if name == "max_tokens" else ""
    return None if name is None else f"--set {name}=none{further}"


def _public(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
