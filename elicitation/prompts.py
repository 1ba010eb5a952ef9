"""The prompts: protocols read from TOML files, which users can read, replace and compare.

``steered``  the five steering levels of the paper, asked once each
``samples``  only the neutral level, asked five times: plain chain-of-thought samples
``topk``     one list of five guesses with their probabilities

Each has two wordings: ``ours``, and ``paraphrased``, which asks as the paper's released code does, in other words; that
code's own words are read from a checkout of it (:mod:`elicitation.authors_prompts`). Ours may ask for a reply in JSON.

A request is one user message, after any example turns. There is no system message, because some model families (Gemma)
refuse one.

Our wording puts shared parts first, for servers with prefix caching. The example turns, the instruction and the form of
the final line are the same in every request of a run; then comes the question, the same at all its levels; the note of
the level comes last. A re-ask appends to the prompt.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import field
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.dataclasses import dataclass

from bayes_direag.data.plain import is_missing
from bayes_direag.errors import DirEAGError
from elicitation.authors_prompts import authors_prompts
from elicitation.generation import Sampling

ProtocolName = Literal["steered", "samples", "topk"]
Wording = Literal["ours", "paraphrased"]
ReplyForm = Literal["text", "json"]


def _without_blank_ends(text: str) -> str:
    return text.strip("\n")


def _that_can_be_read_back(name: str) -> str:
    if is_missing(name):
        raise ValueError("this is blank, or a word for a missing value")
    return name


def _check_regex(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"this is not a regular expression: {error}") from error
    return pattern


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _that_can_be_set(settings: Mapping[str, object]) -> Mapping[str, object]:
    try:
        Sampling().override(settings)
    except DirEAGError as error:
        raise ValueError(str(error)) from error
    return settings


_Text = Annotated[str, AfterValidator(_without_blank_ends)]
_Name = Annotated[str, AfterValidator(_that_can_be_read_back)]
_Pattern = Annotated[str, AfterValidator(_check_regex)]
_CONFIG = ConfigDict(extra="forbid")


@dataclass(frozen=True, config=_CONFIG)
class Level:
    """One way of asking: its number from 0, the ``level`` of observations, and its name."""

    index: Annotated[int, Field(strict=True)]
    name: _Name
    #: The text that replaces ``{note}``; may be empty.
    note: _Text = ""
    #: Which model is asked, at which endpoints (one or several), and the environment variable that holds their API key;
    #: by default those of the run.
    model: _Name | None = None
    base_url: Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(exclude=True)] = ()  # may hold a password
    key_variable: _Name | None = None
    #: Sampling settings that differ from the run's, by name; the value ``"none"`` means None.
    sampling: Annotated[dict[str, JsonValue], AfterValidator(_that_can_be_set)] = field(default_factory=dict)
    #: The name that exchangeable levels share, in the observations too. The samples of a level with a group are
    #: exchangeable.
    group: _Name | None = None

    @property
    def is_asked_elsewhere(self) -> bool:
        """Whether it has a model or endpoints of its own."""
        return bool(self.model or self.base_url)

    @property
    def differences(self) -> dict[str, Any]:
        """What it has of its own that determines replies."""
        settings: dict[str, Any] = {"model": self.model, "sampling": self.sampling}
        return {name: value for name, value in settings.items() if value}


@dataclass(frozen=True, config=_CONFIG)
class Example:
    """An example turn: a question, and a reply that is shown to the model as its own."""

    question: _Text
    reply: _Text


@dataclass(frozen=True, config=_CONFIG)
class Protocol:
    """Everything that determines what the model is asked."""

    #: The kind of elicitation.
    name: ProtocolName
    #: The ways of asking, numbered 0, 1, 2 ... in this order, and the number of samples of each.
    levels: Annotated[tuple[Level, ...], Field(min_length=1)]
    n_samples: Annotated[int, Field(ge=1, strict=True)]
    #: The prompt, with ``{question}`` and ``{note}``.
    frame: _Text
    #: The text that a re-ask adds to the prompt; ``{reply}`` in it is replaced by the unreadable reply.
    repair: _Text
    #: Turns shown before the prompt, in the same frame without a note.
    examples: tuple[Example, ...]
    #: A regular expression for a complete reply, for servers that can constrain a reply to it.
    reply_pattern: _Pattern
    #: What a reply holds: an answer and a confidence, an answer alone, or a list of guesses with probabilities.
    holds: Literal["pair", "answer", "guesses"] = "pair"
    #: The maximum number of re-asks of an unreadable reply, if a run's settings allow more.
    repairs: Annotated[int, Field(ge=0, strict=True)] | None = None
    #: The JSON Schema of a reply in JSON, for servers that can hold a reply to it; None for a reply in text.
    schema: dict[str, JsonValue] | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> "Protocol":
        indices = [level.index for level in self.levels]
        if indices != list(range(len(indices))):
            raise ValueError(f"the levels must be numbered 0, 1, 2 ... in this order, and not {indices}")
        if len({" ".join(level.name.split()).casefold() for level in self.levels}) < len(self.levels):
            raise ValueError("two levels have the same name, but for case and spaces")
        for level in self.levels:
            if any(other.name == level.group != other.group for other in self.levels):
                raise ValueError(f"the group {level.group!r} has the name of a level that is not in it")
        if self.frame.count("{question}") != 1:
            raise ValueError("the frame must hold {question} once")
        if self.frame.count("{note}") != 1 and any(level.note for level in self.levels):
            raise ValueError("the frame must hold {note} once, because levels have notes")
        return self


def load_protocol(
    name: str,
    levels_file: str | Path | None = None,
    wording: Wording = "ours",
    form: ReplyForm = "text",
    prompts_from: str | Path | None = None,
) -> Protocol:
    """Load a shipped protocol, with levels, wording or examples of your own if a file is given.

    Raises DirEAGError if the name is unknown, prompts of the released code are asked for in JSON, or the file cannot
    be read or does not define a valid protocol.

    Parameters
    ----------
    levels_file : path-like, optional
        A TOML file in the form of the shipped ones. A level is a table ``[levels.NAME]`` with fields of
        :class:`Level`; they are numbered in their order. Its fields (``levels`` as a whole, ``n_samples``, ``frame``,
        ``repair``, ``reply_pattern``, ``holds``, ``repairs``, ``schema``) replace the shipped ones, as do
        ``[[examples]]``, each with ``question`` and ``reply``.
    wording : {"ours", "paraphrased"}
        Prompts and form of the reply: ours, or those of the paper's released code in other words.
    form : {"text", "json"}
        Whether a reply is asked for as text with a final line, or as a JSON object.
    prompts_from : path-like, optional
        A checkout of the paper's released code, whose own prompts replace those of the wording ``paraphrased``.

    Examples
    --------
    >>> [level.name for level in load_protocol("steered").levels]
    ['very_cautious', 'cautious', 'vanilla', 'confident', 'very_confident']
    """
    if name not in get_args(ProtocolName):
        raise DirEAGError(f"there is no protocol {name!r}; expected one of {', '.join(get_args(ProtocolName))}.")
    wording = wording if prompts_from is None else "paraphrased"
    if form == "json" and wording == "paraphrased":
        raise DirEAGError(
            "prompts of the released code have no JSON form; expected --wording ours, or --form text. Choose one."
        )
    settings = _shipped_settings(name, wording, form)
    if prompts_from is not None:
        settings |= authors_prompts(Path(prompts_from), name)
    if levels_file is not None:
        settings |= _read_toml(Path(levels_file))
    return _protocol(name, settings, f"{name}.toml" if levels_file is None else str(levels_file))


def messages(protocol: Protocol, level_index: int, question: str) -> list[dict[str, str]]:
    """Return the chat for one question at one level: the example turns, then one user message."""
    turns = [
        turn
        for example in protocol.examples
        for turn in (_turn("user", _prompt(protocol, example.question, "")), _turn("assistant", example.reply))
    ]
    return [*turns, _turn("user", _prompt(protocol, question, protocol.levels[level_index].note))]


def repair_messages(protocol: Protocol, level_index: int, question: str, bad_reply: str) -> list[dict[str, str]]:
    """Return the chat of a re-ask: the same prompt, followed by the required form of the final line.

    The unreadable reply is shown to the model only if the repair text contains ``{reply}``, as a garbled reply in the
    prompt invites another.
    """
    *turns, prompt = messages(protocol, level_index, question)
    repair = _fill(protocol.repair, reply=bad_reply)
    return [*turns, _turn("user", f"{prompt['content']}\n\n{repair}")]


def prompt_hash(protocol: Protocol) -> str:
    """Return the SHA-256, in hexadecimal, of every prompt and re-ask and of what a reply is held to.

    It does not depend on the names of the protocol and its levels, or the number of samples.
    """
    chats = [
        (messages(protocol, level.index, "{question}"), repair_messages(protocol, level.index, "{question}", "{reply}"))
        for level in protocol.levels
    ]
    held_to = [protocol.reply_pattern, *([] if protocol.schema is None else [protocol.schema])]
    return hashlib.sha256(json.dumps([chats, *held_to]).encode()).hexdigest()


def _turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _prompt(protocol: Protocol, question: str, note: str) -> str:
    return _fill(protocol.frame, question=question.strip(), note=note).rstrip()


def _fill(template: str, **values: str) -> str:
    """Replace the placeholders of a template; braces in the replacements are kept."""
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template)


def _shipped_settings(name: str, wording: Wording, form: ReplyForm) -> dict[str, Any]:
    folder = files("elicitation") / "prompt_files"
    file = (folder / wording if wording == "paraphrased" else folder) / f"{name}.toml"
    settings = tomllib.loads(file.read_text("utf-8"))
    if form == "json":
        settings |= tomllib.loads((folder / "json.toml").read_text("utf-8"))[settings.get("holds", "pair")]
    return settings


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DirEAGError(
            f"{path}: this file cannot be read ({error}); expected a TOML file in UTF-8. "
            "Start from a copy of one that comes with the package, in elicitation/prompt_files."
        ) from error


def _protocol(name: str, settings: dict[str, Any], source: str) -> Protocol:
    """Validate the settings of a protocol; errors name their ``source``."""
    levels = settings["levels"]
    names = [*levels] if isinstance(levels, dict) and all(isinstance(level, dict) for level in levels.values()) else []
    numbered = [{**levels[level], "index": index, "name": level} for index, level in enumerate(names)]
    if not names:
        raise DirEAGError(
            f"{source}, field levels: saw {str(levels)[:60]!r}; expected a table for each level, as [levels.cautious]. "
            "Correct the file, or start from a copy of one in elicitation/prompt_files."
        )
    try:
        return TypeAdapter(Protocol).validate_python({"examples": (), **settings, "name": name, "levels": numbered})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        steps = [
            names[step] if depth == 1 and isinstance(step, int) else step for depth, step in enumerate(first["loc"])
        ]
        at = ".".join(map(str, steps))
        raise DirEAGError(
            f"{source}{f', field {at}' if at else ''}: {first['msg']}; saw {str(first['input'])[:60]!r}; "
            "expected the fields of the files in elicitation/prompt_files. Correct the file, or start from a copy."
        ) from error
