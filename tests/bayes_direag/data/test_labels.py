"""Labels in a table of their own: what they say of the observations, and what they cannot say."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayes_direag import Observations, simulate_observations
from bayes_direag.data.files import read_questions
from bayes_direag.errors import ObservationError
from tests.bayes_direag.data.questions import question
from tests.command_line import without_gold


def numbers(*golds: str | None) -> Observations:
    """Return questions a, b and c, with some gold answers."""
    questions = [("a", "51 dollars", "61"), ("b", "7", "7.0"), ("c", "1/2", "3")]
    pairs = zip(questions, golds or [None] * 3, strict=True)
    return Observations.from_questions([question(*words, gold_answer=gold) for words, gold in pairs], "numeric")


def rivers() -> Observations:
    return Observations.from_questions(
        [question("nile", "Nile", "the River Nile", "Amazon"), question("rhine", "Rhine", "rhine.", "Rhine")], "text"
    )


def golds(**answers: object) -> pd.DataFrame:
    return pd.DataFrame({"problem_id": [*answers], "gold_answer": [*answers.values()]})


def verdicts(*rows: tuple[str, str, object]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["problem_id", "answer", "correct"])


@pytest.mark.parametrize("empty", [None, np.nan, pd.NA, "", "  ", "NA"])
def test_gold_answers_are_compared_as_ever_and_empty_rows_say_nothing(empty):
    table = numbers().with_labels(golds(c=0.5, a=51, b=empty))
    assert table.labelled.tolist() == [True, False, True]
    assert table.correct.tolist() == [[True, False], [False, False], [True, False]]
    assert numbers().labelled.sum() == 0


def test_labels_are_those_of_a_file_that_had_them_from_the_first(tmp_path):
    known = simulate_observations(60, seed=2)
    known.write(tmp_path / "known.jsonl")
    unlabelled = Observations.read(without_gold(tmp_path / "known.jsonl", tmp_path / "new.jsonl"), "numeric")
    table = golds(**{one.problem_id: one.gold_answer for one in known.questions}).sample(frac=1, random_state=1)
    labelled = unlabelled.with_labels(table)
    assert labelled.fingerprint == known.fingerprint != unlabelled.fingerprint
    assert [one.gold_answer for one in labelled.questions] == [one.gold_answer for one in known.questions]
    for name in ("again.jsonl", "again.csv", "again.parquet"):
        labelled.write(tmp_path / name)
        assert Observations.read(tmp_path / name).fingerprint == known.fingerprint


def test_labels_of_a_question_to_which_nobody_gave_the_right_answer(tmp_path):
    table = numbers().with_labels(golds(a="None of these", b="8"))
    assert table.labelled.tolist() == [True, True, False]
    assert not table.gold_generated.any()
    table.write(tmp_path / "labelled.jsonl")
    assert Observations.read(tmp_path / "labelled.jsonl").fingerprint == table.fingerprint
    first, second, third = read_questions(tmp_path / "labelled.jsonl")
    assert (first.gold_answer, second.gold_answer, third.gold_answer) == (None, "8", None)
    assert [report.correct for report in first.observations] == [False, False]
    options = Observations.from_questions([question("a", "None of these", "Nile")], "text")
    assert options.with_labels(golds(a="none of these")).correct.tolist() == [[True, False]]


def test_labels_may_be_several_right_answers():
    rows = verdicts(("nile", "Nile", True), ("nile", "River Nile", 1.0), ("nile", "Amazon", "FALSE"))
    table = rivers().with_labels(pd.concat([rows, verdicts(("rhine", "Rhine", None))]))
    assert table.labelled.tolist() == [True, False]
    assert table.correct.tolist() == [[True, True, False], [False] * 3]
    assert Observations.from_questions(table.questions, "text").fingerprint == table.fingerprint


def test_labels_keep_what_the_observations_are_beside():
    observations = simulate_observations(30, seed=1, signals=["words"]).select(np.array([4, 2, 9]))
    hidden = Observations.from_questions(
        [one.model_copy(update={"gold_answer": None}) for one in observations.questions], "numeric"
    ).of_signals(["words"])
    table = hidden.with_labels(golds(**{observations.problem_id[1]: observations.questions[1].gold_answer}))
    assert table.signal_names == ("words",)
    assert table.labelled.tolist() == [False, True, False]
    assert table.correct[1].tolist() == observations.correct[1].tolist()
    np.testing.assert_array_equal(table.confidence, hidden.confidence)


def test_labels_that_are_equal_are_one():
    assert numbers("51", None, None).with_labels(golds(a="$51.00")).labelled.tolist() == [True, False, False]
    twice = pd.concat([golds(a="51"), golds(a="51.0", b=None)])
    assert numbers().with_labels(twice).labelled.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("observations", "rows", "says"),
    [
        (numbers(), "problem_id,gold_answer\na,\n\nz,7\n", "line 4, field problem_id: there is no such question; saw"),
        (numbers(), "problem_id,gold_answer\na,51\na,\na,61\n", "line 4, field gold_answer: question 'a' has another"),
        (numbers("51", None, None), "problem_id,gold_answer\na,61\n", "line 2, field gold_answer: question 'a' has"),
        (numbers(), "problem_id,gold_answer\na,3 or 4\n", "line 2, field gold_answer: this cannot be read as numeric"),
        (numbers(), "problem_id,gold_answer\na,\nb,NaN\n", "field gold_answer: no row is filled in"),
        (numbers(), "problem_id|gold_answer\na|51\n", "line 1: this is not a table of labels; saw 'problem_id|gold"),
        (numbers(), "problem_id,gold_answer,answer,correct\na,51,51,1\n", "line 1: this is not a table of labels"),
        (numbers(), "", "line 1: this is not a table of labels; saw ''"),
        (numbers(), "problem_id,gold_answer\na,51,x\n", "line 2: this row has 3 cells"),
        (rivers(), "problem_id,answer,correct\nnile,Nile,yes\n", "line 2, field correct: this is no verdict; saw"),
        (
            rivers(),
            "problem_id,answer,correct\nnile,Nile,true\nnile,Amazon,\nnile,the river Nile,true\n",
            "line 3, field correct: nothing says whether the answer 'amazon' is right",
        ),
        (
            rivers(),
            "problem_id,answer,correct\nnile,Nile,true\nnile,Amazon,false\n",
            "line 2, field correct: nothing says whether the answer 'river nile' is right",
        ),
        (
            rivers(),
            "problem_id,answer,correct\nrhine,Rhine,true\nrhine,rhine.,false\n",
            "line 3, field correct: question 'rhine' has another label before; saw 'false'",
        ),
    ],
)  # fmt: skip
def test_labels_that_are_refused(observations: Observations, rows: str, says: str, tmp_path: Path):
    path = tmp_path / "labels.csv"
    path.write_text(rows)
    with pytest.raises(ObservationError) as error:
        observations.with_labels(path)
    assert str(error.value).startswith(f"{path}, {says}")


def test_labels_of_a_frame_name_its_rows_as_lines():
    with pytest.raises(ObservationError, match="line 2, field problem_id: there is no such question; saw 'z'"):
        numbers().with_labels(golds(a="51", z="7"))


@pytest.mark.parametrize(
    ("labels", "gold", "kind"),
    [
        (golds(**{"0": "51", "1": "none of these"}), None, "numeric"),
        (golds(**{"0": "b", "1": "A"}), None, "choice"),
        (golds(**{"0": "b", "1": "no"}), None, "text"),
        (golds(**{"0": "none of these"}), None, "text"),
        (golds(**{"0": "yes", "1": "yes"}), "yes", "text"),
        (golds(**{"0": "51", "1": "5 or 1"}), None, "text"),
        (golds(**dict.fromkeys("01234", "51"), **{"5": "5 or 1"}), None, None),  # a slip of the pen does not change it
        (verdicts(("0", "51", True), ("0", "no", False), ("0", "b", False)), None, "text"),
    ],
)
def test_labels_and_gold_answers_together_show_the_kind(tmp_path, labels, gold, kind):
    questions = [question(f"{k}", "51", "no", "B", gold_answer=gold) for k in range(12)]
    Observations.from_questions(questions, "text").write(tmp_path / "new.jsonl")
    labels.to_csv(tmp_path / "labels.csv", index=False)
    if kind is None:
        with pytest.raises(ObservationError, match="line 7, field gold_answer: most right answers are numeric, but"):
            Observations.read(tmp_path / "new.jsonl", labels=tmp_path / "labels.csv")
    else:
        assert Observations.read(tmp_path / "new.jsonl", labels=tmp_path / "labels.csv").kind == kind
