"""How levels agree: against the equations, one report at a time."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from bayes_direag.data.agreement import Agreement, agreement, comparisons
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError, LevelError
from tests.bayes_direag.data.questions import question


def of(option: Sequence[Sequence[int]], level: Sequence[int] | None = None, n_options: int = 5) -> Agreement:
    answers = np.array(option)
    return agreement(comparisons(answers, range(answers.shape[1]) if level is None else level, n_options))


def by_hand(option: np.ndarray, level: Sequence[int], n_options: int) -> tuple[list[float], list[float], list[float]]:
    """Return a, e and x, in plain Python."""
    n_levels = max(level) + 1
    hits, answers, leading = ([[] for _ in range(n_levels)] for _ in range(3))
    for row in option.tolist():
        for column, said in enumerate(row):
            others = Counter(other for position, other in enumerate(row) if position != column and other >= 0)
            if said < 0 or not others:
                continue
            tied = [one for one, n in others.items() if n == max(others.values())]
            hits[level[column]].append((said in tied) / len(tied))
            answers[level[column]].append(said)
            leading[level[column]].append({one: 1 / len(tied) for one in tied})
    a, e, logits, noise = [], [], [], []
    for n_hits, said, pluralities in zip(hits, answers, leading, strict=True):
        n = len(n_hits)
        share = (sum(n_hits) + 1) / (n + 2)
        chance = 0.0
        if n and n_options <= 40:
            chance = sum(one.get(answer, 0.0) for answer in said for one in pluralities) / n**2
        left = max(1 - chance, np.finfo(float).eps)
        k = min(max((share - chance) / left, 0.03), 0.99)
        a.append(share if n else math.nan)
        e.append(chance if n else math.nan)
        logits.append(math.log(k / (1 - k)))
        noise.append(max(share * (1 - share), 0.005) / n / (left * k * (1 - k)) ** 2 if n else 0.0)
    sizes = [len(n_hits) for n_hits in hits]
    total = max(sum(sizes), 1)
    centre = sum(n * one for n, one in zip(sizes, logits, strict=True)) / total
    variance = sum(n * (one - centre) ** 2 for n, one in zip(sizes, logits, strict=True)) / total
    mean_noise = sum(n * one for n, one in zip(sizes, noise, strict=True)) / total
    reliability = max(0.0, 1 - mean_noise / variance) if variance > 0 else 0.0
    x = [min(max(reliability * (one - centre), -1), 1) if n else 0.0 for n, one in zip(sizes, logits, strict=True)]
    return a, e, x


@given(
    option=hnp.arrays(np.int64, st.tuples(st.integers(0, 12), st.just(6)), elements=st.integers(-1, 3)),
    level=st.sampled_from([(0, 1, 2, 3, 4, 5), (0, 0, 1, 2, 1, 2), (0,) * 6]),
    n_options=st.sampled_from([4, 40, 41]),
)
def test_agreement_is_that_of_the_equations(option: np.ndarray, level: tuple[int, ...], n_options: int) -> None:
    for value, expected in zip(of(option, level, n_options), by_hand(option, level, n_options), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-9)


def panel(n: int, skill: Sequence[float], seed: int = 0) -> np.ndarray:
    """Return answers of levels that are right this often, and otherwise say one of four other things."""
    rng = np.random.default_rng(seed)
    right = rng.integers(0, 5, n)
    return np.where(rng.random((n, len(skill))) < skill, right[:, None], rng.integers(0, 5, (n, len(skill))))


def test_agreement_of_a_level_alone_and_of_one_that_answers_alone_is_unknown() -> None:
    for option in ([[0], [1], [0]], np.zeros((0, 3), int)):
        agreement = of(option)
        assert np.isnan(agreement.share).all()
        assert np.isnan(agreement.by_chance).all()
        assert (agreement.score == 0).all()
    three = panel(200, [0.9, 0.5, 0.5])
    alone = np.full((50, 4), -1)
    alone[:, 3] = 2
    agreement = of(np.concatenate([np.column_stack([three, np.full(200, -1)]), alone]))
    assert np.isnan([agreement.share[3], agreement.by_chance[3]]).all()
    assert agreement.score[3] == 0
    np.testing.assert_array_equal(agreement.score[:3], of(three).score)


def test_agreement_of_a_panel_of_one_mind_says_nothing_of_its_levels() -> None:
    np.testing.assert_array_equal(of([[0, 0, 0]] * 30).score, 0)


def questions(said: np.ndarray, names: str = "abc", start: int = 0) -> Observations:
    rows = [question(f"q{number}", *map(str, row)) for number, row in enumerate(said.tolist(), start)]
    return replace(Observations.from_questions(rows, "numeric"), level_names=tuple(names))


def test_further_questions_add_up_and_a_shared_one_counts_once() -> None:
    said = panel(300, [0.9, 0.6, 0.4])
    whole = questions(said).with_agreement().agreement
    few, rest = questions(said[:50]), questions(said[40:], start=40)
    assert few.agreement is None
    for mine, theirs in zip(few.with_agreement(rest).agreement, whole, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    turned = questions(said[40:, ::-1], "cba", start=40)
    np.testing.assert_allclose(few.with_agreement(turned).agreement.score, whole.score, rtol=1e-12)


def test_agreement_is_kept_by_what_is_selected() -> None:
    observations = questions(panel(60, [0.9, 0.6, 0.4])).with_agreement()
    some = observations.select(slice(0, 10))
    assert some.agreement is some.with_agreement().agreement is observations.agreement
    assert observations.align(["c", "a", "b"]).agreement is None


def test_agreement_does_not_see_a_label() -> None:
    observations = questions(panel(60, [0.9, 0.6, 0.4]))
    labelled = replace(observations, correct=observations.usable, labelled=np.ones(60, bool))
    np.testing.assert_array_equal(labelled.with_agreement().agreement, observations.with_agreement().agreement)


def test_further_questions_of_another_kind_or_level_are_refused() -> None:
    said = panel(20, [0.9, 0.6, 0.4])
    observations = questions(said)
    with pytest.raises(LevelError, match="this level is unknown to the fit; saw 'd'; expected one of a, b, c"):
        observations.with_agreement(questions(said, "abd", start=20))
    with pytest.raises(DirEAGError, match="answers to unlabelled questions are text; expected numeric"):
        observations.with_agreement(replace(questions(said, start=20), kind="text"))
