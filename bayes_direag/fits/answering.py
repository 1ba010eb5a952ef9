"""Which questions of a file to answer, so that enough of the answers are right: the labelled layer over abstention.

The labelled questions that this takes come from one of three places, in this order:

``labelled``
    A file of them, given for this.
``observations``
    The file to be predicted, where it has labelled questions that the fit has not seen, and unlabelled ones.
``fit``
    The questions that were fitted to, each predicted without its own label: by leave-one-out under NUTS, from the other
    four of five folds for a MAP. This is exchangeability in approximation only; ``docs/abstention.md`` has how it
    fared.

Questions of a cluster hang together, so that only whole clusters are exchangeable: of each, the first labelled and the
first new question count.
"""

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy.stats import binomtest

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.abstention import Abstention, check_wanted, choose_threshold
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import cross_fit

Source = Literal["labelled", "observations", "fit"]

_FOLDS = 5
_THRESHOLDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True, eq=False)
class Answering:
    """A table of predictions with the column ``answered``, and the decision behind it.

    Attributes
    ----------
    table : DataFrame
        As it was given, and ``answered``: whether the confidence reaches the threshold. False without a confidence.
    decision : Abstention
        Of the new questions alone.
    by_threshold : DataFrame
        What a threshold of one's own would have given: a row a ``threshold``; ``labelled`` answers that reach it, the
        share of these that is ``right``, its 95 % interval from ``low`` to ``high`` (Clopper and Pearson), and ``new``
        answers that reach it. Each interval is for one threshold, chosen beforehand.
    source : {"labelled", "observations", "fit"}
        Where the labelled questions come from.
    n_unusable : int
        New questions without a usable report, which are never answered.
    n_clustered : int
        New questions that do not count, another of their cluster being there.
    n_not_new : int
        Questions of the table that the fit has seen, or whose labels were used; nothing is said of these.
    """

    table: pd.DataFrame
    decision: Abstention
    by_threshold: pd.DataFrame
    source: Source
    n_unusable: int
    n_clustered: int
    n_not_new: int

    def record(self) -> dict[str, object]:
        """Return the decision as plain values; undefined ones as None."""
        values = asdict(self.decision) | {"source": self.source, "n_unusable": self.n_unusable}
        values |= {"n_clustered": self.n_clustered, "n_not_new": self.n_not_new, "reason": self.reason}
        plain: dict[str, object] = {name: _or_none(value) for name, value in values.items()}
        rows = self.by_threshold.to_dict("records")
        return plain | {"by_threshold": [{name: _or_none(value) for name, value in row.items()} for row in rows]}

    @property
    def reason(self) -> str | None:
        """Why nothing is answered; None if something is."""
        found = self.decision
        if found.n_answered:
            return None
        if found.n_new == 0:
            return "None of the new questions has an answer."
        if not found.promised:
            return "The probabilities themselves do not promise that accuracy at any threshold."
        if found.n_labelled < found.n_needed:
            return (
                f"For {found.n_new} new questions at least {found.n_needed} labelled ones would be needed, none of "
                f"them answered wrongly; there are {found.n_labelled}."
            )
        return f"Too many of the {found.n_labelled} labelled answers of highest probability are wrong."

    def text(self) -> str:
        """Say what was decided, what is known of it, and how right answers are by threshold."""
        found = self.decision
        if self.reason is not None:
            said = (
                f"No question is answered: {_SOURCES[self.source]} support no threshold for a target accuracy of "
                f"{found.target:g} with assurance {found.assurance:g}. {self.reason}"
            )
        else:
            said = (
                f"{found.n_answered} of {found.n_new + self.n_unusable} new questions are answered: those with a "
                f"probability of at least {found.threshold:.4g}. With assurance {found.assurance:g}, at least "
                f"{found.target:g} of these answers are right: at most {found.most_wrong} are wrong, and "
                f"{found.expected_wrong:.1f} are expected to be. This comes from {_SOURCES[self.source]}: "
                f"{found.n_labelled_above} of {found.n_labelled} reach that probability, {found.n_labelled_wrong} of "
                f"them with a wrong answer. It holds for new questions of the same kind.{_CAVEATS[self.source]}"
            )
        if self.n_clustered:
            said += f" One question of each cluster counts; {self.n_clustered} more new ones belong to these clusters."
        if self.n_not_new:
            said += f" {self.n_not_new} further questions of the file are not new."
        lines = [f"{'probability':>11}  {'labelled':>8}  {'of these right':>20}  {'new':>6}"]
        for row in self.by_threshold.itertuples():
            share = f"{row.right:.3f} [{row.low:.3f}, {row.high:.3f}]" if row.labelled else "-"
            lines.append(f"{row.threshold:>11g}  {row.labelled:>8}  {share:>20}  {row.new:>6}")
        return "\n".join([said, *lines])


def answer(
    fit: Fit,
    observations: Observations,
    predictions: pd.DataFrame,
    labelled: Observations | None = None,
    *,
    target: float,
    assurance: float = 0.9,
) -> Answering:
    """Decide which of the predicted questions to answer.

    Parameters
    ----------
    fit
        What predicted them.
    observations
        The questions, whose labels are looked at only if some are labelled, some are not, and no others are given.
    predictions
        What :meth:`Fit.predict` says of them.
    labelled
        Questions that the fit has not seen, of the same kind as the new ones. Those without a label are left out.
    target, assurance
        See :func:`~bayes_direag.fits.abstention.choose_threshold`.

    Raises
    ------
    DirEAGError
        If labelled questions have been fitted to, or are also to be predicted; if none of the labelled questions has
        an answer; if there is nothing new among the observations; or if target or assurance are out of range.
    """
    check_wanted(target, assurance)
    seen = fit.has_seen(observations)
    if seen is None:
        seen = np.zeros(len(observations), bool)
    source: Source = "labelled"
    used = np.zeros(len(observations), bool)
    if labelled is not None:
        known = labelled.select(labelled.labelled)
        _check_unseen(known, fit, observations)
        known = known.select(_first_of_clusters(known))
        confidence, correct = _predicted(fit, known)
    elif fit.is_counted:
        raise DirEAGError(
            "the fit counted its questions by pattern and does not say which they were; expected labelled questions "
            "that it has not seen, to find a threshold. Give them with --labelled."
        )
    elif _has_its_own(observations, seen):
        source, used = "observations", observations.labelled & ~seen
        own = observations.select(used)
        confidence, correct = _predicted(fit, own.select(_first_of_clusters(own)))
    else:
        source = "fit"
        confidence, correct = _left_out(fit)
    if np.isnan(confidence).all():
        raise DirEAGError(
            f"saw {len(confidence)} labelled questions to find a threshold with, none with a usable report; expected "
            "some with one. Give other labelled questions."
        )
    new = ~seen & ~used
    if not new.any():
        raise DirEAGError(
            f"all {len(observations)} questions to be predicted were fitted to, or are labelled; expected new ones to "
            "decide about."
        )
    probability = predictions["confidence"].to_numpy(float)
    counted = probability[new][_first_of_clusters(observations.select(new))]
    found = choose_threshold(confidence, correct, counted, target=target, assurance=assurance)
    return Answering(
        table=predictions.assign(
            answered=probability >= found.threshold
        ),  # False with NaN: no confidence, no threshold
        decision=found,
        by_threshold=_by_threshold(confidence, correct, counted),
        source=source,
        n_unusable=int(np.isnan(counted).sum()),
        n_clustered=int(new.sum()) - len(counted),
        n_not_new=int((~new).sum()),
    )


def _by_threshold(
    confidence: Float[np.ndarray, " labelled"], correct: Bool[np.ndarray, " labelled"], new: Float[np.ndarray, " new"]
) -> pd.DataFrame:
    """Return what thresholds give; undefined shares are NaN."""
    rows = []
    for threshold in _THRESHOLDS:
        right = correct[confidence >= threshold]
        row = {"threshold": threshold, "labelled": len(right), "right": np.nan, "low": np.nan, "high": np.nan}
        if len(right):
            low, high = binomtest(int(right.sum()), len(right)).proportion_ci(0.95)
            row |= {"right": right.mean(), "low": low, "high": high}
        rows.append(row | {"new": int((new >= threshold).sum())})
    return pd.DataFrame(rows)


def _or_none(value: object) -> object:
    return None if isinstance(value, float) and np.isnan(value) else value


def _first_of_clusters(observations: Observations) -> Int[np.ndarray, " cluster"]:
    """Return the first question of each cluster; all without clusters."""
    number = observations.cluster_number
    return np.arange(len(observations)) if number is None else np.unique(number, return_index=True)[1]


def _has_its_own(observations: Observations, seen: Bool[np.ndarray, " problem"]) -> bool:
    """Say whether there are labelled questions that the fit has not seen, and unlabelled ones to use them for."""
    own = observations.labelled & observations.answered & ~seen
    return bool(own.any() and not observations.labelled[~seen].all())


def _check_unseen(labelled: Observations, fit: Fit, observations: Observations) -> None:
    for names, what in (
        (fit.learned_from or frozenset(), "the fit was fitted to them"),
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
    """Return the confidence of questions that the fit has not seen, and whether the answers are right."""
    predictions = fit.predict(labelled)
    return predictions["confidence"].to_numpy(float), labelled.is_right(predictions["answer"])


def _left_out(fit: Fit) -> tuple[Float[np.ndarray, " problem"], Bool[np.ndarray, " problem"]]:
    """Return the same of the questions that were fitted to, each as predicted without its own label."""
    questions = fit.fitted
    if "loo" in fit.tree.children:
        loo = fit.tree["loo"]
        confidence, correct = loo["confidence"].to_numpy(), loo["correct"].to_numpy()
    else:
        confidence, correct = np.full(len(questions), np.nan), np.zeros(len(questions), bool)
        seed = int(fit.tree.attrs["seed"])
        for held_out in cross_fit(questions, n_folds=_FOLDS, preset=fit.preset, variant=fit.variant, seed=seed):
            confidence[held_out.index] = held_out.predictions["confidence"]
            correct[held_out.index] = questions.select(held_out.index).is_right(held_out.predictions["answer"])
    counted = _first_of_clusters(questions)
    return confidence[counted], correct[counted]


_SOURCES: dict[Source, str] = {
    "labelled": "the labelled questions given",
    "observations": "the labelled questions of the file itself",
    "fit": "the questions fitted to (each predicted without its own label)",
}

_CAVEATS: dict[Source, str] = {
    "labelled": "",
    "observations": "",
    "fit": " Labelled questions that the fit has not seen (--labelled) would make it exact.",
}
