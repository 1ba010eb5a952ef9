"""Engines that ask running servers by the OpenAI chat protocol: one model, or a panel of several."""

import asyncio
import json
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import httpx2
from pydantic import JsonValue

from elicitation.engines import Engine, EngineError
from elicitation.generation import NOT_SENT, ChatRequest, Generation, Sampling, generation_of, without_text
from elicitation.prompts import Level

_RETRIED = {408, 409, 429}  # and all from 500
_NO_LIST = {404, 405, 501}  # of a server without a list of models
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 8.0
_LONGEST_START = 30.0  # seconds
_MOST_BYTES = 1 << 25  # of all replies that are being received
_MOST_MODELS = 20
_SHORTEST_SECRET = 8  # a key such as "none" is none, and may be part of a reply
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}  # whose requests go through no proxy
#: How to leave out what a server may refuse.
_LEFT_OUT = {"response_format": "ask without --form json", "structured_outputs": "leave out --set structured=true"} | {
    name: f"--set {name}=none" for name in Sampling.model_fields.keys() - {"body", *NOT_SENT}
}


class RequestError(Exception):
    """A request without a usable response: what was seen, and the status if there was one."""

    def __init__(self, seen: str, status: int | None = None, wait: float = 0.0) -> None:
        super().__init__(seen if status is None else f"status {status}, {seen}")
        self.status, self.wait = status, wait

    @property
    def is_transient(self) -> bool:
        """Whether the request should be sent again, after ``wait`` seconds or more."""
        return self.status is None or self.status in _RETRIED or self.status >= 500


class ChatEngine(Engine):
    """One model behind one or several endpoints of the OpenAI chat protocol, each a lane.

    After 408, 409, 429, 5xx, a dropped connection, or a response that is not a chat completion, a request is sent
    again, until ``patience`` is over. Redirects are not followed. Each request has a connection of its own, on which no
    reply to another can come. A list of models without this one is a remark, and the first request decides; a
    server that lists another one alone is refused.

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
        self._addresses, self.lanes, self.model = tuple(map(_address, urls)), len(urls), model
        self.replied_by: set[str] = set()
        self.remarks: list[str] = []
        self._unlisted: dict[int, str] = {}  # by lane, what its server lists instead of the model
        self._held = 0  # bytes
        self._patience, self._timeout = patience, timeout
        self._start_patience = min(patience, 4 * _FIRST_WAIT)  # until a server says what it is
        self._key, self._key_variable = os.environ.get(key_variable, "").strip(), key_variable
        if not (self._key.isascii() and self._key.isprintable()):
            raise EngineError(f"{key_variable}: saw a key with other characters than ASCII; expected an API key.")
        if not model.isprintable():
            raise EngineError(f"--model: saw {model!r}; expected a name of whole, printable characters.")
        self._secrets = [*filter(None, (self._key, *(address.password for address in self._addresses)))]
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> dict[str, object]:
        """Connect, and check that every endpoint serves the model."""
        async with AsyncExitStack() as stack:
            self._clients = [
                await stack.enter_async_context(
                    httpx2.AsyncClient(
                        base_url=address,
                        headers={"Authorization": f"Bearer {self._key or 'none'}", "Connection": "close"},
                        timeout=httpx2.Timeout(None, connect=5.0),
                        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
                        trust_env=address.host not in _LOOPBACK,
                    )
                )
                for address in self._addresses
            ]
            contexts = [await self._check_model(lane) for lane in range(self.lanes)]
            version = await self._version()
            self._stack = stack.pop_all()
        endpoints = [*map(_redacted, self._addresses)]
        remarks = {"remarks": self.remarks} if self.remarks else {}
        return {"kind": "openai", "endpoints": endpoints, "server_version": version, "context": contexts[0], **remarks}

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.aclose()

    async def generate(self, request: ChatRequest, lane: int = 0) -> Generation:
        """Draw one reply.

        Raises EngineError if the server refuses the request, or failures last longer than ``patience``.
        """
        try:
            return await self._retry(lambda: self._complete(lane, request), self._patience)
        except RequestError as error:
            if error.status == 400 and (reply := without_text(str(error))) is not None:
                return reply
            raise self._refused(lane, error, "a reply", request.sampling.body) from None

    async def _retry[Result](self, attempt: Callable[[], Awaitable[Result]], patience: float) -> Result:
        """Return the result of an attempt, which is repeated after transient failures until ``patience`` is over."""
        longest, give_up = _FIRST_WAIT, None
        while True:
            try:
                return await attempt()
            except RequestError as error:
                self.check()
                give_up = time.monotonic() + patience if give_up is None else give_up
                wait = max(error.wait, random.uniform(0, longest))  # noqa: S311 (no secret)
                if not error.is_transient or time.monotonic() + wait > give_up:
                    raise
            await asyncio.sleep(wait)
            longest = min(2 * longest, _LONGEST_WAIT)

    def check(self) -> None:
        """Raise EngineError if there is no use in asking again; called after every failure."""

    async def _complete(self, lane: int, request: ChatRequest) -> Generation:
        """Return a chat completion, without any key that the server echoes."""
        reply = await self._json(lane, "POST", "chat/completions", self._timeout, request.body(self.model))
        generation = generation_of(reply)
        if generation is None:
            raise RequestError(f"{str(reply)[:80]!r} for a chat completion")
        match reply:
            case {"model": str(name)} if len(self.replied_by) < _MOST_MODELS:
                self.replied_by.add(name[:200])
        text, tokens = generation.text, "".join(token for token, _ in generation.final_tokens)
        echoed = self._cleaned(tokens) != tokens  # in parts, as a text may be
        return replace(generation, text=self._cleaned(text), final_tokens=() if echoed else generation.final_tokens)

    async def _json(self, lane: int, method: str, path: str, within: float, body: object = None) -> Any:
        """Return the JSON in a response, cleaned; raise RequestError if there is none, or no success."""
        content = bytearray()
        try:
            async with asyncio.timeout(within), self._clients[lane].stream(method, path, json=body) as response:
                async for chunk in response.aiter_bytes():
                    content += chunk
                    self._held += len(chunk)
                    if self._held > _MOST_BYTES:
                        self._held -= len(content)
                        content.clear()  # at once, as the error refers to it
                        raise RequestError(f"over {_MOST_BYTES >> 20} MiB in the replies at one time")
        except TimeoutError:
            raise RequestError(f"no complete reply after {within:g} s") from None
        except httpx2.HTTPError as error:
            raise RequestError(f"Connection error ({error or type(error).__name__})") from None
        finally:
            self._held -= len(content)
        text, status = content.decode(errors="replace"), response.status_code
        if response.has_redirect_location:
            raise RequestError(f"a redirect to {response.headers['location'][:200]}", status)
        try:
            decoded = self._cleaned(json.loads(text, object_pairs_hook=_object))
        except (ValueError, RecursionError):
            if response.is_success:
                kind = "a page, " if text.lstrip().startswith("<") else ""
                raise RequestError(f"{kind}{self._cleaned(text)[:80]!r} for JSON") from None
            decoded = self._cleaned(text)
        if not response.is_success:
            told = response.headers.get("retry-after", "")
            wait = float(told) if re.fullmatch(r"[0-9]{1,4}", told) else 0.0
            seen = decoded if isinstance(decoded, str) else json.dumps(decoded, ensure_ascii=False)
            raise RequestError(seen[:4000], status, wait)
        return decoded

    def _cleaned(self, value: Any) -> Any:
        """Return a JSON value whose strings have no secret, and no half of a character."""
        match value:
            case str():
                for secret in self._secrets:
                    value = value.replace(secret, "***") if len(secret) >= _SHORTEST_SECRET else value
                return value.encode("utf-8", "replace").decode()
            case list():
                return [self._cleaned(one) for one in value]
            case dict():
                return {self._cleaned(name): self._cleaned(one) for name, one in value.items()}
        return value

    async def _check_model(self, lane: int) -> int | None:
        """Return the model's context length, if the server states it."""
        within = min(self._timeout, _LONGEST_START)
        try:
            listed = await self._retry(lambda: self._json(lane, "GET", "models", within), self._start_patience)
        except RequestError as error:
            if error.status not in _NO_LIST:
                raise self._refused(lane, error, "the list of models") from None
            listed = {"data": []}
        match listed:
            case {"data": [*models]} if all(isinstance(model, dict) and "id" in model for model in models):
                contexts = {str(model["id"]): model.get("max_model_len") for model in models}
            case _:
                raise self._refused(lane, RequestError(repr(str(listed)[:80])), "the list of models")
        if len(contexts) == 1 and not _is_like(self.model, *contexts):  # what serves one model takes any name for it
            raise EngineError(
                f"{_redacted(self._addresses[lane])}: saw a server of {next(iter(contexts))[:400]}; expected "
                f"{self.model!r}. Name the served model with --model, or give another --base-url."
            )
        if self.model not in contexts:
            self._unlisted[lane] = (
                f"The server lists {', '.join(contexts)[:400] or 'no models'}, and not {self.model!r}"
            )
            self.remarks.append(
                f"{_redacted(self._addresses[lane])}: {self._unlisted[lane]}, which is asked all the same."
            )
        context = contexts.get(self.model)
        return context if isinstance(context, int) else None

    async def _version(self) -> str | None:
        root = str(self._clients[0].base_url.join("/version"))
        try:
            answer = await self._json(0, "GET", root, min(self._timeout, _LONGEST_START))
        except RequestError:
            return None
        return str(answer["version"])[:80] if isinstance(answer, dict) and "version" in answer else None

    def _refused(self, lane: int, error: RequestError, expected: str, body: Iterable[str] = ()) -> EngineError:
        url, seen = _redacted(self._addresses[lane]), str(error)
        for secret in self._secrets:
            seen = seen.replace(secret, "***")
        left_out = _LEFT_OUT | {name: f"--set body.{name}, or correct its value" for name in body}
        refused = next((word for word in re.findall(r"\w+", seen) if word in left_out), None)
        if error.status in (401, 403):
            remedy = f"Set {self._key_variable} to a key of this server, or name another variable by --key-variable."
        elif error.status is not None and 300 <= error.status < 400:
            remedy = "Give the new address with --base-url, if you trust it."
        elif refused is not None and (not error.is_transient or (error.status or 0) >= 500):
            remedy = f"Leave out what it refuses: {left_out[refused]}."
        elif (expected != "a reply" or error.status in _NO_LIST) and not url.rstrip("/").endswith("/v1"):
            remedy = "Does the URL end in /v1?"
        elif lane in self._unlisted and not error.is_transient:
            remedy = f"{self._unlisted[lane]}: name a served model with --model, or give another --base-url."
        else:
            remedy = "Check the server, and give the same command to continue: finished generations are kept."
        wait = f" within {self._patience:g} s" if error.is_transient and expected == "a reply" else ""
        return EngineError(f"{url}: saw {seen[:400]}; expected {expected}{wait}. {remedy}")


class Panel(Engine):
    """The engine of each level, by its name and in the order of the levels; levels may share one."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._names, self._engines = tuple(engines), tuple(engines.values())
        self._different = tuple(dict.fromkeys(self._engines))
        self.model = ", ".join(dict.fromkeys(engine.model for engine in self._different))
        self.lanes = max(engine.lanes for engine in self._different)
        self.takes = min(engine.takes for engine in self._different)
        self._stack = AsyncExitStack()

    @property
    def identity(self) -> dict[str, JsonValue]:
        """What must not change when a run is resumed."""
        return {name: value for engine in self._different for name, value in engine.identity.items()}

    async def __aenter__(self) -> dict[str, object]:
        """Make all engines ready."""
        async with AsyncExitStack() as stack:
            about = {engine: await stack.enter_async_context(engine) for engine in self._different}
            self._stack = stack.pop_all()
        levels = {name: about[engine] for name, engine in zip(self._names, self._engines, strict=True)}
        return {"kind": "panel", "levels": levels}

    async def __aexit__(self, *error: Any) -> None:
        self.replied_by = frozenset().union(*(engine.replied_by for engine in self._different))
        self.remarks = [remark for engine in self._different for remark in engine.remarks]
        await self._stack.__aexit__(*error)

    async def generate(self, request: ChatRequest, lane: int = 0) -> Generation:
        """Draw one reply of the level's model."""
        engine = self._engines[request.key.level]
        return await engine.generate(request, lane % engine.lanes)


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
            option, field = ("--model", "model") if name is None else ("--base-url", "base_url")
            raise EngineError(
                f"level {level.name!r}: saw no {option}, and no {field} of its own; expected the model and "
                f"the endpoint of each level. Give {option}, or {field} under [levels.{level.name}] in the file for "
                "--levels."
            )
        asked = name, endpoints, key
        if asked not in engines:
            engines[asked] = ChatEngine(endpoints, name, key_variable=key, timeout=timeout)
        panel[level.name] = engines[asked]
    return Panel(panel) if len({*panel.values()}) > 1 else next(iter(panel.values()))


def _is_like(model: str, listed: str) -> bool:
    """Tell whether a name in a list may stand for a model: with a tag or a folder, in part, or as a pattern."""
    name, other = model.lower(), listed.lower()
    return name in other or other in name or fnmatchcase(name, other)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; ValueError if it has a name twice, as nobody knows which counts."""
    if len(members := dict(pairs)) < len(pairs):
        raise ValueError("a name twice")
    return members


def _address(url: str) -> httpx2.URL:
    """Return the address of an endpoint; EngineError, without its password, if it is none."""
    try:
        address = httpx2.URL(url)
        if address.scheme in ("http", "https") and address.host and (address.port or 1) < 1 << 16:
            return address
    except httpx2.InvalidURL:
        pass
    raise EngineError(f"--base-url: saw {url.rpartition('@')[2]!r}; expected an address such as http://HOST:PORT/v1.")


def _redacted(address: httpx2.URL) -> str:
    """Return an address without user name and password, and without a query, where keys are."""
    return str(address.copy_with(username=None, password=None, query=None, fragment=None))
