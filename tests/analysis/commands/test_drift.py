"""``direag drift``: exit codes, what is printed, and JSON."""

import json
from pathlib import Path

import numpy as np
import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import random_fit
from tests.command_line import direag, one_line, refuse, succeed


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Return a folder with a fit, new questions, and the same with two levels under each other's name."""
    path = tmp_path_factory.mktemp("files")
    observations = simulate_observations(300, seed=6)
    random_fit(observations.select(slice(150)), n_draws=1).save(path / "fit.nc")
    new = observations.select(slice(150, 300))
    new.write(path / "new.jsonl")
    names = {"cautious": "confident", "confident": "cautious"}
    table = new.to_frame().drop(columns="level")
    table["level_name"] = table["level_name"].replace(names)
    Observations.from_frame(table, level="level_name", answers="numeric").write(path / "exchanged.csv")
    return path


def test_questions_that_are_alike(files):
    said = succeed("drift", files / "fit.nc", files / "new.jsonl")
    assert one_line(Fit.load(files / "fit.nc").drift(files / "new.jsonl").text()) == one_line(said)


def test_exchanged_levels_are_named(files):
    done = direag("drift", files / "fit.nc", files / "exchanged.csv", "--json", "--alarm-rate", 0.001)
    found = json.loads(done.output)
    assert (done.exit_code, found["differs"], found["alarm_rate"]) == (1, True, 0.001)
    assert found["levels"][0]["p_value"] == found["p_value"] <= 0.001
    assert set(found["changed"][:2]) == {"cautious", "confident"}
    printed = direag("drift", files / "fit.nc", files / "exchanged.csv")
    assert printed.exit_code == 1
    assert one_line(printed.output) == one_line(Fit.load(files / "fit.nc").drift(files / "exchanged.csv").text())


def test_what_cannot_be_asked(files, tmp_path):
    assert "alarm rate 2.0: expected a share" in refuse(
        "drift", files / "fit.nc", files / "new.jsonl", "--alarm-rate", 2
    )
    simulate_observations(300, seed=6).select(np.arange(9)).write(tmp_path / "seen.jsonl")
    assert "none of 9 questions is both answered and new" in refuse("drift", files / "fit.nc", tmp_path / "seen.jsonl")
