"""Exchangeable levels share their parameters exactly: against equations with tied parameters, written one by one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.methods.direag import after_calibration
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.decisions.estimate import estimate
from bayes_direag.errors import LevelError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import fit_map, fit_nuts
from bayes_direag.fits.streaming import predict_file
from tests.bayes_direag import brute_force

pytestmark = pytest.mark.filterwarnings("ignore::bayes_direag.errors.FewReportsWarning")

GROUPS = {"very_cautious": "careful", "cautious": "careful", "confident": "bold", "very_confident": "bold"}


def grouped(observations: Observations) -> Observations:
    """Return the observations with two groups of two levels, and one level for itself between them."""
    frame = observations.to_frame()
    frame["group"] = frame["level_name"].map(GROUPS)
    return Observations.from_frame(frame, answers=observations.kind)


def permuted(observations: Observations, seed: int) -> Observations:
    """Return the observations with the reports of each group shuffled, question by question."""
    order = np.tile(np.arange(5), (len(observations), 1))
    for group in ("careful", "bold"):
        of_group = np.array(observations.groups) == group
        order[:, of_group] = np.random.default_rng(seed).permuted(order[:, of_group], axis=1)
    arrays = {"candidate": observations.candidate, "status": observations.status, "correct": observations.correct}
    moved = {name: np.take_along_axis(values, order, axis=1) for name, values in arrays.items()}
    signals = {name: np.take_along_axis(values, order, axis=1) for name, values in observations.signals.items()}
    return replace(observations, **moved, signals=signals)


@pytest.fixture(scope="module")
def observations(simulated: Observations) -> Observations:
    return grouped(simulated.select(slice(0, 120)))


def test_groups_are_the_levels_of_a_fit(groups: Fit, observations: Observations) -> None:
    assert (observations.groups, observations.slots) == (
        ("careful", "careful", "vanilla", "bold", "bold"),
        (0, 0, 1, 2, 2),
    )
    assert groups.level_names == observations.learned_levels == ("careful", "vanilla", "bold")
    assert groups.fitted.groups == observations.groups
    assert groups.parameters().query("parameter == 'weight'")["level"].tolist() == ["careful", "vanilla", "bold"]


def test_groups_have_no_order_of_reports(groups: Fit, observations: Observations) -> None:
    shuffled = permuted(observations, seed=4)
    assert (shuffled.candidate != observations.candidate).any()
    again = fit_map(shuffled)
    np.testing.assert_allclose(again.parameters()["mode"], groups.parameters()["mode"], rtol=1e-4, atol=1e-6)
    pd.testing.assert_frame_equal(groups.predict(shuffled), groups.predict(observations), rtol=1e-12)


def runs(name: str, group: str, said: Sequence[tuple[str, float]], gold: str = "1") -> Question:
    reports = tuple(
        Observation(level=k, level_name=f"{group} {k}", group=group, answer=answer, confidence=confidence)
        for k, (answer, confidence) in enumerate(said)
    )
    return Question(problem_id=name, gold_answer=gold, observations=reports)


def test_groups_may_have_any_number_of_reports(groups: Fit, tmp_path: Path) -> None:
    said = [[("1", 80.0)], [("1", 80.0), ("2", 60.0)] * 4, [("2", 90.0)] * 7, []]
    new = Observations.from_questions(
        [runs(str(row), "careful", answers) for row, answers in enumerate(said)], "numeric"
    )
    assert new.n_levels == 8
    table, values = groups.predict(new), brute_force.of_draws(groups)[0]
    for answers, expected_support in zip(said[:-1], table["support"], strict=False):
        reports = [(0, answer, confidence / 100) for answer, confidence in answers]
        support = brute_force.support(brute_force.scores(reports, values, groups.preset.eps))
        del support["null"]
        assert expected_support == pytest.approx(max(support.values()))
    assert table["n_used"].tolist() == [1, 8, 7, 0]
    for suffix in ("jsonl", "parquet", "csv"):
        new.write(tmp_path / f"new.{suffix}")
        pd.testing.assert_frame_equal(groups.predict(tmp_path / f"new.{suffix}"), table)
    done = predict_file(groups, tmp_path / "new.parquet", tmp_path / "p.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), table)
    assert estimate(groups, new).n_answers == 3
    aligned = new.align(groups.level_names)
    np.testing.assert_array_equal(groups.aligned(done.sample).usable.sum(axis=1), aligned.usable.sum(axis=1))
    np.testing.assert_allclose(after_calibration(groups, aligned).confidence, table["probability"])


@pytest.mark.slow
def test_groups_have_a_parameter_each_in_the_posterior(observations: Observations, tmp_path: Path) -> None:
    sampling = {"num_chains": 2, "num_warmup": 100, "num_samples": 50}
    fit = fit_nuts(observations.select(slice(0, 50)), **sampling, seed=1)
    assert dict(fit.tree["posterior"]["weight"].sizes) == {"chain": 2, "draw": 50, "level": 3}
    fit.save(tmp_path / "fit.nc")
    pd.testing.assert_frame_equal(Fit.load(tmp_path / "fit.nc").predict(observations), fit.predict(observations))
    shuffled = permuted(observations, seed=1)
    pd.testing.assert_frame_equal(fit.predict(shuffled), fit.predict(observations), rtol=1e-9)


def test_rows_of_a_group_need_no_level() -> None:
    table = pd.DataFrame(
        {"id": [1, 1, 1, 2, 2], "model": ["a", "b", "a", "a", "b"], "answer": [7, 7, 8, 7, 9], "confidence": 80}
    )
    observations = Observations.from_frame(table, question="id", group="model", answers="numeric")
    assert (observations.level_names, observations.groups) == (("a 1", "b 1", "a 2"), ("a", "b", "a"))
    np.testing.assert_array_equal(observations.candidate, [[0, 0, 1], [0, 1, -1]])
    assert Observations.from_frame(observations.to_frame(), answers="numeric").fingerprint == observations.fingerprint


def test_groups_that_the_fit_does_not_know_are_refused(groups: Fit) -> None:
    with pytest.raises(LevelError, match="saw 'shy'; expected one of careful, vanilla, bold"):
        groups.predict(Observations.from_questions([runs("a", "shy", [("1", 50)])], "numeric"))
