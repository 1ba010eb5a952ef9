"""One property of every kind of fit: the same questions have the same predictions, by whatever door they come."""

from pathlib import Path

import pytest

from bayes_direag import Fit, Observations, fit_map, preset
from tests.bayes_direag.doors import assert_every_door_says_the_same
from tests.bayes_direag.fits import test_signals, test_votes
from tests.bayes_direag.fits.test_groups import grouped
from tests.bayes_direag.fits.test_own_models import two_slopes

KINDS = {
    "count": preset("paper", "count", recalibration={"method": "none", "split": 0}),
    "paper": preset("paper"),
    "release": preset("release", "level"),
    "own": preset(two_slopes),
}


@pytest.fixture(params=["point", "nuts", "partial", *KINDS, "groups", "votes", "signals"])
def case(request, simulated: Observations, unlearnable: Observations) -> tuple[Fit, Observations]:
    """A fit, and new questions, of which some have no gold answer, and one no report."""
    kind = request.param
    new = Observations.from_questions([*simulated.questions[60:90], *unlearnable.questions], "numeric")
    if kind in KINDS:
        return fit_map(simulated[:60], preset=KINDS[kind]), new
    if kind == "groups":
        return fit_map(grouped(simulated[:60])), grouped(simulated[60:90])
    if kind == "votes":
        return fit_map(test_votes.OBSERVATIONS), test_votes.OBSERVATIONS[:30]
    if kind == "signals":
        questions = test_signals.simulated_signals()
        return fit_map(questions), questions[:30]
    return request.getfixturevalue(kind), new


@pytest.mark.filterwarnings("ignore::bayes_direag.errors.FewReportsWarning")
def test_every_door_says_the_same(case: tuple[Fit, Observations], tmp_path: Path) -> None:
    assert_every_door_says_the_same(*case, tmp_path)
