"""Choose the questions of a file to answer, so that a target accuracy is reached.

The labelled questions for this come from the first of three sources:

``labelled``
    Labelled questions given for the purpose.
``observations``
    The questions to predict, if some are labelled and new to the fit, and others are unlabelled.
``fit``
    The fitted questions, each predicted without its own label: by leave-one-out under NUTS, and from the other four of
    five folds for a MAP. They are exchangeable with new questions only approximately: see ``docs/abstention.md``.

Only whole clusters are exchangeable. So the first labelled and the first new question of each cluster count.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy.stats import binomtest

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit, Source
from bayes_direag.fits.fitting import cross_fit
from bayes_direag.fits.sources import observations_of
from bayes_direag.fits.threshold import Threshold, check_wanted, choose_threshold

LabelSource = Literal["labelled", "observations", "fit"]

_FOLDS = 5
_THRESHOLDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True, eq=False)
class Abstention:
    """A table of predictions with the column ``answered``, and the decision behind it.

    Attributes
    ----------
    table : DataFrame
        The predictions, with ``answered``: whether the confidence reaches the threshold; False without a confidence.
    decision : Threshold
        The decision for the new questions.
    by_threshold : DataFrame
        The result of other thresholds: ``threshold``; ``labelled``, the labelled answers that reach it; ``right``, the
        share of these that is right, with its 95 % interval from ``low`` to ``high`` (Clopper and Pearson); ``new``,
        the new answers that reach it. Each interval holds for a threshold that is chosen beforehand.
    source : {"labelled", "observations", "fit"}
        Where the labelled questions come from.
    n_unusable : int
        New questions without a usable report, which are never answered.
    n_clustered : int
        New questions that do not count, as another question of their cluster does.
    n_not_new : int
        Questions of the table that the fit has seen, or whose labels were used; the decision is not about them.
    """

    table: pd.DataFrame
    decision: Threshold
    by_threshold: pd.DataFrame
    source: LabelSource
    n_unusable: int
    n_clustered: int
    n_not_new: int

    def record(self) -> dict[str, object]:
        """Return the decision as plain values; undefined ones as None."""
        counts = {"n_unusable": self.n_unusable, "n_clustered": self.n_clustered, "n_not_new": self.n_not_new}
        decision = asdict(self.decision) | {"source": self.source, **counts, "reason": self.reason}
        records: list[dict[Any, Any]] = [decision, *self.by_threshold.to_dict("records")]
        plain, *rows = ({name: None if x != x else x for name, x in record.items()} for record in records)  # NaN
        return {**plain, "by_threshold": rows}

    @property
    def reason(self) -> str | None:
        """Why nothing is answered; None if something is."""
        decision = self.decision
        if decision.n_answered:
            return None
        if decision.n_new == 0:
            return "None of the new questions has an answer."
        if not decision.promised:
            return "The probabilities themselves do not promise that accuracy at any threshold."
        if decision.n_labelled < decision.n_needed:
            return (
                f"For {decision.n_new} new questions at least {decision.n_needed} labelled ones would be needed, none "
                f"of them answered wrongly; there are {decision.n_labelled}."
            )
        return f"Too many of the {decision.n_labelled} labelled answers of highest probability are wrong."

    def text(self) -> str:
        """Return the decision, its guarantee, and the table by threshold as text."""
        d = self.decision
        if self.reason is not None:
            text = (
                f"No question is answered: {_SOURCES[self.source]} support no threshold for a target accuracy of "
                f"{d.target:g} with assurance {d.assurance:g}. {self.reason}"
            )
        else:
            text = (
                f"{d.n_answered} of {d.n_new + self.n_unusable} new questions are answered: those with a "
                f"probability of at least {d.threshold:.4g}. With assurance {d.assurance:g}, at least "
                f"{d.target:g} of these answers are right: at most {d.most_wrong} are wrong, and "
                f"{d.expected_wrong:.1f} are expected to be. This comes from {_SOURCES[self.source]}: "
                f"{d.n_labelled_above} of {d.n_labelled} reach that probability, {d.n_labelled_wrong} of "
                f"them with a wrong answer. It holds for new questions of the same kind."
            )
            if self.source == "fit":
                text += " Labelled questions that the fit has not seen (labelled=, --labelled) would make it exact."
        if self.n_clustered:
            text += f" One question of each cluster counts; {self.n_clustered} more new ones belong to these clusters."
        if self.n_not_new:
            text += f" {self.n_not_new} further questions of the file are not new."
        lines = [f"{'probability':>11}  {'labelled':>8}  {'of these right':>20}  {'new':>6}"]
        for row in self.by_threshold.itertuples():
            share = f"{row.right:.3f} [{row.low:.3f}, {row.high:.3f}]" if row.labelled else "-"
            lines.append(f"{row.threshold:>11g}  {row.labelled:>8}  {share:>20}  {row.new:>6}")
        return "\n".join([text, *lines])


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
        The questions, in any form that :meth:`Fit.predict <bayes_direag.fits.fit.Fit.predict>` takes. Their labels are
        used only if ``labelled`` is None and only some of them have labels.
    labelled
        Labelled questions that the fit has not seen, of the same kind as the new ones. Unlabelled ones are left out.
    target_accuracy, assurance
        With probability ``assurance`` at least this share of the answers is right, or nothing is answered: see
        :func:`~bayes_direag.fits.threshold.choose_threshold`.
    interval_level
        Of the intervals in the table, as in :meth:`Fit.predict <bayes_direag.fits.fit.Fit.predict>`.

    Raises
    ------
    DirEAGError
        If the fit has seen labelled questions, or they are also to be predicted; if no labelled question has an answer;
        if no question is new; or if target, assurance or interval level are out of range.

    Examples
    --------
    >>> from bayes_direag import answer, fit_map, simulate_observations
    >>> questions = simulate_observations(n=400, seed=1)
    >>> fitted, labelled, new = (questions.select(slice(*ends)) for ends in ((0, 150), (150, 300), (300, 400)))
    >>> decided = answer(fit_map(fitted), new, labelled, target_accuracy=0.7)
    >>> decided.table["answered"].sum() == decided.decision.n_answered
    np.True_
    """
    check_wanted(target_accuracy, assurance)
    observations = observations_of(observations, fit.answers, fit.columns)
    predictions = fit.predict(observations, interval_level=interval_level)
    new = ~fit.has_seen(observations)
    own = new & observations.labelled
    source: LabelSource = "labelled"
    if labelled is not None:
        known = observations_of(labelled, fit.answers, fit.columns)
        known = known.select(known.labelled)
        _check_unseen(known, fit, observations)
        confidence, correct = _predicted(fit, known)
    elif (own & observations.answered).any() and (new & ~own).any():
        source, new = "observations", new & ~own
        confidence, correct = _predicted(fit, observations.select(own))
    else:
        source = "fit"
        confidence, correct = _left_out(fit)
    if np.isnan(confidence).all():
        raise DirEAGError(
            f"saw {len(confidence)} labelled questions to find a threshold with, none with a usable report; expected "
            "some with one. Give other labelled questions."
        )
    if not new.any():
        raise DirEAGError(
            f"all {len(observations)} questions to be predicted were fitted to, or are labelled; expected new ones to "
            "decide about."
        )
    probability = predictions["confidence"].to_numpy(float)
    counted = probability[new][_first_of_clusters(observations.select(new))]
    decision = choose_threshold(confidence, correct, counted, target=target_accuracy, assurance=assurance)
    return Abstention(
        table=predictions.assign(answered=probability >= decision.threshold),  # False where either is NaN
        decision=decision,
        by_threshold=by_threshold(confidence, correct).assign(
            new=(counted >= np.array(_THRESHOLDS)[:, None]).sum(axis=1)
        ),
        source=source,
        n_unusable=int(np.isnan(counted).sum()),
        n_clustered=int(new.sum()) - len(counted),
        n_not_new=int((~new).sum()),
    )


def by_threshold(
    confidence: Float[np.ndarray, " labelled"], correct: Bool[np.ndarray, " labelled"], level: float = 0.95
) -> pd.DataFrame:
    """Return how many labelled answers reach each threshold, and the share that is right, NaN if there is none."""
    rows = []
    for threshold in _THRESHOLDS:
        right = correct[confidence >= threshold]
        row = {"threshold": threshold, "labelled": len(right), "right": np.nan, "low": np.nan, "high": np.nan}
        if len(right):
            low, high = binomtest(int(right.sum()), len(right)).proportion_ci(level)
            row |= {"right": right.mean(), "low": low, "high": high}
        rows.append(row)
    return pd.DataFrame(rows)


def _first_of_clusters(observations: Observations) -> Int[np.ndarray, " cluster"]:
    """Return the first question of each cluster; without clusters, all questions."""
    number = observations.cluster_number
    return np.arange(len(observations)) if number is None else np.unique(number, return_index=True)[1]


def _check_unseen(labelled: Observations, fit: Fit, observations: Observations) -> None:
    for names, what in (
        (fit.learned_from, "the fit was fitted to them"),
        (frozenset(observations.problem_id), "they are also among the questions to be predicted"),
    ):
        both = [name for name in labelled.problem_id if name in names]
        if both:
            raise DirEAGError(
                f"{len(both)} of {len(labelled)} labelled questions cannot be used, {both[0]!r} among them: {what}; "
                "expected questions that the fit has not seen. Remove them, or rename them if they are other questions "
                "under the same problem_id."
            )


def _predicted(fit: Fit, labelled: Observations) -> tuple[Float[np.ndarray, " problem"], Bool[np.ndarray, " problem"]]:
    """Return the confidence of the first question of each cluster, and whether its answer is right."""
    first = labelled.select(_first_of_clusters(labelled))
    predictions = fit.predict(first, warn=False)
    return predictions["confidence"].to_numpy(float), first.is_right(predictions["answer"])


def _left_out(fit: Fit) -> tuple[Float[np.ndarray, " problem"], Bool[np.ndarray, " problem"]]:
    """Return the same for the fitted questions, each predicted without its own label."""
    questions = fit.fitted
    if "loo" in fit.tree.children:
        loo = fit.tree["loo"]
        confidence, correct = loo["confidence"].to_numpy(), loo["correct"].to_numpy()
    else:
        confidence, correct = np.full(len(questions), np.nan), np.zeros(len(questions), bool)
        settings: dict[str, Any] = {"preset": fit.preset, "variant": fit.variant, "partial": fit.partial}
        for held_out in cross_fit(questions, n_folds=_FOLDS, **settings, seed=int(fit.tree.attrs["seed"])):
            confidence[held_out.index] = held_out.predictions["confidence"]
            correct[held_out.index] = questions.select(held_out.index).is_right(held_out.predictions["answer"])
    counted = _first_of_clusters(questions)
    return confidence[counted], correct[counted]


_SOURCES: dict[LabelSource, str] = {
    "labelled": "the labelled questions given",
    "observations": "the labelled questions of the file itself",
    "fit": "the questions fitted to (each predicted without its own label)",
}
