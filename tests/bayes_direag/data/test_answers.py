import json
import math
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_direag.data.answers import _CANONICAL, AnswerKind, canonical, infer_kind, same_answer
from bayes_direag.data.plain import MISSING
from bayes_direag.errors import ObservationError

CASES = json.loads(Path(__file__).with_name("answer_cases.json").read_text(encoding="utf-8"))
KINDS: tuple[AnswerKind, ...] = ("numeric", "choice", "text")

decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=4)
fractions = st.fractions(min_value=-1000, max_value=1000, max_denominator=500)
answer_like = st.one_of(
    st.text(),
    st.text(alphabet="0123456789.,-+/*^ex $%()[]{}=\\½²π abB", max_size=20),
    st.from_regex(r"[-+]?\$?[0-9,]{1,9}(\.[0-9]{1,5})?(e-?[0-9]{1,3})?( ?/ ?[0-9]{1,4})? ?[a-z]{0,3}", fullmatch=True),
    st.sampled_from([case["text"] for case in CASES]),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['kind']}: {case['text'][:30]!r} ({case['why']})")
def test_the_table_of_cases(case):
    assert canonical(case["text"], case["kind"]) == case["canonical"]


@given(answer_like, st.sampled_from(KINDS))
def test_a_canonical_form_is_its_own(text, kind):
    spelling = canonical(text, kind)
    assert spelling is None or (
        spelling and canonical(spelling, kind) == spelling and same_answer(spelling, text, kind)
    )


@given(
    st.sampled_from(KINDS).flatmap(
        lambda kind: st.tuples(st.just(kind), st.from_regex(_CANONICAL[kind], fullmatch=True))
    )
)
def test_what_is_its_own_form_at_a_glance_is_so_when_read(drawn):
    kind, text = drawn
    assert canonical(text, kind) == canonical(f" {text}", kind) == text


@given(decimals)
def test_every_way_of_writing_a_decimal_is_one_answer(value):
    expected = canonical(f"{value:f}", "numeric")
    assert Fraction(expected) == Fraction(value)
    sign, size = "-" if value.is_signed() else "", abs(value)
    ways = [
        f"{value:,f}",
        f"{value:e}",
        f"{value:f}000",
        f"{sign}${size:,f}",
        f"${sign}{size:f}$",
        f"\\boxed{{{value:f}}}",
        f"**{value:,f}**",
        f"{value:f} dollars.",
        f"The answer is {value:f}.",
        f"2 + 2 = {value:f}",
        f"{value.scaleb(3):f}/1000",
        f"{value.scaleb(-6):f} million",
        f"{value.scaleb(2):f} x 10^-2",
        f"{value:f}".translate(str.maketrans("0123456789-", "０１２３４５６７８９−")),  # noqa: RUF001
    ]
    assert {way: canonical(way, "numeric") for way in ways} == dict.fromkeys(ways, expected)


@given(fractions, st.integers(1, 500), st.integers(1, 60), st.integers(1, 60))
def test_a_fraction_keeps_its_value_and_a_mixed_number_is_the_sum_of_its_parts(value, whole, top, rest):
    assert Fraction(canonical(str(value), "numeric")) == value
    part = Fraction(top, top + rest)
    expected = canonical(str(whole + part), "numeric")
    assert canonical(f"{whole} {part}", "numeric") == expected
    assert canonical(f"{whole}\\frac{{{part.numerator}}}{{{part.denominator}}}", "numeric") == expected


@given(st.lists(decimals.map(abs), min_size=2, max_size=3), st.sampled_from([" and ", ", ", " - ", ":", " x ", "; "]))
def test_two_numbers_are_never_read_as_one(values, separator):
    assert canonical(separator.join(f"{value:f}" for value in values), "numeric") is None


@given(st.integers(-400, 400), st.integers(1, 9))
def test_large_exponents_are_exact_and_short(exponent, digit):
    spelling = canonical(f"{digit}e{exponent}", "numeric")
    assert Decimal(spelling) == Decimal(f"{digit}e{exponent}")
    assert len(spelling) < 40


class Dressing(NamedTuple):
    """What stands around a number, with ``@`` for it, and the factor by which it changes it; None: by no fixed one."""

    form: str
    factor: Fraction | int | None = 1


def dressings(*forms: str, **factors: Fraction | int | None) -> st.SearchStrategy[Dressing]:
    return st.sampled_from(
        [Dressing("@"), *map(Dressing, forms), *(Dressing(f"@ {word}", factor) for word, factor in factors.items())]
    )


SCALES = dressings(
    "@%", "@kg", dozen=12, dozens=12, Dutzend=12, hundred=100, thousands=1000, tausend=1000, mil=1000, k=1000,
    lakh=10**5, lakhs=10**5, crore=10**7, million=10**6, millions=10**6, Mio=10**6, mln=10**6, millones=10**6, bn=10**9,
    mrd=10**9, Milliarden=10**9, billion=10**9, trillion=10**12, hundredths=Fraction(1, 100), halves=Fraction(1, 2),
    and_a_half=None, squared=None, i=None, gross=144,
)  # fmt: skip
SCALES |= st.builds(Dressing, st.sampled_from(["@万", "@ 万人"]), st.just(10**4))
SIGNS = dressings("+@", "(@)") | st.builds(
    Dressing,
    st.sampled_from(
        ["-@", "\u2212@", "\u2013 @", "\u2796@", "minus @", "Negative @", "moins @", "(-@)", "負@", "@ below zero"]
    ),
    st.just(-1),
)
CURRENCIES = dressings("$@", "€ @", "US$@", "USD @", "₩@", "Rs. @", "@ €", "@$", "@ dollars", "\\$@", "CHF @")
UNITS = dressings("@ kg", "@ m²", "@ m/s", "@\\text{ m}^2", "@\\,\\mathrm{cm^{3}}", "@ °C", "@\\%", "@ t-shirts", "@ V")
FRAMES = dressings(
    "**@**", "*@*", "`@`", "$@$", "\\(@\\)", "\\boxed{@}", "$\\boxed{@}$", "The answer is @.", "x = @", "14 + 5 = @",
    "Answer: @", "<b>@</b>", "- Total: @", "so @!", "“@”", "@\u200b", "\ufeff@", "#### @", "Final: **@** (rounded)",
)  # fmt: skip


@st.composite
def numbers(draw: st.DrawFn) -> tuple[str, Fraction]:
    """Draw a way of writing a number without sign, and its value."""
    size = Decimal(draw(st.integers(0, 10**9))).scaleb(-draw(st.integers(0, 4)))
    whole, top, rest = (draw(st.integers(0, 900)) for _ in range(3))
    part, bottom = Fraction(top, top + rest + 1), top + rest + 1
    separator = draw(st.sampled_from([",", "{,}", "\\,", "\u202f", "\u00a0", "\u2009", "\u2019"]))
    return draw(
        st.sampled_from(
            [
                (f"{size:f}", Fraction(size)),
                (f"{size:,f}".replace(",", separator), Fraction(size)),
                (f"{size:e}", Fraction(size)),
                (f"{size:f} \\times 10^{{3}}", Fraction(size) * 1000),
                (f"{top}/{bottom}", part),
                (f"\\frac{{{top}}}{{{bottom}}}", part),
                (f"{whole} {top}/{bottom}", whole + part),
                (f"{whole}\u00a0{top}/{bottom}", whole + part),
                (f"{whole}½", whole + Fraction(1, 2)),
            ]
        )
    )


@settings(max_examples=400)
@given(numbers(), SCALES, st.tuples(CURRENCIES, UNITS, SIGNS).flatmap(st.permutations), FRAMES)
def test_a_dressed_number_is_itself_or_unreadable_and_never_another(number, scale, around, frame):
    text, value = number
    dressed = (scale, *around, frame)
    for dressing in dressed:
        text = dressing.form.replace("_", " ").replace("@", text)
    spelling = canonical(text, "numeric")
    if spelling is not None:
        assert Fraction(spelling) == math.prod([dressing.factor for dressing in dressed], start=value), text


HOSTILE = (
    ".", "!", "\\", "(", "{", "[", "$", "*", '"', "'", "-", "^", "=", "≈", "1", "1,", "1 ", "½", "⁶", "a", "a-", "a ",
    "the\n", "one ", "half of ", "5 minus ", "\\boxed{", "\\text{", "\\frac{", "<a", "A) ", "answer ", "or ", "*a ",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("piece", HOSTILE)
def test_the_time_grows_with_the_length(piece, kind):
    def seconds(length: int) -> float:
        text = f"5 {piece * (length // len(piece))}"[: length - 1] + "x"
        runs = []
        for _ in range(5):
            start = time.process_time()
            canonical.__wrapped__(text, kind)
            runs.append(time.process_time() - start)
        return min(runs)

    assert seconds(4000) <= 9 * max(seconds(1000), 1e-4)  # four times the length; a square would be sixteen times


@pytest.mark.parametrize("kind", KINDS)
def test_no_answer_has_more_than_4000_characters(kind):
    assert canonical("B" + " " * 3999, kind) == {"numeric": None, "choice": "B", "text": "b"}[kind]
    assert canonical("B" + " " * 4000, kind) is None


@pytest.mark.parametrize("text", ["1e1000000000", "9" * 100_000, "1" * 3000, "1/" + "3" * 3000, "1e" + "9" * 3000])
def test_numbers_that_would_cost_memory_are_not_read(text):
    assert canonical(text, "numeric") is None


def test_same_answer_needs_two_answers_that_can_be_read():
    assert same_answer("$1,206", "2412/2", "numeric")
    assert not same_answer("1,206", "1206", "text")
    assert not same_answer("3:4", "3:4", "numeric")
    assert not any(same_answer(None, None, kind) for kind in KINDS)


@pytest.mark.parametrize(
    ("golds", "kind"),
    [
        (["9", "$12.50", "1/3"], "numeric"),
        (["A", "(b)", " J "], "choice"),
        (["9", "B"], "text"),
        (["a cat", "B) a dog"], "text"),
        (["12:50", "9"], "text"),
    ],
)
def test_the_gold_answers_show_their_kind(golds, kind):
    golds = ["nan", *golds, "<NA>"]
    assert infer_kind(golds) == kind
    assert infer_kind(iter(golds)) == kind


@pytest.mark.parametrize("golds", [[], ["NaN", " "]])
def test_without_gold_answers_the_kind_must_be_declared(golds):
    with pytest.raises(ObservationError, match=r"file\.jsonl.*--answers"):
        infer_kind(golds, "file.jsonl")


def test_reported_answers_are_read_rightly(real_cases):
    for case in map(json.loads, (real_cases / "answers.jsonl").read_text("utf-8").splitlines()):
        assert canonical(case["text"], case["answers"]) in case["right"], case
    for case in map(json.loads, (real_cases / "pairs.jsonl").read_text("utf-8").splitlines()):
        assert same_answer(case["first"], case["second"], "text") is case["same"], case


def test_a_missing_value_is_no_answer():
    values = [None, math.nan, np.float32("nan"), pd.NA, pd.NaT, Decimal("NaN"), " ", *MISSING]
    assert {canonical(str(value), kind) for value in values for kind in KINDS} == {None}
