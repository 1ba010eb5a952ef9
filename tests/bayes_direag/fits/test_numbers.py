"""Numbers of the questions, which a model of one's own may read."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pyarrow
import pytest

from bayes_direag import Fit, LikelihoodData, Observations, cross_fit, fit_map, fit_nuts
from bayes_direag.data.columns import Columns
from bayes_direag.errors import DirEAGError, ObservationError
from bayes_direag.fits.streaming import predict_file
from bayes_direag.model.evidence import draw_states, sums_by_answer
from tests.command_line import refuse, succeed

RNG = np.random.default_rng(4)
EASE = RNG.normal(size=120)
RECORDS: list[dict[str, Any]] = [
    {
        "problem_id": f"q{row}",
        "gold_answer": "A" if RNG.random() < 1 / (1 + np.exp(-2 * ease)) else "B",
        "numbers": {"ease": ease, "words": row % 5},
        "observations": [{"level": level, "level_name": f"m{level}", "answer": "A"} for level in range(2)],
    }
    for row, ease in enumerate(EASE.tolist())
]
QUESTIONS = Observations.from_records(RECORDS, "choice")
NEW = {name: RECORDS[0][name] for name in ("problem_id", "observations")}


def eased(data: LikelihoodData) -> None:
    rate, effect = numpyro.sample("rate", dist.Normal(0, 1)), numpyro.sample("effect", dist.Normal(0, 2))
    votes = sums_by_answer(data.usable, data.candidate)
    draw_states(data, (rate + effect * data.numbers["ease"])[None] * votes, jnp.zeros(len(data.weight)))


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fit_map(QUESTIONS.select(slice(0, 90)), preset=eased)


def reports() -> pd.DataFrame:
    """Return the questions as a table of reports in which the numbers are called by names of its own."""
    return pd.DataFrame([
        {"problem_id": row["problem_id"], "level": report["level_name"], "answer": report["answer"],
         "gold_answer": row["gold_answer"], **row["numbers"]}
        for row in RECORDS for report in row["observations"]
    ])  # fmt: skip


def test_numbers_are_read_written_and_selected_by_every_door(tmp_path: Path) -> None:
    assert QUESTIONS.numbers.keys() == {"ease", "words"}
    np.testing.assert_array_equal(QUESTIONS.numbers["ease"], EASE)
    np.testing.assert_array_equal(QUESTIONS[5:9].numbers["words"], [0, 1, 2, 3])
    assert replace(QUESTIONS, numbers={}).fingerprint != QUESTIONS.fingerprint
    names = {"confidence": None, "numbers": ["ease", "words"]}
    reports().to_csv(tmp_path / "theirs.csv", index=False)
    reports().to_parquet(tmp_path / "theirs.parquet")
    again = [
        Observations.from_frame(table, answers="choice", **names) for table in (reports(), pyarrow.table(reports()))
    ]
    theirs = [
        Observations.read(tmp_path / f"theirs.{suffix}", "choice", Columns(**names)) for suffix in ("csv", "parquet")
    ]
    for suffix in ("csv", "parquet", "jsonl"):
        QUESTIONS.write(tmp_path / f"ours.{suffix}")
        again.append(Observations.read(tmp_path / f"ours.{suffix}", "choice"))
    rows = [{**row, **report} for row in RECORDS for report in row["observations"]]
    rows = [{name: row[name] for name in row if name != "observations"} for row in rows]
    again += [
        Observations.from_frame(QUESTIONS.to_frame(), answers="choice"),
        Observations.from_records(rows, "choice", Columns(confidence=None)),
    ]
    wide = reports().drop(columns=["level"]).drop_duplicates("problem_id").rename(columns={"answer": "m0"})
    wide["m1"] = "A"
    form = {"answer": "{level}", "levels": ["m0", "m1"], **names}
    again.append(Observations.from_wide(wide, answers="choice", **form))
    for observations in (*again, *theirs):
        assert observations.fingerprint == QUESTIONS.fingerprint


def test_numbers_that_are_missing_are_nan_and_wrong_ones_are_named() -> None:
    some = [RECORDS[0], RECORDS[1] | {"numbers": {"ease": None}}, RECORDS[2] | {"numbers": None}]
    np.testing.assert_array_equal(Observations.from_records(some).numbers["ease"], [EASE[0], np.nan, np.nan])
    for numbers, said in [
        ({"ease": "long"}, "line 1, field numbers.ease: .*saw 'long'; expected a number, or null"),
        ({"ease": float("inf")}, "field numbers.ease: .*saw inf; expected a number"),
        ([3], r"field numbers: .*saw \[3\]; expected names with numbers"),
        (5, "field numbers: .*saw 5; expected names with numbers"),
        ({"": 3}, "field numbers: .*expected names with numbers"),
    ]:
        with pytest.raises(ObservationError, match=said):
            Observations.from_records([RECORDS[0] | {"numbers": numbers}])
    table = reports()
    table.loc[1, "ease"] = 7.0
    with pytest.raises(ObservationError, match=r"field ease: question 'q0' has .* in an earlier row; saw 7"):
        Observations.from_frame(table, confidence=None, numbers=["ease"])
    with pytest.raises(ObservationError, match="the table has no column length"):
        Observations.from_frame(table, confidence=None, numbers=["length"])
    with pytest.raises(ObservationError, match="questions have no number length"):
        Observations.from_records(RECORDS, columns=Columns(numbers=["length"]))
    with pytest.raises(DirEAGError, match="numbers='ease': expected a list of columns"):
        Columns(numbers="ease")


def test_program_learns_from_a_number_and_predicts_by_it(fit: Fit, tmp_path: Path) -> None:
    new, effect = QUESTIONS.select(slice(90, 120)), fit.tree["posterior"]
    odds = 2 * (effect["rate"].item() + effect["effect"].item() * EASE[90:])
    expected = fit.predict(new)
    np.testing.assert_allclose(expected["support"], 1 / (1 + np.exp(-odds)))
    assert effect["effect"].item() > 0.5
    fit.save(tmp_path / "fit.nc")
    again = Fit.load(tmp_path / "fit.nc", preset=eased)
    for name in ("new.csv", "new.jsonl", "new.parquet"):
        new.write(tmp_path / name)
        predict_file(again, tmp_path / name, tmp_path / "predicted.parquet")
        table = pd.read_parquet(tmp_path / "predicted.parquet")
        pd.testing.assert_frame_equal(table, expected, check_dtype=False)
    held_out = cross_fit(QUESTIONS, preset=eased, n_folds=3)
    assert np.corrcoef(held_out[0].predictions["support"], EASE[held_out[0].index])[0, 1] > 0.8


@pytest.mark.slow
def test_nuts_of_a_program_with_a_number_agrees_with_its_mode() -> None:
    short = {"num_chains": 2, "num_warmup": 100, "num_samples": 200}
    draws = fit_nuts(QUESTIONS, preset=eased, **short).tree["posterior"]["effect"]
    mode = fit_map(QUESTIONS, preset=eased).tree["posterior"]["effect"].item()
    assert abs(draws.mean().item() - mode) < draws.std().item()


def test_program_without_its_number_is_refused_before_it_is_fitted_and_where_it_predicts(fit: Fit) -> None:
    without = [{name: row[name] for name in row if name != "numbers"} for row in RECORDS]
    asked = "reads the number 'ease' of each question; saw none; expected"
    with pytest.raises(DirEAGError, match=asked):
        fit_map(Observations.from_records(without), preset=eased)
    with pytest.raises(DirEAGError, match=asked):
        fit.predict([NEW])
    with pytest.raises(DirEAGError, match="question 2 are no numbers, and its number ease is missing"):
        fit.predict([RECORDS[1], NEW])
    some = Observations.from_records([*RECORDS[1:20], NEW | {"gold_answer": "A"}], "choice")
    with pytest.raises(DirEAGError, match=r"of the state of 1 questions \(the number ease is missing\) is 0, infinite"):
        fit_map(some, preset=eased)
    assert len(LikelihoodData.of(QUESTIONS).numbers) == 0  # presets read none


def test_program_needs_no_number_of_questions_that_nobody_has_labelled(fit: Fit) -> None:
    asked = [{name: row[name] for name in NEW} for row in RECORDS[90:]]
    mixed = fit_map(Observations.from_records([*RECORDS[:90], *asked], "choice"), preset=eased)
    assert mixed.tree["posterior"].equals(fit.tree["posterior"])


def test_program_that_looks_at_other_questions_is_refused() -> None:
    def standardised(data: LikelihoodData) -> None:
        effect = numpyro.sample("effect", dist.Normal(0, 1))
        apart = data.numbers["ease"] - data.numbers["ease"].mean()
        draw_states(
            data, effect * apart[None] * sums_by_answer(data.usable, data.candidate), jnp.zeros(len(data.weight))
        )

    with pytest.raises(DirEAGError, match=r"the other questions, or on chance; .*scale data.numbers by fixed figures"):
        fit_map(QUESTIONS, preset=standardised)


def test_number_is_an_option_that_a_fit_keeps(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(f"from {__name__} import eased")
    (tmp_path / "new.jsonl").write_text(json.dumps(NEW))
    program, table = ("--preset", f"{tmp_path / 'models.py'}:eased"), tmp_path / "reports.csv"
    reports().to_csv(table, index=False)
    options = "--column", "confidence=", "--column", "number=ease"
    succeed("fit", table, *program, *options, "--out", tmp_path / "fit.nc")
    succeed("predict", tmp_path / "fit.nc", table, *program, "--out", tmp_path / "p.csv")
    expected = fit_map(QUESTIONS, preset=eased).predict(QUESTIONS)
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["support"], expected["support"])
    said = refuse("predict", tmp_path / "fit.nc", tmp_path / "new.jsonl", *program, "--out", tmp_path / "p.csv")
    assert "no number ease" in said
