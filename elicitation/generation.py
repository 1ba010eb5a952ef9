"""Requests to an engine, their settings and seeds, and the replies."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from bayes_direag.errors import DirEAGError
from elicitation.finish_reasons import is_cut_off
from elicitation.reply_text import reply_of
from elicitation.token_probability import Tokens, tokens_of_answer

Message = dict[str, str]
"""One chat message: its ``role`` and its ``content``."""


class Sampling(BaseModel):
    """How replies are drawn; every parameter is sent with every request, so that server defaults do not matter.

    None omits a parameter that a server refuses. ``top_k``, ``min_p`` and ``repetition_penalty`` are not in the OpenAI
    protocol, but vLLM and most local servers accept them; hosted reasoning models accept few of the others.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: The paper's settings.
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.7
    top_p: Annotated[float, Field(gt=0, le=1)] | None = 1.0
    #: The maximum length of a reply, in tokens; a reply of this length counts as truncated. Reasoning models take the
    #: second, which includes the reasoning and is not sent by default.
    max_tokens: Annotated[int, Field(ge=1)] | None = 1024
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    #: How much a reasoning model reasons (``low``, ``high`` ...); not sent by default.
    reasoning_effort: Annotated[str, Field(min_length=1)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = 0.0
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = 0.0
    #: The number of most probable tokens to draw from; 0 for all.
    top_k: Annotated[int, Field(ge=0)] | None = 0
    #: The minimum probability of a token relative to the most probable one.
    min_p: Annotated[float, Field(ge=0, le=1)] | None = 0.0
    repetition_penalty: Annotated[float, Field(gt=0)] | None = 1.0
    #: Whether the server adds a start token to a chat that already has one from its template (vLLM), as the released
    #: code of the paper does; not sent by default.
    add_special_tokens: bool | None = None
    #: Whether the server returns the log-probability of each token, which gives the signal ``logprob`` of the answer;
    #: not sent by default.
    logprobs: bool | None = None
    #: Further fields of the body of each request, as JSON values, unchanged (``chat_template_kwargs`` of vLLM ...).
    body: dict[str, JsonValue] = Field(default_factory=dict)
    #: Whether requests contain their seed (:func:`request_seed`).
    send_seed: bool = False
    #: How often an unreadable reply is asked for again.
    repairs: Annotated[int, Field(ge=0)] = 2
    #: Whether replies are forced to match the protocol's pattern (vLLM only). This changes answers and confidences, so
    #: results with and without it are not comparable.
    structured: bool = False
    #: Whether replies without a final line, truncated or not, are read by the fall-back of the paper's released code
    #: (:func:`~elicitation.parsing.read_last_number`) instead of being asked for again.
    lenient: bool = False

    @property
    def parameters(self) -> dict[str, object]:
        """The settings that are sent."""
        return self.model_dump(exclude={"body", *NOT_SENT}, exclude_none=True) | self.body

    def override(self, settings: Mapping[str, object]) -> "Sampling":
        """Replace some settings, given by name, with values as in a text; ``none`` means None.

        ``body.NAME`` adds a field to the body of each request, a JSON value or its text. Raises DirEAGError if there is
        no such field, or it does not take the value.

        Examples
        --------
        >>> Sampling().override({"temperature": 0.2, "top_k": "none"}).temperature
        0.2
        >>> Sampling().override({"body.chat_template_kwargs": '{"enable_thinking": false}'}).body
        {'chat_template_kwargs': {'enable_thinking': False}}
        """
        body = dict(self.body)
        texts: dict[str, str] = {}
        for name, value in settings.items():
            if name == "body" and isinstance(value, Mapping):  # of a TOML file
                body |= {
                    _body_name(field): _json(f"body.{field}", json.dumps(content)) for field, content in value.items()
                }
            elif name.startswith("body."):
                body[_body_name(name.removeprefix("body."))] = _json(name, str(value))
            else:
                texts[name] = str(value)
        values = {name: None if value.lower() == "none" else value for name, value in texts.items()}
        try:
            return Sampling.model_validate(self.model_dump() | {"body": body} | values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            wrong = str(first["loc"][0])
            raise DirEAGError(
                f"sampling {wrong}: saw {texts.get(wrong)!r} ({first['msg']}); expected FIELD=VALUE with one of "
                f"{', '.join(Sampling.model_fields)}. Correct the setting."
            ) from error


#: The settings that say how replies are asked for and read, and are no part of a request.
NOT_SENT = frozenset({"send_seed", "repairs", "structured", "lenient"})
#: The fields of a request that the run itself fills.
_FILLED = frozenset({"model", "messages", "seed", "response_format", "structured_outputs", "stream", "n"})


def _body_name(name: str) -> str:
    """Return the name of a further field of the body; DirEAGError if the run fills it."""
    if not name or name in _FILLED or name in Sampling.model_fields:
        remedy = f"Set {name} itself." if name in Sampling.model_fields else "Leave it out."
        raise DirEAGError(f"sampling body.{name}: saw a field that the run fills; expected another. {remedy}")
    return name


def _json(setting: str, text: str) -> JsonValue:
    """Return the JSON value in a text; DirEAGError if there is none, or it cannot be written in UTF-8."""
    try:
        value: JsonValue = json.loads(text)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise DirEAGError(
            f"sampling {setting}: saw {text[:80]!r}; expected JSON, as true, 512, "
            f"{json.dumps({'enable_thinking': False})}, or a text in double quotation marks. Correct the value."
        ) from None
    return value


class Key(NamedTuple):
    """The unique key of a generation in a run; the attempt is 0 for the first reply, 1, 2 ... for format repairs."""

    problem_id: str
    level: int
    sample: int
    attempt: int


@dataclass(frozen=True)
class ChatRequest:
    """A request for one reply: its key, and the conversation that it continues."""

    key: Key
    messages: tuple[Message, ...]
    #: How to draw the reply; see :func:`request_seed`.
    seed: int
    sampling: Sampling
    #: A regular expression that the reply must match, or the JSON Schema that it should match.
    pattern: str | None = None
    schema: Mapping[str, JsonValue] | None = None

    def body(self, model: str) -> dict[str, object]:
        """Return the request in the form of the OpenAI chat protocol; only vLLM knows patterns."""
        body: dict[str, object] = {"model": model, "messages": list(self.messages), **self.sampling.parameters}
        if self.sampling.send_seed:
            body["seed"] = self.seed
        if self.pattern is not None:
            body["structured_outputs"] = {"regex": self.pattern}
        elif self.schema is not None:
            schema = {"name": "reply", "schema": self.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    @property
    def digest(self) -> str:
        """A short hash of the messages; a resumed run uses it to check that a reply answers the same prompt."""
        return hashlib.sha256(json.dumps(self.messages).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Generation:
    """A finished reply."""

    #: As the model wrote it.
    text: str
    #: ``stop``; ``length`` if it was truncated; :data:`REASONING` if that was before the end of its reasoning;
    #: ``context`` if the prompt did not fit into the model's context, ``content_filter`` if the server took offence.
    finish_reason: str = "stop"
    #: As counted by the server; 0 if it does not count.
    prompt_tokens: int = 0
    completion_tokens: int = 0
    #: The tokens of the field with its last answer, each with its log-probability; empty unless requested, returned,
    #: and found.
    final_tokens: Tokens = ()


def generation_of(reply: object) -> Generation | None:
    """Return the reply in a chat completion; None if the JSON value is not one.

    Numbers of tokens and log-probabilities of another form are left out.
    """
    match reply:
        case {"choices": [{"message": {**message}, **choice}, *_], **about}:
            content = message.get("content") or ""
            if isinstance(content, str) or (
                isinstance(content, list) and all(isinstance(one, dict) for one in content)
            ):
                text = text_of(message | {"content": content})
                reason = str(choice.get("finish_reason") or "stop")[:40]
                in_reasoning = is_cut_off(reason) and not reply_of(text)
                return Generation(
                    text=text,
                    finish_reason=REASONING if in_reasoning and "length" in reason else reason,
                    prompt_tokens=_count(about.get("usage"), "prompt_tokens"),
                    completion_tokens=_count(about.get("usage"), "completion_tokens"),
                    final_tokens=tokens_of_answer(text, choice.get("logprobs")),
                )
    return None


def text_of(message: object) -> str:
    """Return the text of a message or of its parts, and the arguments of the tools that it calls."""
    match message:
        case str():
            return message
        case list():
            return "".join(map(text_of, message))
        case {"thought": True} | {"type": "thinking" | "reasoning"}:
            return ""
        case {"text": str(text)}:
            return text
        case {"arguments": called} | {"input": called} | {"args": called}:
            return called if isinstance(called, str) else json.dumps(called)
        case {"function": inner} | {"functionCall": inner} | {"toolUse": inner} | {"parts": inner}:
            return text_of(inner)
        case {"content": content, **others}:
            called = text_of(others.get("tool_calls") or others.get("function_call"))
            return "\n".join(filter(None, (text_of(content), called)))
        case _:
            return ""


def _count(usage: object, name: str) -> int:
    number = usage.get(name) if isinstance(usage, dict) else None
    return number if isinstance(number, int) and 0 <= number < 1 << 53 else 0


#: The finish reason of a reply that was truncated in its reasoning, so that nothing of it can be read.
REASONING = "length, in the reasoning"
#: What servers say of a prompt that they will never take, by the finish reason of the reply without text that it gets.
_NEVER_TAKEN = {
    "context": re.compile(
        r"maximum context length|context_length_exceeded|exceeds the available context size|prompt is too long"
        r"|longer than the (?:model's context|maximum model) length|context length (?:is|of) only|model token limit"
    ),
    "content_filter": re.compile(r"content_filter"),
}


def without_text(refusal: str) -> Generation | None:
    """Return the reply to a prompt that a server refuses as too long or unsuitable; None for any other refusal."""
    reasons = [reason for reason, said in _NEVER_TAKEN.items() if said.search(refusal)]
    return Generation("", reasons[0]) if reasons else None


def request_seed(run_seed: int, key: Key) -> int:
    """Return the seed of one request, which is the same on every machine, and in every order and session.

    It is the first 31 bits of the SHA-256 hash of the JSON list ``[run_seed, problem_id, level, sample, attempt]`` in
    UTF-8, with the separators ``", "`` and non-ASCII characters escaped.

    Examples
    --------
    >>> request_seed(0, Key("svamp-00017", 2, 0, 0))
    581128891
    """
    digest = hashlib.sha256(json.dumps([run_seed, *key]).encode()).digest()
    return int.from_bytes(digest[:4]) >> 1
