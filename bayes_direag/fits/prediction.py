"""Prediction: which answer a question gets, and with how much support, over the draws of a posterior.

Questions that a fit cannot tell apart are predicted once, by their pattern: who said the same as whom, and how
confidently, whatever it was that they said. They are worked through in pieces of bounded memory; no result depends on
the piece. What a report counts depends on its level and its confidence alone: it is computed once for each that occurs,
and looked up.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from bayes_direag.data.counted import Patterns, by_first_mention, distinct_rows
from bayes_direag.inference.recalibration import Recalibration
from bayes_direag.model.evidence import Parameters, Reports, evidence, padded_size

_TABLE_CELLS = 1 << 23
_PIECE_CELLS = 1 << 16  # small enough to stay in a core's own cache


class Selection(NamedTuple):
    """The selected answers of some questions.

    Attributes
    ----------
    candidate : (problem,) array
        The candidate of greatest mean probability over the samples; -1 for a question without candidates. Ties go to
        the one whose canonical answer comes first in string order, which is the order of the candidates.
    support : (sample, problem) array
        Its support in every sample; NaN without candidates.
    probability : (sample, problem) array
        Its probability in every sample; NaN without candidates.
    mean_probability : (problem, state) array
        Mean probability of every state, the null last; 0 for one that a question does not have.
    change_probability : (problem,) array
        Share of the samples in which another candidate is the most probable; NaN without candidates.
    tied : (problem,) array
        Whether another candidate is as probable, in the mean or in a sample, so that their order matters.
    """

    candidate: Int[np.ndarray, " problem"]
    support: Float[np.ndarray, "sample problem"]
    probability: Float[np.ndarray, "sample problem"]
    mean_probability: Float[np.ndarray, "problem state"]
    change_probability: Float[np.ndarray, " problem"]
    tied: Bool[np.ndarray, " problem"]


def select_reports[Result](
    reports: Reports, parameters: Parameters, final: Recalibration, then: Callable[[Selection], Result]
) -> Iterator[Result]:
    """Select one answer a question from all samples together; yield what ``then`` makes of each piece, on all cores.

    Parameters
    ----------
    parameters
        Each with a leading sample axis.
    final
        The final calibration. Where it is of the selected answer alone, states are as probable as their support.
    """
    samples: Parameters = jax.tree.map(np.asarray, parameters)
    size = max(_PIECE_CELLS // samples.weight.shape[0], 1)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for block in _blocks(reports, samples):
            table = _Table.of(block, parameters)
            n = len(block.n_candidates)
            pieces = (slice(start, start + size) for start in range(0, max(n, 1), size))

            def done(piece: slice, block: Reports = block, table: _Table = table) -> Result:
                return then(_selected(block.select(piece), table, piece, samples, final))

            yield from threads.map(done, pieces)


def distribution(reports: Reports, parameters: Parameters, final: Recalibration) -> Float[np.ndarray, "problem state"]:
    """Return the mean probability of every state over the samples, the null last; see :func:`select_reports`."""
    most = max(int(np.max(reports.n_candidates, initial=0)), 1)

    def of_piece(found: Selection) -> Float[np.ndarray, "problem state"]:
        missing = most + 1 - found.mean_probability.shape[1]
        return np.insert(found.mean_probability, [-1] * missing, 0.0, axis=1)

    return np.concatenate(list(select_reports(reports, parameters, final, of_piece)))


class _Table(NamedTuple):
    """What reports count.

    Attributes
    ----------
    given : (entry, sample) array
        Concentration that a report gives its answer; the last entry is that of no report, 0.
    doubt : (entry, sample) array
        Concentration that it gives the null for what it lacks of certainty.
    vote : (entry, sample) array or None
        What it adds to the log odds of its answer; None without votes.
    entry : (problem, level) array
        Which entry is that of each report.
    """

    given: Float[np.ndarray, "entry sample"]
    doubt: Float[np.ndarray, "entry sample"]
    vote: Float[np.ndarray, "entry sample"] | None
    entry: Int[np.ndarray, "problem level"]

    @classmethod
    def of(cls, reports: Reports, parameters: Parameters) -> "_Table":
        """Compute an entry for every level and distinct confidence, or for every report if these are fewer."""
        logits, usable = np.asarray(reports.logit_confidence), np.asarray(reports.candidate) >= 0
        n, n_levels = logits.shape
        code, distinct = _distinct(logits)
        stated = np.repeat(distinct[:, None], n_levels, axis=1) if len(distinct) < n else logits
        row = code if len(distinct) < n else np.arange(n)[:, None]
        n_rows = len(stated)
        size = padded_size(n_rows, least=128, per_octave=4)  # whole percentages are 101
        everywhere = Reports(stated, np.zeros(stated.shape, int), np.ones(n_rows, int)).padded(size)
        with jax.enable_x64(True):
            weighed = _given_doubt_and_vote(everywhere, parameters)
        given, doubt, vote = jax.tree.map(
            lambda part: np.pad(np.asarray(part)[:n_rows].reshape(-1, part.shape[2]), ((0, 1), (0, 0))), weighed
        )
        return cls(given, doubt, vote, np.where(usable, row * n_levels + np.arange(n_levels), len(given) - 1))


@jax.jit
def _given_doubt_and_vote(
    reports: Reports, parameters: Parameters
) -> tuple[Float[Array, "row level sample"], Float[Array, "row level sample"], Float[Array, "row level sample"] | None]:
    """Return what each report gives its answer, what the null, and its vote, in every sample."""

    def of_sample(sample: Parameters) -> tuple[Array, Array, Array | None]:
        weighed = evidence(reports, sample)
        return weighed.given.T, weighed.doubt.T, None if weighed.vote is None else weighed.vote.T

    by_sample: tuple[Array, Array, Array | None] = jax.vmap(of_sample, out_axes=2)(parameters)
    return by_sample


def _distinct(
    logits: Float[np.ndarray, "problem level"],
) -> tuple[Int[np.ndarray, "problem level"], Float[np.ndarray, " value"]]:
    import pandas as pd

    code, values = pd.factorize(logits.ravel())
    return code.reshape(logits.shape), values


def _blocks(reports: Reports, samples: Parameters) -> Iterator[Reports]:
    """Yield the questions in as few blocks as tables of bounded size allow."""
    n, n_levels = np.shape(reports.candidate)
    n_samples = samples.weight.shape[0]
    fits = len(_distinct(np.asarray(reports.logit_confidence))[1]) * n_levels * n_samples <= _TABLE_CELLS
    size = max(n, 1) if fits else max(_TABLE_CELLS // (n_levels * n_samples), 1)
    for start in range(0, max(n, 1), size):
        yield reports.select(slice(start, start + size))


def _selected(reports: Reports, table: _Table, piece: slice, samples: Parameters, final: Recalibration) -> Selection:
    """Select the answers of one piece; the equations are those of :mod:`bayes_direag.model.evidence`."""
    candidate, entry = np.asarray(reports.candidate), table.entry[piece]
    n_candidates = np.asarray(reports.n_candidates)
    n, n_levels = candidate.shape
    question = np.arange(n)
    share = samples.prior_strength / (n_candidates[:, None] + 1)
    states = np.repeat(share[None], max(n_candidates.max(initial=0), 1) + 1, axis=0)
    alpha, null = states[:-1], states[-1]
    null += samples.null_base
    for level in range(n_levels):
        alpha[candidate[:, level], question] += table.given[entry[:, level]]  # without a report, nothing to the last
        null += table.doubt[entry[:, level]]
    alpha[np.arange(len(alpha))[:, None] >= n_candidates] = 0.0
    if not samples.is_additive:
        sharpness = np.ones(1) if samples.sharpness is None else np.asarray(samples.sharpness)
        with np.errstate(divide="ignore"):
            states[:] = sharpness * np.log(states)
        if table.vote is not None:
            for level in range(n_levels):
                alpha[candidate[:, level], question] += table.vote[entry[:, level]]
        states -= states.max(axis=0)
        np.exp(states, out=states)
    states /= states.sum(axis=0)
    probability = final.of_states(states)
    mean = probability.mean(axis=2)
    best = mean[:-1].argmax(axis=0)
    mine = probability[best, question]
    changes, tied = np.zeros(mine.shape, bool), (mean[:-1] == mean[best, question]).sum(axis=0) > 1
    for other, reached in enumerate(probability[:-1] if len(alpha) > 1 else ()):
        same = reached == mine
        changes |= (reached > mine) | (same & (other < best)[:, None])
        tied |= (other != best) & same.any(axis=1)
    some = n_candidates > 0
    support = states[best, question]
    mine[~some] = support[~some] = np.nan
    return Selection(
        np.where(some, best, -1), support.T, mine.T, mean.T, np.where(some, changes.mean(axis=1), np.nan), some & tied
    )


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
        parts = list(select_reports(reports, self.parameters, self.recalibration, self._summary))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _summary(self, selection: Selection) -> Columns:
        confidence = self.recalibration.of_selected(selection.probability)
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
            "null_probability": selection.mean_probability[:, -1],
            "tied": selection.tied,
        }


def _patterns(reports: Reports) -> Patterns:
    return distinct_rows(
        [np.asarray(column) for column in (reports.n_candidates, *reports.candidate.T, *reports.logit_confidence.T)]
    )


def _joined(first: Reports, second: Reports) -> Reports:
    return Reports(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))
