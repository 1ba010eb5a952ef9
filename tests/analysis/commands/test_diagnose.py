"""``direag diagnose``: exit codes, JSON, files, and one fit that really was sampled."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from analysis.diagnosis.diagnostics import DIAGNOSIS_FOLDER, Diagnosis
from analysis.display.document import Picture
from bayes_direag.fits.fitting import fit_nuts
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations
from tests import command_line
from tests.analysis.fits import gaussian_draws, good_fit, made_fit, made_posterior, natural
from tests.command_line import direag

run, refuse = partial(direag, "diagnose"), partial(command_line.refuse, "diagnose")


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


def test_a_posterior_to_be_believed(good, tmp_path, monkeypatch):
    monkeypatch.setattr(Diagnosis, "pictures", lambda _: [Picture("pareto", Figure())])
    result = run(good, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    title, believable, *_ = result.output.splitlines()
    assert (title, believable[:15]) == (f"{good}: 120 questions, 1000 draws", "Believable: yes")
    assert "Converged: R-hat at most" in result.output
    assert "Nothing found in learning" in result.output
    assert "How each chain moved" not in result.output
    assert "How each chain moved" in run(good, "--all").output
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"diagnosis.json", "parameters.csv", "pareto.png"} < DIAGNOSIS_FOLDER.contents
    record = json.loads((tmp_path / "out" / "diagnosis.json").read_text())
    assert record["believable"] is True


def test_one_that_is_not_is_written_all_the_same(bad, tmp_path, monkeypatch):
    monkeypatch.setattr(Diagnosis, "pictures", lambda _: [])
    result = run(bad, "--json", "--seed", "3", "--level", "0.8", "--out", tmp_path / "out")
    assert result.exit_code == 1
    record = json.loads(result.output)
    assert record == {"file": str(bad), **json.loads((tmp_path / "out" / "diagnosis.json").read_text())}
    assert (record["believable"], record["seed"], record["interval_level"]) == (False, 3, 0.8)
    assert [row["divergences"] for row in record["chains"]] == [1, 0, 0, 0]
    assert any("--target-accept 0.99" in finding["text"] for finding in record["verdict"])


def test_refusals(good, tmp_path):
    made_fit(simulate_observations(20, seed=1), natural(5)).save(tmp_path / "map.nc")
    assert "this fit is a MAP, a single draw" in refuse(tmp_path / "map.nc")
    assert "no such file" in refuse(tmp_path / "none.nc")
    assert "there is no folder" in refuse(good, "--out", tmp_path / "no" / "out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    assert "saw thesis.tex" in refuse(good, "--out", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]


@pytest.mark.slow
def test_a_fit_that_was_sampled(tmp_path):
    observations = simulate_observations(80, seed=5)
    fit = fit_nuts(observations, sampling=SamplingSettings(n_chains=2, n_warmup=200, n_draws=150))
    fit.save(tmp_path / "fit.nc")
    record = json.loads(run(tmp_path / "fit.nc", "--json", "--out", tmp_path / "out").output)
    assert {path.name for path in (tmp_path / "out").iterdir()} == DIAGNOSIS_FOLDER.contents
    of_levels = {(name, level) for name in ("weight", "bias", "vote") for level in observations.level_names}
    of_all = {f"{name}_{part}" for name in ("weight", "bias", "vote") for part in ("centre", "spread")}
    of_all |= {"slope", "null_base", "null_gain", "sharpness", "recalibration_intercept", "recalibration_slope"}
    of_all |= {"weight_agreement", "vote_agreement"}
    found = {(row["parameter"], row["level"]) for row in record["parameters"]}
    assert found == of_levels | {(name, None) for name in of_all}
    assert all(row["rhat"] < 1.2 for row in record["parameters"])
    assert record["loo"]["p_loo"] > 0
    assert {row["draws"] for row in record["chains"]} == {150}
    topics = [finding["topic"] for finding in record["verdict"]]
    assert topics[0] == "sampling"
    assert "draws" in topics
