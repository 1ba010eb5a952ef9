"""Classifiers that see how the votes of a question fell, and not who cast them: what any evidence model has to beat.

The answer is that of :func:`~analysis.baselines.majority`; learned is how probably it is right. A level is nobody in
particular to these classifiers, so they need few labels, and cannot learn whom to believe.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from analysis.baselines import majority
from bayes_direag.data.observations import Observations

_SPREADS = ("mean", "max", "min", "sd")

VOTE_FEATURES: tuple[str, ...] = (
    "share",
    "margin",
    "n_answers",
    "n_missing",
    *(f"{spread}_for" for spread in _SPREADS),
    *(f"{spread}_against" for spread in _SPREADS),
)
"""What :func:`vote_features` returns, column by column."""

_Train = Float[np.ndarray, "problem feature"]
_Test = Float[np.ndarray, "new feature"]
_Said = Float[np.ndarray, " new"]


@np.errstate(invalid="ignore")  # 0/0 is the NaN of an unanswered question
def vote_features(observations: Observations) -> Float[np.ndarray, "problem feature"]:
    """Describe how the votes of each question fell, seen from its majority answer.

    Returns
    -------
    (problem, feature) array
        By the names of :data:`VOTE_FEATURES`: the majority's ``share`` of the usable levels; its ``margin``, less the
        share of the runner-up; ``n_answers``, distinct answers; ``n_missing``, levels that were not usable; mean,
        largest, least and population standard deviation of the stated confidences (in [0, 1], not clipped) of the
        levels ``for`` the majority answer and of those ``against`` it. NaN where there is nobody: against an answer
        that is unanimous, and everywhere but in the two counts for an unanswered question.

    Examples
    --------
    >>> from bayes_direag import example_observations
    >>> features = vote_features(example_observations().select(slice(0, 3)))
    >>> features[:, VOTE_FEATURES.index("share")].tolist()
    [0.2, 0.4, 0.8]
    """
    usable, candidate = observations.usable, observations.candidate
    n_usable = usable.sum(axis=1)
    chosen = majority(observations).candidate
    votes = (candidate[:, :, None] == np.arange(observations.n_levels)).sum(axis=1)
    of_chosen = np.arange(observations.n_levels) == chosen[:, None]
    most, second = (np.where(side, votes, 0).max(axis=1) for side in (of_chosen, ~of_chosen))
    given = usable & (candidate == chosen[:, None])
    columns = [
        most / n_usable,
        (most - second) / n_usable,
        observations.n_candidates.astype(float),
        (~usable).sum(axis=1).astype(float),
        *_spreads(observations.confidence, given),
        *_spreads(observations.confidence, usable & ~given),
    ]
    return np.stack(columns, axis=1)


def vote_logistic(train: _Train, correct: Bool[np.ndarray, " problem"], test: _Test) -> _Said:
    """Predict by a logistic regression on standardised features, with a standard normal prior on each coefficient.

    A missing feature counts as 0. The settings are fixed: they were not chosen by looking at any data.

    Returns
    -------
    (new,) array
        Probability that the majority answer of each test question is right. Where the training answers are all right
        or all wrong, Laplace's ``(right + 1) / (n + 2)`` for all.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-8))
    return _predicted(model, np.nan_to_num(train), correct, np.nan_to_num(test))


def vote_boosting(train: _Train, correct: Bool[np.ndarray, " problem"], test: _Test) -> _Said:
    """Predict by gradient-boosted trees: 50 of at most 4 leaves, each of 10 questions or more, learning rate 0.1.

    Few and small trees, for tens to a thousand labels. A missing feature counts as -1, which is below all others.
    Settings and one class as in :func:`vote_logistic`.
    """
    from sklearn.ensemble import GradientBoostingClassifier

    model = GradientBoostingClassifier(
        n_estimators=50, learning_rate=0.1, max_depth=2, min_samples_leaf=10, random_state=0
    )
    return _predicted(model, np.nan_to_num(train, nan=-1.0), correct, np.nan_to_num(test, nan=-1.0))


VOTE_CLASSIFIERS: Mapping[str, Callable[[_Train, Bool[np.ndarray, " problem"], _Test], _Said]] = MappingProxyType(
    {"vote_logistic": vote_logistic, "vote_boosting": vote_boosting}
)
"""The classifiers by name."""


def _predicted(model: Any, train: _Train, correct: Bool[np.ndarray, " problem"], test: _Test) -> _Said:
    if correct.all() or not correct.any():
        return np.full(len(test), (correct.sum() + 1) / (len(correct) + 2))
    return np.asarray(model.fit(train, correct).predict_proba(test)[:, 1])


def _spreads(
    confidence: Float[np.ndarray, "problem level"], chosen: Bool[np.ndarray, "problem level"]
) -> list[Float[np.ndarray, " problem"]]:
    """Return mean, largest, least and standard deviation over the levels that are mine; NaN where none is."""
    n, nobody = chosen.sum(axis=1), ~chosen.any(axis=1)
    mean = confidence.sum(axis=1, where=chosen) / n
    variance = ((confidence - mean[:, None]) ** 2).sum(axis=1, where=chosen) / n
    high, low = confidence.max(axis=1, where=chosen, initial=0.0), confidence.min(axis=1, where=chosen, initial=1.0)
    return [mean, np.where(nobody, np.nan, high), np.where(nobody, np.nan, low), np.sqrt(variance)]
