"""What of a text is the reply: marks of reasoning, channels and turns of every family."""

import pytest

from elicitation.fields import is_cut_off, is_unknown, next_question, reply_of
from tests.elicitation.composed_replies import PIECES

DRAFT = "Adding up.\nAnswer: 7\nConfidence: 10%"


@pytest.mark.parametrize(("start", "end"), PIECES["reasoning"])
def test_reasoning_is_no_part_of_a_reply(start: str, end: str) -> None:
    assert reply_of(f"{start}{DRAFT}{end}Answer: 8") == "Answer: 8"
    assert reply_of(f"{start}{DRAFT}") is None


@pytest.mark.parametrize(("text", "reply"), PIECES["chats"])
def test_marks_of_chats(text: str, reply: str | None) -> None:
    assert reply_of(text) == reply


def test_finish_reasons_by_every_name() -> None:
    assert all(is_cut_off(reason) and not is_unknown(reason) for reason in PIECES["cut off"])
    assert not any(is_cut_off(reason) or is_unknown(reason) for reason in [*PIECES["whole"], None, ""])
    assert is_unknown("OTHER")
    assert not is_cut_off("OTHER")


@pytest.mark.parametrize("mark", ["Question:", "Q:", "**Problem 2:**", "Next question:", "User:", "### Instruction:"])
def test_the_next_question_ends_a_reply(mark: str) -> None:
    text = f"Answer: 8\n\n{mark} 3 + 4?"
    assert next_question(text, 9) == text.index("\n\n") + 2
    assert next_question(f"{mark} 3 + 4?\nAnswer: 7", 9) is None
