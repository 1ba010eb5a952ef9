"""Two properties of every kind of fit: it predicts by the printed equations, and the same by whatever door."""

import math

import numpy as np
import pytest

from bayes_direag import Fit, Observations, fit_map, preset
from bayes_direag.fits.container import evaluated_draws
from bayes_direag.model.models import model_of
from tests.bayes_direag import brute_force
from tests.bayes_direag.doors import assert_every_door_says_the_same
from tests.bayes_direag.fits import test_signals, test_votes
from tests.bayes_direag.fits.test_groups import grouped
from tests.bayes_direag.fits.test_own_models import two_slopes

PRESETS = {
    "count": preset("paper", "count", recalibration={"method": "none", "split": 0}),
    "paper": preset("paper"),
    "release": preset("release", "level"),
    "own": preset(two_slopes),
}
MAPS = [
    *("point", "small", "paper", "own", "groups", "votes", "signals"),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("count", "release")),
]

pytestmark = pytest.mark.filterwarnings("ignore::bayes_direag.errors.FewReportsWarning")


@pytest.fixture(scope="module")
def case(request, simulated: Observations, unlearnable: Observations) -> tuple[Fit, Observations]:
    """A fit, and new questions, of which some have no gold answer, and one no report."""
    kind = request.param
    new = Observations.from_questions([*simulated.questions[60:90], *unlearnable.questions], "numeric")
    if kind in PRESETS:
        return fit_map(simulated[:60], preset=PRESETS[kind]), new
    if kind == "groups":
        new = grouped(simulated[120:150])
    elif kind == "votes":
        new = test_votes.OBSERVATIONS[:30]
    elif kind == "signals":
        new = test_signals.simulated_signals()[:30]
    return request.getfixturevalue(kind), new


def everything() -> Observations:
    """Return questions with groups, signals, a level that only votes, clusters, and some without a gold answer."""
    frame = grouped(test_signals.simulated_signals()).to_frame()
    number = frame["problem_id"].rank(method="dense").astype(int)
    frame.loc[frame["level_name"] == "vanilla", [name for name in frame if name.startswith("confidence")]] = np.nan
    about = {"cluster": "c" + (number // 2).astype(str), "gold_answer": frame["gold_answer"].where(number % 9 > 0)}
    return Observations.from_frame(frame.assign(**about), answers="numeric")


@pytest.mark.parametrize("kind", ["nuts", "everything"])
def test_fits_say_the_same_by_every_door(kind: str, request, simulated: Observations, unlearnable, tmp_path) -> None:
    """Doors see columns, and what a file holds of a fit: draws, or a mode of all kinds of columns at once."""
    if kind == "nuts":
        new = Observations.from_questions([*simulated.questions[60:90], *unlearnable.questions], "numeric")
        fit = request.getfixturevalue("nuts")
    else:
        observations = everything()
        assert (observations.voting, len(observations.signal_names)) == (("vanilla",), 3)
        fit, new = fit_map(observations), observations[:30]
    assert_every_door_says_the_same(fit, new, tmp_path)


def supports(fit: Fit, questions: Observations) -> list[dict[str, float]]:
    """Return the support of each question's states, in plain Python."""
    values, slots = brute_force.of_draws(fit)[0], questions.slots or range(questions.n_levels)
    if fit.preset.name == "two_slopes":
        values["slope"] = [[slope] for slope in values["slope"]]
    support_of_each = []
    for row in range(len(questions)):
        reports = [(slots[column], *report) for column, *report in brute_force.reports_of(questions, row)]
        support_of_each.append(brute_force.support(brute_force.scores(reports, values, fit.preset.eps)))
    return support_of_each


@pytest.mark.parametrize("case", MAPS, indirect=True)
def test_kinds_of_fits_predict_by_the_printed_equations(case: tuple[Fit, Observations]) -> None:
    fit, new = case
    aligned = fit.aligned(new)
    coefficients = fit.calibration.coefficients(fit.evaluation(aligned).data.panels)
    for row, support, (a, b) in zip(fit.predict(new).itertuples(), supports(fit, aligned), coefficients, strict=True):
        of_answers = {answer: value for answer, value in support.items() if answer != brute_force.NULL}
        assert row.n_candidates == len(of_answers)
        if not of_answers:
            assert np.isnan([row.support, row.probability]).all()
            continue
        best = max(of_answers.values())
        assert row.answer == min(answer for answer, value in of_answers.items() if value == best)
        assert row.support == pytest.approx(best, rel=1e-9)
        expected = brute_force.sigmoid(a + b * math.log(best / (1 - best)))
        assert row.probability == pytest.approx(expected, rel=1e-9)
        null = brute_force.null_probability(support, row.answer, row.probability)
        assert row.null_probability == pytest.approx(null, rel=1e-8, abs=1e-13)
    if fit.preset.name == "bayes":  # of the others in the tests of the models
        unconstrained = {
            str(name): values.to_numpy() for name, values in fit.tree["unconstrained_posterior"].to_dataset().items()
        }
        reached = evaluated_draws(model_of(fit.preset), unconstrained, fit.likelihood_data).log_likelihood[0, 0]
        states = fit.tree["observed_data"]["target"].to_numpy()
        rows = zip(supports(fit, fit.fitted), fit.fitted.candidates, states, reached, strict=False)
        for support, candidates, state, values in rows:
            target = candidates[state] if state >= 0 else brute_force.NULL
            assert math.exp(values) == pytest.approx(support[target], rel=1e-6)
