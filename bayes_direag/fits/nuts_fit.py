"""The full posterior of the evidence model and of the final calibration, by NUTS."""

import jax
import numpy as np
import xarray as xr

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.loo import LeaveOneOut, leave_one_out
from bayes_direag.inference.nuts import nuts_draws
from bayes_direag.inference.posterior import nuts_posterior, sampled_parameters
from bayes_direag.inference.recalibration import LogisticRecalibration
from bayes_direag.inference.recalibration_posterior import draw_recalibration
from bayes_direag.model.likelihood_data import LikelihoodData, likelihood_weights
from bayes_direag.model.presets import preset as named_preset
from bayes_direag.model.settings import Preset, SamplingSettings, Variant


def fit_nuts(
    observations: Observations,
    *,
    preset: str | Preset = "bayes",
    variant: Variant = "confidence",
    sampling: SamplingSettings | None = None,
    seed: int = 0,
    allow_weighted: bool = False,
    progress: bool = False,
) -> Fit:
    """Draw from the posterior of the evidence parameters and of the recalibration, given labelled questions.

    Unlabelled and unanswered questions are left out. Whether the draws can be relied on is for
    :func:`analysis.diagnosis.diagnostics.diagnose` to say.

    Parameters
    ----------
    preset
        ``bayes``, ``pooled``, ``paper`` (its penalty read as a prior) or a preset of your own, without bounds.
    sampling
        Chains, draws, warm-up; the defaults of :class:`~bayes_direag.model.settings.SamplingSettings` when left out.
    seed
        Of everything that is drawn. The draws for one seed differ between JAX versions and numbers of devices.
    allow_weighted
        Sample although the preset weighs questions unequally. Such a likelihood is not that of a probability model:
        intervals and leave-one-out figures from it have no meaning of their own.
    progress
        Show progress bars.

    Raises
    ------
    DirEAGError
        If no question is both labelled and answered, if the preset bounds its parameters, weighs its questions
        without leave, or asks for a recalibration that has no posterior. Its number of inner folds is not looked at:
        leave-one-out support has not seen the label either.

    Examples
    --------
    >>> from bayes_direag import fit_nuts, simulate_observations
    >>> from bayes_direag.model.settings import SamplingSettings
    >>> observations = simulate_observations(n=60, seed=1)
    >>> fit = fit_nuts(observations, sampling=SamplingSettings(n_chains=2, n_warmup=200, n_draws=100))
    >>> fit.predict(observations)[["confidence", "confidence_low", "confidence_high"]].shape
    (60, 3)
    """
    settings = named_preset(preset)
    _check(settings, allow_weighted=allow_weighted)
    chosen = np.ones((1, len(observations)), bool)
    weight = likelihood_weights(chosen, observations, settings)[0]
    fitted, weight = observations.select(weight > 0), weight[weight > 0]
    runs = sampling or SamplingSettings()
    data = LikelihoodData.weighted(fitted, weight, preset=settings, variant=variant)
    draws = nuts_draws(data.counted(), sampling=runs, seed=seed, progress=progress)
    tree = nuts_posterior(draws, fitted, weight, preset=settings, variant=variant, sampling=runs, seed=seed)
    with jax.enable_x64(True):
        parameters = sampled_parameters(tree, variant)
    raw = tree["posterior"].to_dataset()[[f"{name}_raw" for name in settings.free_parameters(variant)]]
    left_out = leave_one_out(fitted, raw, tree["log_likelihood"]["target"].to_numpy(), parameters, settings.eps)
    tree["loo"] = xr.DataTree(left_out.to_dataset().assign_coords(problem=tree["observed_data"]["problem"]))
    tree["recalibration"] = xr.DataTree(_recalibration(left_out, fitted, settings, runs, seed).to_dataset())
    return Fit(tree)


def _check(preset: Preset, *, allow_weighted: bool) -> None:
    if preset.is_weighted and not allow_weighted:
        raise DirEAGError(
            f"preset {preset.name} weighs questions unequally (null_target_weight {preset.null_target_weight}), which "
            "is not a probability model: intervals and leave-one-out figures from it have no meaning of their own. Set "
            "null_target_weight to 1, or say allow_weighted (--allow-weighted) to sample all the same."
        )
    final = preset.recalibration
    if final.method not in ("platt", "none"):
        raise DirEAGError(
            f"recalibration method {final.method} is for MAP; expected platt or none under NUTS, which draws the final "
            "calibration from its posterior."
        )


def _recalibration(
    left_out: LeaveOneOut, fitted: Observations, preset: Preset, sampling: SamplingSettings, seed: int
) -> LogisticRecalibration:
    shape = (sampling.n_chains, sampling.n_draws)
    final = preset.recalibration
    if final.method == "none":
        return LogisticRecalibration.identity(shape, final.eps)
    rng = np.random.default_rng([seed, 2])
    return draw_recalibration(left_out.selected(fitted), final, shape, rng)
