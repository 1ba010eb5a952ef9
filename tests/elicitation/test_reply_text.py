"""What of a text is the reply: marks of reasoning, channels and turns of every family."""

import pytest

from elicitation.reply_text import next_question, reply_of
from tests.elicitation.composed_replies import PIECES

DRAFT = "Adding up.\nAnswer: 7\nConfidence: 10%"


@pytest.mark.parametrize(("start", "end"), PIECES["reasoning"])
def test_reasoning_is_no_part_of_a_reply(start: str, end: str) -> None:
    assert reply_of(f"{start}{DRAFT}{end}Answer: 8") == "Answer: 8"
    assert reply_of(f"{start}{DRAFT}") is None


@pytest.mark.parametrize(("text", "reply"), PIECES["chats"])
def test_marks_of_chats(text: str, reply: str | None) -> None:
    assert reply_of(text) == reply


@pytest.mark.parametrize("mark", ["Question:", "Q:", "**Problem 2:**", "Next question:", "User:", "### Instruction:"])
def test_reply_text_ends_at_the_next_question(mark: str) -> None:
    text = f"Answer: 8\n\n{mark} 3 + 4?"
    assert next_question(text, 9) == text.index("\n\n") + 2
    assert next_question(f"{mark} 3 + 4?\nAnswer: 7", 9) == len(mark) + 17
