"""The command ``direag report``, from files to a file."""

import json
import shutil
from pathlib import Path

import pytest

from analysis.evaluation import EVALUATION_FOLDER
from tests.analysis.report.pages import Page
from tests.analysis.report.runs import draw_nothing, small_folder
from tests.command_line import direag, one_line


def report(*arguments: object, code: int = 0) -> str:
    result = direag("report", *arguments)
    assert result.exit_code == code, result.output
    return one_line(result.output)


@pytest.fixture(autouse=True)
def undrawn(monkeypatch) -> None:
    draw_nothing(monkeypatch)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return small_folder(tmp_path_factory.mktemp("made"))


@pytest.fixture
def files(made, tmp_path) -> Path:
    """Return a copy of it, to write to."""
    return shutil.copytree(made, tmp_path / "quickstart")


def test_it_lies_in_the_folder_and_its_answer_is_printed(files):
    output = report(files)
    assert output.endswith(f"{files / 'report.html'}: open it in a browser.")
    page = Page.read(files / "report.html")
    assert "Converged: gradient " in page.sections["fits"]
    assert str(files / "fit.nc") in page.sections["fits"]
    answer = " ".join(page.sections["answer"].split())
    assert output.removesuffix(f" {files / 'report.html'}: open it in a browser.") in answer


def test_an_evaluation_with_its_report_is_still_one(files):
    report(files / "evaluation")
    assert (files / "evaluation" / "report.html").is_file()
    EVALUATION_FOLDER.check(files / "evaluation")


def test_for_machines(files):
    found = json.loads(report(files, "--json"))
    assert found["out"] == str(files / "report.html")
    assert found["method"] == "direag"
    assert len(found["answer"]) == 4
    assert {(row["method"], row["metric"]) for row in found["differences"]} == {
        (method, metric)
        for method in ("majority", "mean_confidence", "confidence")
        for metric in ("benefit", "accuracy_of_all", "log_score")
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{files}/none"], "saw no such folder; expected a folder written by direag evaluate"),
        (["{files}", "--out", "{files}/report.pdf"], "saw the suffix '.pdf'; expected .html"),
        (["{files}", "--out", "{files}/none/report.html"], "there is no folder"),
        (["{files}", "--fit", "{files}/none.nc"], "no such file; expected a fit"),
        (["{files}/evaluation", "--obs", "{files}/fit.nc"], "fit.nc"),
    ],
)
def test_refusals(files, arguments, message):
    before = sorted(path.name for path in files.rglob("*"))
    output = report(*(argument.format(files=files) for argument in arguments), code=2)
    assert message in output
    assert output.startswith("direag: ")
    assert sorted(path.name for path in files.rglob("*")) == before
