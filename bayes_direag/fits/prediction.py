"""Prediction by pattern: questions that a fit cannot tell apart are predicted once.

A pattern is who said the same as whom, and how confidently, whatever it was that they said.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int, Shaped

from bayes_direag.data.counted import Patterns, distinct_rows
from bayes_direag.fits.selection import Selection, select_reports
from bayes_direag.inference.recalibration import Recalibration
from bayes_direag.model.evidence import Parameters, Reports
from bayes_direag.model.votes import Votes

#: Patterns that are remembered from one call to the next.
REMEMBERED = 1 << 18

#: Columns by name, each as long as there are questions.
Columns = dict[str, Shaped[np.ndarray, " problem"]]


@dataclass
class PatternPredictor:
    """Predicts questions, and remembers the patterns that it has met.

    Parameters
    ----------
    parameters
        Natural parameters, each with a leading sample axis.
    recalibration
        The final calibration.
    interval_level
        Posterior probability that the intervals hold.
    """

    parameters: Parameters
    recalibration: Recalibration
    interval_level: float
    _known: Reports | None = field(default=None, init=False, repr=False)
    _found: Columns = field(default_factory=dict, init=False, repr=False)

    @property
    def n_samples(self) -> int:
        """Number of posterior draws over all chains; 1 for a MAP."""
        return int(self.parameters.weight.shape[0])

    def __call__(self, reports: Reports) -> Columns:
        """Predict questions.

        Returns
        -------
        dict
            By name the columns ``candidate`` (-1 without one) and those of :meth:`Fit.predict
            <bayes_direag.fits.fit.Fit.predict>` that are computed.
        """
        label = by_first_mention(np.asarray(reports.candidate))
        here = Reports(np.asarray(reports.logit_confidence), label, np.asarray(reports.n_candidates))
        everything = here if self._known is None else _joined(self._known, here)
        n_known = len(everything.n_candidates) - len(label)
        patterns = _patterns(everything)
        is_new = patterns.member >= n_known
        new = self._predict(everything.select(patterns.member[is_new]))
        found = {name: np.empty(len(is_new), values.dtype) for name, values in new.items()}
        for name, values in found.items():
            values[is_new] = new[name]
            if n_known:
                values[~is_new] = self._found[name][patterns.member[~is_new]]
        keep = len(is_new) <= REMEMBERED
        self._known, self._found = (everything.select(patterns.member), found) if keep else (None, {})
        own = {name: values[patterns.pattern[n_known:]] for name, values in found.items()}
        return self._in_string_order(reports, label, own)

    def _in_string_order(self, reports: Reports, label: Int[np.ndarray, "problem level"], own: Columns) -> Columns:
        """Say of candidates which they are by string order, which alone decides between equals."""
        names = label == own["candidate"][:, None]
        first = np.argmax(names, axis=1)
        candidate = np.asarray(reports.candidate)[np.arange(len(first)), first]
        own["candidate"] = np.where(own["candidate"] >= 0, candidate, -1)
        tied = np.flatnonzero(own.pop("tied"))
        if len(tied):
            alike = reports.select(tied)
            patterns = _patterns(alike)
            for name, values in self._predict(alike.select(patterns.member)).items():
                if name in own:
                    own[name][tied] = values[patterns.pattern]
        return own

    def _predict(self, reports: Reports) -> Columns:
        """Predict every one of some questions; candidates are named as they are there."""
        parts = list(select_reports(reports, self.parameters, self._summary))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _summary(self, reports: Reports, selection: Selection) -> Columns:
        votes = Votes.of(np.asarray(reports.candidate), selection.candidate)
        confidence = self.recalibration(selection.support, votes)
        columns = {"candidate": selection.candidate, "confidence": confidence.mean(axis=0)}
        if self.n_samples > 1:
            tails = [(1 - self.interval_level) / 2, (1 + self.interval_level) / 2]
            low, high = np.quantile(confidence, tails, axis=0)
            columns |= {
                "confidence_low": low,
                "confidence_high": high,
                "change_probability": selection.change_probability,
            }
        return columns | {
            "support": selection.support.mean(axis=0),
            "null_probability": selection.null_probability,
            "tied": selection.tied,
        }


def by_first_mention(candidate: Int[np.ndarray, "problem level"]) -> Int[np.ndarray, "problem level"]:
    """Return each question's candidates numbered in the order in which its levels name them; -1 stays.

    Examples
    --------
    >>> by_first_mention(np.array([[2, 0, -1, 2, 1], [-1, 0, 0, 0, 0]]))
    array([[ 0,  1, -1,  0,  2],
           [-1,  0,  0,  0,  0]])
    """
    n, n_levels = candidate.shape
    question, label = np.arange(n), np.full(candidate.shape, -1)
    number, n_named = np.full((n, n_levels + 1), -1), np.zeros(n, int)  # the last for no report
    for level in range(n_levels):
        said = candidate[:, level]
        fresh = (said >= 0) & (number[question, said] < 0)
        number[question[fresh], said[fresh]] = n_named[fresh]
        n_named += fresh
        label[:, level] = number[question, said]
    return label


def _patterns(reports: Reports) -> Patterns:
    return distinct_rows(
        [np.asarray(column) for column in (reports.n_candidates, *reports.candidate.T, *reports.logit_confidence.T)]
    )


def _joined(first: Reports, second: Reports) -> Reports:
    return Reports(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))
