"""Choose the questions of a file to answer, so that a target accuracy is reached.

Only whole clusters are exchangeable. So the first labelled and the first new question of each cluster count.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit, Source
from bayes_direag.fits.fitting import cross_fit
from bayes_direag.fits.sources import observations_of
from bayes_direag.fits.threshold import Threshold, choose_threshold

_FOLDS = 5

#: The probability of each labelled question, and whether its answer is right.
Judged = tuple[Float[np.ndarray, " problem"], Bool[np.ndarray, " problem"]]


@dataclass(frozen=True, eq=False)
class Abstention:
    """A table of predictions with the column ``answered``, and the decision behind it."""

    #: ``answered``: whether the probability reaches the threshold; False without one.
    table: pd.DataFrame
    target: float
    assurance: float
    decision: Threshold
    #: Where the labelled questions come from: ``given``, ``of the file itself`` or ``of the fit``.
    source: str
    #: New questions without a usable report; those beyond the first of their cluster; and the questions that are not
    #: new, as the fit has seen them, or their labels were used. The decision is not about the last.
    n_unusable: int
    n_clustered: int
    n_not_new: int

    def record(self) -> dict[str, object]:
        """Return the decision as plain values; undefined ones as None."""
        found = {**vars(self), **self.decision._asdict(), "reason": self.reason}
        del found["table"], found["decision"]
        return {name: None if value != value else value for name, value in found.items()}  # NaN

    @property
    def reason(self) -> str | None:
        """Why nothing is answered; None if something is."""
        d = self.decision
        if d.n_answered:
            return None
        if not d.n_new:
            return "None of the new questions has an answer."
        if not d.promised:
            return "The probabilities themselves do not promise that accuracy at any threshold."
        if d.n_labelled < d.n_needed:
            return f"{d.n_new} new questions need at least {d.n_needed} labelled ones; there are {d.n_labelled}."
        return f"Too many of the {d.n_labelled} labelled answers of highest probability are wrong."

    def text(self) -> str:
        """Return the decision and its guarantee in sentences."""
        d, accuracy = self.decision, f"an accuracy of {self.target:g}, with assurance {self.assurance:g}"
        if self.reason is not None:
            return f"No question is answered: no threshold reaches {accuracy}. {self.reason}"
        approximate = " This makes it approximate." if self.source == "of the fit" else ""
        return (
            f"{d.n_answered} of {d.n_new + self.n_unusable} new questions are answered, those of probability "
            f"{d.threshold:.4g} or more, for {accuracy}. At most {d.most_wrong} of these are wrong, if they are "
            f"like the {d.n_labelled} labelled ones {self.source}: {d.n_labelled_above} of those reach that "
            f"probability, {d.n_labelled_wrong} with a wrong answer.{approximate} Not counted: {self.n_clustered} more "
            f"questions of the same clusters, {self.n_not_new} that are not new."
        )


def answer(
    fit: Fit,
    observations: Source,
    labelled: Source | None = None,
    *,
    target_accuracy: float,
    assurance: float = 0.9,
    interval_level: float = 0.9,
) -> Abstention:
    """Predict questions, and decide which of them to answer.

    Parameters
    ----------
    fit
        The fit that predicts them.
    observations
        The questions, in any form that :meth:`Fit.predict <bayes_direag.fits.fit.Fit.predict>` takes.
    labelled
        Labelled questions that the fit has not seen, of the same kind as the new ones; unlabelled ones are left out. By
        default those of ``observations`` that are new to the fit, if others are unlabelled; else the fitted questions,
        each predicted without its own label: by leave-one-out under NUTS, from four of five folds for a MAP.
    target_accuracy, assurance
        With probability ``assurance`` at least this share of the answers is right, or nothing is answered: see
        :mod:`bayes_direag.fits.threshold`.
    interval_level
        Of the intervals in the table, as in :meth:`Fit.predict <bayes_direag.fits.fit.Fit.predict>`.

    Raises
    ------
    DirEAGError
        If the fit has seen labelled questions, or they are also to be predicted; if no labelled question has an answer;
        if no question is new; or if target, assurance or interval level are out of range.
    """
    observations = observations_of(observations, fit.answers, fit.columns)
    predictions = fit.predict(observations, interval_level=interval_level)
    new, probability = ~fit.has_seen(observations), predictions["probability"].to_numpy(float)
    own = new & observations.labelled
    if labelled is not None:
        source, known = "given", observations_of(labelled, fit.answers, fit.columns)
        known = known.select(known.labelled)
        known_names = fit.learned_from.union(observations.problem_id)
        if both := [name for name in known.problem_id if name in known_names]:
            raise DirEAGError(
                f"{len(both)} of {len(known)} labelled questions cannot be used, {both[0]!r} among them: the fit was "
                "fitted to them, or they are to be predicted; expected others. Remove them, or rename them."
            )
    elif (own & observations.answered).any() and (new & ~own).any():
        source, known, new = "of the file itself", observations.select(own), new & ~own
    else:
        source, known = "of the fit", fit.fitted
    known_probability, correct = _left_out(fit) if source == "of the fit" else _predicted(fit, known)
    if np.isnan(known_probability).all() or not new.any():
        raise DirEAGError(
            f"saw {np.isfinite(known_probability).sum()} labelled questions with a usable report, and {new.sum()} new "
            f"ones of {len(observations)} to be predicted; expected some of both. Questions that the fit has seen are "
            "not new."
        )
    first, counted = _first_of_clusters(known), probability[new][_first_of_clusters(observations.select(new))]
    shares = {"target": target_accuracy, "assurance": assurance}
    decision = choose_threshold(known_probability[first], correct[first], counted, **shares)
    return Abstention(
        table=predictions.assign(answered=probability >= decision.threshold),  # False where either is NaN
        **shares,
        decision=decision,
        source=source,
        n_unusable=int(np.isnan(counted).sum()),
        n_clustered=int(new.sum()) - len(counted),
        n_not_new=int((~new).sum()),
    )


def _first_of_clusters(observations: Observations) -> Int[np.ndarray, " cluster"]:
    """Return the first question of each cluster; without clusters, all questions."""
    number = observations.cluster_number
    return np.arange(len(observations)) if number is None else np.unique(number, return_index=True)[1]


def _predicted(fit: Fit, labelled: Observations) -> Judged:
    predictions = fit.predict(labelled, warn=False)
    return predictions["probability"].to_numpy(float), labelled.is_right(predictions["answer"])


def _left_out(fit: Fit) -> Judged:
    """Judge the fitted questions, each predicted without its own label."""
    questions = fit.fitted
    if "loo" in fit.tree.children:
        return fit.left_out["probability"].to_numpy(), fit.left_out["correct"].to_numpy()
    probability, correct = np.full(len(questions), np.nan), np.zeros(len(questions), bool)
    settings: dict[str, Any] = {"preset": fit.preset, "partial": fit.partial, "seed": int(fit.tree.attrs["seed"])}
    for held_out in cross_fit(questions, n_folds=_FOLDS, **settings):
        probability[held_out.index] = held_out.predictions["probability"]
        correct[held_out.index] = questions.select(held_out.index).is_right(held_out.predictions["answer"])
    return probability, correct
