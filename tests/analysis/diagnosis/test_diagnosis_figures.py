"""The pictures: all there, readable on their own, and without a trace in matplotlib's global state."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import _pylab_helpers
from matplotlib.figure import Figure

from analysis.diagnosis.diagnosis_figures import FIGURES
from analysis.diagnosis.diagnostics import Diagnosis, diagnose
from analysis.display.style import figure_style, save_figure
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import gaussian_draws, good_fit, made_posterior, replaced, with_level_names


@pytest.fixture(scope="module")
def good() -> tuple[Diagnosis, Fit]:
    return diagnose(good_fit()), good_fit()


def draw(name: str, diagnosis: Diagnosis) -> Figure:
    with figure_style():
        return FIGURES[name](diagnosis)


def texts(figure: Figure) -> str:
    found = [text.get_text() for text in figure.findobj(lambda part: hasattr(part, "get_text"))]
    return " ".join(" ".join(found).split())


@pytest.mark.parametrize("name", FIGURES)
def test_it_speaks_for_itself_and_leaves_no_trace(name, good, tmp_path):
    before = dict(mpl.rcParams)
    figure = draw(name, good[0])
    save_figure(figure, tmp_path / f"{name}.png")
    assert (tmp_path / f"{name}.png").stat().st_size > 5000
    assert dict(mpl.rcParams) == before
    assert _pylab_helpers.Gcf.figs == {}
    shown = texts(figure)
    assert any(number in shown for number in ("120", "250", "1000")), "no n in the picture"
    assert figure.get_suptitle()
    if name == "learning":
        assert "raw scale" in shown
    else:
        assert [axes for axes in figure.axes if axes.get_xlabel()]


def test_the_worst_parameters_are_shown(good):
    diagnosis, _ = good
    worst = diagnosis.parameters.iloc[:-2][["ess_bulk", "ess_tail"]].min(axis=1).idxmin()
    row = diagnosis.parameters.iloc[worst]
    shown = texts(draw("chains", diagnosis))
    assert f"R-hat {row['rhat']:.3f}, {min(row['ess_bulk'], row['ess_tail']):.0f} effective" in shown


def test_the_densities_are_those_of_prior_and_posterior(good):
    diagnosis, _ = good
    panel = diagnosis.parameters["parameter"].tolist().index("weight_centre")
    axes = draw("learning", diagnosis).axes[panel]
    prior, posterior = axes.get_lines()
    place, height = prior.get_data()
    assert place[np.argmax(height)] == pytest.approx(2.0, abs=0.05)
    assert height.max() == pytest.approx(1 / (1.5 * np.sqrt(2 * np.pi)), rel=1e-3)
    place, height = posterior.get_data()
    assert np.trapezoid(height, place) == pytest.approx(1, abs=0.02)
    assert f"contraction {diagnosis.parameters['contraction'].iloc[panel]:.2f}" in axes.get_title(loc="left")


def test_the_pairs_are_the_most_correlated_and_show_divergences():
    diverging = np.zeros((4, 250), bool)
    diverging[2, 9] = True
    raw = gaussian_draws(1, spread=0.1)
    raw["null_gain"] = raw["slope"] - 2
    fit = made_posterior(simulate_observations(40, seed=1), raw, statistics={"diverging": diverging})
    axes = draw("pairs", diagnose(fit)).axes[0]
    assert {axes.get_xlabel(), axes.get_ylabel()} == {"slope", "null_gain"}
    crosses = axes.get_lines()[1]
    assert crosses.get_xdata().tolist() == [raw["slope"][2, 9]]


def test_the_predictive_picture_shows_the_table(good):
    diagnosis, _ = good
    table = diagnosis.predictive.table
    for axes, statistic in zip(draw("predictive", diagnosis).axes, ("accuracy", "null"), strict=True):
        rows = table[table["statistic"] == statistic]
        shown = np.concatenate([line.get_xdata() for line in axes.get_lines()[1:]])
        assert sorted(shown) == pytest.approx(sorted(rows["observed"]))
        ends = np.array([segment[:, 0] for segment in axes.collections[0].get_segments()])
        np.testing.assert_allclose(ends, rows[["low", "high"]].to_numpy())


def test_questions_of_large_pareto_k_are_named():
    k = np.full(120, 0.1)
    k[[5, 100]] = 1.5, 0.8
    k[3] = np.nan
    fit = replaced(good_fit(), "loo", pareto_k=k)
    shown = texts(draw("pareto", diagnose(fit)))
    names = fit.tree["loo"]["problem"].to_numpy()
    assert names[5] in shown
    assert names[100] in shown
    assert names[6] not in shown
    assert "2 above 0.7, 1 undefined and not shown" in shown


@pytest.mark.slow
def test_strange_fits_can_be_drawn(tmp_path):
    raw = gaussian_draws(1, n_chains=2, n_draws=60)
    raw["weight"][:, :, 2] = 1.0
    raw["bias"][1] = raw["bias"][1, 0]
    raw["slope"][0, 4] = np.nan
    energy = np.random.default_rng(0).standard_normal((2, 60))
    energy[0, 3], energy[1] = np.inf, 2.0
    made = made_posterior(simulate_observations(30, seed=1), raw, statistics={"energy": energy})
    fit = with_level_names(made, ["$x_1$", "50% sure", "a_b^c", "$", "\\alpha"])
    diagnosis = diagnose(fit)
    for name in FIGURES:
        save_figure(draw(name, diagnosis), tmp_path / f"{name}.png")


def test_a_single_chain_can_be_drawn():
    fit = made_posterior(simulate_observations(30, seed=1), gaussian_draws(1, n_chains=1, n_draws=60))
    diagnosis = diagnose(fit)
    assert "R-hat undefined" in texts(draw("chains", diagnosis))
