"""A sampler's faults, each made by hand, and what ArviZ's figures make of them."""

import numpy as np
import pytest
from arviz_stats import ess, rhat

from bayes_direag.fits.convergence import (
    SamplerSummary,
    convergence,
    convergence_summary,
    convergence_verdict,
    sampler_summary,
)
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
    fine = SamplerSummary(4, 800, 1.0, 1000.0, 1.0, 0)
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


@pytest.mark.parametrize(
    ("rhat", "size", "bfmi", "words"),
    [
        (1.0103, 400.3, 0.3004, "R-hat at most 1.0103 (up to 1.01), effective draws at least 400.3 (above 400)"),
        (1.0096, 399.9, 0.2996, "R-hat at most 1.010 (up to 1.01), effective draws at least 400 (above 400)"),
        (1.0004, 399.4, 0.912, "R-hat at most 1.000 (up to 1.01), effective draws at least 399 (above 400)"),
    ],
)
def test_convergence_figures_have_the_digits_that_show_on_which_side_they_are(rhat, size, bfmi, words) -> None:
    summary = SamplerSummary(4, 4000, rhat, size, bfmi, 3)
    assert str(summary).startswith(words)
    assert str(summary).endswith("3 divergences (up to 4)")
    assert [fine for fine, _ in summary.figures()] == [rhat <= 1.01, size > 400, bfmi > 0.3, True]
    assert ("0.3004" in str(summary)) == (bfmi == 0.3004)


def twice(nuts: Fit, divergent: np.ndarray) -> Fit:
    """Return the fit with its 300 draws of two chains twice, those of high slope at the places that diverged."""
    fit = Fit(nuts.tree.isel(draw=np.arange(600) % 300))
    return replaced(fit, "sample_stats", {"diverging": divergent.reshape(2, 600)})


def test_verdict_of_a_fit_without_a_fault(nuts: Fit) -> None:
    assert convergence_verdict(nuts) == ("fine", f"Converged: {sampler_summary(nuts)}.")


def test_verdict_warns_of_one_divergence_in_a_thousand_draws_and_fails_of_two(nuts: Fit) -> None:
    """Both say how many diverged and where, and that smaller steps help; only the second that it failed."""
    slope = nuts.tree["posterior"]["slope"].to_numpy()[:, np.arange(600) % 300].ravel()
    highest = np.argsort(slope)[::-1]
    severity, text = convergence_verdict(twice(nuts, np.isin(np.arange(1200), highest[:1])))
    assert severity == "warning"
    assert text.startswith("Converged: R-hat at most ")
    assert "1 of 1,200 draws diverged, at high slope" in text
    assert text.endswith("Surer: take smaller steps (--target-accept 0.99).")
    severity, text = convergence_verdict(twice(nuts, np.isin(np.arange(1200), highest[:2])))
    assert severity == "failure"
    assert text.startswith("NOT converged: 2 divergences (up to 1). 2 of 1,200 draws diverged, at high slope")
    assert text.endswith("Do not believe these draws: take smaller steps (--target-accept 0.99).")


def test_verdict_advises_as_many_more_draws_as_the_effective_ones_ask_for(nuts: Fit) -> None:
    """The run had 200 steps of warm-up."""
    short = Fit(nuts.tree.isel(draw=slice(0, 40)))
    summary = sampler_summary(short)
    severity, text = convergence_verdict(short)
    factor = np.clip(np.ceil(1.25 * 200 / summary.smallest_ess), 2, 10)
    assert severity == "failure"
    assert f"effective draws at least {summary.smallest_ess:.0f} (above 200)" in text
    assert "divergences" not in text
    assert text.endswith(f"Do not believe these draws: take more draws (--draws {factor * 40:.0f} --warmup 250).")
    slope = nuts.tree["posterior"]["slope"].to_numpy()
    still = convergence_verdict(replaced(nuts, "posterior", {"slope": np.where(slope < 9, 1.0, slope)}))
    assert (still.severity, "R-hat at most nan (up to 1.02)" in still.text) == ("failure", True)
    assert still.text.endswith("take more draws (--draws 600 --warmup 250).")


def test_convergence_does_not_judge_the_scale_of_all_weights(nuts: Fit) -> None:
    """Only ratios of weights, prior strength and null base change predictions."""
    scale = np.exp(np.cumsum(0.1 * np.random.default_rng(1).standard_normal((2, 300)), axis=1))
    posterior = nuts.tree["posterior"]
    weight, null_base = posterior["weight"].to_numpy() * scale[..., None], posterior["null_base"].to_numpy() * scale
    fit = replaced(nuts, "posterior", {"weight": weight, "null_base": null_base})
    fit.tree["posterior"]["prior_strength"] = posterior["slope"].copy(data=scale)
    assert float(rhat(fit.tree["posterior"]["weight"].sum("level").to_numpy())) > 1.1
    assert sampler_summary(fit).converged
