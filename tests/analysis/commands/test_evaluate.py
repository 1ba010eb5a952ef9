"""``direag evaluate``: its folder, its tables, what it prints and what it refuses."""

import json
import os
import shlex
from pathlib import Path

import pandas as pd
import pytest

from analysis.commands.evaluate import show_evaluation
from analysis.evaluation import Evaluation
from analysis.report import sentences, title
from bayes_direag.data.observations import Observations
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.report.runs import small_run
from tests.command_line import contents, direag, labels_of, one_line, refuse, succeed, without_gold

METHODS = ["majority", "mean_confidence", "conditional_logit", "confidence", "direag"]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory, observations) -> tuple[Path, str]:
    """The folder of an evaluation, and what was printed when it was made."""
    folder = tmp_path_factory.mktemp("evaluate") / "results"
    options = ["--resamples", 20, "--folds", 2, "--methods", ", ".join(METHODS)]
    return folder, succeed("evaluate", observations, "--out", folder, *options)


def test_the_folder_and_what_is_printed(evaluated, observations):
    folder, printed = evaluated
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == {
        *("evaluation.json", "metrics.csv", "parameters.csv", "predictions.csv"),
        *("fits/confidence-0.nc", "fits/confidence-1.nc"),
    }
    assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".")] == []
    assert "simulated, simulated: 80 questions, 2-fold cross-fit; MAP, preset bayes" in one_line(printed)
    typed = ["direag", "evaluate", str(observations), "--out", str(folder)]
    manifest = json.loads((folder / "evaluation.json").read_text())
    assert shlex.split(manifest["command"])[:5] == typed
    settings = manifest["settings"]
    assert (settings["n_folds"], settings["seed"], settings["n_resamples"]) == (2, 0, 20)
    assert str(folder) in printed


def test_it_opens_with_the_answer_and_five_methods(evaluated, tmp_path, observations):
    folder, printed = evaluated
    result = Evaluation.read(folder)
    said = one_line(printed)
    assert said.index(f"{title(result)}. {' '.join(sentences(result))}") < said.index("method gain in benefit")
    table = printed[printed.index("gain in benefit") :]
    rows = {words[0]: words[1:] for words in map(str.split, table.splitlines()) if words and words[0] in METHODS}
    assert set(rows) == {"majority", "mean_confidence", "conditional_logit", "direag"}  # no other variant of DirEAG
    benefits = {method: float(words[-2]) for method, words in rows.items()}
    assert list(benefits) == sorted(benefits, key=lambda method: -benefits[method])
    differences = result.differences.query("metric == 'benefit'").set_index("method")["difference"]
    for method in set(rows) - {"direag"}:
        assert float(rows[method][0].replace("\N{MINUS SIGN}", "-")) == pytest.approx(differences[method], abs=6e-4)
    assert "1 other method: evaluate --all" in said
    more = ["--resamples", 20, "--folds", 2, "--methods", ", ".join(METHODS), "--all"]
    whole = succeed("evaluate", observations, "--out", tmp_path / "r", *more)
    assert all(words in whole for words in ("Which answers to accept", "Brier", *METHODS))
    for text in (printed, whole):
        assert "…" not in text
        assert max(len(line.rstrip()) for line in text.splitlines() if str(tmp_path.parent) not in line) <= 80


def test_fits_that_did_not_converge_are_told(tmp_path, capsys):
    folder = small_run(tmp_path / "run", gradient=1e-3)
    show_evaluation(Evaluation.read(folder), folder)
    assert "1 of the 2 fits behind these figures did not converge" in one_line(capsys.readouterr().out)


def test_what_stands_out_in_the_reports_comes_last(tmp_path, observations):
    frame = Observations.read(observations).to_frame()
    frame.loc[frame["level_name"] == "vanilla", "confidence"] = 70.0
    Observations.from_frame(frame).write(tmp_path / "steady.jsonl")
    options = ["--out", tmp_path / "r", "--methods", "majority", "--resamples", 2]
    printed = one_line(succeed("evaluate", tmp_path / "steady.jsonl", *options))
    assert printed.index("80 questions") < printed.index("of the answers of majority vote are right")
    assert printed.index("direag report") < printed.index("state the same confidence")


def test_labels_in_a_table_of_their_own(tmp_path, observations, questions):
    labels = labels_of(observations, tmp_path / "labels.csv", 60)
    options = ["--labels", labels, "--resamples", 20, "--folds", 2, "--methods", "majority,majority_platt"]
    assert "60 labelled" in succeed("evaluate", questions, "--out", tmp_path / "results", *options)
    assert pd.read_csv(tmp_path / "results" / "metrics.csv")["n"].tolist() == [60, 60]


def test_json_says_null_where_a_metric_is_undefined(tmp_path):
    path = tmp_path / "always-right.jsonl"
    question = {"gold_answer": "1", "observations": [{"level": 0, "level_name": "a", "answer": 1, "confidence": 70}]}
    path.write_text("".join(json.dumps({"problem_id": str(i), **question}) + "\n" for i in range(3)))
    options = ["--out", tmp_path / "r", "--methods", "majority, steerconf", "--resamples", 5]
    record = json.loads(succeed("evaluate", path, *options, "--json"))
    assert record["answer"][0].startswith("100.0% of the answers of SteerConf are right")
    first, second = record["metrics"]
    nothing_fitted = pd.read_csv(tmp_path / "r" / "parameters.csv")
    assert nothing_fitted.columns.tolist()[:4] == ["fold", "variant", "parameter", "level"]
    assert nothing_fitted.empty
    assert (first["method"], second["method"], first["n"]) == ("majority", "steerconf", 3)
    assert (first["auroc"], first["auroc_low"], first["accuracy"]) == (None, None, 1)
    assert "\N{EN DASH}" in succeed("evaluate", path, *options, "--all")


def test_a_test_set(tmp_path, observations):
    test = tmp_path / "test.jsonl"
    succeed("simulate", "--n", 30, "--seed", 9, "--out", test)
    options = ["--test", test, "--out", tmp_path / "r", "--methods", "vanilla,majority_platt", "--resamples", 5]
    printed = succeed("evaluate", observations, *options)
    assert "30 questions, fitted to 80 others" in one_line(printed)
    table = pd.read_csv(tmp_path / "r" / "predictions.csv", dtype={"answer": str})
    assert len(table) == 2 * 30
    assert set(table["fold"]) == {"test"}
    manifest = json.loads((tmp_path / "r" / "evaluation.json").read_text())
    assert manifest["settings"]["n_folds"] is None
    assert (manifest["observations"]["questions"], manifest["test"]["questions"]) == (80, 30)
    answers = table[table["method"] == "vanilla"].set_index("problem_id")["answer"]
    for question in Observations.read(test).questions:
        said = {report.level_name: report for report in question.observations}.get("vanilla")
        if said is not None:
            assert answers[question.problem_id] == said.answer


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--methods", "majorty"], "unknown method 'majorty'"),
        (["--methods", ""], "unknown method ''"),
        (["--folds", 81], "cannot deal 80 usable questions into 81 folds"),
        (["--folds", 1], "Ask for more folds"),
        (["--methods", "count"], "expected preset paper or release"),
    ],
)
def test_what_cannot_be_evaluated(tmp_path, observations, monkeypatch, options, says):
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
    assert says in refuse("evaluate", observations, "--out", tmp_path / "r", *options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("methods", ["majority", "direag"])
def test_no_labelled_question(tmp_path, observations, methods):
    path = without_gold(observations, tmp_path / "unlabelled.jsonl")
    options = ["--out", tmp_path / "r", "--answers", "numeric", "--methods", methods]
    assert "labelled" in refuse("evaluate", path, *options)
    assert list(tmp_path.iterdir()) == [path]


def test_names_that_look_like_markup_are_shown_as_they_are(tmp_path):
    questions = simulate_observations(20, seed=1).questions
    path = tmp_path / "[bold]:+1:.jsonl"
    renamed = [question.model_dump_json().replace('"vanilla"', '"[red]run[/red]"') for question in questions]
    path.write_text("\n".join(renamed) + "\n")
    printed = succeed("evaluate", path, "--out", tmp_path / "r", "--methods", "majority", "--resamples", 2, "--all")
    assert "[bold]:+1:.jsonl" in printed.replace("\n", "")


@pytest.mark.parametrize(("error", "code"), [(OSError(28, "No space left on device"), 2), (KeyboardInterrupt(), 130)])
def test_a_failure_half_way_leaves_the_old_results(tmp_path, observations, monkeypatch, error, code):
    options = ["--out", tmp_path / "results", "--methods", "majority", "--resamples", 5]
    succeed("evaluate", observations, *options)
    before = contents(tmp_path)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("analysis.evaluation.write_record", fail)
    result = direag("evaluate", observations, *options, "--seed", 1)
    assert result.exit_code == code
    assert len(result.stderr.splitlines()) == 1
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
