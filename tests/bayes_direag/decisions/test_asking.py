"""What a report is worth, against its definition by single predictions."""

import numpy as np
import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map


@pytest.fixture(params=["partial", "paper", "partial_groups"])
def fit(request: pytest.FixtureRequest, panel: Observations) -> Fit:
    if request.param == "paper":
        return fit_map(panel.select(slice(64)), preset="paper", partial=True)
    return request.getfixturevalue(request.param)


def test_the_gain_is_that_of_its_definition(fit: Fit) -> None:
    """By the exported predictor, which is asked about every report that may come."""
    asking, predictor = fit.asking, fit.predictor
    levels = np.array(fit.fitted.slots or range(fit.fitted.n_levels))
    typical = [100 * np.nanmean(fit.fitted.confidence[:, levels == level]) for level in range(len(fit.level_names))]
    for row in range(6):
        question = fit.fitted.select(slice(row, row + 1))
        asked = np.arange(question.n_levels)[None] < row
        reports = [
            {"group": predictor.levels[level], "answer": answer, "confidence": 100 * stated}
            for level, answer, stated in zip(
                levels, question.candidate[0].tolist(), question.confidence[0], strict=True
            )
        ]
        reports = [one for one, chosen in zip(reports, asked[0], strict=True) if chosen and one["answer"] >= 0]
        given = fit.reports(question)
        given = given._replace(candidate=np.where(asked, given.candidate, -1))
        leader, _, probability = asking.leading(given, levels.tolist())
        (gains,) = asking.gain(given, levels.tolist(), leader, probability)
        said = predictor.predict(reports, interval_level=0.5)
        p, answer = said["probability"] or 0.0, said["answer"] or "0"
        assert probability[0] == pytest.approx(p, rel=1e-9)
        assert str(leader[0]) == (said["answer"] or "-1")
        for level, name in enumerate(predictor.levels):
            one = {"group": name, "answer": answer, "confidence": typical[level]}
            alone, more = (predictor.predict(given)["probability"] for given in ([one], [*reports, one]))
            chance = p * alone + (1 - p) * asking.coincidence
            less = (p - chance * more) / (1 - chance)
            gain = chance * more**2 + (1 - chance) * less**2 - p**2 if reports else alone**2
            assert gains[level] == pytest.approx(gain, rel=1e-6, abs=1e-12)


@pytest.mark.filterwarnings("ignore::bayes_direag.errors.FewReportsWarning")
def test_one_more_vote_has_the_label_of_the_leader(votes: Fit) -> None:
    """And a vote alone is for an answer that is no label."""
    asking, predictor, first = votes.asking, votes.predictor, [{"level": "good", "answer": "yes"}]
    read = predictor.read(first)
    leader, _, probability = asking.leading(read.reports, read.level)
    (gains,) = asking.gain(read.reports, read.level, leader, probability)
    given = first, [*first, {"level": "fair", "answer": "yes"}], [{"level": "fair", "answer": "unsure"}]
    p, more, alone = (predictor.predict(reports)["probability"] for reports in given)
    chance = p * alone + (1 - p) * asking.coincidence
    less = (p - chance * more) / (1 - chance)
    expected = chance * more**2 + (1 - chance) * less**2 - p**2
    assert gains[predictor.levels.index("fair")] == pytest.approx(expected, rel=1e-6)


def test_coincidences_are_counted_over_pairs_of_reports_the_first_of_which_is_wrong(partial: Fit) -> None:
    same = []
    for said, correct in zip(partial.fitted.candidate, partial.fitted.correct, strict=True):
        given = np.flatnonzero(said >= 0)
        same += [said[i] == said[j] for i in given for j in given if i != j and not correct[i]]
    assert partial.asking.coincidence == pytest.approx((sum(same) + 1) / (len(same) + 2))
