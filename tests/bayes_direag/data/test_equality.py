"""Answers that are one by the user's word: a function, or a file of clusters."""

import json

import numpy as np
import pandas as pd
import pytest

from bayes_direag.data.answers import read_equal
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Columns
from bayes_direag.errors import ObservationError

SAID = ["Nile", "the Nile.", "River Nile", "Blue Nile", "Amazon"]
ROWS = [
    {"problem_id": name, "level": level, "answer": answer, "confidence": 80, "gold_answer": gold}
    for name, gold in (("labelled", "blue nile"), ("new", None))
    for level, answer in enumerate(SAID)
]


def one_way(first: str, second: str, question) -> bool:
    """Hold in one order only, and of neighbours only."""
    assert question.problem_id in ("labelled", "new")
    return (first, second) in {("river nile", "nile"), ("river nile", "blue nile")}


@pytest.fixture
def cluster_file(tmp_path):
    path = tmp_path / "equal.jsonl"
    lines = [{"answers": ["RIVER NILE", "Nile"]}, {"problem_id": "labelled", "answers": ["River Nile", "Blue Nile"]}]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_a_function_joins_answers_both_ways_and_on_through_others():
    frame = pd.DataFrame(ROWS)
    apart = Observations.from_frame(frame, answers="text")
    joined = Observations.from_frame(frame, answers="text", same_answer=one_way)
    assert apart.candidates[0] == ("amazon", "blue nile", "nile", "river nile")
    assert joined.candidates == (("amazon", "nile"),) * 2  # the commonest spelling stays
    np.testing.assert_array_equal(joined.candidate[1], [1, 1, 1, 1, 0])
    np.testing.assert_array_equal(apart.correct[0], [False, False, False, True, False])
    np.testing.assert_array_equal(joined.correct[0], [True, True, True, True, False])
    np.testing.assert_array_equal(joined.labelled, [True, False])


def test_a_file_joins_in_its_question_or_in_all(cluster_file):
    records = [{**row, "correct": True} if row["answer"] == "Amazon" and row["gold_answer"] else row for row in ROWS]
    joined = Observations.from_records(records, "text", Columns(same_answer=read_equal(cluster_file)))
    assert joined.candidates == (("amazon", "nile"), ("amazon", "blue nile", "nile"))
    np.testing.assert_array_equal(joined.correct[0], [True] * 5)  # a flag goes before equality


@pytest.mark.parametrize(
    "line", ["nile", "[]", '{"answers": "Nile"}', '{"problem_id": "a"}', '{"answers": [], "x": 1}']
)
def test_a_line_that_is_no_cluster_is_named(tmp_path, line):
    path = tmp_path / "equal.jsonl"
    path.write_text('\n{"answers": ["a", "b"]}\n' + line)
    with pytest.raises(ObservationError, match=r"equal\.jsonl.*3.*no cluster"):
        read_equal(path)
