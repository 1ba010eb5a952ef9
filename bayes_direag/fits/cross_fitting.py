"""Who is fitted and who is evaluated: train/test, and k-fold cross-fitting.

An evaluated question never takes part in fitting or recalibrating the model that predicts it.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import assign_folds, fit_map_batch, fit_nuts
from bayes_direag.model.presets import default_preset
from bayes_direag.model.settings import Method, Preset, SamplingSettings, Variant


@dataclass(frozen=True, eq=False)
class HeldOut:
    """One fit and the questions it is evaluated on.

    Attributes
    ----------
    fold : str
        ``0``, ``1``, ... under cross-fitting; ``test`` under train/test.
    fit : Fit
    index : (problem,) array
        The questions it did not see, as positions in the evaluated observations, ascending.
    predictions : DataFrame
        What :meth:`Fit.predict` says of them, in that order.
    """

    fold: str
    fit: Fit
    index: Int[np.ndarray, " problem"]
    predictions: pd.DataFrame


def train_test(
    train: Observations,
    test: Observations,
    *,
    method: Method = "map",
    preset: str | Preset | None = None,
    variant: Variant = "confidence",
    sampling: SamplingSettings | None = None,
    allow_weighted: bool = False,
    seed: int = 0,
) -> list[HeldOut]:
    """Fit on one set, predict every answered question of another.

    Parameters
    ----------
    method
        ``map``, or ``nuts`` for the whole posterior; ``sampling`` and ``allow_weighted`` as in
        :func:`~bayes_direag.fits.fitting.fit_nuts`.
    preset
        ``paper`` for MAP and ``bayes`` for NUTS when left out.

    Raises
    ------
    DirEAGError
        If a question (a ``problem_id``) is in both.
    """
    both = set(train.problem_id) & set(test.problem_id)
    if both:
        raise DirEAGError(
            f"{len(both)} of {len(test)} test questions are also in the training set, {min(both)!r} among them; "
            "expected none, so that no question is evaluated by a fit that has seen it. Remove them from one of the "
            "two, or rename them if they are other questions under the same problem_id."
        )
    fit = _fits(train, np.ones((1, len(train)), bool), method, preset, variant, sampling, allow_weighted, seed)[0]
    index = np.flatnonzero(test.answered)
    return [HeldOut("test", fit, index, fit.predict(test.select(index)))]


def cross_fit(
    observations: Observations,
    *,
    n_folds: int = 5,
    method: Method = "map",
    preset: str | Preset | None = None,
    variant: Variant = "confidence",
    sampling: SamplingSettings | None = None,
    allow_weighted: bool = False,
    seed: int = 0,
) -> list[HeldOut]:
    """Predict every answered question from a fit to the other folds.

    The answered questions are dealt in file order: see :func:`~bayes_direag.fits.fitting.assign_folds`. An answered
    question without a gold answer is predicted, but teaches nothing. See :func:`train_test` for the parameters.

    Raises
    ------
    DirEAGError
        If there are too few questions for the folds, or a fold leaves no labelled question to fit.
    """
    fold = fold_of_question(observations, n_folds, seed)
    kept = (fold[None, :] >= 0) & (fold[None, :] != np.arange(n_folds)[:, None])
    fits = _fits(observations, kept, method, preset, variant, sampling, allow_weighted, seed)
    parts = [np.flatnonzero(fold == number) for number in range(n_folds)]
    return [
        HeldOut(str(number), fit, index, fit.predict(observations.select(index)))
        for number, (fit, index) in enumerate(zip(fits, parts, strict=True))
    ]


def fold_of_question(observations: Observations, n_folds: int, seed: int) -> Int[np.ndarray, " problem"]:
    """Return the fold that :func:`cross_fit` holds each question out with; -1 where it is unanswered."""
    fold = np.full(len(observations), -1)
    fold[observations.answered] = assign_folds(int(observations.answered.sum()), n_folds, seed)
    return fold


def _fits(
    observations: Observations,
    kept: Bool[np.ndarray, "batch problem"],
    method: Method,
    preset: str | Preset | None,
    variant: Variant,
    sampling: SamplingSettings | None,
    allow_weighted: bool,
    seed: int,
) -> list[Fit]:
    settings = default_preset(method) if preset is None else preset
    if method == "map":
        return fit_map_batch(observations, kept, preset=settings, variant=variant, seed=seed)
    return [
        fit_nuts(
            observations.select(np.flatnonzero(row)),
            preset=settings,
            variant=variant,
            sampling=sampling,
            seed=seed,
            allow_weighted=allow_weighted,
        )
        for row in kept
    ]
