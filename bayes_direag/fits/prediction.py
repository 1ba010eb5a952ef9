"""Predict questions by pattern, over the draws of a posterior.

Questions with the same pattern have the same prediction, which is computed once. A pattern says which levels agree with
which and how confident they are, but not what they answer, unless there are votes by label.
"""

from dataclasses import dataclass, field
from itertools import chain

import jax
import numpy as np
from jaxtyping import Int

from bayes_direag.model.equations import Parameters, Reports
from bayes_direag.model.patterns import Patterns, by_first_mention, distinct_rows
from bayes_direag.model.selection import Columns, Recalibration, States, evaluate, select, summary

#: Most patterns that are kept from one call to the next.
REMEMBERED = 1 << 18


@dataclass
class PatternPredictor:
    """Predict questions, keeping the predictions of patterns from one call to the next.

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
    _predicted: Columns = field(default_factory=dict, init=False, repr=False)

    def __call__(self, reports: Reports) -> Columns:
        """Predict questions.

        Returns
        -------
        dict
            ``candidate`` (-1 without one) and the computed columns of :meth:`Fit.predict
            <bayes_direag.fits.fit.Fit.predict>`, by name.
        """
        mention = by_first_mention(np.asarray(reports.candidate))
        new_reports: Reports = jax.tree.map(np.asarray, reports._replace(candidate=mention))
        together = new_reports
        if self._known is not None:
            together = jax.tree.map(lambda *pair: np.concatenate(pair), self._known, new_reports)
        n_known = len(together.n_candidates) - len(mention)
        patterns = _patterns(together)
        is_new = patterns.member >= n_known
        new = self._predict(together.select(patterns.member[is_new]))
        by_pattern = {name: np.empty(len(is_new), values.dtype) for name, values in new.items()}
        for name, values in by_pattern.items():
            values[is_new] = new[name]
            if n_known:
                values[~is_new] = self._predicted[name][patterns.member[~is_new]]
        keep = len(is_new) <= REMEMBERED
        self._known, self._predicted = (together.select(patterns.member), by_pattern) if keep else (None, {})
        columns = {name: values[patterns.pattern[n_known:]] for name, values in by_pattern.items()}
        return self._in_string_order(reports, mention, columns)

    def _in_string_order(
        self, reports: Reports, mention: Int[np.ndarray, "problem level"], columns: Columns
    ) -> Columns:
        """Return candidates in string order, not by first mention; predict ties again, as the order decides them."""
        is_selected = mention == columns["candidate"][:, None]
        first = np.argmax(is_selected, axis=1)
        candidate = np.asarray(reports.candidate)[np.arange(len(first)), first]
        columns["candidate"] = np.where(columns["candidate"] >= 0, candidate, -1)
        tied = np.flatnonzero(columns.pop("tied"))
        if len(tied):
            tied_reports = reports.select(tied)
            patterns = _patterns(tied_reports)
            for name, values in self._predict(tied_reports.select(patterns.member)).items():
                if name in columns:
                    columns[name][tied] = values[patterns.pattern]
        return columns

    def _predict(self, reports: Reports) -> Columns:
        """Predict every question; candidates are numbered as in the reports."""

        def of_piece(states: States) -> Columns:
            return summary(select(states), self.recalibration, self.interval_level)

        parts = list(evaluate(reports, self.parameters, of_piece))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _patterns(reports: Reports) -> Patterns:
    columns = (reports.candidate, *reports.by_signal, reports.label)
    by_level = (column.T for column in columns if column is not None)
    return distinct_rows([reports.n_candidates, *chain.from_iterable(by_level)])
