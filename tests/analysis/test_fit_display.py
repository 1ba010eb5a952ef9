"""What a fit is, whether it has converged, and its parameters, as blocks."""

import numpy as np
import pytest
import xarray as xr

from analysis.display.text import interval, number
from analysis.fit_display import convergence_block, fit_terms, learned_blocks
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.parameters import identified_draws
from bayes_direag.model import presets
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import good_fit, random_fit
from tests.analysis.report.runs import small_fit


@pytest.mark.parametrize(
    ("name", "starts", "optima", "says"),
    [
        ("paper", 8, 3, "0.500000, the lowest of 3 optima from 8 starts"),
        ("paper", 8, 1, "0.500000, one optimum from 8 starts"),
        ("paper", 1, 1, "0.500000, from the usual start alone: there may be lower optima"),
        ("release", 1, 1, "0.500000, from the usual start alone: there may be lower optima"),
        ("bayes", 1, 1, "0.500000"),
    ],
)
def test_it_says_which_optimum_it_is(name, starts, optima, says):
    tree = small_fit().tree.copy(deep=True)
    tree.attrs["preset"] = PRESETS[name].model_dump_json()
    for stat, value in {"n_starts": starts, "n_optima": optima}.items():
        tree["sample_stats"][stat] = xr.full_like(tree["sample_stats"]["loss"], value)
    assert dict(fit_terms(Fit(tree), "t").items)["method"].endswith(f"; penalised loss {says}")


def test_what_a_posterior_is():
    tree = good_fit().tree.copy()
    tree.attrs["preset"] = presets.preset("bayes", null_target_weight="balanced").model_dump_json()
    rows = dict(fit_terms(good_fit(), "t").items)
    assert rows["method"].endswith("250 draws of each of 4 chains")
    assert rows["recalibration"] == "platt, on leave-one-out support"
    assert rows["levels"].startswith("5: very_cautious, ")
    assert "NOTE" not in rows
    assert "weighted unequally" in dict(fit_terms(Fit(tree), "t").items)["NOTE"]


@pytest.mark.parametrize(
    ("fit", "status", "figure"),
    [
        (small_fit(), "fine", "gradient 1e-09"),
        (small_fit(gradient=0.1), "failure", "gradient 0.1 (at most 1e-06"),
        (small_fit(gradient=np.nan), "failure", "gradient nan"),
        (good_fit(), "fine", "R-hat at most 1.00"),
    ],
)
def test_convergence(fit, status, figure):
    ((found, text),) = convergence_block(fit).items
    assert found == status
    assert figure in text


@pytest.mark.parametrize(("fit", "value"), [(small_fit(), "mode"), (good_fit(), "median")])
def test_what_was_learned(fit, value):
    identified, scale, *agreement = learned_blocks(fit)
    assert [column.header for column in identified.columns][:2] == ["parameter", value]
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in identified.rows}
    draws = identified_draws(fit.tree)
    assert rows["share, vanilla"][0] == number(float(draws["share"].sel(level="vanilla").median()), 2)
    assert rows["slope"][0] == number(float(draws["slope"].median()), 2)
    ends = np.quantile(draws["slope"], [0.05, 0.95])
    assert value == "mode" or rows["slope"][1] == interval(*ends, 2)
    assert rows["slope"][-1].startswith("how much a stated confidence matters")
    assert (rows["share, very_cautious"][-1] != "", rows["share, cautious"][-1]) == (True, "")
    assert [row[0].text for row in scale.rows][:5] == [f"weight, {level}" for level in fit.level_names]
    assert bool(agreement) == (fit.fitted.agreement is not None)


def test_variant_level_says_what_only_the_prior_determines():
    first, *_ = learned_blocks(random_fit(simulate_observations(30, seed=2), variant="level"))
    assert "Only the prior determines weight, bias and null_gain" in first.text
