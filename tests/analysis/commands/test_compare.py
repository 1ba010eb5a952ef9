"""``direag compare``: what it prints, what it writes, what it refuses; and real fits from end to end."""

import json
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.comparison import compare, moved, predicted
from analysis.evaluation import Evaluation
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.model import presets
from bayes_direag.model.simulate import simulate_observations
from tests import command_line
from tests.analysis.fits import around, made_fit, natural
from tests.analysis.made_runs import random_said, write_run
from tests.command_line import one_line

succeed, refuse = partial(command_line.succeed, "compare"), partial(command_line.refuse, "compare")


@pytest.fixture(scope="module", autouse=True)
def _each_file_is_read_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fit, "load", staticmethod(cache(Fit.load)))
        yield


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with fits to 40 questions, made by hand, and with observations: these and 20 others."""
    home = tmp_path_factory.mktemp("home")
    observations = simulate_observations(60, seed=4)
    observations.write(home / "questions.jsonl")
    fitted = observations.select(slice(0, 40))
    observations.select(slice(40, 60)).write(home / "others.jsonl")
    made_fit(fitted, natural(5), preset="paper").save(home / "map.nc")
    made_fit(fitted, natural(5), sha256="0" * 64).save(home / "elsewhere.nc")
    partial_fit = made_fit(fitted, natural(5))
    partial_fit.tree.attrs["partial"] = 1
    partial_fit.save(home / "partial.nc")
    doubled = presets.preset("bayes", null_target_weight="balanced")
    for number, name in enumerate(("nuts", "near", "third", "heavy")):
        rng = np.random.default_rng(number)
        draws = around(natural(5), rng, n_draws=50, spread=0.3)
        reached = -0.5 - 0.1 * number + 0.1 * rng.standard_normal((2, 50, 40))
        preset = doubled if name == "heavy" else "bayes"
        made_fit(fitted, draws, preset=preset, log_likelihood=reached).save(home / f"{name}.nc")
    return home


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder, rng = tmp_path_factory.mktemp("runs"), np.random.default_rng(0)
    said = [{name: random_said(rng, 30, sharpness=1) for name in ("majority", "direag")} for _ in range(2)]
    return write_run(folder / "plain", said[0]), write_run(folder / "changed", said[1])


def test_predictions_are_written_as_the_library_finds_them(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    options = ["--obs", home / "questions.jsonl", "--out", folder]
    text = one_line(succeed(home / "map.nc", home / "nuts.nc", *options))
    assert "map Fitted to 40 questions of handmade: MAP, preset paper, variant confidence." in text
    assert "60 labelled questions" in text
    tables, pictures = ("metrics", "moved", "parameters", "predictions"), ("metrics", "parameters", "predictions")
    written = {"comparison.json", *(f"{name}.csv" for name in tables), *(f"{name}.png" for name in pictures)}
    assert {path.name for path in folder.iterdir()} == written
    record = json.loads((folder / "comparison.json").read_text())
    assert len(record["metrics"]) == len(pd.read_csv(folder / "metrics.csv"))
    assert pd.read_csv(folder / "predictions.csv")["problem_id"].nunique() == 60
    observations = Observations.read(home / "questions.jsonl", "numeric")
    fits = (Fit.load(home / f"{name}.nc") for name in ("map", "nuts"))
    summary = moved({str(number): predicted(fit, observations) for number, fit in enumerate(fits)})
    assert record["moved"][1]["mean_shift"] == pytest.approx(summary["mean_shift"][1])
    assert (record["moved"][1]["changed"], record["metrics"][0]["n"]) == (summary["changed"][1], 60)
    assert (record["interval_level"], record["seed"]) == (0.9, 0)
    assert record["observations_sha256"] == observations.fingerprint
    assert record["paths"] == {"map": str(home / "map.nc"), "nuts": str(home / "nuts.nc")}
    assert record["versions"].keys() >= {"bayes-direag", "scipy"}


def test_leave_one_out(home: Path, tmp_path: Path) -> None:
    fits = [home / f"{name}.nc" for name in ("nuts", "near", "third")]
    assert "Leave-one-out on 40 questions" in succeed(*fits, "--out", tmp_path / "out")
    record = json.loads((tmp_path / "out" / "comparison.json").read_text())
    elpd = {path.stem: float(Fit.load(path).tree["loo"]["elpd"].sum()) for path in fits}
    assert [row["model"] for row in record["loo"]] == sorted(elpd, key=lambda name: -elpd[name])
    assert record["loo"][0]["distinguishable"] is None
    assert (tmp_path / "out" / "loo.png").is_file()


def test_two_posteriors_can_also_predict(home: Path, tmp_path: Path) -> None:
    (tmp_path / "nuts.nc").write_bytes((home / "near.nc").read_bytes())
    both = tmp_path / "nuts.nc", home / "nuts.nc"
    record = json.loads(succeed(*both, "--obs", home / "others.jsonl", "--json"))
    assert {"loo", "moved", "metrics"} <= record.keys()
    assert list(record["compared"]) == list(map(str, both))  # they share their name


def test_evaluations(runs: tuple[Path, Path], tmp_path: Path) -> None:
    text = succeed(*runs, "--out", tmp_path / "out")
    assert text.startswith("changed has a benefit of ")
    assert "changed (second) minus plain (first), 30 labelled questions" in text
    written = {"comparison.json", "metrics.csv", "moved.csv", "predictions.csv", "metrics.png", "predictions.png"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == written
    other = compare({path.name: Evaluation.read(path) for path in runs}, method="majority", n_resamples=20).record
    assert other["method"] == "majority"
    assert other["metrics"] != json.loads((tmp_path / "out" / "comparison.json").read_text())["metrics"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("names", "says"),
        [
            (["map"], "map.nc alone; expected two or more different fits"),
            (["map", "map"], "one of them twice"),
            (["map", "nowhere"], "nowhere.nc: no such file or folder"),
            (["map", "elsewhere"], "fitted to different observations"),
            (["partial", "nuts"], "partial is a partial MAP fit and nuts a whole NUTS one: a question does not"),
            (["nuts", "heavy"], "heavy weighs questions unequally (null_target_weight balanced)"),
        ],
    )
    def test_fits(self, home: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], says: str) -> None:
        monkeypatch.chdir(home)
        assert says in refuse(*(f"{name}.nc" for name in names))

    def test_folders(self, home: Path, runs: tuple[Path, Path]) -> None:
        assert "saw evaluation.json" in refuse(*runs, "--out", runs[0])
        assert "a folder, among files" in refuse(home / "map.nc", runs[0])
        assert "observations (--obs): saw evaluation folders" in refuse(*runs, "--obs", home / "others.jsonl")
        with pytest.raises(DirEAGError, match="has no method 'nuts'"):
            compare({path.name: Evaluation.read(path) for path in runs}, method="nuts")
        assert "one of them twice" in refuse(runs[0], runs[0].parent / "." / runs[0].name)
