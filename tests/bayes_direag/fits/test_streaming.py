"""From file to file: the same table as for observations in memory, whatever the parts."""

import os
import pickle
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
from click.testing import Result
from pyarrow import parquet

from bayes_direag.data.columns import Columns
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import LevelError, ObservationError
from bayes_direag.fits import streaming
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map
from bayes_direag.fits.streaming import predict_file
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
def sources(observations: Observations, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The questions in every format."""
    folder = tmp_path_factory.mktemp("sources")
    for suffix in ("parquet", "jsonl", "csv"):
        observations.write(folder / f"o.{suffix}")
    observations.to_frame().to_parquet(folder / "long.parquet")
    return {path.name: path for path in folder.iterdir()}


PARQUET = ("o.parquet", "long.parquet")


@pytest.fixture
def long(observations: Observations) -> pd.DataFrame:
    return observations.to_frame()


@pytest.mark.parametrize("batch", [6, 100_000])
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("form", [*PARQUET, "o.jsonl", "o.csv"])
def test_the_table_is_that_of_observations_in_memory(
    tmp_path, monkeypatch, fit, observations, sources, form, batch, suffix
):
    monkeypatch.setattr(streaming, "BATCH", batch)
    said: list[str] = []
    target = tmp_path / f"p{suffix}"
    n_reports = predict_file(fit, sources[form], target, on_step=said.append).n_reports
    np.testing.assert_array_equal(n_reports, observations.usable.sum(axis=1))
    expected = fit.predict(observations)
    if suffix == ".parquet":
        found = pd.read_parquet(target)
        pd.testing.assert_frame_equal(found, expected, rtol=1e-14)
        expected.to_parquet(tmp_path / "theirs.parquet", index=False)
        ours, theirs = (parquet.read_schema(tmp_path / name) for name in (target.name, "theirs.parquet"))
        assert ours.equals(theirs)
        nulls = parquet.read_table(target)["probability"].null_count
        assert nulls == parquet.read_table(tmp_path / "theirs.parquet")["probability"].null_count == 2
    else:
        found = pd.read_csv(target, dtype={"answer": str})
        np.testing.assert_allclose(found["probability"], expected["probability"], rtol=1e-14)
    if form == "o.parquet":
        assert len(said) == 1 + (11 if batch == 6 else 1)
        assert "predicted 62 questions, " in said[-1]


def test_a_posterior_has_its_intervals(tmp_path, nuts, labelled):
    labelled.write(tmp_path / "o.parquet")
    predict_file(nuts, tmp_path / "o.parquet", tmp_path / "p.parquet", interval_level=0.5)
    expected = nuts.predict(labelled, interval_level=0.5)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), expected, rtol=1e-14)


def test_levels_go_by_name(tmp_path, fit, long):
    long["level"] = 7 - long["level"]
    table = long[long["level_name"] != "vanilla"].copy()
    table.to_parquet(tmp_path / "o.parquet")
    predict_file(fit, tmp_path / "o.parquet", tmp_path / "p.parquet")
    expected = fit.predict(Observations.read(tmp_path / "o.parquet", "numeric"))
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), expected, rtol=1e-14)
    table["level_name"] = table["level_name"].replace("cautious", "careful")
    table.to_parquet(tmp_path / "o.parquet")
    with pytest.raises(LevelError) as known:
        fit.predict(Observations.read(tmp_path / "o.parquet", "numeric"))
    with pytest.raises(LevelError) as caught:
        predict_file(fit, tmp_path / "o.parquet", tmp_path / "q.parquet")
    assert str(caught.value) == str(known.value)


def test_fractions_are_refused_and_nothing_is_written(tmp_path, fit, long):
    long["confidence"] /= 100
    long.to_parquet(tmp_path / "o.parquet")
    with pytest.raises(ObservationError, match=r"o\.parquet, .*confidences are at most 1, so they look like fractions"):
        predict_file(fit, tmp_path / "o.parquet", tmp_path / "p.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["o.parquet"]


def test_a_folder_is_one_table(tmp_path, fit, observations):
    (tmp_path / "in").mkdir()
    for number in range(2):
        observations.select(slice(31 * number, 31 * number + 31)).write(tmp_path / "in" / f"{number}.parquet")
    predict_file(fit, tmp_path / "in", tmp_path / "p.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), fit.predict(observations), rtol=1e-14)


@pytest.mark.parametrize(("suffix", "level"), [("csv", "prompt"), ("jsonl", "prompt"), ("csv", "level")])
def test_levels_that_are_names_may_come_in_any_order(tmp_path, long, suffix, level):
    table = long.drop(columns="level").rename(columns={"level_name": level})
    mixed = table.groupby("problem_id", sort=False).sample(frac=1, random_state=1)
    path, columns = tmp_path / f"o.{suffix}", None if level == "level" else Columns(level=level)
    mixed.to_csv(path, index=False) if suffix == "csv" else mixed.to_json(path, orient="records", lines=True)
    fit = fit_map(Observations.read(path, "numeric", columns))
    predict_file(fit, path, tmp_path / "p.parquet", columns)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), fit.predict(mixed), rtol=1e-14)


@pytest.mark.parametrize("form", ["o.parquet", "o.jsonl"])
def test_a_sample_is_kept_as_if_read_at_once(tmp_path, monkeypatch, fit, observations, sources, form):
    whole = fit.aligned(observations)
    sample = fit.aligned(predict_file(fit, sources[form], tmp_path / "p.csv").sample)
    assert sample.problem_id == whole.problem_id
    np.testing.assert_array_equal(sample.candidate, whole.candidate)
    np.testing.assert_array_equal(sample.confidence, whole.confidence)
    monkeypatch.setattr(streaming, "LARGEST_SAMPLE", 9)
    drawn = fit.aligned(predict_file(fit, sources[form], tmp_path / "p.csv").sample)
    place = [whole.problem_id.index(name) for name in drawn.problem_id]
    assert len(place) == 9
    assert place == sorted(place) != list(range(9))
    np.testing.assert_array_equal(drawn.candidate, whole.candidate[place])


class TestPipes:
    @pytest.fixture
    def predicted(self, tmp_path: Path, fit: Fit) -> Callable[[bytes], Result]:
        """Predict from a pipe with this content."""
        fit.save(tmp_path / "fit.nc")
        os.mkfifo(tmp_path / "pipe")

        def predicted(content: bytes) -> Result:
            def write() -> None:
                with suppress(BrokenPipeError):
                    (tmp_path / "pipe").write_bytes(content)

            writer = threading.Thread(target=write)
            writer.start()
            done = direag("predict", tmp_path / "fit.nc", tmp_path / "pipe", "--out", tmp_path / "p.parquet")
            writer.join()
            return done

        return predicted

    @pytest.mark.parametrize("form", ["o.jsonl", "o.csv"])
    def test_text_is_read(self, tmp_path, observations, fit, sources, predicted, form):
        done = predicted(sources[form].read_bytes())
        assert done.exit_code == 0, done.output
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), fit.predict(observations), rtol=1e-14)

    def test_parquet_is_refused_in_one_line(self, sources, predicted):
        done = predicted(sources["o.parquet"].read_bytes())
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
        assert "Parquet cannot be read from a pipe" in done.stderr


class TestBatches:
    @pytest.mark.parametrize("kind", ["fit", "nuts"])
    @pytest.mark.parametrize("size", [7, 1000])
    @pytest.mark.parametrize("form", PARQUET)
    def test_batches_make_the_whole(self, request, observations, sources, form, kind, size):
        fit = pickle.loads(pickle.dumps(request.getfixturevalue(kind)))  # noqa: S301 - our own
        table = parquet.read_table(sources[form])
        whole = fit.predict(observations)
        starts = range(0, table.num_rows, size)
        if "observations" not in table.column_names:
            names = table["problem_id"].to_pylist()
            starts = [row for row in range(len(names)) if row == 0 or names[row] != names[row - 1]][::size]
        ends = [*starts[1:], table.num_rows]
        found = [fit.predict_batch(table[start:end]) for start, end in zip(starts, ends, strict=True)]
        assert {batch.schema for batch in [*found, fit.predict_batch(table[:0])]} == {found[0].schema}
        pd.testing.assert_frame_equal(pyarrow.concat_tables(found).to_pandas(), whole, rtol=1e-14)

    def test_labels_and_foreign_columns_are_not_looked_at(self, fit, long):
        table = pyarrow.Table.from_pandas(long.assign(gold_answer=long["level"].astype(str), notes=1))
        predicted = fit.predict_batch(table).to_pandas()
        pd.testing.assert_frame_equal(predicted, fit.predict(long.drop(columns=["gold_answer"])))
