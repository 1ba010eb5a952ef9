"""Methods of samples and of lists of guesses: against counts by hand, and in an evaluation."""

import numpy as np
import pytest

from analysis.evaluation import _chosen_methods as chosen_methods
from analysis.evaluation import evaluate
from analysis.methods.method import Answers
from analysis.methods.sampled import answer_entropy, self_consistency, top_k
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import DirEAGError
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.handmade_reports import observe


def samples(*answers: list[str | None]) -> Observations:
    """Return questions whose samples state no confidence."""
    observations = observe(*([(answer, None) for answer in row] for row in answers))
    return observations.voting_as(observations.level_names)


def said(observations: Observations, answers: Answers) -> list[tuple[str | None, float]]:
    texts = [own[k] if k >= 0 else None for own, k in zip(observations.candidates, answers.candidate, strict=True)]
    return list(zip(texts, answers.confidence.tolist(), strict=True))


SAMPLES = {
    ("7", "7.0", "$7", "8", "9"): ("7", [3, 1, 1]),
    ("8", "7", "8", "7", "9"): ("7", [2, 2, 1]),
    ("10", "9", "8", None, None): ("10", [1] * 5),
    (None, "no idea", "7", None, "7"): ("7", [2, 1, 1, 1]),
    ("7",) * 5: ("7", [5]),
    (None, "many", "3:4", None, None): (None, [1] * 5),
}


def test_the_commonest_answer_with_its_share_and_with_how_far_samples_agree() -> None:
    asked = samples(*map(list, SAMPLES))
    shares, agreements = said(asked, self_consistency(asked)), said(asked, answer_entropy(asked))
    for (selected, counts), share, agreement in zip(SAMPLES.values(), shares, agreements, strict=True):
        share_of = np.array(counts) / 5
        expected = 1 + float(np.sum(share_of * np.log(share_of))) / np.log(5)
        nothing = selected is None
        assert share == (selected, pytest.approx(np.nan if nothing else max(counts) / 5, nan_ok=True))
        assert agreement == (
            selected,
            pytest.approx(np.nan if nothing else min(max(expected, 0), 1), abs=1e-12, nan_ok=True),
        )
    one = samples(["7"])
    assert said(one, answer_entropy(one)) == [("7", 1.0)]


def test_the_likeliest_guess_the_first_listed_of_equals() -> None:
    listed = (
        [("7", 30), ("8", 60), ("9", 10)],
        [("7", 40), ("8", 40), ("9", 20)],
        [("what", 90), ("8", None), ("9", 20)],
    )
    guesses = observe(*listed, [("7", 0), ("8", 0), (None, 90)], [(None, 50), ("many", 50), ("3:4", 50)])
    expected = [("8", 0.6), ("7", 0.4), ("9", 0.2), ("7", 0.0), (None, pytest.approx(np.nan, nan_ok=True))]
    assert said(guesses, top_k(guesses)) == expected
    silent = observe([("7", None), ("8", 20)], [("9", None), None])  # the first level only votes
    assert said(silent, top_k(silent)) == [("8", 0.2), expected[-1]]


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
