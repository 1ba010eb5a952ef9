"""What a plan says of a posterior made by hand, and of what it cannot plan for."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from analysis.planning import plan as plan_module
from analysis.planning.plan import Plan, plan
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Status
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_nuts
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import good_fit

NEW = simulate_observations(n=150, seed=9)


@pytest.fixture(scope="module")
def found() -> Plan:
    return plan(good_fit(), NEW, more=[0, 100, 400], n_worth=10, target=0.7)


def test_without_more_labels_intervals_are_those_of_a_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "_DRAWS", 10**6)
    found, predictions = plan(good_fit(), NEW, more=[0], target=0.7), good_fit().predict(NEW)
    width = (predictions["confidence_high"] - predictions["confidence_low"]).mean()
    assert found.curve["width"][0] == pytest.approx(width, rel=1e-9)
    confidence = predictions["confidence"].to_numpy()
    entropy = -(confidence * np.log(confidence) + (1 - confidence) * np.log1p(-confidence))
    assert found.curve["nll"][0] == pytest.approx(entropy.mean(), rel=1e-9)


def test_more_labels_narrow_and_lower(found: Plan) -> None:
    assert found.curve["labels"].tolist() == [120, 220, 520]
    assert (np.diff(found.curve["width"]) < 0).all()
    assert (np.diff(found.curve["nll"]) < 0).all()
    assert (found.curve["nll"] > found.nll_floor).all()
    assert found.curve["answered"].between(0, 1).all()
    assert found.curve["answered"][2] >= found.curve["answered"][0]


def test_questions_most_worth_labelling_come_in_order_and_once(found: Plan) -> None:
    worth = found.worth
    assert worth["problem_id"].is_unique
    assert set(worth["problem_id"]) <= set(NEW.problem_id)
    assert worth["worth"][0] > 1
    assert worth["worth"].sum() > 10
    confidence = good_fit().predict(NEW).set_index("problem_id")["confidence"]
    assert worth["confidence"].to_numpy() == pytest.approx(confidence[worth["problem_id"]].to_numpy(), abs=0.01)


def test_labels_are_not_looked_at_and_seeds_repeat(found: Plan) -> None:
    bare = replace(NEW, labelled=np.zeros(150, bool), correct=np.zeros_like(NEW.correct))
    again = plan(good_fit(), bare, more=[400, 0, 100, 0], n_worth=10, target=0.7)
    assert again.curve.equals(found.curve)
    assert again.worth.equals(found.worth)


def test_what_cannot_be_labelled_again_is_left_out() -> None:
    learned = simulate_observations(n=120, seed=3)
    both = Observations.from_questions([*learned.questions[:30], *NEW.questions[:50]], answers="numeric")
    silent = np.arange(80) >= 75
    both = replace(
        both,
        status=np.where(silent[:, None], Status.ABSENT, both.status),
        candidate=np.where(silent[:, None], -1, both.candidate),
        candidates=both.candidates[:75] + ((),) * 5,
    )
    found = plan(good_fit(), both, more=[0], n_worth=100)
    assert (found.n_seen, found.n_unusable, found.n_not_drawn, found.n_questions) == (30, 5, 0, 45)
    assert set(found.worth["problem_id"]) == set(NEW.problem_id[:45])
    with pytest.raises(DirEAGError, match="all 120 questions"):
        plan(good_fit(), learned)


def test_a_map_and_numbers_out_of_range_are_refused() -> None:
    single = good_fit().tree.copy()
    single["posterior"] = xr.DataTree(single["posterior"].to_dataset().isel(chain=[0], draw=[0]))
    with pytest.raises(DirEAGError, match="--method nuts"):
        plan(Fit(single), NEW)
    for wrong in ({"more": []}, {"more": [-1]}, {"n_worth": -1}, {"interval_level": 1.0}):
        with pytest.raises(DirEAGError, match="expected whole numbers"):
            plan(good_fit(), NEW, **wrong)
    with pytest.raises(DirEAGError, match="target accuracy"):
        plan(good_fit(), NEW, target=80.0)


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
