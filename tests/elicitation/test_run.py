import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from elicitation.engines import CannedEngine, EngineError
from elicitation.generation import ChatRequest, Generation, Key, Sampling, request_seed
from elicitation.journal import JournalError, read_journal
from elicitation.prompts import prompt_hash
from elicitation.questions import QuestionSet
from elicitation.run import elicit
from tests.command_line import contents
from tests.elicitation import runs
from tests.elicitation.stub_server import Stub


def refuse(_: ChatRequest) -> str:
    raise AssertionError("nothing was left to ask")


def test_elicit_writes_observations_that_the_core_reads(tmp_path: Path) -> None:
    summary = runs.ask(12, runs.canned(), tmp_path)
    observations = Observations.read(tmp_path / "observations.jsonl")
    assert observations.level_names == ("very_cautious", "cautious", "vanilla", "confident", "very_confident")
    assert observations.kind == "numeric"
    assert observations.usable.all()
    assert [level["accuracy"] for level in summary.levels] == pytest.approx(observations.correct.mean(0))
    assert [level["mean_confidence"] for level in summary.levels] == pytest.approx(observations.confidence.mean(0))
    assert (summary.n_questions, summary.n_unanswered, summary.generations, summary.asked) == (12, 0, 60, 60)
    first = runs.records(tmp_path)[3]["observations"][1]
    assert first["raw_output"].startswith("Adding up.")
    assert (first["parse_status"], first["finish_reason"], first["attempts"]) == ("ok", "stop", 1)
    assert first["seed"] == request_seed(7, Key("sum-003", 1, 0, 0))


def test_manifest_says_what_repeats_the_run(tmp_path: Path) -> None:
    with Stub() as stub:
        runs.ask(3, runs.chat(stub.url), tmp_path)
    content = runs.manifest(tmp_path)
    assert content["complete"]
    identity = content["identity"]
    assert (identity["model"], identity["seed"], identity["sampling"]["max_tokens"]) == ("stub", 7, 64)
    assert identity["prompts"] == prompt_hash(runs.PROTOCOLS["steered"])
    assert content["protocol"]["levels"][4]["name"] == "very_confident"
    assert (content["questions"]["n"], content["questions"]["kind"]) == (3, "numeric")
    assert (content["counts"]["generations"], content["counts"]["statuses"]) == (15, {"ok": 15})
    assert len(content["counts"]["levels"]) == 5
    engine = {"kind": "openai", "endpoints": [stub.url], "server_version": "0.0.stub", "context": 2048, "models": ["m"]}
    assert content["engine"] == engine
    runs.ask(3, CannedEngine(refuse, "stub"), tmp_path)
    assert runs.manifest(tmp_path)["engine"] == engine  # as nothing was asked
    assert {"python", "httpx2"} <= set(content["versions"])


def test_levels_are_those_of_samples_and_ranks(tmp_path: Path) -> None:
    runs.ask(4, runs.canned(), tmp_path / "samples", "samples")
    sampled = Observations.read(tmp_path / "samples" / "observations.jsonl")
    assert sampled.level_names == tuple(f"sample_{i}" for i in range(5))
    assert len({o["seed"] for record in runs.records(tmp_path / "samples") for o in record["observations"]}) == 20

    steered = runs.PROTOCOLS["steered"]
    both = replace(steered, levels=steered.levels[:2], n_samples=3)
    elicit(runs.questions(2), both, runs.canned(), tmp_path / "both")
    names = [f"{level}_{sample}" for level in ("very_cautious", "cautious") for sample in range(3)]
    assert Observations.read(tmp_path / "both" / "observations.jsonl").level_names == tuple(names)

    listing = CannedEngine(lambda _: "Guess 1: 4, 60%\nGuess 2: 5, 30%\nGuess 3: 6, 10%")
    summary = runs.ask(4, listing, tmp_path / "topk", "topk")
    observations = runs.records(tmp_path / "topk")[1]["observations"]
    assert [o["level_name"] for o in observations] == ["rank_0", "rank_1", "rank_2"]
    assert [(o["answer"], o["confidence"]) for o in observations] == [("4", 60), ("5", 30), ("6", 10)]
    assert summary.levels[0]["accuracy"] == 0.25
    assert Observations.read(tmp_path / "topk" / "observations.jsonl").n_levels == 3


@pytest.mark.parametrize("protocol", ["steered", "samples", "topk"])
def test_levels_are_the_same_in_json(tmp_path: Path, protocol: str) -> None:
    with Stub() as stub:
        asked = runs.questions(3), runs.JSON_PROTOCOLS[protocol], runs.chat(stub.url), tmp_path / "json"
        summary = elicit(*asked, Sampling(max_tokens=64, logprobs=True), 7)
        assert all(one["response_format"]["type"] == "json_schema" for one in stub.requests)
    runs.ask(3, runs.canned(), tmp_path / "text", protocol)
    assert summary.statuses == {"ok": summary.asked}
    assert runs.manifest(tmp_path / "json")["identity"]["form"] == "json"
    assert "form" not in runs.manifest(tmp_path / "text")["identity"]
    observations = Observations.read(tmp_path / "json" / "observations.jsonl")
    assert observations.usable.all()
    assert observations.signal_names == ("number",)
    assert observations.level_names == Observations.read(tmp_path / "text" / "observations.jsonl").level_names


def test_repairs_are_at_most_two(tmp_path: Path) -> None:
    prompts: list[str] = []

    def reply(request: ChatRequest) -> Generation | str:
        good = "Answer and Confidence (0-100): 7, 80%"
        if request.key.level == 0:
            return good if request.key.attempt else "seven"
        if request.key.level == 1:
            prompts.append(request.messages[-1]["content"])
            return f"never {request.key.attempt}"
        return Generation("Answer and", "length") if request.key.level == 2 else good

    protocol = replace(runs.PROTOCOLS["steered"], repair="You said {reply}.")
    summary = elicit(runs.questions(1), protocol, CannedEngine(reply), tmp_path)
    assert [prompt.rpartition("You said ")[2] for prompt in prompts[1:]] == ["never 0.", "never 1."]
    (record,) = runs.records(tmp_path)
    assert [o["attempts"] for o in record["observations"]] == [2, 3, 3, 1, 1]
    assert [o["parse_status"] for o in record["observations"]] == ["repaired", "no_answer", "truncated", "ok", "ok"]
    assert [o["answer"] for o in record["observations"]] == ["7", None, None, "7", "7"]
    assert summary.statuses == {"no_answer": 1, "ok": 2, "repaired": 1, "truncated": 1}
    assert [level["parsed"] for level in summary.levels] == [1, 0, 0, 1, 1]
    assert len(set(runs.seeds(tmp_path))) == 10
    attempts = Counter(entry.attempt for entry in read_journal(tmp_path / "journal.jsonl")[1].values())
    assert attempts == {0: 5, 1: 3, 2: 2}


def test_elicit_resumes_with_more_or_fewer_questions(tmp_path: Path) -> None:
    nobody = CannedEngine(refuse, "stub")
    runs.ask(3, runs.canned(0.3), tmp_path / "run")
    more = runs.ask(6, runs.canned(0.3), tmp_path / "run")
    assert (more.n_questions, 15 <= more.asked < more.generations) == (6, True)
    assert runs.ask(2, nobody, tmp_path / "run").n_questions == 2
    (tmp_path / "run" / "observations.jsonl").unlink()
    assert runs.ask(6, nobody, tmp_path / "run").asked == 0
    runs.ask(6, runs.canned(0.3), tmp_path / "at once")
    assert runs.observations(tmp_path / "run") == runs.observations(tmp_path / "at once")


STEERED, CHANGED = runs.PROTOCOLS["steered"], replace(runs.questions(1).problems[0], question="What is 2 and 2?")


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"sampling": Sampling(max_tokens=64, temperature=0.9)}, "sampling.temperature: 0.7 there, 0.9 here"),
        ({"seed": 8}, "seed: 7 there, 8 here"),
        ({"engine": CannedEngine(refuse, "other")}, 'model: "stub" there, "other" here'),
        ({"protocol": runs.PROTOCOLS["topk"]}, 'protocol: "steered" there, "topk" here'),
        ({"protocol": runs.JSON_PROTOCOLS["steered"]}, 'form: nothing there, "json" here'),
        ({"protocol": replace(STEERED, frame=f"{STEERED.frame} Think.")}, "prompts: "),
        ({"questions": QuestionSet("sums", (CHANGED,), "numeric")}, "question 'sum-000', .* to another prompt"),
    ],
)
def test_elicit_refuses_to_resume_under_other_settings(tmp_path: Path, change: dict[str, Any], difference: str) -> None:
    asked: dict[str, Any] = {"questions": runs.questions(2), "protocol": STEERED, "engine": runs.canned()}
    asked |= {"folder": tmp_path, "sampling": runs.SEEDED, "seed": 7}
    elicit(**asked)
    before = contents(tmp_path)
    with pytest.raises(JournalError, match=f"(?s){difference}") as error:
        elicit(**asked | change)
    assert "top_p" not in str(error.value)  # it is the same
    assert contents(tmp_path) == before


def test_observations_do_not_depend_on_order_or_concurrency(tmp_path: Path) -> None:
    with Stub(delay=0.005, garbage=0.3) as stub:
        stub.hold = 16
        runs.ask(8, runs.chat(stub.url), tmp_path / "wide", concurrency=16)
        assert stub.most == 16
        stub.most, stub.hold = 0, 2
        runs.ask(8, runs.chat(stub.url, stub.url), tmp_path / "narrow", concurrency=1)
        assert stub.most == 2
        assert max(stub.answered.values()) == 2
    assert runs.observations(tmp_path / "wide") == runs.observations(tmp_path / "narrow")


def test_levels_of_a_question_are_asked_in_a_row_at_one_endpoint(tmp_path: Path) -> None:
    with Stub(delay=0.002) as first, Stub(delay=0.002) as second:
        runs.ask(8, runs.chat(first.url, second.url), tmp_path, concurrency=1)
        asked = [[one["messages"][0]["content"].split("Tom has ")[1][0] for one in s.requests] for s in (first, second)]
    for order in asked:
        assert order == [question for question in dict.fromkeys(order) for _ in range(5)]
    assert set(asked[0]) | set(asked[1]) == set("01234567")
    assert min(map(len, asked)) >= 10


def test_engine_errors_end_the_run_and_keep_what_was_finished(tmp_path: Path) -> None:
    def reply(request: ChatRequest) -> str:
        if request.key.problem_id == "sum-002":
            raise EngineError("saw smoke")
        return "Answer and Confidence (0-100): 7, 80%"

    with pytest.raises(EngineError, match="saw smoke"):
        runs.ask(5, CannedEngine(reply, "stub"), tmp_path, concurrency=1)
    content = runs.manifest(tmp_path)
    assert (content["complete"], content["engine"]["kind"]) == (False, "CannedEngine")
    assert len(read_journal(tmp_path / "journal.jsonl")[1]) == 10
    assert not (tmp_path / "observations.jsonl").exists()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"observations.jsonl": "mine"}, "Choose another folder"),
        ({"observations.jsonl": "mine", "journal.jsonl": ""}, "Choose another folder"),
        *(({"manifest.json": text}, "saw no manifest; expected that of a run") for text in ("{}", "[", "[]", "mine")),
    ],
)
def test_elicit_keeps_foreign_files(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(DirEAGError, match=message):
        runs.ask(1, runs.canned(), tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files


def test_lenient_replies_are_guessed_only_if_asked_for(tmp_path: Path) -> None:
    def reply(request: ChatRequest) -> Generation:
        return Generation("It is 7, I am 80% sure, 7", "length" if request.key.level == 4 else "stop")

    sampling = Sampling(lenient=True)
    assert runs.ask(2, CannedEngine(reply), tmp_path / "lenient", sampling=sampling).statuses == {"guessed": 10}
    (first, _) = Observations.read(tmp_path / "lenient" / "observations.jsonl").questions
    assert {(one.answer, one.confidence) for one in first.observations} == {("7", 80.0)}
    strict = runs.ask(2, CannedEngine(reply), tmp_path / "strict")
    assert strict.statuses == {"no_answer": 8, "truncated": 2}
    assert (strict.n_unanswered, strict.generations) == (2, 2 * 5 * 3)


@pytest.mark.parametrize("protocol", ["steered", "samples"])
def test_logprobs_give_a_signal_where_asked_for(protocol: str, tmp_path: Path) -> None:
    with Stub() as stub:
        for asked in (True, None):
            sampling = Sampling(max_tokens=64, logprobs=asked)
            runs.ask(3, runs.chat(stub.url), tmp_path / str(asked), protocol, sampling=sampling)
    observations, without = (Observations.read(tmp_path / name / "observations.jsonl") for name in ("True", "None"))
    assert observations.signal_names == ("number", "logprob")
    for question in observations.questions:
        for report in question.observations:
            # the answer is one token, with the blank before it
            assert report.confidences == {"logprob": round(100 * math.exp(-(len(str(report.answer)) + 1) / 10), 2)}
    assert without.signal_names == ("number",)
    assert b"final_tokens" not in (tmp_path / "None" / "journal.jsonl").read_bytes()
    alone = observations.of_signals(["number"])
    assert alone.fingerprint == without.fingerprint


def test_canned_engine_replays_nothing_that_was_not_recorded(tmp_path: Path) -> None:
    runs.ask(3, runs.canned(), tmp_path / "first")
    with pytest.raises(EngineError, match="saw no reply to"):
        runs.ask(4, CannedEngine.replay(tmp_path / "first" / "journal.jsonl"), tmp_path / "third")
