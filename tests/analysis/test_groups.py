"""Levels in groups go through the analysis as they go through fits."""

import numpy as np
import pytest

from analysis.display.style import LeftOut
from analysis.evaluation import evaluate
from analysis.explanation.explanation import explain
from analysis.learned.figures import fit_pictures
from analysis.learned.quantities import LabelledReports, calibration_curves, fitted_support, stated_confidences
from analysis.runs.evaluated_run import unseen_questions
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fitting import fit_map
from bayes_direag.model.simulate import simulate_observations
from tests.bayes_direag.fits.test_groups import grouped


@pytest.fixture(scope="module")
def observations() -> Observations:
    return grouped(simulate_observations(90, seed=6))


def test_an_evaluation_has_the_predictions_of_its_fits(observations: Observations) -> None:
    found = evaluate(observations, methods=["majority", "level_logistic", "direag"], n_folds=3, seed=1, n_resamples=20)
    rows = found.predictions.query("method == 'direag'").set_index("problem_id")
    for (_, fold), fit in found.fits.items():
        assert fit.level_names == ("careful", "vanilla", "bold")
        own = rows[rows["fold"] == fold]
        asked = observations.select(np.isin(observations.problem_id, own.index))
        expected = fit.predict(asked).set_index("problem_id")["confidence"]
        np.testing.assert_allclose(own["confidence"], expected.loc[own.index])
    assert found.parameters.query("parameter == 'weight'")["level"].nunique() == 3


def test_what_is_said_of_a_fit(observations: Observations) -> None:
    fit = fit_map(observations.select(slice(0, 60)))
    name = observations.problem_id[70]
    explained = explain(fit, observations, name)
    assert explained.parts["support"].sum() == pytest.approx(1)
    assert explained.confidence == pytest.approx(fit.predict(observations)["confidence"][70])
    assert set(explained.reports["level"]) <= set(observations.level_names)
    np.testing.assert_allclose(fitted_support(fit), fit.predict(fit.fitted)["support"])
    assert calibration_curves(fit)["level"].unique().tolist() == ["careful", "vanilla", "bold"]
    stated = stated_confidences(LabelledReports.of_fits([fit]))
    assert stated.groupby("level", sort=False)[["right", "wrong"]].sum().sum(axis=1).to_dict() == {
        name: int(fit.fitted.usable[:, np.array(fit.fitted.groups) == name].sum()) for name in fit.level_names
    }
    assert [picture.name for picture in fit_pictures(fit) if not isinstance(picture, LeftOut)]
    unseen = unseen_questions(fit, observations, "set").predictions
    assert unseen["problem_id"].nunique() == (observations.labelled[60:]).sum()
