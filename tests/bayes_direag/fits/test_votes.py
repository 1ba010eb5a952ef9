"""Levels that only vote, and the prior over labels: panels of judges who say yes or no and state no confidence."""

import json

import numpy as np
import pandas as pd
import pytest

from bayes_direag import Fit, Observations, fit_map, fit_nuts
from bayes_direag.model.selection import distribution
from tests.bayes_direag import brute_force
from tests.made_fits import NUTS_SAMPLING

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


def test_label_not_met_before_has_no_prior(votes: Fit) -> None:
    values = brute_force.of_draws(votes)[0]
    assert OBSERVATIONS.voting == tuple(JUDGES)
    assert set(values["label"]) == {"no", "yes"}
    assert "slope" not in values
    other = [{"problem_id": "a", "observations": [{"level": 0, "level_name": "good", "answer": "unsure"}]}]
    new = votes.aligned(Observations.from_records(other, "text"))
    expected = brute_force.support(brute_force.scores([(0, "unsure", float("nan"))], values, votes.preset.eps))
    (support,) = distribution(votes.evaluation(new))
    assert support.tolist() == pytest.approx([expected["unsure"], expected[brute_force.NULL]])


def test_label_is_right_as_often_as_its_prior_learns() -> None:
    """Where votes say nothing, the label that is mostly right is the more probable one."""
    silent = [dict(own, gold_answer="yes" if k % 4 else "no") for k, own in enumerate(RECORDS)]
    for number, record in enumerate(silent):
        record["observations"] = [{"level": k, "answer": ("yes", "no")[(number + k) % 2]} for k in range(5)]
    fit = fit_map(Observations.from_records(silent))
    effects = fit.tree["posterior"]["label"].to_series().droplevel(["chain", "draw"])
    assert effects["yes"] > 0.1 > -0.1 > effects["no"]


def test_votes_of_a_level_without_confidences_count_beside_others_that_state_them() -> None:
    """The fit knows who states confidences, whatever another file holds of them."""
    rows = json.loads(json.dumps(RECORDS))
    for number, row in enumerate(rows):
        for report in row["observations"]:
            if report["level_name"] != "coin":
                report["confidence"] = 60 + (number % 4) * 10
    mixed = Observations.from_records(rows)
    assert mixed.voting == ("coin",)
    fit = fit_map(mixed)
    reports = next(row["observations"] for row in rows[1:] if said(row, "fair") != said(row, "coin"))
    for confidence, n_used in ((None, 1), (99, 5)):
        new = [{"problem_id": "a", "observations": [{**report, "confidence": confidence} for report in reports]}]
        observations = fit.predict(Observations.from_records(new, "text"), warn=False)
        assert observations.n_used.tolist() == [n_used]
        if confidence is None:
            assert observations.answer.tolist() == [said({"observations": reports}, "coin")]
    expected = fit.predict(Observations.from_records(rows[1:3]))
    assert expected.n_used.tolist() == [5, 5]
    for stating in ((), ("q1",), ("q1", "q2")):
        new = json.loads(json.dumps(rows[1:3]))
        for row in new:
            coin = next(report for report in row["observations"] if report["level_name"] == "coin")
            coin["confidence"] = 70 if row["problem_id"] in stating else None
        pd.testing.assert_frame_equal(fit.predict(Observations.from_records(new)), expected)


def said(row: dict[str, object], judge: str) -> str:
    return next(report["answer"] for report in row["observations"] if report["level_name"] == judge)


@pytest.mark.slow
def test_votes_and_labels_have_a_posterior_around_their_mode(votes: Fit) -> None:
    sampled = fit_nuts(OBSERVATIONS, **NUTS_SAMPLING.model_dump(), seed=1)
    assert sampled.tree["posterior"]["label"].dims == ("chain", "draw", "answer")
    draws, modes = sampled.draws(), votes.draws().iloc[0]
    for name in draws.columns:
        low, high = np.quantile(draws[name], [0.01, 0.99])
        assert low <= modes[name] <= high, name
    assert sampled.tree["loo"].sizes["problem"] == len(OBSERVATIONS)
