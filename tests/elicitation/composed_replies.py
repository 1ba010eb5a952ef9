"""Replies composed of an answer, a confidence, a form, and what may stand around them."""

import json
from collections.abc import Callable
from typing import NamedTuple

from hypothesis import strategies as st

from bayes_direag.data.answers import AnswerKind


class Confidence(NamedTuple):
    """A text, and the percentage that it states; None if it states none."""

    text: str
    value: float | None


class Form(NamedTuple):
    """How an answer and a confidence are written, whether the latter is a fraction, and whether the form is read."""

    write: Callable[[str, str], str]
    fraction: bool = False
    known: bool = True


class Composed(NamedTuple):
    """A reply, and what it is composed of."""

    text: str
    answer: str
    confidence: Confidence


def _json(answer: str, confidence: str) -> str:
    return json.dumps({"reasoning": "Answer: 7\nConfidence: 10%", "answer": answer, "confidence": confidence})


FORMS = (
    Form("Answer and Confidence (0-100): {}, {}".format),
    Form("**Answer and Confidence (0-100):** {}, {}".format),
    Form("Answer & confidence: {}; {}".format),
    Form("Answer and Confidence (0-100): {} ({})".format),
    Form("Answer and Confidence (0-100): {} | {}".format),
    Form("Answer: {}\nConfidence: {}".format),
    Form("**Answer:** {}\n**Confidence (0-100):** {}".format),
    Form("4. **Answer**: {}\n5. **Confidence**: {}".format),
    Form("(1) Final answer: {}\n(2) Confidence level: {}".format),
    Form("- Answer: {}\n- Confidence: {}".format),
    Form("[[ ## answer ## ]]\n{}\n\n[[ ## confidence ## ]]\n{}\n\n[[ ## completed ## ]]".format),
    Form("### Answer\n{}\n\n### Confidence\n{}".format),
    Form("Answer:\n\n{}\n\nConfidence:\n\n{}".format),
    Form("Answer: {}, Confidence: {}".format),
    Form("Answer: {} - Confidence: {}".format),
    Form("Answer: {} (Confidence: {})".format),
    Form("Final Answer: **{}** (Confidence: **{}**)".format),
    Form("Final answer (one line): {}. My confidence: {}".format),
    Form("The final answer is {}.\nConfidence: {}".format),
    Form("Answer is: {}\nConfidence is: {}".format),
    Form("Answer = {}\nConfidence = {}".format),
    Form("Step 1: Add up.\nStep 2: Answer: {}\nStep 3: Confidence: {}".format),
    Form("Confidence: {1}\nAnswer: {0}".format),
    Form("Answer: {}\nReason: it adds up.\nConfidence: {}".format),
    Form("Answer: {}\nConfidence in this answer: {}\n\nExplanation: 3 of 4 are 75%.".format),
    Form("Guess: {}\nProbability: {}".format, fraction=True),
    Form("Guess: {}; Probability: {}".format, fraction=True),
    Form("My best guess: {}\n\nProbability: {}\n\n(Note: this is an estimate.)".format, fraction=True),
    Form("<answer>{}</answer>\n<confidence>{}</confidence>".format),
    Form("<answer>\n{}\n</answer><probability>{}</probability>".format, fraction=True),
    Form(_json),
    Form(lambda answer, confidence: f"```json\n{_json(answer, confidence)}\n```"),
    Form(lambda answer, confidence: str({"answer": answer, "confidence": confidence})),
    Form("The answer is \\boxed{{{}}}.\n\nConfidence: {}".format),
    Form("#### {}\nConfidence: {}".format, known=False),
    Form("{}\nConfidence: {}".format, known=False),
    Form("{}\n\n{}".format, fraction=True, known=False),
    Form("{}, {}".format, known=False),
    Form("The answer is {}, and I am {} sure.".format, known=False),
    Form("| Answer | {} |\n| Confidence | {} |".format, known=False),
)

ANSWERS: dict[AnswerKind, st.SearchStrategy[str]] = {
    "numeric": st.integers(-(10**6), 10**7).map(str)
    | st.integers(1000, 10**8).map("{:,}".format)
    | st.decimals(0, 1000, places=2).map("{:f}".format)
    | st.sampled_from(["$18", "12%", "1/3", "-0", "51 apples", "2.5 kg", "1e6"]),
    "choice": st.builds(
        str.format, st.sampled_from(["{}", "({})", "{}. 25%", "{}) 40 of them", "{}: blue"]), st.sampled_from("ABCDE")
    ),
    "text": st.sampled_from(
        [
            *("Paris", "it fell by 50%", "May 5, 2012", "Paris, France", "Catch-22", "World War 2", "3 to 5", "CO2"),
            *("Henry V (1599)", "Apollo 11", "about 12%", "The Good, the Bad and the Ugly", "24/7", "Se7en", "90%"),
            *("New York - New Jersey", "10 or 20", "B12", "a high probability", "O'Hara", "1984", "between 5 and 10"),
            *("Fahrenheit 451", "50% more, or less", "Ocean's 11", "Area 51, Nevada", "100", "0.5", "one in ten"),
            *("I, Robot", "Maybe Baby", "My Fair Lady", "As You Like It", "High, Low", "4 out of 5 dentists", "9/10"),
            *("Answer", "the answer is no", "not sure", "x = 5, y = 7", "a > b", "{1, 2}", "[3, 4]", "f(x)", "A, B"),
            *("$5 (each)", "likely", "probability theory", "confidence interval", "p-value of 0.05", "Guess", "sure"),
        ]
    ),
}
PLAIN_ANSWERS: dict[AnswerKind, st.SearchStrategy[str]] = {
    "numeric": st.integers(-(10**6), 10**7).map(str),
    "choice": st.sampled_from([*"ABCDE", "(B)"]),
    "text": st.sampled_from(["Paris", "New Delhi", "Catch-22", "O'Hara", "1984"]),
}

PLAIN_CONFIDENCES = (
    *("{}%", "{}", "{} %", "{}/100", "{} out of 100", "{} percent", "{}.0%", "**{}%**", "[{}]%", "`{}`", "~{}%"),
    *("about {}%", "roughly {}%", "I'd say {}%", "{}% (quite sure)", "{}%!", "{}%;", "{}%.", "{}% ± 5%", "{}% sure!"),
    *("I am {}% sure", "approximately {} %", "{}% confident", "{}% +/- 5%", "confidence of {}%", "_{}%_", "= {}%"),
)
CONFIDENCES = (
    *PLAIN_CONFIDENCES,
    *("very high ({}%)", "my confidence is {}%", "<{}>%", "\\boxed{{{}\\%}}", "${}\\%$", "{}/100 (high)", "{}pct"),
    *(
        "as far as I can tell {}%",
        "{}% or so",
        "{}% give or take",
        "a solid {}%",
        "{}% (from 80 to 95)",
        "70%, no, {}%",
    ),
    *("{}% since 3 of 4 checks passed", "{}%, as 20% is 4", "my gut says {}%", "**{}** %", "not 100%, but {}%"),
    *(
        "{}% for A and 5% for B",
        "level 3 of 5, so {}%",
        "{} (out of 100)",
        "{} on a scale of 0 to 100",
        "Confidence: {}%",
    ),
)
NO_CONFIDENCES = (
    *("high", "85-90%", "80 to 90", "between 80 and 90", "80% - 90%", "> 95%", "at least 90%", "over 95%", "ninety"),
    *("N/A", "90%+", "150%", "-5%", "0.9%", "very low", "not 90%", "90% or 95%", "up to 80%", "80\u201390%"),
)

DRAFT = "Perhaps 7. Answer: 7\nConfidence: 10%\nAnswer and Confidence (0-100): 8, 11%\nGuess: 9\nProbability: 0.12\n"
BEFORE = (
    *(
        "",
        "Half of 36 is 18, and 50% of the 20 are left.\n",
        "1. Add 3 and 4.\n2. That makes 7, or 70%.\n",
        "assistant\n\n",
    ),
    "I end with 'Answer and Confidence (0-100): <number>, <confidence>%'.\n",
    "Sure! Here is my reply (in about 30 words, 100% my own):\n\n",
    *(f"<{word}>{DRAFT}</{word}>" for word in ("think", "thinking", "reasoning", "thought", "analysis", "seed:think")),
    *(f"{DRAFT}</think>\n", f"[THINK]{DRAFT}[/THINK]", f"◁think▷{DRAFT}◁/think▷"),
    *(f"<|START_THINKING|>{DRAFT}<|END_THINKING|>", f"<|channel>thought\n{DRAFT}<channel|>"),
    f"<|begin_of_thought|>{DRAFT}<|end_of_thought|><|begin_of_solution|>",
    f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final<|message|>",
    f"analysisWe add. {DRAFT}assistantfinal",
)
AFTER = (
    *(
        "",
        "\n",
        "\n\nI hope that this helps! 50% of people get it wrong.",
        "<|im_end|>",
        "<|return|>",
        "<|end_of_text|>",
    ),
    *("</s>", "<\uff5cend▁of▁sentence\uff5c>", "<end_of_turn>\n<start_of_turn>user\nNext?\nAnswer: 7\nConfidence: 10%"),
    "\n\nQ: How many are left?\nAnswer: 7\nConfidence: 10%",
    "\n\nQuestion: Next?\nA: 7\nAnswer and Confidence (0-100): 7, 10%",
    "\n\nProblem 2: Next?\nGuess: 7\nProbability: 0.1",
    *("\n\n> Answer: 7\n> Confidence: 10%", "\n\n<!-- Answer: 7, Confidence: 10% -->", '\n\nHe said "Answer: 7, 10%".'),
)
SCRIPTS: tuple[dict[int, int], ...] = (
    {},
    {ord(sign): ord(sign) + 0xFEE0 for sign in "0123456789%:,"},  # full-width
    {ord(digit): 0x0660 + int(digit) for digit in "0123456789"} | {ord("%"): 0x066A},  # Arabic
    {ord(digit): 0x0966 + int(digit) for digit in "0123456789"},  # Devanagari
)


@st.composite
def confidences(draw: st.DrawFn, *, fraction: bool, plain: bool = False) -> Confidence:
    """Draw a confidence in any of its spellings, or something that is none."""
    if not plain and draw(st.integers(0, 5)) == 0:
        return Confidence(draw(st.sampled_from(NO_CONFIDENCES)), None)
    value = draw(st.integers(2, 99))
    if fraction:
        spellings = ("0.{:02d}", ".{:02d}") if plain else ("0.{:02d}", ".{:02d}", "about 0.{:02d}", "0.{:02d}.")
        return Confidence(draw(st.sampled_from(spellings)).format(value), value)
    if value % 10 == 0 and draw(st.booleans()):
        return Confidence(draw(st.sampled_from(["{}/10", "{} out of 10"])).format(value // 10), value)
    return Confidence(draw(st.sampled_from(PLAIN_CONFIDENCES if plain else CONFIDENCES)).format(value), value)


@st.composite
def composed(draw: st.DrawFn, kind: AnswerKind, *, plain: bool = False) -> Composed:
    """Draw a reply; a ``plain`` one has a form that is read, and nothing in it that could mean two things."""
    form = draw(st.sampled_from([form for form in FORMS if form.known or not plain]))
    answer = draw((PLAIN_ANSWERS if plain else ANSWERS)[kind])
    confidence = draw(confidences(fraction=form.fraction, plain=plain))
    reply = form.write(answer, confidence.text.translate(draw(st.sampled_from(SCRIPTS))))
    if draw(st.booleans()):
        reply = reply.replace("\n", "\r\n")
    return Composed(draw(st.sampled_from(BEFORE)) + reply + draw(st.sampled_from(AFTER)), answer, confidence)
