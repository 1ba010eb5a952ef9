"""The diagnosis of a good fit and of spoilt ones: its verdict and its tables."""

import re
from dataclasses import replace

import arviz_stats
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib import _pylab_helpers

from analysis.diagnosis import Diagnosis, diagnose
from analysis.display.document import LeftOut
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.container import calibration_group
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.parameters import identified_draws
from bayes_direag.model import presets
from bayes_direag.model.selection import Recalibration
from tests.made_fits import replaced

LEVELS = ["[red]one", "$x_1$ 50% sure", "[/]", "a level with a very long name indeed, longer than most", "\\alpha_^"]


def spoilt(nuts: Fit) -> Fit:
    """Return the fit with a chain elsewhere, a divergence, and names like markup."""
    slope, stats = nuts.tree["posterior"]["slope"].to_numpy(), nuts.tree["sample_stats"]["diverging"]
    fit = replaced(nuts, "posterior", {"slope": slope + np.array([[0], [1]])})
    fit = replaced(fit, "sample_stats", {"diverging": np.arange(stats.size).reshape(stats.shape) == 3})
    for group in [name for name, dataset in fit.tree.children.items() if "level" in dataset.coords]:
        fit.tree[group] = xr.DataTree(fit.tree[group].to_dataset().assign_coords(level=LEVELS))
    return fit


def weighted(nuts: Fit) -> Fit:
    """Return the fit as one of a weighted likelihood without a final calibration."""
    settings = presets.preset("bayes", null_target_weight="balanced", recalibration={"method": "none"})
    fit = replaced(nuts, "posterior", preset=settings.model_dump_json())
    fit.tree["recalibration"] = calibration_group(Recalibration.identity((2, 300), settings.eps))
    return fit


@pytest.fixture(scope="module")
def good(nuts: Fit) -> Diagnosis:
    return diagnose(nuts)


@pytest.fixture(scope="module")
def heavy(nuts: Fit) -> Diagnosis:
    return diagnose(weighted(nuts))


def warnings_of(diagnosis: Diagnosis) -> str:
    return "\n".join(text for status, text in diagnosis.verdict if status != "fine")


def test_diagnosis_of_a_good_fit(good: Diagnosis) -> None:
    assert good.believable
    severity, said = good.verdict[0]
    assert severity == "fine"
    assert said.startswith(f"Converged: {good.summary}.")
    loo = arviz_stats.loo(good.fit.tree, var_name="target")
    assert (good.loo.elpd, good.loo.p) == pytest.approx((loo.elpd, loo.p))
    assert good.parameters["r_hat"].is_monotonic_decreasing


def test_shares_are_judged_and_not_weights_and_prior_or_labels_is_arviz_s(good: Diagnosis) -> None:
    draws = identified_draws(good.fit.tree)
    assert {name for name in draws if "weight" in name} == {"weight_centre", "weight_agreement"}
    known = [name for name in draws if draws[name].ndim == 2 and not name.startswith("recalibration")]
    # the prior of the levels themselves, given what they share, belongs to the model
    top = [name for name in good.fit.tree["log_prior"] if name not in ("weight_base_decentered", "vote_decentered")]
    with_shared = good.fit.tree.copy()
    with_shared["posterior"] = xr.DataTree(draws[known])
    expected = arviz_stats.psense_summary(with_shared, prior_var_names=top, round_to=12)[["prior", "likelihood"]]
    parameters = good.parameters.loc[known, ["prior", "likelihood"]].astype(float)
    pd.testing.assert_frame_equal(parameters, expected.astype(float), check_names=False)


def test_diagnosis_tells_each_fault_with_its_remedy(nuts: Fit, good: Diagnosis) -> None:
    diagnosis = diagnose(spoilt(nuts))
    assert not diagnosis.believable
    for words in (
        "NOT converged: R-hat at most",
        "1 divergences (up to 0)",
        "1 of 600 draws diverged",
        "--target-accept",
        "--draws",
    ):
        assert words in warnings_of(diagnosis)
    _, table = diagnosis.blocks(everything=False)
    assert len(table.rows) == 5
    assert table.rows[0][1].marks == ("failure",)
    log_likelihood = nuts.tree["log_likelihood"]["target"].to_numpy().copy()
    log_likelihood[..., 7] = -5 * np.random.default_rng(0).exponential(size=log_likelihood.shape[:2])
    decided = warnings_of(diagnose(replaced(nuts, "log_likelihood", {"target": log_likelihood})))
    assert f"1 of 80 questions have a Pareto k above 0.7: look at {nuts.fitted.problem_id[7]} first" in decided
    parameters = good.parameters.assign(prior=0.0, likelihood=0.5)
    parameters.loc[["slope", "sharpness"], ["prior", "likelihood"]] = [0.3, 0.01]
    weak = warnings_of(replace(good, parameters=parameters))
    assert set(re.search(r"The prior alone decides (\w+), (\w+): only", weak).groups()) == {"slope", "sharpness"}


def test_diagnosis_judges_no_calibration_of_a_weighted_likelihood_and_nothing_of_a_map(
    heavy: Diagnosis, point: Fit
) -> None:
    assert "Intervals mean little: the fit weighs questions unequally" in warnings_of(heavy)
    assert "Leave-one-out" not in warnings_of(heavy)
    assert list(heavy.calibration) == ["support"]
    with pytest.raises(DirEAGError, match=r"a MAP, a single draw, .*; expected a NUTS fit\. .*--method nuts"):
        diagnose(point)


def test_ranks_are_those_of_nearly_independent_draws(good: Diagnosis) -> None:
    """So that p is a probability; the picture says what it leaves out."""
    (ranks,) = [one for one in good.pictures() if one.name == "ranks"]
    worst = good.parameters[:5]
    step = int(np.ceil(600 / worst[["ess_bulk", "ess_tail"]].min(axis=None)))
    assert ranks.figure.get_suptitle() == "Do the chains agree?"
    assert f"The 5 of {len(good.parameters)} parameters" in " ".join(ranks.figure.get_supxlabel().split())
    assert f"one draw in {step}," in ranks.figure.get_supxlabel()
    lengths = {len(line.get_xdata()) for axes in ranks.figure.axes[1::2] for line in axes.lines}
    assert max(lengths) == -(-300 // step)


def test_diagnosis_draws_no_calibration_of_a_weighted_likelihood(heavy: Diagnosis, good: Diagnosis) -> None:
    verdict, parameters = good.blocks()
    assert verdict.items == good.verdict
    assert [row[0].text for row in parameters.rows] == [*map(str, good.parameters.index)]
    left_out = [one.name for one in heavy.pictures() if isinstance(one, LeftOut)]
    assert left_out == ["pareto_k", "left_out"]
    assert _pylab_helpers.Gcf.figs == {}
