"""Baselines against the rules for one question in exact arithmetic, and the released predictions."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.methods.method import Answers
from analysis.methods.rules import majority, mean_confidence, steerconf, vanilla
from bayes_direag.data.observations import Observations
from bayes_direag.errors import LevelError
from tests.analysis.handmade_reports import Report, observe

REFERENCE = Path(__file__).parents[4] / "shared" / "reference"
ANSWERS = ("7", "300", "12", "-4")  # in string order -4, 12, 300, 7

reports = st.none() | st.tuples(st.none() | st.sampled_from(ANSWERS), st.none() | st.sampled_from(range(0, 101, 10)))
tables = st.integers(1, 7).flatmap(
    lambda n_levels: st.lists(st.lists(reports, min_size=n_levels, max_size=n_levels), min_size=1, max_size=4)
)


def selected(observations: Observations, selection: Answers) -> list[tuple[str | None, float]]:
    return [
        (candidates[index] if index >= 0 else None, confidence)
        for candidates, index, confidence in zip(
            observations.candidates, selection.candidate, selection.confidence, strict=True
        )
    ]


def usable(row: list[Report]) -> tuple[list[str], list[Fraction]]:
    kept = [report for report in row if report is not None and None not in report]
    eps = Fraction(1, 10**6)
    return [a for a, _ in kept], [min(max(Fraction(q, 100), eps), 1 - eps) for _, q in kept]


def expected_majority(row: list[Report]) -> tuple[str, Fraction]:
    answers, confidences = usable(row)

    def rank(answer: str) -> tuple[int, Fraction, int]:
        own = [q for a, q in zip(answers, confidences, strict=True) if a == answer]
        return len(own), sum(own, Fraction()) / len(own), -answers.index(answer)

    best = max(set(answers), key=rank)
    return best, Fraction(answers.count(best), len(answers))


def expected_mean_confidence(row: list[Report]) -> tuple[str, Fraction]:
    answers, confidences = usable(row)
    total = {answer: Fraction() for answer in answers}  # in the order first seen
    for answer, confidence in zip(answers, confidences, strict=True):
        total[answer] += confidence
    best = max(total, key=total.__getitem__)
    return best, total[best] / sum(confidences)


def expected_steerconf(row: list[Report]) -> tuple[str, float]:
    answers, confidences = usable(row)
    n, low, high = len(answers), min(confidences), max(confidences)
    mean = sum(confidences) / n
    deviation = math.sqrt(sum((q - mean) ** 2 for q in confidences) / n)
    score = float(mean * expected_majority(row)[1]) / (1 + deviation / float(mean))
    number = 0 if low == high else math.floor((score - float(low)) / float(high - low) * n)
    return answers[min(max(number, 0), n - 1)], score


@pytest.mark.parametrize(
    ("rule", "expected"),
    [(majority, expected_majority), (mean_confidence, expected_mean_confidence), (steerconf, expected_steerconf)],
)
@given(table=tables)
def test_agrees_with_the_rule_for_one_question(rule, expected, table):
    observations = observe(*table)
    for row, (answer, confidence) in zip(table, selected(observations, rule(observations)), strict=True):
        if usable(row)[0]:
            expected_answer, expected_confidence = expected(row)
            assert answer == expected_answer
            assert confidence == pytest.approx(float(expected_confidence), abs=1e-12)
        else:
            assert answer is None
            assert math.isnan(confidence)


def test_a_tie_goes_to_the_answer_seen_first_whatever_the_rounding():
    table = [[("7", 10), ("12", 30), ("7", 20)], [("12", 30), ("7", 10), ("7", 20)]]  # 0.1 + 0.2 > 0.3 in doubles
    observations = observe(*table)
    assert [answer for answer, _ in selected(observations, mean_confidence(observations))] == ["7", "12"]
    observations = observe([("300", 40), ("12", 30), ("12", 60), ("300", 50)])
    assert selected(observations, majority(observations)) == [("300", 0.5)]
    observations = observe([("300", 40), ("12", 50), ("7", 100), ("12", 60), ("300", 50)])
    assert selected(observations, majority(observations)) == [("12", 0.4)], "the higher mean confidence"


def test_vanilla_is_one_level_with_its_confidence_clipped():
    observations = observe([("7", 20), ("12", 100)], [("7", 20), ("12", None)], [("7", 20), None])
    answers = selected(observations, vanilla(observations, "level 1"))
    assert answers[0] == ("12", 1 - 1e-6)
    assert [answer for answer, _ in answers[1:]] == [None, None]
    assert np.isnan([confidence for _, confidence in answers[1:]]).all()
    with pytest.raises(LevelError, match=r"'vanila'\. Expected one of level 0, level 1"):
        vanilla(observations, "vanila")
