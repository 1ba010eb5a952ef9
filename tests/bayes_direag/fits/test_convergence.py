"""A sampler's faults, each made by hand, and what ArviZ's figures make of them."""

import numpy as np
import pytest
from arviz_stats import ess, rhat

from bayes_direag.fits.convergence import SamplerSummary, convergence, convergence_summary, sampler_summary
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import APART, gaussian_draws, good_fit, made_posterior


def test_the_figures_are_arviz_s_the_final_calibration_included():
    fit = good_fit()
    table, slope = convergence(fit), fit.tree["posterior"]["slope"]
    assert table.loc["slope", "r_hat"] == pytest.approx(rhat(slope.to_numpy()))
    final = fit.tree["recalibration"]["slope"]
    assert table.loc["recalibration_slope", "ess_bulk"] == pytest.approx(ess(final.to_numpy()))
    assert (convergence_summary(fit), convergence_summary(fit).converged) == (sampler_summary(fit), True)


@pytest.mark.parametrize(
    ("raw", "statistics", "field"),
    [
        (lambda raw: raw["slope_base"].__setitem__((0, 5), np.nan), {}, "largest_rhat"),
        (lambda raw: raw["slope_base"].__setitem__(1, 5.0), {}, "largest_rhat"),
        (lambda raw: raw["slope_base"].__setitem__(..., np.cumsum(raw["slope_base"], axis=1)), {}, "smallest_ess"),
        (lambda _: None, {"diverging": np.arange(1000).reshape(4, 250) == 3}, "divergences"),
        (lambda _: None, {"energy": np.random.default_rng(0).normal(size=(4, 250)).cumsum(axis=1)}, "smallest_bfmi"),
    ],
    ids=["no number", "a chain that stands still", "slow chains", "a divergence", "energy"],
)
def test_each_fault_alone_is_enough(raw, statistics, field):
    draws = gaussian_draws(8, spread=0.05)
    raw(draws)
    found = sampler_summary(made_posterior(simulate_observations(60, seed=3), draws, statistics=statistics))
    fine = SamplerSummary(4, 1000, 1.0, 1000.0, 1.0, 0)
    assert not found.converged
    assert not fine._replace(**{field: getattr(found, field)}).converged
    assert str(found).startswith("R-hat at most")


@pytest.mark.parametrize(("chains", "draws"), [(2, 300), (4, 1000)])
def test_few_perfect_chains_are_accused(chains, draws):
    rng, accused = np.random.default_rng(0), 0
    for _ in range(20):
        perfect = rng.standard_normal((chains, draws, 42))
        largest = np.max(rhat(perfect, chain_axis=0, draw_axis=1))
        accused += not SamplerSummary(chains, chains * draws, largest, 1000.0, 1.0, 0).converged
    assert accused <= 2


def test_the_scale_of_all_weights_is_not_judged():
    """Under preset paper only ratios of weights, prior strength and null base change predictions."""
    draws = gaussian_draws(8, spread=0.05, centre=APART)
    scale = np.exp(np.cumsum(0.1 * np.random.default_rng(1).standard_normal((4, 250)), axis=1))
    for name in ("weight_base", "prior_strength_base", "null_base_base"):
        natural = np.logaddexp(draws[name], 0) * scale.reshape(4, 250, *[1] * (draws[name].ndim - 2))
        draws[name] = natural + np.log(-np.expm1(-natural))
    fit = made_posterior(simulate_observations(60, seed=3), draws, preset="paper")
    assert float(rhat(fit.tree["posterior"]["weight"].sum("level").to_numpy())) > 1.1
    assert sampler_summary(fit).converged
