"""What a fit is, whether it has converged, and its parameters, as blocks."""

import numpy as np
import pytest
import xarray as xr

from analysis.display.text import UNDEFINED, number, percent
from analysis.fit_display import convergence_block, fit_terms, parameter_tables
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import PRESETS
from tests.analysis.fits import good_fit
from tests.analysis.report.runs import small_fit


@pytest.mark.parametrize(
    ("name", "starts", "optima", "says"),
    [
        ("paper", 8, 3, "0.500000, the lowest of 3 optima from 8 starts"),
        ("paper", 8, 1, "0.500000, one optimum from 8 starts"),
        ("paper", 1, 1, "0.500000, from the usual start alone: there may be lower optima"),
        ("release", 1, 1, "0.500000, from the released start alone: there may be lower optima"),
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
    tree.attrs["preset"] = PRESETS["bayes"].override(null_target_weight=2.0).model_dump_json()
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


@pytest.mark.parametrize("fit", [small_fit(), good_fit()])
def test_parameters_of_levels_and_shared(fit):
    levels, shared = parameter_tables(fit)
    table = fit.parameters()
    of_level = table.dropna(subset="level").set_index(["parameter", "level"])
    names = of_level.index.unique("parameter").tolist()
    assert [column.header for column in levels.columns[: len(names) + 2]] == ["level", "share", *names]
    for level, row in zip(fit.level_names, levels.rows, strict=True):
        own = [of_level.loc[(name, level)] for name in names]
        expected = [(percent(own[0]["relative"]), "")]
        expected += [(number(one["mean"]), f"± {number(one['sd'])}" if one["sd"] > 0 else "") for one in own]
        assert [(cell.text, cell.detail) for cell in row[1 : len(names) + 2]] == expected
    assert ("agrees" in [column.header for column in levels.columns]) == (fit.fitted.agreement is not None)
    rows = {name.text: [cell.text for cell in cells] for name, *cells in shared.rows}
    null_base = table.set_index("parameter").loc["null_base"]
    assert rows["null_base"][0].startswith(number(null_base["mean"]))
    assert rows["null_base"][1] == number(null_base["relative"])
    assert rows["recalibration_slope"][1] == UNDEFINED
    assert all(meaning for *_, meaning in rows.values())
