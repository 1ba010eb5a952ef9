"""What has to be known of a whole file, and where it can be cut."""

import numpy as np
import pandas as pd
import pytest

from bayes_direag.data import parquet
from bayes_direag.data import survey as survey_module
from bayes_direag.data.engines import Span
from bayes_direag.data.observations import Observations
from bayes_direag.data.survey import survey
from bayes_direag.errors import ObservationError
from tests.bayes_direag.long_tables import long_table, written


def rows_of(n_questions: int, n_levels: int = 3) -> pd.DataFrame:
    number = np.arange(n_questions * n_levels)
    return pd.DataFrame(
        {
            "problem_id": [f"q{i // n_levels}" for i in number],
            "level": number % n_levels,
            "answer": "7",
            "confidence": 50.0,
            "gold_answer": "7",
        }
    )


@pytest.mark.parametrize("rows_at_once", [2, 7, 1000])
def test_spans_hold_whole_questions_and_all_of_them(tmp_path, monkeypatch, rows_at_once):
    monkeypatch.setattr(parquet, "ROWS_AT_ONCE", rows_at_once)
    path = written(rows_of(20), tmp_path / "o.parquet", row_group=8)
    found = survey(path, "numeric", labels=False)
    # a question has 3 rows and a row group 8: the first question to begin in each
    assert found.cuts == (0, 9, 18, 24, 33, 42, 48, 57)
    assert found.spans(1) == [Span(*pair) for pair in zip(found.cuts, [*found.cuts[1:], 60], strict=True)]
    assert found.spans(20) == [Span(0, 24), Span(24, 48), Span(48, 60)]
    assert found.spans(24) == [Span(0, 24), Span(24, 48), Span(48, 60)]
    assert found.spans(1000) == [Span(0, 60)]
    seen = [part for span in found.spans(1) for part in parquet.parts(path, ("problem_id",), span)]
    assert np.concatenate([part.line for part in seen]).tolist() == list(range(1, 61))
    assert [name for part in seen for name in part.problem_id.to_pylist()] == [f"q{number}" for number in range(20)]


def test_rows_apart_are_refused_where_they_are_too_many_to_sort(tmp_path, monkeypatch):
    path = written(rows_of(20).sort_values("level", kind="stable"), tmp_path / "o.parquet")
    assert not survey(path, "numeric", labels=False).together
    monkeypatch.setattr(survey_module, "LARGEST_REGROUPED", 59)
    with pytest.raises(ObservationError) as caught:
        survey(path, "numeric", labels=False)
    assert (caught.value.line, caught.value.seen) == (21, "q0")
    assert "ORDER BY problem_id" in str(caught.value)


@pytest.mark.parametrize(
    ("golds", "kind"), [(["7", "8"], "numeric"), (["A", "b"], "choice"), (["7", "A"], "text"), (["A", "rome"], "text")]
)
def test_the_kind_is_what_all_gold_answers_show(tmp_path, monkeypatch, golds, kind):
    monkeypatch.setattr(parquet, "ROWS_AT_ONCE", 3)
    table = rows_of(20)
    table["gold_answer"] = [golds[0]] * 30 + [golds[1]] * 30
    path = written(table, tmp_path / "o.parquet")
    assert survey(path, None, labels=True).kind == Observations.read(path).kind == kind


def test_no_rows_and_no_column(tmp_path):
    with pytest.raises(ObservationError, match="no questions"):
        survey(written(rows_of(1)[:0], tmp_path / "o.parquet"), "numeric", labels=False)
    with pytest.raises(ObservationError, match="no column level"):
        survey(written(rows_of(1).drop(columns="level"), tmp_path / "o.parquet"), "numeric", labels=False)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ObservationError, match="cannot be read"):
        survey(tmp_path / "broken.parquet", "numeric", labels=False)


def test_a_level_is_first_met_where_it_is_reported_named_or_not(tmp_path):
    table = rows_of(4)
    table["level_name"] = [None] * 6 + ["low", "mid", "high"] * 2
    found = survey(written(table.drop(index=1), tmp_path / "o.parquet"), "numeric", labels=False)
    assert (found.levels, found.lines) == ({0: "low", 1: "mid", 2: "high"}, {"low": 1, "mid": 3, "high": 1})


def test_datasets_are_named(tmp_path):
    path = written(long_table("numeric", seed=4), tmp_path / "o.parquet")
    assert set(survey(path, None, labels=True).datasets.split(", ")) == {"first", "second"}
