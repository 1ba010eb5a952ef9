"""``direag learning-curve``: what it prints and writes, how it goes on, what it refuses."""

import json
import shutil
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from analysis.display.style import new_figure
from analysis.learning_curve import curve
from analysis.learning_curve.curve import CURVE_METRICS
from bayes_direag.model.simulate import simulate_observations
from tests import command_line
from tests.command_line import direag

QUICK = ("--n", "20,40,100", "--splits", "3", "--methods", "vote_logistic,majority,majority_platt")


succeed, refuse = partial(command_line.succeed, "learning-curve"), partial(command_line.refuse, "learning-curve")


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("questions") / "labelled.jsonl"
    simulate_observations(150, seed=6).write(path)
    return path


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.learning_curve.curve_display.learning_curve_figure", lambda *_: new_figure(1.0, 1.0))


@pytest.fixture(scope="module")
def whole(questions: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the folder of a curve, and what was printed when it was made."""
    folder = tmp_path_factory.mktemp("curve") / "whole"
    return folder, succeed(questions, "--out", folder, *QUICK)


def test_tables_and_files(whole: tuple[Path, str], questions: Path) -> None:
    folder, text = whole
    said = " ".join(text.split())
    assert (
        "labelled.jsonl: 3 random splits. In each, 110 of 150 usable questions are tested and not learned from" in said
    )
    assert "100 labels: left out, 150 usable questions hold at most 50 beside the 100 kept for testing." in said
    assert "20 labels: " in said
    assert "vote_logistic" in said
    assert "smECE of its own answers" not in said
    assert "smECE of its own answers" in succeed(questions, "--out", folder, *QUICK, "--all")
    assert {path.name for path in folder.iterdir()} == {
        "learning_curve.json",
        "learning_curve.png",
        "results.csv",
        "summary.csv",
    }
    assert len(pd.read_csv(folder / "results.csv")) == 3 * 2 * 3
    paths = "labelled.jsonl", str(folder.parent)
    assert max(len(line) for line in text.splitlines() if not any(path in line for path in paths)) <= 80


@pytest.mark.usefixtures("undrawn")
def test_json_holds_the_summary_and_what_was_held_out(
    questions: Path, whole: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(whole[0], tmp_path / "out")
    monkeypatch.setattr(curve, "_sampler", lambda _: pytest.fail("all of it is there"))
    found = json.loads(succeed(questions, "--out", tmp_path / "out", *QUICK, "--json", "--level", "0.9"))
    assert (found["n_usable"], found["n_test"], found["n_splits"], found["interval_level"]) == (150, 110, 3, 0.9)
    assert found["label_counts"] == [20, 40]
    assert list(found["left_out"]) == ["100"]
    assert found["methods"] == ["majority", "majority_platt", "vote_logistic"]
    assert len(found["summary"]) == 2 * len(CURVE_METRICS) * 3
    stored = json.loads((tmp_path / "out" / "learning_curve.json").read_text())
    assert {name: found[name] for name in stored} == stored


@pytest.mark.usefixtures("undrawn")
def test_an_interrupted_run_goes_on_to_the_same_end(
    questions: Path, whole: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, text = whole
    real, calls = curve._sampler, []

    def interrupted(learned: object) -> dict[str, float]:
        calls.append(learned)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return real(learned)

    monkeypatch.setattr(curve, "_sampler", interrupted)
    assert direag("learning-curve", questions, "--out", tmp_path / "out", *QUICK).exit_code == 130
    kept = pd.read_csv(tmp_path / "out" / "results.csv")
    assert len(kept) == 5
    assert not (tmp_path / "out" / "summary.csv").exists()
    calls.clear()
    calls.extend([()] * 6)
    again = succeed(questions, "--out", tmp_path / "out", *QUICK)
    assert len(calls) == 6 + 18 - 5
    assert again.replace(str(tmp_path / "out"), str(folder)) == text
    for name in ("results.csv", "summary.csv"):
        assert (tmp_path / "out" / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--n", "30,many"], "--n 30,many: expected whole numbers"),
        (["--level", "95"], "--level 95.0: expected a probability"),
    ],
)
def test_refusals(questions: Path, tmp_path: Path, options: list[str], says: str) -> None:
    assert says in refuse(questions, "--out", tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_nuts_from_end_to_end(questions: Path, tmp_path: Path) -> None:
    options = ["--n", "30", "--splits", 2, "--methods", "map_bayes,nuts_bayes,nuts_bayes_calibrated"]
    short = ["--chains", 2, "--warmup", 200, "--draws", 150]
    found = json.loads(succeed(questions, "--out", tmp_path / "out", *options, *short, "--json"))
    assert found["sampling"] == {"n_chains": 2, "n_warmup": 200, "n_draws": 150, "target_accept": 0.98}
    nll = {row["method"]: row["mean"] for row in found["summary"] if row["metric"] == "nll"}
    # Posterior mean and mode of one model, on the same questions, are near each other.
    assert nll["nuts_bayes"] == pytest.approx(nll["map_bayes"], abs=0.1)
    rows = pd.read_csv(tmp_path / "out" / "results.csv").set_index("method")
    assert rows.loc["nuts_bayes", "largest_rhat"].between(0.99, 1.2).all()
    assert rows.loc["map_bayes", "largest_rhat"].isna().all()
