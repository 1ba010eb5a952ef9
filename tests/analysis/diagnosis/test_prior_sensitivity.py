"""Prior sensitivity: what moves with priors and likelihoods of known pull."""

import numpy as np
import pytest

from analysis.diagnosis.identifiability import priors, total_log_likelihood
from analysis.diagnosis.prior_sensitivity import PREDICTED, identified_draws, prior_sensitivity
from analysis.diagnosis.verdict import sensitivity_finding, variance_in_words
from bayes_direag.inference.posterior import sampled_parameters
from bayes_direag.model.selection import supports
from tests.analysis.fits import good_fit, replaced


@pytest.fixture(scope="module")
def prior():
    return priors(good_fit(), good_fit().draws("raw"))


def test_the_predicted_share_is_the_mean_support_of_the_selected_answers():
    fit = good_fit()
    found = identified_draws(fit)
    by_draw = supports(fit.reports(fit.fitted), sampled_parameters(fit.tree, fit.fitted.slots))
    selected = by_draw[:, np.arange(len(fit.fitted)), fit.left_out["candidate"].to_numpy()]
    np.testing.assert_allclose(found[PREDICTED], selected.mean(axis=1))
    assert {"slope", "weight_spread", "weight[cautious]"} < set(found.columns)
    assert not {"bias[cautious]", "recalibration_slope"} & set(found.columns)


def test_flat_priors_and_likelihoods_move_nothing_and_offsets_are_no_prior(prior):
    fit = good_fit()
    likelihood = total_log_likelihood(fit)
    found = prior_sensitivity(fit, prior, likelihood)
    assert (found[["prior", "likelihood"]] > 0).all(axis=None)
    flat = prior_sensitivity(fit, prior.assign(sd=1e6), lambda vectors: 1e-4 * np.sin(1e4 * vectors[:, 0]))
    assert (flat[["prior", "likelihood"]] < 1e-3).all(axis=None)
    levels = prior.index.get_level_values("level").notna()
    other = prior.assign(sd=np.where(levels, 1e-3, prior["sd"]))
    np.testing.assert_array_equal(prior_sensitivity(fit, other, likelihood)["prior"], found["prior"])


def test_draws_that_are_not_finite_say_nothing(prior):
    fit = good_fit()
    raw = fit.tree["unconstrained_posterior"]["slope_raw"].to_numpy().copy()
    raw[0, 0] = np.nan
    broken = replaced(fit, "unconstrained_posterior", slope_raw=raw)
    found = prior_sensitivity(broken, prior, total_log_likelihood(fit))
    assert found[["prior", "likelihood"]].isna().all(axis=None)
    assert sensitivity_finding(found).status == "warning"


def test_the_finding_says_who_decides(prior):
    table = prior_sensitivity(good_fit(), prior, total_log_likelihood(good_fit())).set_index("quantity")
    table[["prior", "likelihood"]] = 0.01
    table.loc[PREDICTED] = 0.02, 0.3
    table.loc["slope"] = 0.2, 0.1
    table.loc["null_gain"] = 0.2, 0.04
    found = sensitivity_finding(table.reset_index())
    assert found.status == "fine"
    assert f"The labels move the {PREDICTED} more than the priors do (sensitivity 0.30, 0.02" in found.text
    assert "Priors and labels both move slope. ArviZ calls that a potential prior-data conflict" in found.text
    assert "The priors decide null_gain" in found.text
    table.loc[PREDICTED] = 0.3, 0.02
    assert sensitivity_finding(table.reset_index()).status == "warning"


def test_more_variance_than_the_prior_had_is_said_in_words():
    assert variance_in_words(0.4) == "40% of the prior's variance is left"
    assert variance_in_words(1.83).startswith("the labels have removed none of the prior's variance (it is 1.8 times")
