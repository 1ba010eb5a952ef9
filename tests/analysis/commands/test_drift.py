"""``direag drift``: exit codes, the table, JSON and the picture."""

import json
from pathlib import Path

import numpy as np
import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import random_fit
from tests.command_line import direag, one_line, refuse


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
    done = direag("drift", files / "fit.nc", files / "new.jsonl", "--seed", 2)
    assert done.exit_code == 0
    found = Fit.load(files / "fit.nc").drift(files / "new.jsonl", seed=2)
    assert one_line(found.text()) in one_line(done.output)
    assert "150 labelled questions (before), 150 new questions (after)" in done.output


def test_exchanged_levels_are_named_and_drawn(files, tmp_path):
    done = direag("drift", files / "fit.nc", files / "exchanged.csv", "--json", "--out", tmp_path / "drift.svg")
    assert done.exit_code == 1, done.output
    found = json.loads(done.output)
    assert found["differs"] is True
    assert set(found["changed"][:2]) == {"cautious", "confident"}
    assert found["levels"][0]["p_value"] == found["p_value"] == 0.005
    assert (tmp_path / "drift.svg").stat().st_size > 1000
    printed = direag("drift", files / "fit.nc", files / "exchanged.csv")
    assert printed.exit_code == 1
    assert "label 30 of the new questions at random, then estimate" in one_line(printed.output)


def test_batches_share_the_alarms(files):
    done = direag("drift", files / "fit.nc", files / "exchanged.csv", "--json", "--alarm-rate", 0.001)
    assert json.loads(done.output)["p_value"] <= 0.001
    assert done.exit_code == 1


def test_what_cannot_be_asked(files, tmp_path):
    asked = "drift", files / "fit.nc", files / "new.jsonl"
    assert "alarm rate 2.0: expected a share" in refuse(*asked, "--alarm-rate", 2)
    assert "no figure can be written as '.txt'" in refuse(*asked, "--out", tmp_path / "drift.txt")
    simulate_observations(300, seed=6).select(np.arange(9)).write(tmp_path / "seen.jsonl")
    assert "none of 9 questions is both answered and new" in refuse("drift", files / "fit.nc", tmp_path / "seen.jsonl")
