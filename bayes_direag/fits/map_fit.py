"""The mode of the posterior, and the final calibration at it, for one choice of questions or many at once."""

import jax
import numpy as np
import xarray as xr
from jaxtyping import Bool, Float, Int

from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.folds import assign_folds
from bayes_direag.fits.selection import select_each
from bayes_direag.inference import recalibration
from bayes_direag.inference.map import Optimum, map_estimates
from bayes_direag.inference.posterior import map_posterior
from bayes_direag.model.likelihood_data import likelihood_weights
from bayes_direag.model.model import natural_parameters
from bayes_direag.model.presets import preset as named_preset
from bayes_direag.model.settings import Preset, Variant
from bayes_direag.model.votes import Votes


def fit_map(
    observations: Observations,
    *,
    preset: str | Preset = "paper",
    variant: Variant = "confidence",
    seed: int = 0,
) -> Fit:
    """Fit the evidence model and the recalibration to labelled questions; the mode of the posterior.

    Unlabelled and unanswered questions are left out. Rows that stand for several questions (:func:`count_patterns
    <bayes_direag.data.counted.count_patterns>`) count as often, and come to the same fit as all of these.

    Parameters
    ----------
    preset
        ``paper``, ``release``, ``bayes`` or a preset of your own.
    seed
        Deals the folds of an out-of-fold recalibration; nothing else is random.

    Raises
    ------
    DirEAGError
        If no question is both labelled and answered; or if rows stand for several questions, and the recalibration
        is to be out of fold.
    ConvergenceError
        If the optimum is not reached.
    """
    everything = np.ones((1, len(observations)), bool)
    return fit_map_batch(observations, everything, preset=preset, variant=variant, seed=seed)[0]


def fit_map_batch(
    observations: Observations,
    chosen: Bool[np.ndarray, "batch problem"],
    *,
    preset: str | Preset = "paper",
    variant: Variant = "confidence",
    seed: int = 0,
) -> list[Fit]:
    """Fit to several choices of the same questions at once; see :func:`fit_map`.

    Nothing of a question that a row leaves out has any influence on that row's fit.
    """
    settings = named_preset(preset)
    weight = likelihood_weights(chosen, observations, settings, by_pattern=not settings.recalibration.out_of_fold)
    optimum = map_estimates(observations, weight, preset=settings, variant=variant)
    used = weight > 0
    if settings.recalibration.out_of_fold:
        candidate, support = _out_of_fold(observations, used, settings, variant, seed)
    else:
        candidate, support = _selection(optimum, observations, settings, variant)
    selected = recalibration.Selected(
        support,
        np.take_along_axis(observations.correct_candidate, np.maximum(candidate, 0).T, axis=1).T,
        Votes.of(observations.candidate, candidate),
    )
    final = recalibration.recalibrate(selected, used, settings.recalibration, observations.multiplicity)
    fits = []
    for member, row in enumerate(used):
        tree = map_posterior(
            optimum,
            member,
            observations,
            weight[member],
            preset=settings,
            variant=variant,
            seed=seed,
        )
        if observations.multiplicity is not None:
            times = xr.DataArray(observations.multiplicity[row], dims="problem")
            tree["constant_data"] = xr.DataTree(tree["constant_data"].to_dataset().assign(multiplicity=times))
        tree["recalibration"] = xr.DataTree(final[member].to_dataset())
        fits.append(Fit(tree))
    return fits


def _out_of_fold(
    observations: Observations,
    used: Bool[np.ndarray, "batch problem"],
    preset: Preset,
    variant: Variant,
    seed: int,
) -> tuple[Int[np.ndarray, "batch problem"], Float[np.ndarray, "batch problem"]]:
    """Return the selected candidate of each question and its support, from fits that did not see the question.

    Where a member has a single question, nothing is left to fit to without it: that one is selected in sample.
    """
    n_folds, n_used = preset.recalibration.out_of_fold, used.sum(axis=1)
    fold = np.where(used, 0, -1)
    for member in np.flatnonzero(n_used > 1):
        n = int(n_used[member])
        fold[member, used[member]] = assign_folds(n, min(n_folds, n), seed)
    held_out = fold[:, None, :] == np.arange(n_folds)[None, :, None]
    kept = (used[:, None, :] & ~(held_out & (n_used > 1)[:, None, None])).reshape(-1, used.shape[1])
    weight = likelihood_weights(kept, observations, preset)
    optimum = map_estimates(observations, weight, preset=preset, variant=variant)
    candidate, support = (part.reshape(held_out.shape) for part in _selection(optimum, observations, preset, variant))
    return np.where(held_out, candidate, 0).sum(axis=1), np.where(held_out, support, 0.0).sum(axis=1)


def _selection(
    optimum: Optimum, observations: Observations, preset: Preset, variant: Variant
) -> tuple[Int[np.ndarray, "batch problem"], Float[np.ndarray, "batch problem"]]:
    """Return the selected candidate of each question and its support, for every fit of a batch."""
    with jax.enable_x64(True):
        parameters = jax.vmap(lambda raw: natural_parameters(raw, preset, variant))(optimum.raw)
    return select_each(observations, parameters, preset.eps)
