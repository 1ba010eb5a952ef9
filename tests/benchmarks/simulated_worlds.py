"""Whether the sampler and the intervals are right, in simulated worlds whose truth is known.

    python -m tests.benchmarks.simulated_worlds --n 300 --questions 100

The parameters of a world are drawn from the prior, and the right answers of its questions from the model. `fit_nuts`
learns from these answers and predicts 1000 other questions.

*Ranks.* The true value of any quantity ranks uniformly among independent draws from its posterior (Talts et al. 2018,
arXiv:1804.06788). The quantities are every unconstrained parameter, the log-likelihood, the log joint density, and the
support of the answer selected for a new question. The last three depend on the data, and find a posterior equal to the
prior, which parameters alone cannot show (Modrak et al. 2023, doi:10.1214/23-BA1404).

*Coverage.* A 90 % interval should hold the true probability that the selected answer is right in 90 of 100 cases, for
single questions and for the mean over a bin of questions with similar probability.

(simuk, ArviZ's own package, ranks with NumPyro's sampler alone, and no quantity that depends on the data.)
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pandas as pd
from arviz_stats.base import array_stats
from numpyro.infer import Predictive

from bayes_direag import Fit, LikelihoodData, Observations, bayes, fit_nuts, simulate_observations
from bayes_direag.model.selection import Recalibration, distribution, select
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.unconstrained import evaluated

N_RANKED = 99
SHORT_CHAINS = SamplingSettings(num_chains=2, num_warmup=500, num_samples=500)
_LEVEL, _N_BINS, _SMALLEST_BIN = 0.9, 10, 20


class World(NamedTuple):
    """The comparison of one world's truth with the posterior.

    ``ranks``: how many of 99 draws are below the true value, by quantity. ``coverage``: one row per final calibration:
    the shares of questions and of bins whose interval holds the truth, and the mean width of the questions' intervals.
    """

    ranks: dict[str, int]
    coverage: pd.DataFrame
    diverged: bool


def draw_worlds(
    data: LikelihoodData, n: int, *, seed: int, given: dict[str, np.ndarray] | None = None
) -> list[dict[str, np.ndarray]]:
    """Draw the parameters and states (``target``) of ``n`` worlds from the prior, but for parameters that are given."""
    with jax.enable_x64(True):
        predictive = Predictive(bayes, given, num_samples=None if given else n)
        drawn = predictive(jax.random.key(seed), data.unlabelled) | (given or {})
    return [{name: np.asarray(values)[world] for name, values in drawn.items()} for world in range(n)]


def compared(
    worlds: Sequence[dict[str, np.ndarray]],
    asked: Observations,
    fresh: Observations,
    *,
    sampling: SamplingSettings = SHORT_CHAINS,
) -> Iterator[World]:
    """Fit to the asked questions as labelled in each world, and compare the posterior with the world's truth."""
    for seed, truth in enumerate(worlds):
        correct = (asked.candidate == truth["target"][:, None]) & (asked.candidate >= 0)
        fit = fit_nuts(replace(asked, correct=correct), **sampling.model_dump(), seed=seed)
        new = fit.aligned(fresh)
        selections = list(fit.evaluation(new).each(select))
        support = np.concatenate([selection.support for selection in selections], axis=1)
        selected = np.concatenate([selection.candidate for selection in selections])
        known = {str(name): truth[str(name)][None] for name in fit.tree["unconstrained_posterior"].data_vars}
        right = distribution(replace(fit.evaluation(new), draws=known))[np.arange(len(fresh)), selected]
        ranks = _ranks(fit, truth) | {"support_of_new": _rank(right[0], support[:, 0])}
        finals = (Recalibration.identity((1, len(support)), fit.preset.recalibration.eps), fit.recalibration)
        rows = {final.method: _covered(final.of_selected(support), right) for final in finals}
        diverged = bool(fit.tree["sample_stats"]["diverging"].any())
        yield World(ranks, pd.DataFrame.from_dict(rows, orient="index"), diverged)


def uniformity(ranks: pd.DataFrame) -> pd.DataFrame:
    """Return the p-value of each quantity's ranks, a row a world, and that adjusted for the number of quantities."""
    places = (ranks + np.random.default_rng(0).random(ranks.shape)) / (N_RANKED + 1)
    p_value, *_ = array_stats.uniformity_test(places.to_numpy(), axis=0)
    return pd.DataFrame({"p": p_value, "p_adjusted": np.minimum(1.0, ranks.shape[1] * p_value)}, index=ranks.columns)


def _ranks(fit: Fit, truth: dict[str, np.ndarray]) -> dict[str, int]:
    """Return the ranks of the unconstrained parameters, the log-likelihood and the log joint density."""
    unconstrained = fit.tree["unconstrained_posterior"].to_dataset()
    ranks = {}
    for name, draws in unconstrained.items():
        shape = truth[name].shape
        by_draw = draws.to_numpy().reshape(-1, *shape)
        for place in np.ndindex(shape):
            ranks[f"{name}{list(place) or ''}"] = _rank(truth[name][place], by_draw[:, *place])
    with jax.enable_x64(True):
        true_raw = {str(name): jnp.asarray(truth[str(name)]) for name in unconstrained}
        at_truth = evaluated(bayes, true_raw, fit.likelihood_data)
        log_reached = float(at_truth.log_likelihood.sum())
        log_density = float(sum(own.sum() for own in at_truth.log_prior.values()))
    reached = fit.tree["log_likelihood"]["target"].sum("problem").to_numpy()
    priors = [values.to_numpy() for values in fit.tree["log_prior"].to_dataset().values()]
    joint = reached + sum(values.sum(axis=tuple(range(2, values.ndim))) for values in priors)
    ranks["log_likelihood"] = _rank(log_reached, reached.ravel())
    ranks["log_joint"] = _rank(log_reached + log_density, joint.ravel())
    return ranks


def _rank(truth: float, draws: np.ndarray) -> int:
    """Return how many of 99 draws, evenly thinned, are below the truth."""
    return int((draws[np.linspace(0, len(draws) - 1, N_RANKED).astype(int)] < truth).sum())


def _covered(probability: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """Return how many intervals hold the truth: those of questions, and of bins of at least 20."""
    mean = probability.mean(axis=0)
    number = np.minimum((mean * _N_BINS).astype(int), _N_BINS - 1)
    members = [number == place for place in range(_N_BINS) if (number == place).sum() >= _SMALLEST_BIN]
    binned = np.stack([probability[:, rows].mean(axis=1) for rows in members], axis=1)
    holds, width = _held(probability, right)
    bin_holds, _ = _held(binned, np.array([right[rows].mean() for rows in members]))
    return {"questions": holds, "bins": bin_holds, "width": width}


def _held(draws: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(draws, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    return float(((low <= truth) & (truth <= high)).mean()), float((high - low).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=300, help="number of worlds")
    parser.add_argument("--questions", type=int, default=100, help="labelled questions in each")
    given = parser.parse_args()
    numpyro.set_host_device_count(os.cpu_count() or 1)
    observations = simulate_observations(given.questions + 1000, seed=0)
    observations = observations.select(observations.answered)
    asked, fresh = (observations.select(part) for part in (slice(0, given.questions), slice(given.questions, None)))
    worlds = draw_worlds(LikelihoodData.of(asked, preset="bayes"), given.n, seed=0)
    rows: list[World] = []
    for world in compared(worlds, asked, fresh):
        rows.append(world)
        if len(rows) % 20 and len(rows) < given.n:
            continue
        coverage = pd.concat([world.coverage for world in rows]).groupby(level=0, sort=False)
        print(f"\n{len(rows)} of {given.n} worlds, {sum(world.diverged for world in rows)} with divergent draws")
        print(uniformity(pd.DataFrame([world.ranks for world in rows])).to_string(float_format="{:.4f}".format))
        print(coverage.agg(["mean", "sem"]).to_string(float_format="{:.4f}".format), flush=True)


if __name__ == "__main__":
    main()
