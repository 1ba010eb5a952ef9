"""Candidates that a function of the user joins: by every door, with labels of the file and of a table."""

from itertools import permutations

import pandas as pd
import pytest

from bayes_direag.data.equality import Same
from bayes_direag.data.labelling import questions_to_label
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError


def one_size(first: str, second: str) -> bool:
    return len(first) == len(second)


def neighbours(first: str, second: str) -> bool:
    return {first, second} in ({"b", "c"}, {"c", "d"})


def records(golds=("plum",), said=("Pear", "fig", "PLUM")):
    """Return questions with these right answers, and the reports of three levels, the same on each."""
    return [
        {"problem_id": f"q{n}", "level": level, "answer": answer, "confidence": 80, "gold_answer": gold}
        for n, gold in enumerate(golds)
        for level, answer in zip("abc", said, strict=True)
    ]


def read(golds=("plum",), said=("Pear", "fig", "PLUM"), same=one_size):
    return Observations.from_records(records(golds, said), "text", same=same)


@pytest.mark.parametrize("said", [*permutations("bcd")])
def test_answers_are_joined_through_others_and_called_as_the_right_one(said):
    assert read([None], said, neighbours).candidates == (("b",),)
    for gold in "bcd":
        labelled = read([gold], said, neighbours)
        assert labelled.candidates == ((gold,),)
        assert labelled.correct.all()


def test_equality_joins_a_right_answer_that_nobody_gives_to_what_it_equals():
    known = read(["melo"])
    assert known.candidates == (("fig", "melo"),)
    assert known.correct.tolist() == [[True, False, True]]
    assert [report.answer for report in known.questions[0].observations] == ["Pear", "fig", "PLUM"]


def test_equality_gets_answers_as_given_the_right_one_first_and_each_pair_once():
    pairs, golds = [], ["Plum", "Plum", None]

    def unequal(first, second):
        pairs.append((first, second))

    observations = read(golds, same=unequal)
    assert sorted(pairs) == [("Pear", "PLUM"), ("Plum", "Pear"), ("Plum", "fig"), ("fig", "PLUM"), ("fig", "Pear")]
    assert observations.candidates == (("fig", "pear", "plum"),) * 3
    assert observations.fingerprint == read(golds, same=None).fingerprint


def test_equality_is_taken_by_every_door(tmp_path):
    observations = read()
    observations.write(tmp_path / "o.jsonl")
    doors = [
        Observations.read(tmp_path / "o.jsonl", "text", same=one_size),
        Observations.from_frame(pd.DataFrame(records()), answers="text", same=one_size),
        Observations.from_questions(observations.questions, "text", one_size),
    ]
    assert {door.fingerprint for door in doors} == {observations.fingerprint} != {read(same=None).fingerprint}


@pytest.mark.parametrize("label", ["plum", "melo"])
def test_labels_of_a_table_count_as_those_of_the_file(label):
    unlabelled = read([None] * 4)
    table = questions_to_label(unlabelled, 4)
    assert set(table["answers"]) == {"Pear | fig"}  # as they are spelled in predictions
    whole = unlabelled.with_labels(table.assign(gold_answer=label))
    assert whole.fingerprint == read([label] * 4).fingerprint
    assert whole.with_labels(table.assign(gold_answer="melo")).labelled.all()
    with pytest.raises(DirEAGError, match="has another label before"):
        whole.with_labels(table.assign(gold_answer="fig"))


def test_verdicts_on_answers_are_those_on_all_that_they_equal():
    verdicts = pd.DataFrame({"problem_id": "q0", "answer": ["pear", "fig"], "correct": [True, False]})
    assert read([None]).with_labels(verdicts).correct.tolist() == [[True, False, True]]
    contrary = pd.DataFrame({"problem_id": "q0", "answer": ["pear", "plum", "fig"], "correct": [True, False, False]})
    with pytest.raises(DirEAGError, match="has another label before"):
        read([None]).with_labels(contrary)


def broken(first: str, second: str) -> bool:
    raise ZeroDivisionError(first + second)


def test_equality_that_fails_or_of_which_only_the_name_is_known():
    with pytest.raises(DirEAGError, match=r"broken\('plum', 'fig'\): ZeroDivisionError: .*Correct the function"):
        read(same=broken)
    with pytest.raises(DirEAGError, match="the fit compares answers by one_size; expected this function"):
        Same(None, "one_size")("plum", "pear")
