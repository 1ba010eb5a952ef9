"""The diagnosis of a good fit and of spoilt ones: its verdict, record, tables and pictures, and the command."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import arviz_stats
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib import _pylab_helpers

from analysis.diagnosis import DIAGNOSIS_FOLDER, Diagnosis, diagnose
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.parameters import identified_draws
from bayes_direag.model import presets
from bayes_direag.model.simulate import simulate_observations
from tests import command_line
from tests.analysis.fits import gaussian_draws, good_fit, made_fit, made_posterior, natural, replaced, with_level_names
from tests.command_line import direag

run, refuse = partial(direag, "diagnose"), partial(command_line.refuse, "diagnose")
OBSERVATIONS = simulate_observations(120, seed=3)
#: What a preset with pooled levels shares about weights, on its own scale.
PULLED = {"weight_centre", "weight_agreement"}
#: The levels themselves, raw: their prior given what they share belongs to the model.
POOLED = {"weight_base_decentered", "vote_decentered"}
LEVELS = ["[red]one", "$x_1$ 50% sure", "[/]", "a level with a very long name indeed, longer than most", "\\alpha_^"]


def spoilt_fit() -> Fit:
    """Return a fit with a chain elsewhere, a divergence, and names like markup."""
    raw, diverging = gaussian_draws(8, spread=0.1), np.arange(1000).reshape(4, 250) == 3
    raw["slope_base"][1] += 1
    return with_level_names(made_posterior(OBSERVATIONS, raw, statistics={"diverging": diverging}), LEVELS)


def weighted_fit() -> Fit:
    settings = {"recalibration": {"method": "none"}, "null_target_weight": "balanced"}
    return made_posterior(OBSERVATIONS, gaussian_draws(8), preset=presets.preset("bayes", **settings))


@pytest.fixture(scope="module")
def good() -> Diagnosis:
    return diagnose(good_fit())


def warnings_of(diagnosis: Diagnosis) -> str:
    return "\n".join(text for status, text in diagnosis.verdict if status != "fine")


def test_a_good_fit(good):
    assert good.believable
    severity, said = good.verdict[0]
    assert severity == "fine"
    assert said.startswith(f"Converged: {good.summary}.")
    found = arviz_stats.loo(good.fit.tree, var_name="target")
    assert (good.loo.elpd, good.loo.p) == pytest.approx((found.elpd, found.p))
    assert good.parameters["r_hat"].is_monotonic_decreasing
    json.dumps(good.record, default=str)


def test_shares_are_judged_and_not_weights_and_prior_or_labels_is_arviz_s(good):
    draws = identified_draws(good.fit.tree)
    assert {name for name in draws if "weight" in name} == PULLED
    known = [name for name in draws if draws[name].ndim == 2 and not name.startswith("recalibration")]
    top = [name for name in good.fit.tree["log_prior"] if name not in POOLED]
    with_shared = good.fit.tree.copy()
    with_shared["posterior"] = xr.DataTree(draws[known])
    expected = arviz_stats.psense_summary(with_shared, prior_var_names=top, round_to=12)[["prior", "likelihood"]]
    found = good.parameters.loc[known, ["prior", "likelihood"]].astype(float)
    pd.testing.assert_frame_equal(found, expected.astype(float), check_names=False)


def test_a_spoilt_fit():
    found = diagnose(spoilt_fit())
    assert not found.believable
    assert "NOT converged: R-hat at most" in warnings_of(found)
    assert "1 divergences" in warnings_of(found)
    assert "--target-accept" in warnings_of(found)
    _, table = found.blocks(everything=False)
    assert len(table.rows) == 5
    assert table.rows[0][1].marks == ("failure",)


def test_a_question_that_decides_is_named():
    fit = good_fit()
    log_likelihood = fit.tree["log_likelihood"]["target"].to_numpy().copy()
    log_likelihood[..., 7] = -5 * np.random.default_rng(0).exponential(size=log_likelihood.shape[:2])
    found = warnings_of(diagnose(replaced(fit, "log_likelihood", target=log_likelihood)))
    assert f"1 of 120 questions have a Pareto k above 0.7: look at {fit.fitted.problem_id[7]} first" in found


def test_what_the_prior_alone_decides_is_said(good):
    parameters = good.parameters.assign(prior=0.0, likelihood=0.5)
    parameters.loc[["slope", "sharpness"], ["prior", "likelihood"]] = [0.3, 0.01]
    found = warnings_of(replace(good, parameters=parameters))
    assert set(re.search(r"The prior alone decides (\w+), (\w+): only", found).groups()) == {"slope", "sharpness"}


def test_a_weighted_likelihood_has_no_calibration_to_judge():
    found = diagnose(weighted_fit())
    assert "Intervals mean little: the fit weighs questions unequally" in warnings_of(found)
    assert "Leave-one-out" not in warnings_of(found)
    assert list(found.calibration) == ["support"]


def test_a_map_is_refused():
    with pytest.raises(DirEAGError, match=r"a MAP, a single draw, .*; expected a NUTS fit\. .*--method nuts"):
        diagnose(made_fit(OBSERVATIONS, natural(5)))


@pytest.mark.parametrize("fit", [spoilt_fit, weighted_fit])
def test_the_folder_of_any_fit_and_what_is_shown(fit, tmp_path):
    found = diagnose(fit())
    found.write(tmp_path / "out")
    left_out = {"pareto_k.png", "left_out.png"} if fit is weighted_fit else set()
    assert {path.name for path in (tmp_path / "out").iterdir()} == DIAGNOSIS_FOLDER.contents - left_out
    assert all(path.stat().st_size > 5000 for path in (tmp_path / "out").glob("*.png"))
    assert _pylab_helpers.Gcf.figs == {}
    verdict, parameters = found.blocks()
    assert verdict.items == found.verdict
    assert [row[0].text for row in parameters.rows] == [*map(str, found.parameters.index)]


@pytest.mark.parametrize(("fit", "code"), [(good_fit, 0), (spoilt_fit, 1)])
def test_the_command(fit, code, tmp_path, monkeypatch):
    monkeypatch.setattr(Diagnosis, "pictures", lambda _: [])
    path = tmp_path / "fit.nc"
    fit().save(path)
    result = run(path, "--json", "--out", tmp_path / "out")
    assert result.exit_code == code, result.output
    record = json.loads((tmp_path / "out" / "diagnosis.json").read_text())
    assert json.loads(result.output) == {"file": str(path), **record}
    assert record["believable"] is not bool(code)
    assert ("NOT converged" in run(path).output) is bool(code)


def test_refusals(tmp_path):
    good: Path = tmp_path / "good.nc"
    good_fit().save(good)
    assert "no such file" in refuse(tmp_path / "none.nc")
    assert "there is no folder" in refuse(good, "--out", tmp_path / "no" / "out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    assert "saw thesis.tex" in refuse(good, "--out", tmp_path / "out")
