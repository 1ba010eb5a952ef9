"""``direag paper``: what it plans and refuses, and a rehearsal that is killed and goes on."""

import os
import re
import signal
from collections import Counter
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from analysis.paper.tables import PRINTED_METHODS
from bayes_direag.errors import DirEAGError
from elicitation.journal import read_journal
from elicitation.paper import EVALUATED, RULES, _evaluate, paper_command, planned_runs
from tests.command_line import contents, direag
from tests.elicitation import runs
from tests.elicitation.checkout import write_checkout
from tests.elicitation.rehearsal import write_questions, write_vllm
from tests.elicitation.stub_server import Stub

MODELS = ("Qwen2.5-7B-Instruct", "gemma-2-9b-it")


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return write_questions(tmp_path / "questions", 8)


def test_methods_are_those_of_the_printed_tables() -> None:
    assert {*EVALUATED["release"].split(",")} == {*PRINTED_METHODS.values()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"datasets": "svamp,mmlu"}, "--datasets: saw mmlu; expected some of gsm8k, svamp, gsm_hard"),
        ({"datasets": ","}, "--datasets: saw none"),
        ({"models": ""}, "--models: saw none"),
        ({"models": "a/m,b/m"}, "expected names that differ in their last part"),
        ({"models": "a,b,c", "base_url": ["http://u", "http://v"]}, "saw 2 servers for 3 models; expected one for all"),
        ({"target": Path("no") / "out"}, "there is no folder"),
    ],
)
def test_paper_refuses(questions: Path, tmp_path: Path, options: dict[str, object], message: str) -> None:
    asked = {"target": tmp_path / "out", "questions": questions, "models": "a", "base_url": ["http://u"]}
    with pytest.raises(DirEAGError, match=message):
        paper_command(**asked | options)
    assert not (tmp_path / "out").exists()


def test_planned_runs_fit_gsm8k_to_questions_of_its_own(questions: Path) -> None:
    planned = planned_runs(["svamp", "gsm8k"], questions, 5, None)
    assert [*planned] == [
        *(f"gsm8k/{name}" for name in ("train", "steered", "samples", "topk")),
        *(f"svamp/{name}" for name in ("steered", "samples", "topk")),
    ]
    train, test = (planned[name][0].problems for name in ("gsm8k/train", "gsm8k/steered"))
    assert (len(train), {problem.dataset for problem in train + test}) == (5, {"gsm8k"})
    assert not {problem.problem_id for problem in train} & {problem.problem_id for problem in test}


def test_paper_asks_every_run_once_and_goes_on_in_no_other_words(
    questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated: list[tuple[object, ...]] = []
    monkeypatch.setattr("elicitation.paper._evaluate", lambda *what: evaluated.append(what) or tmp_path)
    monkeypatch.setattr("analysis.paper.results.write_results", lambda *_: "")
    asked = {"target": tmp_path / "out", "questions": questions, "models": MODELS[1], "datasets": "gsm8k", "limit": 5}
    with Stub(MODELS[1]) as stub:
        for _ in range(2):
            paper_command(**asked, base_url=[stub.url])
        assert len(stub.requests) == 5 * (5 + 5 + 5 + 1)
        folder = tmp_path / "out" / MODELS[1] / "gsm8k"
        assert evaluated == [(folder, preset, 20260526) for preset in EVALUATED] * 2
        with pytest.raises(DirEAGError, match=r"(?s)saw a run with other settings.*prompts: "):
            paper_command(**asked, base_url=[stub.url], prompts_from=write_checkout(tmp_path / "authors"))


def test_evaluation_is_kept_until_the_replies_are_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elicitation.paper.EVALUATED", {"paper": "vanilla"})
    runs.ask(8, runs.canned(), tmp_path / "steered")
    target = _evaluate(tmp_path, "paper", 3)
    before = contents(target)
    assert _evaluate(tmp_path, "paper", 3) == target
    assert contents(target) == before
    (target / "evaluation.json").write_text("{")
    _evaluate(tmp_path, "paper", 3)
    assert contents(target).keys() == before.keys()
    runs.ask(12, runs.canned(), tmp_path / "steered")
    _evaluate(tmp_path, "paper", 3)
    assert pd.read_csv(target / "metrics.csv")["n"].tolist() == [12]


def test_paper_goes_on_past_what_cannot_be_evaluated_and_names_it(
    questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here two answers, too few for folds; the tables are of the rest."""
    monkeypatch.setattr("elicitation.paper.EVALUATED", {"release": "vanilla", "paper": "vanilla"})
    tabled: list[list[Path]] = []
    monkeypatch.setattr("analysis.paper.results.write_results", lambda folders, *_: tabled.append(folders) or "")
    plan = planned_runs(["gsm8k", "svamp"], questions, 5, None)
    for name in ("train", "steered"):
        plan[f"gsm8k/{name}"] = replace(plan[f"gsm8k/{name}"][0], problems=()), plan[f"gsm8k/{name}"][1]
    monkeypatch.setattr("elicitation.paper.planned_runs", lambda *_: plan)
    out = tmp_path / "out"
    with Stub(MODELS[1]) as stub, pytest.raises(DirEAGError, match=r"lacks .*gsm8k \(release\), .*for the reasons"):
        paper_command(target=out, models=MODELS[1], datasets="gsm8k,svamp", base_url=[stub.url])
    assert tabled == [[out / MODELS[1] / "svamp" / "evaluation" / preset for preset in ("release", "paper")]]


def paper(folder: Path, *arguments: str) -> str:
    """Run the command in a folder of its own, and return all that it says."""
    folder.mkdir(exist_ok=True)
    with chdir(folder):
        result = direag("paper", "--out", "paper", *arguments)
    assert result.exit_code == 0, result.output
    return result.output


def results(folder: Path) -> dict[str, bytes]:
    """Return the files that say nothing of when and in which order replies came."""
    by_the_way = ("journal.jsonl", "manifest.json", "server.log")
    return {name: text for name, text in contents(folder).items() if not name.endswith(by_the_way)}


@pytest.mark.slow
@pytest.mark.xdist_group("a minute each")
@pytest.mark.usefixtures("questions")
def test_rehearsal_makes_the_tables_and_a_killed_one_goes_on_to_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_vllm(tmp_path / "bin", "--delay", "0.5")  # that much must be left to ask after Ctrl-C
    write_checkout(tmp_path / "authors")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    few = {"release": f"{RULES},direag,direag_raw", "paper": "direag,direag_raw"}  # the other variants are fits alike
    monkeypatch.setattr("elicitation.paper.EVALUATED", few)
    for model in MODELS:
        (tmp_path / "models" / model).mkdir(parents=True)
    arguments = ("--models", ",".join(f"../models/{model}" for model in MODELS), "--datasets", "gsm8k")
    arguments += ("--questions", "../questions", "--prompts-from", "../authors")
    said = paper(tmp_path / "whole", *arguments)
    whole = results(tmp_path / "whole")
    # Both settings, as printed and by the preset of the figures; by the other, what learns from labels.
    rows = Counter(re.findall(r" (printed|release|paper) +\d", said))
    assert rows == {"printed": 2 * (7 + 4), "release": 2 * (7 + 2), "paper": 2 * (1 + 2)}
    tables = tmp_path / "whole" / "paper" / "tables"
    assert "Prompts: the authors' own." in (tables / "table1.tex").read_text()
    table = pd.read_csv(tables / "table1.csv")
    assert table.loc[table["source"] != "printed", "n"].eq(8).all()
    figure = pd.read_csv(tables / "figure3.csv")
    assert len(figure) == 2 * 2
    for row in figure.to_dict("records"):
        predictions = pd.read_csv(tables.parents[1] / row["run"] / "predictions.csv")
        right = predictions.query("method == 'direag_raw' and correct")
        assert row["correct"] == pytest.approx(right["null_probability"].mean(), nan_ok=True)
        assert row["n_correct"] == len(right)

    cut = tmp_path / "cut"
    cut.mkdir()
    patched = f"import elicitation.paper; elicitation.paper.EVALUATED = {few}\nfrom bayes_direag.cli import app; app()"
    process = runs.start(patched, "paper", "--out", "paper", *arguments, cwd=cut)
    runs.wait_for_generations(cut / "paper" / MODELS[1] / "gsm8k" / "steered", 9, process)
    process.send_signal(signal.SIGINT)  # as Ctrl-C while the second model is asked
    _, told = process.communicate(timeout=900)
    assert process.returncode == 130, told
    assert b"interrupted" in told
    assert {path.name for path in (cut / "paper" / MODELS[0] / "gsm8k" / "evaluation").iterdir()} == {*EVALUATED}
    assert not (cut / "paper" / "tables").exists()
    paper(cut, *arguments)
    assert results(cut) == whole
    for path in cut.glob("paper/*/*/*/journal.jsonl"):
        read_journal(path)  # which refuses what was asked twice
    logs = [(cut / "paper" / model / "server.log").read_text().splitlines() for model in MODELS]
    assert [sum(line.startswith("$ ") for line in lines) for lines in logs] == [1, 2]
