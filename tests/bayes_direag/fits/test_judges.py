"""Levels that only vote, and votes by label: panels of judges who say yes or no and state no confidence."""

import json
import math
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from analysis.diagnosis import diagnose
from bayes_direag import Fit, Observations, fit_map, fit_nuts
from bayes_direag.errors import DirEAGError
from bayes_direag.model.model import log_likelihood
from bayes_direag.model.settings import SamplingSettings
from tests.bayes_direag import brute_force
from tests.bayes_direag.doors import assert_every_door_says_the_same

#: How often each judge says yes of a right answer, and of a wrong one; the third says yes to nearly everything.
JUDGES = {"good": (0.85, 0.1), "fair": (0.75, 0.3), "yes-sayer": (0.99, 0.75), "coin": (0.5, 0.5), "last": (0.8, 0.2)}


def panel(n: int, seed: int) -> list[dict[str, object]]:
    rng = np.random.default_rng(seed)
    records = []
    for number, right in enumerate(rng.random(n) < 0.6):
        said = {name: "yes" if rng.random() < rates[0 if right else 1] else "no" for name, rates in JUDGES.items()}
        votes = [{"level": k, "level_name": name, "answer": said[name]} for k, name in enumerate(said)]
        records.append({"problem_id": f"q{number}", "gold_answer": "yes" if right else "no", "observations": votes})
    del records[0]["observations"][1]
    return records


RECORDS = panel(120, seed=1)
OBSERVATIONS = Observations.from_records(RECORDS)


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fit_map(OBSERVATIONS, preset="judges")


def test_support_and_likelihood_are_the_equation_in_plain_python(fit: Fit) -> None:
    rows = fit.predict_candidates(OBSERVATIONS).groupby("problem_id", sort=False)
    raw, values = fit.tree["unconstrained_posterior"].to_dataset(), brute_force.of_map(fit)
    sites = {str(name).removesuffix("_raw"): jnp.asarray(own.to_numpy()[0, 0]) for name, own in raw.items()}
    reached = np.asarray(jax.jit(log_likelihood)(sites, fit.likelihood_data))
    for row, (_, found) in enumerate(rows):
        reports = brute_force.reports_of(OBSERVATIONS, row)
        expected = brute_force.support(brute_force.scores(reports, values, fit.preset.eps))
        by_answer = dict(zip(found["answer"].fillna(brute_force.NULL), found["probability"], strict=True))
        assert by_answer == pytest.approx(expected, rel=1e-9)
        gold = str(RECORDS[row]["gold_answer"])
        state = gold if gold in expected else brute_force.NULL
        assert math.exp(reached[row]) == pytest.approx(expected[state], rel=1e-6)


def test_every_door_takes_votes_and_says_the_same(fit: Fit, tmp_path: Path) -> None:
    assert OBSERVATIONS.voting == tuple(JUDGES)
    assert fit.variant == "level"
    assert_every_door_says_the_same(fit, OBSERVATIONS, tmp_path)


def test_a_label_not_met_before_counts_as_the_level_alone(fit: Fit) -> None:
    other = [{"problem_id": "a", "observations": [{"level": 0, "level_name": "good", "answer": "unsure"}]}]
    found = fit.predict_candidates(Observations.from_records(other, "text"))
    table = fit.parameters()
    for name in ("label_vote[no]", "label_vote[yes]"):
        table.loc[table.parameter == name, "mean"] = 0.0
    one = table.set_index(["parameter", "level"])["mean"]
    share, belief = one["prior_strength", np.nan] / 2, 1 / (1 + math.exp(-one["bias", "good"]))
    mine = (share + one["weight", "good"] * belief) ** one["sharpness", np.nan] * math.exp(one["vote", "good"])
    doubt = one["null_gain", np.nan] * one["weight", "good"] * (1 - belief)
    null = (share + one["null_base", np.nan] + doubt) ** one["sharpness", np.nan]
    assert found.probability.tolist() == pytest.approx(sorted([mine / (mine + null), null / (mine + null)])[::-1])


def test_a_level_without_confidences_votes_beside_others_that_state_them() -> None:
    rows = [json.loads(json.dumps(record)) for record in RECORDS]
    for number, row in enumerate(rows):
        for report in row["observations"]:
            if report["level_name"] != "coin":
                report["confidence"] = 60 + (number % 4) * 10
    mixed = Observations.from_records(rows)
    fit = fit_map(mixed, preset="bayes")
    assert (mixed.voting, fit.variant) == (("coin",), "confidence")
    # the fit knows who states confidences, whatever another file holds of them
    reports = next(row["observations"] for row in rows[1:] if said(row, "fair") != said(row, "coin"))
    for confidence, n_used in ((None, 1), (99, 5)):
        new = [{"problem_id": "a", "observations": [{**report, "confidence": confidence} for report in reports]}]
        found = fit.predict(Observations.from_records(new, "text"))
        assert found.n_used.tolist() == [n_used]
        if confidence is None:
            assert found.answer.tolist() == [said({"observations": reports}, "coin")]
    # nor does it matter of how many of its questions another file holds confidences of a level that only votes
    expected = fit.predict(Observations.from_records(rows[1:3]))
    for stating in ((), ("q1",), ("q1", "q2")):
        new = json.loads(json.dumps(rows[1:3]))
        for row in new:
            coin = next(report for report in row["observations"] if report["level_name"] == "coin")
            coin["confidence"] = 70 if row["problem_id"] in stating else None
        pd.testing.assert_frame_equal(fit.predict(Observations.from_records(new)), expected)
    assert expected.n_used.tolist() == [5, 5]


def said(row: dict[str, object], judge: str) -> str:
    return next(report["answer"] for report in row["observations"] if report["level_name"] == judge)


def test_answers_that_are_no_labels_are_refused() -> None:
    observations = Observations.from_records(
        [dict(own, gold_answer=str(k), observations=[{"level": 0, "answer": str(k)}]) for k, own in enumerate(RECORDS)]
    )
    with pytest.raises(DirEAGError, match="saw 120 different answers to 120 questions; expected at most 12 labels"):
        fit_map(observations, preset="judges")


@pytest.mark.slow
def test_judges_of_one_group_share_what_their_votes_are_worth(fit: Fit) -> None:
    alone = fit_map(replace(OBSERVATIONS, groups=OBSERVATIONS.level_names), preset="judges")
    np.testing.assert_allclose(alone.predict(OBSERVATIONS)["support"], fit.predict(OBSERVATIONS)["support"], atol=1e-6)
    together = fit_map(replace(OBSERVATIONS, groups=("good", "fair", "others", "others", "others")), preset="judges")
    assert together.tree["posterior"]["label_vote"].sizes["level"] == 3


@pytest.mark.slow
def test_nuts_has_intervals_and_leave_one_out(fit: Fit) -> None:
    sampled = fit_nuts(OBSERVATIONS, preset="judges", sampling=SamplingSettings(n_chains=2, n_warmup=300, n_draws=300))
    draws, levels, labels = sampled.draws("raw"), sampled.level_names, ("no", "yes")
    of_labels = [column for column in draws if column[0].startswith("label_vote[")]
    assert of_labels == [(f"label_vote[{label}]", level) for level in levels for label in labels]
    raw = sampled.tree["unconstrained_posterior"]["label_vote_raw"].to_numpy()
    np.testing.assert_array_equal(draws[of_labels], raw.reshape(sampled.n_samples, -1))
    centres = [name for name, _ in draws if name.startswith("label_vote_centre")]
    assert centres == [f"label_vote_centre[{label}]" for label in labels]
    assert diagnose(sampled).parameters["parameter"].tolist() == [name for name, _ in draws]
    assert sampled.tree["posterior"]["label_vote"].dims == ("chain", "draw", "level", "label")
    assert sampled.tree["loo"].sizes["problem"] == len(OBSERVATIONS)
    both = [one.predict(OBSERVATIONS)["probability"].to_numpy() for one in (sampled, fit)]
    assert np.abs(both[0] - both[1]).mean() < 0.05
