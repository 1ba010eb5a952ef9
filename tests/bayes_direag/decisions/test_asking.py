"""What a report is worth, against its definition by single predictions, and where questions stand."""

import numpy as np
import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.decisions.asking import Asking
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map
from bayes_direag.fits.predictor import Predictor
from bayes_direag.model.selection import supports
from bayes_direag.model.simulate import simulate_observations
from tests.bayes_direag.fits.test_groups import grouped

QUESTIONS = simulate_observations(60, seed=4)


def asking_of(fit: Fit) -> Asking:
    return Asking.of(fit.fitted, fit.predictor.parameters, fit.recalibration, fit.preset.eps)


def probability(predictor: Predictor, reports: list[dict[str, object]]) -> float:
    return float(predictor.predict(reports)["probability"])


@pytest.mark.parametrize(
    ("preset", "observations"), [("bayes", QUESTIONS), ("paper", QUESTIONS), ("bayes", grouped(QUESTIONS))]
)
def test_the_gain_is_that_of_its_definition(preset, observations: Observations) -> None:
    """By the exported predictor, which is asked about every report that may come."""
    fit = fit_map(observations, preset=preset, partial=True)
    asking, predictor = asking_of(fit), fit.predictor
    levels = fit.fitted.slots or range(fit.fitted.n_levels)
    for row in range(6):
        question = fit.fitted.select(slice(row, row + 1))
        asked = np.arange(question.n_levels)[None] < row
        reports = [
            {"group": predictor.levels[level], "answer": answer, "confidence": 100 * stated}
            for level, answer, stated, chosen in zip(
                levels, question.candidate[0].tolist(), question.confidence[0].tolist(), asked[0], strict=True
            )
            if chosen and answer >= 0
        ]
        standing = asking.standing(fit.reports(question), np.array(levels), asked)
        said = predictor.predict(reports)
        p = said["probability"] or 0.0
        assert standing.probability[0] == pytest.approx(p, rel=1e-9)
        assert str(standing.leader[0]) == (said["answer"] or "-1")
        for level, name in enumerate(predictor.levels):
            of_level = np.array(levels) == level
            mean = np.nanmean(fit.fitted.confidence[:, of_level])
            one = {"group": name, "answer": said["answer"] or "0", "confidence": 100 * mean}
            alone = probability(predictor, [one])
            if not reports:
                assert standing.gain[0, level] == pytest.approx(alone**2, rel=1e-9)
                continue
            more = probability(predictor, [*reports, one])
            chance = p * alone + (1 - p) * asking.coincidence
            less = (p - chance * more) / (1 - chance)
            assert standing.gain[0, level] == pytest.approx(
                chance * more**2 + (1 - chance) * less**2 - p**2, rel=1e-6, abs=1e-12
            )


def test_where_questions_stand_is_what_the_forward_evaluation_says() -> None:
    fit = fit_map(QUESTIONS, partial=True)
    asked = np.random.default_rng(0).random(QUESTIONS.shape) < 0.5
    standing = asking_of(fit).standing(fit.reports(QUESTIONS), np.arange(QUESTIONS.n_levels), asked)
    left = QUESTIONS.without(~asked)
    support = supports(fit.reports(left), fit.predictor.parameters)[0, :, :-1]
    answered = left.answered
    np.testing.assert_array_equal(standing.leader >= 0, answered)
    np.testing.assert_array_equal(standing.n_reports, left.usable.sum(axis=1))
    np.testing.assert_allclose(standing.support[answered], support.max(axis=1)[answered], rtol=1e-9)
    np.testing.assert_allclose(standing.probability, fit.predict(left)["probability"].fillna(0.0), rtol=1e-9)


def test_coincidences_are_counted_over_pairs_of_reports_the_first_of_which_is_wrong() -> None:
    fit = fit_map(QUESTIONS, partial=True)
    n_same = n_pairs = 0
    for candidate, correct in zip(fit.fitted.candidate, fit.fitted.correct, strict=True):
        for i in np.flatnonzero((candidate >= 0) & ~correct):
            for j in np.flatnonzero(candidate >= 0):
                n_pairs += i != j
                n_same += i != j and candidate[i] == candidate[j]
    assert asking_of(fit).coincidence == pytest.approx((n_same + 1) / (n_pairs + 2))
