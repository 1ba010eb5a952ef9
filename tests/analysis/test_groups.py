"""Levels in groups go through the analysis as they go through fits."""

import numpy as np
import pytest

from analysis.display.document import LeftOut
from analysis.evaluation import Evaluation, evaluate
from analysis.explanation import explain
from analysis.learned import LabelledReports, calibration_curves, fit_pictures, fitted_support, stated_confidences
from bayes_direag.data.observations import Observations
from bayes_direag.model.simulate import simulate_observations
from tests.bayes_direag.fits.test_groups import grouped


@pytest.fixture(scope="module")
def observations() -> Observations:
    return grouped(simulate_observations(90, seed=6))


@pytest.fixture(scope="module")
def found(observations: Observations) -> Evaluation:
    labelled, test = observations.select(slice(0, 60)), observations.select(slice(60, 90))
    return evaluate(labelled, test, methods=["majority", "conditional_logit", "direag"], n_resamples=20)


def test_an_evaluation_has_the_predictions_of_its_fit(found: Evaluation, observations: Observations) -> None:
    rows = found.predictions.query("method == 'direag'").set_index("problem_id")
    (fit,) = found.fits.values()
    assert fit.level_names == ("careful", "vanilla", "bold")
    expected = fit.predict(observations.select(slice(60, 90))).set_index("problem_id")["probability"]
    np.testing.assert_allclose(rows["probability"], expected.loc[rows.index])
    assert found.parameters.query("parameter == 'weight'")["level"].nunique() == 3


def test_what_is_said_of_a_fit(found: Evaluation, observations: Observations) -> None:
    (fit,) = found.fits.values()
    name = observations.problem_id[70]
    explained = explain(fit, observations, name)
    assert explained.parts.to_numpy().sum() == pytest.approx(1)
    assert explained.prediction["probability"] == pytest.approx(fit.predict(observations)["probability"][70])
    assert set(explained.reports["level"]) <= set(observations.level_names)
    np.testing.assert_allclose(fitted_support(fit), fit.predict(fit.fitted)["support"])
    assert calibration_curves(fit)["level"].unique().tolist() == ["careful", "vanilla", "bold"]
    stated = stated_confidences(LabelledReports.of_fits([fit]))
    assert stated.groupby("level", sort=False)[["right", "wrong"]].sum().sum(axis=1).to_dict() == {
        name: int(fit.fitted.usable[:, np.array(fit.fitted.groups) == name].sum()) for name in fit.level_names
    }
    assert [picture.name for picture in fit_pictures(fit) if not isinstance(picture, LeftOut)]
