import numpy as np
import pandas as pd
import pytest

from bayes_direag.errors import DirEAGError
from bayes_direag.observations import Observations, Question
from bayes_direag.presets import PRESETS
from bayes_direag.protocol import cross_fit, train_test


def with_golds(observations: Observations, golds: dict[int, str | None]) -> Observations:
    """Return the observations with some questions' gold answers replaced."""
    questions = [
        question.model_copy(update={"gold_answer": golds.get(i, question.gold_answer)})
        for i, question in enumerate(observations.questions)
    ]
    return Observations.from_questions(questions, answers="numeric")


def test_corrupting_the_golds_of_evaluated_questions_changes_nothing(simulated: Observations) -> None:
    honest = PRESETS["paper"].override(recalibration={"out_of_fold": 3})
    before = cross_fit(simulated, n_folds=3, preset=honest, variant="level", seed=2)
    for number, one in enumerate(before):
        wrong = {int(i): ["123456789", simulated.candidates[i][0], None][int(i) % 3] for i in one.index}
        corrupted = with_golds(simulated, wrong)
        assert (corrupted.correct[one.index] != simulated.correct[one.index]).any()
        after = cross_fit(corrupted, n_folds=3, preset=honest, variant="level", seed=2)[number]
        assert after.index.tolist() == one.index.tolist()
        pd.testing.assert_frame_equal(after.predictions, one.predictions, check_exact=True)


def test_corrupting_the_golds_of_fitted_questions_does_change_something(simulated: Observations) -> None:
    before = cross_fit(simulated, n_folds=3, variant="level", seed=2)[0]
    rest = np.setdiff1d(np.arange(len(simulated)), before.index)
    corrupted = with_golds(simulated, {int(i): "123456789" for i in rest[:40]})
    after = cross_fit(corrupted, n_folds=3, variant="level", seed=2)[0]
    assert not np.allclose(after.predictions["confidence"], before.predictions["confidence"])


def test_every_answered_question_is_predicted_once_in_file_order(simulated: Observations) -> None:
    silent = Question(problem_id="silent", gold_answer="1", observations=())
    questions = [*simulated.questions[:50], silent, *simulated.questions[50:]]
    everything = Observations.from_questions(questions, answers="numeric")
    folds = cross_fit(everything, n_folds=3, variant="count", seed=0)
    assert [one.fold for one in folds] == ["0", "1", "2"]
    assert sorted(np.concatenate([one.index for one in folds])) == [i for i in range(len(everything)) if i != 50]
    for one in folds:
        assert (np.diff(one.index) > 0).all()
        assert one.predictions["problem_id"].tolist() == [everything.problem_id[i] for i in one.index]
        seen = set(one.fit.tree["constant_data"]["problem"].to_numpy().tolist())
        assert seen.isdisjoint(one.predictions["problem_id"])
        assert len(seen) + len(one.index) == len(simulated)


def test_an_answered_question_without_gold_is_predicted_and_teaches_nothing(simulated: Observations) -> None:
    hidden = with_golds(simulated, dict.fromkeys(range(0, len(simulated), 5)))
    folds = cross_fit(hidden, n_folds=3, variant="count", seed=0)
    assert sum(len(one.index) for one in folds) == len(simulated)
    for one in folds:
        seen = set(one.fit.tree["constant_data"]["problem"].to_numpy().tolist())
        assert seen.isdisjoint(hidden.problem_id[i] for i in range(0, len(simulated), 5))


def test_train_test_evaluates_the_test_set_alone(simulated: Observations) -> None:
    train, test = simulated.select(slice(0, 150)), simulated.select(slice(150, None))
    (one,) = train_test(train, test, variant="count")
    assert one.fold == "test"
    assert one.predictions["problem_id"].tolist() == list(test.problem_id)
    without_golds = with_golds(test, dict.fromkeys(range(len(test))))
    (again,) = train_test(train, without_golds, variant="count")
    pd.testing.assert_frame_equal(again.predictions, one.predictions, check_exact=True)


def test_a_question_in_both_sets_is_an_error(simulated: Observations) -> None:
    train, test = simulated.select(slice(0, 100)), simulated.select(slice(98, 150))
    with pytest.raises(DirEAGError, match="2 of 52 test questions are also in the training set, 'simulated-5-000098'"):
        train_test(train, test, variant="count")


def test_too_many_folds_are_an_error(simulated: Observations) -> None:
    with pytest.raises(DirEAGError, match=r"cannot deal 3 .* into 5 folds"):
        cross_fit(simulated.select(slice(0, 3)), n_folds=5)
