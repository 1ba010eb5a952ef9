"""From file to file, here or on a cluster: the same table as for observations in memory, whatever the parts."""

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet

from bayes_direag.data.columns import Columns
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import DirEAGError, LevelError, ObservationError
from bayes_direag.fits import streaming
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.streaming import predict_file, predict_on_ray
from tests.command_line import direag, succeed

Batch = Callable[[pyarrow.Table], pyarrow.Table]
PARQUET = ("o.parquet", "long.parquet")


@pytest.fixture(scope="module")
def observations(panel: Observations) -> Observations:
    """Questions of which one has no observation, and another none of use."""
    silent = Question(problem_id="silent", observations=())
    vague = Observation(level=1, level_name="cautious", answer="some", confidence=50)
    vague = Question(problem_id="vague", observations=(vague,))
    return Observations.from_questions([silent, *panel.questions[:60], vague], answers="numeric")


@pytest.fixture(scope="module")
def sources(observations: Observations, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The questions in every format."""
    folder = tmp_path_factory.mktemp("sources")
    for suffix in ("parquet", "jsonl", "csv"):
        observations.write(folder / f"o.{suffix}")
    observations.to_frame().to_parquet(folder / "long.parquet")
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture
def long(observations: Observations) -> pd.DataFrame:
    return observations.to_frame()


class TestFiles:
    @pytest.mark.parametrize("batch", [6, 100_000])
    @pytest.mark.parametrize("suffix", [".parquet", ".csv"])
    @pytest.mark.parametrize("form", [*PARQUET, "o.jsonl", "o.csv"])
    def test_the_table_is_that_of_observations_in_memory(
        self, tmp_path, monkeypatch, point, observations, sources, form, batch, suffix
    ):
        monkeypatch.setattr(streaming, "BATCH", batch)
        said: list[str] = []
        target, expected = tmp_path / f"p{suffix}", point.predict(observations)
        n_reports = predict_file(point, sources[form], target, on_step=said.append).n_reports
        np.testing.assert_array_equal(n_reports, observations.usable.sum(axis=1))
        if suffix == ".parquet":
            pd.testing.assert_frame_equal(pd.read_parquet(target), expected, rtol=1e-14)
            expected.to_parquet(tmp_path / "theirs.parquet", index=False)
            ours, theirs = (parquet.read_table(tmp_path / name) for name in (target.name, "theirs.parquet"))
            assert ours.schema.equals(theirs.schema)
            assert ours["probability"].null_count == theirs["probability"].null_count == 2
        else:
            table = pd.read_csv(target, dtype={"answer": str})
            np.testing.assert_allclose(table["probability"], expected["probability"], rtol=1e-14)
        if form == "o.parquet":
            assert len(said) == 1 + (11 if batch == 6 else 1)
            assert "predicted 62 questions, " in said[-1]

    def test_a_folder_is_one_table_and_a_posterior_has_its_intervals(self, tmp_path, nuts, folder, panel):
        predict_file(nuts, folder, tmp_path / "p.parquet", interval_level=0.5)
        expected = nuts.predict(panel, interval_level=0.5)
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), expected, rtol=1e-14)

    @pytest.mark.parametrize(
        ("change", "error", "said"),
        [
            ({"level_name": {"cautious": "careful"}}, LevelError, "'careful'"),
            ({"confidence": {80.0: 101.0}}, ObservationError, r"o\.parquet, .*saw 101"),
        ],
    )
    def test_what_cannot_be_used_is_said_and_nothing_is_written(self, tmp_path, point, long, change, error, said):
        long.replace(change).to_parquet(tmp_path / "o.parquet")
        with pytest.raises(error, match=said):
            predict_file(point, tmp_path / "o.parquet", tmp_path / "p.parquet")
        assert [path.name for path in tmp_path.iterdir()] == ["o.parquet"]

    @pytest.mark.parametrize(
        ("content", "error", "said"),
        [
            ("nothing", DirEAGError, "expected a row for each question"),
            ("a text", ObservationError, "in: this Parquet file cannot be read"),
            ("damage", ObservationError, "in: this Parquet file cannot be read .*[Cc]orrupt"),
            ("reports", DirEAGError, "saw .*in with the columns problem_id, .*; expected a row for each question"),
        ],
    )
    def test_folders_that_are_no_questions(self, tmp_path, point, sources, content, error, said):
        (folder := tmp_path / "in").mkdir()
        whole = sources["o.parquet"].read_bytes()
        if content == "reports":
            (folder / "a.parquet").write_bytes(sources["long.parquet"].read_bytes())
        elif content != "nothing":
            damaged = whole[:200] + b"?" * 60 + whole[260:]
            (folder / "a.parquet").write_bytes(damaged if content == "damage" else b"text")
        with pytest.raises(error, match=said):
            predict_file(point, folder, tmp_path / "p.csv")
        assert [path.name for path in tmp_path.iterdir()] == ["in"]

    @pytest.mark.parametrize(("suffix", "level"), [("csv", "prompt"), ("jsonl", "prompt"), ("csv", "level")])
    def test_levels_that_are_names_may_come_in_any_order(self, tmp_path, point, long, suffix, level):
        table = long.drop(columns="level").rename(columns={"level_name": level})
        mixed = table.groupby("problem_id", sort=False).sample(frac=1, random_state=1)
        path, columns = tmp_path / f"o.{suffix}", None if level == "level" else Columns(level=level)
        mixed.to_csv(path, index=False) if suffix == "csv" else mixed.to_json(path, orient="records", lines=True)
        predict_file(point, path, tmp_path / "p.parquet", columns)
        expected = point.predict(Observations.read(path, "numeric", columns))
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), expected, rtol=1e-14)
        assert expected["n_used"].sum() == long["confidence"].notna().sum() - 1

    @pytest.mark.parametrize("form", ["o.parquet", "o.jsonl"])
    def test_a_sample_is_kept_as_if_read_at_once(self, tmp_path, monkeypatch, point, observations, sources, form):
        whole = point.aligned(observations)
        for most in (10_000, 9):
            monkeypatch.setattr(streaming, "LARGEST_SAMPLE", most)
            sample = point.aligned(predict_file(point, sources[form], tmp_path / "p.csv").sample)
            rows = [whole.problem_id.index(name) for name in sample.problem_id]
            assert rows == sorted(rows)
            assert (len(rows), rows == list(range(len(rows)))) == ((62, True) if most > 62 else (9, False))
            np.testing.assert_array_equal(sample.candidate, whole.candidate[rows])
            np.testing.assert_array_equal(sample.confidence, whole.confidence[rows])

    @pytest.mark.parametrize("form", ["o.jsonl", "o.csv", "o.parquet"])
    def test_text_is_read_from_a_pipe_and_parquet_refused_in_a_line(self, tmp_path, observations, point, sources, form):
        point.save(tmp_path / "fit.nc")
        os.mkfifo(tmp_path / "pipe")

        def write() -> None:
            with suppress(BrokenPipeError):
                (tmp_path / "pipe").write_bytes(sources[form].read_bytes())

        writer = threading.Thread(target=write)
        writer.start()
        done = direag("predict", tmp_path / "fit.nc", tmp_path / "pipe", "--out", tmp_path / "p.parquet")
        writer.join()
        if form == "o.parquet":
            assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
            assert "Parquet cannot be read from a pipe" in done.stderr
        else:
            table = pd.read_parquet(tmp_path / "p.parquet")
            pd.testing.assert_frame_equal(table, point.predict(observations), rtol=1e-14)


class TestBatches:
    @pytest.mark.parametrize("kind", ["point", "nuts"])
    @pytest.mark.parametrize("size", [7, 1000])
    @pytest.mark.parametrize("form", PARQUET)
    def test_they_make_the_whole(self, request, observations, sources, form, kind, size):
        fit = pickle.loads(pickle.dumps(request.getfixturevalue(kind)))  # noqa: S301 - our own
        table = parquet.read_table(sources[form])
        names = table["problem_id"].to_pylist()
        starts = [row for row in range(len(names)) if row == 0 or names[row] != names[row - 1]][::size]
        ends = [*starts[1:], table.num_rows]
        predicted = [fit.predict_batch(table[start:end]) for start, end in zip(starts, ends, strict=True)]
        assert {batch.schema for batch in [*predicted, fit.predict_batch(table[:0])]} == {predicted[0].schema}
        expected = fit.predict(observations)
        pd.testing.assert_frame_equal(pyarrow.concat_tables(predicted).to_pandas(), expected, rtol=1e-14)

    @pytest.mark.parametrize("kind", ["point", "nuts"])
    def test_a_fit_that_has_predicted_says_the_same_in_a_process_of_single_precision(self, request, long, kind):
        fit, table = request.getfixturevalue(kind), pyarrow.Table.from_pandas(long)
        expected = fit.predict_batch(table)
        with jax.enable_x64(False):
            there = pickle.loads(pickle.dumps(fit)).predict_batch(table)  # noqa: S301 - our own
        assert there.equals(expected)

    def test_labels_and_foreign_columns_are_not_looked_at(self, point, long):
        table = pyarrow.Table.from_pandas(long.assign(gold_answer=long["level"].astype(str), notes=1))
        predicted = point.predict_batch(table).to_pandas()
        pd.testing.assert_frame_equal(predicted, point.predict(long.drop(columns=["gold_answer"])))


def test_streaming_names_a_missing_ray(tmp_path, monkeypatch):
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


@pytest.fixture
def folder(panel: Observations, tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for number in range(4):
        panel.select(slice(36 * number, 36 * number + 36)).write(tmp_path / "in" / f"{number}.parquet")
    return tmp_path / "in"


def killed_once(predict_batch: Batch, marker: str) -> Batch:
    """Return the same function, whose worker is killed when it first meets the last questions."""

    def predict(table: pyarrow.Table) -> pyarrow.Table:
        if "simulated-4-000143" in table["problem_id"].to_pylist() and not os.path.exists(marker):
            with open(marker, "w") as file:
                file.write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return predict_batch(table)

    return predict


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:os.fork:RuntimeWarning")
@pytest.mark.usefixtures("cluster")
@pytest.mark.xdist_group("ray")
class TestTheClusterOfTwo:
    @pytest.mark.parametrize("kind", ["point", "nuts"])
    def test_predictions_survive_a_killed_worker(self, tmp_path, request, kind, folder, panel):
        fit, marker = request.getfixturevalue(kind), tmp_path / "killed"
        predict_on_ray(killed_once(fit.predict_batch, str(marker)), folder, tmp_path / "out")
        assert int(marker.read_text()) != os.getpid()
        table = parquet.read_table(tmp_path / "out").to_pandas()
        pd.testing.assert_frame_equal(table, fit.predict(panel, warn=False), check_exact=True)

    def test_an_error_in_a_worker_is_the_error_of_this_process(self, tmp_path, point: Fit, folder):
        rows = parquet.read_table(folder / "1.parquet").to_pylist()
        rows[20]["observations"][2]["confidence"] = 101.0
        path = tmp_path / "o.parquet"
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        with pytest.raises(ObservationError) as here:
            point.predict_batch(parquet.read_table(path))
        with pytest.raises(DirEAGError) as there:
            predict_on_ray(point.predict_batch, path, tmp_path / "out")
        assert str(there.value) == str(here.value)
        assert not (tmp_path / "out").exists()

    def test_rows_of_reports_are_refused(self, tmp_path, point: Fit, panel):
        panel.to_frame().to_parquet(tmp_path / "o.parquet")
        with pytest.raises(DirEAGError, match="expected a row for each question"):
            predict_on_ray(point.predict_batch, tmp_path / "o.parquet", tmp_path / "out")

    def test_the_command(self, tmp_path, point: Fit, folder):
        point.save(tmp_path / "fit.nc")
        succeed("predict", tmp_path / "fit.nc", folder, "--out", tmp_path / "out", "--engine", "ray")
        assert len(parquet.read_table(tmp_path / "out")) == 144
