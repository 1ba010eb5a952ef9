"""The commands of the analysis: a table of what they are given, exit with, write and print, and one of refusals."""

import json
import os
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.commands.evaluate import show_evaluation
from analysis.comparison import compare, moved, predicted, side_by_side
from analysis.evaluation import EVALUATION_FOLDER, Evaluation
from analysis.methods.direag import SHARED_AGREEMENT
from analysis.report import sentences, title
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.sources import example_observations
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.conftest import METHODS
from tests.analysis.made import random_said, write_run
from tests.analysis.pages import Page
from tests.analysis.test_diagnosis import spoilt
from tests.analysis.test_report import UNRENDERED, draw_nothing
from tests.command_line import contents, direag, labels_of, one_line, refuse, succeed, without_gold
from tests.made_fits import made_once, replaced


@pytest.fixture(scope="session")
def files(tmp_path_factory, home: Path, nuts: Fit, point: Fit, simulated: Observations) -> Path:
    """Return a folder of fits, observations and evaluations for all commands, which is read alone."""

    def make(folder: Path) -> Path:
        shutil.copytree(home, folder / "home")
        fits = {
            "map": point,
            "nuts": nuts,
            "near": replaced(nuts, "loo", {"elpd": nuts.left_out["elpd"].to_numpy() - 0.1}),
            "spoilt": spoilt(nuts),
        }
        for name, fit in fits.items():
            fit.save(folder / f"{name}.nc")
        simulated.select(slice(0, 80)).write(folder / "seen.jsonl")
        others = simulated.select(slice(80, 180))
        others.write(folder / "new.jsonl")
        without_gold(folder / "new.jsonl", folder / "unlabelled.jsonl")
        theirs = others.to_frame().drop(columns="level").rename(columns={"problem_id": "id", "level_name": "prompt"})
        theirs.to_csv(folder / "theirs.csv", index=False)
        rng = np.random.default_rng(0)
        for name in ("plain", "changed"):
            said = {method: random_said(rng, 30, sharpness=1) for method in ("majority", "direag")}
            write_run(folder / name, said)
        return folder

    return made_once(tmp_path_factory, "files", make)


FIRST, PAIRS = "simulated-5-000080", ["--column", "question=id", "--column", "level=prompt"]
MOVED = {"comparison.json", "moved.csv"}
LEFT_OUT = {"comparison.json", "loo.csv", "loo.png", "parameters.csv", "parameters.png"}
FIGURES = {f"{name}.{end}" for name in ("benefit", "reliability", "risk_coverage") for end in ("csv", "png")}
PREDICTED = {f"{name}.{end}" for name in ("metrics", "parameters", "predictions") for end in ("csv", "png")}
EVALUATED = {"evaluation.json", "metrics.csv", "predictions.csv", "parameters.csv"}
RUN = {"comparison.json", "moved.csv", "metrics.csv", "predictions.csv", "metrics.png", "predictions.png"}
DIAGNOSED = {"diagnosis.json", "parameters.csv", "ranks.png", "pareto_k.png", "left_out.png"}


@pytest.mark.parametrize(
    ("command", "code", "written", "says"),
    [
        ("compare {f}/nuts.nc {f}/near.nc --out {o}", 0, LEFT_OUT, "Leave-one-out on 80 questions"),
        ("compare {f}/plain {f}/changed --out {o}", 0, RUN, "changed minus plain, 30 labelled"),
        ("diagnose {f}/nuts.nc --json", 0, set(), '"believable": true,'),
        ("diagnose {f}/spoilt.nc --out {o}", 1, DIAGNOSED, "NOT converged: R-hat"),
        ("evaluate {f}/new.jsonl --methods majority --resamples 5 --out {o}", 0, EVALUATED, "simulated: 100 questions"),
        (
            "evaluate {f}/seen.jsonl --test {f}/new.jsonl --methods vanilla,majority_platt --resamples 5 --out {o}",
            0,
            EVALUATED,
            "100 questions, fitted to 80 others",
        ),
        ("explain {f}/nuts.nc {f}/new.jsonl simulated-5-000080 --out {o}.svg", 0, set(), "simulated-5-000080: "),
        ("report {f}/home --out {o}.html --plot {o}", 0, FIGURES, "open it in a browser."),
    ],
)
def test_command_succeeds(files: Path, tmp_path: Path, monkeypatch, command, code, written, says) -> None:
    monkeypatch.setattr(*UNRENDERED)
    out = tmp_path / "out"
    result = direag(*(word.format(f=files, o=out) for word in command.split()))
    assert result.exit_code == code, result.output
    assert says in one_line(result.output)
    names = {path.name for path in out.iterdir() if path.is_file()} if out.exists() else set()
    assert names == written
    if "svg" in command:
        assert out.with_suffix(".svg").read_text().startswith("<?xml")
    assert all(path.stat().st_size > 5000 for path in out.glob("*.png"))


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("compare {f}/map.nc", "map.nc alone; expected two or more different fits"),
        ("compare {f}/map.nc {f}/map.nc", "one of them twice"),
        ("compare {f}/plain {f}/../files/plain", "one of them twice"),
        ("compare {f}/map.nc {f}/nowhere.nc", "nowhere.nc: no such file or folder"),
        ("compare {f}/map.nc {f}/plain", "saw fits among evaluations"),
        ("compare {f}/plain {f}/changed --out {f}/plain", "saw evaluation.json"),
        ("compare {f}/plain {f}/changed --obs {f}/new.jsonl", "observations (--obs): saw evaluation folders"),
        ("diagnose {f}/none.nc", "no such file"),
        ("diagnose {f}/map.nc", "expected a NUTS fit"),
        ("diagnose {f}/nuts.nc --out {o}/no/out", "there is no folder"),
        ("diagnose {f}/nuts.nc --out {f}/home", "saw evaluation"),
        ("evaluate {f}/new.jsonl --methods , --out {o}", "unknown method ''"),
        ("evaluate {f}/new.jsonl --folds 101 --out {o}", "cannot deal 100 usable questions into 101 folds"),
        ("evaluate {f}/new.jsonl --methods count --out {o}", "expected preset paper or release"),
        ("evaluate {f}/unlabelled.jsonl --answers numeric --methods majority --out {o}", "none of them labelled"),
        ("evaluate {f}/unlabelled.jsonl --answers numeric --methods direag --out {o}", "labelled"),
        ("evaluate {f}/new.jsonl --methods topk --out {o}", "topk needs an elicitation of its own"),
        ("evaluate {f}/new.jsonl --methods topk --topk {f}/seen.jsonl --out {o}", "--topk: saw none of the 100"),
        ("explain {f}/nuts.nc {f}/new.jsonl simulated-5-000080 --out {o}.gif", "no figure can be written as '.gif'"),
        ("explain {f}/nuts.nc {f}/new.jsonl simulated-5-000000", "new.jsonl: saw 0 questions 'simulated-5-000000'"),
        ("label {f}/theirs.csv --out {f}/theirs.csv", "theirs.csv: saw a file that is read here"),
        ("label {f}/seen.jsonl --out {o}.csv", "seen.jsonl: saw no question with a usable report and without a label"),
        ("label {f}/new.jsonl --out {o}.xlsx", "saw the suffix '.xlsx'; expected .csv"),
        ("label {f}/new.jsonl --out {o}.csv --page label", "--page label: saw the suffix ''; expected .html"),
        ("label {f}/new.jsonl --out {o}.csv --page {o}/none/a.html", "none/a.html: there is no folder"),
        ("quickstart --out {f}", "saw other files there"),
        ("quickstart --out {f}/home", "saw other files there"),
        ("quickstart --out {f}/map.nc", "saw a file"),
        ("report {f}/none", "saw no such folder; expected a folder written by direag evaluate"),
        ("report {f}/map.nc", "saw a file; expected a folder written by direag evaluate. A fit is shown by"),
        ("report {f}/home --out {o}.pdf", "saw the suffix '.pdf'; expected .html"),
        ("report {f}/home --out {o}/none/report.html", "there is no folder"),
        ("report {f}/home --plot {f}/plain", "saw an earlier evaluation there"),
        ("report {f}/home --fit {f}/none.nc", "no such file; expected a fit"),
        ("report {f}/plain --obs {f}/map.nc", "map.nc"),
    ],
)
def test_command_refuses(files: Path, tmp_path: Path, monkeypatch, command: str, says: str) -> None:
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
    before = sorted(path.name for path in files.rglob("*"))
    assert says in refuse(*(word.format(f=files, o=tmp_path / "out") for word in command.split()))
    assert sorted(path.name for path in files.rglob("*")) == before
    assert list(tmp_path.iterdir()) == []


def test_compare_command_is_the_library(files: Path, tmp_path: Path) -> None:
    paths, out = [files / f"{name}.nc" for name in ("map", "nuts")], tmp_path / "out"
    record = json.loads(succeed("compare", *paths, "--obs", files / "new.jsonl", "--out", out, "--json"))
    assert {path.name for path in out.iterdir()} == PREDICTED | MOVED
    assert all(path.stat().st_size > 5000 for path in out.glob("*.png"))
    new = Observations.read(files / "new.jsonl", "numeric")
    summary = moved(side_by_side({path.stem: predicted(Fit.load(path), new) for path in paths}))
    assert record["moved"][1]["mean_shift"] == pytest.approx(summary["mean_shift"][1])
    assert (record["moved"][1]["changed"], record["metrics"][0]["n"]) == (summary["changed"][1], 100)
    assert (record["interval_level"], record["seed"], record["observations_sha256"]) == (0.9, 0, new.fingerprint)
    assert record["paths"] == {path.stem: str(path) for path in paths}
    assert record["versions"].keys() >= {"bayes-direag", "scipy"}


def test_tables_under_other_names_are_read_as_one_s_own(files: Path, tmp_path: Path) -> None:
    for name, table, pairs in (("theirs", "theirs.csv", PAIRS), ("ours", "new.jsonl", [])):
        options = ["--methods", "majority", "--resamples", 20, *pairs]
        succeed("evaluate", files / table, "--out", tmp_path / name, *options)
    metrics, known = (pd.read_csv(tmp_path / name / "metrics.csv") for name in ("theirs", "ours"))
    pd.testing.assert_frame_equal(metrics, known)
    written = pd.read_csv(tmp_path / "theirs" / "predictions.csv", dtype=str)
    assert next(iter(written)) == "id", "as direag predict names it"
    theirs = Evaluation.read(tmp_path / "theirs", observations=files / "theirs.csv")
    assert theirs.observations.problem_id == Observations.read(files / "new.jsonl").problem_id
    assert theirs.predictions["id"].tolist() == written["id"].tolist()
    compare({"theirs": theirs, "again": theirs}, method="majority", n_resamples=5).write(tmp_path / "out")
    assert pd.read_csv(tmp_path / "out" / "predictions.csv")["id"].nunique() == 100
    assert next(iter(Fit.load(files / "map.nc").predict(theirs.observations))) == "id"
    explained = [
        succeed("explain", files / "map.nc", files / table, FIRST, *pairs)
        for table, pairs in (("theirs.csv", PAIRS), ("new.jsonl", []))
    ]
    assert explained[0] == explained[1]


def test_report_lies_in_the_folder_and_its_answer_is_printed(home: Path, tmp_path: Path, monkeypatch) -> None:
    draw_nothing(monkeypatch)
    folder = Path(shutil.copytree(home, tmp_path / "quickstart"))
    output = one_line(succeed("report", folder))
    assert output.endswith(f"{folder / 'report.html'}: open it in a browser.")
    page = Page.read(folder / "report.html")
    assert "Converged: gradient " in page.sections["fits"]
    assert str(folder / "fit.nc") in page.sections["fits"]
    first, rest = output.removesuffix(f" {folder / 'report.html'}: open it in a browser.").split(". ", 1)
    assert first in page.text
    assert rest in " ".join(page.sections["answer"].split())
    shutil.copy(folder / "report.html", folder / "evaluation" / "report.html")
    EVALUATION_FOLDER.check(folder / "evaluation")


class TestEvaluate:
    def test_what_is_printed_opens_with_the_answer_and_five_methods(self, made, evaluation: Evaluation) -> None:
        folder, printed = made
        said = one_line(printed)
        assert "simulated, simulated: 82 questions, 2-fold cross-fit; MAP, preset bayes" in said
        assert said.index(f"{title(evaluation)}. {' '.join(sentences(evaluation))}") < said.index("method gain in")
        table = printed[printed.index("gain in benefit") :]
        rows = {words[0]: words[1:] for words in map(str.split, table.splitlines()) if words and words[0] in METHODS}
        assert set(rows) == {*METHODS} - {"direag_raw"}  # no other variant of DirEAG
        benefits = {method: float(words[-2]) for method, words in rows.items()}
        assert list(benefits) == sorted(benefits, key=lambda method: -benefits[method])
        differences = evaluation.differences.query("metric == 'benefit'").set_index("method")["difference"]
        for method in set(rows) - {"direag"}:
            shown = float(rows[method][0].replace("\N{MINUS SIGN}", "-"))
            assert shown == pytest.approx(differences[method], abs=6e-4)
        assert "1 other method: evaluate --all" in said
        command = json.loads((folder / "evaluation" / "evaluation.json").read_text())["command"]
        assert shlex.split(command)[:3] == ["direag", "evaluate", str(folder / "observations.jsonl")]
        assert str(folder / "evaluation") in printed

    def test_all_methods_and_labels_in_a_table_of_their_own(self, observations, questions, tmp_path, capsys) -> None:
        labels = labels_of(observations, tmp_path / "labels.csv", 60)
        options = ["--labels", labels, "--resamples", 20, "--folds", 2, "--methods", "majority,majority_platt"]
        printed = succeed("evaluate", questions, "--out", tmp_path / "results", *options)
        assert "60 labelled" in printed
        assert "Of the 30 questions that were chosen at random, as new ones are, " in one_line(printed)
        assert pd.read_csv(tmp_path / "results" / "metrics.csv")["n"].tolist() == [60, 60]
        capsys.readouterr()
        show_evaluation(Evaluation.read(tmp_path / "results"), tmp_path, everything=True)
        whole = one_line(capsys.readouterr().out)
        for words in ("Every method on the same held-out questions", "Which answers to accept", "What the methods do"):
            assert words in whole
        assert "other method" not in one_line(printed), "the table has all of them"

    def test_json_says_null_where_a_metric_is_undefined(self, tmp_path: Path) -> None:
        path = tmp_path / "always-right.jsonl"
        told = {"gold_answer": "1", "observations": [{"level": 0, "level_name": "a", "answer": 1, "confidence": 70}]}
        path.write_text("".join(json.dumps({"problem_id": str(i), **told}) + "\n" for i in range(3)))
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

    def test_names_like_markup_are_shown_and_what_stands_out_in_the_reports_comes_last(self, tmp_path: Path) -> None:
        frame = simulate_observations(40, seed=1).to_frame()
        frame.loc[frame["level_name"] == "vanilla", ["level_name", "confidence"]] = ["[red]run[/red]", 70.0]
        path = tmp_path / "[bold]:+1:.jsonl"
        Observations.from_frame(frame).write(path)
        options = ["--out", tmp_path / "r", "--methods", "majority", "--resamples", 2, "--all"]
        printed = succeed("evaluate", path, *options)
        assert "[bold]:+1:.jsonl" in printed.replace("\n", "")
        said = one_line(printed)
        assert said.index("40 questions") < said.index("of the answers of majority vote are right")
        assert said.index("direag report") < said.index("state the same confidence")
        assert "[red]run[/red]" in said[said.index("direag report") :]

    @pytest.mark.parametrize(("error", "code"), [(OSError(28, "No space left"), 2), (KeyboardInterrupt(), 130)])
    def test_a_failure_half_way_leaves_the_old_results(self, tmp_path, observations, monkeypatch, error, code) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "files", "asked", "typed"),
    [
        (
            "panel",
            {"labelled.csv": 40, "new.csv": 260},
            "new.csv: 260 questions, fitted to 40 others",
            "direag evaluate labelled.csv --test new.csv --out evaluation",
        ),
        (
            "steered",
            {"labelled.csv": 300},
            "svamp, Qwen2.5-Coder-1.5B-Instruct: 300 questions, 5-fold cross-fit",
            "direag evaluate labelled.csv --out evaluation",
        ),
    ],
)
def test_quickstart_does_all_of_the_main_job_and_what_it_says_to_do_next_is_understood(
    tmp_path, monkeypatch, example, files, asked, typed
) -> None:
    folder = tmp_path / "quickstart"
    printed = succeed("quickstart", "--out", folder, "--example", example)
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted([*files, "evaluation", "fit.nc", "predictions.csv", "report.html"])
    whole, start = example_observations(example), 0
    for name, n in files.items():
        assert Observations.read(folder / name).fingerprint == whole.select(slice(start, start + n)).fingerprint
        start += n
    assert start == len(whole)
    assert len(pd.read_csv(folder / "predictions.csv")) == [*files.values()][-1]
    assert len(pd.read_csv(folder / "evaluation" / "metrics.csv")) == len(
        Evaluation.read(folder / "evaluation").metrics
    )
    for words in ("of the answers of DirEAG are right ", "Accept answers of 90% or more", asked, f"cd {folder}"):
        assert words in printed
    page = (folder / "report.html").read_text(encoding="utf-8")
    shared = (SHARED_AGREEMENT,) if example == "steered" else ()
    for words in (*shared, typed, f"{folder}/evaluation/fits/"):
        assert words in page
    assert one_line(succeed("report", folder)).partition(f" {folder}")[0] in one_line(printed)
    assert printed.splitlines()[-1].endswith(f"on one page, to open in a browser: {folder / 'report.html'}")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    lines = [line.split()[1:] for line in printed.splitlines() if line.startswith("  direag ")]
    assert [words[0] for words in lines] == ["fit", "predict", "evaluate"]
    assert all("no such file" in refuse(*words) for words in lines)
