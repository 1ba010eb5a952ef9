import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_direag.data.files import write_questions
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question, Status
from bayes_direag.errors import LevelError
from tests.bayes_direag.data.questions import question

SMALL = (
    question("a", ("$9", 80), ("9.0", 60), ("10", 99.5), gold_answer="9"),
    question("b", ..., (None, 70), ("3:4", 50), gold_answer="2"),
    question("c", ("7", 0), ("8", None), ("8", 100), gold_answer="8"),
)


def test_observations_have_arrays_that_say_what_the_records_say():
    table = Observations.from_questions(SMALL)
    nan = np.nan
    assert table.problem_id == ("a", "b", "c")
    assert (len(table), table.n_levels, table.kind) == (3, 3, "numeric")
    assert table.level_names == ("level_0", "level_1", "level_2")
    np.testing.assert_array_equal(table.confidence, [[0.8, 0.6, 0.995], [nan, nan, nan], [0, nan, 1]])
    assert table.candidates == (("10", "9"), (), ("7", "8"))
    np.testing.assert_array_equal(table.candidate, [[1, 1, 0], [-1, -1, -1], [0, -1, 1]])
    np.testing.assert_array_equal(table.correct, [[True, True, False], [False] * 3, [False, False, True]])
    usable, absent, no_answer, unparsable, no_confidence = Status
    np.testing.assert_array_equal(
        table.status, [[usable] * 3, [absent, no_answer, unparsable], [usable, no_confidence, usable]]
    )
    np.testing.assert_array_equal(table.usable, ~np.isnan(table.confidence))
    np.testing.assert_array_equal(table.answered, [True, False, True])
    np.testing.assert_array_equal(table.n_candidates, [2, 0, 2])
    np.testing.assert_array_equal(table.gold_generated, [True, False, True])
    np.testing.assert_array_equal(table.correct_candidate, [[False, True, False], [False] * 3, [False, True, False]])
    assert table.labelled.all()
    assert (table.candidate.dtype, table.status.dtype) == (np.int32, np.int8)
    np.testing.assert_array_equal(table.status_counts, [[2, 1, 0, 0, 0], [1, 0, 1, 0, 1], [2, 0, 0, 1, 0]])
    assert not table.conflicting.any()


def test_observations_have_answers_that_are_right_where_their_candidates_are():
    table = Observations.from_questions(
        [
            question("a", ("2", 50), gold_answer="2"),
            question("b", ("3", 50), gold_answer="2"),
            question("c", gold_answer="2"),
        ]
    )
    assert table.is_right(["2", "3", None]).tolist() == [True, False, False]
    assert table.is_right([None, np.nan, None]).tolist() == [False, False, False]
    with pytest.raises(ValueError, match="not in"):
        table.is_right(["3", "3", None])
    with pytest.raises(ValueError, match="zip"):
        table.is_right(["2", "3"])


@pytest.mark.parametrize(
    ("answers", "gold", "correct", "conflicting"),
    [  # a flag goes before the gold answer, and the majority of flags counts
        ([("Nile", True), ("Blue Nile", True), ("Amazon", False)], "River Nile", [True, True, False], 0),
        ([("x", True), ("X ", True), (" x", False), ("y", None)], "y", [True, True, True, True], 1),
        ([("x", True), ("X", False), ("z", False)], "x", [False, False, False], 1),
        ([("5", None)], "5", [True], 0),
        ([("5", None)], None, None, 0),
        ([("5", True), (None, None)], None, [True, False], 0),
        ([(None, False)], None, None, 0),
        ([(None, None)], "5", [False], 0),
    ],
)
def test_observations_are_right_by_flags_or_the_gold_answer(answers, gold, correct, conflicting):
    table = Observations.from_questions(
        [question("a", *((text, 9, flag) for text, flag in answers), gold_answer=gold)], "text"
    )
    assert table.correct[0].tolist() == (correct or [False] * len(answers))
    assert table.labelled.tolist() == [correct is not None]
    assert table.conflicting.tolist() == [conflicting]
    right = {table.candidates[0][candidate] for candidate in table.candidate[0][table.correct[0]]}
    assert {
        text for text, is_right in zip(table.candidates[0], table.correct_candidate[0], strict=False) if is_right
    } == right


def test_observations_have_a_kind_inferred_or_declared():
    assert Observations.from_questions([question("a", ("B", 50), gold_answer="(b)")]).correct.all()
    assert Observations.from_questions([question("a", ("cat", 50, True))]).kind == "text"
    assert Observations.from_questions([question("a", ("9 cm", 50))], "numeric").candidates == (("9",),)
    assert Observations.from_questions([question("a", ("9 cm", 50), gold_answer="9")], "text").candidates == (
        ("9 cm",),
    )


def test_levels_may_be_numbered_with_gaps_and_named_in_part():
    first = Question(problem_id="a", gold_answer="1", observations=(Observation(level=7, confidence=9),))
    high, low = Observation(level=7, level_name="high"), Observation(level=2, answer="1", confidence=9)
    second = Question(problem_id="b", gold_answer="1", observations=(high, low))
    table = Observations.from_questions([first, second])
    assert table.level_names == ("level_2", "high")
    np.testing.assert_array_equal(table.usable, [[False, False], [True, False]])


def test_select_takes_masks_indices_and_slices_in_the_order_given():
    table = Observations.from_questions(SMALL)
    assert table.select(np.array([2, 0])).problem_id == ("c", "a")
    mask, rows, part = np.array([False, True, True]), np.array([1, 2]), slice(1, None)
    assert table.select(mask).fingerprint == table.select(rows).fingerprint == table.select(part).fingerprint
    assert table.select(mask).level_names == table.level_names
    assert len(table.select(np.array([], int))) == 0


def test_align_reorders_and_extends_the_levels():
    table = Observations.from_questions(SMALL)
    wider = table.align(["level_2", "new", "level_0", "level_1"])
    assert wider.level_names == ("level_2", "new", "level_0", "level_1")
    for name in ("confidence", "candidate", "correct", "status"):
        np.testing.assert_array_equal(getattr(wider, name)[:, [2, 3, 0]], getattr(table, name))
    assert (wider.status[:, 1] == Status.ABSENT).all()
    assert not wider.usable[:, 1].any()
    assert wider.correct_candidate.shape == (3, 4)
    np.testing.assert_array_equal(wider.correct_candidate.sum(axis=1), table.correct_candidate.sum(axis=1))


def test_observations_name_an_unknown_level_with_its_first_line(tmp_path):
    write_questions(SMALL, tmp_path / "o.jsonl")
    read = Observations.read(tmp_path / "o.jsonl")
    for chosen, line in (([0, 1, 2], 1), ([1, 2], 2), ([2], 3)):
        said = rf"line {line}, field level_name: this level is unknown.*saw 'level_1'.*level_0, level_2.*fit again"
        with pytest.raises(LevelError, match=said):
            read.select(np.array(chosen)).align(["level_0", "level_2"])


def test_observations_have_a_fingerprint_of_what_matters_and_nothing_else():
    def fingerprint(*answers, kind="numeric", problem_id="a", **fields):
        return Observations.from_questions([question(problem_id, *answers, **fields)], kind).fingerprint

    base = fingerprint(("9", 80), ("8", 70), gold_answer="9")
    assert base == fingerprint(("9.0 cm", 80.0), ("$8", 70), gold_answer="18/2", question="How many?", seed=3)
    others = [
        fingerprint(("9", 81), ("8", 70), gold_answer="9"),
        fingerprint(("8", 80), ("9", 70), gold_answer="9"),
        fingerprint(("9", 80), ("8", 70), gold_answer="8"),
        fingerprint(("9", 80), ("8", 70)),
        fingerprint(("9", 80), ("8", 70), gold_answer="9", kind="text"),
        fingerprint(("9", 80), ("8", 70), gold_answer="9", problem_id="b"),
        fingerprint(("9", 80), ("8", 70), ..., ("8", 70), gold_answer="9"),
    ]
    assert len({base, *others}) == len(others) + 1


observations = st.fixed_dictionaries(
    {
        "level": st.integers(0, 5),
        "answer": st.sampled_from(["1", "2", "1.0", "4/2", "3:4", "cats", None]),
        "confidence": st.none() | st.floats(2, 100),
        "correct": st.none() | st.booleans(),
    }
)
records = st.lists(
    st.fixed_dictionaries(
        {
            "gold_answer": st.sampled_from(["1", "2", "5"]),
            "observations": st.lists(observations, unique_by=lambda observation: observation["level"], max_size=6),
        }
    ),
    min_size=1,
    max_size=6,
).map(lambda rows: [{"problem_id": f"q{row}", **record} for row, record in enumerate(rows)])


def table_of(records):
    return Observations.from_questions([Question.model_validate(record) for record in records], "numeric")


@given(records)
def test_ragged_questions_make_consistent_arrays(records):
    table = table_of(records)
    votes = np.isin(table.level_names, table.voting)
    assert (table.candidate >= 0).tolist() == table.usable.tolist()
    assert (table.usable & ~votes).tolist() == (~np.isnan(table.confidence)).tolist()
    assert not (table.correct & ~table.usable).any()
    assert all(list(candidates) == sorted(set(candidates)) for candidates in table.candidates)
    assert (table.status_counts.sum(axis=1) == len(records)).all()
    assert (table.status != Status.ABSENT).sum() == sum(len(record["observations"]) for record in records)
    for row, n_candidates in enumerate(table.n_candidates):
        assert set(table.candidate[row][table.usable[row]]) == set(range(n_candidates))
        for index in range(n_candidates):
            given_by = table.candidate[row] == index
            assert set(table.correct[row][given_by]) == {table.correct_candidate[row, index]}


@given(records, st.data())
def test_orders_of_reports_questions_and_levels_change_nothing(records, data):
    table, rows = table_of(records), np.array(data.draw(st.permutations(range(len(records)))))
    shuffled = [{**record, "observations": data.draw(st.permutations(record["observations"]))} for record in records]
    assert table_of(shuffled).fingerprint == table.fingerprint
    chosen = table.select(rows)
    assert chosen.fingerprint == table_of([records[row] for row in rows]).fingerprint
    assert chosen.select(np.argsort(rows)).fingerprint == table.fingerprint
    names = data.draw(st.permutations(table.level_names))
    assert table.align(names).align(table.level_names).fingerprint == table.fingerprint
    assert table.align(names).select(rows).fingerprint == chosen.align(names).fingerprint


@pytest.mark.parametrize(
    ("name", "kind", "n_questions", "n_levels", "n_observations", "n_answered", "n_conflicts"),
    [
        pytest.param("asdiv_llama8b_10runs", "numeric", 2249, 10, 22349, 2190, 0, marks=pytest.mark.slow),
        pytest.param("commonsense_qa_5models_2prompts", "choice", 1000, 10, 9948, 1000, 0, marks=pytest.mark.slow),
        ("sciq_12models_judged", "text", 1000, 12, 11387, 1000, 62),
    ],
)
def test_observations_of_the_real_files(
    real_observations, name, kind, n_questions, n_levels, n_observations, n_answered, n_conflicts
):
    table = Observations.read(real_observations / f"{name}.jsonl")
    assert (table.kind, len(table), table.n_levels) == (kind, n_questions, n_levels)
    assert table.status_counts[:, Status.ABSENT].sum() == n_questions * n_levels - n_observations
    assert (table.answered.sum(), table.labelled.sum()) == (n_answered, n_questions)
    assert table.conflicting.sum() == n_conflicts


def test_clusters_go_with_their_questions():
    names = ("x", None, "y", "x")
    records = [
        question(str(row), ("7", 50), ("8", 60), gold_answer="7", cluster=name) for row, name in enumerate(names)
    ]
    table = Observations.from_questions(records)
    assert table.cluster == names
    assert table.cluster_number.tolist() == [0, 1, 2, 0]
    assert table.select(np.array([3, 1])).cluster == ("x", None)
    assert table.align(("level_1", "level_0")).cluster == names
    without = Observations.from_questions([record.model_copy(update={"cluster": None}) for record in records])
    assert (without.cluster, without.cluster_number) == (None, None)
    assert without.fingerprint != table.fingerprint
