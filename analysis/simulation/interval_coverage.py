"""Worlds whose truth is known, and coverage: how often the intervals of final probabilities hold the truth there.

A world has parameters from the prior, and a question's right answer is a draw from its support; who said what, and how
surely, is the same in all worlds. In each a posterior learns from the labelled questions and predicts fresh ones, as
:func:`~bayes_direag.fit_nuts` and :meth:`Fit.predict <bayes_direag.fits.fit.Fit.predict>` do. The truth is the
probability, given the world's parameters, that the answer selected is right. Also asked is the interval of the share of
right answers in a bin of questions with like confidence, that is, of their mean probability.

Where parameters come from the prior and the model holds, intervals without final calibration cover at their
level over all worlds, whatever the number of labels; if they do not, something is wrong.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Array, Float, Int

from analysis.scores.scoring import mean_and_interval
from bayes_direag.data.observations import Observations
from bayes_direag.fits.prediction import select_reports
from bayes_direag.inference.loo import leave_one_out
from bayes_direag.inference.nuts import Draws
from bayes_direag.inference.posterior import prior_draws
from bayes_direag.inference.recalibration_posterior import draw_recalibration
from bayes_direag.model.evidence import Parameters, Reports, supports
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, log_likelihood, natural_parameters
from bayes_direag.model.selection import LogisticRecalibration
from bayes_direag.model.settings import Preset, Variant

LEVELS = (0.5, 0.8, 0.9, 0.95)
_N_BINS, _SMALLEST_BIN = 10, 20
_WIDTH_LEVEL = 0.9


class Worlds(NamedTuple):
    """Some worlds, and the state that occurred in each of the questions.

    ``raw``: their raw parameters by name, each with a leading axis world. ``target`` (world, problem): the right
    candidate, -1 for the null.
    """

    raw: dict[str, Float[np.ndarray, "world ..."]]
    target: Int[np.ndarray, "world problem"]


def draw_worlds(data: LikelihoodData, n: int, *, seed: int) -> Worlds:
    """Draw ``n`` worlds from the prior of a model; NumPyro draws their right answers."""
    drawn = prior_draws(data, n_draws=n, key=jax.random.fold_in(jax.random.key(seed), 3))
    raw = {name: drawn[f"{name}_raw"] for name in data.preset.free_parameters(data.variant)}
    return Worlds(raw, drawn["target"])


def world_support(
    worlds: Worlds, reports: Reports, *, preset: Preset, variant: Variant
) -> Float[np.ndarray, "world problem state"]:
    """Return with which probability each state occurs in each world, the null last; of any questions."""
    parameters = parameters_of(worlds.raw, preset=preset, variant=variant)
    with jax.enable_x64(True):
        return np.asarray(supports(reports, parameters))


def parameters_of(raw: dict[str, Float[np.ndarray, "sample ..."]], *, preset: Preset, variant: Variant) -> Parameters:
    """Return the natural parameters of all samples, each with a leading sample axis."""
    with jax.enable_x64(True):
        parameters: Parameters = _natural(jax.tree.map(jnp.asarray, raw), preset=preset.model_settings, variant=variant)
    return parameters


@partial(jax.jit, static_argnames=("preset", "variant"))
def _natural(raw: Raw, *, preset: Preset, variant: Variant) -> Parameters:
    parameters: Parameters = jax.vmap(partial(natural_parameters, preset=preset, variant=variant))(raw)
    return parameters


class Placement(NamedTuple):
    """Where the truth lies among the draws, as the share of them that lies below it.

    ``question`` (world, problem): of each fresh question's probability. ``bin`` (world, bin): of each bin's share of
    right answers; NaN for a bin of fewer than 20 questions. ``width`` (world,): mean width of the questions' 90 %
    intervals. ``error`` (world,): root mean squared difference of the questions' mean probability from the truth.
    """

    question: Float[np.ndarray, "world problem"]
    bin: Float[np.ndarray, "world bin"]
    width: Float[np.ndarray, " world"]
    error: Float[np.ndarray, " world"]


def place_truth(
    worlds: Worlds,
    draws: Draws,
    fitted: Observations,
    fresh: Observations,
    *,
    preset: Preset,
    variant: Variant,
    seed: int = 0,
    on_step: Callable[[str], None] = lambda _: None,
) -> dict[str, Placement]:
    """Find where the truth of fresh questions lies in the posterior of each world.

    Returns: By method of final calibration: ``none``, and the preset's own where that is another.

    ``draws``: one chain a world, as :func:`~bayes_direag.inference.nuts.draws_for_each` gives them. ``fitted``: the
    questions whose labels each world draws; what labels they carry themselves is not looked at. ``fresh``: answered
    questions to predict. ``seed``: of the final calibrations' draws.
    """
    truth = world_support(worlds, Reports.of(fresh, preset.eps), preset=preset, variant=variant)
    rows: dict[str, list[tuple[np.ndarray, ...]]] = {}
    for world, target in enumerate(worlds.target):
        on_step(f"predicting in world {world + 1} of {len(worlds.target)}")
        correct = (fitted.candidate == target[:, None]) & (fitted.candidate >= 0)  # nobody is right under the null
        raw = {name: np.asarray(value[world]) for name, value in draws.raw.items()}
        parameters = parameters_of(raw, preset=preset, variant=variant)
        labelled, rng = replace(fitted, correct=correct), np.random.default_rng([seed, 2, world])
        for final in _recalibrations(labelled, raw, parameters, preset, variant, rng):
            parts = list(select_reports(Reports.of(fresh, preset.eps), parameters, lambda found: found))
            probability = final.of_selected(np.concatenate([part.support for part in parts], axis=1))
            candidate = np.concatenate([part.candidate for part in parts])
            right = truth[world, np.arange(len(fresh)), candidate]
            rows.setdefault(final.method, []).append(_placed(probability, right))
    return {method: Placement(*map(np.stack, zip(*placed, strict=True))) for method, placed in rows.items()}


def coverage(placements: dict[str, Placement], levels: tuple[float, ...] = LEVELS) -> pd.DataFrame:
    """Return how often equal-tailed intervals hold the truth.

    Returns: A row a final calibration, a unit and a level: ``recalibration``; ``unit``, question or bin; ``level``;
    ``coverage``, the mean over worlds of the share of the world's units that are covered; ``error``, its standard error
    over the worlds, NaN for fewer than two; ``n_worlds``, those with any unit; ``mean_width`` and ``rmse``, over the
    worlds, the means of :class:`Placement`'s width and error (the same in all rows of a calibration).
    """
    rows: list[dict[str, object]] = []
    for method, placed in placements.items():
        summary = {"mean_width": placed.width.mean(), "rmse": placed.error.mean()}
        for unit, place in (("question", placed.question), ("bin", placed.bin)):
            place = place[~np.isnan(place).all(axis=1)]
            n = len(place)
            for level in levels:
                by_world = np.nanmean(np.where(np.isnan(place), np.nan, np.abs(place - 0.5) <= level / 2), axis=1)
                rows.append(
                    {
                        "recalibration": method,
                        "unit": unit,
                        "level": level,
                        "coverage": by_world.mean() if n else np.nan,
                        "error": by_world.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan,
                        "n_worlds": n,
                        **summary,
                    }
                )
    return pd.DataFrame(rows)


def _recalibrations(
    labelled: Observations,
    raw: dict[str, Float[np.ndarray, "draw ..."]],
    parameters: Parameters,
    preset: Preset,
    variant: Variant,
    rng: np.random.Generator,
) -> list[LogisticRecalibration]:
    """Return the identity, and the preset's own final calibration drawn for each draw of the parameters."""
    shape = (1, len(next(iter(raw.values()))))
    final = preset.recalibration
    identity = LogisticRecalibration.identity(shape, final.eps)
    if final.method == "none":
        return [identity]
    posterior = xr.Dataset(
        {name: (("chain", "draw", f"{name}_of")[: value.ndim + 1], value[None]) for name, value in raw.items()}
    )
    data = LikelihoodData.weighted(labelled, np.ones(len(labelled)), preset=preset, variant=variant)
    with jax.enable_x64(True):
        reached = _log_likelihood(jax.tree.map(jnp.asarray, raw), data)
    left_out = leave_one_out(labelled, posterior, np.asarray(reached)[None], parameters, preset.eps)
    return [identity, draw_recalibration(left_out.outcomes(labelled.right_state), final, shape, rng)]


def _placed(
    probability: Float[np.ndarray, "draw problem"], truth: Float[np.ndarray, " problem"]
) -> tuple[np.ndarray, ...]:
    """Return one world's row of each array of :class:`Placement`."""
    mean, low, high = mean_and_interval(probability, _WIDTH_LEVEL)
    member = np.minimum((mean * _N_BINS).astype(int), _N_BINS - 1)[:, None] == np.arange(_N_BINS)
    size = member.sum(axis=0)
    share = np.full(_N_BINS, np.nan)
    large = size >= _SMALLEST_BIN
    weight = member[:, large] / size[large]
    share[large] = (probability @ weight < truth @ weight).mean(axis=0)
    return (
        (probability < truth).mean(axis=0),
        share,
        np.asarray(np.mean(high - low)),
        np.asarray(np.sqrt(np.mean((mean - truth) ** 2))),
    )


@jax.jit
def _log_likelihood(raw: Raw, data: LikelihoodData) -> Float[Array, "draw problem"]:
    reached: Array = jax.vmap(log_likelihood, in_axes=(0, None))(raw, data)
    return reached
