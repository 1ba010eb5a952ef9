"""``direag compare``: what it prints, what it writes, what it refuses; and real fits from end to end."""

import json
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import arviz_stats
import numpy as np
import pandas as pd
import pytest

from analysis.comparison.predictions import predictions_side_by_side, summarise_predictions
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map, fit_nuts
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import SamplingSettings
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
    made_fit(observations, natural(5, slope=1.3), preset="paper").save(home / "other_map.nc")
    doubled = PRESETS["bayes"].override(null_target_weight=2.0)
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


class TestPredictions:
    def test_without_labels_there_are_no_metrics(self, home: Path, tmp_path: Path) -> None:
        questions = Observations.read(home / "others.jsonl", "numeric").questions
        hidden = [question.model_copy(update={"gold_answer": None}) for question in questions]
        Observations.from_questions(hidden, answers="numeric").write(tmp_path / "hidden.jsonl")
        options = ["--obs", tmp_path / "hidden.jsonl", "--json"]
        record = json.loads(succeed(home / "map.nc", home / "nuts.nc", *options))
        assert "metrics" not in record
        assert record["predictions"]["n"] == 20

    def test_points_have_no_intervals(self, home: Path) -> None:
        both = home / "map.nc", home / "other_map.nc"
        text = one_line(succeed(*both, "--obs", home / "others.jsonl", "--resamples", 5, "--all"))
        assert "map Fitted to 40 questions of handmade: MAP, preset paper, variant confidence." in text
        assert "in sample: 0 of 20 questions were fitted to by map, 20 by other_map" in text
        assert "width: mean" not in text

    def test_everything_is_written_as_the_library_finds_it(self, home: Path, tmp_path: Path) -> None:
        folder = tmp_path / "out"
        options = ["--obs", home / "questions.jsonl", "--resamples", 5, "--out", folder]
        text = succeed(home / "map.nc", home / "nuts.nc", *options)
        assert max(map(len, text.splitlines()[:-2])) <= 80
        text = one_line(text)
        assert "in sample: 40 of 60 questions were fitted to by both fits" in text
        assert "60 labelled questions (in sample)" in text
        written = {"comparison.json", "predictions.csv", "metrics.csv", "confidence_shift.png"}
        assert {path.name for path in folder.iterdir()} == written
        record = json.loads((folder / "comparison.json").read_text())
        assert len(record["metrics"]) == len(pd.read_csv(folder / "metrics.csv"))
        assert pd.read_csv(folder / "predictions.csv")["problem_id"].nunique() == 60
        point, posterior = Fit.load(home / "map.nc"), Fit.load(home / "nuts.nc")
        assert (record["interval_level"], record["seed"]) == (0.9, 0)
        observations = Observations.read(home / "questions.jsonl", "numeric")
        summary = summarise_predictions(predictions_side_by_side(point, posterior, observations))
        assert record["predictions"]["changed"] == summary.changed == len(record["changed"])
        assert record["predictions"]["mean_shift"] == pytest.approx(summary.mean_shift)
        assert (record["predictions"]["first_fitted"], record["predictions"]["n"]) == (40, 60)
        assert record["n_scored"] == 60
        assert record["observations_sha256"] == observations.fingerprint
        assert record["paths"] == {"map": str(home / "map.nc"), "nuts": str(home / "nuts.nc")}
        assert record["versions"].keys() >= {"bayes-direag", "scipy"}
        assert [row["metric"] for row in record["metrics"]][:2] == ["benefit", "accuracy_of_all"]


class TestLeaveOneOut:
    def test_models_in_order_and_a_sentence(self, home: Path, tmp_path: Path) -> None:
        fits = [home / f"{name}.nc" for name in ("nuts", "near", "third")]
        text = succeed(*fits, "--out", tmp_path / "out")
        assert "Leave-one-out on 40 questions" in text
        assert "predicts left-out questions better than" in text or "cannot be told apart" in text
        record = json.loads((tmp_path / "out" / "comparison.json").read_text())
        elpd = {path.stem: float(Fit.load(path).tree["loo"]["elpd"].sum()) for path in fits}
        assert [row["model"] for row in record["loo"]] == sorted(elpd, key=lambda name: -elpd[name])
        assert record["loo"][0]["distinguishable"] is None
        assert (tmp_path / "out" / "loo.png").is_file()
        assert max(map(len, text.splitlines()[:-2])) <= 80

    def test_two_fits_can_also_predict(self, home: Path, tmp_path: Path) -> None:
        (tmp_path / "nuts.nc").write_bytes((home / "near.nc").read_bytes())
        options = ["--obs", home / "others.jsonl", "--resamples", 5]
        text = one_line(succeed(tmp_path / "nuts.nc", home / "nuts.nc", *options))
        assert "(held out: neither fit has learned from any of them)" in text
        assert "Metrics on 20 labelled questions (held out)" in text
        record = json.loads(succeed(tmp_path / "nuts.nc", home / "nuts.nc", *options, "--json"))
        assert {"loo", "predictions", "metrics"} <= record.keys()
        assert list(record["compared"]) == [str(tmp_path / "nuts.nc"), str(home / "nuts.nc")]  # they share their name

    def test_a_weighted_fit_is_refused_and_flagged(self, home: Path) -> None:
        both = home / "nuts.nc", home / "heavy.nc"
        assert "heavy weighs questions unequally (null_target_weight 2.0)" in refuse(*both)
        text = one_line(succeed(*both, "--allow-weighted"))
        assert "heavy (weighted)" in text
        assert "its likelihood is no probability model's" in text


class TestEvaluations:
    def test_differences_of_a_method(self, runs: tuple[Path, Path], tmp_path: Path) -> None:
        text, whole = (succeed(*runs, "--resamples", 20, "--out", tmp_path / "out", *more) for more in ([], ["--all"]))
        assert text.startswith("changed has a benefit of ")
        assert "direag: changed against plain, 30 held-out questions" in text
        assert "pr_negative" not in text
        assert "pr_negative" in whole
        assert {path.name for path in (tmp_path / "out").iterdir()} == {
            "comparison.json",
            "metrics.csv",
            "metric_differences.png",
        }
        assert max(map(len, text.splitlines()[:-2])) <= 80
        other = json.loads(succeed(*runs, "--method", "majority", "--resamples", 20, "--json"))
        assert other["method"] == "majority"
        assert other["metrics"] != json.loads((tmp_path / "out" / "comparison.json").read_text())["metrics"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("names", "options", "says"),
        [
            (["map"], [], "map.nc alone; expected two or more different fits"),
            (["map", "map"], [], "one of them twice"),
            (["map", "nowhere"], [], "nowhere.nc: no such file or folder"),
            (["map", "nuts", "near"], [], "map is a MAP fit, a single point"),
            (["nuts", "near", "third"], ["--obs", "others.jsonl"], "observations (--obs): saw 3 fits; expected two"),
            (["map", "nuts"], ["--method", "direag"], "method='direag' (--method): saw fits"),
        ],
    )
    def test_fits(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], options: list[str], says: str
    ) -> None:
        monkeypatch.chdir(home)
        assert says in refuse(*(f"{name}.nc" for name in names), *options, "--resamples", 5)

    def test_folders(self, home: Path, runs: tuple[Path, Path]) -> None:
        assert "saw evaluation.json" in refuse(*runs, "--out", runs[0])
        assert "a folder, among files" in refuse(home / "map.nc", runs[0])
        assert "observations (--obs): saw evaluation folders" in refuse(*runs, "--obs", home / "others.jsonl")
        assert "has no method 'nuts'" in refuse(*runs, "--method", "nuts")
        assert "one of them twice" in refuse(runs[0], runs[0].parent / "." / runs[0].name)


@pytest.mark.slow
def test_real_fits_from_end_to_end(tmp_path: Path) -> None:
    observations = simulate_observations(80, seed=6)
    sampling = SamplingSettings(n_chains=2, n_warmup=200, n_draws=150)
    fit_map(observations, preset="bayes", variant="count").save(tmp_path / "map.nc")
    drawn = fit_nuts(observations, variant="count", sampling=sampling)
    drawn.save(tmp_path / "nuts.nc")
    observations.write(tmp_path / "questions.jsonl")
    options = ["--obs", tmp_path / "questions.jsonl", "--resamples", 20, "--json"]
    record = json.loads(succeed(tmp_path / "map.nc", tmp_path / "nuts.nc", *options))
    assert record["predictions"]["first_fitted"] == record["predictions"]["n"] == 80
    assert 0 < record["predictions"]["mean_width"] < 0.6
    near = drawn.tree.copy()
    near["posterior"] = drawn.tree["unconstrained_posterior"]
    Fit(drawn.tree.copy()).save(tmp_path / "again.nc")
    record = json.loads(succeed(tmp_path / "nuts.nc", tmp_path / "again.nc", "--json"))
    theirs = arviz_stats.loo(near, var_name="target")
    for row in record["loo"]:
        assert row["elpd"] == pytest.approx(theirs.elpd, abs=1e-6)
        assert row["p_loo"] == pytest.approx(theirs.p, abs=1e-3)  # files keep four digits of log-likelihoods
        assert 0 < row["p_loo"] < 6
    assert [row["difference"] for row in record["loo"]] == [0, 0]
