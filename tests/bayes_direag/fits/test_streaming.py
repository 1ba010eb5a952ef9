"""From Parquet to Parquet: the same table as for observations in memory, whatever the parts."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from bayes_direag.data import parquet as parquet_parts
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import LevelError, ObservationError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map
from bayes_direag.fits.streaming import predict_parquet
from bayes_direag.model.simulate import simulate_observations
from tests.command_line import direag


@pytest.fixture(scope="module")
def observations() -> Observations:
    """Questions of which one has no observation, and another none of use."""
    silent = Question(problem_id="silent", observations=())
    vague = Observation(level=1, level_name="cautious", answer="some", confidence=50)
    questions = simulate_observations(60, seed=2).questions
    return Observations.from_questions(
        [silent, *questions, Question(problem_id="vague", observations=(vague,))], answers="numeric"
    )


@pytest.fixture(scope="module")
def fit(observations: Observations) -> Fit:
    return fit_map(observations)


@pytest.fixture(scope="module")
def source(observations: Observations, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parquet") / "o.parquet"
    observations.write(path)
    return path


@pytest.mark.parametrize("rows_at_once", [6, 100_000])
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_the_table_is_that_of_observations_in_memory(
    tmp_path, monkeypatch, fit, observations, source, rows_at_once, suffix
):
    monkeypatch.setattr(parquet_parts, "ROWS_AT_ONCE", rows_at_once)
    said: list[str] = []
    target = tmp_path / f"p{suffix}"
    assert predict_parquet(fit, source, target, on_step=said.append) == (62, 2)
    expected = fit.predict(observations)
    if suffix == ".parquet":
        found = pd.read_parquet(target)
        pd.testing.assert_frame_equal(found, expected, rtol=1e-14)
        expected.to_parquet(tmp_path / "theirs.parquet", index=False)
        ours, theirs = (parquet.read_schema(tmp_path / name) for name in (target.name, "theirs.parquet"))
        assert ours.equals(theirs)
        nulls = parquet.read_table(target)["confidence"].null_count
        assert nulls == parquet.read_table(tmp_path / "theirs.parquet")["confidence"].null_count == 2
        assert parquet.read_metadata(target).num_row_groups == (1 if rows_at_once > 1000 else len(said) - 2)
    else:
        found = pd.read_csv(target, dtype={"answer": str})
        np.testing.assert_allclose(found["confidence"], expected["confidence"], rtol=1e-14)
    assert "predicted 62 of 62 questions, " in said[-1]


def test_a_posterior_has_its_intervals(tmp_path, nuts, labelled):
    labelled.write(tmp_path / "o.parquet")
    predict_parquet(nuts, tmp_path / "o.parquet", tmp_path / "p.parquet", interval_level=0.5)
    expected = nuts.predict(labelled, interval_level=0.5)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), expected, rtol=1e-14)


def test_levels_go_by_name(tmp_path, fit, source):
    table = pd.read_parquet(source)
    table["level"] = 7 - table["level"]
    table = table[table["level_name"] != "vanilla"]
    table.to_parquet(tmp_path / "o.parquet")
    predict_parquet(fit, tmp_path / "o.parquet", tmp_path / "p.parquet")
    expected = fit.predict(Observations.read(tmp_path / "o.parquet", "numeric"))
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), expected, rtol=1e-14)
    table["level_name"] = table["level_name"].replace("cautious", "careful")
    table.to_parquet(tmp_path / "o.parquet")
    with pytest.raises(LevelError) as known:
        fit.predict(Observations.read(tmp_path / "o.parquet", "numeric"))
    with pytest.raises(LevelError) as caught:
        predict_parquet(fit, tmp_path / "o.parquet", tmp_path / "q.parquet")
    assert str(caught.value) == str(known.value)


def test_fractions_are_refused_and_nothing_is_written(tmp_path, fit, source, monkeypatch):
    monkeypatch.setattr(parquet_parts, "ROWS_AT_ONCE", 20)
    table = pd.read_parquet(source)
    table["confidence"] /= 100
    table.to_parquet(tmp_path / "o.parquet")
    with pytest.raises(ObservationError) as known:
        Observations.read(tmp_path / "o.parquet", "numeric")
    with pytest.raises(ObservationError) as caught:
        predict_parquet(fit, tmp_path / "o.parquet", tmp_path / "p.parquet")
    assert str(caught.value) == str(known.value)
    assert [path.name for path in tmp_path.iterdir()] == ["o.parquet"]


def test_the_command(tmp_path, fit, source):
    fit.save(tmp_path / "fit.nc")
    arguments = ["predict", tmp_path / "fit.nc", source, "--out", tmp_path / "p.parquet", "--json"]
    done = direag(*arguments)
    assert json.loads(done.stdout) == {"out": str(tmp_path / "p.parquet"), "n": 62, "unanswered": 2}
    assert len(pd.read_parquet(tmp_path / "p.parquet")) == 62
