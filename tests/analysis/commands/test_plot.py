"""The command ``direag plot``, from files to files."""

from pathlib import Path

import pandas as pd
import pytest

from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import random_fit
from tests.analysis.made_runs import random_run
from tests.command_line import direag, one_line

EVALUATION = ("benefit", "base_rate", "null_state", "reliability", "risk_coverage", "stated_confidence")
FIT = ("calibration_curves", "levels", "shared", "recalibration")


def plot(*arguments: object, code: int = 0) -> str:
    result = direag("plot", *arguments)
    assert result.exit_code == code, result.output
    return one_line(result.output)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Return a folder with observations, an evaluation of them, and a fit to half of them."""
    path = tmp_path_factory.mktemp("files")
    observations = simulate_observations(40, seed=6)
    observations.write(path / "observations.jsonl")
    random_run(path / "run", observations, methods=["majority", "confidence", "direag"])
    random_fit(observations.select(slice(0, 20)), n_draws=4).save(path / "fit.nc")
    random_fit(observations, variant="count").save(path / "count.nc")
    return path


def pictures(folder: Path, suffix: str = ".png") -> set[str]:
    return {path.stem for path in folder.iterdir() if path.suffix == suffix}


@pytest.fixture
def quick(monkeypatch) -> None:
    """Write empty files for pictures: drawing them takes longer than all the rest."""
    monkeypatch.setattr("analysis.display.style.save_figure", lambda _, path: Path(path).touch())


@pytest.mark.usefixtures("quick")
def test_an_evaluation(files, tmp_path):
    output = plot(files / "run", "--out", tmp_path / "out", "--level", 0.9)
    assert pictures(tmp_path / "out") == set(EVALUATION)
    assert f"{tmp_path / 'out' / 'base_rate'}.png (base_rate.csv)" in output
    gains = pd.read_csv(tmp_path / "out" / "base_rate.csv")
    assert gains["method"].tolist() == ["majority", "confidence", "direag"]
    assert set(gains["interval_level"]) == {0.9}
    named = {name for path in tmp_path.glob("out/*.csv") for name in [path.name]}
    assert all(name in output for name in named)


@pytest.mark.slow
def test_the_same_again_gives_the_same_files(files, tmp_path):
    for name in ("one", "same"):
        plot(files / "run", "--out", tmp_path / name, "--format", "svg", "--seed", 3)
    one, same = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "same"))
    assert one == same
    assert pictures(tmp_path / "one", ".svg") == set(EVALUATION)


@pytest.mark.usefixtures("quick")
def test_a_fit(files, tmp_path):
    output = plot(files / "count.nc", "--out", tmp_path / "out", "--format", "pdf")
    assert pictures(tmp_path / "out", ".pdf") == set(FIT) - {"calibration_curves"}
    assert "calibration_curves: left out, variant count has none" in output
    shares = pd.read_csv(tmp_path / "out" / "levels.csv").query("quantity == 'share'")
    assert shares["value"].sum() == pytest.approx(1)


@pytest.mark.usefixtures("quick")
def test_a_fit_on_questions_it_has_not_seen(files, tmp_path):
    plot(files / "fit.nc", "--out", tmp_path / "out", "--obs", files / "observations.jsonl")
    assert pictures(tmp_path / "out") == set(EVALUATION + FIT)
    assert pd.read_csv(tmp_path / "out" / "base_rate.csv")["n"].tolist() == [20, 20]


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["{files}/run", "--out", "{out}", "--level", "95"], "--level 95.0: expected a probability"),
            (["{files}/run", "--out", "{out}", "--method", "topk"], "saw method 'topk', not evaluated here"),
            (["{files}/fit.nc", "--out", "{out}", "--method", "direag"], "--method direag: saw it with the fit"),
            (["{files}/absent.nc", "--out", "{out}"], "no such file; expected a fit"),
            (["{files}", "--out", "{out}"], "expected a folder written by direag evaluate"),
            (["{files}/run", "--out", "{files}/run"], "saw an earlier evaluation there; expected a folder of its own"),
            (["{files}/run", "--out", "{files}/fit.nc"], "saw a file; expected a folder"),
            (["{files}/run", "--out", "{out}/a/b"], "there is no folder"),
        ],
    )
    def test_one_line_and_nothing_written(self, files, tmp_path, arguments, message):
        filled = [argument.format(files=files, out=tmp_path / "out") for argument in arguments]
        output = plot(*filled, code=2)
        assert message in output
        assert output.startswith("direag: ")
        assert not (tmp_path / "out").exists()
