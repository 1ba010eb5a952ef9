"""The command ``direag report``, from files to a file."""

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
    first, rest = output.removesuffix(f" {files / 'report.html'}: open it in a browser.").split(". ", 1)
    assert first in page.text
    assert rest in " ".join(page.sections["answer"].split())


def test_an_evaluation_with_its_report_is_still_one(files):
    report(files / "evaluation")
    assert (files / "evaluation" / "report.html").is_file()
    EVALUATION_FOLDER.check(files / "evaluation")


def test_pictures_come_with_their_numbers(files):
    report(files, "--plot", files / "pictures")
    names = ("benefit", "reliability", "risk_coverage")
    assert {path.name for path in (files / "pictures").iterdir()} == {
        f"{n}.{end}" for n in names for end in ("csv", "png")
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{files}/none"], "saw no such folder; expected a folder written by direag evaluate"),
        (
            ["{files}/fit.nc"],
            "saw a file; expected a folder written by direag evaluate. A fit is shown by",
        ),
        (["{files}", "--out", "{files}/report.pdf"], "saw the suffix '.pdf'; expected .html"),
        (["{files}", "--out", "{files}/none/report.html"], "there is no folder"),
        (["{files}", "--plot", "{files}/evaluation"], "saw an earlier evaluation there"),
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
