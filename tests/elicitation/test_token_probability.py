"""The probability of the tokens of an answer: at its own place, or none."""

import math
import re

import pytest

from elicitation.generation import generation_of
from elicitation.parsing import read_reply
from elicitation.token_probability import answer_probability


def probability(text: str, sure: str, *, before: str = "", kind: str = "numeric") -> float | None:
    """Return the probability of the answer of a reply, of which all tokens but ``sure`` have the log-probability -3."""
    tokens = re.findall(r"\s*(?:\w+|\W)", before + text)
    logprobs = {"content": [{"token": one, "logprob": -0.5 if one.strip() == sure else -3} for one in tokens]}
    reply = generation_of({"choices": [{"message": {"content": text}, "logprobs": logprobs}]})
    assert reply is not None
    answer = read_reply(text, "stop", kind=kind).answer  # type: ignore[arg-type]
    return answer_probability(text, reply.final_tokens, answer or "?")


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ("None is left.\nAnswer: 0\nConfidence: 100%", "0"),
        ("Of 70 there are 7.\nAnswer and Confidence (0-100): 7, 70%", "7"),
        ("It is 7 of 70.\n**Answer:** 7\n\nReason: 7 of 70.\nConfidence: 77%", "7"),
        ("Confidence: 90%\nAnswer: 9", "9"),
        ("So it is \\boxed{5}.\nConfidence: 55%", "5"),
        ("### Answer\n5\n### Confidence\n55%", "5"),
    ],
)
def test_probability_is_that_of_the_answers_own_tokens(text: str, sure: str) -> None:
    assert probability(text, sure) == pytest.approx(100 * math.exp(-0.5))
    assert probability(text, sure, before="<think>\nAnswer: 5?\n</think>\n\n") == pytest.approx(100 * math.exp(-0.5))


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": 5, "confidence": 55}',
        "<answer>5</answer><confidence>55</confidence>",
        "Answer: 5\nI check it.\nAnswer: 5\nConfidence: 55%",  # which of the two was it?
        "Answer: five\nConfidence: 55%",
        "G1: 5\nP1: 55%",
    ],
)
def test_probability_is_none_without_a_place(text: str) -> None:
    assert probability(text, "5") is None


def test_probability_needs_the_tokens_of_this_reply() -> None:
    line = (("Answer", 0.0), (":", 0.0), (" 5", -1.0))
    assert answer_probability("Answer: 5\nConfidence: 55%", line, "5") == pytest.approx(100 * math.exp(-1))
    assert answer_probability("Answer: 5\nConfidence: 55%", (("Confidence: 55%", 0.0),), "5") is None  # another line
    assert answer_probability("Answer: 5\nConfidence: 55%", (), "5") is None
    choice = {"message": {"content": "Answer: 5"}, "logprobs": {"content": [{"token": "Answer: 6", "logprob": -1}]}}
    reply = generation_of({"choices": [choice]})
    assert reply is not None
    assert reply.final_tokens == ()


def test_generation_has_the_words_beside_a_tool_call_and_the_call() -> None:
    call = {"function": {"name": "submit", "arguments": '{"answer": 7, "confidence": 80}'}}
    reply = generation_of({"choices": [{"message": {"content": "I submit it.", "tool_calls": [call]}}]})
    assert reply is not None
    assert read_reply(reply.text, reply.finish_reason)[:2] == ("7", 80)
