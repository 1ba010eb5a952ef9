"""What of a model's text is its reply: without reasoning, marks of chats and channels, and later turns."""

import re
from collections.abc import Mapping

_CUT_OFF = re.compile(
    r"length|max|limit|incomplete|partial|unfinished|filter|safety|block|prohibit|recitation|spii|guardrail|refus"
    r"|abort|cancel|interrupt|error|fail|malformed|timeout|time_out|context|exceed|insufficient|truncat|repetition",
    re.IGNORECASE,
)
_WHOLE = re.compile(r"stop|eos|end|complete|finish|success|succeed|done|tool|function|word", re.IGNORECASE)

_CHARACTERS = (
    {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}  # full-width forms
    | dict.fromkeys((0x00AD, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF))  # invisible: removed
    | {0x066A: "%", 0xFE6A: "%", 0x2236: ":", 0x0D: "\n", 0x2028: "\n", 0x0085: "\n"}
    | {0x066B: ".", 0x066C: ","}  # the Arabic decimal and thousands separators
)
_REASON = (
    r"(?:seed:|ant|longcat_)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|analysis|scratch_?pad|reflection"
    r"|(?:inner_?)?(?:monologue|thoughts?))"
)
_REASONING = re.compile(
    rf"""
    (?P<reply>
        <\|channel\|>\s*final\b[^<\n]*(?:<\|constrain\|>[^<\n]*)?<\|message\|> | assistantfinal
        | <\|(?:start_(?:text|response)|begin_of_solution|content)\|> | \[BEGIN[ ]FINAL[ ]RESPONSE\]
    )
    | (?P<spoken>here(?:'s|[ ]is)[ ]my[ ]response:)
    | (?P<end> </{_REASON}\s*> | \[/(?-i:THINK)\] | ◁/think▷ | <\|(?:end_(?:of_)?|/){_REASON}\|> | <channel\|>)
    | <{_REASON}(?:\s[^<>]*)?> | \[(?-i:THINK)\] | ◁think▷ | <\|(?:(?:begin|start)_(?:of_)?)?{_REASON}\|>
    | <\|channel\|?>\s*(?:analysis|commentary|thought)\w* | assistant(?:analysis|commentary) | \Aanalysis(?=(?-i:[A-Z]))
    | \A\s*here(?:'s|[ ]is|[ ]are)[ ]my[ ](?:thought[ ]process|reasoning[ ]steps):
    """,
    re.VERBOSE | re.IGNORECASE,
)
_TURN = re.compile(
    r"<\|[^<>|\n]{1,40}\|>|</?s>|<(?:bos|eos|pad|start_of_turn|end_of_turn)>|<\|turn>|<turn\|>|\[/?INST\]",
    re.IGNORECASE,
)
PLACEHOLDER = re.compile(
    r"[<\[{(]\s*(?:(?:your|the|a|only|insert)\s+)*(?:number|answer|confidence|probability|final|level|value)\b"
    r"[^<>\[\]{}()\d]*[>\]})]",
    re.IGNORECASE,
)
_QUESTION = r"(?:(?:next|new)[^\S\n]+)?(?:question|problem|exercise|user|human|instructions?|q)\b[ *_]*\d*[ *_]*:"
_NEXT_QUESTION = re.compile(rf"^[^\w\n]*{_QUESTION}", re.IGNORECASE | re.MULTILINE)
_SET_OFF_QUESTION = re.compile(rf"\n[^\S\n]*\n[^\S\n]*{_QUESTION}", re.IGNORECASE)
_FIRST_WORD = re.compile(r"(?:\A|\n)[^\w\n]*\w")
_ROLE = re.compile(r"\A\s*(?:assistant|model)[^\S\n]*(?:\n|\Z)")


def is_cut_off(finish_reason: str | None) -> bool:
    """Tell whether a model was stopped before the end of its reply, by any server's name for it.

    Examples
    --------
    >>> [is_cut_off(reason) for reason in ("length", "MAX_TOKENS", "incomplete", "stop", None)]
    [True, True, True, False, False]
    """
    return finish_reason is not None and _CUT_OFF.search(finish_reason) is not None


def is_unknown(finish_reason: str | None) -> bool:
    """Tell whether a finish reason is none of those that servers are known to give; such a reply counts as whole."""
    return bool(finish_reason) and not is_cut_off(finish_reason) and not _WHOLE.search(finish_reason or "")


def tell_unknown(reasons: Mapping[str, int]) -> str:
    """Return a sentence about replies with unknown finish reasons."""
    counts = ", ".join(f"{reason!r} {n}" for reason, n in sorted(reasons.items()))
    return f"Finish reasons that are not known, whose replies count as whole: {counts}."


def plain_characters(text: str) -> str:
    """Return a text with plain characters in place of full-width and invisible ones."""
    return text.translate(_CHARACTERS)


def reply_of(text: str, finish_reason: str | None = None) -> str | None:
    """Return the reply in a text, in plain characters; None if it was cut off, or ends in reasoning.

    Reasoning that is opened and closed is left out, as is all before a mark that closes reasoning which the prompt
    opened, or that begins the reply. Of several turns the first counts.

    Examples
    --------
    >>> reply_of("<think>7?</think>Answer: 8<|im_end|>"), reply_of("<think>Answer: 7")
    ('Answer: 8', None)
    """
    if is_cut_off(finish_reason):
        return None
    text = plain_characters(text).replace("<|begin_of_box|>", r"\boxed{").replace("<|end_of_box|>", "}")
    kept: list[str] = []
    depth = place = 0
    for mark in _REASONING.finditer(text):
        if mark["reply"] or (mark["end"] and not depth):
            kept, depth = [], 0
        elif mark["spoken"] and not depth:
            continue
        elif mark["end"] or mark["spoken"]:
            depth -= 1
        elif not depth:
            kept.append(text[place : mark.start()])
            depth = 1
        elif text[place : mark.start()].strip():  # a mark is often written twice
            depth += 1
        place = mark.end()
    if depth:
        return None
    turns = (_ROLE.sub("", turn) for turn in _TURN.split("\n".join([*kept, text[place:]])))
    return next((turn.strip() for turn in turns if re.search(r"\w", turn)), "")


def next_question(reply: str, stated: int) -> int | None:
    """Return where the model asks itself the next question, None if it does not.

    That is behind the first answer, which ends at ``stated``. It may come before, if it is set off by a blank line from
    words that are not a form copied from the prompt.
    """
    copied = max((form.end() for form in PLACEHOLDER.finditer(reply, 0, stated)), default=0)
    said = _FIRST_WORD.search(reply, copied)
    early = None if said is None else _SET_OFF_QUESTION.search(reply, said.end(), stated)
    question = early or _NEXT_QUESTION.search(reply, stated)
    return None if question is None else question.start()
