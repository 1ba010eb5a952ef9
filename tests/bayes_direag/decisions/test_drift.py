"""The test of changed reports against plain loops and full enumeration, on questions that are alike or not."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.decisions.drift import Drift
from bayes_direag.errors import DirEAGError
from bayes_direag.model.simulate import simulate_observations


@pytest.fixture(scope="module")
def pool() -> Observations:
    """Questions of which some reports are missing."""
    questions = simulate_observations(2000, seed=4)
    missing = np.random.default_rng(0).random(questions.shape) < 0.1
    return questions.without(missing)


def halves(pool: Observations, n: int, seed: int = 0) -> tuple[Observations, Observations]:
    order = np.random.default_rng(seed).permutation(len(pool))
    return pool.select(order[:n]), pool.select(order[n : 2 * n])


def exchanged(questions: Observations, one: int, other: int) -> Observations:
    """Return the questions with the reports of two levels under each other's name."""
    order = np.arange(questions.n_levels)
    order[[one, other]] = other, one
    return replace(
        questions,
        candidate=questions.candidate[:, order],
        signals={name: values[:, order] for name, values in questions.signals.items()},
        status=questions.status[:, order],
    )


def scores(candidate: np.ndarray, confidence: np.ndarray, is_new: np.ndarray) -> np.ndarray:
    """Return the score of each level by loops."""

    def squared(values: list[float]) -> float:
        known = [(value, new) for value, new in zip(values, is_new, strict=True) if not np.isnan(value)]
        after, before = ([value for value, new in known if new == side] for side in (True, False))
        variance = np.var([value for value, _ in known])
        if not after or not before or variance == 0:
            return 0.0
        return (np.mean(after) - np.mean(before)) ** 2 / (variance * (1 / len(after) + 1 / len(before)))

    n_levels, found = candidate.shape[1], []
    for level in range(n_levels):
        pairs, stated = [], []
        for other in range(n_levels):
            if other != level:
                rows = candidate[:, [level, other]]
                pairs.append(squared([np.nan if -1 in row else float(row[0] == row[1]) for row in rows.tolist()]))
        own = confidence[:, level]
        for limit in np.quantile(own[~np.isnan(own)], (0.2, 0.4, 0.6, 0.8)):
            stated.append(squared([np.nan if np.isnan(value) else float(value <= limit) for value in own]))
        found.append(np.mean(pairs) + max(stated))
    return np.array(found)


def test_all_divisions_of_a_few_questions_give_its_p_values(pool):
    labelled, new = halves(pool, 5, seed=3)
    found = Drift.between(labelled, new, alarm_rate=5e-4)
    candidate = np.concatenate([labelled.candidate, new.candidate])
    confidence = np.concatenate([labelled.confidence, new.confidence])
    divisions = [np.isin(np.arange(10), chosen) for chosen in combinations(range(10), 5)]
    by_division = np.array([scores(candidate, confidence, is_new) for is_new in divisions])
    actual = scores(candidate, confidence, np.arange(10) >= 5)
    expected = (by_division.max(axis=1)[:, None] >= actual - 1e-9).mean(axis=0)
    p_values = found.levels.set_index("level")["p_value"][list(pool.level_names)]
    np.testing.assert_allclose(p_values, expected, atol=4 * 0.5 / np.sqrt(20_000))
    assert found.p_value == p_values.min()


def test_the_table_has_means_of_what_is_there(pool):
    labelled, new = halves(pool, 200)
    levels = Drift.between(labelled, new).levels.set_index("level")
    for side, questions in (("before", labelled), ("after", new)):
        for a, name in enumerate(pool.level_names):
            both = [questions.usable[:, a] & questions.usable[:, b] for b in range(5)]
            equal = [(questions.candidate[both[b], a] == questions.candidate[both[b], b]).mean() for b in range(5)]
            assert levels.loc[name, f"agreement_{side}"] == pytest.approx(np.mean(np.delete(equal, a)))
            assert levels.loc[name, f"confidence_{side}"] == pytest.approx(np.nanmean(questions.confidence[:, a]))
    groups = ("run",) * 5
    fewer = new.without(np.isin(np.arange(5), [2, 4])[None] & new.usable)
    (row,) = Drift.between(replace(labelled, groups=groups), replace(fewer, groups=groups)).levels.to_dict("records")
    of_pairs = [[a == b for a, b in combinations(said, 2) if -1 not in (a, b)] for said in labelled.candidate.tolist()]
    assert row["agreement_before"] == pytest.approx(np.mean([np.mean(own) for own in of_pairs if own]))


def test_neither_the_order_of_questions_nor_that_of_levels_counts(pool):
    labelled, new = halves(pool, 60)
    found = Drift.between(labelled, new, seed=7)
    back = [side.select(slice(None, None, -1)) for side in (labelled, new)]
    pd.testing.assert_frame_equal(Drift.between(*back, seed=7).levels, found.levels, check_exact=True)
    turned = Drift.between(*(side.align(pool.level_names[::-1]) for side in (labelled, new)), seed=7)
    assert turned.p_value == found.p_value
    assert turned.unnoticed == pytest.approx(found.unnoticed)


def test_exchanged_levels_are_found_and_named_and_every_signal_is_compared(pool):
    labelled, new = halves(pool, 150)
    same, found = Drift.between(labelled, new), Drift.between(labelled, exchanged(new, 0, 4))
    assert (same.differs, same.changed) == (False, ())
    assert found.differs
    assert set(found.changed[:2]) == {pool.level_names[0], pool.level_names[4]}
    before, after = ({**side.signals, "logprob": np.full(side.shape, p)} for side, p in ((labelled, 0.2), (new, 0.8)))
    assert Drift.between(labelled, replace(new, signals=after)).p_value == same.p_value
    both = Drift.between(replace(labelled, signals=before), replace(new, signals=after))
    assert (both.differs, len(both.changed)) == (True, 5)


def test_half_of_what_would_go_unnoticed_mostly_does_and_twice_as_much_seldom(pool):
    found = {0.5: 0, 2.0: 0}
    for seed in range(12):
        labelled, new = halves(pool, 100, seed)
        alike, rng = Drift.between(labelled, new), np.random.default_rng(seed)
        agreement = alike.levels.set_index("level").loc[pool.level_names[0], "agreement_after"]
        for times in found:
            changed = rng.random(len(new)) < times * alike.unnoticed / agreement
            candidate = new.candidate.copy()
            candidate[changed & new.usable[:, 0], 0] = 99  # an answer that no other level gives
            found[times] += Drift.between(labelled, replace(new, candidate=candidate)).differs
    assert found[0.5] <= 4
    assert found[2.0] >= 10


def test_clusters_are_divided_as_a_whole(pool):
    def eightfold(questions: Observations, side: str) -> Observations:
        rows = np.repeat(np.arange(len(questions)), 8)
        names = tuple(f"{side} {number}" for number in range(len(rows)))
        return replace(questions.select(rows), problem_id=names, cluster=tuple(str(row) for row in rows))

    alarms = {"clusters": 0, "questions": 0}
    for seed in range(12):
        labelled, new = (eightfold(half, side) for half, side in zip(halves(pool, 15, seed), "ab", strict=True))
        alarms["clusters"] += Drift.between(labelled, new).differs
        alarms["questions"] += Drift.between(replace(labelled, cluster=None), replace(new, cluster=None)).differs
    assert alarms["clusters"] <= 3
    assert alarms["questions"] >= 6


def test_levels_and_confidences_that_are_missing(pool):
    labelled, new = halves(pool, 80)
    absent = Drift.between(labelled, new.without(np.arange(5)[None] == np.full((80, 1), 2)))
    (row,) = absent.levels[absent.levels["level"] == pool.level_names[2]].to_dict("records")
    assert np.isnan([row["p_value"], row["agreement_after"], row["confidence_after"]]).all()
    assert absent.levels["p_value"].notna().sum() == 4
    silent = [replace(side, signals={"number": np.full((80, 5), np.nan)}) for side in (labelled, new)]
    votes = Drift.between(*silent)
    assert 0 < votes.p_value <= 1
    assert votes.record()["levels"][0]["confidence_before"] is None
    one = [side.without((np.arange(5) > 0)[None] & side.usable) for side in silent]
    nothing = Drift.between(*one)
    assert (nothing.differs, nothing.record()["p_value"]) == (False, None)


def test_a_remark_takes_many_questions_with_as_many_reports(pool):
    labelled, new = halves(pool, 100)
    assert Drift.unasked(labelled, new).p_value == Drift.between(labelled, new).p_value
    assert Drift.unasked(labelled, new.select(slice(49))) is None
    for n_lacking, is_compared in ((4, True), (40, False)):
        lacking = np.arange(100)[:, None] < n_lacking
        one_less = new.without(lacking & (np.cumsum(new.usable, axis=1) == 1))
        assert (Drift.unasked(labelled, one_less) is not None) == is_compared


@pytest.mark.parametrize("rate", [0.0, 1.0, np.nan, 1e-5])
def test_alarm_rates_that_cannot_be(pool, rate):
    with pytest.raises(DirEAGError, match="expected a share from 0"):
        Drift.between(*halves(pool, 20), alarm_rate=rate)
