"""Questions that a model cannot tell apart are counted once, and nothing else changes."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.model import model
from bayes_direag.model.equations import Reports
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw
from bayes_direag.model.presets import preset
from bayes_direag.model.settings import LEVEL_PARAMETERS, VARIANTS, Variant
from bayes_direag.model.simulate import simulate_observations

log_likelihood = jax.jit(model.log_likelihood)


@pytest.mark.parametrize("name", ["paper", "bayes"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_questions_of_one_pattern_have_one_likelihood_and_no_fewer_patterns_would_do(
    variant: Variant, name: str
) -> None:
    observations = simulate_observations(400, seed=3)
    data = LikelihoodData.weighted(observations, np.ones(400), preset=preset(name), variant=variant)
    patterns = data.patterns()
    reached = np.asarray(log_likelihood(some_raw(data), data))
    np.testing.assert_allclose(reached, reached[patterns.member][patterns.pattern], rtol=1e-14)
    n_distinct = len(np.unique(reached.round(10)))
    # where evidence adds up, it does not matter which wrong answer a report gives
    assert n_distinct <= len(patterns.member) if name == "paper" else n_distinct == len(patterns.member)
    if variant != "confidence":
        assert len(patterns.member) < 200


def some_raw(data: LikelihoodData, n_levels: int = 5) -> Raw:
    names, rng = data.preset.free_parameters(data.variant), np.random.default_rng(1)
    return {name: jnp.asarray(rng.normal(size=n_levels if name in LEVEL_PARAMETERS else ())) for name in names}


def two_questions(name: str, candidate: list[list[int]]) -> LikelihoodData:
    """Return two whose first level is right, and all as sure."""
    reports = Reports(np.full((2, 4), 1.4), np.array(candidate), np.array([3, 3]))
    return LikelihoodData(reports, np.zeros(2, int), reports.candidate, np.ones(2), preset(name), "confidence")


@pytest.mark.parametrize("name", ["paper", "bayes"])
def test_what_wrong_answers_are_called_does_not_matter(name: str) -> None:
    data = two_questions(name, [[0, 1, 2, 2], [0, 2, 1, 1]])
    assert len(data.patterns().member) == 1
    assert np.ptp(np.asarray(log_likelihood(some_raw(data, 4), data))) < 1e-14
    assert len(replace(data, target=np.array([0, -1])).patterns().member) == 2


@pytest.mark.parametrize("name", ["paper", "bayes"])
def test_how_wrong_answers_agree_matters_unless_evidence_adds_up(name: str) -> None:
    data = two_questions(name, [[0, 1, 2, 2], [0, 1, 1, 2]])
    assert len(data.patterns().member) == 2
    reached = np.asarray(log_likelihood(some_raw(data, 4), data))
    assert np.ptp(reached) < 1e-14 if name == "paper" else np.ptp(reached) > 0.01


def test_counting_and_padding_leave_the_likelihood_as_it_is(simulated: Observations) -> None:
    data = LikelihoodData.of(simulated, preset="bayes", variant="level")
    counted = data.counted()
    assert len(counted.weight) < len(data.weight)
    assert counted.weight.sum() == len(data.weight)
    raw = some_raw(data)
    totals = [float(one.weight @ np.asarray(log_likelihood(raw, one))) for one in (data, counted, data.padded(400))]
    np.testing.assert_allclose(totals, totals[0], rtol=1e-12)


def test_unlabelled_and_unanswered_questions_are_left_out(labelled: Observations, unlearnable: Observations) -> None:
    together = Observations.from_questions([*unlearnable.questions, *labelled.questions], answers="numeric")
    data, alone = LikelihoodData.of(together), LikelihoodData.of(labelled)
    assert data.target.tolist() == alone.target.tolist()
    golds = [question.gold_answer for question in labelled.questions]
    pairs = zip(golds, labelled.candidates, strict=True)
    assert alone.target.tolist() == [own.index(gold) if gold in own else -1 for gold, own in pairs]


class TestAgreement:
    """Of levels with each other: x of the equations is part of the data, and no label is looked at."""

    def test_it_is_that_of_all_questions(self, simulated: Observations) -> None:
        hidden = replace(simulated, labelled=np.arange(240) < 50)
        expected = simulated.with_agreement().agreement.score
        np.testing.assert_array_equal(LikelihoodData.of(hidden).agreement, expected)
        assert len(LikelihoodData.of(hidden).weight) == 50

    def test_the_papers_models_have_none(self, simulated: Observations) -> None:
        for name in ("paper", "release"):
            assert LikelihoodData.of(simulated.with_agreement(), preset=name).agreement is None

    def test_it_is_of_levels_whatever_is_done_to_questions(self, simulated: Observations) -> None:
        data = LikelihoodData.of(simulated, variant="count")
        for other in (data.select(np.arange(3)), data.padded(300), data.counted(), data.unlabelled):
            assert other.agreement is data.agreement
