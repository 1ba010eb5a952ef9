"""Predict questions by pattern, over the draws of a posterior.

Questions with the same pattern have the same prediction, which is computed once. A pattern says which levels agree with
which and how confident they are, but not what they answer, unless there are votes by label. Questions are predicted in
pieces of bounded memory; results do not depend on the pieces. What a report counts depends only on its level,
confidence and perhaps label; it is computed once for each combination that occurs, and looked up.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import jax
import numpy as np
from jaxtyping import Float, Int

from bayes_direag.model.evidence import Parameters, Reports
from bayes_direag.model.patterns import Patterns, by_first_mention, distinct_rows
from bayes_direag.model.selection import (
    Columns,
    Recalibration,
    Samples,
    Selection,
    Table,
    final_distribution,
    select,
    summary,
    worth,
)

_TABLE_CELLS = 1 << 23
_PIECE_CELLS = 1 << 16  # small enough to stay in a core's own cache


def select_reports[Result](
    reports: Reports, parameters: Parameters, then: Callable[[Selection], Result]
) -> Iterator[Result]:
    """Select the answers of questions piece by piece, on all cores; yield ``then`` of each piece's selection.

    Parameters
    ----------
    parameters
        Natural parameters, each with a leading sample axis.
    """
    samples = {name: np.asarray(value) for name, value in parameters._asdict().items() if value is not None}
    size = max(_PIECE_CELLS // len(samples["weight"]), 1)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for block in _blocks(reports, samples):
            table = _table(block, samples)
            n = len(block.n_candidates)
            pieces = (slice(start, start + size) for start in range(0, max(n, 1), size))

            def result(piece: slice, block: Reports = block, table: Table = table) -> Result:
                candidate, n_candidates = np.asarray(block.candidate)[piece], np.asarray(block.n_candidates)[piece]
                return then(select(candidate, n_candidates, table._replace(entry=table.entry[piece]), samples))

            yield from threads.map(result, pieces)


def distribution(
    reports: Reports, parameters: Parameters, final: Recalibration | None = None
) -> Float[np.ndarray, "problem state"]:
    """Return the final probability of every state, the null last; without ``final``, the mean support."""
    most = max(int(np.max(reports.n_candidates, initial=0)), 1)

    def of_piece(selection: Selection) -> Float[np.ndarray, "problem state"]:
        states = selection.mean_support
        if final is not None:
            probability = final.of_selected(selection.support).mean(axis=0)
            states = final_distribution(states, selection.candidate, probability)
        return np.insert(states, [-1] * (most + 1 - states.shape[1]), 0.0, axis=1)

    return np.concatenate(list(select_reports(reports, parameters, of_piece)))


def _table(reports: Reports, samples: Samples) -> Table:
    """Compute an entry for every level and distinct confidence; if there are fewer reports, for every report."""
    usable = np.asarray(reports.candidate) >= 0
    n, n_levels = usable.shape
    code, distinct = _distinct(reports)
    row = code if len(distinct) < n else np.arange(n)[:, None]
    kind = np.repeat(distinct[:, None], n_levels, axis=1) if len(distinct) < n else np.arange(n * n_levels)
    level = np.tile(np.arange(n_levels), min(len(distinct), n))
    logits = np.asarray(reports.logit_confidence)
    stated = logits.reshape(n * n_levels, *logits.shape[2:])[kind.ravel()]
    label = None if reports.label is None else np.ravel(reports.label)[kind.ravel()]
    given, doubt, vote = worth(stated, level, samples, label)
    no_report = np.zeros((1, given.shape[1]))
    given, doubt = np.concatenate([given, no_report]), np.concatenate([doubt, no_report])
    vote = None if vote is None else np.concatenate([vote, no_report])
    return Table(given, doubt, vote, np.where(usable, row * n_levels + np.arange(n_levels), len(given) - 1))


def _distinct(reports: Reports) -> tuple[Int[np.ndarray, "problem level"], Int[np.ndarray, " distinct"]]:
    """Return the number of each report's combination of signals and label, and the first report of each."""
    import pandas as pd

    shape, code = np.shape(reports.candidate), np.zeros(np.size(reports.candidate), np.int64)
    for column in (*_by_signal(reports), *(() if reports.label is None else (np.asarray(reports.label),))):
        column_code, values = pd.factorize(column.ravel())
        code, _ = pd.factorize(code * len(values) + column_code)
    first = np.unique(code, return_index=True)[1]
    return code.reshape(shape), first


def _by_signal(reports: Reports) -> list[Float[np.ndarray, "problem level"]]:
    """Return the logits of each signal."""
    logits = np.asarray(reports.logit_confidence)
    return [logits] if logits.ndim == 2 else [*np.moveaxis(logits, 2, 0)]


def _blocks(reports: Reports, samples: Samples) -> Iterator[Reports]:
    """Yield the questions in as few blocks as tables of bounded memory allow."""
    n, n_levels = np.shape(reports.candidate)
    n_samples = len(samples["weight"])
    fits = len(_distinct(reports)[1]) * n_levels * n_samples <= _TABLE_CELLS
    size = max(n, 1) if fits else max(_TABLE_CELLS // (n_levels * n_samples), 1)
    for start in range(0, max(n, 1), size):
        yield reports.select(slice(start, start + size))


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
        then = partial(summary, final=self.recalibration, interval_level=self.interval_level)
        parts = list(select_reports(reports, self.parameters, then))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _patterns(reports: Reports) -> Patterns:
    columns = (reports.candidate, *_by_signal(reports), reports.label)
    by_level = (column.T for column in columns if column is not None)
    return distinct_rows([np.asarray(column) for column in (reports.n_candidates, *chain.from_iterable(by_level))])
