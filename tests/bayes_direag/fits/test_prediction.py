"""Each pattern is predicted once, and nothing of a prediction depends on that."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from bayes_direag.data.long_table import ranks
from bayes_direag.fits import prediction
from bayes_direag.fits.prediction import PatternPredictor, evaluate
from bayes_direag.model.equations import Parameters, Reports, clipped_logit
from bayes_direag.model.patterns import by_first_mention
from bayes_direag.model.selection import LogisticRecalibration
from tests.bayes_direag.brute_force import NULL, null_probability, scores

EPS = 1e-6


def reports(n: int, n_levels: int = 4, seed: int = 0, stated=(0.0, 0.3, 0.5, 1.0)) -> Reports:
    rng = np.random.default_rng(seed)
    candidate = ranks(rng.integers(-1, 3, (n, n_levels)))
    candidate[0] = -1
    confidence = rng.choice(stated, (n, n_levels)) if stated else rng.random((n, n_levels))
    logits = clipped_logit(np.where(candidate >= 0, confidence, 0.5), EPS)
    return Reports(logits, candidate.astype(np.int32), candidate.max(axis=1) + 1)


def predictor(n_samples: int, n_levels: int = 4, seed: int = 1, without: tuple[str, ...] = ()) -> PatternPredictor:
    rng = np.random.default_rng(seed)
    every = {
        "weight": rng.gamma(2, 1, (n_samples, n_levels)),
        "bias": rng.normal(size=(n_samples, n_levels)),
        "slope": rng.gamma(2, 1, n_samples),
        "prior_strength": rng.gamma(1, 0.1, n_samples),
        "null_base": rng.gamma(1, 0.1, n_samples),
        "null_gain": rng.gamma(1, 0.3, n_samples),
        "sharpness": rng.gamma(8, 0.15, n_samples),
        "vote": rng.normal(0, 0.5, (n_samples, n_levels)),
        "vote_slope": rng.normal(0, 0.2, n_samples),
    }
    parameters = Parameters(**{name: value for name, value in every.items() if name not in without})
    coefficients = {"intercept": rng.normal(size=(1, n_samples)), "slope": rng.gamma(2, 1, (1, n_samples))}
    return PatternPredictor(parameters, LogisticRecalibration("platt", coefficients, 1e-6), 0.8)


def one_by_one(given: Reports, by: PatternPredictor) -> dict[str, np.ndarray]:
    """Predict with the plain equations, every state of every question in every sample."""
    every = np.zeros((len(by.parameters.weight), len(given.n_candidates), given.candidate.shape[1] + 1))
    for sample, question in np.ndindex(every.shape[:2]):
        own = {k: v[sample] for k, v in by.parameters._asdict().items() if v is not None}
        said = zip(given.candidate[question].tolist(), expit(given.logit_confidence[question]).tolist(), strict=True)
        found = scores([(level, k, q) for level, (k, q) in enumerate(said) if k >= 0], own, EPS)
        states = [*range(len(found) - 1), -1]
        every[sample, question, states] = np.array([*(found[k] for k in states[:-1]), found[NULL]])
    every /= every.sum(axis=2, keepdims=True)
    mean, some = every.mean(axis=0), given.n_candidates > 0
    best = mean[:, :-1].argmax(axis=1)
    mine = np.where(some, every[:, np.arange(len(best)), best], np.nan)
    a, b = (by.recalibration.coefficients[name].reshape(-1, 1) for name in ("intercept", "slope"))
    clipped = np.clip(mine, 1e-6, 1 - 1e-6)
    final = 1 / (1 + np.exp(-(a + b * (np.log(clipped) - np.log1p(-clipped)))))
    null = []
    for own, n, k, probability in zip(mean, given.n_candidates, best, final.mean(axis=0), strict=True):
        support = dict(enumerate(own[:n])) | {NULL: own[-1]}
        null.append(null_probability(support, k, probability) if n else 1.0)
    return {
        "candidate": np.where(some, best, -1),
        "confidence": final.mean(axis=0),
        "confidence_low": np.quantile(final, 0.1, axis=0),
        "confidence_high": np.quantile(final, 0.9, axis=0),
        "change_probability": np.where(some, (every[:, :, :-1].argmax(axis=2) != best).mean(axis=0), np.nan),
        "support": mine.mean(axis=0),
        "null_probability": np.array(null),
    }


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12, atol=1e-13, err_msg=name)


@pytest.mark.parametrize(
    "without",
    [
        (),
        ("slope", "vote_slope"),
        ("bias", "slope", "null_gain", "vote_slope"),
        ("sharpness", "vote", "vote_slope"),
        ("sharpness",),
        ("sharpness", "vote"),
        ("vote", "vote_slope"),
    ],
    ids=lambda names: f"without {' '.join(names)}",
)
@pytest.mark.parametrize("stated", [(0.0, 0.3, 0.5, 1.0), None], ids=["few confidences", "all different"])
def test_it_is_what_the_equations_say(without, stated):
    given, by = reports(150, stated=stated), predictor(5, without=without)
    assert_same(by(given), one_by_one(given, by))


def test_a_map_has_no_intervals():
    found = predictor(1)(reports(10))
    assert set(found) == {"candidate", "confidence", "support", "null_probability"}


def test_what_was_met_before_is_remembered_and_changes_nothing(monkeypatch):
    given, by = reports(300, seed=5), predictor(5)
    expected = by(given)
    asked = []
    monkeypatch.setattr(prediction, "evaluate", lambda new, *rest: asked.append(new) or evaluate(new, *rest))
    order = np.random.default_rng(0).permutation(300)
    again = by(given.select(order))
    assert sum(len(new.n_candidates) for new in asked) == 0
    assert_same(again, {name: values[order] for name, values in expected.items()})
    fresh, parts = predictor(5), []
    for start in range(0, 300, 40):
        parts.append(fresh(given.select(np.arange(start, min(start + 40, 300)))))
    assert_same({name: np.concatenate([part[name] for part in parts]) for name in expected}, expected)
    n_distinct = len({row.tobytes() for row in np.c_[by_first_mention(given.candidate), given.logit_confidence]})
    assert sum(len(new.n_candidates) for new in asked) == n_distinct < 300


def test_too_many_patterns_are_forgotten(monkeypatch):
    monkeypatch.setattr(prediction, "REMEMBERED", 3)
    given, by = reports(60, seed=6), predictor(5)
    expected = one_by_one(given, by)
    for _ in range(2):
        assert_same(by(given), expected)


def test_between_equals_string_order_decides_question_by_question():
    """Two levels that count alike, each with its own answer: named first by one, first in string order by either."""
    by = predictor(5, n_levels=2)
    alike = Parameters(*(None if v is None else v[:, :1].repeat(2, axis=1) if v.ndim > 1 else v for v in by.parameters))
    by = replace(by, parameters=alike)
    given = Reports(np.full((3, 2), 0.4), np.array([[0, 1], [1, 0], [0, 0]], np.int32), np.array([2, 2, 1]))
    found = by(given)
    assert found["candidate"].tolist() == [0, 0, 0]
    assert_same(found, one_by_one(given, by))


def test_string_order_decides_within_a_sample_too():
    """Reports of no weight in one sample leave both answers with what every state has."""
    by = predictor(5, n_levels=2, without=("vote", "vote_slope"))
    weight = by.parameters.weight.copy()
    weight[1] = 1e-30
    by = replace(by, parameters=by.parameters._replace(weight=weight))
    given = Reports(np.array([[2.2, -2.2]] * 2), np.array([[0, 1], [1, 0]], np.int32), np.array([2, 2]))
    found = by(given)
    assert found["change_probability"][0] != found["change_probability"][1]
    assert_same(found, one_by_one(given, by))


def test_no_questions():
    given = reports(5).select(np.arange(0))
    assert all(len(values) == 0 for values in predictor(5)(given).values())
