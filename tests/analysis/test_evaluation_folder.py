"""Evaluation folders read back: as they were written, or refused with the file at fault."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.evaluation import MANIFEST, Evaluation, StoredFits
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.convergence import sampler_summary
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import gaussian_draws, made_posterior
from tests.analysis.made_runs import predictions, write_run
from tests.analysis.report.runs import small_observations

SAID = {
    "vanilla": [(0.9, True), (None, False), (0.25, False), (0.6, None)],
    "direag": [(0.123456789012345, True), (0.5, True), (1.0, False), (0.0, None)],
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("written") / "run", SAID)


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "run"))


class TestRead:
    def test_tables_are_as_written(self, folder):
        run = Evaluation.read(folder)
        expected = predictions(SAID).drop(columns="null_probability")
        assert run.predictions["probability"].equals(expected["probability"])
        assert run.predictions["correct"].equals(expected["correct"])
        assert run.predictions["correct"].isna().sum() == 2
        for column in ("problem_id", "method", "fold"):
            assert run.predictions[column].tolist() == expected[column].tolist()
        assert run.predictions["answer"].isna().tolist() == expected["answer"].isna().tolist()
        assert run.metrics.set_index("method")["n"].to_dict() == {"vanilla": 2, "direag": 3}
        assert run.metrics.set_index("method")["unanswered"].to_dict() == {"vanilla": 1, "direag": 0}

    def test_settings_and_names(self, folder):
        run = Evaluation.read(str(folder))
        assert run.folder == folder
        assert (run.of.datasets, run.of.models) == (("svamp",), ("Qwen/Qwen2.5-7B-Instruct",))
        assert run.how == "MAP, preset paper"
        assert (run.settings.interval_level, run.settings.n_resamples, run.settings.seed) == (0.95, 200, 3)
        assert run.design == "4 questions, 5-fold cross-fit"

    def test_a_test_set_names_what_was_evaluated(self, tmp_path):
        run = Evaluation.read(write_run(tmp_path / "run", SAID, n_fitted=7))
        assert run.of.datasets == ("svamp",)
        assert run.design == "4 questions, fitted to 7 others"

    def test_texts_that_look_like_something_else_stay_texts(self, folder):
        table = pd.read_csv(folder / "predictions.csv", dtype=str)
        table.loc[:2, "problem_id"] = ["007", "NA", "1e3"]
        table.to_csv(folder / "predictions.csv", index=False)
        assert Evaluation.read(folder).predictions["problem_id"].tolist()[:3] == ["007", "NA", "1e3"]


class TestRefuse:
    def test_other_observations(self, folder, tmp_path):
        simulate_observations(30, seed=4).write(tmp_path / "other.jsonl")
        with pytest.raises(DirEAGError, match=r"saw other observations \(SHA-256 [0-9a-f]{16}\) than those that"):
            Evaluation.read(folder, tmp_path / "other.jsonl")

    def test_another_folder(self, tmp_path):
        for folder, seen in ((tmp_path / "nowhere", "no such folder"), (tmp_path, r"no evaluation\.json there")):
            with pytest.raises(DirEAGError, match=f"saw {seen}; expected a folder written by direag evaluate"):
                Evaluation.read(folder)

    @pytest.mark.parametrize(
        ("text", "seen"),
        [
            ("{", "JSONDecodeError"),
            ("{}", "ValidationError .*settings"),
            ("[1]", "ValidationError"),
            ('{"settings": 1}', "ValidationError"),
            ("", "ValidationError"),  # a setting of another version
        ],
    )
    def test_a_broken_manifest(self, folder, text, seen):
        manifest = json.loads((folder / MANIFEST).read_text())
        manifest["settings"]["preset"]["new"] = 1
        (folder / MANIFEST).write_text(text or json.dumps(manifest))
        with pytest.raises(DirEAGError, match=rf"evaluation\.json: this cannot be read; saw {seen}"):
            Evaluation.read(folder)

    @pytest.mark.parametrize("name", ["metrics.csv", "predictions.csv"])
    def test_a_table_that_is_missing_or_lacks_a_column_or_holds_nonsense(self, folder, name):
        path = folder / name
        table = pd.read_csv(path)
        number = "brier" if name == "metrics.csv" else "probability"
        table.astype({number: "str"}).assign(**{number: "much"}).to_csv(path, index=False)
        with pytest.raises(DirEAGError, match=rf"{name}: this cannot be read; saw .*much"):
            Evaluation.read(folder)
        table.drop(columns="method").to_csv(path, index=False)
        with pytest.raises(DirEAGError, match=rf"{name}: this cannot be read; saw .*method.*Evaluate again\."):
            Evaluation.read(folder)
        path.unlink()
        with pytest.raises(DirEAGError, match=rf"{name}: this cannot be read; saw .*No such file"):
            Evaluation.read(folder)


@pytest.mark.parametrize(
    ("dataset", "model", "about"), [("svamp", "Qwen", "svamp, Qwen"), ("svamp", None, "svamp"), (None, None, "run")]
)
def test_what_it_is_about(tmp_path, dataset, model, about):
    folder = write_run(tmp_path / "run", {"majority": [(0.5, True)]}, dataset=dataset, model=model)
    assert Evaluation.read(folder).name == about


@pytest.mark.parametrize(
    ("gradient", "n_converged", "reached"), [(1e-9, 2, "1e-09"), (1.5e-6, 1, "2e-06"), (np.nan, 1, "nan")]
)
def test_a_map_is_judged_by_its_gradient(tmp_path, gradient, n_converged, reached):
    parameters = pd.DataFrame(
        {"variant": "level", "fold": ["0", "0", "1"], "projected_gradient": [1e-12, 1e-12, gradient]}
    )
    made = Evaluation.read(write_run(tmp_path / "run", {"majority": [(0.5, True)]}))
    (found,) = replace(made, parameters=parameters).convergence.itertuples()
    assert (found.variant, found.n_fits, found.n_converged) == ("level", 2, n_converged)
    assert found.worst == f"gradient {reached} (at most 1e-06 is fine)"


def test_nuts_is_judged_by_its_chains(tmp_path):
    observations = small_observations().select(slice(10, 40))
    (tmp_path / "fits").mkdir()
    summaries = []
    for fold in (0, 1):
        fit = made_posterior(observations, gaussian_draws(fold, n_chains=2, n_draws=40))
        fit.save(tmp_path / "fits" / f"confidence-{fold}.nc")
        summaries.append(sampler_summary(fit))
    parameters = pd.DataFrame({"variant": "confidence", "fold": ["0", "0", "1"]})
    made = Evaluation.read(write_run(tmp_path / "run", {"majority": [(0.5, True)]}))
    settings = made.settings.model_copy(update={"fit_method": "nuts"})
    record = made.record.model_copy(update={"settings": settings})
    made = replace(made, parameters=parameters, record=record, fits=StoredFits(tmp_path / "fits"))
    (found,) = made.convergence.itertuples()
    assert (found.n_fits, found.n_converged) == (2, 0)
    worst = max(one.largest_rhat for one in summaries)
    assert found.worst.startswith(f"R-hat at most {worst:.3f} (up to 1.02")
    assert found.worst.endswith("0 divergences (none)")


def test_levels_keep_names_that_look_missing(tmp_path):
    rows = {"fold": ["0"], "variant": ["count"], "parameter": ["weight"], "level": ["NA"], "relative": [0.5]}
    folder = write_run(tmp_path / "run", {"majority": [(0.5, True)]})
    pd.DataFrame(rows).to_csv(folder / "parameters.csv", index=False)
    assert Evaluation.read(folder).parameters["level"].tolist() == ["NA"]
