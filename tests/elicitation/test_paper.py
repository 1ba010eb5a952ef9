"""``direag paper``: what it says before it starts, what it refuses, and a rehearsal that is killed and goes on."""

import json
import os
import re
import signal
from collections import Counter
from contextlib import ExitStack, chdir
from itertools import chain
from pathlib import Path

import pandas as pd
import pytest

from analysis.paper.printed import PRINTED_TABLES
from bayes_direag.errors import DirEAGError
from elicitation.journal import read_journal
from elicitation.paper import (
    EVALUATED_BY,
    EVALUATION,
    METHODS,
    PAPER_MODELS,
    PLANNED_RUNS,
    RECORD,
    PlannedRun,
    _check_evaluation,
    _tabulate,
    estimate,
    paper_command,
    planned_runs,
)
from elicitation.prompts import load_protocol
from elicitation.questions import Problem, QuestionSet
from tests.analysis.made import write_run
from tests.command_line import contents, direag
from tests.elicitation import runs
from tests.elicitation.checkout import write_checkout
from tests.elicitation.rehearsal import write_questions, write_vllm
from tests.elicitation.stub_server import Stub

MODELS = ("Qwen2.5-7B-Instruct", "gemma-2-9b-it")


def test_the_estimate_is_of_the_whole_paper(tmp_path: Path) -> None:
    sizes = {"gsm8k_train.jsonl": 7473, "gsm8k_test.jsonl": 1319, "svamp.json": 1000, "gsm_hard.jsonl": 1319}
    parts = [
        PlannedRun(
            dataset, name, QuestionSet(file, (Problem("a", "b", "How many?", "1"),) * sizes[file], "numeric"), asked
        )
        for dataset, own in PLANNED_RUNS.items()
        for name, (protocol, _, file) in own.items()
        for asked in [load_protocol(protocol, wording="paraphrased")]
    ]
    assert sum(part.n_replies for part in parts) == 77_383
    short = [part for part in parts if part.name == "topk"]
    journal = tmp_path / "m" / "svamp" / "topk" / "journal.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text("{}\n" * 639)
    folders = {"m": tmp_path / "m", "n": tmp_path / "n"}
    said = estimate(short, folders, 1024)
    # 1319 + 1000 + 1319 lists, of which 638 are there: 3000 replies of 250 tokens at 2500 a second are 300 s.
    for expected in (
        "3,638 replies a model",
        "6,638 replies of some 250 tokens",
        "  m: 5.0 minutes, at most 20.5 minutes\n  n: 6.1 minutes",
        "  in all: 11.1 minutes, at most 45.3 minutes",
    ):
        assert expected in said
    assert "assumptions, not measurements" in said


def test_the_methods_are_those_of_the_printed_tables() -> None:
    assert METHODS.split(",") == list(dict.fromkeys(chain(*(table.rows.values() for table in PRINTED_TABLES.values()))))


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return write_questions(tmp_path / "questions", 6)


def test_refusals(questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(**options: object) -> str:
        with pytest.raises(DirEAGError) as error:
            paper_command(**{"target": tmp_path / "out", "questions": questions, "models": "a"} | options)
        return str(error.value)

    assert "--datasets: saw mmlu; expected some of gsm8k, svamp, gsm_hard" in refused(datasets="svamp,mmlu")
    assert "expected names that differ in their last part" in refused(models="a/m,b/m")
    assert "saw 2 servers for 3 models; expected one for all" in refused(models="a,b,c", base_url=["u", "v"])
    assert "there is no folder" in refused(target=tmp_path / "no" / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    assert "saw files and no paper.json" in refused(target=tmp_path / "mine")
    paper_command(target=tmp_path / "out", questions=questions, models="a", limit=5, dry_run=True)
    assert not (tmp_path / "out").exists()
    assert "5 of svamp" in capsys.readouterr().err
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / RECORD).write_text(json.dumps({"limit": 5, "seed": 1, "lenient": False}))
    assert "limit 5 there, None here; seed 1 there, None here; prompts " in refused()
    broken = (RECORD, "a/svamp/steered/manifest.json", "a/svamp/topk/manifest.json")
    for name, text in zip(broken, ("{", "[", '{"complete": 1, "questions": 3}'), strict=True):
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text(text)
    assert "saw a run with other settings (prompts None there" in refused()


@pytest.mark.parametrize("text", ["{", "[3]", '{"settings": 3, "samples": 3}'])
def test_an_evaluation_that_cannot_be_read_is_another(tmp_path: Path, text: str) -> None:
    (tmp_path / "evaluation.json").write_text(text)
    with pytest.raises(DirEAGError, match="saw an evaluation of other replies or settings"):
        _check_evaluation(tmp_path, ".", {}, "paper", 0)


def test_gsm8k_has_questions_to_fit_to_and_the_others_have_none(questions: Path) -> None:
    parts = planned_runs(["svamp", "gsm8k"], questions, 5, None)
    assert [(part.dataset, part.name) for part in parts] == [
        *(("gsm8k", name) for name in ("train", "steered", "samples", "topk")),
        *(("svamp", name) for name in ("steered", "samples", "topk")),
    ]
    train, test = (parts[k].questions.problems for k in (0, 1))
    assert (len(train), {problem.dataset for problem in train + test}) == (5, {"gsm8k"})
    assert not {problem.problem_id for problem in train} & {problem.problem_id for problem in test}


def test_every_part_is_asked_once_and_evaluated(
    questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated: list[tuple[object, ...]] = []
    monkeypatch.setattr("elicitation.paper._evaluate", lambda *what: evaluated.append(what))
    monkeypatch.setattr("elicitation.paper._tabulate", lambda *_: None)
    asked = {"target": tmp_path / "out", "questions": questions, "models": MODELS[1], "datasets": "gsm8k,svamp"}
    with Stub(MODELS[1]) as stub:
        for _ in range(2):
            paper_command(**asked, base_url=[stub.url])
        assert len(stub.requests) == 6 * (5 + 11 + 11)
    folders = [tmp_path / "out" / MODELS[1] / name for name in ("gsm8k", "svamp")]
    assert evaluated[:4] == [(folder, preset, 20260526) for folder in folders for preset in EVALUATED_BY]
    assert json.loads((tmp_path / "out" / RECORD).read_text())["prompts"] == "Prompts: a paraphrase of the authors'."
    with pytest.raises(DirEAGError, match=r"saw a run with other settings \(prompts .*authors' own.*; digests "):
        paper_command(**asked, base_url=["u"], prompts_from=write_checkout(tmp_path / "authors"))


def test_tables_are_made_of_all_evaluations_in_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for model in MODELS:
        folder = tmp_path / model / "svamp" / EVALUATION / "paper"
        folder.parent.mkdir(parents=True)
        write_run(folder, {"direag": [(0.9, True), (0.8, False)] * 5}, model=model)
    _tabulate(tmp_path, "Prompts: my own.", seed=0)
    assert {"figure2.png", "table1.html", "table2.tex"} <= {*os.listdir(tmp_path / "tables")}
    said = capsys.readouterr().out
    assert said.startswith("Methods, as in the paper's Table 1. Prompts: my own.\n\nQwen2.5-7B, SVAMP\n")
    assert "Gemma-2-9B-it, SVAMP" in said
    assert pd.read_csv(tmp_path / "tables" / "table1.csv")["run"].nunique() == 2


def paper(folder: Path, *arguments: str, status: int = 0) -> str:
    """Run the command in a folder of its own, and return all that it says."""
    folder.mkdir(exist_ok=True)
    with chdir(folder):
        result = direag("paper", "--out", "paper", *arguments)
    assert result.exit_code == status, result.output
    return result.output


def results(folder: Path) -> dict[str, bytes]:
    """Return the files that say nothing of when and in which order replies came."""
    by_the_way = ("journal.jsonl", "manifest.json", "server.log")
    return {name: text for name, text in contents(folder).items() if not name.endswith(by_the_way)}


@pytest.mark.slow
def test_a_rehearsal_makes_the_tables_and_figures_of_the_paper_under_both_presets(tmp_path: Path) -> None:
    write_questions(tmp_path / "questions", 8)
    write_checkout(tmp_path / "authors")
    models = PAPER_MODELS.split(",")[:2]
    asked = ("--models", ",".join(models), "--datasets", "svamp,gsm8k", "--questions", "../questions")
    with ExitStack() as stack:
        servers = [stack.enter_context(Stub(model)) for model in models]
        urls = chain(*(("--base-url", server.url) for server in servers))
        said = paper(tmp_path / "run", *urls, *asked, "--prompts-from", "../authors")
        # Of gsm8k 8 to fit to and 8 others, and 8 of svamp: three levels; six more of each that is evaluated.
        assert [server.answered.total() for server in servers] == [8 * (3 * 3 + 2 * 6)] * 2
    # All four settings, as printed and under both presets.
    rows = Counter(re.findall(r" (printed|release|paper) +\d", said))
    assert rows == dict.fromkeys(("printed", "release", "paper"), 4 * (7 + 4))
    tables = tmp_path / "run" / "paper" / "tables"
    assert {"figure2.png", "figure3.png", "table1.tex", "table2.html"} <= {*os.listdir(tables)}
    assert "Prompts: the authors' own." in (tables / "table1.tex").read_text()
    table = pd.read_csv(tables / "table1.csv")
    assert len(table) == 3 * 4 * 7
    assert table.loc[table["source"] != "printed", "n"].eq(8).all()
    # The methods that learn nothing have the same figures under both presets.
    by_preset = table.set_index(["source", "model", "dataset", "method"]).loc[:, ["accuracy", "brier"]]
    rules = by_preset.drop("DirEAG", level="method")
    pd.testing.assert_frame_equal(rules.loc["release"], rules.loc["paper"])
    figure = pd.read_csv(tables / "figure3.csv")
    assert len(figure) == 2 * 4
    for row in figure.to_dict("records"):
        rows = pd.read_csv(tables.parent / row["run"] / "predictions.csv").query("method == 'direag_raw' and correct")
        assert row["correct"] == pytest.approx(rows["null_probability"].mean(), nan_ok=True)
        assert row["n_correct"] == len(rows)


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_to_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_questions(tmp_path / "questions", 8)
    write_vllm(tmp_path / "bin", "--delay", "0.01")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for model in MODELS:
        (tmp_path / "models" / model).mkdir(parents=True)
    arguments = ("--models", ",".join(f"../models/{model}" for model in MODELS), "--datasets", "gsm8k")
    arguments += ("--questions", "../questions")
    assert "128 replies a model, 256 in all" in paper(tmp_path / "whole", *arguments)
    whole = results(tmp_path / "whole")

    cut = tmp_path / "cut"
    cut.mkdir()
    process = runs.start("from bayes_direag.cli import app; app()", "paper", "--out", "paper", *arguments, cwd=cut)
    runs.wait_for_generations(cut / "paper" / MODELS[1] / "gsm8k" / "steered", 9, process)
    process.send_signal(signal.SIGINT)  # as Ctrl-C while the second model is asked
    _, told = process.communicate(timeout=900)
    assert process.returncode == 130, told
    assert b"interrupted" in told
    assert {path.name for path in (cut / "paper" / MODELS[0] / "gsm8k" / "evaluation").iterdir()} == {*EVALUATED_BY}
    assert not (cut / "paper" / "tables").exists()
    paper(cut, *arguments)
    assert results(cut) == whole
    for path in cut.glob("paper/*/*/*/journal.jsonl"):
        read_journal(path)  # which refuses what was asked twice
    logs = [(cut / "paper" / model / "server.log").read_text().splitlines() for model in MODELS]
    assert [sum(line.startswith("$ ") for line in lines) for lines in logs] == [1, 2]

    before = contents(cut)
    assert "0 replies of some" in paper(cut, *arguments)
    assert contents(cut) == before
    path = cut / "paper" / MODELS[0] / "gsm8k" / "evaluation" / "paper" / "evaluation.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | {"observations": manifest["samples"]}))
    assert "saw an evaluation of other replies or settings" in paper(cut, *arguments, status=2)
