"""A final calibration that is learned from questions kept apart."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from bayes_direag import Observations, fit_map, fit_nuts, simulate_observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.folds import assign_folds
from bayes_direag.inference.recalibration import Outcomes
from bayes_direag.inference.recalibration_posterior import draw_recalibration
from bayes_direag.model import presets
from bayes_direag.model.settings import RecalibrationSettings, SamplingSettings

PRESET = presets.preset("paper", recalibration={"split": 4})


@pytest.fixture(scope="module")
def observations() -> Observations:
    return simulate_observations(120, seed=6)


def test_it_is_learned_from_the_part_that_the_evidence_has_not_seen(observations: Observations) -> None:
    fit = fit_map(observations, preset=PRESET, seed=3)
    learnable = np.flatnonzero(observations.labelled & observations.answered)
    apart = learnable[assign_folds(len(learnable), 4, 3) == 0]
    kept = observations.select(np.setdiff1d(learnable, apart))
    alone = fit_map(kept, preset=presets.preset(PRESET, recalibration={"method": "none", "split": 0}))
    values = [found.parameters().set_index(["parameter", "level"])["mode"].dropna() for found in (fit, alone)]
    np.testing.assert_allclose(values[0]["weight"], values[1]["weight"], rtol=1e-6)
    predicted = alone.predict(observations.select(apart))
    right = observations.select(apart).is_right(predicted["answer"].to_numpy())
    logit = np.log(predicted["support"] / (1 - predicted["support"])).to_numpy()

    def loss(coefficients: np.ndarray) -> float:
        score = coefficients[0] + coefficients[1] * logit
        prior = 0.001 / 2 * (coefficients[0] ** 2 + (coefficients[1] - 1) ** 2)
        return float(np.mean(np.logaddexp(0, np.where(right, -score, score))) + prior)

    best = minimize(loss, [0.0, 1.0], method="BFGS", options={"gtol": 1e-9}).x
    found = [float(fit.recalibration.coefficients[name].squeeze()) for name in ("intercept", "slope")]
    np.testing.assert_allclose(found, best, atol=1e-5)
    assert fit.has_seen(observations)[learnable].all()
    assert set(fit.calibrated_on) == set(np.array(observations.problem_id)[apart])


def test_nuts_keeps_the_same_questions_apart_as_a_map(observations: Observations) -> None:
    """Its evidence is that of a fit to the others, and its calibration learns from what that predicts of these."""
    counting, sampling = presets.preset(PRESET, "count"), SamplingSettings(n_chains=2, n_warmup=30, n_draws=40)
    fit, point = (
        fit_nuts(observations, preset=counting, sampling=sampling, seed=3),
        fit_map(observations, preset=counting, seed=3),
    )
    assert (fit.calibrated_on, fit.fingerprint) == (point.calibrated_on, point.fingerprint)
    assert fit.fitted.problem_id == point.fitted.problem_id
    assert fit.fingerprint == observations.select(observations.informative).fingerprint
    apart = np.isin(observations.problem_id, fit.calibrated_on)
    bare = presets.preset(counting, recalibration={"method": "none", "split": 0})
    alone = fit_nuts(observations.select(~apart), preset=bare, sampling=sampling, seed=3)
    np.testing.assert_array_equal(fit.tree["posterior"]["weight"], alone.tree["posterior"]["weight"])
    predicted = alone.predict(observations.select(apart), warn=False)
    right = observations.select(apart).is_right(predicted["answer"])
    outcomes = Outcomes(predicted["support"].to_numpy()[None], right[None], np.ones((1, len(right))))
    expected = draw_recalibration(outcomes, counting.recalibration, (2, 40), np.random.default_rng([3, 2]))
    for name, values in expected.coefficients.items():
        np.testing.assert_allclose(fit.recalibration.coefficients[name], values)


def test_clusters_are_kept_apart_whole(observations: Observations) -> None:
    clusters = replace(observations, cluster=tuple(f"c{row // 6}" for row in range(len(observations))))
    apart = fit_map(clusters, preset=PRESET).calibrated_on
    numbers = {observations.problem_id.index(name) // 6 for name in apart}
    assert len(apart) == sum(
        (clusters.cluster_number[clusters.labelled & clusters.answered] == n).sum() for n in numbers
    )


def test_refusals(observations: Observations) -> None:
    with pytest.raises(ValueError, match="split and out_of_fold exclude each other"):
        RecalibrationSettings(split=5, out_of_fold=5)
    with pytest.raises(ValueError, match="at least 2 parts"):
        RecalibrationSettings(split=1)
    with pytest.raises(DirEAGError, match="cannot deal 3 usable questions into 4 folds"):
        fit_map(observations.select(np.flatnonzero(observations.labelled & observations.answered)[:3]), preset=PRESET)
