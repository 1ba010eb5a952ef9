"""The built-in problems: their answers recomputed from their texts by other means, and their seeds."""

import hashlib
import re
from fractions import Fraction
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_direag.data.answers import canonical
from bayes_direag.errors import DirEAGError
from elicitation.arithmetic import GRADES, WordProblem, word_problems

STEPS = {1: 1, 2: 1, 3: 2, 4: 3, 5: 3}


def solve(question: str) -> Fraction:
    """Return the answer of a problem, read from its text alone."""
    start, *events, _ = re.split(r"(?<=[.?]) (?=[A-Z])", question)
    (number,) = re.findall(r"\d+", start)
    value = Fraction(number)
    for event in events:
        (text,) = re.findall(r"\d+(?:\.\d+)?", event)
        number = Fraction(text)
        if "percent" in event:
            value *= 1 - number / 100
        elif "times" in event or "each" in event:
            value *= number
        elif "equally" in event:
            value /= number
        elif re.search("gives .* away|loses|uses up", event):
            value -= number
        else:
            assert re.search("gives .* more|finds another|buys .* more", event), event
            value += number
        assert value > 0
        assert "each" in event or value.denominator == 1
    return value


@given(seed=st.integers(0, 10**9), grade=st.sampled_from(GRADES))
def test_the_gold_is_what_the_text_says(seed: int, grade: int) -> None:
    for problem in word_problems(5, seed, (grade,)):
        assert problem.grade == grade
        assert canonical(str(solve(problem.question)), "numeric") == problem.gold
        assert len(re.findall(r"\d+(?:\.\d+)?", problem.question)) == 1 + STEPS[grade] + (grade == 5)


def test_a_longer_list_begins_with_the_shorter_one() -> None:
    assert list(islice(word_problems(1000, 3), 40)) == list(word_problems(40, 3))
    assert list(word_problems(10, 3)) != list(word_problems(10, 4))


def test_a_seed_means_the_same_everywhere() -> None:
    # Recorded when the generator was written: a change of it breaks every set that runs have been made on.
    digest = hashlib.sha256(repr([tuple(problem) for problem in word_problems(200, 11)]).encode()).hexdigest()
    assert digest[:16] == "21b7f92ea6ca0352"
    assert next(word_problems(1, 7)) == WordProblem(
        1, "Luis has 3 pencils. Luis buys 7 more. How many pencils does Luis have now?", "10"
    )


@pytest.mark.parametrize("grades", [(), (0,), (1, 6)])
def test_unknown_grades_are_refused(grades: tuple[int, ...]) -> None:
    with pytest.raises(DirEAGError, match=r"expected some of \[1, 2, 3, 4, 5\]"):
        next(word_problems(1, grades=grades))
