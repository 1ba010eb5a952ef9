"""How labelled questions are read is said once: by the fit, and what it says again by an option counts."""

from pathlib import Path

import pandas as pd
import pytest

from bayes_direag.data.columns import WIDE, Columns
from bayes_direag.data.observations import Observations
from bayes_direag.errors import ArgumentError, ObservationError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import fit_map
from bayes_direag.fits.sources import observations_of
from tests.command_line import refuse, succeed

NAMES = {"question": "id", "level": "prompt", "confidence": "sure", "gold": "truth"}


def predicted(fit: Path, source: Path, *options: object) -> pd.DataFrame:
    target = fit.parent / "p.parquet"
    succeed("predict", fit, source, "--out", target, *options)
    return pd.read_parquet(target)


@pytest.fixture(scope="module")
def theirs(simulated: Observations) -> pd.DataFrame:
    """Return a table under other names, with fractions."""
    names = {"problem_id": "id", "level_name": "prompt", "confidence": "sure", "gold_answer": "truth"}
    frame = simulated.to_frame().drop(columns="level").rename(columns=names)
    return frame.assign(sure=frame["sure"] / 100)


@pytest.fixture(scope="module")
def path(theirs: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a fit to them."""
    observations = Observations.from_frame(theirs, **NAMES, scale="fraction")
    target = tmp_path_factory.mktemp("fit") / "fit.nc"
    fit_map(observations.select(slice(0, 80))).save(target)
    return target


@pytest.mark.parametrize("missing", [["truth", "correct"], ["truth"], []], ids=["unlabelled", "flagged", "labelled"])
def test_sources_are_read_as_the_fitted_questions_were(missing, path, theirs, simulated, tmp_path) -> None:
    """Labels of new questions may be missing."""
    fit, new = Fit.load(path), theirs.drop(columns=missing)
    assert fit.columns == Columns(**NAMES, scale="fraction")
    expected = fit.predict(simulated).rename(columns={"problem_id": "id"})
    new.to_csv(tmp_path / "new.csv", index=False)
    new.to_parquet(tmp_path / "new.parquet", index=False)
    new.to_json(tmp_path / "new.jsonl", orient="records", lines=True)
    for source in (new, tmp_path / "new.csv", new.astype(object).to_dict("records")):
        pd.testing.assert_frame_equal(fit.predict(source), expected)
    for number, suffix in enumerate(("csv", "parquet", "jsonl")):
        again = ("--column", "gold=truth") if (number + len(missing)) % 2 else ()  # each suffix is read both ways
        pd.testing.assert_frame_equal(predicted(path, tmp_path / f"new.{suffix}", *again), expected)


def test_sources_are_read_as_is_said_again(path: Path, simulated: Observations, tmp_path: Path) -> None:
    ours, named = tmp_path / "o.csv", ("--column", "confidence=confidence")
    simulated.to_frame().rename(columns={"problem_id": "id", "level_name": "prompt"}).to_csv(ours, index=False)
    for options, said in (((), "no column sure"), (named, "not on the scale fraction")):
        assert said in refuse("predict", path, ours, "--out", tmp_path / "p.parquet", *options)
    expected = Fit.load(path).predict(simulated).rename(columns={"problem_id": "id"})
    pd.testing.assert_frame_equal(predicted(path, ours, *named, "--scale", "percent"), expected)


def test_sources_of_fractions_are_answered_in_fractions(path: Path, simulated: Observations) -> None:
    fit = Fit.load(path)
    for question, expected in zip(simulated.questions[:9], fit.predict(simulated)["probability"], strict=False):
        reports = [report.model_dump() for report in question.observations]
        stated = [report | {"confidence": report["confidence"] / 100} for report in reports]
        assert fit.answer(stated)["probability"] == pytest.approx(expected, rel=1e-12)
        as_percent = [report | {"confidence": f"{report['confidence']}%"} for report in reports]
        assert fit.answer(as_percent)["probability"] == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ObservationError, match="not on the scale fraction"):
        fit.answer(reports)


def test_sources_of_groups_of_runs_in_a_row_a_question(simulated: Observations, tmp_path: Path) -> None:
    frame = simulated.to_frame()
    order = dict(zip(simulated.level_names, ("a_run0", "a_run1", "b", "c_run0", "c_run1"), strict=True))
    table = frame.assign(level=frame["level_name"].map(order), confidence=frame["confidence"] / 100)
    wide = table.set_index(["problem_id", "level"])[["answer", "confidence"]].unstack()  # noqa: PD010
    wide.columns = [f"{field}_{level}" for field, level in wide.columns]
    wide["gold_answer"] = frame.groupby("problem_id")["gold_answer"].first()
    wide, path = wide.reset_index(), tmp_path / "fit.nc"
    wide.to_csv(tmp_path / "o.csv", index=False, sep=";")
    asked = ("--scale", "fraction", "--groups", "{group}_run{n}")
    succeed("fit", tmp_path / "o.csv", "--out", path, *asked)
    fit = Fit.load(path)
    columns = Columns(**WIDE, scale="fraction", groups="{group}_run{n}")
    assert (fit.level_names, fit.columns) == (("a", "b", "c"), columns)
    expected = fit.predict(wide)
    pd.testing.assert_frame_equal(fit.predict(wide.drop(columns="gold_answer")), expected)
    pd.testing.assert_frame_equal(predicted(path, tmp_path / "o.csv"), expected)
    only_b = wide[["problem_id", "answer_b", "confidence_b"]]
    assert (fit.predict(only_b, warn=False)["n_used"] <= 1).all()
    rows = table[table["problem_id"] == expected["problem_id"].iloc[0]].astype(object)
    reports = rows[["level", "answer", "confidence"]].where(rows.notna(), None).to_dict("records")
    assert fit.answer(reports)["probability"] == pytest.approx(expected["probability"].iloc[0], rel=1e-12)
    with pytest.raises(ObservationError, match="this level occurs twice"):
        fit.answer([reports[0], reports[0]])


def test_sources_that_are_no_observations_are_refused() -> None:
    with pytest.raises(ArgumentError, match="predict: saw int; expected Observations, a path, a DataFrame in long"):
        observations_of(3, "numeric", None)
