"""What each method says is what the baseline, the calibrator or the fit says that it names."""

import numpy as np
import pytest

from analysis.baselines import BASELINES, Selection, majority
from analysis.learning_curve import methods
from analysis.learning_curve.calibrators import isotonic, platt
from analysis.learning_curve.methods import (
    ANSWERS,
    DEFAULT_METHODS,
    METHODS,
    SOURCES,
    chosen_methods,
    is_sampled,
    learn,
)
from analysis.vote_features import VOTE_CLASSIFIERS, vote_features
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.convergence import sampler_summary
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import gaussian_draws, made_fit, made_posterior, natural

EVERYTHING = simulate_observations(150, seed=3)
LABELLED, TESTED = EVERYTHING.select(slice(0, 50)), EVERYTHING.select(slice(50, 150))


def right(observations: Observations, selection: Selection) -> np.ndarray:
    pairs = zip(observations.candidates, selection.candidate, strict=True)
    return observations.is_right([own[k] for own, k in pairs])


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_as_it_is_and_recalibrated(name: str) -> None:
    found = learn(name, LABELLED, TESTED, sampling=None, seed=0).said
    before, now = BASELINES[name](LABELLED), BASELINES[name](TESTED)
    known, true = right(LABELLED, before), right(TESTED, now)
    expected = {
        name: now.confidence,
        f"{name}_platt": platt(before.confidence, known, now.confidence),
        f"{name}_isotonic": isotonic(before.confidence, known, now.confidence),
    }
    assert found.keys() == expected.keys()
    for method, (confidence, correct) in found.items():
        np.testing.assert_allclose(confidence, expected[method])
        np.testing.assert_array_equal(correct, true)


@pytest.mark.parametrize("name", VOTE_CLASSIFIERS)
def test_a_classifier_of_votes(name: str) -> None:
    confidence, correct = learn(name, LABELLED, TESTED, sampling=None, seed=0).said[name]
    known = right(LABELLED, majority(LABELLED))
    expected = VOTE_CLASSIFIERS[name](vote_features(LABELLED), known, vote_features(TESTED))
    np.testing.assert_allclose(confidence, expected)
    np.testing.assert_array_equal(correct, right(TESTED, majority(TESTED)))


def test_a_map_before_and_after_its_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fit_map(subset: Observations, **settings: object) -> Fit:
        asked.append((subset, settings))
        return made_fit(subset, natural(subset.n_levels), intercept=0.3, slope=0.8)

    monkeypatch.setattr(methods, "fit_map", fit_map)
    found = learn("map_bayes", LABELLED, TESTED, sampling=None, seed=5)
    assert asked == [(LABELLED, {"preset": "bayes", "seed": 5})]
    table = fit_map(LABELLED).predict(TESTED)
    assert found.said.keys() == {"map_bayes", "map_bayes_calibrated"}
    np.testing.assert_allclose(found.said["map_bayes"].confidence, table["support"])
    np.testing.assert_allclose(found.said["map_bayes_calibrated"].confidence, table["confidence"])
    for _, correct in found.said.values():
        np.testing.assert_array_equal(correct, TESTED.is_right(table["answer"]))
    assert found.sampler is None


def test_nuts_is_asked_for_what_the_name_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    diverging = np.zeros((2, 40), bool)
    diverging[1, :3] = True

    def fit_nuts(subset: Observations, **settings: object) -> Fit:
        asked.append((subset, settings))
        return made_posterior(
            subset,
            gaussian_draws(1, n_chains=2, n_draws=40),
            calibrated=(0.3, 0.8),
            statistics={"diverging": diverging},
        )

    monkeypatch.setattr(methods, "fit_nuts", fit_nuts)
    sampling = SamplingSettings(n_chains=2, n_draws=40)
    found = learn("nuts_pooled", LABELLED, TESTED, sampling=sampling, seed=5)
    ((subset, settings),) = asked
    assert subset is LABELLED
    assert settings == {"preset": "pooled", "sampling": sampling, "seed": 5}
    fit = fit_nuts(LABELLED)
    table = fit.predict(TESTED)
    np.testing.assert_allclose(found.said["nuts_pooled"].confidence, table["support"])
    np.testing.assert_allclose(found.said["nuts_pooled_calibrated"].confidence, table["confidence"])
    assert found.sampler == sampler_summary(fit)
    assert found.sampler.divergences == 3


@pytest.mark.parametrize("source", ["majority", "vote_logistic", "vote_boosting"])
def test_labels_of_tested_questions_change_no_confidence(source: str) -> None:
    other = [question.model_copy(update={"gold_answer": "-12345"}) for question in TESTED.questions]
    changed = Observations.from_questions(other, "numeric")
    known = learn(source, LABELLED, TESTED, sampling=None, seed=0).said
    unknown = learn(source, LABELLED, changed, sampling=None, seed=0).said
    for method in known:
        np.testing.assert_array_equal(known[method].confidence, unknown[method].confidence)
        assert not unknown[method].correct.any()


@pytest.mark.parametrize("source", ["majority", "mean_confidence", "vote_logistic"])
def test_whose_answers_they_are(source: str) -> None:
    said = learn(source, LABELLED, TESTED, sampling=None, seed=0).said
    for method in said:
        expected = right(TESTED, BASELINES[ANSWERS[method]](TESTED))
        np.testing.assert_array_equal(said[method].correct, expected)
    assert ANSWERS["nuts_bayes_calibrated"] == "nuts_bayes"


def test_the_names() -> None:
    assert {METHODS[method] for method in METHODS} == set(SOURCES)
    assert {f"map_{name}" for name in PRESETS} <= set(SOURCES)
    # NUTS cannot have bounds, nor should it have unequal weights.
    assert [source for source in SOURCES if is_sampled(source)] == ["nuts_paper", "nuts_bayes", "nuts_pooled"]
    assert not any(map(is_sampled, DEFAULT_METHODS))
    assert chosen_methods(["default"]) == DEFAULT_METHODS
    assert chosen_methods(["map_paper", "majority", "map_paper"]) == ("majority", "map_paper")
    assert chosen_methods(["nuts_bayes", "default"]) == (*DEFAULT_METHODS, "nuts_bayes")
    with pytest.raises(DirEAGError, match="unknown method 'nuts_release'; expected some of default, majority, "):
        chosen_methods(["majority", "nuts_release"])
    with pytest.raises(DirEAGError, match="saw no method"):
        chosen_methods([])
