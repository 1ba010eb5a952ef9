"""A sampler's faults, each made by hand, and what ArviZ's figures make of them."""

import numpy as np
import pytest
from arviz_stats import ess, rhat

from bayes_direag.fits.convergence import SamplerSummary, convergence, convergence_summary, sampler_summary
from bayes_direag.fits.fit import Fit
from tests.made_fits import replaced


def test_convergence_figures_are_arviz_s_the_final_calibration_included(nuts: Fit) -> None:
    table, slope = convergence(nuts), nuts.tree["posterior"]["slope"]
    assert table.loc["slope", "r_hat"] == pytest.approx(rhat(slope.to_numpy()))
    final = nuts.tree["recalibration"]["slope"]
    assert table.loc["recalibration_slope", "ess_bulk"] == pytest.approx(ess(final.to_numpy()))
    assert (convergence_summary(nuts), convergence_summary(nuts).converged) == (sampler_summary(nuts), True)


@pytest.mark.parametrize(
    ("group", "name", "spoil", "field"),
    [
        ("posterior", "slope", lambda draws: np.where(np.arange(300) == 5, np.nan, draws), "largest_rhat"),
        ("posterior", "slope", lambda draws: draws * [[1], [0]] + [[0], [5]], "largest_rhat"),
        ("posterior", "slope", lambda draws: np.cumsum(draws - draws.mean(), axis=1), "smallest_ess"),
        ("sample_stats", "diverging", lambda draws: np.arange(600).reshape(draws.shape) == 3, "divergences"),
        ("sample_stats", "energy", lambda draws: np.cumsum(draws - draws.mean(), axis=1), "smallest_bfmi"),
    ],
    ids=["no number", "a chain that stands still", "slow chains", "a divergence", "energy"],
)
def test_convergence_fails_by_each_fault_alone(nuts: Fit, group, name, spoil, field) -> None:
    draws = nuts.tree[group][name].to_numpy()
    summary = sampler_summary(replaced(nuts, group, {name: spoil(draws)}))
    fine = SamplerSummary(4, 1000, 1.0, 1000.0, 1.0, 0)
    assert not summary.converged
    assert not fine._replace(**{field: getattr(summary, field)}).converged
    assert str(summary).startswith("R-hat at most")


@pytest.mark.parametrize(("chains", "draws"), [(2, 300), (4, 1000)])
def test_convergence_accuses_few_perfect_chains(chains, draws):
    rng, accused = np.random.default_rng(0), 0
    for _ in range(10):
        perfect = rng.standard_normal((chains, draws, 42))
        largest = np.max(rhat(perfect, chain_axis=0, draw_axis=1))
        accused += not SamplerSummary(chains, chains * draws, largest, 1000.0, 1.0, 0).converged
    assert accused <= 1


def test_convergence_does_not_judge_the_scale_of_all_weights(nuts: Fit) -> None:
    """Only ratios of weights, prior strength and null base change predictions."""
    scale = np.exp(np.cumsum(0.1 * np.random.default_rng(1).standard_normal((2, 300)), axis=1))
    posterior = nuts.tree["posterior"]
    weight, null_base = posterior["weight"].to_numpy() * scale[..., None], posterior["null_base"].to_numpy() * scale
    fit = replaced(nuts, "posterior", {"weight": weight, "null_base": null_base})
    fit.tree["posterior"]["prior_strength"] = posterior["slope"].copy(data=scale)
    assert float(rhat(fit.tree["posterior"]["weight"].sum("level").to_numpy())) > 1.1
    assert sampler_summary(fit).converged
