"""The engine that asks running servers by the OpenAI chat protocol."""

import asyncio
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from json import JSONDecodeError
from typing import Any, cast
from urllib.parse import urlsplit

from openai import (
    APIConnectionError,
    APIError,
    APIStatusError,
    AsyncOpenAI,
    BadRequestError,
    DefaultAsyncHttpxClient,
    Timeout,
)
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from elicitation.engines import Engine, EngineError, EngineInfo
from elicitation.generation import (
    TOO_LONG,
    ChatRequest,
    Generation,
    NoCompletionError,
    Sampling,
    generation_of,
    too_long,
)

# The parameters by which versions of vLLM constrain a reply to a pattern; each silently ignores that of the other.
_CONSTRAINTS: Mapping[str, Callable[[str], dict[str, object]]] = {
    "structured_outputs": lambda pattern: {"structured_outputs": {"regex": pattern}},  # the only one from 0.12 on
    "guided_regex": lambda pattern: {"guided_regex": pattern},  # ignored from 0.12 on
}
_PROBE = "(amber|teal)-[0-9]{3}"  # no model says this unconstrained
_RETRIED = {408, 409, 429}  # and all from 500, as in the openai client
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


class ChatEngine(Engine):
    """One model behind one or several endpoints of the OpenAI chat protocol.

    The ``openai`` client repeats a request after 408, 409, 429, 5xx and dropped connections. This engine also moves to
    the next endpoint, waits for a server that restarts, and repeats a request whose response is not a chat completion.

    Parameters
    ----------
    urls, model
        The endpoints, for example ``http://127.0.0.1:8000/v1``, and the name by which they serve the model.
    key_variable : str
        The environment variable that holds the API key, if one is needed.
    patience, timeout
        How many seconds to retry a request after transient failures, and to wait for one reply.
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
        self._key = os.environ.get(key_variable, "")
        self._patience, self._timeout = patience, timeout
        self._clients: list[AsyncOpenAI] = []
        self._stack = AsyncExitStack()
        self._constraints: dict[int, str] = {}  # by endpoint, once it has been seen to work
        self._route = list(range(self.lanes))  # the current endpoint of each lane

    async def __aenter__(self) -> EngineInfo:
        """Connect, and check that every endpoint serves the model."""
        self._probing = asyncio.Lock()
        async with AsyncExitStack() as stack:
            self._clients = [await stack.enter_async_context(self._client(url)) for url in self.urls]
            contexts = [await self._check_model(client) for client in self._clients]
            version = await self._version(self._clients[0])
            self._stack = stack.pop_all()
        return EngineInfo("openai", tuple(map(_public, self.urls)), version, contexts[0])

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.aclose()

    async def generate(self, request: ChatRequest, lane: int = 0) -> Generation:
        """Draw one reply.

        Raises EngineError if the server refuses the request, or failures last longer than ``patience``.
        """
        retrying = AsyncRetrying(
            retry=retry_if_exception(_is_transient),
            stop=stop_after_delay(self._patience),
            wait=wait_random_exponential(multiplier=0.5, max=8),
            reraise=True,
        )
        try:
            return await retrying(self._ask, request, lane)
        except BadRequestError as error:
            if too_long(str(error)):
                return TOO_LONG
            raise self._refused(error, lane) from None
        except (APIError, NoCompletionError) as error:
            raise self._refused(error, lane) from None

    async def _ask(self, request: ChatRequest, lane: int) -> Generation:
        place = self._route[lane]
        client = self._clients[place]
        try:
            body = request.body(self.model)
            if request.pattern is not None:
                del body["structured_outputs"]
                body |= _CONSTRAINTS[await self._constraint(place)](request.pattern)
            reply = await client.chat.completions.create(
                model=self.model, messages=cast("Any", request.messages), extra_body=body
            )
            return generation_of(reply)
        except JSONDecodeError as error:
            self._leave(place, lane)
            raise NoCompletionError(f"{error.doc[:80]!r} for a chat completion") from None
        except (APIError, NoCompletionError) as error:
            if _is_transient(error):
                self._leave(place, lane)
            raise

    async def _constraint(self, place: int) -> str:
        """Return the parameter by which an endpoint constrains a reply to a pattern, tested once.

        Raises EngineError if none works.
        """
        async with self._probing:
            if place not in self._constraints:
                question: Any = [{"role": "user", "content": "Say hello."}]
                for parameter, constrain in _CONSTRAINTS.items():
                    try:
                        reply = await self._clients[place].chat.completions.create(
                            model=self.model, messages=question, max_tokens=32, extra_body=constrain(_PROBE)
                        )
                    except BadRequestError:
                        continue
                    if re.fullmatch(_PROBE, generation_of(reply).text):
                        self._constraints[place] = parameter
                        break
                else:
                    raise EngineError(
                        f"{_public(self.urls[place])}: saw replies that do not match a pattern; expected a server that "
                        "constrains them to one, such as vLLM 0.12 or later. Update it, or leave out --structured."
                    )
            return self._constraints[place]

    def _leave(self, place: int, lane: int) -> None:
        """Move a lane to the next endpoint, unless another request has done so."""
        if self._route[lane] == place:
            self._route[lane] = (place + 1) % len(self.urls)

    def _client(self, url: str) -> AsyncOpenAI:
        # requests to loopback must not go through a proxy of the environment
        return AsyncOpenAI(
            base_url=url,
            api_key=self._key or "none",  # the client requires one
            timeout=Timeout(self._timeout, connect=5.0),
            http_client=DefaultAsyncHttpxClient(trust_env=urlsplit(url).hostname not in _LOOPBACK),
        )

    async def _check_model(self, client: AsyncOpenAI) -> int | None:
        """Return the model's context length, if the server states it."""
        try:
            served = [model async for model in client.models.list()]
        except APIError as error:
            raise self._refused(error, self._clients.index(client)) from None
        for model in served:
            if model.id == self.model:
                context = getattr(model, "max_model_len", None)
                return context if isinstance(context, int) else None
        names = ", ".join(model.id for model in served) or "no model"
        raise EngineError(
            f"{_public(str(client.base_url))}: saw a server of {names}; "
            f"expected {self.model!r}. Name the served model with --model, or give another --base-url."
        )

    async def _version(self, client: AsyncOpenAI) -> str | None:
        root = client.with_options(base_url=client.base_url.join("/"), max_retries=0)
        try:
            answer = await root.get("/version", cast_to=object)
        except APIError:
            return None
        return str(answer["version"]) if isinstance(answer, dict) and "version" in answer else None

    def _refused(self, error: Exception, lane: int) -> EngineError:
        status = f"status {error.status_code}, " if isinstance(error, APIStatusError) else ""
        cause = f" ({error.__cause__})" if error.__cause__ is not None and not status else ""
        wait = f" within {self._patience:g} s" if _is_transient(error) else ""
        seen = f"{status}{error}{cause}"
        seen = (seen.replace(self._key, "***") if self._key else seen)[:400]
        refused = None if _is_transient(error) else _parameter(str(error))
        remedy = (
            "Check the server, and give the same command to continue: finished generations are kept."
            if refused is None
            else f"Leave out what it refuses: --set {refused}=none"
            + (" --set max_completion_tokens=4096." if refused == "max_tokens" else ".")
        )
        return EngineError(f"{_public(self.urls[self._route[lane]])}: saw {seen}; expected a reply{wait}. {remedy}")


def _parameter(message: str) -> str | None:
    """Return the parameter that a server says it does not support, None if the message says something else."""
    if not re.search(r"supported|permitted|unknown|unrecognized|unexpected", message, re.IGNORECASE):
        return None
    names = Sampling.model_fields.keys() - {"repairs", "structured", "lenient"}
    words = re.findall(r"\w+", message)
    return next((word for word in words if word in names), None)


def _is_transient(error: BaseException) -> bool:
    """Tell whether a failure is transient, so that the request should be sent again."""
    if isinstance(error, APIStatusError):
        return error.status_code in _RETRIED or error.status_code >= 500
    return isinstance(error, APIConnectionError | NoCompletionError)


def _public(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
