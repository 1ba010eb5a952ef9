"""Each format on logs that its own tool wrote (generate_logs.py), and on logs that are broken."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bayes_direag import Observations
from bayes_direag.data.files import read_questions
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import DirEAGError
from elicitation.importing.formats import FORMATS, Format, import_logs
from elicitation.importing.replies import Imported
from elicitation.questions import load_questions
from tests.elicitation import runs

SAID = "Answer and Confidence (0-100): 5, 90%"
LOGS = Path(__file__).parent / "logs"
ROMES = [("Rome", None, True), ("Roma", None, True)]
FIVE, SEVEN = [("5", 90, None)] * 2, [("7", 80, None)] * 2
LM_EVAL = {path.name.split("_")[2]: path for path in (LOGS / "lm-eval").iterdir()}


def reports(question: Question) -> list[tuple[str | None, str | None, float | None]]:
    return [(one.level_name, one.answer, one.confidence) for one in question.observations]


def first(imported: Imported) -> Observation:
    return imported.questions[0].observations[0]


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_every_format_has_a_log_of_its_tool() -> None:
    provenance = json.loads((LOGS / "provenance.json").read_text())
    assert {*FORMATS} - {"transcripts", "observations"} == {*provenance}
    for name, about in provenance.items():
        assert about["version"]
        assert sorted(path.name for path in (LOGS / name).iterdir()) == about["files"]


class TestLMEval:
    def test_prompts_and_repeats_are_levels(self) -> None:
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

    def test_a_filter_gives_the_answer_and_the_reply_the_confidence(self) -> None:
        imported = import_logs("lm-eval", {"a": LM_EVAL["filtered"]}, scorers=["strict", "loose"])
        assert reports(imported.questions[0]) == [("a strict", None, None), ("a loose", None, None)]
        assert reports(imported.questions[1]) == [("a strict", "7", 43.0), ("a loose", "43", 43.0)]
        unfiltered = import_logs("lm-eval", [LM_EVAL["filtered"]])
        assert reports(unfiltered.questions[1]) == [("pens_filtered", "7", 43.0)]

    @pytest.mark.parametrize(
        ("log", "scorer", "metric"), [("filtered", "strict", "exact_match"), ("choice", None, "acc")]
    )
    def test_right_is_what_the_harness_calls_right(self, log: str, scorer: str | None, metric: str) -> None:
        imported = import_logs("lm-eval", [LM_EVAL[log]], scorers=[scorer] if scorer else [])
        right = [question.observations[0].answer == question.gold_answer for question in imported.questions]
        samples = [sample for sample in lines(LM_EVAL[log]) if sample["filter"] == (scorer or "none")]
        assert right == [bool(sample[metric]) for sample in samples]
        assert {*right} == {True, False}

    def test_a_filter_that_makes_one_answer_of_several_replies(self, tmp_path: Path) -> None:
        records = [record | {"filtered_resps": ["9"]} for record in lines(LM_EVAL["cautious"])]
        imported = import_logs("lm-eval", {"a": write(tmp_path / "a.jsonl", *records)}, scorers=["all"])
        assert reports(imported.questions[1]) == [("a", "9", None)]

    def test_the_likeliest_choice_and_its_share(self) -> None:
        imported = import_logs("lm-eval", [LM_EVAL["choice"]])
        # Log-likelihoods -1.2084, -1.3109, -1.9006, -0.6588: exp(-0.6588) / sum(exp) = 0.5175 / 1.2354
        assert first(imported).answer == "D"
        assert first(imported).confidence == pytest.approx(41.894, abs=1e-3)
        right = [record["doc"]["right"] for record in lines(LM_EVAL["choice"])]
        assert [question.gold_answer for question in imported.questions] == ["ABCD"[place] for place in right]

    def test_a_target_that_is_the_text_of_a_choice(self, tmp_path: Path) -> None:
        record = lines(LM_EVAL["choice"])[0]
        imported = import_logs("lm-eval", [write(tmp_path / "a.jsonl", record | {"target": "6"})])
        assert imported.questions[0].gold_answer == "D"
        with pytest.raises(
            DirEAGError, match=r"a\.jsonl, line 1: the target is none of the choices; saw '7'; expected"
        ):
            import_logs("lm-eval", [write(tmp_path / "a.jsonl", record | {"target": "7"})])

    def test_the_gold_answer_of_gsm8k(self, tmp_path: Path) -> None:
        record = lines(LM_EVAL["cautious"])[1] | {"target": "3 + 3 = 6\n#### 6"}
        imported = import_logs("lm-eval", [write(tmp_path / "a.jsonl", record)])
        assert imported.questions[0].gold_answer == "6"

    def test_of_several_gold_answers_the_metric_judges(self, tmp_path: Path) -> None:
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

    def test_subtasks_of_one_run_are_questions_of_their_own(self, tmp_path: Path) -> None:
        paths = []
        for model in ("m1", "m2"):
            (tmp_path / model).mkdir()
            for animal in ("cows", "hens"):
                paths.append(tmp_path / model / LM_EVAL[animal].name)
                paths[-1].write_bytes(LM_EVAL[animal].read_bytes())
        for files in (paths, [(path.parent.name, path) for path in paths]):
            imported = import_logs("lm-eval", files)
            names = [f"farm_{animal}/{number}" for animal in ("cows", "hens") for number in range(4)]
            assert [question.problem_id for question in imported.questions] == names
            for question in imported.questions:
                assert [one.level_name for one in question.observations] == ["m1", "m2"]
        same = write(tmp_path / "samples_farm_cows.jsonl", lines(LM_EVAL["hens"])[0])
        with pytest.raises(DirEAGError, match="two different questions have the name 'farm_cows/0'"):
            import_logs("lm-eval", [paths[0], same])

    def test_repeats_of_subtasks_are_levels_of_one_group(self, tmp_path: Path) -> None:
        (tmp_path / "m1").mkdir()
        for task in ("rivers", "metals"):
            samples = [sample | {"doc_hash": f"{task} {sample['doc_id']}"} for sample in lines(LM_EVAL["cautious"])]
            write(tmp_path / "m1" / f"samples_{task}.jsonl", *samples)
        imported = import_logs("lm-eval", sorted((tmp_path / "m1").iterdir()))
        observations = Observations.from_questions(imported.questions)
        assert (len(observations), observations.level_names) == (16, ("m1 0", "m1 1"))
        assert {one.group for question in imported.questions for one in question.observations} == {"m1"}

    def test_tasks_that_ask_one_question_are_its_levels_beside_other_tasks(self, tmp_path: Path) -> None:
        hashes = {"pens_wary": "pens", "pens_bold": "pens", "rivers": "rivers"}
        paths = [
            write(tmp_path / f"samples_{task}.jsonl", lines(LM_EVAL["filtered"])[1] | {"doc_hash": doc_hash})
            for task, doc_hash in hashes.items()
        ]
        pens, rivers = import_logs("lm-eval", paths).questions
        assert [one.level_name for one in pens.observations] == ["pens_wary", "pens_bold"]
        assert (rivers.problem_id, [one.level_name for one in rivers.observations]) == ("rivers/1", ["rivers"])

    @pytest.mark.parametrize("log", ["contexts", "several"])
    def test_where_no_choice_is_the_target_the_metric_judges(self, log: str) -> None:
        imported = import_logs("lm-eval", [LM_EVAL[log]])
        samples = lines(LM_EVAL[log])
        assert [question.gold_answer for question in imported.questions] == [None] * 4
        assert [question.observations[0].correct for question in imported.questions] == [
            bool(sample["acc"]) for sample in samples
        ]
        assert Observations.from_questions(imported.questions).labelled.all()

    def test_several_contexts_are_no_question(self, tmp_path: Path) -> None:
        sample = lines(LM_EVAL["contexts"])[0] | {"doc": {"right": 0}}
        assert import_logs("lm-eval", [write(tmp_path / "a.jsonl", sample)]).questions[0].question is None

    def test_requests_without_a_context_are_no_choices(self) -> None:
        informed, plain = import_logs("lm-eval", [LM_EVAL["information"]]), import_logs("lm-eval", [LM_EVAL["choice"]])
        assert [len(sample["arguments"]) for sample in lines(LM_EVAL["information"])] == [8] * 4
        for question, other in zip(informed.questions, plain.questions, strict=False):
            assert reports(question)[0][1:] == reports(other)[0][1:]
            assert question.gold_answer == other.gold_answer

    @pytest.mark.parametrize("target", ["-1", "", "None", "[0, 2]"])
    def test_a_target_that_is_hidden_or_several_is_no_gold_answer(self, tmp_path: Path, target: str) -> None:
        record = lines(LM_EVAL["choice"])[0] | {"target": target, "acc": 1.0}
        imported = import_logs("lm-eval", [write(tmp_path / "a.jsonl", record)], kind="choice")
        assert imported.questions[0].gold_answer is None
        assert first(imported).correct is (True if target == "[0, 2]" else None)

    @pytest.mark.parametrize("right", [True, False])
    def test_a_target_that_is_the_number_of_one_choice_and_the_text_of_another(
        self, tmp_path: Path, right: bool
    ) -> None:
        record = lines(LM_EVAL["choice"])[0] | {"target": "3", "acc": float(right)}
        imported = import_logs("lm-eval", [write(tmp_path / "a.jsonl", record)])
        assert record["arguments"]["gen_args_0"]["arg_1"] == " 3"
        assert (imported.questions[0].gold_answer, first(imported).correct) == (None, right)

    def test_minus_one_may_be_an_answer(self, tmp_path: Path) -> None:
        generated = lines(LM_EVAL["cautious"])[1] | {"target": "-1"}
        assert import_logs("lm-eval", [write(tmp_path / "a.jsonl", generated)]).questions[0].gold_answer == "-1"
        chosen = lines(LM_EVAL["choice"])[0] | {"target": "-1"}
        chosen["arguments"]["gen_args_1"]["arg_1"] = " -1"
        assert import_logs("lm-eval", [write(tmp_path / "a.jsonl", chosen)]).questions[0].gold_answer == "B"

    def test_what_is_no_sample_is_named(self, tmp_path: Path) -> None:
        record = lines(LM_EVAL["choice"])[0]
        with pytest.raises(
            DirEAGError, match=r"line 2, field doc_id: Field required; .*expected an object with doc_id"
        ):
            import_logs("lm-eval", [write(tmp_path / "a.jsonl", record, {"doc": 1})])
        with pytest.raises(DirEAGError, match=r"saw 'lose'; expected one of loose, strict\. Correct --scorer"):
            import_logs("lm-eval", [LM_EVAL["filtered"]], scorers=["lose"])
        with pytest.raises(DirEAGError, match=r"line 1: a sample without the requests.*lm-eval 0\.4\.3"):
            import_logs("lm-eval", [write(tmp_path / "a.jsonl", record | {"arguments": {}})])
        with pytest.raises(DirEAGError, match="these are no log-likelihoods"):
            import_logs("lm-eval", [write(tmp_path / "a.jsonl", record | {"resps": [["a"], ["b"], ["c"], ["d"]]})])


class TestInspect:
    def test_epochs_are_levels(self) -> None:
        imported = import_logs("inspect", [LOGS / "inspect" / "pens.eval"])
        assert reports(imported.questions[0]) == [
            ("mockllm/canned epoch 1", "3", 45.0),
            ("mockllm/canned epoch 2", "3", 66.0),
        ]
        question = imported.questions[0]
        assert (question.problem_id, question.gold_answer, question.dataset) == ("pens-0", "3", "pens")
        assert first(imported).group == "mockllm/canned"
        assert imported.statuses == {"ok": 12, "no_answer": 2, "no_confidence": 2}

    def test_files_are_levels_and_json_is_read_too(self) -> None:
        files = {"a": LOGS / "inspect" / "pens.eval", "b": LOGS / "inspect" / "pens.json"}
        imported = import_logs("inspect", files)
        assert [len(question.observations) for question in imported.questions] == [4, 4, 2, 2, 2, 2, 2, 2]
        with pytest.raises(DirEAGError, match=r"pens\.json: question 'pens-0' has this level already, in .*NAME=FILE"):
            import_logs("inspect", list(files.values()))

    def test_a_scorer_judges(self) -> None:
        path = LOGS / "inspect" / "pens_choice.eval"
        imported = import_logs("inspect", [path], scorers=["choice"])
        judged = [(one.answer, one.correct) for question in imported.questions for one in question.observations]
        golds = [question.gold_answer for question in imported.questions]
        assert judged == [(answer, answer == gold) for (answer, _), gold in zip(judged, golds, strict=True)]
        assert {correct for _, correct in judged} == {True, False}
        assert first(imported).confidence is None
        with pytest.raises(DirEAGError, match=r"saw 'chice'; expected one of choice\."):
            import_logs("inspect", [path], scorers=["chice"])

    def test_what_is_no_log_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "a.eval").write_text("nothing")
        with pytest.raises(DirEAGError, match=r"a\.eval: inspect_ai cannot read this log \(.*expected an \.eval"):
            import_logs("inspect", [tmp_path / "a.eval"])
        monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
        with pytest.raises(DirEAGError, match=r'pip install "\.\[inspect\]"'):
            import_logs("inspect", [tmp_path / "a.eval"])

    def log(self, path: Path, task: str, *samples: dict[str, Any]) -> Path:
        log = json.loads((LOGS / "inspect" / "pens.json").read_text())
        kept = {"id": 1, "epoch": 1, "scores": {}, "messages": []}
        log["samples"] = [log["samples"][0] | kept | sample for sample in samples]
        log["eval"]["task"] = task
        path.write_text(json.dumps(log))
        return path

    def test_samples_of_two_tasks_are_questions_of_their_own(self, tmp_path: Path) -> None:
        files = {
            task: self.log(tmp_path / f"{task}.json", task, {"input": f"Which {task}?", "target": "5"})
            for task in ("rivers", "metals")
        }
        imported = import_logs("inspect", files, kind="text", pattern="(.*)")
        assert [question.problem_id for question in imported.questions] == ["rivers/1", "metals/1"]
        again = self.log(tmp_path / "again.json", "rivers", {"input": "Another?", "target": "5"})
        with pytest.raises(DirEAGError, match="two different questions have the name 'rivers/1'"):
            import_logs("inspect", [("a", files["rivers"]), ("b", again)])

    def test_a_sample_with_other_choices_is_another_question(self, tmp_path: Path) -> None:
        files = {
            name: self.log(tmp_path / f"{name}.json", "t", {"input": "Which?", "target": "A", "choices": choices})
            for name, choices in (("a", ["Oslo", "Rome"]), ("b", ["Rome", "Oslo"]))
        }
        with pytest.raises(DirEAGError, match="two different questions have the name 't/1'; saw 'Which"):
            import_logs("inspect", files)

    def test_verdicts_by_rule(self) -> None:
        """The scorer gives C, I, P, N, NaN, 0.5, 1 and no verdict."""
        imported = import_logs("inspect", [LOGS / "inspect" / "pens_judged.eval"], scorers=["judge"])
        judged = [question.observations[0] for question in imported.questions]
        assert [one.correct for one in judged] == [True, False, False, None, None, False, True, None]
        assert [one.answer for one in judged] == ["3", "3", "3", None, None, "3", "3", None]
        assert [one.confidence for one in judged] == [76, 78, 63, 77, None, 57, 78, None]

    @pytest.mark.parametrize(
        ("value", "correct"), [("yes", True), ("False", False), (0.99, False), (7, None), (-1, None), ("fair", None)]
    )
    def test_other_verdicts(self, tmp_path: Path, value: object, correct: bool | None) -> None:
        sample = {"target": "Oslo", "input": "Which?", "scores": {"g": {"value": value, "answer": "Oslo"}}}
        imported = import_logs("inspect", [self.log(tmp_path / "a.json", "t", sample)], scorers=["g"])
        assert (first(imported).answer, first(imported).correct) == ("Oslo", correct)

    def test_a_sample_without_input_has_no_question(self, tmp_path: Path) -> None:
        path = self.log(tmp_path / "a.json", "t", {"input": [], "target": "5"})
        assert import_logs("inspect", [path], kind="text", pattern="(.*)").questions[0].question is None

    def test_a_log_without_samples_is_named(self, tmp_path: Path) -> None:
        log = json.loads((LOGS / "inspect" / "pens.json").read_text()) | {"samples": None}
        (tmp_path / "a.json").write_text(json.dumps(log))
        with pytest.raises(DirEAGError, match=r"the log has no samples \(its status is success\)"):
            import_logs("inspect", [tmp_path / "a.json"])


class TestUqlm:
    def test_response_and_samples_are_levels(self) -> None:
        imported = import_logs("uqlm", [LOGS / "uqlm" / "frame.jsonl"], kind="numeric")
        assert reports(imported.questions[0]) == [
            ("response", "3", 76.0),
            ("sample 1", "3", 45.0),
            ("sample 2", "3", 66.0),
            ("sample 3", None, None),
        ]

    def test_the_questions_are_joined_in_order(self) -> None:
        questions = load_questions(LOGS / "batch" / "questions.jsonl")
        imported = import_logs("uqlm", [LOGS / "uqlm" / "result.json"], questions=questions)
        assert [question.problem_id for question in imported.questions] == [f"pens-{i}" for i in range(8)]
        assert [question.gold_answer for question in imported.questions] == [str(3 * i + 3) for i in range(8)]
        both = import_logs("uqlm", [LOGS / "uqlm" / "frame.jsonl"], questions=questions)
        assert list(map(reports, both.questions)) == list(map(reports, imported.questions))
        few = load_questions(LOGS / "batch" / "questions.jsonl", limit=5)
        with pytest.raises(DirEAGError, match="saw '8 rows'; expected 5, one for each question"):
            import_logs("uqlm", [LOGS / "uqlm" / "result.json"], questions=few)

    def test_a_score_is_a_level_with_the_answer_of_the_response(self) -> None:
        imported = import_logs("uqlm", [LOGS / "uqlm" / "result.json"], scorers=["exact_match"], kind="numeric")
        assert reports(imported.questions[7])[0] == ("response", "25", None)
        assert reports(imported.questions[7])[-1] == ("exact_match", "25", pytest.approx(100 / 3))
        with pytest.raises(DirEAGError, match="saw 'cosine_sim'; expected one of exact_match"):
            import_logs("uqlm", [LOGS / "uqlm" / "result.json"], scorers=["cosine_sim"], kind="numeric")

    def test_a_score_that_the_tool_cannot_compute_is_missing(self) -> None:
        imported = import_logs(
            "uqlm", [LOGS / "uqlm" / "white_box.json"], scorers=["sequence_probability"], kind="numeric"
        )
        scored = [question.observations[1] for question in imported.questions]
        assert [one.answer for one in scored] == ["3", "6", "10", "12"]
        # exp of the mean of -0.749137 and -0.847659; the second response has no probabilities of tokens
        assert [one.confidence for one in scored][:2] == [pytest.approx(45.0049, abs=1e-4), None]

    def test_columns_name_and_label_the_questions(self, tmp_path: Path) -> None:
        row = {"response": "Paris", "sampled_responses": ["Rome", "paris"], "id": "q", "ideal": "Paris"}
        imported = import_logs("uqlm", [write(tmp_path / "a.jsonl", row)], pattern="(.*)")
        assert imported.questions[0].problem_id == "q"
        assert [one.answer for one in imported.questions[0].observations] == ["Paris", "Rome", "paris"]
        with pytest.raises(
            DirEAGError, match=r"none of 3 replies holds an answer \(no_answer 3\).*--pattern, or a scorer"
        ):
            import_logs("uqlm", [tmp_path / "a.jsonl"])
        with pytest.raises(DirEAGError, match="line 1, field response: Field required"):
            import_logs("uqlm", [write(tmp_path / "a.jsonl", {"responses": "Paris"})])
        for columns, field in (
            ({"responses": [["a"]]}, "response"),
            ({"sampled_responses": [[3, {}]]}, "sampled_resp"),
        ):
            result = write(tmp_path / "a.json", {"data": {"responses": [SAID]} | columns})
            with pytest.raises(DirEAGError, match=rf"a\.json, field {field}.*: Input should be a valid string; saw "):
                import_logs("uqlm", [result], kind="numeric")

    def test_rows_are_one_question_only_if_they_say_so(self, tmp_path: Path) -> None:
        def log(name: str, **row: str) -> Path:
            return write(tmp_path / f"{name}.jsonl", {"prompt": f"Be {name}: 2 + 3?", "response": SAID} | row)

        with pytest.raises(DirEAGError, match=r"bold\.jsonl, line 1: two different questions have the name '0'"):
            import_logs("uqlm", {name: log(name) for name in ("wary", "bold")}, kind="numeric")
        result = LOGS / "uqlm" / "result.json"  # of which the tool leaves out the prompts
        with pytest.raises(DirEAGError, match="have the name '0'; saw 'no text that says what is asked'"):
            import_logs("uqlm", {"a": LOGS / "uqlm" / "white_box.json", "b": result}, kind="numeric")
        named = import_logs("uqlm", {name: log(name, id="sum") for name in ("wary", "bold")}, kind="numeric")
        assert reports(named.questions[0]) == [("wary response", "5", 90.0), ("bold response", "5", 90.0)]
        (tmp_path / "q.csv").write_text("id,question,answer\nsum,2 + 3?,5\n")
        asked = load_questions(tmp_path / "q.csv")
        by_order = import_logs("uqlm", {name: log(name) for name in ("wary", "bold")}, questions=asked)
        assert [question.problem_id for question in by_order.questions] == ["sum"]

    @pytest.mark.parametrize(
        ("scores", "confidences"),
        [
            ([float("nan"), 0.5], [None, 50.0]),
            ([None, 0.5], [None, 50.0]),
            ([1.0000001192092896, -1e-8], [100.0, 0.0]),
        ],
    )
    def test_scores_are_missing_or_rounded(
        self, tmp_path: Path, scores: list[Any], confidences: list[float | None]
    ) -> None:
        data = {"responses": [SAID, SAID], "sampled_responses": [None, [SAID]], "score": scores}
        path = write(tmp_path / "a.json", {"data": data, "metadata": {}})
        imported = import_logs("uqlm", [path], scorers=["score"], kind="numeric")
        scored = [one for question in imported.questions for one in question.observations if one.level_name == "score"]
        assert [one.confidence for one in scored] == confidences
        wrong = write(tmp_path / "b.json", {"data": data | {"score": [1.5, 0.5]}})
        with pytest.raises(DirEAGError, match="saw 'score'"):
            import_logs("uqlm", [wrong], scorers=["score"], kind="numeric")


class TestBatch:
    def test_levels_stand_in_the_custom_id(self) -> None:
        questions = load_questions(LOGS / "batch" / "questions.jsonl")
        imported = import_logs("batch", [LOGS / "batch" / "output.jsonl"], questions=questions)
        replies = {record["custom_id"]: record for record in lines(LOGS / "batch" / "output.jsonl")}
        names = [[one.level_name for one in question.observations] for question in imported.questions]
        assert names == [["cautious", "confident"]] * 8
        for question in imported.questions:
            for one in question.observations:
                response = replies[f"{question.problem_id}/{one.level_name}"]["response"]
                said = response["body"]["choices"][0]["message"]["content"] if response["status_code"] == 200 else None
                assert (one.model_extra or {})["raw_output"] == said
        assert imported.statuses == {"ok": 14, "truncated": 1, "no_answer": 1}

    def test_levels_are_files_or_choices_where_no_name_says_them(self, tmp_path: Path) -> None:
        record = lines(LOGS / "batch" / "output.jsonl")[0]
        files = [write(tmp_path / f"{name}.jsonl", record | {"custom_id": "pens-0"}) for name in "ab"]
        imported = import_logs("batch", files, kind="numeric")
        assert [one.level_name for one in imported.questions[0].observations] == ["a", "b"]
        record["response"]["body"]["choices"] *= 2
        imported = import_logs("batch", [write(tmp_path / "a.jsonl", record)], kind="numeric")
        assert [one.level_name for one in imported.questions[0].observations] == ["cautious 0", "cautious 1"]

    def test_files_of_a_folder_that_share_no_question_are_parts_of_one_level(self, tmp_path: Path) -> None:
        record = lines(LOGS / "batch" / "output.jsonl")[0]
        files = []
        for model in ("m1", "m2"):
            (tmp_path / model).mkdir()
            for part in (1, 2):
                asked = [record | {"custom_id": f"pens-{2 * part + k}"} for k in range(2)]
                files.append(write(tmp_path / model / f"part-{part}.jsonl", *asked))
        imported = import_logs("batch", files, kind="numeric")
        levels = [[one.level_name for one in question.observations] for question in imported.questions]
        assert levels == [["m1", "m2"]] * 4
        named = import_logs("batch", [("a", files[0]), ("a", files[1])], kind="numeric")
        assert [[one.level_name for one in question.observations] for question in named.questions] == [["a"]] * 4

    def test_a_question_with_a_slash_in_its_name(self, tmp_path: Path) -> None:
        (tmp_path / "q.csv").write_text("id,question,answer\nset/7,How many?,5\n")
        record = lines(LOGS / "batch" / "output.jsonl")[0] | {"custom_id": "set/7"}
        questions = load_questions(tmp_path / "q.csv")
        imported = import_logs("batch", [write(tmp_path / "a.jsonl", record)], questions=questions)
        assert [one.level_name for one in imported.questions[0].observations] == ["a"]

    def test_a_question_that_was_not_asked_is_named(self, tmp_path: Path) -> None:
        questions = load_questions(LOGS / "batch" / "questions.jsonl")
        record = lines(LOGS / "batch" / "output.jsonl")[0] | {"custom_id": "pens-9/a"}
        path = write(tmp_path / "a.jsonl", record)
        with pytest.raises(DirEAGError, match=r"line 1: this question is not among those of --questions; saw 'pens-9'"):
            import_logs("batch", [path], questions=questions)

    @pytest.mark.parametrize(
        "body",
        [
            {"choices": [{"message": {"content": SAID}, "finish_reason": "stop"}], "usage": {"prompt_tokens": None}},
            {"choices": [{"message": {"content": [{"type": "text", "text": SAID}]}}], "usage": 3},
            {"choices": [{"text": SAID, "finish_reason": "stop"}]},
            {
                "output": [
                    {"type": "reasoning", "summary": []},
                    {"type": "message", "content": [{"type": "output_text", "text": SAID}]},
                ],
                "status": "completed",
                "incomplete_details": None,
            },
        ],
    )
    def test_bodies_of_every_shape(self, tmp_path: Path, body: dict[str, Any]) -> None:
        line = {"custom_id": "sum-1", "response": {"status_code": 200, "body": body}, "error": None}
        imported = import_logs("batch", [write(tmp_path / "a.jsonl", line)], kind="numeric")
        assert reports(imported.questions[0]) == [("a", "5", 90.0)]

    @pytest.mark.parametrize(
        "line",
        [
            {
                "custom_id": "sum-1",
                "result": {
                    "type": "succeeded",
                    "message": {"content": [{"type": "text", "text": SAID}], "stop_reason": "end_turn"},
                },
            },
            {
                "key": "sum-1",
                "response": {"candidates": [{"content": {"parts": [{"text": SAID}]}, "finishReason": "STOP"}]},
            },
            {"custom_id": "sum-1", "response": {"choices": [{"message": {"content": SAID}}]}, "error": None},
        ],
    )
    def test_lines_of_other_services(self, tmp_path: Path, line: dict[str, Any]) -> None:
        imported = import_logs("batch", [write(tmp_path / "a.jsonl", line)], kind="numeric")
        assert reports(imported.questions[0]) == [("a", "5", 90.0)]

    def test_a_response_that_was_cut_off(self, tmp_path: Path) -> None:
        message = {"type": "message", "content": [{"type": "output_text", "text": SAID}]}
        details = {"reason": "max_output_tokens"}
        body = {"output": [message], "status": "incomplete", "incomplete_details": details}
        line = {"custom_id": "sum-1/a", "response": {"status_code": 200, "body": body}}
        whole = {"custom_id": "sum-2/a", "response": {"status_code": 200, "body": body | {"incomplete_details": None}}}
        imported = import_logs("batch", [write(tmp_path / "a.jsonl", line, whole)], kind="numeric")
        assert imported.statuses == {"truncated": 1, "ok": 1}

    @pytest.mark.parametrize("body", [{"choices": []}, {"choices": [3]}, {"id": "x"}, {"output": []}, "text", 7, None])
    def test_a_success_without_a_reply_is_an_error_with_its_line(self, tmp_path: Path, body: object) -> None:
        good = {"choices": [{"message": {"content": SAID}}]}
        lines = [
            {"custom_id": f"s{k}", "response": {"status_code": 200, "body": b}} for k, b in enumerate((good, body))
        ]
        with pytest.raises(DirEAGError, match=r"a\.jsonl, line 2: this response holds no reply; saw "):
            import_logs("batch", [write(tmp_path / "a.jsonl", *lines)], kind="numeric")

    @pytest.mark.parametrize("line", [{}, {"response": {"id": 1}}, {"body": {"messages": []}}, {"response": "text"}])
    def test_a_line_without_a_response_or_an_error_is_an_error(self, tmp_path: Path, line: dict[str, Any]) -> None:
        path = write(tmp_path / "a.jsonl", {"custom_id": "sum-1"} | line)
        with pytest.raises(DirEAGError, match=r"a\.jsonl, line 1: this response holds no reply; saw "):
            import_logs("batch", [path], kind="numeric")

    def test_requests_that_failed_are_answered_by_nobody(self, tmp_path: Path) -> None:
        failed: list[dict[str, Any]] = [
            {"response": {"status_code": 500, "body": {"choices": []}}},
            {"response": None, "error": {"message": "expired"}},
            {"result": {"type": "errored", "error": {"type": "invalid_request"}}},
            {"response": {"promptFeedback": {"blockReason": "SAFETY"}}},
        ]
        good = {"custom_id": "sum", "response": {"status_code": 200, "body": {"choices": [{"text": SAID}]}}}
        path = write(tmp_path / "a.jsonl", good, *({"custom_id": f"q{k}"} | line for k, line in enumerate(failed)))
        assert import_logs("batch", [path], kind="numeric").statuses == {"ok": 1, "no_answer": 3, "truncated": 1}

    def test_a_request_that_failed_is_no_level_of_its_own(self, tmp_path: Path) -> None:
        choices = [{"message": {"content": text}} for text in (SAID, "Answer: 6\nConfidence: 40%")]
        lines = [
            {"custom_id": "sum-1", "response": {"status_code": 200, "body": {"choices": choices}}},
            {"custom_id": "sum-2", "response": {"status_code": 500, "body": {"error": 1}}},
            {"custom_id": "sum-3", "error": {"message": "expired"}},
        ]
        imported = import_logs("batch", [write(tmp_path / "a.jsonl", *lines)], kind="numeric")
        assert reports(imported.questions[0]) == [("a 0", "5", 90.0), ("a 1", "6", 40.0)]
        for question in imported.questions[1:]:
            assert reports(question) == [("a 0", None, None), ("a 1", None, None)]


class TestTranscripts:
    def test_each_guess_of_a_list_is_a_level(self, tmp_path: Path) -> None:
        rows = [
            {"id": "q", "text": "G1: Oslo\nP1: 80%\nG2: Bergen\nP2: 20%", "gold_answer": "Oslo"},
            {"id": "r", "text": "1. Rome, 70%\n2. Milan, 30%", "gold_answer": "Milan"},
        ]
        imported = import_logs("transcripts", [write(tmp_path / "a.jsonl", *rows)])
        assert reports(imported.questions[0]) == [("a rank_0", "Oslo", 80.0), ("a rank_1", "Bergen", 20.0)]
        assert reports(imported.questions[1]) == [("a rank_0", "Rome", 70.0), ("a rank_1", "Milan", 30.0)]

    def test_confidences_may_be_fractions(self, tmp_path: Path) -> None:
        stated = ("0.9", ".85", "1", "70%")
        rows = [{"id": k, "text": f"Answer: 5\nConfidence: {s}", "gold_answer": 5} for k, s in enumerate(stated)]
        path = write(tmp_path / "a.jsonl", *rows)
        imported = import_logs("transcripts", [path], scale="fraction")
        assert [question.observations[0].confidence for question in imported.questions] == [90, 85, 100, 70]
        assert import_logs("transcripts", [path]).statuses == {"ambiguous": 3, "ok": 1}

    def test_replies_are_read(self, tmp_path: Path) -> None:
        line = "Answer and Confidence (0-100): "
        rows = [
            {"problem_id": 7, "level": 1, "text": f"{line}51, 85%", "gold_answer": 51},
            {"problem_id": 7, "level": 0, "text": f"{line}61, 9%", "finish_reason": "length"},
            {"question_id": "8", "level": 10, "text": None, "question": "How many?"},
            {"id": "8", "level": 0, "text": f"{line}1, 0.5"},
        ]
        imported = import_logs("transcripts", [write(tmp_path / "a.jsonl", *rows)])
        seven, eight = imported.questions
        assert reports(seven) == [("0", None, None), ("1", "51", 85.0)]
        assert [(one.level, one.level_name) for one in eight.observations] == [(0, "0"), (2, "10")]
        assert imported.statuses == {"ok": 1, "truncated": 1, "no_answer": 1, "ambiguous": 1}
        assert (seven.gold_answer, eight.gold_answer, eight.question) == ("51", None, "How many?")

    def test_files_are_levels(self, tmp_path: Path) -> None:
        rows = {"id": "q", "text": "Answer: B", "gold_answer": "B"}
        files = {name: write(tmp_path / name, rows) for name in ("one", "two")}
        imported = import_logs("transcripts", files)
        assert reports(imported.questions[0]) == [("one", "B", None), ("two", "B", None)]

    def test_replies_of_another_form_are_read_by_a_pattern(self, tmp_path: Path) -> None:
        texts = [
            "The answer is 4. No, the answer is 5. I am 80% sure.",
            "The answer is 5.\nI am 0.8% sure.",
            "The answer is 5. I am 130% sure.",
            "The answer is 5.",
            "I do not know. I am 5% sure.",
        ]
        rows = [{"id": "q", "level": place, "text": text, "gold_answer": 5} for place, text in enumerate(texts)]
        path = write(tmp_path / "a.jsonl", *rows)
        pattern = r"answer is (\d+)\.(?:\s*I am (\S+) sure)?"
        imported = import_logs("transcripts", [path], pattern=pattern)
        answers = [(answer, confidence) for _, answer, confidence in reports(imported.questions[0])]
        assert answers == [("5", 80.0), ("5", None), ("5", None), ("5", None), (None, None)]
        assert imported.statuses == {"ok": 1, "ambiguous": 1, "out_of_range": 1, "no_confidence": 1, "no_answer": 1}
        for wrong in ["answer is (", "answer is", "(a)(b)(c)"]:
            with pytest.raises(DirEAGError, match=r"--pattern: saw .*; expected a regular expression with one group"):
                import_logs("transcripts", [path], pattern=wrong)
        cut = write(tmp_path / "cut.jsonl", rows[0], rows[1] | {"finish_reason": "length"})
        assert import_logs("transcripts", [cut], pattern=pattern).statuses == {"ok": 1, "truncated": 1}

    def test_gold_answers_must_agree(self, tmp_path: Path) -> None:
        rows = [{"id": "q", "level": place, "text": "Answer: 5", "gold_answer": place} for place in range(2)]
        with pytest.raises(DirEAGError, match=r"line 2: question 'q' has the gold answer '0' elsewhere; saw '1'"):
            import_logs("transcripts", [write(tmp_path / "a.jsonl", *rows)])

    def test_questions_of_two_sets_are_told_apart_or_refused(self, tmp_path: Path) -> None:
        row = {"id": 1, "level": "a", "text": "Answer: 5", "gold_answer": "5"}
        rows = [row | {"dataset": name, "question": f"How many {name}?"} for name in ("pens", "hens")]
        imported = import_logs("transcripts", [write(tmp_path / "a.jsonl", *rows)])
        assert [question.problem_id for question in imported.questions] == ["pens/1", "hens/1"]
        again = {"level": "b", "question": " How many  pens?\n"}
        assert len(import_logs("transcripts", [write(tmp_path / "a.jsonl", rows[0], rows[0] | again)]).questions) == 1
        unnamed = [{name: value for name, value in row.items() if name != "dataset"} for row in rows]
        with pytest.raises(DirEAGError, match="line 2: two different questions have the name '1'; saw 'How many hens"):
            import_logs("transcripts", [write(tmp_path / "a.jsonl", *unnamed)])

    def test_what_is_no_transcript_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        for text, message in [
            ("", "a.jsonl: the file is empty"),
            ('{"id": "q", "text": 5.5}\n{', "line 2: Invalid JSON"),
            ('{"text": "5"}', "line 1, field problem_id: Field required"),
            ("[1]", "line 1: Input should be an object"),
            ('{"id": "", "text": "Answer: 5", "gold_answer": "5"}', "line 1: a reply without the name of its question"),
        ]:
            path.write_text(text)
            with pytest.raises(DirEAGError, match=message):
                import_logs("transcripts", [path])
        path.write_bytes(b"\xff\xfe{")
        with pytest.raises(DirEAGError, match="this is not UTF-8 text"):
            import_logs("transcripts", [path])
        with pytest.raises(DirEAGError, match=r"none\.jsonl: saw no such file; expected a log of format transcripts"):
            import_logs("transcripts", [tmp_path / "none.jsonl"])


#: The answers of each question in a reported log, their confidences, and the verdicts of the log.
REPORTED: list[tuple[Format, str, dict[str, Any], list[Any]]] = [
    ("lm-eval", "cut_off_in_reasoning", {}, [[(None, None, None)], [("7", 90, None)]]),
    ("lm-eval", "two_contexts", {}, [[("B", 88, True)], [("A", 73, True)]]),
    ("lm-eval", "samples_sub_a samples_sub_b", {}, [[("B", 90, None)], [("C", 70, None)]]),
    ("lm-eval", "mutual_information", {}, [[("B", 73, None)]]),
    ("inspect", "task_a task_b", {}, [[("5", 90, None)], [("6", 80, None)]]),
    ("inspect", "verdict_partial", {"scorers": ["g"]}, [[("Paris", None, True), ("in Paris", None, False)], ROMES]),
    ("inspect", "verdict_no_answer", {"scorers": ["g"]}, [[("Paris", None, True), (None, None, None)], ROMES]),
    ("inspect", "verdict_unscored", {"scorers": ["g"]}, [[("Paris", None, True), (None, None, None)], ROMES]),
    ("inspect", "no_input", {}, [[("5", 90, None)], [("7", 90, None)]]),
    ("batch", "null_usage", {}, [[("5", 90, None)], [("7", 80, None)]]),
    ("batch", "responses", {}, [[("5", 90, None)], []]),
    ("batch", "responses_and_chat", {}, [[("5", 90, None)], [("7", 80, None)]]),
    ("batch", "completions", {}, [[("5", 90, None)], [("7", 80, None)]]),
    ("batch", "n_is_2_and_a_failure", {}, [[("5", 90, None), ("6", 40, None)], [(None, None, None)] * 2]),
    ("uqlm", "nan_score", {"scorers": ["score"]}, [[*FIVE, ("5", None, None)], [*SEVEN, ("7", 50, None)]]),
    ("uqlm", "score_above_1", {"scorers": ["score"]}, [[*FIVE, ("5", 100, None)], [*SEVEN, ("7", 50, None)]]),
    ("uqlm", "no_samples", {"scorers": ["score"]}, [[("5", 90, None)] * 2, [("7", 80, None)] * 2]),
    ("transcripts", "fractions", {"scale": "fraction"}, [[("51", 90, None)], [("51", 85, None)], [("51", 100, None)]]),
]


@pytest.mark.parametrize(("form", "names", "options", "expected"), REPORTED)
def test_reported_logs_are_read_rightly(
    real_cases: Path,
    form: Format,
    names: str,
    options: dict[str, Any],
    expected: list[Any],
) -> None:
    folder = real_cases / form
    files = [next(folder.glob(f"{name}.json*")) for name in names.split()]
    asked = load_questions(folder / "questions.jsonl") if form == "batch" else None
    kind = "numeric" if form == "uqlm" else None
    imported = import_logs(form, files, questions=asked, kind=kind, **options)
    said = [
        [(one.answer, one.confidence and round(one.confidence), one.correct) for one in question.observations]
        for question in imported.questions
    ]
    assert said == expected


class TestObservations:
    def test_runs_of_several_models_are_put_together(self, tmp_path: Path) -> None:
        for name, garbage in [("a", 0.0), ("b", 0.3)]:
            engine = runs.canned(garbage)
            engine.model = f"model-{name}"
            runs.ask(4, engine, tmp_path / name)
        files = {name: tmp_path / name / "observations.jsonl" for name in "ab"}
        together = import_logs("observations", files).questions
        alone = {name: read_questions(path) for name, path in files.items()}
        for place, question in enumerate(together):
            assert reports(question) == [
                (f"{name} {level}", answer, confidence)
                for name in "ab"
                for level, answer, confidence in reports(alone[name][place])
            ]
            assert (question.gold_answer, question.model) == (alone["a"][place].gold_answer, "model-a, model-b")
            raw = [(one.model_extra or {})["raw_output"] for one in question.observations]
            assert raw[7] == (alone["b"][place].observations[2].model_extra or {})["raw_output"]
        assert Observations.from_questions(together).n_levels == 10

    def test_nothing_of_a_file_is_lost(self, tmp_path: Path) -> None:
        report = {"level": 0, "level_name": "a", "answer": "7", "confidence": 80.0, "confidences": {"words": 70.0}}
        report |= {"correct": None, "group": "runs", "raw_output": "Answer: 7", "parse_status": "repaired", "tokens": 3}
        record = {"problem_id": "1", "gold_answer": "7", "cluster": "c", "topic": "pens", "observations": [report]}
        imported = import_logs("observations", [write(tmp_path / "a.jsonl", record)])
        (kept,) = (question.model_dump(exclude_unset=True) for question in imported.questions)
        told = Question.model_validate(record).model_dump(exclude_unset=True)
        assert kept["observations"][0].items() >= told.pop("observations")[0].items()
        assert kept.items() >= told.items()
        other = write(tmp_path / "b.jsonl", record | {"cluster": "d"})
        with pytest.raises(DirEAGError, match="question '1' has the cluster 'c' elsewhere; saw 'd'"):
            import_logs("observations", {"a": tmp_path / "a.jsonl", "b": other})

    def test_questions_of_two_sets_are_told_apart(self, tmp_path: Path) -> None:
        files = {}
        for name in ("pens", "hens"):
            said = {"level": 0, "answer": "7", "confidence": 80}
            record = {"problem_id": "1", "dataset": name, "question": f"How many {name}?", "observations": [said]}
            files[name] = write(tmp_path / f"{name}.jsonl", record)
        imported = import_logs("observations", files, kind="numeric")
        assert [question.problem_id for question in imported.questions] == ["pens/1", "hens/1"]

    def test_runs_of_one_model_are_no_group_with_those_of_another(self, tmp_path: Path) -> None:
        said = [{"level": k, "answer": "7", "confidence": 80, "group": "runs"} for k in range(2)]
        for name in "ab":
            record = {"problem_id": "pens", "gold_answer": "7", "observations": said}
            (tmp_path / f"{name}.jsonl").write_text(json.dumps(record) + "\n")
        together = import_logs("observations", {name: tmp_path / f"{name}.jsonl" for name in "ab"}).questions
        assert [one.group for one in together[0].observations] == ["a runs", "a runs", "b runs", "b runs"]
