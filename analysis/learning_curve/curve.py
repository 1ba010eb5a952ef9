"""A learning curve: every method's metrics on held-out questions, by the number of labelled questions it learned from.

All methods and all numbers of labels of a split are tested on the same questions; see
:class:`~analysis.learning_curve.splits.Splits`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.learning_curve.calibrators import CLIP
from analysis.learning_curve.methods import METHODS, Learned, is_sampled, learn
from analysis.learning_curve.splits import Splits
from analysis.scores.metrics import METRICS
from bayes_direag.data.observations import Observations
from bayes_direag.fits.convergence import SamplerSummary
from bayes_direag.model.settings import SamplingSettings


class Quantity(NamedTuple):
    """How a metric is called in tables and pictures, and whether more of it is better."""

    title: str
    more_is_better: bool


#: The metrics of a curve. NLL clips confidences to [CLIP, 1 - CLIP]: a method that says 0 or 1 would otherwise be
#: judged by its few certain errors alone.
CURVE_METRICS: dict[str, Quantity] = {
    "nll": Quantity("NLL", False),
    "brier": Quantity("Brier score", False),
    "smece": Quantity("smECE", False),
    "ece": Quantity("ECE", False),
    "auroc": Quantity("AUROC", True),
    "accuracy": Quantity("accuracy", True),
}

#: Columns of the results, and what they hold.
RESULT_TYPES = {
    "method": "str",
    "n_labels": "int64",
    "split": "int64",
    "n_test": "int64",
    **dict.fromkeys(CURVE_METRICS, "float64"),
    **dict.fromkeys((f"{name}_gap" for name in CURVE_METRICS), "float64"),
    **dict.fromkeys(SamplerSummary._fields, "float64"),
}


def no_results() -> pd.DataFrame:
    """Return the table of results without a row."""
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in RESULT_TYPES.items()})


def measured(
    observations: Observations,
    splits: Splits,
    methods: Sequence[str],
    *,
    sampling: SamplingSettings | None = None,
    seed: int = 0,
    done: pd.DataFrame | None = None,
    on_step: Callable[[str], None] = lambda _: None,
) -> Iterator[pd.DataFrame]:
    """Let methods learn from every number of labels in every split, and measure them; slow methods come last.

    Parameters
    ----------
    observations
        Those that the splits are of.
    methods
        Out of :data:`~analysis.learning_curve.methods.METHODS`.
    sampling
        Of methods that need NUTS; the defaults when left out.
    seed
        Of NUTS: split s takes ``seed + s``.
    done
        Results that are there already, and are not computed again.
    on_step
        Told what is being fitted, and how far the work has come.

    Yields
    ------
    DataFrame
        Each time that one fit is measured, a row for each method that rests on it: ``method``, ``n_labels``,
        ``split``, ``n_test``; the metrics of :data:`CURVE_METRICS` (NaN where undefined: AUROC with one class); each
        as ``NAME_gap`` on the first half of the test questions (which are in random order) less that on the second,
        from which :func:`~analysis.learning_curve.summary.summarise` learns how much it depends on the questions; and
        for NUTS the figures of :class:`~bayes_direag.fits.convergence.SamplerSummary`.

    Raises
    ------
    DirEAGError
        As the fits do.
    """
    known = set() if done is None else set(zip(done["method"], done["n_labels"], done["split"], strict=True))
    sources = dict.fromkeys(METHODS[method] for method in sorted(methods, key=is_sampled))
    fits = [
        (source, n_labels, split, wanted)
        for source in sources
        for n_labels in splits.label_counts
        for split in range(len(splits.order))
        if (wanted := [m for m in methods if METHODS[m] == source and (m, n_labels, split) not in known])
    ]
    for number, (source, n_labels, split, wanted) in enumerate(fits, 1):
        on_step(f"{source}, {n_labels} labels, split {split + 1} of {len(splits.order)} ({number} of {len(fits)})")
        labelled = observations.select(splits.learned(split, n_labels))
        tested = observations.select(splits.tested(split))
        learned = learn(source, labelled, tested, sampling=sampling, seed=seed + split)
        about = {"n_labels": n_labels, "split": split}
        yield pd.DataFrame([{"method": method, **about, **_row(learned, method)} for method in wanted])


def asked_for(results: pd.DataFrame, splits: Splits, methods: Sequence[str]) -> pd.DataFrame:
    """Return the results of some methods in some splits, in the order of these, whatever else there is."""
    wanted = results[results["method"].isin(methods) & (results["split"] < len(splits.order))]
    place = {method: number for number, method in enumerate(methods)}
    by = ["method", "n_labels", "split"]
    return wanted.sort_values(
        by, key=lambda column: column.map(place) if column.name == "method" else column, ignore_index=True
    )


def _row(learned: Learned, method: str) -> dict[str, int | float]:
    confidence, correct = (np.asarray(part) for part in learned.said[method])
    n = len(correct)
    first = np.arange(n) < n // 2
    parts = np.stack([np.ones(n, int), first, ~first]).astype(int)
    row: dict[str, int | float] = {"n_test": n}
    for name in CURVE_METRICS:
        said = np.clip(confidence, CLIP, 1 - CLIP) if name == "nll" else confidence
        whole, first_half, second_half = getattr(METRICS, name)(said, correct, parts)
        row |= {name: float(whole), f"{name}_gap": float(first_half - second_half)}
    return row | (
        dict.fromkeys(SamplerSummary._fields, np.nan) if learned.sampler is None else learned.sampler._asdict()
    )
