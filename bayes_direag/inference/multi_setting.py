"""Draws from the models of several settings: see :mod:`bayes_direag.model.multi_setting`.

The final calibrations learn from the leave-one-out support of all settings. The evidence parameters do not depend on
them: a *cut* posterior, as in :mod:`bayes_direag.inference.recalibration_posterior`. A setting with few labels or none
borrows its calibration from the others.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Shaped
from numpyro.infer import MCMC, NUTS

from bayes_direag.inference.nuts import NUMPYRO_STATISTICS, Draws, statistics_of
from bayes_direag.inference.recalibration import Outcomes
from bayes_direag.model.evidence import padded_size
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import RawDraws, raw_priors
from bayes_direag.model.multi_setting import (
    Population,
    draw_population,
    multi_setting_direag,
    multi_setting_recalibration,
    settings_from,
)
from bayes_direag.model.selection import LogisticRecalibration, clipped_logit
from bayes_direag.model.settings import IDENTITY, RecalibrationSettings, SamplingSettings


class SettingDraws(NamedTuple):
    """Draws of the evidence parameters of several settings.

    Attributes
    ----------
    settings : tuple of Draws
        Raw parameters of each setting, in order, with the statistics of their common run.
    populations : dict of Population
        The population of each raw parameter.
    """

    settings: tuple[Draws, ...]
    populations: dict[str, Population]


class SettingCalibrations(NamedTuple):
    """Draws of the final calibrations of several settings.

    Attributes
    ----------
    settings : tuple of LogisticRecalibration
        The calibration of each setting, in order.
    new : LogisticRecalibration
        The calibration of a new setting.
    populations : dict of Population
        The population of each coefficient; empty without a calibration.
    stats : dict
        Statistics of the run.
    """

    settings: tuple[LogisticRecalibration, ...]
    new: LogisticRecalibration
    populations: dict[str, Population]
    stats: dict[str, Shaped[np.ndarray, "chain draw"]]


def stacked(settings: Sequence[LikelihoodData]) -> LikelihoodData:
    """Merge the equal questions of each setting, pad all settings to one size, and stack them."""
    most = max(data.most_candidates for data in settings)
    counted = [replace(data.counted(), most_candidates=most) for data in settings]
    size = max(len(data.weight) for data in counted)
    together: LikelihoodData = jax.tree.map(lambda *arrays: jnp.stack(arrays), *(data.padded(size) for data in counted))
    return together


def draw_settings(
    settings: Sequence[LikelihoodData], *, sampling: SamplingSettings, seed: int, progress: bool = False
) -> SettingDraws:
    """Draw from the posterior of all settings together, by NUTS with a dense mass matrix.

    Parameters
    ----------
    settings
        Levels in one order for all. A setting may have no question.
    """
    with jax.enable_x64(True):
        data = stacked(settings)
        sites, stats = _nuts(multi_setting_direag, sampling, seed, progress, data)
    priors = raw_priors(data.preset, data.variant, data.n_levels, 1.0)
    values, populations = _populations(sites, priors, np.random.default_rng([seed, 3]))
    raws: list[RawDraws] = [{name: value[:, :, s] for name, value in values.items()} for s in range(len(settings))]
    return SettingDraws(tuple(Draws(raw, stats) for raw in raws), populations)


def draw_recalibrations(
    outcomes: Sequence[Outcomes | None],
    settings: RecalibrationSettings,
    sampling: SamplingSettings,
    seed: int,
    *,
    progress: bool = False,
) -> SettingCalibrations:
    """Draw the final calibrations of all settings, and of a new one.

    Parameters
    ----------
    outcomes
        Leave-one-out support and correctness in each setting, a batch of one; None for a setting without labels.
    """
    shape = (sampling.n_chains, sampling.n_draws)
    if settings.method == "none":
        identity = LogisticRecalibration.identity(shape, settings.eps)
        return SettingCalibrations((identity,) * len(outcomes), identity, {}, {})
    labelled = [(s, part) for s, part in enumerate(outcomes) if part is not None]
    n = sum(part.weight.shape[1] for _, part in labelled)
    size = padded_size(n, least=64, per_octave=8)
    support, right, setting = np.zeros(size), np.zeros(size, bool), np.zeros((size, len(outcomes)))
    start = 0
    for s, part in labelled:
        place = slice(start, start := start + part.weight.shape[1])
        support[place], right[place], setting[place, s] = (values[0] for values in part)
    scale = settings.prior_scale(1)
    model = partial(multi_setting_recalibration, prior_scale=scale)
    with jax.enable_x64(True):
        data = jax.tree.map(jnp.asarray, (clipped_logit(support, settings.eps), right, setting))
        sites, stats = _nuts(model, sampling, seed + 1, progress, *data)
    priors = {name: dist.Normal(IDENTITY[name], scale) for name in IDENTITY}
    values, populations = _populations(sites, priors, np.random.default_rng([seed, 4]))

    def calibration(coefficients: dict[str, np.ndarray]) -> LogisticRecalibration:
        return LogisticRecalibration(settings.method, coefficients, settings.eps)

    of_settings = (calibration({name: value[:, :, s] for name, value in values.items()}) for s in range(len(outcomes)))
    new = calibration({name: population.new for name, population in populations.items()})
    return SettingCalibrations(tuple(of_settings), new, populations, stats)


def _populations(
    sites: dict[str, np.ndarray], priors: dict[str, dist.Normal], rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, Population]]:
    """Return the parameters of every setting, (chain, draw, setting, ...), and their populations."""
    values: dict[str, np.ndarray] = {}
    populations: dict[str, Population] = {}
    for name, prior in priors.items():
        tau, z = sites[f"{name}_tau"], sites[f"{name}_z"]
        with jax.enable_x64(True):
            of_draws = jax.vmap(jax.vmap(partial(settings_from, prior=prior)))
            values[name] = np.asarray(of_draws(jnp.asarray(tau), jnp.asarray(z)))
        populations[name] = draw_population(values[name], tau, prior, rng)
    return values, populations


def _nuts(
    model: Callable[..., None], sampling: SamplingSettings, seed: int, progress: bool, *data: Any
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Run NUTS; return the draws of every site and the statistics, each (chain, draw, ...)."""
    run = MCMC(
        NUTS(model, dense_mass=True, target_accept_prob=sampling.target_accept),
        num_warmup=sampling.n_warmup,
        num_samples=sampling.n_draws,
        num_chains=sampling.n_chains,
        chain_method="parallel" if jax.local_device_count() >= sampling.n_chains else "sequential",
        progress_bar=progress,
        jit_model_args=True,  # so that fits of one shape share their compilation
    )
    run.run(jax.random.key(seed), *data, extra_fields=tuple(NUMPYRO_STATISTICS))
    fields = run.get_extra_fields(group_by_chain=True)
    samples = {name: np.asarray(value) for name, value in run.get_samples(group_by_chain=True).items()}
    return samples, statistics_of(fields, (sampling.n_chains, sampling.n_draws))
