"""The probability that a model gave to the tokens of its answer, at the answer's own place in the reply."""

import math
from collections.abc import Sequence
from itertools import accumulate

from elicitation.fields import Field, find_answers
from elicitation.reply_text import reply_of

Tokens = tuple[tuple[str, float], ...]
"""Tokens, each with its log-probability."""


def tokens_of_answer(text: str, logprobs: object) -> Tokens:
    """Return the tokens of the field with the last answer of a reply, from the log-probabilities of a chat completion.

    None if these have another form, or the field does not stand in the text once. The tokens may begin with those of
    the reasoning, which a server cuts off.
    """
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    tokens: list[tuple[str, float]] = []
    for record in content if isinstance(content, list) else ():
        match record:
            case {"token": str(token), "logprob": int() | float() as logprob} if -1e9 < logprob < 1:
                tokens.append((token, float(logprob)))
            case _:
                return ()
    line, _ = _last_field(text) if tokens else ("", None)
    reply = "".join(token for token, _ in tokens).rfind(text.strip())
    if not line or reply < 0 or text.count(line) != 1:
        return ()
    return _within(tokens, reply + text.strip().index(line), len(line))


def answer_probability(text: str, tokens: Sequence[tuple[str, float]], answer: str) -> float | None:
    """Return 100 exp(mean log-probability) of the tokens of the last answer of a reply; None if they are not there.

    The tokens are those of its field, or more around it.

    Examples
    --------
    >>> tokens = [("Answer", -3.0), (":", -0.1), (" 5", -0.1), ("1", -0.3), (", 90%", -2.0)]
    >>> round(answer_probability("Answer: 51, 90%", tokens, "51, 90%"), 1)
    44.9
    """
    line, field = _last_field(text) if tokens else ("", None)
    joined = "".join(token for token, _ in tokens)
    content = "" if field is None else field.text.strip()
    if not line or joined.count(line) != 1 or answer not in content:
        return None
    start = joined.index(line) + line.rindex(content) + content.index(answer)
    logprobs = [logprob for _, logprob in _within(tokens, start, len(answer))]
    return min(100 * math.exp(sum(logprobs) / len(logprobs)), 100.0) if logprobs else None


def _last_field(text: str) -> tuple[str, Field | None]:
    """Return the field with the last answer of a text, and how it stands there; nothing if it does not."""
    answers, said = find_answers(reply_of(text) or "")
    fields = [answer.field for answer in answers if answer.field.rank is None]
    if not fields:
        return "", None
    line = said[fields[-1].start : fields[-1].end].strip()
    return (line, fields[-1]) if fields[-1].text.strip() in line else ("", None)


def _within(tokens: Sequence[tuple[str, float]], start: int, length: int) -> Tokens:
    """Return the tokens that share a character with a part of their text."""
    ends = accumulate(len(token) for token, _ in tokens)
    return tuple(
        token for token, end in zip(tokens, ends, strict=True) if end > start and end - len(token[0]) < start + length
    )
