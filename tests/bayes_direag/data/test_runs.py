"""Levels that names say are runs: one group, by every door, unless told otherwise."""

import numpy as np
import pandas as pd
import pytest

from bayes_direag import Fit, Observations, fit_map
from bayes_direag.data.columns import Columns
from bayes_direag.data.runs import form_of_runs, group_of
from bayes_direag.errors import ColumnsWarning, ObservationError
from tests.command_line import one_line, succeed

N = 60


def rows(names=("run0", "run1", "run2"), options: str = "ABCD") -> list[dict[str, object]]:
    """Return the votes of runs that are right in two of three questions."""
    rng, shape = np.random.default_rng(4), (N, len(names))
    gold = rng.integers(len(options), size=N)
    said = np.where(rng.random(shape) < 2 / 3, gold[:, None], rng.integers(len(options), size=shape))
    return [
        {"problem_id": f"q{q}", "level": name, "answer": options[said[q, k]], "gold_answer": options[gold[q]]}
        for q in range(N)
        for k, name in enumerate(names)
    ]


@pytest.mark.parametrize(
    ("levels", "column", "form"),
    [
        (("run0", "run1"), "level", "run{n}"),
        (("Run 1", "Run 12"), "level", "Run {n}"),
        (("sample_0", "sample_1", "vanilla"), "level", "sample_{n}"),
        (("bold_run0", "bold_run1", "shy_run0", "shy_run1", "other"), "level", "{group}_run{n}"),
        (("gpt-4o-2024-05-13 (trial 1)", "gpt-4o-2024-05-13 (trial 2)"), "level", "{group} (trial {n})"),
        (("a/seed=1", "a/seed=2"), "level", "{group}/seed={n}"),
        (("m try 1", "m try 2"), "level", "{group} try {n}"),
        (("level_0", "level_1"), "run", "{n}"),
        (("0", "1"), "run_id", "{n}"),
        (("0", "1"), "sample_idx", "{n}"),
        (("gpt/0", "gpt/1", "llama/0"), "model,run", "{group}/{n}"),
        (("gpt-4o-2024-05-13", "gpt-4o-2024-08-06"), "model", None),
        (("prompt1", "prompt2"), "level", None),
        (("level_0", "level_1"), "level", None),
        (("overrun1", "overrun2"), "level", None),
        (("seed-1.5-vl", "seed-1.6-vl"), "model", None),
        (("bold_run0", "shy_run0"), "level", None),
        (("bold", "bold_run1", "bold_run2"), "level", None),
    ],
)
def test_runs_are_told_by_names(levels, column, form):
    assert form_of_runs(levels, column) == form
    assert form is None or any(group_of(form, level) for level in levels)


VOTES = Columns(confidence=None)
#: As many single levels, and labels, as the judges whose fit other tests share.
FIVE = rows(("run0", "run1", "run2", "run3", "run4"), "AB")


@pytest.fixture(scope="module")
def fit() -> Fit:
    """Return a fit to runs that are one group."""
    return fit_map(Observations.from_records(rows(), "choice", VOTES))


def test_runs_are_one_group(fit, tmp_path):
    observations = Observations.from_records(rows(), "choice", VOTES)
    assert (observations.level_names, observations.groups) == (("run0", "run1", "run2"), ("run",) * 3)
    nested = Observations.from_questions(observations.questions, "choice")
    wide = pd.DataFrame(rows()).pivot_table("answer", "problem_id", "level", aggfunc="first").add_prefix("answer_")
    assert nested.groups == observations.groups
    assert Observations.from_wide(wide.reset_index(), answers="choice", confidence=None).groups == observations.groups
    assert fit.level_names == ("run",)
    for name in ("runs.jsonl", "runs.csv", "runs.parquet"):
        observations.write(tmp_path / name)
        assert Observations.read(tmp_path / name, "choice").groups == observations.groups


def test_runs_alone_and_single_levels_are_read_by_a_fit_as_it_read_its_own(fit, tmp_path):
    records, frame = rows(), pd.DataFrame(rows())
    single = fit_map(Observations.from_records(FIVE, "choice", Columns(confidence=None, groups="none")))
    assert single.level_names == ("run0", "run1", "run2", "run3", "run4")
    one = Observations.from_records(records[1::3], "choice", VOTES)
    assert one.groups is None
    pd.testing.assert_frame_equal(fit.predict(one, warn=False), fit.predict(frame[1::3], warn=False))
    for learned in (fit, single):
        learned.save(tmp_path / "fit.nc")
        loaded, here = Fit.load(tmp_path / "fit.nc"), Observations.from_records(records, "choice", VOTES)
        pd.testing.assert_frame_equal(loaded.predict(frame, warn=False), learned.predict(here, warn=False))
        said = learned.answer([{"level": "run1", "answer": "A"}])
        assert said["answer"] == "A"
    numbered = fit.answer(
        [{"level": "Run 7", "answer": "A"}, {"run": 3, "answer": "A"}, {"level": "run0", "answer": "A"}]
    )
    assert numbered["n_used"] == 3


def test_runs_in_a_column(tmp_path):
    named = [row | {"level": int(str(row["level"])[-1])} for row in rows()]
    runs = [{"run" if name == "level" else name: value for name, value in row.items()} for row in named]
    observations = Observations.from_frame(pd.DataFrame(runs), level="run", confidence=None)
    assert observations.groups == ("runs",) * 3
    assert Observations.from_frame(pd.DataFrame(runs), level="run", confidence=None, groups="none").groups is None
    frame = pd.DataFrame(runs).assign(model="small", confidence=50.0)
    both = pd.concat([frame, frame.assign(model="large")])
    observations = Observations.from_frame(both, level="model")
    assert observations.level_names == ("small/0", "small/1", "small/2", "large/0", "large/1", "large/2")
    assert observations.groups == ("small",) * 3 + ("large",) * 3
    both.to_csv(tmp_path / "runs.csv", index=False)
    assert Observations.read(tmp_path / "runs.csv", columns=Columns(level="model")).groups == observations.groups
    with pytest.warns(ColumnsWarning, match="by what is in it: level model"):
        assert Observations.from_frame(both).groups == observations.groups
    alone = Observations.from_frame(both[both["run"] == 1], level="model")
    assert (alone.level_names, alone.groups) == (("small", "large"), None)
    with pytest.raises(ObservationError, match="this level occurs twice"):
        Observations.from_frame(pd.concat([both, both]), level="model")


def test_numbered_columns_side_by_side_are_runs():
    frame = pd.DataFrame(rows(range(1, 11))).pivot_table("answer", "problem_id", "level", aggfunc="first")
    wide = frame.add_prefix("answer_").reset_index()
    for columns, groups in (({}, ("runs",) * 10), ({"groups": "none"}, None)):
        assert Observations.from_wide(wide, answers="choice", confidence=None, **columns).groups == groups


def test_runs_by_names_and_reports_are_undone_by_a_form_and_none():
    stated = [row | {"group": "g"} for row in rows()]
    numbered = [row | {"level": int(str(row["level"])[-1])} for row in rows()]
    released = [{"problem_id": "a", "samples": [{"pred_answer_norm": "1", "confidence": 9}] * 2}]  # levels, as there
    for records, groups, expected in (
        (rows(), "none", None),
        (stated, "none", None),
        (stated, None, ("g",) * 3),
        (numbered, None, None),
        (numbered, "{n}", ("runs",) * 3),
        (released, None, None),
    ):
        observations = Observations.from_records(records, "choice", Columns(confidence=None, groups=groups))
        assert observations.groups == expected


def test_fit_says_it_in_a_line(tmp_path):
    ask = ("fit", tmp_path / "runs.csv", "--out", tmp_path / "fit.nc", "--column", "confidence=")
    pd.DataFrame(rows()).to_csv(tmp_path / "runs.csv", index=False)
    said = one_line(succeed(*ask))
    assert "taken for runs, each group as one level: run (3). With --groups none (groups='none')" in said
    pd.DataFrame(FIVE).to_csv(tmp_path / "runs.csv", index=False)
    assert "taken for runs" not in one_line(succeed(*ask, "--groups", "none"))
