"""Classifiers of whether the majority answer is right, from features of the votes and of the levels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from analysis.methods.method import Answerer, Answers, Method, gives, stated_logits, stated_signals
from analysis.methods.rules import majority
from bayes_direag.data.observations import Observations

_SPREADS = ("mean", "max", "min", "sd")

#: The columns of :func:`vote_features`; the last eight again for each further signal.
VOTE_FEATURES: tuple[str, ...] = (
    "share",
    "margin",
    "n_answers",
    "n_missing",
    *(f"{spread}_for" for spread in _SPREADS),
    *(f"{spread}_against" for spread in _SPREADS),
)

_Features = Float[np.ndarray, "problem feature"]


@np.errstate(invalid="ignore")  # 0/0 is the NaN of an unanswered question
def vote_features(observations: Observations) -> _Features:
    """Return features of each question's votes, relative to its majority answer.

    The majority's share of the usable levels, and its margin over the runner-up; numbers of distinct answers and of
    unusable levels; and of each signal of confidence mean, maximum, minimum and standard deviation for and against the
    majority answer. What is undefined is NaN.

    Examples
    --------
    >>> from bayes_direag import example_observations
    >>> features = vote_features(example_observations("steered").select(slice(0, 3)))
    >>> features[:, VOTE_FEATURES.index("share")].tolist()
    [0.6, 1.0, 0.8]
    """
    usable, candidate = observations.usable, observations.candidate
    n_usable = usable.sum(axis=1)
    chosen = majority(observations).candidate
    votes = gives(observations).sum(axis=1)
    of_chosen = np.arange(observations.n_levels) == chosen[:, None]
    most, second = (np.where(side, votes, 0).max(axis=1) for side in (of_chosen, ~of_chosen))
    for_majority = usable & (candidate == chosen[:, None])
    against_majority = usable & ~for_majority
    columns = [
        most / n_usable,
        (most - second) / n_usable,
        observations.n_candidates.astype(float),
        (~usable).sum(axis=1).astype(float),
        *(
            spread
            for stated in stated_signals(observations)
            for side in (for_majority, against_majority)
            for spread in _spreads(stated, side)
        ),
    ]
    return np.stack(columns, axis=1)


def _spreads(
    confidence: Float[np.ndarray, "problem level"], chosen: Bool[np.ndarray, "problem level"]
) -> list[Float[np.ndarray, " problem"]]:
    """Return mean, maximum, minimum and standard deviation over the chosen levels; NaN without any."""
    n, nobody = chosen.sum(axis=1), ~chosen.any(axis=1)
    mean = confidence.sum(axis=1, where=chosen) / n
    variance = ((confidence - mean[:, None]) ** 2).sum(axis=1, where=chosen) / n
    high, low = confidence.max(axis=1, where=chosen, initial=0.0), confidence.min(axis=1, where=chosen, initial=1.0)
    return [mean, np.where(nobody, np.nan, high), np.where(nobody, np.nan, low), np.sqrt(variance)]


def level_features(observations: Observations) -> _Features:
    """Return 1 for each level of the majority answer, -1 for another; then the same times the logit of each signal."""
    agrees = observations.candidate == majority(observations).candidate[:, None]
    side = np.where(observations.usable, np.where(agrees, 1.0, -1.0), 0.0)
    return np.asarray(np.hstack([side, *(side * stated_logits(observations))]))


@dataclass(frozen=True)
class MajorityClassifier:
    """Give the majority answer, with a probability from a classifier of the reports' features.

    The probability is Laplace's ``(right + 1) / (n + 2)`` if the majority is right on all labelled questions or none.
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

    # newton-cholesky fails if no feature varies, as it does not notice that it is at the optimum
    return make_pipeline(StandardScaler(), LogisticRegression(C=1.0, solver="newton-cg", tol=1e-8))


def _boosting(seed: int) -> Any:
    """Return 50 boosted trees of at most 4 leaves; histogram-based ones wait for each other on a busy machine."""
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(
        n_estimators=50, learning_rate=0.1, max_depth=2, min_samples_leaf=10, random_state=seed
    )


def _votes(observations: Observations) -> _Features:
    return np.asarray(np.nan_to_num(vote_features(observations)))


def _votes_and_levels(observations: Observations) -> _Features:
    """Return the vote features, with -1 for a missing one, below all others, and the level features."""
    return np.hstack([np.nan_to_num(vote_features(observations), nan=-1.0), level_features(observations)])


#: The settings of the two classifiers are fixed, and were chosen without looking at data.
VOTE_LOGISTIC = Method(
    MajorityClassifier(_votes, _logistic),
    words="the majority's answer; a logistic regression on how the votes fell",
    spoken="regression on votes",
)
BOOSTED_STACK = Method(
    MajorityClassifier(_votes_and_levels, _boosting),
    words="the majority's answer; boosted trees on how the votes fell and who agreed",
    spoken="boosted trees",
)
