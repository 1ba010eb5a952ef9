"""The folder of an evaluation: its tables, its fits, and what it takes to repeat it."""

import json
from pathlib import Path

import pandas as pd
import pytest

from analysis.evaluation import Evaluation, evaluate
from analysis.runs.evaluated_run import FITS, MANIFEST
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.model.settings import Preset, SamplingSettings
from bayes_direag.model.simulate import simulate_observations


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


@pytest.mark.slow
def test_a_fit_by_sampling(tmp_path):
    sampling = SamplingSettings(n_chains=2, n_warmup=50, n_draws=40)
    labelled, test = simulate_observations(40, seed=3), simulate_observations(15, seed=4)
    options = {"methods": ["count", "count_calibrated"], "fit_method": "nuts", "sampling": sampling}
    sampled = evaluate(labelled, test, **options, n_resamples=5, seed=7)
    fit, table = sampled.fits["count", "test"], sampled.parameters
    expected = fit.predict(test).set_index("problem_id")
    for method, column in (("count", "support"), ("count_calibrated", "confidence")):
        found = sampled.predictions[sampled.predictions["method"] == method].set_index("problem_id").loc[expected.index]
        pd.testing.assert_series_equal(found["confidence"], expected[column], check_names=False)
        pd.testing.assert_series_equal(found["answer"], expected["answer"])
    assert (table.query("parameter == 'weight'")["sd"] > 0).all()
    for name in ("lp", "diverging", "acceptance_rate", "step_size"):
        assert table[name].unique().tolist() == [pytest.approx(float(fit.tree["sample_stats"][name].mean()))]
    sampled.write(tmp_path / "r")
    assert Fit.load(tmp_path / "r" / FITS / "count-test.nc").tree.equals(fit.tree)
    settings = json.loads((tmp_path / "r" / MANIFEST).read_text())["settings"]
    assert (settings["fit_method"], settings["n_folds"]) == ("nuts", None)
    assert SamplingSettings.model_validate(settings["sampling"]) == sampling
