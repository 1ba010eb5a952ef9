"""Ray gives what this process gives, also when a worker is killed at its work."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
from typer.testing import CliRunner

from bayes_direag.cli import app
from bayes_direag.data import parquet
from bayes_direag.data.counted import count_parquet
from bayes_direag.data.engines import Job, Span, prepare, run_on_ray
from bayes_direag.errors import DirEAGError, ObservationError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map
from bayes_direag.fits.streaming import predict_parquet
from bayes_direag.model.simulate import simulate_observations

ROWS = 200


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    simulate_observations(3, seed=1).write(tmp_path / "o.parquet")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DirEAGError, match=r"Install it: pip install '\.\[ray\]'"):
        prepare("ray", tmp_path / "o.parquet")
    with pytest.raises(DirEAGError, match="Install it"):
        count_parquet(tmp_path / "o.parquet", engine="ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster of two workers on this machine."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 2000 rows in row groups of 128, which cut questions in two."""
    path = tmp_path_factory.mktemp("ray") / "o.parquet"
    simulate_observations(400, seed=6).write(path)
    table = pd.read_parquet(path)
    table.to_parquet(path, row_group_size=128, index=False)
    return path


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fit_map(simulate_observations(100, seed=7))


@pytest.fixture
def small_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROWS_AT_ONCE", ROWS)


def killed_once(job: Job, marker: Path) -> Job:
    """Return the same job, whose worker is killed when it is first in the middle of the file."""

    def work(span: Span | None) -> Iterator[pyarrow.Table]:
        for table in job(span):
            if span is not None and span.start > 3 * ROWS and not marker.exists():
                marker.write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            yield table

    return work


@pytest.fixture
def a_worker_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    marker = tmp_path / "killed"
    monkeypatch.setattr(parquet, "run_on_ray", lambda job, spans: run_on_ray(killed_once(job, marker), spans))

    def check() -> None:
        assert int(marker.read_text()) != os.getpid()

    return check


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:os.fork:RuntimeWarning")
@pytest.mark.usefixtures("cluster", "small_spans")
class TestTheClusterOfTwo:
    @pytest.mark.parametrize("kind", ["fit", "nuts"])
    def test_predictions_survive_a_killed_worker(self, tmp_path, request, kind, source, a_worker_dies):
        found = [tmp_path / f"{engine}.parquet" for engine in ("local", "ray")]
        for engine, target in zip(("local", "ray"), found, strict=True):
            assert predict_parquet(request.getfixturevalue(kind), source, target, engine=engine) == (400, 0)
        a_worker_dies()
        pd.testing.assert_frame_equal(*map(pd.read_parquet, found), rtol=0, atol=1e-12)

    def test_counts_survive_a_killed_worker(self, source, a_worker_dies):
        here, there = count_parquet(source), count_parquet(source, engine="ray")
        a_worker_dies()
        assert here.fingerprint == there.fingerprint
        np.testing.assert_array_equal(here.multiplicity, there.multiplicity)
        pd.testing.assert_frame_equal(
            *(fit_map(one, preset="paper").parameters() for one in (here, there)), rtol=0, atol=1e-12
        )

    def test_an_error_in_a_worker_is_the_error_of_this_process(self, tmp_path, fit, source):
        table = pd.read_parquet(source)
        table.loc[1500, "confidence"] = 101.0
        path = tmp_path / "o.parquet"
        table.to_parquet(path, row_group_size=128, index=False)
        with pytest.raises(ObservationError) as here:
            predict_parquet(fit, path, tmp_path / "p.parquet")
        with pytest.raises(DirEAGError) as there:
            predict_parquet(fit, path, tmp_path / "p.parquet", engine="ray")
        assert str(there.value) == str(here.value)
        assert list(tmp_path.iterdir()) == [path]

    def test_the_commands(self, tmp_path, source):
        for arguments in (
            ["fit", source, "--out", tmp_path / "fit.nc", "--engine", "ray", "--out-of-fold", 0],
            ["predict", tmp_path / "fit.nc", source, "--out", tmp_path / "p.parquet", "--engine", "ray"],
        ):
            done = CliRunner().invoke(app, [str(argument) for argument in arguments])
            assert done.exit_code == 0, done.output
        assert Fit.load(tmp_path / "fit.nc").n_questions == len(pd.read_parquet(tmp_path / "p.parquet")) == 400
