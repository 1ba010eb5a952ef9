"""Levels without labels join a fit by their agreement alone; what was there before stays as it was."""

import numpy as np
import pandas as pd
import pytest

from bayes_direag import Fit, Observations
from bayes_direag.data.agreement import agreement, comparisons
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.new_levels import LEAST_QUESTIONS
from bayes_direag.model.models import VOTE_SPREAD, WEIGHT_SPREAD
from tests.made_fits import made_fit, natural


def joined_by(observations: Observations, *names: str, confidence: float | None = 70) -> Observations:
    """Return questions with new levels: the first says what ``confident`` says, the others always something else."""
    records = []
    for question in observations.questions:
        record = question.model_dump(mode="json", exclude_none=True)
        others = {report["level_name"]: report["answer"] for report in record["observations"]}
        for number, name in enumerate(names):
            answer = others.get("confident") if number == 0 else f"90{number}"
            record["observations"].append(
                {"level": 5 + number, "level_name": name, "answer": answer, "confidence": confidence}
            )
        records.append(record | {"problem_id": f"new {question.problem_id}"})
    return Observations.from_records(records, "numeric")


@pytest.fixture(scope="module")
def panel(simulated: Observations) -> Observations:
    return joined_by(simulated.select(slice(150, 240)), "echo", "stranger")


@pytest.fixture(scope="module")
def joint(point: Fit, panel: Observations) -> Fit:
    return point.with_levels(panel)


def test_new_level_has_the_weight_that_its_agreement_says(point: Fit, panel: Observations, joint: Fit) -> None:
    fitted, options = point.fitted.align(joint.level_names), [*range(60)]
    parts = [(rows.candidate, rows.n_levels) for rows in (panel, fitted)]
    first, second = (comparisons(candidate, range(n), len(options)) for candidate, n in parts)
    x = agreement(first + second).score[5:]
    before, after = (fit.tree["posterior"].to_dataset() for fit in (point, joint))
    for of_level, centre, slope in (
        ("weight", "weight_centre", "weight_agreement"),
        ("vote", "vote_centre", "vote_agreement"),
    ):
        values = after[of_level].to_numpy()[0, 0]
        np.testing.assert_allclose(values[:5], before[of_level].to_numpy()[0, 0], rtol=1e-12)
        expected = before[centre].item() + before[slope].item() * x
        np.testing.assert_allclose(np.log(values[5:]) if of_level == "weight" else values[5:], expected, rtol=1e-10)
    assert after["weight"].to_numpy()[0, 0, 5] > after["weight"].to_numpy()[0, 0, 6]
    assert joint.new_levels["level"].tolist() == ["echo", "stranger"]
    assert joint.new_levels["n_questions"].between(LEAST_QUESTIONS, 90).all()
    assert joint.new_levels["agrees"][0] > joint.new_levels["agrees"][1]


def test_new_levels_leave_questions_without_them_as_they_were(point: Fit, joint: Fit, simulated: Observations) -> None:
    np.testing.assert_allclose(
        joint.predict(simulated)["probability"], point.predict(simulated)["probability"], rtol=1e-12
    )
    assert joint.fingerprint == point.fingerprint
    assert joint.learned_from == point.learned_from


def test_new_levels_count_and_are_kept_in_the_file(joint: Fit, panel: Observations, tmp_path) -> None:
    table = joint.predict(panel, warn=False)
    assert (table["n_used"] > 5).any()
    joint.save(tmp_path / "joint.nc")
    loaded = Fit.load(tmp_path / "joint.nc")
    pd.testing.assert_frame_equal(loaded.predict(panel, warn=False), table)
    pd.testing.assert_frame_equal(loaded.new_levels, joint.new_levels)
    reports = [report.model_dump(exclude_none=True) for report in panel.questions[0].observations]
    predicted = loaded.answer(reports)["probability"]
    assert predicted == pytest.approx(table["probability"][0], rel=1e-12)


def test_new_levels_leave_old_questions_as_they_were(
    point: Fit, panel: Observations, nuts: Fit, simulated: Observations
) -> None:
    """A question of old levels alone is predicted, and replayed with fewer reports, as before."""
    some = simulated.select(slice(150, 170))
    old = some.without(some.usable & ~np.isin(np.arange(5), [0, 2]))
    for fit in (point, nuts):
        expected, joint = fit.predict(old, warn=False), fit.with_levels(panel)
        table = joint.predict(old, warn=False)
        np.testing.assert_allclose(table["probability"], expected["probability"], rtol=1e-9)
        general = joint.recalibration.of_selected(table["support"].to_numpy()[None])
        assert np.nanmax(np.abs(general.mean(axis=0) - table["probability"])) > 0.01


def test_new_level_that_only_votes_may_vote(point: Fit, simulated: Observations) -> None:
    voting = joined_by(simulated.select(slice(150, 240)), "echo", confidence=None)
    joint = point.with_levels(voting)
    assert joint.voting == ("echo",)
    assert (joint.predict(voting, warn=False)["n_used"].to_numpy() > voting.usable[:, :5].sum(axis=1)).any()


def test_new_level_has_standard_normal_offsets_in_draws(nuts: Fit, panel: Observations) -> None:
    """Within four standard errors of the mean and the standard deviation."""
    drawn = nuts.with_levels(panel).tree["posterior"].to_dataset()
    x = (np.log(drawn["weight"]) - drawn["weight_centre"]).isel(level=[5, 6]).to_numpy()
    slope = drawn["weight_agreement"].to_numpy()[..., None]
    score = nuts.with_levels(panel).fitted.agreement.score[5:]
    offsets = ((x - slope * score) / WEIGHT_SPREAD).ravel()
    n = offsets.size
    assert abs(offsets.mean()) < 4 / np.sqrt(n)
    assert abs(offsets.std() - 1) < 4 / np.sqrt(2 * n)
    votes = (drawn["vote"] - drawn["vote_centre"] - drawn["vote_agreement"] * score[0]).isel(level=5) / VOTE_SPREAD
    assert abs(np.corrcoef(votes.to_numpy().ravel(), offsets.reshape(*x.shape)[..., 0].ravel())[0, 1]) < 4 / np.sqrt(
        n / 2
    )


def test_new_levels_that_are_none_leave_the_fit_as_it_is(point: Fit, joint: Fit, panel, simulated) -> None:
    assert point.with_levels(simulated).fingerprint == point.fingerprint
    assert joint.with_levels(panel).fingerprint == joint.fingerprint


def test_new_levels_are_refused_where_nothing_tells_of_them(point: Fit, panel: Observations, simulated) -> None:
    with pytest.raises(DirEAGError, match=r"too few questions that two other levels answer too: echo \(29\)"):
        point.with_levels(joined_by(simulated.select(simulated.usable.all(axis=1)).select(slice(29)), "echo"))
    paper = made_fit(simulated.select(slice(60)), natural())
    with pytest.raises(DirEAGError, match="model paper draws weight_base, bias for each level alone"):
        paper.with_levels(panel)
