"""The front door: its help, and what holds for every command."""

import itertools
import json
import os
import re
import subprocess
import sys
from importlib.metadata import version

import pytest
import typer
from typer.testing import CliRunner

from bayes_direag.cli import app
from tests.bayes_direag.long_tables import rows
from tests.command_line import direag, one_line, refuse, succeed, without_gold

COMMANDS = typer.main.get_command(app).list_commands(None)


def test_cli_has_the_commands():
    shown = direag().output
    assert all(command in shown for command in COMMANDS)
    assert succeed("--version").split() == [version("bayes-direag")]
    asking, learning = (
        {"elicit", "import", "label", "paper", "simulate"},
        {"fit", "policy", "predict", "serve", "show", "quickstart"},
    )
    judging = {"evaluate", "diagnose", "compare", "explain", "report"}
    assert set(COMMANDS) == asking | learning | judging
    front = typer.main.get_command(app)
    options = [one for name in COMMANDS for one in front.get_command(None, name).params if one.name != "help"]
    # 139, and --save-joined: else a joined fit is kept in Python alone, and new levels join again at each prediction
    assert sum(one.param_type_name == "option" for one in options) <= 140


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_has_an_example_that_runs_this_command(command):
    text = succeed(*filter(None, [command, "--help"]))
    assert f"Example: direag {command or ''}" in text
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"│ +\*? +--[\w-]*…", text)
    if command is not None:
        options = typer.main.get_command(app).get_command(None, command).params
        assert all(option.help and not re.search("<[a-z]", option.help) for option in options), "Markdown drops <names>"


def test_help_is_in_the_order_of_the_work():
    text = succeed("--help")
    titles = ("Start", "Fit and predict", "Decide", "Look", "Ask a model", "Paper")
    places = [text.index(f"─ {title} ─") for title in titles]
    assert places == sorted(places)
    assert "─ Commands ─" not in text


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["estimate"], "there is no command 'estimate'. direag predict prints the estimate. See direag --help."),
        (["evalute"], "there is no command 'evalute'. Did you mean evaluate? See direag --help."),
        (
            ["evaluate", "--metods", "x"],
            "No such option: --metods. Did you mean --methods? See direag evaluate --help.",
        ),
        (["evaluate"], "Missing argument 'OBS'. See direag evaluate --help."),
        (["show", "fit.nc", "--nope"], "No such option: --nope. See direag show --help."),
        (
            ["fit", "o", "--out", "f", "--method", "nust"],
            "Invalid value for '--method': 'nust' is not one of 'map', 'nuts'.",
        ),
    ],
)
def test_cli_tells_what_may_have_been_meant_in_one_line(typed, says):
    assert refuse(*typed).startswith(f"direag: {says}")


def test_near_names_are_named(tmp_path, observations, fitted):
    options = ["--out", tmp_path / "r"]
    assert "'majorty'. Did you mean majority?" in refuse("evaluate", observations, *options, "--methods", "majorty")
    renamed = tmp_path / "renamed.jsonl"
    renamed.write_text(observations.read_text().replace('"confident"', '"confidnt"'))
    assert "Did you mean confident?" in refuse("predict", fitted[0], renamed, "--out", tmp_path / "p.csv")


@pytest.mark.parametrize(("words", "completed"), [("direag eva", "evaluate"), ("direag fit --pre", "--preset")])
def test_tab_completes(words, completed):
    asked = {"_DIREAG_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert CliRunner().invoke(app, env=asked).stdout.split() == [completed]


def test_cli_tells_files_and_folders_apart(tmp_path, fitted, observations):
    for command in ("fit", "evaluate"):
        assert "none.jsonl: there is no such file" in refuse(command, "none.jsonl", "--out", tmp_path / "out")
    assert "saw a file" in refuse("evaluate", observations, "--out", fitted[0], "--methods", "majority")
    assert "saw a folder" in refuse("fit", observations, "--out", tmp_path)
    assert "An evaluation is shown by direag report" in refuse("show", tmp_path)
    assert "saw a folder" in refuse("simulate", "--out", tmp_path)


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "simulate", "quickstart"])
def test_cli_names_a_missing_output_folder(tmp_path, fitted, observations, command):
    inputs = {"fit": [observations], "predict": [fitted[0], observations], "evaluate": [observations]}
    target = tmp_path / "nowhere" / "out.csv"
    assert f"there is no folder {target.parent}" in refuse(command, *inputs.get(command, []), "--out", target)
    assert list(tmp_path.iterdir()) == []


def test_outputs_are_named_by_the_input_and_said_to_be_replaced(tmp_path, observations, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evaluate = ("evaluate", observations, "--methods", "majority", "--resamples", 5)
    predict = ("predict", "observations.nc", observations), "observations-predictions.csv"
    for command, output in ((("fit", observations), "observations.nc"), predict, (evaluate, "observations-results")):
        first, again = direag(*command), direag(*command)
        assert (first.stderr, again.stderr) == ("", f"replaced {output}\n")
        assert (tmp_path / output).exists()
    assert direag("fit", observations, "--preset", "papre").stderr.count("replaced") == 0
    table = ("label", "new.jsonl", "--n", 2)
    without_gold(observations, tmp_path / "new.jsonl")
    assert [direag(*table).stderr for _ in range(2)] == ["", ""], "it goes on with its table"
    assert (tmp_path / "new-labels.csv").is_file()


def test_cli_never_overwrites_an_input(tmp_path, fitted, observations):
    before = observations.read_bytes(), fitted[0].read_bytes()
    (tmp_path / "link.jsonl").symlink_to(observations)
    for target in (observations, tmp_path / "link.jsonl"):
        assert "is read here" in refuse("fit", observations, "--out", target)
        assert "is read here" in refuse("predict", fitted[0], observations, "--out", target)
    assert (observations.read_bytes(), fitted[0].read_bytes()) == before


@pytest.mark.parametrize(
    ("command", "where"),
    [
        ("fit", "bayes_direag.fits.making.fit_by"),
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


def test_cli_names_a_last_line_that_is_cut_off(tmp_path, observations):
    path = tmp_path / "cut.jsonl"
    path.write_text(observations.read_text()[:-30])
    line = refuse("evaluate", path, "--out", tmp_path / "r")
    assert f"{path}, line 80" in line
    assert "cut off" in line
    assert not (tmp_path / "r").exists()


def test_cli_tells_a_crash_from_a_result_that_must_not_be_used(tmp_path, observations, monkeypatch):
    def crash(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of ours " + "x" * 10**6)

    monkeypatch.setattr("bayes_direag.fits.making.fit_by", crash)
    result = direag("fit", observations, "--out", tmp_path / "fit.nc")
    assert result.exit_code == 70
    assert "ZeroDivisionError: of ours" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("direag: this is a fault of direag itself.")
    assert len(result.stderr) < 30_000


def process(*arguments: object, code: str = "", **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", f"{code}\nfrom bayes_direag.cli import app; app()", *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **streams, text=True, env=os.environ | variables)  # noqa: S603


WAITING = """
import gc, os, signal, time
from bayes_direag.data import files
def end(*_):
    gc.callbacks.remove(end)
    os.kill(os.getpid(), signal.SIGTERM)
def wait(*_):
    print("ready", flush=True)
    if {in_a_callback}:
        gc.callbacks.append(end)
        gc.collect()
    time.sleep(60)
files._write_lines = wait
"""


@pytest.mark.parametrize("in_a_callback", [False, True])  # where Python drops what is raised, as in one of JAX
def test_sigterm_is_heard_like_ctrl_c(tmp_path, in_a_callback):
    done = process("simulate", "--out", tmp_path / "o.jsonl", code=WAITING.format(in_a_callback=in_a_callback))
    assert done.stdout.readline() == "ready\n"
    if not in_a_callback:
        assert len(list(tmp_path.iterdir())) == 1
        done.terminate()
    assert done.communicate(timeout=300)[1] == "direag: interrupted; nothing was left half written.\n"
    assert done.returncode == 143
    assert list(tmp_path.iterdir()) == []


def test_cli_names_a_platform_that_jax_has_not_in_one_line(tmp_path, observations):
    done = process("fit", observations, "--out", tmp_path / "fit.nc", JAX_PLATFORMS="cdua")
    error = done.communicate(timeout=300)[1]
    assert error.startswith("direag: JAX_PLATFORMS=cdua: JAX has no such device here; expected")
    assert (done.returncode, len(error.splitlines())) == (2, 1)


def test_standard_output_may_take_few_characters(tmp_path, observations):
    source = tmp_path / "new.jsonl"
    source.write_text(observations.read_text().replace("very_cautious", "zögernd ░"))
    succeed("fit", source, "--out", tmp_path / "fit.nc")
    for encoding, option in itertools.product(("ascii", "latin-1"), ((), ("--json",))):
        result = CliRunner(charset=encoding).invoke(app, ["show", str(tmp_path / "fit.nc"), *option])
        assert (result.exit_code, result.stderr) == (0, "")
        assert "vanilla" in result.stdout
        assert not option or "zögernd ░" in json.loads(result.stdout)["levels"]


def test_cli_lets_no_name_control_the_terminal(tmp_path, fitted, observations):
    hostile = "\x1b[2Jgpt\x9b31m\u202e"
    shown = r"\u001b[2Jgpt\u009b31m\u202e"
    source = tmp_path / f"{hostile}.jsonl"
    source.write_text(observations.read_text().replace("very_cautious", json.dumps(hostile)[1:-1]))
    assert shown in refuse("predict", fitted[0], source, "--out", tmp_path / "o.csv")
    for printed in (succeed("fit", source, "--out", tmp_path / "fit.nc"), succeed("show", tmp_path / "fit.nc")):
        assert hostile not in printed
        assert shown in one_line(printed)
    rows(confidence=0.5).to_csv(tmp_path / f"{hostile}.csv", index=False)
    warned = direag("label", tmp_path / f"{hostile}.csv", "--out", tmp_path / "labels.csv").stderr
    assert hostile not in warned
    assert shown in warned


@pytest.mark.slow
def test_cli_exits_with_2_on_a_busy_machine(tmp_path, fitted):
    """A thread that is still running at the exit would end the process by a signal, in one of 25 tries or more."""
    (tmp_path / "wrong.csv").write_text("problem_id,level,answer,confidence\nq,vanilla,5,101\n")
    tries = [process("predict", fitted[0], tmp_path / "wrong.csv", "--out", tmp_path / "p.csv") for _ in range(8)]
    assert {(one.communicate(timeout=300)[1].count("\n"), one.returncode) for one in tries} == {(1, 2)}


def test_cli_has_no_error_as_long_as_what_is_wrong(tmp_path, fitted, observations):
    (tmp_path / "long.jsonl").write_text(observations.read_text().replace("very_cautious", "very" * 10**5))
    assert len(refuse("predict", fitted[0], tmp_path / "long.jsonl", "--out", tmp_path / "o.csv")) < 5000
