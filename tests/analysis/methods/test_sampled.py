import math
from collections.abc import Sequence

import numpy as np
import pytest

from analysis.evaluation import _chosen_methods as chosen_methods
from analysis.evaluation import evaluate
from analysis.methods.sampled import SAMPLED_METHODS, answer_entropy, is_right, joined_answers, self_consistency, top_k
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import DirEAGError
from bayes_direag.model.simulate import simulate_observations


def question(
    answers: Sequence[str | None], confidences: Sequence[float | None] | None = None, name: str = "q"
) -> Question:
    stated = confidences or [None] * len(answers)
    observations = tuple(
        Observation(level=i, level_name=f"sample_{i}", answer=answer, confidence=confidence)
        for i, (answer, confidence) in enumerate(zip(answers, stated, strict=True))
    )
    return Question(problem_id=name, observations=observations, gold_answer="7")


@pytest.mark.parametrize(
    ("answers", "selected", "share"),
    [
        (["7", "7.0", "$7", "8", "9"], "7", 0.6),
        (["8", "7", "8", "7", "9"], "7", 0.4),
        (["10", "9", "8", None, None], "10", 0.2),
        ([None, "no idea", "7", None, "7"], "7", 0.4),
        (["7"] * 5, "7", 1.0),
    ],
)
def test_self_consistency(answers, selected, share) -> None:
    assert self_consistency(question(answers), 5, "numeric") == (selected, pytest.approx(share))


@pytest.mark.parametrize(
    ("answers", "counts"),
    [
        (["7", "7", "7", "8", "9"], [3, 1, 1]),
        (["7", "7", None, None, "8"], [2, 1, 1, 1]),
        (["1", "2", "3", "4", "5"], [1] * 5),
        (["7"] * 5, [5]),
    ],
)
def test_answer_entropy(answers, counts) -> None:
    shares = np.array(counts) / 5
    expected = 1 + float(np.sum(shares * np.log(shares))) / math.log(5)
    found = answer_entropy(question(answers), 5, "numeric")
    assert found.confidence == pytest.approx(min(max(expected, 0), 1), abs=1e-12)
    assert found.answer == self_consistency(question(answers), 5, "numeric").answer
    assert answer_entropy(question(["7"]), 1, "numeric") == ("7", 1.0)


@pytest.mark.parametrize(
    ("answers", "stated", "expected"),
    [
        (["7", "8", "9"], [30, 60, 10], ("8", 0.6)),
        (["7", "8", "9"], [40, 40, 20], ("7", 0.4)),
        (["what", "8", "9"], [90, None, 20], ("9", 0.2)),
        (["7", "8"], [0, 0], ("7", 0.0)),
    ],
)
def test_top_k(answers, stated, expected) -> None:
    assert top_k(question(answers, stated), 5, "numeric") == expected


@pytest.mark.parametrize("method", [self_consistency, answer_entropy, top_k])
def test_nothing_readable_is_unanswered(method) -> None:
    found = method(question([None, "many", "3:4"], [50, 50, 50]), 3, "numeric")
    assert found.answer is None
    assert math.isnan(found.confidence)


def test_questions_are_joined_by_name() -> None:
    elicited = Observations.from_questions(
        [question(["7", "8", "7"], name="b"), question(["9", "9", "9"], name="a")], answers="numeric"
    )
    found = joined_answers(SAMPLED_METHODS["self_consistency"], elicited, ["a", "c", "b"])
    assert [one.answer for one in found] == ["9", None, "7"]
    assert is_right(found, ["9", "9", "8.0"], "numeric").tolist() == [True, False, False]


def test_in_an_evaluation() -> None:
    steered = simulate_observations(n=60, seed=2)
    repeated = [
        Question(
            problem_id=one.problem_id,
            gold_answer=one.gold_answer,
            observations=tuple(
                Observation(level=i, level_name=f"sample_{i}", answer=one.gold_answer if i < n % 6 else f"{i}000000")
                for i in range(5)
            ),
        )
        for n, one in enumerate(steered.questions[:50])
    ]
    samples = Observations.from_questions(repeated, answers="numeric")
    found = evaluate(steered, elicited={"samples": samples}, methods=["self_consistency", "majority"], n_resamples=5)
    row = found.metrics.set_index("method").loc["self_consistency"]
    assert (row["n"], row["unanswered"]) == (50, 10)
    rows = found.predictions.query("method == 'self_consistency'").set_index("problem_id")
    golds = {one.problem_id: one.gold_answer for one in steered.questions}
    answered = rows[rows["answer"].notna()]
    assert answered["correct"].tolist() == [answer == golds[name] for name, answer in answered["answer"].items()]
    assert 0.5 < row["accuracy"] < 1
    with pytest.raises(DirEAGError, match="topk needs an elicitation of its own"):
        evaluate(steered, elicited={"samples": samples}, methods=["topk"])
    everything = chosen_methods(None, steered, None, {"samples": samples})
    assert {"self_consistency", "answer_entropy"} <= set(everything)
    assert "topk" not in everything
