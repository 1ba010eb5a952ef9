"""The parser: every case in reply_cases.json, and what must hold for any reply."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bayes_direag.data.answers import canonical
from elicitation.parsing import ParseStatus, Reading, TopK, read_answer, read_last_number, read_reply, read_top_k
from elicitation.prompts import load_protocol, messages
from tests.elicitation.runs import PROTOCOLS

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "reply_cases.json").read_text("utf-8"))
LABEL = "Answer and Confidence (0-100):"
OK = ParseStatus.OK
RELEASED = {name: load_protocol(name, wording="released") for name in PROTOCOLS}


@pytest.mark.parametrize("case", CASES, ids=[case["why"] for case in CASES])
def test_the_table_of_cases(case: dict[str, Any]) -> None:
    reading = read_reply(case["text"], case["finish_reason"], kind=case.get("kind", "numeric"))
    confidence = None if case["confidence"] is None else float(case["confidence"])
    assert reading == Reading(case["answer"], confidence, ParseStatus(case["status"]))


def test_minus_zero_is_zero() -> None:
    reading = read_reply(f"{LABEL} -0, -0%", "stop")
    assert canonical(reading.answer, "numeric") == "0"
    assert str(reading.confidence) == "0.0"


PIECES = (
    "|18|1,234|0.9|95|-|(|)|[|]|**|$|\\boxed{|}|<number>|<confidence>|<|>|`|.|and|\uff11|\uff05|</think>|%|,|, | |\n"
)
WORDS = st.sampled_from([LABEL, "Answer:", "Confidence:", "Question:", "Guess 1:", *PIECES.split("|")])


@given(st.lists(WORDS, max_size=24).map("".join) | st.text(max_size=200))
@example(LABEL + " " * 4000 + "x")
@example(LABEL + "(" * 4000)
@example(LABEL + "1," * 2000)
def test_no_reply_breaks_the_parser_and_none_is_read_without_both_values(text: str) -> None:
    reading = read_reply(text, "stop")
    if reading.answer is not None:
        assert canonical(reading.answer, "numeric") is not None
    if reading.confidence is not None:
        assert 0 <= reading.confidence <= 100
    if reading.status is OK:
        assert reading.answer is not None
        assert reading.confidence is not None
    assert read_reply(text, "length") == Reading(None, None, ParseStatus.TRUNCATED)
    assert len(read_top_k(text, "stop").answers) <= 5


@given(
    answer=st.integers(-(10**12), 10**12).map(str)
    | st.integers(-(10**12), 10**12).map("{:,}".format)
    | st.decimals(-(10**6), 10**6, places=3).map("{:f}".format),
    confidence=st.integers(0, 100),
    before=st.text("ab 1,%\n", max_size=30),
    after=st.text("ab \n", max_size=10),
)
def test_the_form_is_read_back(answer: str, confidence: int, before: str, after: str) -> None:
    text = f"{before}\n{LABEL} {answer}, {confidence}%\n{after}"
    assert read_reply(text, "stop") == Reading(answer, float(confidence), OK)


@given(answer=st.integers(0, 999999), confidence=st.integers(2, 100), shell=st.sampled_from(["**", "`", "$", "_", '"']))
def test_decoration_changes_nothing(answer: int, confidence: int, shell: str) -> None:
    reading = read_reply(f"{LABEL} {shell}{answer}{shell}, {shell}{confidence}%{shell}", "stop")
    assert (canonical(reading.answer, "numeric"), reading.confidence) == (str(answer), confidence)


@given(st.data())
def test_what_the_reply_pattern_allows_can_be_read(data: st.DataObject) -> None:
    letters = st.characters(codec="ascii", categories=("L", "N", "P", "S"), include_characters=" \n")
    for name in ("steered", "samples"):
        text = data.draw(st.from_regex(PROTOCOLS[name].reply_pattern, fullmatch=True, alphabet=letters))
        assert read_reply(text, "stop").status is OK
    final = data.draw(st.from_regex(RELEASED["samples"].reply_pattern, fullmatch=True, alphabet=letters))
    assert read_answer(final, "stop").status is OK
    for protocol in (PROTOCOLS["topk"], RELEASED["topk"]):
        listed = data.draw(st.from_regex(protocol.reply_pattern, fullmatch=True, alphabet=letters))
        reading = read_top_k(listed, "stop", numbered=protocol.form == "numbered")
        assert (reading.status, len(reading.answers)) == (OK, 5)


@pytest.mark.parametrize("protocol", [*PROTOCOLS.values(), *RELEASED.values()])
def test_an_echoed_prompt_is_not_an_answer(protocol: Any) -> None:
    prompt = messages(protocol, 0, "What is 20 - 2?")[-1]["content"]
    for read in (read_reply, read_answer):
        assert read(prompt, "stop") == Reading(None, None, ParseStatus.NO_ANSWER)
    for numbered in (False, True):
        assert read_top_k(prompt, "stop", numbered=numbered) == TopK((), ParseStatus.NO_ANSWER)


FIVE = "Guess 1: 18, 60%\nGuess 2: 20, 20%\nGuess 3: 1,600, 10%\nGuess 4: 2, 5%\nGuess 5: 38, 5%"
READ = (("18", 60.0), ("20", 20.0), ("1,600", 10.0), ("2", 5.0), ("38", 5.0))


@pytest.mark.parametrize(
    ("text", "answers", "status"),
    [
        pytest.param(FIVE, READ, OK, id="the form asked for"),
        pytest.param(f"Here is my list.\n\n{FIVE}\n\nGood luck!", READ, OK, id="text around it"),
        pytest.param(re.sub(r"(Guess \d:)", r"- **\1**", FIVE), READ, OK, id="a Markdown list"),
        pytest.param(FIVE.replace("Guess ", "guess #").replace(":", "."), READ, OK, id="another number sign"),
        pytest.param(FIVE.replace(", ", " (").replace("%", "%)"), READ, OK, id="probabilities in brackets"),
        pytest.param(f"Guess 1: 7, 90%\nNo, again.\n{FIVE}", READ, OK, id="of two lists the last counts"),
        pytest.param(f"{FIVE}\n\nQuestion: What is 2 + 1?\nGuess 1: 3, 99%", READ, OK, id="a new question"),
        pytest.param("Guess 1: 18, 100%", (("18", 100.0),), OK, id="a short list"),
        pytest.param(f"{FIVE}\nGuess 6: 9, 1%", READ, ParseStatus.AMBIGUOUS, id="too long a list"),
        pytest.param(FIVE.replace("Guess 3", "Guess 4"), READ, ParseStatus.AMBIGUOUS, id="badly numbered"),
        pytest.param(FIVE.replace("60%", "160%"), READ[1:], ParseStatus.OUT_OF_RANGE, id="out of range"),
        pytest.param(FIVE.replace("60%", "0.6"), READ[1:], ParseStatus.AMBIGUOUS, id="another scale"),
        pytest.param(FIVE.replace(", 60%", ""), READ[1:], ParseStatus.NO_CONFIDENCE, id="no probability"),
        pytest.param("1. 18, 60%\n2. 20, 20%", (), ParseStatus.NO_ANSWER, id="steps of an explanation"),
        pytest.param("", (), ParseStatus.NO_ANSWER, id="nothing"),
    ],
)
def test_lists_of_guesses(text: str, answers: tuple[tuple[str, float], ...], status: ParseStatus) -> None:
    assert read_top_k(text, "stop") == TopK(answers, status)
    assert read_top_k(text, "length") == TopK((), ParseStatus.TRUNCATED)


def test_a_list_may_be_asked_to_be_shorter() -> None:
    assert read_top_k(FIVE, "stop", k=3).status is ParseStatus.AMBIGUOUS
    assert read_top_k("\n".join(FIVE.splitlines()[:3]), "stop", k=3) == TopK(READ[:3], OK)


TOP = "1. Add 3 and 4 (100% of them).\n2. That is 7.\nTop Answers:\n1. 18, 60%\n2. $1,600, 20%\n3. 2, 5%"


@pytest.mark.parametrize(
    ("text", "answers", "status"),
    [
        pytest.param(TOP, (("18", 60.0), ("$1,600", 20.0), ("2", 5.0)), OK, id="the form asked for"),
        pytest.param("1. 51, 95%", (("51", 95.0),), OK, id="without its heading"),
        pytest.param(
            "First 1. of all\n**Top 5 Answers:**\n1) 51 (95%)\n2) 5, 4%", (("51", 95.0), ("5", 4.0)), OK, id="Markdown"
        ),
        pytest.param("1.5 + 2 = 3.5\n1. 3.5, 90%", (("3.5", 90.0),), OK, id="a decimal is no number of a line"),
        pytest.param("Top Answers:\n1. 18\n2. 20, 20%", (("20", 20.0),), ParseStatus.NO_CONFIDENCE, id="no percentage"),
        pytest.param("1. Add 3 and 4.\n2. That is 7.", (), ParseStatus.NO_ANSWER, id="steps of an explanation"),
    ],
)
def test_numbered_lists(text: str, answers: tuple[tuple[str, float], ...], status: ParseStatus) -> None:
    assert read_top_k(text, "stop", numbered=True) == TopK(answers, status)


@pytest.mark.parametrize(
    ("text", "answer", "status"),
    [
        ("So it is 51.\nFinal Answer: 51", "51", OK),
        ("**Final Answer:** $\\boxed{51}$", "51", OK),
        ("Final Answer: 50\nNo.\nFinal answer: 1,234 apples.", "1,234 apples.", OK),
        ("Final Answer: 3 or 4", None, ParseStatus.AMBIGUOUS),
        ("The final answer is 51", None, ParseStatus.NO_ANSWER),
    ],
)
def test_final_answers(text: str, answer: str | None, status: ParseStatus) -> None:
    assert read_answer(text, "stop") == Reading(answer, None, status)
    assert read_answer(text, "length") == Reading(None, None, ParseStatus.TRUNCATED)


@pytest.mark.parametrize(
    ("text", "confident", "answer", "confidence"),
    [
        ("90% sure, no, 80%: it is 1,234.50 in all", True, "1,234.50", 90.0),
        ("It is 51, I am 120% sure.", True, "120", 100.0),  # as the released code has it: the last number of all
        ("It is 51.", True, None, None),
        ("5-3 is 2, or -1/2", False, "-1/2", None),
        ("no number", False, None, None),
    ],
)
def test_the_fall_back_guesses(text: str, confident: bool, answer: str | None, confidence: float | None) -> None:
    status = ParseStatus.NO_ANSWER if answer is None else ParseStatus.GUESSED
    assert read_last_number(text, confident=confident) == Reading(answer, confidence, status)
