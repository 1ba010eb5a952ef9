"""Output files of batch services and of ``vllm run-batch``: one response a line, in any usual form of a body."""

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from pydantic import AliasChoices, BaseModel, Field, JsonValue

from elicitation.generation import text_of
from elicitation.importing.replies import Log, Reply, read_records

_TEXTS = ("message", "content", "generation", "outputText", "text")
_REASONS = ("finish_reason", "finishReason", "stop_reason", "stopReason", "completionReason")


class BatchLine(BaseModel):
    """One line of the file: a response, a message of another service, or an error."""

    custom_id: str = Field(validation_alias=AliasChoices("custom_id", "key", "recordId"))
    response: JsonValue = None
    result: JsonValue = None
    output: JsonValue = Field(None, validation_alias="modelOutput")
    error: JsonValue = None

    @property
    def body(self) -> object:
        """The body of a request that has succeeded, None if it has failed."""
        body = self.response or self.output or (None if self.error else {})
        if isinstance(self.result, dict):
            return self.result.get("message") if self.result.get("type") == "succeeded" else None
        if isinstance(body, dict) and "status_code" in body:
            body = (body.get("body") or {}) if str(body["status_code"]) == "200" else None
        with suppress(ValueError, RecursionError):  # JSON as a text
            return json.loads(body) if isinstance(body, str) else body
        return body


def replies(log: Log) -> Iterator[Reply]:
    """Yield the replies of an output file; a failed request is a reply without text.

    ``custom_id`` is the name of the question, or ``NAME/LEVEL`` with the level after the last slash. If it is the name
    of a question that was asked, or has no slash, the level is the file. Each of several choices of one request is a
    level. Raises ObservationError if a request has succeeded and its body holds no reply.
    """
    lines = [(line, record, _said(log, line, record.body)) for line, record in read_records(log, BatchLine)]
    choices: dict[str, int] = defaultdict(lambda: 1)
    for _, record, said in lines:
        level = _place(log, record.custom_id)[1]
        choices[level] = max(choices[level], len(said))
    for line, record, said in lines:
        problem_id, level = _place(log, record.custom_id)
        model = record.body.get("model") if isinstance(record.body, dict) else None
        for number in range(choices[level]):
            text, finish_reason = said[number] if number < len(said) else (None, None)
            yield Reply(
                problem_id,
                f"{level} {number}".strip() if choices[level] > 1 else level,
                text,
                line,
                finish_reason=finish_reason,
                model=None if model is None else str(model),
                group=level if choices[level] > 1 else None,
                file=None if level else log.path.stem,
            )


def _place(log: Log, custom_id: str) -> tuple[str, str]:
    """Return the question and the level of a request."""
    problem_id, _, level = custom_id.rpartition("/")
    return (problem_id, level) if problem_id and custom_id not in log.names else (custom_id, "")


def _said(log: Log, line: int, body: Any) -> list[tuple[str, str | None]]:
    """Return the replies in a body of any form, each with why the model stopped; none without a body."""
    match body:
        case None:
            return []
        case {"error": error} if error:  # a failed request, whatever its status
            return []
        case {"choices": [*ones]} | {"results": [*ones]} | {"outputs": [*ones]} | {"candidates": [*ones]} if ones:
            replied = [one for one in ones if isinstance(one, dict)]
        case {"output": [*output]}:
            details = body.get("incomplete_details")
            messages = [one for one in output if isinstance(one, dict) and one.get("type") != "reasoning"]
            reason = details.get("reason") if isinstance(details, dict) else details
            replied = [{"content": messages, "finish_reason": reason}] if messages or details else []
        case {"output": {"message": message}}:
            replied = [body | {"message": message}]
        case {"promptFeedback": {"blockReason": reason}}:
            replied = [{"finish_reason": reason}]
        case {"generation": str()} | {"content": [*_]}:
            replied = [body]
        case _:
            replied = []
    if not replied:
        raise log.error(
            "this response holds no reply",
            line=line,
            seen=str(body)[:80],
            expected="choices, output, results, candidates or content, as batch services write them",
            remedy="Check that the file is the output of a batch.",
        )
    texts = [next((one[name] for name in _TEXTS if name in one), one) for one in replied]
    reasons = [next((one[name] for name in _REASONS if one.get(name) is not None), None) for one in replied]
    return [(text_of(text), reason and str(reason)) for text, reason in zip(texts, reasons, strict=True)]
