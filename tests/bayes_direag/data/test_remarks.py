"""What stands out: copies, one confidence nearly always, ratings; unreadable answers, right ones that nobody gives."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayes_direag.data.columns import Columns
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Status
from bayes_direag.data.remarks import answer_remark, level_remark
from bayes_direag.fits.fit import Fit
from tests.command_line import one_line, succeed

N = 60


def records() -> list[dict[str, object]]:
    """Return reports of levels: one, a copy of it, another, one that says 95%, one that rates from 1 to 5."""
    rng = np.random.default_rng(5)
    gold = rng.integers(4, size=N)
    copied, other, steady = ((gold + (rng.random(N) < wrong) * rng.integers(1, 4, N)) % 4 for wrong in (0.4, 0.5, 0.3))
    stated, rated = rng.integers(30, 99, (2, N)), rng.integers(1, 6, N)
    answers = {"own": copied, "copy": copied, "other": other, "steady": steady, "rater": steady}
    confidences = {"own": stated[0], "copy": stated[0], "other": stated[1], "steady": np.full(N, 95), "rater": rated}
    return [
        {
            "problem_id": f"q{question}",
            "level": name,
            "answer": "ABCD"[answer[question]],
            "confidence": int(confidences[name][question]),
            "gold_answer": "ABCD"[gold[question]],
        }
        for question in range(N)
        for name, answer in answers.items()
    ]


@pytest.fixture(scope="module")
def observations() -> Observations:
    return Observations.from_records(records(), "choice")


def test_copies_constant_confidences_and_ratings_are_named(observations):
    copied, constant, ratings = level_remark(observations).split(": ")[1:]
    assert copied.startswith("own and copy (100%). Keep one of them, or make runs of one model a group")
    assert constant.startswith("steady (95% in 100%).")
    assert ratings.startswith("rater (at most 5%).")


def test_remarks_are_on_levels_asked_for_and_questions_enough(observations):
    assert "copies" not in level_remark(observations, ["own", "other", "steady"])
    assert level_remark(observations.select(slice(0, 19))) == ""
    assert "copies" not in level_remark(replace(observations, groups=("own", "own", "other", "steady", "rater")))


def test_judges_that_state_no_confidence_are_no_copies():
    votes = [row | {"answer": "A"} for row in records()]
    assert level_remark(Observations.from_records(votes, "choice", Columns(confidence=None))) == ""


@pytest.mark.slow
def test_fit_and_explain_name_them(observations, tmp_path):
    observations.write(tmp_path / "o.jsonl")
    fitted = succeed("fit", tmp_path / "o.jsonl", "--out", tmp_path / "fit.nc")
    explained = succeed("explain", tmp_path / "fit.nc", tmp_path / "o.jsonl", "q7")
    assert all("own and copy (100%)" in one_line(said) for said in (fitted, explained))
    assert level_remark(Fit.load(tmp_path / "fit.nc").fitted) == level_remark(observations)


def said_of(golds, answers, kind=None):
    """Return the remark on questions with these right answers, whose reports all give the answer beside it."""
    rows = [
        {"problem_id": f"q{n}", "level": level, "answer": said, "confidence": 60, "gold_answer": gold}
        for n, (gold, said) in enumerate(zip(golds, answers, strict=True))
        for level in ("a", "b")
    ]
    return answer_remark(Observations.from_records(rows, kind))


RIVERS = [f"river {n}" for n in range(24)]


@pytest.mark.parametrize(
    ("golds", "answers", "remark"),
    [
        (
            ["9"] * 4,
            ["9", "9 red hats", "9", "9 or so"],
            "Missing, as they are no numeric answers: '9 red hats' (2), '9 or so' (2).",
        ),
        (
            [f"{river} | stream" for river in RIVERS],
            RIVERS,
            "To 24 of 24 labelled questions no report gives the right answer, such as 'river 0 | stream' where one",
        ),
        (
            ["1) Oslo", "Rome", "Bern"],
            ["Oslo", "rome", "Bern"],
            "To 1 of 3 labelled questions no report gives the right answer, such as '1) Oslo' where one says 'oslo'.",
        ),
        (["7", "8", "9"], ["1", "2", "9"], "To 2 of 3 labelled questions no report gives the right answer. Look at"),
        (RIVERS, ["FAILED"] * 6 + RIVERS[6:], "Often given, and never right: 'FAILED' (6)."),
        (RIVERS, ["no idea", *RIVERS[1:]], None),
        (["7", "8", "9"], ["1", "8", "9"], None),
    ],
)
def test_answers_that_cannot_be_right_are_named(golds, answers, remark):
    said = said_of(golds, answers)
    assert said == "" if remark is None else said.startswith(remark)


def test_numbers_between_0_and_1_among_percentages_are_missing_and_counted(tmp_path):
    rng, confidence = np.random.default_rng(0), [70, 90, 85, 0.9, 60, "0.5%", 80, 0.75]
    rows = [
        {"problem_id": q, "level": level, "answer": "A", "confidence": stated, "gold_answer": "A"}
        for q, low in enumerate(confidence)
        for level, stated in (("low", low), ("high", 50 + q))
    ]
    observations = Observations.from_records(rows)
    assert observations.status[:, 0].tolist() == [0, 0, 0, Status.NO_CONFIDENCE, 0, 0, 0, Status.NO_CONFIDENCE]
    assert observations.confidence[5, 0] == 0.005
    assert (
        "between 0 and 1 among percentages may be fractions or percentages: low (2, such as 0.9). If"
        in level_remark(observations)
    )
    assert "--scale fraction, or --scale percent (scale='percent')" in level_remark(observations)
    nested = Observations.from_questions(observations.select(slice(5)).questions)
    np.testing.assert_array_equal(nested.status, observations.status[:5])
    pd.DataFrame(rows).to_csv(tmp_path / "o.csv", index=False)
    for again in (Observations.read(tmp_path / "o.csv"), Observations.from_frame(pd.DataFrame(rows))):
        np.testing.assert_array_equal(again.status, observations.status)
    said = Observations.from_records(rows, None, Columns(scale="percent"))
    assert said.usable.all()
    whole = [row | {"confidence": rng.uniform(0.2, 99) if row["level"] == "low" else 50} for row in rows]
    assert Observations.from_records(whole).usable.all(), "computed percentages have decimals"
