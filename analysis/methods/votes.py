"""Classifiers that say how probably the majority answer is right, from how the votes fell and who cast them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from analysis.methods.calibrations import CLIP
from analysis.methods.method import Answerer, Answers, stated_confidence, stated_logit
from analysis.methods.rules import majority
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

_Features = Float[np.ndarray, "problem feature"]


@np.errstate(invalid="ignore")  # 0/0 is the NaN of an unanswered question
def vote_features(observations: Observations) -> _Features:
    """Describe how the votes of each question fell, seen from its majority answer.

    Returns: A column a name of :data:`VOTE_FEATURES`: the majority's ``share`` of the usable levels; its ``margin``,
    less the share of the runner-up; ``n_answers``, distinct answers; ``n_missing``, levels that were not usable; mean,
    largest, least and population standard deviation of the stated confidences (in [0, 1], not clipped) of the levels
    ``for`` the majority answer and of those ``against`` it. NaN where there is nobody: against an answer that is
    unanimous, and everywhere but in the two counts for an unanswered question.

    Examples
    --------
    >>> from bayes_direag import example_observations
    >>> features = vote_features(example_observations().select(slice(0, 3)))
    >>> features[:, VOTE_FEATURES.index("share")].tolist()
    [0.6, 1.0, 0.8]
    """
    usable, candidate, stated = observations.usable, observations.candidate, stated_confidence(observations)
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
        *_spreads(stated, given),
        *_spreads(stated, usable & ~given),
    ]
    return np.stack(columns, axis=1)


def _spreads(
    confidence: Float[np.ndarray, "problem level"], chosen: Bool[np.ndarray, "problem level"]
) -> list[Float[np.ndarray, " problem"]]:
    """Return mean, largest, least and standard deviation over the levels that are mine; NaN where none is."""
    n, nobody = chosen.sum(axis=1), ~chosen.any(axis=1)
    mean = confidence.sum(axis=1, where=chosen) / n
    variance = ((confidence - mean[:, None]) ** 2).sum(axis=1, where=chosen) / n
    high, low = confidence.max(axis=1, where=chosen, initial=0.0), confidence.min(axis=1, where=chosen, initial=1.0)
    return [mean, np.where(nobody, np.nan, high), np.where(nobody, np.nan, low), np.sqrt(variance)]


def level_features(observations: Observations) -> _Features:
    """Say who agrees with the majority answer, and how confidently.

    Returns: For each level 1 where it gives the majority answer, -1 where it gives another, 0 where it gives none; then
    the same times the logit of its stated confidence, clipped to [CLIP, 1 - CLIP].
    """
    given = observations.candidate == majority(observations).candidate[:, None]
    side = np.where(observations.usable, np.where(given, 1.0, -1.0), 0.0)
    return np.asarray(np.hstack([side, side * stated_logit(observations, CLIP)]))


@dataclass(frozen=True)
class MajorityClassifier:
    """Answers as the majority, with a probability that a classifier has learned from features of the reports.

    Where the majority is right on all labelled questions, or on none, that is Laplace's ``(right + 1) / (n + 2)``.

    ``features``: what the classifier sees. ``make``: makes the classifier, as scikit-learn has them, from a seed.
    """

    features: Callable[[Observations], _Features]
    make: Callable[[int], Any]

    def __call__(self, labelled: Observations, seed: int) -> Answerer:
        """Learn; see :class:`~analysis.methods.method.Method`."""
        right = majority(labelled).is_right(labelled)
        is_one_class = bool(right.all() or not right.any())
        model = None if is_one_class else self.make(seed).fit(self.features(labelled), right)

        def answer(observations: Observations) -> Answers:
            chosen = majority(observations).candidate
            confidence = np.full(len(observations), (right.sum() + 1) / (len(right) + 2))
            if model is not None:
                confidence = model.predict_proba(self.features(observations))[:, 1]
            return Answers(chosen, np.where(chosen >= 0, confidence, np.nan))

        return answer


def _logistic(_: int) -> Any:
    """Return a logistic regression on standardised features, with a standard normal prior on each coefficient."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # Not newton-cholesky: it finds no step where no feature varies, as it does not see that it is at the optimum.
    return make_pipeline(StandardScaler(), LogisticRegression(C=1.0, solver="newton-cg", tol=1e-8))


def _boosting(seed: int) -> Any:
    """Return gradient-boosted trees: 50 of at most 4 leaves, each of 10 questions or more, learning rate 0.1.

    Few and small trees, for tens to a thousand labels. (The histogram-based ones wait for each other's threads: half a
    minute on a busy machine.)
    """
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(
        n_estimators=50, learning_rate=0.1, max_depth=2, min_samples_leaf=10, random_state=seed
    )


def _votes(observations: Observations) -> _Features:
    """Return the vote features; a missing one counts as 0."""
    return np.asarray(np.nan_to_num(vote_features(observations)))


def _votes_and_levels(observations: Observations, missing: float = 0.0) -> _Features:
    return np.hstack([np.nan_to_num(vote_features(observations), nan=missing), level_features(observations)])


#: Sees how the votes fell, and not who cast them: a level is nobody in particular, so few labels are enough, and nobody
#: can be believed more than another. The settings of all three are fixed; no data were looked at to choose them.
vote_logistic = MajorityClassifier(_votes, _logistic)
#: Sees too who agrees with the majority, and how confidently.
level_logistic = MajorityClassifier(_votes_and_levels, _logistic)
#: Sees the same; trees find what depends on what, and what is missing is below all others.
boosted_stack = MajorityClassifier(partial(_votes_and_levels, missing=-1.0), _boosting)
