"""The folder of an evaluation: its tables, its fits, and what it takes to repeat it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.evaluation import Evaluation, evaluate
from analysis.runs.evaluated_run import FITS, FOLDER, MANIFEST
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import Preset, SamplingSettings
from bayes_direag.model.simulate import simulate_observations
from tests.command_line import contents


@pytest.fixture(scope="module")
def observations() -> Observations:
    return simulate_observations(40, seed=3)


@pytest.fixture(scope="module")
def evaluation(observations) -> Evaluation:
    return evaluate(observations, methods=["majority", "direag"], n_folds=2, n_resamples=5, seed=7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, evaluation) -> Path:
    path = tmp_path_factory.mktemp("written") / "results"
    evaluation.write(path)
    return path


def test_the_tables_and_fits_are_those_of_the_evaluation(folder, evaluation):
    assert {path.name for path in folder.iterdir()} == {
        *("predictions.csv", "metrics.csv", "parameters.csv"),
        *(MANIFEST, FITS),
    }
    text = dict.fromkeys(("problem_id", "fold", "method", "answer", "variant", "parameter", "level"), "str")
    text["cluster"] = "Int64"
    for name in ("predictions", "metrics", "parameters"):
        written = pd.read_csv(folder / f"{name}.csv", dtype=text)
        expected = getattr(evaluation, name)
        pd.testing.assert_frame_equal(written, expected, check_dtype=False, rtol=1e-14)
    assert {path.stem for path in (folder / FITS).iterdir()} == {f"{v}-{f}" for v, f in evaluation.fits}
    for (variant, fold), fit in evaluation.fits.items():
        again = Fit.load(folder / FITS / f"{variant}-{fold}.nc")
        pd.testing.assert_frame_equal(again.parameters(), fit.parameters(), check_exact=True)


def test_the_manifest(folder, evaluation, observations):
    manifest = json.loads((folder / MANIFEST).read_text())
    settings = manifest["settings"]
    assert Preset.model_validate(settings.pop("preset")) == evaluation.settings.preset
    assert settings == {
        "fit_method": "map",
        "sampling": None,
        "methods": ["majority", "direag"],
        "vanilla_level": "vanilla",
        "n_folds": 2,
        "seed": 7,
        "n_resamples": 5,
        "interval_level": 0.95,
    }
    assert manifest["observations"] == {
        "questions": 40,
        "answers": "numeric",
        "levels": list(observations.level_names),
        "datasets": ["simulated"],
        "models": ["simulated"],
        "sha256": observations.fingerprint,
    }
    assert manifest["test"] is None
    assert set(manifest["versions"]) == {"bayes-direag", "jax", "numpyro", "numpy", "scipy"}


def test_the_same_again_gives_the_same_tables_and_another_takes_its_place(tmp_path, evaluation, observations):
    folder = tmp_path / "results"
    evaluation.write(folder)
    first = contents(folder)
    FOLDER.check(folder)
    evaluation.write(folder)
    second = contents(folder)
    assert {name for name in first if first[name] != second[name]} <= {f"{FITS}/confidence-{k}.nc" for k in range(2)}
    evaluate(observations, methods=["steerconf"], n_resamples=5).write(folder)
    assert set(contents(folder)) == {"predictions.csv", "metrics.csv", "parameters.csv", MANIFEST}
    assert set(pd.read_csv(folder / "predictions.csv")["method"]) == {"steerconf"}
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_nothing_is_left_of_one_that_fails(tmp_path, evaluation, monkeypatch):
    monkeypatch.setattr(Fit, "save", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        evaluation.write(tmp_path / "results")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
class TestNuts:
    """One fit by sampling, evaluated on a test set."""

    SAMPLING = SamplingSettings(n_chains=2, n_warmup=50, n_draws=40)

    @pytest.fixture(scope="class")
    @staticmethod
    def sets() -> tuple[Observations, Observations]:
        return simulate_observations(40, seed=3), simulate_observations(15, seed=4)

    @pytest.fixture(scope="class")
    @staticmethod
    def sampled(sets) -> Evaluation:
        methods = ["count", "count_calibrated"]
        return evaluate(*sets, methods=methods, fit_method="nuts", sampling=TestNuts.SAMPLING, n_resamples=5, seed=7)

    @pytest.mark.parametrize(("method", "column"), [("count", "support"), ("count_calibrated", "confidence")])
    def test_predictions_are_means_over_the_draws(self, sampled, sets, method, column):
        fit = sampled.fits["count", "test"]
        assert fit.tree.attrs["method"] == "nuts"
        expected = fit.predict(sets[1]).set_index("problem_id")
        found = sampled.predictions[sampled.predictions["method"] == method].set_index("problem_id").loc[expected.index]
        pd.testing.assert_series_equal(found["confidence"], expected[column], check_names=False)
        pd.testing.assert_series_equal(found["answer"], expected["answer"])

    def test_parameters_have_a_standard_deviation_and_the_samplers_statistics(self, sampled):
        table, fit = sampled.parameters, sampled.fits["count", "test"]
        assert table["sd"].notna().all()
        assert (table.query("parameter == 'weight'")["sd"] > 0).all()
        stats = fit.tree["sample_stats"].to_dataset()
        for name in ("lp", "diverging", "acceptance_rate", "step_size"):
            assert table[name].unique().tolist() == [pytest.approx(float(stats[name].mean()))]

    def test_the_folder(self, sampled, tmp_path):
        sampled.write(tmp_path / "r")
        assert [path.name for path in (tmp_path / "r" / FITS).iterdir()] == ["count-test.nc"]
        again = Fit.load(tmp_path / "r" / FITS / "count-test.nc")
        assert again.tree.equals(sampled.fits["count", "test"].tree)
        settings = json.loads((tmp_path / "r" / MANIFEST).read_text())["settings"]
        assert settings["fit_method"] == "nuts"
        assert SamplingSettings.model_validate(settings["sampling"]) == self.SAMPLING
        assert Preset.model_validate(settings["preset"]) == PRESETS["bayes"]
        assert settings["n_folds"] is None
        written = pd.read_csv(tmp_path / "r" / "predictions.csv", dtype={"answer": "str"})
        np.testing.assert_allclose(written["confidence"], sampled.predictions["confidence"])
