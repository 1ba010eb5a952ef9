"""The front door: its help, and what holds for every command."""

import subprocess
import sys
from importlib.metadata import version

import pytest
import typer

from analysis.evaluation import METHODS
from analysis.methods.calibrations import CALIBRATIONS
from analysis.methods.registry import suffix_of
from bayes_direag.cli import app
from tests.command_line import direag, refuse, succeed

COMMANDS = typer.main.get_command(app).list_commands(None)


def test_the_commands():
    shown = direag().output
    assert all(command in shown for command in COMMANDS)
    assert succeed("--version").split() == [version("bayes-direag")]
    asking, learning = {"elicit", "import", "paper", "simulate"}, {"fit", "predict", "export", "show", "quickstart"}
    judging = {"evaluate", "diagnose", "compare", "explain", "plot", "report", "tables", "learning-curve"}
    assert set(COMMANDS) == asking | learning | judging


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_has_an_example_that_runs_this_command(command):
    text = succeed(*filter(None, [command, "--help"]))
    assert f"Example: direag {command or ''}" in text
    if command is not None:
        assert all(option.help for option in typer.main.get_command(app).get_command(None, command).params)


def test_every_method_is_named_in_the_help_of_evaluate():
    text = succeed("evaluate", "--help")
    assert all(method.removesuffix(suffix_of(method)) in text for method in METHODS)
    assert all(f"_{name}" in text for name in CALIBRATIONS)


def test_a_file_is_no_folder_and_a_folder_no_file(tmp_path, fitted, observations):
    assert "saw a file" in refuse("evaluate", observations, "--out", fitted[0], "--methods", "majority")
    assert "saw a folder" in refuse("fit", observations, "--out", tmp_path)
    assert "saw a folder" in refuse("simulate", "--out", tmp_path)


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "simulate", "quickstart"])
def test_a_missing_output_folder_is_named(tmp_path, fitted, observations, command):
    inputs = {"fit": [observations], "predict": [fitted[0], observations], "evaluate": [observations]}
    target = tmp_path / "nowhere" / "out.csv"
    assert f"there is no folder {target.parent}" in refuse(command, *inputs.get(command, []), "--out", target)
    assert list(tmp_path.iterdir()) == []


def test_an_input_is_never_overwritten(tmp_path, fitted, observations):
    before = observations.read_bytes(), fitted[0].read_bytes()
    (tmp_path / "link.jsonl").symlink_to(observations)
    for target in (observations, tmp_path / "link.jsonl"):
        assert "is read here" in refuse("fit", observations, "--out", target)
        assert "is read here" in refuse("predict", fitted[0], observations, "--out", target)
    assert (observations.read_bytes(), fitted[0].read_bytes()) == before


@pytest.mark.parametrize(
    ("command", "where"),
    [
        ("fit", "bayes_direag.fits.fitting.fit_map"),
        ("predict", "pandas.DataFrame.to_csv"),
        ("simulate", "pathlib.Path.open"),
    ],
)
def test_ctrl_c_exits_130_and_leaves_no_file(tmp_path, fitted, observations, monkeypatch, command, where):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    inputs = {"fit": [observations], "predict": [fitted[0], observations], "simulate": []}
    target = tmp_path / ("out.jsonl" if command == "simulate" else "out.csv")
    monkeypatch.setattr(where, interrupt)
    result = direag(command, *inputs[command], "--out", target)
    monkeypatch.undo()
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_a_missing_file(tmp_path, command):
    path = tmp_path / "none.jsonl"
    assert f"{path}: there is no such file" in refuse(command, path, "--out", tmp_path / "out")


def test_a_last_line_that_is_cut_off(tmp_path, observations):
    path = tmp_path / "cut.jsonl"
    path.write_text(observations.read_text()[:-30])
    line = refuse("evaluate", path, "--out", tmp_path / "r")
    assert f"{path}, line 80" in line
    assert "cut off" in line
    assert not (tmp_path / "r").exists()


def test_a_process_ends_with_one_line_and_2(tmp_path):
    script = "from bayes_direag.cli import app; app()"
    command = [sys.executable, "-c", script, "simulate", "--out", str(tmp_path / "none" / "o.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
