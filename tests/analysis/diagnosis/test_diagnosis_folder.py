"""A diagnosis as data and as files: complete, valid, and never in the place of anyone else's."""

import json

import numpy as np
import pandas as pd
import pytest

from analysis.diagnosis import diagnosis_folder
from analysis.diagnosis.diagnosis_folder import FOLDER, PARAMETERS, RECORD, diagnosis_record, write_diagnosis
from analysis.diagnosis.diagnostics import diagnose
from bayes_direag.errors import DirEAGError
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import gaussian_draws, good_fit, made_posterior
from tests.command_line import contents


@pytest.fixture
def no_pictures(monkeypatch):
    monkeypatch.setattr(diagnosis_folder, "FIGURES", {})


class TestRecord:
    def test_it_holds_everything(self):
        fit = good_fit()
        found = diagnose(fit)
        record = json.loads(json.dumps(diagnosis_record(found), allow_nan=False))
        assert record["believable"] is True
        assert [row["text"] for row in record["verdict"]] == [finding.text for finding in found.verdict]
        assert len(record["parameters"]) == 27
        assert record["parameters"][0]["level"] == "very_cautious"
        assert record["parameters"][-1]["level"] is None
        assert record["parameters"][3]["rhat"] == found.parameters["rhat"].iloc[3]
        assert len(record["correlations"]) == 25 * 24 / 2
        assert record["flat"]["variance_left"] == found.flat.variance_left
        assert len(record["flat"]["loadings"]) == 25
        assert record["scale"]["fixed"] is True
        assert record["predictive"]["tail_probability"] == found.predictive.tail_probability
        assert record["calibration"]["support"]["reliability"]["n"] == 120
        assert record["loo"]["n"] == 120
        assert record["sampling"]["n_draws"] == 250
        assert record["fit"]["preset"]["name"] == "bayes"
        assert record["interval_level"] == 0.9
        assert record["seed"] == 0

    def test_what_is_undefined_is_null(self):
        raw = gaussian_draws(1)
        raw["slope"][0, 0] = np.nan
        fit = made_posterior(simulate_observations(30, seed=1), raw)
        record = json.loads(json.dumps(diagnosis_record(diagnose(fit)), allow_nan=False))
        (slope,) = [row for row in record["parameters"] if row["parameter"] == "slope"]
        assert slope["rhat"] is None
        assert record["flat"]["variance_left"] is None
        assert record["believable"] is False


@pytest.mark.usefixtures("no_pictures")
class TestFolder:
    def test_the_table_and_the_record(self, tmp_path):
        fit = good_fit()
        found = diagnose(fit)
        write_diagnosis(found, tmp_path / "out")
        assert set(contents(tmp_path / "out")) == {RECORD, PARAMETERS}
        table = pd.read_csv(tmp_path / "out" / PARAMETERS)
        pd.testing.assert_frame_equal(table, found.parameters, check_dtype=False)
        assert json.loads((tmp_path / "out" / RECORD).read_text())["believable"] is True
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_an_earlier_diagnosis_gives_way(self, tmp_path):
        fit = good_fit()
        write_diagnosis(diagnose(fit), tmp_path / "out")
        (tmp_path / "out" / "chains.png").write_text("an old picture")
        write_diagnosis(diagnose(fit, interval_level=0.5), tmp_path / "out")
        assert set(contents(tmp_path / "out")) == {RECORD, PARAMETERS}
        assert json.loads((tmp_path / "out" / RECORD).read_text())["interval_level"] == 0.5

    def test_a_failure_leaves_what_was_there(self, tmp_path, monkeypatch):
        fit = good_fit()
        found = diagnose(fit)
        write_diagnosis(found, tmp_path / "out")
        before = contents(tmp_path / "out")

        def fail(*_: object) -> None:
            raise RuntimeError("no space left")

        monkeypatch.setattr(diagnosis_folder, "FIGURES", {"chains": fail})
        with pytest.raises(RuntimeError, match="no space left"):
            write_diagnosis(found, tmp_path / "out")
        assert contents(tmp_path / "out") == before
        with pytest.raises(RuntimeError, match="no space left"):
            write_diagnosis(found, tmp_path / "new")
        assert [path.name for path in tmp_path.iterdir()] == ["out"]


class TestWhoseFolder:
    def test_a_new_and_an_empty_one_are_fine(self, tmp_path):
        FOLDER.check(tmp_path / "new")
        (tmp_path / "empty").mkdir()
        FOLDER.check(tmp_path / "empty")

    def test_strangers_are_named_and_kept(self, tmp_path):
        for name in ("a.txt", "b.txt", "c.txt", "d.txt", RECORD):
            (tmp_path / name).write_text("mine")
        before = contents(tmp_path)
        with pytest.raises(
            DirEAGError, match=r"saw a\.txt, b\.txt, c\.txt, \.\.\. \(4 in all\); expected a new or empty"
        ):
            write_diagnosis(diagnose(good_fit()), tmp_path)
        assert contents(tmp_path) == before

    def test_files_of_that_name_without_a_record_are_strangers(self, tmp_path):
        (tmp_path / PARAMETERS).write_text("mine")
        with pytest.raises(DirEAGError, match=r"saw parameters\.csv"):
            FOLDER.check(tmp_path)

    def test_a_file(self, tmp_path):
        (tmp_path / "out").write_text("mine")
        with pytest.raises(DirEAGError, match="saw a file"):
            FOLDER.check(tmp_path / "out")

    def test_the_current_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(DirEAGError, match="the current folder"):
            FOLDER.check(".")
