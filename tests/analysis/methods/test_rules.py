"""Rules and sampled methods against the rule for one question in exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.methods.method import Answers
from analysis.methods.rules import (
    answer_entropy,
    best_level,
    majority,
    mean_confidence,
    self_consistency,
    steerconf,
    top_k,
    vanilla,
)
from bayes_direag.data.observations import Observations
from bayes_direag.errors import LevelError
from tests.analysis.made import Report, observe

ANSWERS = ("7", "300", "12", "-4")  # in string order -4, 12, 300, 7
NAN = pytest.approx(math.nan, nan_ok=True)

reports = st.none() | st.tuples(st.none() | st.sampled_from(ANSWERS), st.none() | st.sampled_from(range(0, 101, 10)))
tables = st.integers(1, 7).flatmap(
    lambda n_levels: st.lists(st.lists(reports, min_size=n_levels, max_size=n_levels), min_size=1, max_size=4)
)


def selected(observations: Observations, answers: Answers) -> list[tuple[str | None, float]]:
    texts = [
        candidates[k] if k >= 0 else None
        for candidates, k in zip(observations.candidates, answers.candidate, strict=True)
    ]
    return list(zip(texts, answers.confidence.tolist(), strict=True))


def usable(row: list[Report]) -> tuple[list[str], list[Fraction]]:
    kept = [report for report in row if report is not None and None not in report]
    eps = Fraction(1, 10**6)
    return [a for a, _ in kept], [min(max(Fraction(q, 100), eps), 1 - eps) for _, q in kept]


def expected_majority(row: list[Report]) -> tuple[str, Fraction]:
    answers, confidences = usable(row)

    def rank(answer: str) -> tuple[int, Fraction, int]:
        stated = [q for a, q in zip(answers, confidences, strict=True) if a == answer]
        return len(stated), sum(stated, Fraction()) / len(stated), -answers.index(answer)

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
def test_rules_agree_with_the_rule_for_one_question(rule, expected, table):
    observations = observe(*table)
    for row, (answer, confidence) in zip(table, selected(observations, rule(observations)), strict=True):
        if usable(row)[0]:
            expected_answer, expected_confidence = expected(row)
            assert answer == expected_answer
            assert confidence == pytest.approx(float(expected_confidence), abs=1e-12)
        else:
            assert (answer, confidence) == (None, NAN)


def test_rules_give_a_tie_to_the_answer_seen_first_whatever_the_rounding():
    table = [[("7", 10), ("12", 30), ("7", 20)], [("12", 30), ("7", 10), ("7", 20)]]  # 0.1 + 0.2 > 0.3 in doubles
    observations = observe(*table)
    assert [answer for answer, _ in selected(observations, mean_confidence(observations))] == ["7", "12"]
    for row, expected in (
        ([("300", 40), ("12", 30), ("12", 60), ("300", 50)], ("300", 0.5)),
        ([("300", 40), ("12", 50), ("7", 100), ("12", 60), ("300", 50)], ("12", 0.4)),  # the higher mean confidence
    ):
        observations = observe(row)
        assert selected(observations, majority(observations)) == [expected]


def test_rules_vanilla_is_one_level_clipped_and_best_level_the_one_right_most_often():
    observations = observe([("7", 20), ("12", 100)], [("7", 20), ("12", None)], [("7", 20), None])
    assert selected(observations, vanilla(observations, "level 1")) == [("12", 1 - 1e-6), (None, NAN), (None, NAN)]
    with pytest.raises(LevelError, match=r"'vanila'\. Expected one of level 0, level 1"):
        vanilla(observations, "vanila")
    labelled = observe([("1", 90), ("2", 30)], [("3", 90), ("2", 40)], [None, ("4", 60)], gold="2")
    new = observe([("5", 80), ("6", 10)], [("5", 80), None])
    assert selected(new, best_level(labelled, 0)(new)) == [("6", pytest.approx(0.1)), (None, NAN)]
    equal = observe([("2", 90), ("2", 30)], gold="2")
    assert best_level(equal, 0)(equal).confidence == 0.9, "of equals the first"


SAMPLES = {
    ("7", "7.0", "$7", "8", "9"): ("7", [3, 1, 1]),
    ("8", "7", "8", "7", "9"): ("7", [2, 2, 1]),
    ("10", "9", "8", None, None): ("10", [1] * 5),
    (None, "no idea", "7", None, "7"): ("7", [2, 1, 1, 1]),
    ("7",) * 5: ("7", [5]),
    (None, "many", "3:4", None, None): (None, [1] * 5),
}


def test_rules_of_samples_take_the_commonest_with_its_share_or_agreement() -> None:
    asked = observe(*([(answer, None) for answer in row] for row in SAMPLES))
    asked = asked.voting_as(asked.level_names)
    shares, agreements = selected(asked, self_consistency(asked)), selected(asked, answer_entropy(asked))
    for (answer, counts), share, agreement in zip(SAMPLES.values(), shares, agreements, strict=True):
        share_of = np.array(counts) / 5
        entropy = 1 + float(np.sum(share_of * np.log(share_of))) / np.log(5)
        expected = (math.nan, math.nan) if answer is None else (max(counts) / 5, min(max(entropy, 0), 1))
        assert share == (answer, pytest.approx(expected[0], nan_ok=True))
        assert agreement == (answer, pytest.approx(expected[1], abs=1e-12, nan_ok=True))
    one = observe([("7", None)])
    one = one.voting_as(one.level_names)
    assert selected(one, answer_entropy(one)) == [("7", 1.0)]


def test_rules_of_guesses_take_the_likeliest_the_first_listed_of_equals() -> None:
    listed = (
        [("7", 30), ("8", 60), ("9", 10)],
        [("7", 40), ("8", 40), ("9", 20)],
        [("what", 90), ("8", None), ("9", 20)],
    )
    guesses = observe(*listed, [("7", 0), ("8", 0), (None, 90)], [(None, 50), ("many", 50), ("3:4", 50)])
    assert selected(guesses, top_k(guesses)) == [("8", 0.6), ("7", 0.4), ("9", 0.2), ("7", 0.0), (None, NAN)]
    silent = observe([("7", None), ("8", 20)], [("9", None), None])  # the first level only votes
    assert selected(silent, top_k(silent)) == [("8", 0.2), (None, NAN)]
