"""Logs of lm-eval, which it wrote itself, and broken ones."""

from pathlib import Path

import pytest

from bayes_direag import Observations
from bayes_direag.errors import DirEAGError
from elicitation.importing.formats import import_logs
from tests.elicitation.importing.logs_of_tools import LM_EVAL, first, lines, reports, write


def test_prompts_and_repeats_are_levels() -> None:
    imported = import_logs("lm-eval", [LM_EVAL["cautious"], LM_EVAL["confident"]])
    assert reports(imported.questions[1]) == [
        ("pens_cautious 0", "6", 66.0),
        ("pens_cautious 1", "7", None),
        ("pens_confident 0", "6", 74.0),
        ("pens_confident 1", "6", 62.0),
    ]
    assert imported.questions[1].gold_answer == "6"
    assert imported.statuses == {"ok": 27, "no_answer": 3, "no_confidence": 2}
    observations = Observations.from_questions(imported.questions)
    assert (observations.n_levels, observations.kind) == (4, "numeric")


def test_a_filter_gives_the_answer_and_the_reply_the_confidence() -> None:
    imported = import_logs("lm-eval", {"a": LM_EVAL["filtered"]}, scorers=["strict", "loose"])
    assert reports(imported.questions[0]) == [("a strict", None, None), ("a loose", None, None)]
    assert reports(imported.questions[1]) == [("a strict", "7", 43.0), ("a loose", "43", 43.0)]
    unfiltered = import_logs("lm-eval", [LM_EVAL["filtered"]])
    assert reports(unfiltered.questions[1]) == [("pens_filtered", "7", 43.0)]


@pytest.mark.parametrize(("log", "scorer", "metric"), [("filtered", "strict", "exact_match"), ("choice", None, "acc")])
def test_right_is_what_the_harness_calls_right(log: str, scorer: str | None, metric: str) -> None:
    imported = import_logs("lm-eval", [LM_EVAL[log]], scorers=[scorer] if scorer else [])
    right = [question.observations[0].answer == question.gold_answer for question in imported.questions]
    samples = [sample for sample in lines(LM_EVAL[log]) if sample["filter"] == (scorer or "none")]
    assert right == [bool(sample[metric]) for sample in samples]
    assert {*right} == {True, False}


def test_a_filter_that_makes_one_answer_of_several_replies(tmp_path: Path) -> None:
    records = [record | {"filtered_resps": ["9"]} for record in lines(LM_EVAL["cautious"])]
    imported = import_logs("lm-eval", {"a": write(tmp_path / "a.jsonl", *records)}, scorers=["all"])
    assert reports(imported.questions[1]) == [("a", "9", None)]


def test_the_likeliest_choice_and_its_share() -> None:
    imported = import_logs("lm-eval", [LM_EVAL["choice"]])
    # Log-likelihoods -1.2084, -1.3109, -1.9006, -0.6588: exp(-0.6588) / sum(exp) = 0.5175 / 1.2354
    assert first(imported).answer == "D"
    assert first(imported).confidence == pytest.approx(41.894, abs=1e-3)
    right = [record["doc"]["right"] for record in lines(LM_EVAL["choice"])]
    assert [question.gold_answer for question in imported.questions] == ["ABCD"[place] for place in right]


#: The target of a sample, the gold answer, and the verdict of the metric ``acc`` (1.0) where it counts.
TARGETS: list[tuple[str, str, str | None, bool | None]] = [
    ("cautious", "3 + 3 = 6\n#### 6", "6", None),  # as in GSM8K
    ("cautious", "-1", "-1", None),
    *(("cautious", many, many, None) for many in ("[" * 50_000, "[" * 50_000 + "]" * 50_000, "[1," * 20_000)),
    ("choice", "6", "D", True),  # the text of a choice
    ("choice", "3", None, True),  # the number of one choice and the text of another
    ("choice", "[0, 2]", None, True),  # several
    *(("choice", hidden, None, None) for hidden in ("-1", "", "None")),
]


@pytest.mark.parametrize(("log", "target", "gold", "correct"), TARGETS, ids=range(len(TARGETS)))
def test_targets(tmp_path: Path, log: str, target: str, gold: str | None, correct: bool | None) -> None:
    record = lines(LM_EVAL[log])[log == "cautious"] | {"target": target, "acc": 1.0}
    kind = "choice" if log == "choice" else "text"
    imported = import_logs("lm-eval", [write(tmp_path / "a.jsonl", record)], kind=kind)
    assert (imported.questions[0].gold_answer, first(imported).correct) == (gold, correct)
    if correct:
        wrong = import_logs("lm-eval", [write(tmp_path / "b.jsonl", record | {"acc": 0.0})], kind=kind)
        assert first(wrong).correct is False


def test_a_target_may_be_none_of_the_choices_or_the_choice_minus_one(tmp_path: Path) -> None:
    record = lines(LM_EVAL["choice"])[0]
    with pytest.raises(DirEAGError, match=r"a\.jsonl, line 1: the target is none of the choices; saw '7'; expected"):
        import_logs("lm-eval", [write(tmp_path / "a.jsonl", record | {"target": "7"})])
    record["arguments"]["gen_args_1"]["arg_1"] = " -1"
    chosen = import_logs("lm-eval", [write(tmp_path / "a.jsonl", record | {"target": "-1"})])
    assert chosen.questions[0].gold_answer == "B"


def test_of_several_gold_answers_the_metric_judges(tmp_path: Path) -> None:
    records = [record | {"target": "['6', 'six']"} for record in lines(LM_EVAL["filtered"])]
    path = write(tmp_path / "a.jsonl", *records)
    imported = import_logs("lm-eval", [path], scorers=["strict"])
    metric = [bool(record["exact_match"]) for record in records if record["filter"] == "strict"]
    reported = [question.observations[0] for question in imported.questions]
    assert [one.correct for one in reported] == [
        None if one.answer is None else right for one, right in zip(reported, metric, strict=True)
    ]
    assert {question.gold_answer for question in imported.questions} == {None}
    assert Observations.from_questions(imported.questions).labelled.tolist() == [
        None not in (one.answer, one.confidence) for one in reported
    ]
    one = write(tmp_path / "b.jsonl", records[0] | {"target": "['6']"})
    assert import_logs("lm-eval", [one], kind="numeric", pattern="(.*)").questions[0].gold_answer == "6"


@pytest.mark.parametrize("log", ["contexts", "several"])
def test_where_no_choice_is_the_target_the_metric_judges(log: str) -> None:
    imported = import_logs("lm-eval", [LM_EVAL[log]])
    samples = lines(LM_EVAL[log])
    assert [question.gold_answer for question in imported.questions] == [None] * 4
    assert [question.observations[0].correct for question in imported.questions] == [
        bool(sample["acc"]) for sample in samples
    ]
    assert Observations.from_questions(imported.questions).labelled.all()


def test_several_contexts_are_no_question(tmp_path: Path) -> None:
    sample = lines(LM_EVAL["contexts"])[0] | {"doc": {"right": 0}}
    assert import_logs("lm-eval", [write(tmp_path / "a.jsonl", sample)]).questions[0].question is None


def test_requests_without_a_context_are_no_choices() -> None:
    informed, plain = import_logs("lm-eval", [LM_EVAL["information"]]), import_logs("lm-eval", [LM_EVAL["choice"]])
    assert [len(sample["arguments"]) for sample in lines(LM_EVAL["information"])] == [8] * 4
    for question, other in zip(informed.questions, plain.questions, strict=False):
        assert reports(question)[0][1:] == reports(other)[0][1:]
        assert question.gold_answer == other.gold_answer


def test_what_is_no_sample_is_named(tmp_path: Path) -> None:
    record = lines(LM_EVAL["choice"])[0]
    with pytest.raises(DirEAGError, match=r"line 2, field doc_id: Field required; .*expected an object with doc_id"):
        import_logs("lm-eval", [write(tmp_path / "a.jsonl", record, {"doc": 1})])
    with pytest.raises(DirEAGError, match=r"saw 'lose'; expected one of loose, strict\. Correct --scorer"):
        import_logs("lm-eval", [LM_EVAL["filtered"]], scorers=["lose"])
    with pytest.raises(DirEAGError, match=r"line 1: a sample without the requests.*lm-eval 0\.4\.3"):
        import_logs("lm-eval", [write(tmp_path / "a.jsonl", record | {"arguments": {}})])
    with pytest.raises(DirEAGError, match="these are no log-likelihoods"):
        import_logs("lm-eval", [write(tmp_path / "a.jsonl", record | {"resps": [["a"], ["b"], ["c"], ["d"]]})])


def sample(number: int, target: str, reply: str, metric: str, score: object) -> dict[str, object]:
    arguments = {"gen_args_0": {"arg_0": f"{number}?", "arg_1": {"until": []}}}
    replied = {"resps": [[reply]], "filtered_resps": [reply], "filter": "none", "metrics": [metric], metric: score}
    return {"doc_id": number, "doc": {}, "target": target, "arguments": arguments, **replied}


@pytest.mark.parametrize("scorers", [[], ["none"]])
@pytest.mark.parametrize(
    ("metric", "targets", "scores", "kind", "correct"),
    [
        ("prompt_level_strict_acc", ("0", "0"), (True, False), "text", [[True], [False]]),  # instructions to follow
        ("contains", ("sun", "moon"), (1.0, 0.0), "text", [[True], [False]]),  # looked for in the reply
        ("exact_match", ("a star", "moon"), (1.0, 0.0), "text", [[True], [False]]),
        ("exact_match", ("a star", "moon"), (0.0, 0.0), "text", [[False], [False]]),  # another rule than equality
        ("rougeL", ("a star", "moon"), (0.62, 1.0), "text", None),  # scores between
        ("bypass", ("a star", "moon"), (999, 999), "text", [[True], [False]]),  # nothing judged
    ],
)
def test_the_verdict_of_the_log_is_the_label(tmp_path, metric, targets, scores, kind, correct, scorers) -> None:
    said = ["Answer: A star", "Answer: Mars"] if not scorers else ["A star", "Mars"]
    rows = [sample(n, *row) for n, row in enumerate(zip(targets, said, [metric] * 2, scores, strict=True))]
    declared = kind if correct is None else None
    imported = import_logs("lm-eval", [write(tmp_path / "a.jsonl", *rows)], scorers=scorers, kind=declared)
    observations = Observations.from_questions(imported.questions, kind)
    if correct is None:
        assert not observations.labelled.any()
    else:
        assert observations.labelled.all()
        assert observations.correct.tolist() == correct


def test_a_filter_that_read_another_answer_judges_no_reply(tmp_path: Path) -> None:
    row = sample(0, "5", "It is 7, or 5.\nAnswer: 5", "exact_match", 0.0) | {"filtered_resps": ["7"], "filter": "first"}
    path = write(tmp_path / "a.jsonl", row)
    assert Observations.from_questions(import_logs("lm-eval", [path]).questions).correct.tolist() == [[True]]
    chosen = import_logs("lm-eval", [path], scorers=["first"])
    assert Observations.from_questions(chosen.questions).correct.tolist() == [[False]]
