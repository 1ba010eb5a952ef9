"""Questions that a model cannot tell apart are counted once, and nothing else changes."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.models import model_of
from bayes_direag.model.presets import preset
from bayes_direag.model.settings import Preset
from bayes_direag.model.simulate import simulate_observations
from bayes_direag.model.unconstrained import evaluated
from tests.bayes_direag.data.questions import question
from tests.bayes_direag.model.test_models import labelled_yes_no, some_unconstrained


def log_likelihood(settings: Preset, data: LikelihoodData) -> np.ndarray:
    unconstrained = some_unconstrained(settings, data, at=1)
    return np.asarray(
        jax.jit(lambda unconstrained, data: evaluated(model_of(settings), unconstrained, data).log_likelihood)(
            unconstrained, data
        )
    )


@pytest.mark.parametrize(
    "settings", [preset("paper", "count"), preset("paper", "level"), preset("bayes")], ids=["count", "level", "bayes"]
)
def test_questions_of_one_pattern_have_one_likelihood_and_no_fewer_patterns_would_do(settings: Preset) -> None:
    data = LikelihoodData.of(simulate_observations(400, seed=3), preset=settings)
    patterns = data.patterns()
    reached = log_likelihood(settings, data)
    np.testing.assert_allclose(reached, reached[patterns.member][patterns.pattern], rtol=1e-14)
    n_distinct = len(np.unique(reached.round(10)))
    # where evidence adds up, it does not matter which wrong answer a report gives
    is_bayes = settings.name == "bayes"
    assert n_distinct == len(patterns.member) if is_bayes else n_distinct <= len(patterns.member) < 200


def two_questions(name: str, said: list[str]) -> tuple[Preset, LikelihoodData]:
    """Return two questions whose first level is right, and all as sure."""
    questions = [
        question(f"q{k}", *((answer, 80) for answer in answers), gold_answer="a") for k, answers in enumerate(said)
    ]
    settings = preset(name)
    return settings, LikelihoodData.of(Observations.from_questions(questions, answers="text"), preset=settings)


@pytest.mark.parametrize("name", ["paper", "bayes"])
def test_likelihood_data_do_not_depend_on_what_wrong_answers_are_called(name: str) -> None:
    settings, data = two_questions(name, ["abcc", "acbb"])
    assert len(data.patterns().member) == 1
    assert np.ptp(log_likelihood(settings, data)) < 1e-14
    assert len(replace(data, target=np.array([0, -1])).patterns().member) == 2


@pytest.mark.parametrize("name", ["paper", "bayes"])
def test_how_wrong_answers_agree_matters_unless_evidence_adds_up(name: str) -> None:
    settings, data = two_questions(name, ["abcc", "abbc"])
    assert len(data.patterns().member) == 2
    reached = log_likelihood(settings, data)
    assert np.ptp(reached) < 1e-14 if name == "paper" else np.ptp(reached) > 0.01


def test_questions_that_differ_in_a_label_are_of_two_patterns() -> None:
    """What wrong answers are called then matters."""
    data = LikelihoodData.of(labelled_yes_no(40))
    assert data.n_labels == 3
    told = replace(data, logit=np.zeros_like(data.logit))
    assert len(told.patterns().member) > len(replace(told, label=np.full_like(told.label, -1)).patterns().member)


def test_counting_and_padding_leave_the_likelihood_as_it_is(simulated: Observations) -> None:
    settings = preset("paper", "level")
    data = LikelihoodData.of(simulated, preset=settings)
    counted = data.counted()
    assert len(counted.weight) < len(data.weight)
    assert counted.weight.sum() == len(data.weight)
    totals = [float(one.weight @ log_likelihood(settings, one)) for one in (data, counted, data.padded(400))]
    np.testing.assert_allclose(totals, totals[0], rtol=1e-12)


def test_unlabelled_and_unanswered_questions_are_left_out(labelled: Observations, unlearnable: Observations) -> None:
    together = Observations.from_questions([*unlearnable.questions, *labelled.questions], answers="numeric")
    data, alone = LikelihoodData.of(together), LikelihoodData.of(labelled)
    assert data.target.tolist() == alone.target.tolist()
    golds = [question.gold_answer for question in labelled.questions]
    pairs = zip(golds, labelled.candidates, strict=True)
    assert alone.target.tolist() == [candidates.index(gold) if gold in candidates else -1 for gold, candidates in pairs]


class TestLabels:
    """Answers that recur and are few are labels, under a model that looks."""

    def test_at_most_twelve_that_recur(self, simulated: Observations) -> None:
        observations = labelled_yes_no(40)
        assert preset("bayes").labels(observations) == ("no", "unsure", "yes")
        assert preset("paper").labels(observations) == preset("bayes").labels(simulated) == ()
        assert preset("bayes").labels(observations.select(slice(0, 4))) == ()


class TestAgreement:
    """Of levels with each other: x of the equations is part of the data, and no label is looked at."""

    def test_it_is_that_of_all_questions(self, simulated: Observations) -> None:
        hidden = replace(simulated, labelled=np.arange(240) < 50)
        expected = simulated.with_agreement().agreement.score
        np.testing.assert_array_equal(LikelihoodData.of(hidden).agreement, expected)
        assert len(LikelihoodData.of(hidden).weight) == 50

    def test_the_papers_models_have_none(self, simulated: Observations) -> None:
        for name in ("paper", "release"):
            assert not LikelihoodData.of(simulated.with_agreement(), preset=name).agreement.any()

    def test_it_is_of_levels_whatever_is_done_to_questions(self, simulated: Observations) -> None:
        data = LikelihoodData.of(simulated)
        for other in (data.select(np.arange(3)), data.padded(300), data.counted(), data.unlabelled):
            assert other.agreement is data.agreement
