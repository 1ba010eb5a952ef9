"""Counting patterns changes what a fit costs, and nothing else of it."""

from collections import Counter
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayes_direag.commands.fit import _counting
from bayes_direag.data import counted as counted_module
from bayes_direag.data import parquet
from bayes_direag.data.counted import count_parquet, count_patterns, read_labelled
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map, fit_nuts
from bayes_direag.model.presets import preset
from bayes_direag.model.simulate import simulate_observations
from tests.bayes_direag.long_tables import long_table, written
from tests.command_line import one_line, refuse, succeed


@pytest.fixture(scope="module")
def coarse() -> Observations:
    """Questions with three confidences only, some of them unlabelled, and each several times."""
    found = simulate_observations(80, seed=3)
    steps = np.where(found.usable, np.clip(np.round(2 * found.confidence) / 2, 0.1, 0.9), np.nan)
    found = replace(found, confidence=steps, labelled=np.arange(80) % 5 > 0)
    return found.select(np.random.default_rng(0).integers(0, 80, 240))


def patterns_of(observations: Observations) -> Counter:
    columns = ("status", "candidate", "confidence", "correct")
    rows = zip(*(getattr(observations, name).tolist() for name in columns), strict=True)
    keys = [repr((row, bool(known))) for row, known in zip(rows, observations.labelled, strict=True)]
    times = np.ones(len(keys), int) if observations.multiplicity is None else observations.multiplicity
    found: Counter = Counter()
    for key, n in zip(keys, times.tolist(), strict=True):
        found[key] += n
    return found


def test_a_row_a_pattern_with_how_many_have_it(coarse):
    counted = count_patterns(coarse)
    assert len(counted) == len(patterns_of(coarse)) < 80
    assert patterns_of(counted) == patterns_of(coarse)
    first = {name: coarse.problem_id.index(name) for name in counted.problem_id}
    assert list(first.values()) == [coarse.problem_id.index(name) for name in counted.problem_id]
    again = count_patterns(counted)
    np.testing.assert_array_equal(again.multiplicity, counted.multiplicity)
    for name in (field.name for field in fields(coarse.quality())):
        np.testing.assert_array_equal(getattr(counted.quality(), name), getattr(coarse.quality(), name))
    assert counted.fingerprint != replace(counted, multiplicity=counted.multiplicity + 1).fingerprint


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("paper", "temperature"),
        ("paper", "isotonic"),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("release", "release"), ("bayes", "none"))),
    ],
)
def test_a_fit_to_patterns_is_the_fit_to_all(coarse, name, method):
    chosen = preset(name).override(recalibration={"out_of_fold": 0, "method": method})
    one, all_ = (fit_map(seen, preset=chosen) for seen in (count_patterns(coarse), coarse))
    pd.testing.assert_frame_equal(one.parameters(), all_.parameters(), rtol=1e-9, atol=1e-12)
    support = np.linspace(0.01, 0.99, 50)[None]
    np.testing.assert_allclose(
        one.recalibration.of_selected(support), all_.recalibration.of_selected(support), rtol=1e-9
    )
    assert (one.n_questions, one.is_counted, all_.is_counted) == (all_.n_questions, True, False)


def test_what_looks_at_single_questions_refuses_patterns(coarse):
    counted = count_patterns(coarse)
    with pytest.raises(DirEAGError, match="counted by pattern"):
        fit_nuts(counted)
    for out_of_fold in ("bayes", preset("paper").override(recalibration={"out_of_fold": 3})):
        with pytest.raises(DirEAGError, match="counted by pattern"):
            fit_map(counted, preset=out_of_fold)


@pytest.mark.parametrize(("kind", "rows_at_once"), [("numeric", 20), ("choice", 100_000), ("text", 20)])
def test_a_file_is_counted_as_its_observations_are(tmp_path, monkeypatch, kind, rows_at_once):
    monkeypatch.setattr(parquet, "ROWS_AT_ONCE", rows_at_once)
    path = written(long_table(kind, seed=1), tmp_path / "o.parquet")
    said: list[str] = []
    found, expected = count_parquet(path, kind, on_step=said.append), count_patterns(Observations.read(path, kind))
    assert patterns_of(found) == patterns_of(expected)
    assert (found.problem_id, found.level_names) == (expected.problem_id, expected.level_names)
    np.testing.assert_array_equal(found.multiplicity, expected.multiplicity)
    assert f"counted {len(Observations.read(path, kind))} of" in said[-1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--engine", "ray"], "recalibrating out of fold (5 folds; none with --out-of-fold 0)"),
        (["--engine", "ray", "--method", "nuts"], "--engine ray"),
        (["--engine", "ray", "--out-of-fold", "3"], "--engine ray"),
        (["--engine", "ray", "--keep-questions"], "--keep-questions"),
        (["--count-patterns", "--method", "nuts"], "--count-patterns"),
        (["--count-patterns", "--out-of-fold", "3"], "--count-patterns"),
    ],
)
def test_what_patterns_cannot_do_is_refused_before_any_work(tmp_path, monkeypatch, options, said):
    simulate_observations(5, seed=4).write(tmp_path / "o.parquet")
    monkeypatch.setattr(counted_module, "scan_parquet", lambda *_, **__: pytest.fail("the file was looked through"))
    monkeypatch.setattr(counted_module, "prepare", lambda *_: pytest.fail("the engine was started"))
    line = refuse("fit", tmp_path / "o.parquet", "--out", tmp_path / "f.nc", *options)
    assert said in line
    assert "needs every question" in line


def test_the_size_of_a_file_decides_only_where_nothing_needs_every_question():
    assert _counting(None, "local", "map", 0) is None
    assert _counting(True, "local", "map", 0) is True
    for keeping in ((None, "local", "map", 5), (None, "local", "nuts", 0), (False, "local", "map", 0)):
        assert _counting(*keeping) is False


@pytest.mark.slow
class TestTheCommand:
    @pytest.fixture(scope="class")
    @staticmethod
    def source(tmp_path_factory) -> Path:
        path = tmp_path_factory.mktemp("fit") / "o.parquet"
        simulate_observations(60, seed=4).write(path)
        return path

    def test_a_large_file_is_counted_and_said_to_be(self, tmp_path, source, monkeypatch):
        monkeypatch.setattr(counted_module, "LARGEST_KEPT", 100)
        kept = succeed("fit", source, "--out", tmp_path / "kept.nc", "--out-of-fold", 0, "--keep-questions")
        assert "counted by pattern" not in kept
        printed = succeed("fit", source, "--out", tmp_path / "counted.nc", "--out-of-fold", 0)
        assert "counted by pattern" in one_line(printed)
        assert "learned from 60 questions" in one_line(printed)
        counted, other = (Fit.load(tmp_path / name) for name in ("counted.nc", "kept.nc"))
        pd.testing.assert_frame_equal(counted.parameters(), other.parameters(), rtol=1e-9)
        assert counted.tree.attrs["dataset"] == other.tree.attrs["dataset"] == "simulated"
        assert "learned from 60 questions" in one_line(succeed("show", tmp_path / "counted.nc"))
        succeed("predict", tmp_path / "counted.nc", source, "--out", tmp_path / "p.parquet")
        assert len(pd.read_parquet(tmp_path / "p.parquet")) == 60

    def test_a_figure_of_unseen_questions_is_refused(self, source):
        from analysis.runs.evaluated_run import unseen_questions

        counted = fit_map(read_labelled(source, by_pattern=True), preset="paper")
        with pytest.raises(DirEAGError, match="does not say which"):
            unseen_questions(counted, Observations.read(source), "o")

    def test_an_engine_wants_parquet(self, tmp_path):
        simulate_observations(5, seed=4).write(tmp_path / "o.jsonl")
        said = refuse("fit", tmp_path / "o.jsonl", "--out", tmp_path / "f.nc", "--engine", "ray", "--out-of-fold", 0)
        assert "--engine ray" in said
        assert "not a Parquet file" in said
