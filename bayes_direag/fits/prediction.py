"""Prediction: which answer a question gets, and with how much support, over the draws of a posterior.

Questions that a fit cannot tell apart are predicted once, by their pattern: who said the same as whom, and how
confidently, whatever it was that they said, unless votes go by label. They are worked through in pieces of bounded
memory; no result depends on the piece. What a report counts depends on its level, its confidence and perhaps its label:
it is computed once for each that occurs, and looked up.
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

from bayes_direag.data.counted import Patterns, by_first_mention, distinct_rows
from bayes_direag.model.evidence import Parameters, Reports
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
    """Select one answer a question from all samples together; yield what ``then`` makes of each piece, on all cores.

    Parameters
    ----------
    parameters
        Each with a leading sample axis.
    """
    samples = {name: np.asarray(value) for name, value in parameters._asdict().items() if value is not None}
    size = max(_PIECE_CELLS // len(samples["weight"]), 1)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for block in _blocks(reports, samples):
            table = _table(block, samples)
            n = len(block.n_candidates)
            pieces = (slice(start, start + size) for start in range(0, max(n, 1), size))

            def done(piece: slice, block: Reports = block, table: Table = table) -> Result:
                own = block.select(piece)
                candidate, n_candidates = np.asarray(own.candidate), np.asarray(own.n_candidates)
                return then(select(candidate, n_candidates, table._replace(entry=table.entry[piece]), samples))

            yield from threads.map(done, pieces)


def distribution(
    reports: Reports, parameters: Parameters, final: Recalibration | None = None
) -> Float[np.ndarray, "problem state"]:
    """Return the final probability of every state, the null last; without a final calibration its mean support."""
    most = max(int(np.max(reports.n_candidates, initial=0)), 1)

    def of_piece(found: Selection) -> Float[np.ndarray, "problem state"]:
        states = found.mean_support
        if final is not None:
            states = final_distribution(states, found.candidate, final.of_selected(found.support).mean(axis=0))
        return np.insert(states, [-1] * (most + 1 - states.shape[1]), 0.0, axis=1)

    return np.concatenate(list(select_reports(reports, parameters, of_piece)))


def _table(reports: Reports, samples: Samples) -> Table:
    """Compute an entry for every level and distinct confidence, or for every report if these are fewer."""
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
    nothing = np.zeros((1, given.shape[1]))
    given, doubt = np.concatenate([given, nothing]), np.concatenate([doubt, nothing])
    vote = None if vote is None else np.concatenate([vote, nothing])
    return Table(given, doubt, vote, np.where(usable, row * n_levels + np.arange(n_levels), len(given) - 1))


def _distinct(reports: Reports) -> tuple[Int[np.ndarray, "problem level"], Int[np.ndarray, " distinct"]]:
    """Return the number of each report's signals (with its label, if asked for), and where each occurs first."""
    import pandas as pd

    shape, code = np.shape(reports.candidate), np.zeros(np.size(reports.candidate), np.int64)
    for column in (*_by_signal(reports), *(() if reports.label is None else (np.asarray(reports.label),))):
        own, values = pd.factorize(column.ravel())
        code, _ = pd.factorize(code * len(values) + own)
    first = np.unique(code, return_index=True)[1]
    return code.reshape(shape), first


def _by_signal(reports: Reports) -> list[Float[np.ndarray, "problem level"]]:
    """Return the logits of each signal."""
    logits = np.asarray(reports.logit_confidence)
    return [logits] if logits.ndim == 2 else [*np.moveaxis(logits, 2, 0)]


def _blocks(reports: Reports, samples: Samples) -> Iterator[Reports]:
    """Yield the questions in as few blocks as tables of bounded size allow."""
    n, n_levels = np.shape(reports.candidate)
    n_samples = len(samples["weight"])
    fits = len(_distinct(reports)[1]) * n_levels * n_samples <= _TABLE_CELLS
    size = max(n, 1) if fits else max(_TABLE_CELLS // (n_levels * n_samples), 1)
    for start in range(0, max(n, 1), size):
        yield reports.select(slice(start, start + size))


#: Patterns that are remembered from one call to the next.
REMEMBERED = 1 << 18


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
        here: Reports = jax.tree.map(np.asarray, reports._replace(candidate=label))
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
        said = partial(summary, final=self.recalibration, interval_level=self.interval_level)
        parts = list(select_reports(reports, self.parameters, said))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _patterns(reports: Reports) -> Patterns:
    by_level = (own.T for own in (reports.candidate, *_by_signal(reports), reports.label) if own is not None)
    return distinct_rows([np.asarray(column) for column in (reports.n_candidates, *chain.from_iterable(by_level))])


def _joined(first: Reports, second: Reports) -> Reports:
    joined: Reports = jax.tree.map(lambda *pair: np.concatenate(pair), first, second)
    return joined
