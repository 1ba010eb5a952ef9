"""The folder of an evaluation: whole or not at all, and nothing of anyone else's lost."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.evaluation import Evaluation, evaluate
from analysis.runs.evaluated_run import FITS, FOLDER, MANIFEST
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import Preset, SamplingSettings
from bayes_direag.model.simulate import simulate_observations
from tests.command_line import contents

#: What the folder of an evaluation holds.
TOP = {"predictions.csv", "metrics.csv", "parameters.csv", MANIFEST, FITS}


@pytest.fixture(scope="module")
def observations() -> Observations:
    return simulate_observations(40, seed=3)


@pytest.fixture(scope="module")
def evaluation(observations) -> Evaluation:
    return evaluate(observations, methods=["majority", "count"], n_folds=2, n_resamples=5, seed=7)


@pytest.fixture(scope="module")
def other(observations) -> Evaluation:
    return evaluate(observations, methods=["steerconf"], n_resamples=5)


@pytest.fixture(scope="module")
def written(tmp_path_factory, evaluation) -> Path:
    path = tmp_path_factory.mktemp("written") / "results"
    evaluation.write(path)
    return path


@pytest.fixture
def folder(tmp_path, written) -> Path:
    """The folder of the evaluation, to do with as one likes."""
    return Path(shutil.copytree(written, tmp_path / "results"))


class TestWriting:
    def test_the_tables_are_those_of_the_evaluation(self, folder, evaluation):
        assert {path.name for path in folder.iterdir()} == TOP
        text = dict.fromkeys(("problem_id", "fold", "method", "answer", "variant", "parameter", "level"), "str")
        text["cluster"] = "Int64"
        for name in ("predictions", "metrics", "parameters"):
            written = pd.read_csv(folder / f"{name}.csv", dtype=text)
            expected = getattr(evaluation, name)
            pd.testing.assert_frame_equal(written, expected, check_dtype=False, rtol=1e-14)

    def test_the_fits_can_be_loaded(self, folder, evaluation):
        assert {path.stem for path in (folder / FITS).iterdir()} == {f"{v}-{f}" for v, f in evaluation.fits}
        for (variant, fold), fit in evaluation.fits.items():
            again = Fit.load(folder / FITS / f"{variant}-{fold}.nc")
            pd.testing.assert_frame_equal(again.parameters(), fit.parameters(), check_exact=True)

    def test_the_manifest(self, folder, evaluation, observations):
        manifest = json.loads((folder / MANIFEST).read_text())
        settings = manifest["settings"]
        assert Preset.model_validate(settings.pop("preset")) == evaluation.settings.preset
        assert settings == {
            "fit_method": "map",
            "sampling": None,
            "methods": ["majority", "count"],
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

    def test_the_manifest_of_a_test_set(self, tmp_path, observations):
        test = simulate_observations(3, seed=1)
        evaluate(observations, test, methods=["steerconf"], n_resamples=5).write(tmp_path / "r")
        manifest = json.loads((tmp_path / "r" / MANIFEST).read_text())
        assert manifest["test"]["sha256"] == test.fingerprint
        assert manifest["test"]["questions"] == 3

    def test_the_same_again_gives_the_same_tables(self, folder, evaluation):
        first = contents(folder)
        evaluation.write(folder)
        second = contents(folder)
        for name in TOP:
            assert first.get(name) == second.get(name)

    def test_it_takes_the_place_of_an_earlier_one(self, folder, other):
        other.write(folder)
        assert {path.name for path in folder.iterdir()} == TOP
        assert list((folder / FITS).iterdir()) == []
        assert set(pd.read_csv(folder / "predictions.csv")["method"]) == {"steerconf"}
        assert [path.name for path in folder.parent.iterdir()] == [folder.name]

    def test_an_empty_folder_will_do(self, tmp_path, other):
        (tmp_path / "r").mkdir()
        other.write(tmp_path / "r")
        assert (tmp_path / "r" / MANIFEST).is_file()

    def test_a_link_to_a_folder_stays_a_link(self, tmp_path, folder, other):
        link = tmp_path / "link"
        link.symlink_to(folder)
        other.write(link)
        assert link.is_symlink()
        assert set(pd.read_csv(folder / "predictions.csv")["method"]) == {"steerconf"}

    def test_a_path_relative_to_the_current_folder(self, tmp_path, other, monkeypatch):
        monkeypatch.chdir(tmp_path)
        other.write("r")
        assert (tmp_path / "r" / MANIFEST).is_file()


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


class TestFailing:
    @pytest.mark.parametrize(
        ("error", "where", "already_there"),
        [
            (OSError, "pandas.DataFrame.to_csv", True),
            (KeyboardInterrupt, "pandas.DataFrame.to_csv", False),
            (KeyboardInterrupt, "bayes_direag.fits.fit.Fit.save", True),
            (OSError, "bayes_direag.fits.fit.Fit.save", False),
            (KeyboardInterrupt, "json.dumps", True),
        ],
    )
    def test_while_writing(self, tmp_path, folder, evaluation, monkeypatch, error, where, already_there):
        if not already_there:
            shutil.rmtree(folder)
        before = contents(folder)

        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(where, fail)
        with pytest.raises(error):
            evaluation.write(folder)
        monkeypatch.undo()
        assert contents(folder) == before
        assert [path.name for path in tmp_path.iterdir()] == (["results"] if already_there else [])

    @pytest.mark.parametrize("at", [1, 2])
    def test_while_the_new_takes_the_place_of_the_old(self, tmp_path, folder, other, monkeypatch, at):
        before, rename, calls = contents(folder), Path.rename, []

        def fail_once(self: Path, target: Path) -> Path:
            calls.append(target)
            if len(calls) == at:
                raise KeyboardInterrupt
            return rename(self, target)

        monkeypatch.setattr(Path, "rename", fail_once)
        with pytest.raises(KeyboardInterrupt):
            other.write(folder)
        monkeypatch.undo()
        assert contents(folder) == before
        assert [path.name for path in tmp_path.iterdir()] == ["results"]


class TestCheck:
    def test_new_empty_and_earlier_folders_are_fine(self, tmp_path, folder):
        FOLDER.check(tmp_path / "new")
        FOLDER.check(str(folder))
        (tmp_path / "empty").mkdir()
        FOLDER.check(tmp_path / "empty")
        assert {path.name for path in tmp_path.iterdir()} == {"empty", "results"}

    @pytest.mark.parametrize("stranger", ["notes.txt", ".hidden", "predictions.xlsx", "fits/mine.csv", "fits/sub/a.nc"])
    def test_what_an_evaluation_did_not_write_is_kept(self, folder, other, stranger):
        (folder / stranger).parent.mkdir(exist_ok=True)
        (folder / stranger).write_text("dear to me")
        before = contents(folder)
        place = "/".join(Path(stranger).parts[:2])
        for refuse in (FOLDER.check, lambda path: other.write(path)):
            with pytest.raises(DirEAGError, match=rf"saw {place}; expected a new or empty folder"):
                refuse(folder)
        assert contents(folder) == before

    def test_a_folder_without_a_manifest_is_somebody_elses(self, folder):
        (folder / MANIFEST).unlink()
        with pytest.raises(
            DirEAGError, match=r"saw fits, metrics\.csv, parameters\.csv, \.\.\. \(4 in all\); expected"
        ):
            FOLDER.check(folder)

    def test_many_strangers_are_not_all_named(self, tmp_path):
        for number in range(100):
            (tmp_path / f"{number:03d}").touch()
        with pytest.raises(DirEAGError, match=r"saw 000, 001, 002, \.\.\. \(100 in all\); expected"):
            FOLDER.check(tmp_path)

    def test_a_file(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(DirEAGError, match="saw a file"):
            FOLDER.check(tmp_path / "file")

    def test_the_current_folder(self, tmp_path, folder, monkeypatch):
        monkeypatch.chdir(folder)
        for path in (".", folder, "../results"):
            with pytest.raises(DirEAGError, match="the current folder"):
                FOLDER.check(path)
        monkeypatch.chdir(tmp_path)
        FOLDER.check(folder)
