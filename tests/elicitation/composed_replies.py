"""Replies composed of an answer, a confidence, a form, and what may stand around them."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from bayes_direag.data.answers import AnswerKind

#: Pieces of replies by their use. A form may be one in which a confidence is a fraction, and one that need not be read.
PIECES: dict[str, Any] = json.loads(Path(__file__).with_name("reply_pieces.json").read_text("utf-8"))


class Confidence(NamedTuple):
    """A text, and the percentage that it states; None if it states none."""

    text: str
    value: float | None


class Composed(NamedTuple):
    """A reply, and what it is composed of."""

    text: str
    answer: str
    confidence: Confidence


NUMBERS = st.integers(-(10**6), 10**7).map(str)
ANSWERS: dict[AnswerKind, st.SearchStrategy[str]] = {
    "numeric": NUMBERS
    | st.integers(1000, 10**8).map("{:,}".format)
    | st.decimals(0, 1000, places=2).map("{:f}".format)
    | st.sampled_from(["$18", "12%", "1/3", "-0", "51 apples", "2.5 kg", "1e6"]),
    "choice": st.builds(
        str.format, st.sampled_from(["{}", "({})", "{}. 25%", "{}) 40 of them", "{}: blue"]), st.sampled_from("ABCDE")
    ),
    "text": st.sampled_from(PIECES["text answers"]),
}
PLAIN_ANSWERS: dict[AnswerKind, st.SearchStrategy[str]] = {
    "numeric": NUMBERS,
    "choice": st.sampled_from([*"ABCDE", "(B)"]),
    "text": st.sampled_from(["Paris", "New Delhi", "Catch-22", "O'Hara", "1984"]),
}
SCRIPTS: tuple[dict[int, int], ...] = (
    {},
    {ord(sign): ord(sign) + 0xFEE0 for sign in "0123456789%:,"},  # full-width
    {ord(digit): 0x0660 + int(digit) for digit in "0123456789"} | {ord("%"): 0x066A},  # Arabic
    {ord(digit): 0x0966 + int(digit) for digit in "0123456789"},  # Devanagari
)


def write(form: str, answer: str, confidence: str) -> str:
    """Write an answer and a confidence in a form; JSON in it stands for an object."""
    pair = {"answer": answer, "confidence": confidence}
    if "JSON" in form:
        return form.replace("JSON", json.dumps({"reasoning": "Answer: 7\nConfidence: 10%", **pair}))
    return form.format(answer, confidence)


@st.composite
def confidences(draw: st.DrawFn, *, fraction: bool, plain: bool = False) -> Confidence:
    """Draw a confidence in any of its spellings, or something that is none."""
    if not plain and draw(st.integers(0, 5)) == 0:
        return Confidence(draw(st.sampled_from(PIECES["no confidences"])), None)
    value = draw(st.integers(2, 99))
    if fraction:
        fractions = ("0.{:02d}", ".{:02d}") if plain else ("0.{:02d}", ".{:02d}", "about 0.{:02d}", "0.{:02d}.")
        return Confidence(draw(st.sampled_from(fractions)).format(value), value)
    if value % 10 == 0 and draw(st.booleans()):
        return Confidence(draw(st.sampled_from(["{}/10", "{} out of 10"])).format(value // 10), value)
    spellings = PIECES["plain confidences"] + ([] if plain else PIECES["confidences"])
    return Confidence(draw(st.sampled_from(spellings)).format(value), value)


@st.composite
def composed(draw: st.DrawFn, kind: AnswerKind, *, plain: bool = False) -> Composed:
    """Draw a reply; a ``plain`` one has a form that is read, and nothing in it that could mean two things."""
    form = draw(st.sampled_from([form for form in PIECES["forms"] if form.get("known", True) or not plain]))
    answer = draw((PLAIN_ANSWERS if plain else ANSWERS)[kind])
    confidence = draw(confidences(fraction=form.get("fraction", False), plain=plain))
    reply = write(form["form"], answer, confidence.text.translate(draw(st.sampled_from(SCRIPTS))))
    if draw(st.booleans()):
        reply = reply.replace("\n", "\r\n")
    before = draw(st.sampled_from(PIECES["before"])).replace("{draft}", PIECES["draft"])
    return Composed(before + reply + draw(st.sampled_from(PIECES["after"])), answer, confidence)
