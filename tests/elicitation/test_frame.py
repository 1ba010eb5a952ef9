"""What of a text is the reply: marks of reasoning, channels and turns of every family."""

import pytest

from elicitation.fields import is_cut_off, is_unknown, next_question, reply_of

DRAFT = "Adding up.\nAnswer: 7\nConfidence: 10%"
PAIRS = [
    *(
        (f"<{word}>", f"</{word}>")
        for word in ("think", "thinking", "THINK", "thought", "reasoning", "reason", "analysis")
    ),
    *(
        (f"<{word}>", f"</{word}>")
        for word in ("seed:think", "antThinking", "scratchpad", "reflection", "inner_monologue")
    ),
    ('<thinking budget="8">', "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|think|>", "<|/think|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|><|begin_of_solution|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel|>commentary<|message|>", "<|end|><|channel|>final <|constrain|>json<|message|>"),
    ("analysisWe add. ", "assistantfinal"),
    ("Here is my thought process:\n", "\nHere is my response:"),
    ("Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]"),
]


@pytest.mark.parametrize(("start", "end"), PAIRS)
def test_reasoning_is_no_part_of_a_reply(start: str, end: str) -> None:
    assert reply_of(f"{start}{DRAFT}{end}Answer: 8") == "Answer: 8"
    assert reply_of(f"{start}{DRAFT}") is None


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        (f"{DRAFT}</think>Answer: 8", "Answer: 8"),  # opened in the prompt
        ("<think>7?</think>Answer: 8<think>or 9?</think>", "Answer: 8"),
        ("<think>\n<think>7?</think>Answer: 8", "Answer: 8"),  # opened by the prompt, and again
        ("<think>7 <think>or 6</think> Answer: 7</think>Answer: 8", "Answer: 8"),
        ("<think>7 <think>or 6</think> Answer: 7", None),
        ("<think></think>\n\nAnswer: 8", "Answer: 8"),
        ("<|channel|>analysis<|message|>7?<|end|><|start|>assistant<|channel|>commentary<|message|>6?", None),
        ("Here is my response: Answer: 8", "Here is my response: Answer: 8"),
        ("assistant\n\nAnswer: 8", "Answer: 8"),
        ("<|im_start|>assistant\nAnswer: 8<|im_end|>\n<|im_start|>user\nNext?", "Answer: 8"),
        ("<|start_header_id|>assistant<|end_header_id|>\n\nAnswer: 8<|eot_id|>", "Answer: 8"),
        ("Answer: 8<|return|>", "Answer: 8"),
        ("Answer: 8<|end_of_text|>", "Answer: 8"),
        ("Answer: 8<\uff5cend▁of▁sentence\uff5c>", "Answer: 8"),
        ("Answer: 8<end_of_turn>\n<start_of_turn>user\nNext?", "Answer: 8"),
        ("Answer: 8<turn|><|turn>user\nNext?", "Answer: 8"),
        ("<s>Answer: 8</s>", "Answer: 8"),
        ("Answer: 8 [INST] Next?", "Answer: 8"),
        ("Answer: <|begin_of_box|>8<|end_of_box|>", "Answer: \\boxed{8}"),
        ("Answer\uff1a\u200b \uff18\r\n", "Answer: 8"),
        ("", ""),
    ],
)
def test_marks_of_chats(text: str, reply: str | None) -> None:
    assert reply_of(text) == reply


CUT_OFF = (
    "length LENGTH max_tokens MAX_TOKENS max_output_tokens model_length max_length incomplete content_filter safety "
    "SAFETY RECITATION PROHIBITED_CONTENT BLOCKLIST SPII refusal abort error cancelled timeout context limit "
    "model_context_window_exceeded insufficient_system_resource guardrail_intervened FinishReason.MAX_TOKENS"
)
WHOLE = "stop STOP end_turn stop_sequence eos eos_token completed complete tool_calls tool_use function_call"


def test_finish_reasons_by_every_name() -> None:
    assert all(is_cut_off(reason) and not is_unknown(reason) for reason in CUT_OFF.split())
    assert not any(is_cut_off(reason) or is_unknown(reason) for reason in [*WHOLE.split(), None, ""])
    assert is_unknown("OTHER")
    assert not is_cut_off("OTHER")


@pytest.mark.parametrize("mark", ["Question:", "Q:", "**Problem 2:**", "Next question:", "User:", "### Instruction:"])
def test_the_next_question_ends_a_reply(mark: str) -> None:
    text = f"Answer: 8\n\n{mark} 3 + 4?"
    assert next_question(text, 9) == text.index("\n\n") + 2
    assert next_question(f"{mark} 3 + 4?\nAnswer: 7", 9) is None
