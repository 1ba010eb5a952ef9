"""What the final calibration of a MAP is learned from: fits to other folds, or questions kept apart."""

from dataclasses import replace
from hashlib import sha256

import jax
import numpy as np
import pytest

from bayes_direag import Fit, LikelihoodData, Observations, fit_map, fit_nuts, preset
from bayes_direag.errors import DirEAGError
from bayes_direag.fits import making
from bayes_direag.fits.folds import assign_folds
from bayes_direag.fits.making import fits_by
from bayes_direag.inference.nuts import Draws
from bayes_direag.inference.recalibration import Outcomes, draw_recalibration
from bayes_direag.model.settings import FitSettings
from bayes_direag.model.unconstrained import Model, parameter_sites
from tests.bayes_direag import brute_force

#: Votes alone; calibrated in sample, on three folds, or on a fourth of the questions.
COUNT = preset("paper", "count", recalibration={"split": 0})
HONEST, SPLIT = (preset(COUNT, recalibration=own) for own in ({"out_of_fold": 3}, {"split": 4}))


def states(fit: Fit, observations: Observations, row: int) -> dict[str, float]:
    """Return the support of each answer to a question, by the equations in plain Python."""
    reports = brute_force.reports_of(observations, row)
    support = brute_force.support(brute_force.scores(reports, brute_force.of_draws(fit)[0], fit.preset.eps))
    del support[brute_force.NULL]
    return support


def assert_optimal(fit: Fit, support: list[float], right: list[bool]) -> None:
    """Check that the gradient of the penalised loss of these answers is 0."""
    a, b = (fit.recalibration.coefficients[name].item() for name in ("intercept", "slope"))
    logit = np.log(support) - np.log1p(-np.array(support))
    residual = 1 / (1 + np.exp(-(a + b * logit))) - right
    np.testing.assert_allclose(residual.mean() + 0.001 * a, 0, atol=1e-6)
    np.testing.assert_allclose((residual * logit).mean() + 0.001 * (b - 1), 0, atol=1e-6)


def test_calibration_out_of_fold_is_by_fits_that_did_not_see_the_question(simulated: Observations) -> None:
    fit = fit_map(simulated, preset=HONEST, seed=11)
    hashed = [sha256(f"11 {name}".encode()).digest() for name in simulated.problem_id]
    fold = np.argsort(np.argsort(np.array(hashed))) % 3
    selected, support, right = fit.predict(simulated)["answer"], [], []
    for number in range(3):
        rest = fit_map(simulated.select(fold != number), preset=COUNT)
        for row in np.flatnonzero(fold == number):
            every = states(rest, simulated, row)
            for answer in (max(sorted(every), key=every.get), selected[row]):  # each by half
                support.append(every[answer])
                right.append(answer == simulated.questions[row].gold_answer)
    assert_optimal(fit, support, right)
    in_sample = fit_map(simulated, preset=COUNT).recalibration.coefficients["slope"]
    assert abs(in_sample - fit.recalibration.coefficients["slope"]).item() > 1e-4


def test_calibration_stays_out_of_fold_beside_a_member_of_one_question(simulated: Observations) -> None:
    one = np.arange(len(simulated)) == 5
    fits = fits_by(FitSettings(HONEST, seed=2), simulated, np.stack([~one, one]))
    alone = [fit_map(simulated.select(row), preset=HONEST, seed=2) for row in (~one, one)]
    in_sample = fit_map(simulated.select(one), preset=COUNT)
    for fit, expected in zip([*fits, fits[1]], [*alone, in_sample], strict=True):
        np.testing.assert_allclose(fit.parameters()["mode"], expected.parameters()["mode"], rtol=1e-5)


def test_calibration_is_learned_without_the_cluster(simulated: Observations) -> None:
    some = simulated.select(slice(0, 60))
    clusters = {"alone": None, "each": some.problem_id, "as one": ("all",) * 60}
    fits = {name: fit_map(replace(some, cluster=cluster), preset=HONEST) for name, cluster in clusters.items()}
    fits["in sample"] = fit_map(some, preset=COUNT)
    calibrated = {name: fit.recalibration.of_selected(np.array([[0.3, 0.8]])) for name, fit in fits.items()}
    np.testing.assert_array_equal(calibrated["alone"], calibrated["each"])
    np.testing.assert_allclose(calibrated["as one"], calibrated["in sample"], rtol=1e-6)
    assert np.abs(calibrated["alone"] - calibrated["as one"]).max() > 1e-4


def test_calibration_by_a_split_is_on_what_the_evidence_has_not_seen(simulated: Observations) -> None:
    fit = fit_map(simulated, preset=SPLIT, seed=3)
    learnable = np.flatnonzero(simulated.labelled & simulated.answered)
    apart = learnable[assign_folds(len(learnable), 4, 3) == 0]
    alone = fit_map(simulated.select(np.setdiff1d(learnable, apart)), preset=COUNT)
    weights = [each.parameters().query("parameter == 'weight'")["mode"] for each in (fit, alone)]
    np.testing.assert_allclose(*weights, rtol=1e-6)
    every = [states(alone, simulated, row) for row in apart]
    best = [max(sorted(support), key=support.get) for support in every]
    right = [answer == simulated.questions[row].gold_answer for answer, row in zip(best, apart, strict=True)]
    assert_optimal(fit, [support[answer] for support, answer in zip(every, best, strict=True)], right)
    assert fit.has_seen(simulated)[learnable].all()
    assert set(fit.calibrated_on) == set(np.array(simulated.problem_id)[apart])


def test_calibration_of_nuts_is_on_the_same_questions_as_that_of_a_map(simulated: Observations, monkeypatch) -> None:
    """Its evidence is that of a fit to the others, and its calibration learns from what that predicts of these."""
    handed: list[LikelihoodData] = []

    def drawn(model: Model, data: LikelihoodData, **_: object) -> Draws:
        handed.append(data)
        sites, rng = parameter_sites(model, data), np.random.default_rng(0)
        shapes = {name: site.shape for name, site in sites.items() if site.is_unconstrained}
        return Draws.of({name: rng.normal(size=(2, 25, *shape)) for name, shape in shapes.items()}, shapes)

    monkeypatch.setattr(making, "nuts_draws", drawn)
    some, split = simulated.select(slice(0, 120)), {"method": "platt", "split": 4}
    release = preset("release", "count", recalibration=split)
    fit, point = (function(some, preset=release, seed=3) for function in (fit_nuts, fit_map))
    assert (fit.calibrated_on, fit.fingerprint) == (point.calibrated_on, point.fingerprint)
    assert fit.fitted.problem_id == point.fitted.problem_id
    assert fit.fingerprint == some.select(some.informative).fingerprint
    apart = np.isin(some.problem_id, fit.calibrated_on)
    bare = preset("release", "count", recalibration={"method": "none"})
    alone = fit_nuts(some.select(~apart), preset=bare, seed=3)
    jax.tree.map(np.testing.assert_array_equal, *handed)
    predicted = alone.predict(some.select(apart), warn=False)
    right = some.select(apart).is_right(predicted["answer"])
    outcomes = Outcomes(predicted["support"].to_numpy()[None], right[None], np.ones((1, len(right))))
    expected = draw_recalibration(outcomes, release.recalibration, (2, 25), np.random.default_rng([3, 2]))
    for name, values in expected.coefficients.items():
        np.testing.assert_allclose(fit.recalibration.coefficients[name], values)


def test_calibration_split_keeps_clusters_whole(simulated: Observations) -> None:
    whole = replace(simulated, cluster=tuple(f"c{row // 6}" for row in range(240)))
    names = fit_map(whole, preset=SPLIT).calibrated_on
    clusters = {simulated.problem_id.index(name) // 6 for name in names}
    of_clusters = np.isin(np.arange(240) // 6, [*clusters]) & whole.informative
    assert set(names) == set(np.array(simulated.problem_id)[of_clusters])


def test_calibration_split_refuses_too_few_questions(simulated: Observations) -> None:
    with pytest.raises(DirEAGError, match="cannot deal 3 usable questions into 4 folds"):
        fit_map(simulated.select(np.flatnonzero(simulated.informative)[:3]), preset=SPLIT)
