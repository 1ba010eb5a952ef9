"""Which questions are chosen to be labelled, and the table that a person fills in."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_direag import Observations, questions_to_label, simulate_observations
from bayes_direag.data.labelling import answers_as_given, likely_kind, vote_margin
from bayes_direag.data.labels import read_labels, write_labels
from bayes_direag.errors import ObservationError
from tests.bayes_direag.data.questions import question


def unlabelled(n: int = 60, seed: int = 3) -> Observations:
    records = [each.model_copy(update={"gold_answer": None}) for each in simulate_observations(n, seed=seed).questions]
    return Observations.from_questions(records, "numeric")


def names(table: pd.DataFrame) -> list[str]:
    return table["problem_id"].tolist()


@given(st.lists(st.lists(st.sampled_from([None, "1", "1.0", "2", "3", "four"]), min_size=4, max_size=4), min_size=1))
def test_margin_and_answers_by_counting(said):
    observations = Observations.from_questions(
        [question(f"{k}", *reports) for k, reports in enumerate(said)], "numeric"
    )
    given = answers_as_given(observations)
    for number, reports in enumerate(said):
        read = ["1" if text == "1.0" else text for text in reports if text not in (None, "four")]
        counts = [*sorted(Counter(read).values(), reverse=True), 0, 0]
        assert vote_margin(observations)[number] == pytest.approx((counts[0] - counts[1]) / max(len(read), 1))
        shown = [*given[number]]
        order = sorted(set(read), key=lambda text: (-read.count(text), text))
        assert [text.removesuffix(".0") for text in shown] == order
        if "1" in order:
            one = max(("1", "1.0"), key=lambda text: (reports.count(text), -[*reports, text].index(text)))
            assert shown[order.index("1")] == one
            assert given[number][one] == read.count("1")


def test_labelling_chooses_every_second_question_by_the_closest_votes():
    observations = unlabelled()
    table = questions_to_label(observations, 40)
    chosen = names(table)
    assert len(set(chosen)) == 40
    assert table["chosen"].tolist() == ["at random", "close votes"] * 20
    margin = dict(zip(observations.problem_id, vote_margin(observations), strict=True))
    for position, name in enumerate(chosen):
        if position % 2:
            assert margin[name] == min(margin[other] for other in margin if other not in chosen[:position])
    closest, random = (np.mean([margin[name] for name in chosen[k::2]]) for k in (1, 0))
    assert closest < random - 0.1


def test_labelling_depends_on_the_seed_and_not_on_the_order():
    observations = unlabelled()
    chosen = questions_to_label(observations, 20, seed=1)
    shuffled = observations.select(np.random.default_rng(0).permutation(len(observations)))
    assert questions_to_label(shuffled, 20, seed=1).equals(chosen)
    assert set(names(questions_to_label(observations, 20, seed=2))) != set(names(chosen))


def test_labelling_does_not_choose_what_is_labelled_or_unanswered():
    questions = [question("labelled", "1", "2", gold_answer="1"), question("silent", None, "?")]
    questions += [question(f"open {k}", "1", "2") for k in range(3)]
    observations = Observations.from_questions(questions, "numeric")
    assert sorted(names(questions_to_label(observations, 9))) == ["open 0", "open 1", "open 2"]
    assert questions_to_label(observations.select(slice(0, 2)), 9).empty
    with pytest.raises(ObservationError, match="there is no such question; saw 'z'"):
        questions_to_label(observations, 3, so_far=pd.DataFrame({"problem_id": ["z"], "gold_answer": [None]}))


def test_labelling_in_two_steps_chooses_the_same_questions():
    observations = unlabelled()
    first = questions_to_label(observations, 10)
    assert questions_to_label(observations, 10, so_far=first).equals(first)
    first["gold_answer"] = ["7"] * 10
    both = questions_to_label(observations, 14, so_far=first)
    assert names(both) == names(questions_to_label(observations, 24))
    assert both["gold_answer"].tolist() == ["7"] * 10 + [""] * 14
    assert names(questions_to_label(observations.with_labels(first), 14)) == names(both)[10:]


def test_labelling_goes_on_with_a_table_whose_columns_stay_and_whose_labels_are_checked():
    observations = unlabelled()
    first = questions_to_label(observations, 4)[["gold_answer", "problem_id"]].assign(note=["hard", "", "", ""])
    first.loc[2, "gold_answer"] = "7"
    again = questions_to_label(observations, 4, so_far=first)
    assert again.iloc[:4].equals(first)
    assert again.iloc[4:].drop(columns="problem_id").to_numpy().tolist() == [["", ""]]
    with pytest.raises(ObservationError, match="line 1, field gold_answer: this cannot be read as numeric"):
        questions_to_label(observations, 4, so_far=first.assign(gold_answer="7 or 8"))


def test_labelling_reads_a_table_with_carriage_returns_and_formulas_again(tmp_path):
    questions = [question(f"{k}", "5\rx", "=7", question="=1\r=1+1 is x?") for k in range(3)]
    table = questions_to_label(Observations.from_questions(questions, "text"), 3).assign(gold_answer="=7")
    write_labels(table, tmp_path / "labels.csv")
    again = read_labels(tmp_path / "labels.csv")
    assert again["question"].tolist() == [" =1\r=1+1 is x?"] * 3  # nothing that a spreadsheet computes
    assert again.drop(columns="question").to_numpy().tolist() == table.drop(columns="question").to_numpy().tolist()
    assert Observations.from_questions(questions, "text").with_labels(tmp_path / "labels.csv").labelled.all()


def test_clusters_take_turns():
    said = [["1", "2"], ["1", "1"]]
    questions = [question(f"{c}{k}", *said[k % 2], cluster=f"prompt {c}") for c in "abcd" for k in range(6)]
    questions += [question("alone", *said[0])]
    observations = Observations.from_questions(questions, "numeric")
    chosen = names(questions_to_label(observations, 9))
    assert {name[0] for name in chosen[:5]} == {*"abcd", "alone"[0]}
    assert sorted(name[0] for name in chosen[5:]) == [*"abcd"]
    first = pd.DataFrame({"problem_id": ["a0", "b0", "alone"], "gold_answer": ["1", "1", ""]})
    added = names(questions_to_label(observations, 3, so_far=first))[3:]
    assert sorted(name[0] for name in added) == ["c", "d"]


def test_free_text_and_flagged_answers_have_a_row_for_each_answer():
    questions = [question(f"{k}", "the Nile", "Nile", f"river {k}") for k in range(12)]
    table = questions_to_label(Observations.from_questions(questions, "text"), 2)
    assert table.columns.tolist() == ["problem_id", "answer", "correct", "chosen"]
    assert table["answer"].tolist()[0::2] == ["the Nile", "the Nile"]
    few = Observations.from_questions(questions[:11], "text")
    assert questions_to_label(few, 2).columns.tolist() == ["problem_id", "answers", "gold_answer", "chosen"]
    judged = [question("a", ("1", 50, True), ("1.0", 51, True)), question("b", "2", "3")]
    table = questions_to_label(Observations.from_questions(judged, "numeric"), 2)
    assert table.to_numpy().tolist() == [["b", "2", "", "at random"], ["b", "3", "", "at random"]]
    table = questions_to_label(unlabelled(), 3)
    assert table.columns.tolist() == ["problem_id", "question", "answers", "gold_answer", "chosen"]
    assert table["question"].str.startswith("simulated question").all()


@pytest.mark.parametrize(
    ("said", "about", "kind"),
    [
        (["5", "6 cm"] * 9 + ["I do not know", "many"], {}, "numeric"),
        (["5", "6 cm"] * 8 + ["I do not know", "many"], {}, "text"),
        (["A", "(b)"] * 9 + ["5", None], {}, "choice"),
        (["A", "B"], {"gold_answer": "5"}, "numeric"),
        (["yes", "no"], {}, "text"),
    ],
)
def test_labelling_tells_the_likely_kind_of_answers(said, about, kind):
    questions = [question("a", *said[0::2], **about), question("b", *said[1::2])]
    assert likely_kind(Observations.from_questions(questions, "text").table) == kind
