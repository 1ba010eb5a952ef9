"""Ray gives what this process gives, also when a worker is killed at its work."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from bayes_direag.cli import app
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError, ObservationError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map
from bayes_direag.fits.ray_engine import predict_on_ray
from bayes_direag.model.simulate import simulate_observations


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DirEAGError, match=r"Install it: pip install '\.\[ray\]'"):
        predict_on_ray(lambda table: table, tmp_path, tmp_path / "out")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster of two workers on this machine."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def observations() -> Observations:
    return simulate_observations(400, seed=6)


@pytest.fixture(scope="module")
def source(observations: Observations, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("in")
    for number in range(4):
        observations.select(slice(100 * number, 100 * number + 100)).write(folder / f"{number}.parquet")
    return folder


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fit_map(simulate_observations(100, seed=7))


def killed_once(
    predict_batch: Callable[[pyarrow.Table], pyarrow.Table], marker: str
) -> Callable[[pyarrow.Table], pyarrow.Table]:
    """Return the same function, whose worker is killed when it first meets the last questions."""

    def predict(table: pyarrow.Table) -> pyarrow.Table:
        if "simulated-6-000399" in table["problem_id"].to_pylist() and not os.path.exists(marker):
            with open(marker, "w") as file:
                file.write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return predict_batch(table)

    return predict


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:os.fork:RuntimeWarning")
@pytest.mark.usefixtures("cluster")
class TestTheClusterOfTwo:
    @pytest.mark.parametrize("kind", ["fit", "nuts"])
    def test_predictions_survive_a_killed_worker(self, tmp_path, request, kind, source, observations):
        fit = request.getfixturevalue(kind)
        marker = tmp_path / "killed"
        predict_on_ray(killed_once(fit.predict_batch, str(marker)), source, tmp_path / "out")
        assert int(marker.read_text()) != os.getpid()
        found = parquet.read_table(tmp_path / "out").to_pandas()
        pd.testing.assert_frame_equal(found, fit.predict(observations), check_exact=True)

    def test_an_error_in_a_worker_is_the_error_of_this_process(self, tmp_path, fit, source):
        rows = parquet.read_table(source / "1.parquet").to_pylist()
        rows[50]["observations"][2]["confidence"] = 101.0
        path = tmp_path / "o.parquet"
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        with pytest.raises(ObservationError) as here:
            fit.predict_batch(parquet.read_table(path))
        with pytest.raises(DirEAGError) as there:
            predict_on_ray(fit.predict_batch, path, tmp_path / "out")
        assert str(there.value) == str(here.value)
        assert list(tmp_path.iterdir()) == [path]

    def test_rows_of_reports_are_refused(self, tmp_path, fit, observations):
        observations.to_frame().to_parquet(tmp_path / "o.parquet")
        with pytest.raises(DirEAGError, match="expected a row for each question"):
            predict_on_ray(fit.predict_batch, tmp_path / "o.parquet", tmp_path / "out")

    def test_the_command(self, tmp_path, fit, source):
        fit.save(tmp_path / "fit.nc")
        arguments = ["predict", tmp_path / "fit.nc", source, "--out", tmp_path / "out", "--engine", "ray"]
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert done.exit_code == 0, done.output
        assert len(parquet.read_table(tmp_path / "out")) == 400
