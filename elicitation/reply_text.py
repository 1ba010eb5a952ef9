"""What of a model's text is its reply: without closed reasoning, marks of chats and channels, and later turns."""

import re

from elicitation.finish_reasons import is_cut_off

_CHARACTERS = (
    {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}  # full-width forms
    | dict.fromkeys((0x0000, 0x00AD, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF))  # invisible: removed
    | {0x066A: "%", 0xFE6A: "%", 0x2236: ":", 0x0D: "\n", 0x2028: "\n", 0x0085: "\n", 0x066B: ".", 0x066C: ","}
)
_REASON = (
    r"(?:seed:|ant|longcat_)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|analysis|scratch_?pad|reflection"
    r"|inner_(?:monologue|thoughts?))"
)
_CLOSED = re.compile(
    rf"(?mi)(?<![`\"'])(?:</(?:{_REASON}|details)\s*>|\[/(?-i:THINK)\]|◁/think▷|<\|(?:end_(?:of_)?|/){_REASON}\|>|<channel\|>"
    r"|<\|channel\|>\s*final\b[^<\n]*(?:<\|constrain\|>[^<\n]*)?<\|message\|>|assistantfinal|\[BEGIN FINAL RESPONSE\]"
    r"|<\|(?:inner_suffix|start_(?:text|response)|begin_of_solution|content)\|>|^here(?:'s| is) my response:"
    r"|^\.\.\.done thinking\.|^:::[^\S\n]*$)"
)
_OPENED = re.compile(
    rf"(?mi)(?<![`\"'])(?:<{_REASON}(?:\s[^<>]*)?>|\[(?-i:THINK)\]|◁think▷|<\|(?:(?:begin|start)_(?:of_)?)?{_REASON}\|>"
    r"|<\|channel\|?>\s*(?:analysis|commentary|thought)|assistant(?:analysis|commentary)|\Aanalysis(?=(?-i:[A-Z]))"
    r"|\A\s*here(?:'s| is| are) my (?:thought process|reasoning steps):)"
)
_SPECIAL = r"<\|[^<>|\n]{1,40}\|>"
_TURN = re.compile(
    r"(?mi)<\|(?:im_(?:start|end)|eo[mst](?:_id)?|end|return|start|user|assistant|system|pad|(?:start|end)_header_id"
    r"|(?:begin|start|end)[_▁]?of[_▁]?(?:text|sentence|turn|role|prompt|message)(?:_token)?)\|>"
    r"|</?s>|<(?:bos|eos|pad|start_of_turn|end_of_turn)>|<\|turn>|<turn\|>|\[/?INST\]"
)
_QUESTION = r"(?:(?:next|new)[ ])?(?:question|problem|exercise|user|human|instructions?|q)(?:[ *_]*\d+)?[ *_]*:"
_NEXT_QUESTION = re.compile(rf"(?mi)^(?=[^\w\n]*(?:{_QUESTION}|example[ ]?\d+:))")
_SET_OFF_QUESTION = re.compile(rf"(?i)\n[^\S\n]*\n(?=[^\S\n]*{_QUESTION})")


def plain_characters(text: str) -> str:
    """Return a text with plain characters in place of full-width and invisible ones."""
    return text.translate(_CHARACTERS)


def reply_of(text: str, finish_reason: str | None = None) -> str | None:
    """Return the reply in a text, in plain characters; None if it was cut off, or ends in reasoning.

    The reply stands behind the last mark that closes reasoning. Of several turns the first counts.

    Examples
    --------
    >>> reply_of("<think>7?</think>Answer: 8<|im_end|>"), reply_of("<think>Answer: 7")
    ('Answer: 8', None)
    """
    if is_cut_off(finish_reason):
        return None
    text = plain_characters(text).replace("<|begin_of_box|>", r"\boxed{").replace("<|end_of_box|>", "}")
    text = _CLOSED.split(text)[-1]
    turns = (re.sub(r"\A\s*(?:assistant|model)[^\S\n]*(?:\n|\Z)", "", turn) for turn in _TURN.split(text))
    reply = next((turn for turn in turns if re.search(r"\w", turn)), "")
    if _OPENED.search(reply):
        return None
    return ["", *filter(None, map(str.strip, re.split(_SPECIAL, reply)))][-1]


def next_question(reply: str, stated: int) -> int:
    """Return where the model asks itself the next question, or the end of its reply.

    That is behind its first answer, which ends at ``stated``, or before it behind words and a blank line.
    """
    words = len(reply) - len(reply.lstrip())
    question = _SET_OFF_QUESTION.search(reply, words, stated) or _NEXT_QUESTION.search(reply, stated)
    return len(reply) if question is None else question.end()
