"""``direag diagnose``: exit codes, JSON, files, and one fit that really was sampled."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from analysis.diagnosis import diagnostics
from bayes_direag.fits.fitting import fit_nuts
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import gaussian_draws, good_fit, made_fit, made_posterior, natural
from tests.command_line import direag

run = partial(direag, "diagnose")


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("good") / "good.nc"
    good_fit().save(path)
    return path


@pytest.fixture(scope="module")
def bad(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("bad") / "bad.nc"
    diverging = np.zeros((4, 250), bool)
    diverging[0, 0] = True
    observations = simulate_observations(40, seed=1)
    fit = made_posterior(observations, gaussian_draws(1, spread=0.1), statistics={"diverging": diverging})
    fit.save(path)
    return path


class TestExitCodes:
    def test_a_posterior_to_be_believed(self, good):
        result = run(good)
        assert result.exit_code == 0, result.output
        assert "Believable: yes" in result.output
        assert "120 questions, 1000 draws" in " ".join(result.output.split())

    def test_one_that_is_not(self, bad):
        result = run(bad)
        assert result.exit_code == 1
        assert "Believable: NO" in result.output
        assert "--target-accept 0.99" in " ".join(result.output.split())

    def test_warnings_do_not_fail(self, tmp_path):
        raw = gaussian_draws(1, spread=0.1)
        raw["bias"] -= 4
        made_posterior(simulate_observations(40, seed=1), raw).save(tmp_path / "far.nc")
        result = run(tmp_path / "far.nc", "--json")
        assert result.exit_code == 0
        assert "warning" in {finding["status"] for finding in json.loads(result.output)["verdict"]}

    def test_a_map(self, tmp_path):
        made_fit(simulate_observations(20, seed=1), natural(5)).save(tmp_path / "map.nc")
        result = run(tmp_path / "map.nc")
        assert result.exit_code == 2
        assert result.output.startswith("direag: this fit is a MAP, a single draw")
        assert len(result.output.strip().splitlines()) == 1

    def test_no_such_file(self, tmp_path):
        result = run(tmp_path / "none.nc")
        assert result.exit_code == 2
        assert "no such file" in result.output

    def test_a_level_out_of_range(self, good):
        result = run(good, "--level", "90")
        assert result.exit_code == 2
        assert "expected a probability between 0 and 1" in result.output


class TestOutput:
    def test_json_is_all_there_is_and_written_even_if_not_to_be_believed(self, bad, tmp_path, monkeypatch):
        monkeypatch.setattr(diagnostics, "FIGURES", {})
        result = run(bad, "--json", "--seed", "3", "--level", "0.8", "--out", tmp_path / "out")
        record = json.loads(result.output)
        assert json.loads((tmp_path / "out" / "diagnosis.json").read_text()).items() <= record.items()
        assert result.exit_code == 1
        assert record["file"] == str(bad)
        assert record["believable"] is False
        assert record["seed"] == 3
        assert record["interval_level"] == 0.8
        assert [row["divergences"] for row in record["chains"]] == [1, 0, 0, 0]

    def test_the_folder(self, good, tmp_path, monkeypatch):
        some = {name: diagnostics.FIGURES[name] for name in ("pareto",)}
        monkeypatch.setattr(diagnostics, "FIGURES", some)
        result = run(good, "--out", tmp_path / "out", "--json")
        assert result.exit_code == 0, result.output
        names = {path.name for path in (tmp_path / "out").iterdir()}
        assert names == {"diagnosis.json", "parameters.csv", "pareto.png"} < diagnostics.FOLDER.contents
        written = json.loads((tmp_path / "out" / "diagnosis.json").read_text())
        assert json.loads(result.output) == {"file": str(good), **written}

    def test_a_folder_of_someone_else_is_refused_first(self, good, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "thesis.tex").write_text("mine")
        result = run(good, "--out", tmp_path / "out")
        assert result.exit_code == 2
        assert "saw thesis.tex" in result.output
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]

    def test_a_folder_nowhere(self, good, tmp_path):
        result = run(good, "--out", tmp_path / "no" / "out")
        assert result.exit_code == 2
        assert "there is no folder" in result.output


@pytest.mark.slow
def test_a_fit_that_was_sampled(tmp_path):
    observations = simulate_observations(80, seed=5)
    fit = fit_nuts(observations, sampling=SamplingSettings(n_chains=2, n_warmup=200, n_draws=150))
    fit.save(tmp_path / "fit.nc")
    record = json.loads(run(tmp_path / "fit.nc", "--json", "--out", tmp_path / "out").output)
    assert {path.name for path in (tmp_path / "out").iterdir()} == diagnostics.FOLDER.contents
    of_levels = {(name, level) for name in ("weight", "bias", "vote") for level in observations.level_names}
    of_all = {f"{name}_{part}" for name in ("weight", "bias", "vote") for part in ("centre", "spread")}
    of_all |= {"slope", "null_base", "null_gain", "sharpness", "recalibration_intercept", "recalibration_slope"}
    found = {(row["parameter"], row["level"]) for row in record["parameters"]}
    assert found == of_levels | {(name, None) for name in of_all}
    assert all(row["rhat"] < 1.2 for row in record["parameters"])
    assert record["loo"]["p_loo"] > 0
    assert {row["draws"] for row in record["chains"]} == {150}
    topics = [finding["topic"] for finding in record["verdict"]]
    assert topics[:4] == ["R-hat", "draws", "divergences", "energy"]
    few = [finding for finding in record["verdict"] if finding["topic"] == "draws"]
    assert few[0]["status"] == "failure"
