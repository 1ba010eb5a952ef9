"""What a plan says of a posterior made by hand, and of what it cannot plan for; as tables, picture, folder, command."""

import io
import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from rich.console import Console

from analysis.display.folders import jsonable
from analysis.planning.plan import Plan, about, plan, plan_figure, plan_record, plan_tables, write_plan
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Status
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_nuts
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.figure_checks import assert_stands_alone
from tests.analysis.fits import gaussian_draws, made_posterior
from tests.command_line import refuse, succeed

NEW = simulate_observations(n=120, seed=9)
LEARNED = simulate_observations(n=120, seed=3)


@cache
def fit() -> Fit:
    """Return a fit with fewer draws than a plan takes of a larger one."""
    return made_posterior(LEARNED, gaussian_draws(3, spread=0.05, n_draws=50))


@pytest.fixture(scope="module")
def found() -> Plan:
    return plan(fit(), NEW, more=[0, 400], n_worth=10, target=0.7)


def test_without_more_labels_intervals_are_those_of_a_prediction(found: Plan) -> None:
    predictions = fit().predict(NEW)
    width = (predictions["confidence_high"] - predictions["confidence_low"]).mean()
    assert found.curve["width"][0] == pytest.approx(width, rel=1e-9)
    confidence = predictions["confidence"].to_numpy()
    entropy = -(confidence * np.log(confidence) + (1 - confidence) * np.log1p(-confidence))
    assert found.curve["nll"][0] == pytest.approx(entropy.mean(), rel=1e-9)


def test_more_labels_narrow_and_lower(found: Plan) -> None:
    assert found.curve["labels"].tolist() == [120, 520]
    assert (np.diff(found.curve["width"]) < 0).all()
    assert (np.diff(found.curve["nll"]) < 0).all()
    assert (found.curve["nll"] > found.nll_floor).all()
    assert found.curve["answered"].between(0, 1).all()
    assert found.curve["answered"][1] >= found.curve["answered"][0]


def test_questions_most_worth_labelling_come_in_order_and_once(found: Plan) -> None:
    worth = found.worth
    assert worth["problem_id"].is_unique
    assert set(worth["problem_id"]) <= set(NEW.problem_id)
    assert worth["worth"][0] > 1
    assert worth["worth"].sum() > 10
    assert worth["worth"].iloc[-1] < worth["worth"].iloc[0], "each given those above it"
    confidence = fit().predict(NEW).set_index("problem_id")["confidence"]
    assert worth["confidence"].to_numpy() == pytest.approx(confidence[worth["problem_id"]].to_numpy(), abs=0.01)


def test_labels_are_not_looked_at_and_seeds_repeat(found: Plan) -> None:
    bare = replace(NEW, labelled=np.zeros(120, bool), correct=np.zeros_like(NEW.correct))
    again = plan(fit(), bare, more=[400, 0, 0], n_worth=10, target=0.7)
    assert again.curve.equals(found.curve)
    assert again.worth.equals(found.worth)


def test_what_cannot_be_labelled_again_is_left_out() -> None:
    both = Observations.from_questions([*LEARNED.questions[:30], *NEW.questions[:50]], answers="numeric")
    silent = np.arange(80) >= 75
    both = replace(
        both,
        status=np.where(silent[:, None], Status.ABSENT, both.status),
        candidate=np.where(silent[:, None], -1, both.candidate),
        candidates=both.candidates[:75] + ((),) * 5,
    )
    found = plan(fit(), both, more=[0], n_worth=100)
    assert (found.n_seen, found.n_unusable, found.n_not_drawn, found.n_questions) == (30, 5, 0, 45)
    assert about(found) == "45 questions; left out: 30 already learned from, 5 without a usable report"
    assert set(found.worth["problem_id"]) == set(NEW.problem_id[:45])


def test_a_map_and_numbers_out_of_range_are_refused() -> None:
    single = fit().tree.copy()
    single["posterior"] = xr.DataTree(single["posterior"].to_dataset().isel(chain=[0], draw=[0]))
    with pytest.raises(DirEAGError, match="--method nuts"):
        plan(Fit(single), NEW)
    for wrong in ({"more": []}, {"more": [-1]}, {"n_worth": -1}, {"interval_level": 1.0}):
        with pytest.raises(DirEAGError, match="expected whole numbers"):
            plan(fit(), NEW, **wrong)
    with pytest.raises(DirEAGError, match="target accuracy"):
        plan(fit(), NEW, target=80.0)
    with pytest.raises(DirEAGError, match="all 120 questions"):
        plan(fit(), LEARNED)


def test_tables_and_picture_say_what_they_are_about(found: Plan) -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(plan_tables(found))
    text = " ".join(console.export_text().split())
    assert "120 questions" in text
    assert "+400 520" in text
    assert f"{found.curve['width'][1]:.3f}" in text
    assert found.worth["problem_id"][2] in text
    assert f"Together: {found.worth['worth'].sum():.0f}" in text
    figure = plan_figure(found)
    assert_stands_alone(figure, "120 questions", "90%", "target accuracy of 0.7")
    assert list(figure.axes[0].lines[0].get_ydata()) == found.curve["width"].tolist()
    assert figure.axes[2].lines[0].get_ydata()[1] == pytest.approx(100 * found.curve["answered"][1])


def test_the_command_and_its_folder(found: Plan, tmp_path: Path) -> None:
    folder, questions = tmp_path / "plan", tmp_path / "new.jsonl"
    fit().save(tmp_path / "fit.nc")
    NEW.write(questions)
    options = ["--more", "0,400", "--worth", "10", "--target-accuracy", "0.7", "--out", folder, "--json"]
    printed = json.loads(succeed("plan", tmp_path / "fit.nc", questions, *options))
    record = json.loads((folder / "plan.json").read_text())
    assert record == jsonable(plan_record(found, fit()))
    assert printed == {"file": str(tmp_path / "fit.nc"), **record}
    assert record["n_questions"] == 120
    pd.testing.assert_frame_equal(pd.read_csv(folder / "plan.csv"), found.curve)
    pd.testing.assert_frame_equal(pd.read_csv(folder / "worth_labelling.csv"), found.worth.astype({"problem_id": str}))
    assert (folder / "plan.png").stat().st_size > 0
    (folder / "mine.txt").write_text("keep")
    with pytest.raises(DirEAGError, match="mine"):
        write_plan(found, fit(), folder)
    assert "expected whole numbers with commas" in refuse("plan", tmp_path / "fit.nc", questions, "--more", "many")


@pytest.mark.slow
def test_widths_come_as_planned() -> None:
    """A plan at 100 labels, against fits to 300: on the average of three sets within an eighth."""
    sampling = SamplingSettings(n_chains=2, n_warmup=400, n_draws=500)
    ratios = []
    for seed in (21, 22, 23):
        everything = simulate_observations(n=600, seed=seed)
        test = everything.select(slice(300, None))
        first, later = (fit_nuts(everything.select(slice(0, n)), sampling=sampling, seed=1) for n in (100, 300))
        planned = plan(first, test, more=[200], n_worth=0).curve["width"][0]
        predictions = later.predict(test)
        ratios.append(planned / (predictions["confidence_high"] - predictions["confidence_low"]).mean())
    assert np.mean(ratios) == pytest.approx(1, abs=1 / 8)
