import json
import math
import re
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_direag.data import amounts
from bayes_direag.data.answers import _CANONICAL, AnswerKind, canonical, infer_kind, same_answer
from bayes_direag.data.labels import Labels
from bayes_direag.data.observations import Observations
from bayes_direag.data.plain import MISSING
from bayes_direag.errors import ObservationError

CASES = [
    (line["kind"], line["canonical"], text)
    for line in json.loads(Path(__file__).with_name("answer_cases.json").read_text("utf-8"))
    for text in line["texts"]
]
GRAMMAR = (Path(__file__).parents[3] / "docs" / "observations.md").read_text("utf-8").partition("| part |")[2]
KINDS: tuple[AnswerKind, ...] = ("numeric", "choice", "choices", "text")

answer_like = st.one_of(
    st.text(),
    st.text(alphabet="0123456789.,-+/*^ex $%()[]{}=\\½²π abAB;", max_size=20),
    st.from_regex(r"[-+]?\$?[0-9,]{1,9}(\.[0-9]{1,5})?(e-?[0-9]{1,3})?( ?/ ?[0-9]{1,4})? ?[a-z]{0,3}", fullmatch=True),
    st.sampled_from([text for *_, text in CASES]),
)


@pytest.mark.parametrize(("kind", "expected", "text"), CASES, ids=ascii)
def test_canonical_forms_are_those_of_the_table(kind, expected, text):
    assert canonical(text, kind) == expected


@pytest.mark.parametrize("row", re.findall(r"^\| (?!part|---).*$", GRAMMAR, re.MULTILINE))
def test_canonical_forms_are_those_of_the_grammar_on_the_page(row):
    _, read, missing, _ = row.removeprefix("| ").replace(" |", "|").split("|")
    texts, _, value = read.rpartition(": ")
    assert {text: canonical(text, "numeric") for text in re.findall("`([^`]+)`", texts)} == dict.fromkeys(
        re.findall("`([^`]+)`", texts), value.strip()
    )
    assert {canonical(text, "numeric") for text in re.findall("`([^`]+)`", missing)} == {None}


@given(answer_like, st.sampled_from(KINDS))
def test_canonical_form_is_its_own(text, kind):
    spelling = canonical(text, kind)
    assert spelling is None or (
        spelling and canonical(spelling, kind) == spelling and same_answer(spelling, text, kind)
    )


@given(
    st.sampled_from(KINDS).flatmap(
        lambda kind: st.tuples(st.just(kind), st.from_regex(_CANONICAL[kind], fullmatch=True))
    )
)
def test_canonical_form_at_a_glance_is_that_when_read(drawn):
    kind, text = drawn
    assert canonical(text, kind) == canonical(f" {text}", kind) == text


@st.composite
def numbers(draw: st.DrawFn) -> tuple[str, Fraction]:
    """Draw a way of writing a number without sign, and its value."""
    size = Decimal(draw(st.integers(0, 10**9))).scaleb(-draw(st.integers(0, 4)))
    top, rest = (draw(st.integers(0, 900)) for _ in range(2))
    part, bottom = Fraction(top, top + rest + 1), top + rest + 1
    return draw(
        st.sampled_from(
            [
                (f"{size:f}", Fraction(size)),
                (f"{size:,f}", Fraction(size)),
                (f"{size:e}", Fraction(size)),
                (f"{size:f}".translate(str.maketrans("0123456789", "０１２３４５６７８９")), Fraction(size)),  # noqa: RUF001
                (f"{top}/{bottom}", part),
                (f"\\frac{{{top}}}{{{bottom}}}", part),
            ]
        )
    )


SIGNS = {"@": 1, "+@": 1, "-@": -1, "\u2212@": -1, "\u2013 @": -1, "\u2796@": -1}
UNITS = (
    "@", "$@", "€ @", "\\$@", "@%", "@ %", "@ dollars", "@ kg", "@ m²", "@ m/s", "@\\%", "@ °C", "@ V", "@ square feet",
    "@ miles per hour",
)  # fmt: skip
FRAMES = (
    "@", "**@**", "`@`", "\\boxed{@}", "\\boxed{\\text{@}}", "“@”", "The answer is @.", "My final answer: @",
    "x = @", "14 + 2 = @", "@\u200b", "\ufeff@",
)  # fmt: skip


def dressed(*forms: str) -> st.SearchStrategy[str]:
    return st.sampled_from(forms)


@given(numbers(), dressed(*SIGNS), dressed(*UNITS), dressed(*FRAMES))
def test_canonical_form_of_a_text_of_the_grammar_is_its_number(number, sign, unit, frame):
    text, value = number
    for form in (unit, sign, frame):
        text = form.replace("@", text)
    assert Fraction(canonical(text, "numeric")) == value * SIGNS[sign], text


LISTED = {*f"{amounts._WORDS} {amounts._SYMBOLS}".lower().split()}
words = st.from_regex(r"[a-zA-Zа-яα-ωéüñ]{1,12}", fullmatch=True).filter(  # noqa: RUF001
    lambda word: not {word.lower(), word.lower().removesuffix("s"), word.lower().removesuffix("es")} & LISTED
)
signs = st.text(alphabet="<>≤≥≠~≈±…;:,!?|&@^()[]/÷√", min_size=1, max_size=3)


@given(numbers(), st.lists(words | signs, min_size=1, max_size=3), st.integers(0, 3), dressed("", " "))
def test_canonical_form_is_missing_with_any_other_text_around_a_number(number, others, place, gap):
    parts = [*others[:place], number[0], *others[place:]]
    assert canonical(gap.join(parts), "numeric") is None


@given(
    st.lists(numbers(), min_size=2, max_size=3), dressed(" and ", ", ", " - ", ":", " x ", "; ", " or ", " to ", " ")
)
def test_canonical_form_never_makes_two_numbers_one(values, separator):
    assert canonical(separator.join(text for text, _ in values), "numeric") is None


@given(st.integers(-400, 400), st.integers(1, 9))
def test_large_exponents_are_exact_and_short(exponent, digit):
    spelling = canonical(f"{digit}e{exponent}", "numeric")
    assert Decimal(spelling) == Decimal(f"{digit}e{exponent}")
    assert len(spelling) < 40


LETTERS = st.lists(st.sampled_from("ABCDE"), min_size=2, max_size=4, unique=True)


@given(
    LETTERS, dressed(", ", ",", " and ", ", and "), dressed("@", "[@]", "The answer is @.", "$\\text{@}$", "Options @")
)
def test_canonical_form_of_a_set_of_letters_has_no_order(letters, separator, frame):
    text = frame.replace("@", separator.join(letters).replace(", and", "," if "[" in frame else ", and"))
    assert canonical(text, "choices") == ",".join(sorted(letters))
    assert canonical(text, "choice") is None


parts = st.from_regex(r"[b-z0-9]{1,3}", fullmatch=True)


@given(parts, st.text(alphabet="+-*/^_'\"!?.,;:=<>()[]{}|&%$#@~\\ ", min_size=1, max_size=3), parts)
def test_nothing_inside_a_text_is_rewritten(first, between, last):
    text = f"{first}{between}{last}"
    assert canonical(text, "text") == " ".join(text.split())


HOSTILE = (
    ".", "!", "\\", "(", "{", "[", "$", "*", '"', "'", "-", "^", "=", "≈", "1", "1,", "1 ", "½", "⁶", "a", "a-", "a ",
    "the\n", "one ", "half of ", "\\boxed{", "\\text{", "\\frac{", "<a", "A) ", "answer: ", "or ", "*a ", "A, ", ". ",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("piece", HOSTILE)
def test_canonical_form_takes_time_that_grows_with_the_length(piece, kind):
    def seconds(length: int) -> float:
        text = f"5 {piece * (length // len(piece))}"[: length - 1] + "x"
        start = time.process_time()
        canonical.__wrapped__(text, kind)
        return time.process_time() - start

    # four times the length; a square would be sixteen. In turns, as a machine may be slower for a while
    short, long = map(min, zip(*((seconds(1000), seconds(4000)) for _ in range(5)), strict=True))
    assert long <= 9 * max(short, 1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_canonical_form_has_at_most_4000_characters(kind):
    assert canonical("B" + " " * 3999, kind) == {"numeric": None, "choice": "B", "choices": "B", "text": "b"}[kind]
    assert canonical("B" + " " * 4000, kind) is None


@pytest.mark.parametrize("text", ["1e1000000000", "9" * 100_000, "1" * 3000, "1/" + "3" * 3000, "1e" + "9" * 3000])
def test_numbers_that_would_cost_memory_are_not_read(text):
    assert canonical(text, "numeric") is None


def test_same_answer_needs_two_answers_that_can_be_read():
    assert same_answer("$1,206", "2412/2", "numeric")
    assert same_answer("The Nile.", "nile", "text")
    assert not same_answer("1,206", "1206", "text")
    assert not same_answer("3:4", "3:4", "numeric")
    assert not any(same_answer(None, None, kind) for kind in KINDS)


@pytest.mark.parametrize(
    ("golds", "kind"),
    [
        (["9", "$12.50", "1/3"], "numeric"),
        (["A", "(b)", " J "], "choice"),
        (["B. Paris", "(A) Rome", "C: Oslo"], "choice"),
        (["Б", "В)"], "choice"),  # noqa: RUF001
        (["A,C", "B", "B and D"], "choices"),
        (["A", "B", "C", "A,C"], "choices"),
        (["Б, В", "А"], "choices"),  # noqa: RUF001
        (["9", "B"], "text"),
        (["a cat", "B) a dog"], "text"),
        (["12:50", "9"], "text"),
    ],
)
def test_kind_of_answers_is_shown_by_the_gold_answers(golds, kind):
    golds = ["nan", *golds, "<NA>"]
    assert infer_kind(golds) == kind
    assert infer_kind(iter(golds)) == kind


@pytest.mark.parametrize("odd", ["unknown", "8-10", "3 or 4", "2,5", "1.000,25"])
def test_kind_of_answers_is_not_changed_by_an_odd_gold_answer_which_is_an_error_with_its_line(odd, tmp_path):
    rows = [{"problem_id": str(n), "answer": "1", "confidence": 80, "level": 0, "gold_answer": "1"} for n in range(3)]
    rows[1]["gold_answer"] = odd
    path = tmp_path / "runs.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    with pytest.raises(ObservationError, match=rf"runs\.csv, line 3, field gold_answer: .*saw '{odd}'.*--answers text"):
        Observations.read(path)
    assert Observations.read(path, "text").kind == "text"
    pd.DataFrame(rows)[["problem_id", "gold_answer"]].to_csv(tmp_path / "labels.csv", index=False)
    with pytest.raises(ObservationError, match=rf"labels\.csv, line 3, field gold_answer: .*saw '{odd}'"):
        Labels.of(tmp_path / "labels.csv").kind([])


@pytest.mark.parametrize(
    "several",
    ['["Oslo", "Kristiania"]', "['Oslo']", "('Oslo', 'Bergen')", "[5, 6]", '{"text": ["Oslo"], "start": [3]}'],
)
def test_gold_answer_that_is_a_list_is_an_error_unless_answers_are_lists(several):
    rows = [{"problem_id": "q", "level": 0, "answer": "Oslo", "confidence": 80, "gold_answer": several}]
    with pytest.raises(ObservationError, match=r"line 1, field gold_answer: .*is a list, which no report.*one text"):
        Observations.from_records(rows)
    asked = Observations.from_records([rows[0] | {"gold_answer": None}], "text")
    labels = pd.DataFrame({"problem_id": ["q"], "gold_answer": [several]})
    with pytest.raises(ObservationError, match=r"field gold_answer: this is a list.*same="):
        asked.with_labels(labels)
    listed = [row | {"answer": several} for row in rows]
    assert Observations.from_records(listed).correct.tolist() == [[True]]
    assert Observations.from_records([listed[0] | {"gold_answer": None}], "text").with_labels(labels).correct.all()


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ((("L. major", "L. minor"), ("T. cruzi", "T. brucei")), "text"),
        ((("A. Volta", "M. Faraday"), ("N. Tesla", "G. Ohm")), "text"),
        ((("A. Oslo", "B. Bergen"), ("B) Rome", "C) Lyon")), "choice"),
        ((("A. Oslo", "B"), ("B. Rome", "(B) Lyon")), "choice"),
        ((("A", "C. A cat"), ("C. C", "A")), "choice"),
        ((("A: Oslo", "A: Oslo"), ("A. Rome", "A) the Rome")), "choice"),
    ],
)
def test_letters_with_texts_are_options_if_they_begin_at_a_or_one_stands_alone(said, kind, tmp_path):
    """The first answer to each question is right."""
    rows = [
        {"problem_id": q, "level": level, "answer": text, "confidence": 80, "gold_answer": texts[0]}
        for q, texts in enumerate(said)
        for level, text in zip(("one", "two"), texts, strict=True)
    ]
    observations = Observations.from_records(rows)
    pd.DataFrame(rows).to_csv(tmp_path / "o.csv", index=False)
    assert Observations.read(tmp_path / "o.csv").fingerprint == observations.fingerprint
    assert observations.kind == kind
    alike = [same_answer(*texts, kind) for texts in said]
    assert observations.correct.tolist() == [[True, is_alike] for is_alike in alike]


def test_letters_of_one_question_with_two_texts_are_asked_for():
    answers = {"one": "A. Volta", "two": "A. Ampere"}
    rows = [
        {"problem_id": "q", "level": level, "answer": text, "confidence": 80, "gold_answer": "A. Volta"}
        for level, text in answers.items()
    ]
    with pytest.raises(ObservationError, match=r"'A\. Volta' and 'A\. Ampere' have one letter; .*answers choice"):
        Observations.from_records(rows)
    for kind, n in (("choice", 1), ("text", 2)):
        assert Observations.from_records(rows, kind).n_candidates.tolist() == [n]


def test_gold_answer_may_be_a_sign():
    rows = [
        {"problem_id": "q", "level": n, "answer": said, "confidence": 9, "gold_answer": "*"}
        for n, said in enumerate("*/")
    ]
    assert Observations.from_records(rows).correct.tolist() == [[True, False]]


@pytest.mark.parametrize("golds", [[], ["NaN", " "]])
def test_kind_of_answers_must_be_declared_without_gold_answers(golds):
    with pytest.raises(ObservationError, match=r"file\.jsonl.*--answers"):
        infer_kind(golds, "file.jsonl")


@pytest.mark.parametrize(("name", "n_lost"), [("cases", 3), ("cases4", 17), ("cases5", 5)])
def test_answers_that_were_reported_are_never_read_as_others(name, n_lost, real_cases):
    """What is lost has none of the stated forms: a space between thousands, LaTeX inside a text, "C is correct"."""
    files = ("answers.jsonl", "pairs.jsonl") if name == "cases" else ("cases.jsonl",)
    lines = [line for file in files for line in (real_cases.with_name(name) / file).read_text("utf-8").splitlines()]
    lost = []
    for case in map(json.loads, lines):
        if "first" in case:
            is_same, right = same_answer(case["first"], case["second"], "text"), case.get("right", [case.get("same")])
            assert is_same in right or not is_same, case
            lost += [] if is_same in right else [case]
        elif case.get("door", "canonical") == "canonical":
            answer = canonical(case["text"], case["answers"])
            assert answer in (*case["right"], None) or (case["answers"] == "text" and case["right"][0] in answer), case
            lost += [] if answer in case["right"] else [case]
    assert len(lost) == n_lost


def test_answer_of_a_missing_value_is_none():
    values = [None, math.nan, np.float32("nan"), pd.NA, pd.NaT, Decimal("NaN"), " ", *MISSING]
    assert {canonical(str(value), kind) for value in values for kind in KINDS} == {None}
