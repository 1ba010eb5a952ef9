r"""Logistic regression on what each level says, where every question has the same two labels.

.. math::

    \operatorname{logit} P(\text{second label}) = b + \sum_{l,k} w_{lk} s_{il} \operatorname{logit} q_{ilk}

with :math:`s_{il}` = 1 if level l says the second label, -1 if the first, 0 if it has no usable report, over the
signals k of confidence, and a standard normal prior on every w. A report that states no confidence has logit 1.
"""

from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from analysis.methods.method import Answerer, Answers, Method, stated_logits
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError


def labels_of(observations: Observations) -> tuple[str, ...]:
    """Return all answers of all reports, each once, in string order."""
    return tuple(sorted({*chain.from_iterable(observations.candidates)}))


def has_two_labels(*parts: Observations) -> bool:
    """Return whether all reports of these observations together say one of two things."""
    return len({*chain.from_iterable(map(labels_of, parts))}) == 2


def label_logistic(labelled: Observations, _: int) -> Answerer:
    """Learn which of two labels is right; Laplace's rule if it is always the same.

    A label that is right though nobody says it is the one that is not said. Raises DirEAGError for a third label.
    """
    labels = labels_of(labelled)
    if len(labels) > 2:
        raise DirEAGError(
            f"label_logistic: saw {len(labels)} different answers, such as {', '.join(labels[:3])}; expected the same "
            "two labels in every question. Leave this method out."
        )
    side, right = _sides(labelled, labels), labelled.correct_candidate
    one_wrong = (labelled.n_candidates == 1) & ~right.any(axis=1)
    of_right = np.where(one_wrong, -side[:, 0], (side * right).sum(axis=1))
    known = of_right != 0
    is_second = of_right[known] > 0
    if is_second.all() or not is_second.any():
        constant = (is_second.sum() + 1) / (len(is_second) + 2)
        return lambda observations: _answers(observations, labels, np.full(len(observations), constant))
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1.0, solver="newton-cg", tol=1e-8)
    model.fit(_features(labelled, labels)[known], is_second)
    return partial(_answer, model=model, labels=labels)


def _answer(observations: Observations, *, model: Any, labels: tuple[str, ...]) -> Answers:
    second = model.predict_proba(_features(observations, labels))[:, 1]
    return _answers(observations, labels, second)


def _answers(observations: Observations, labels: tuple[str, ...], second: Float[np.ndarray, " problem"]) -> Answers:
    side = _sides(observations, labels)
    of_candidate = np.where(side > 0, second[:, None], 1 - second[:, None]) * (side != 0)
    nobody = np.maximum(1 - of_candidate.sum(axis=1), 0)
    return Answers.most_probable(np.column_stack([of_candidate, nobody]), observations)


def _sides(observations: Observations, labels: tuple[str, ...]) -> Float[np.ndarray, "problem level"]:
    """Return 1 for a candidate that is the second label, -1 for one that is the first, 0 where there is none."""
    side = np.zeros((len(observations), observations.n_levels))
    for row, texts in enumerate(observations.candidates):
        side[row, : len(texts)] = [-1.0 if text == labels[0] else 1.0 for text in texts]
    return side


def _features(observations: Observations, labels: tuple[str, ...]) -> Float[np.ndarray, "problem feature"]:
    said = np.take_along_axis(_sides(observations, labels), np.maximum(observations.candidate, 0), axis=1)
    side = np.where(observations.usable, said, 0.0)
    logits = stated_logits(observations)
    silent: Bool[np.ndarray, "problem level"] = np.isnan([*observations.signals.values()]).all(axis=0)
    logits[0] = np.where(silent, 1.0, logits[0])
    return np.hstack([*(side * logits)])


LABEL_LOGISTIC = Method(
    label_logistic,
    words="of two labels that every question has: a logistic regression on which one each level says, and how surely",
    spoken="regression on two labels",
    needs_two_labels=True,
)
