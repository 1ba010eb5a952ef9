"""A whole NUTS fit: what its container holds, what it leaves out, and what it predicts."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arviz_stats import mcse
from scipy import stats

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import fit_draws, fit_nuts
from bayes_direag.model import presets
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import FitSettings
from tests.bayes_direag import brute_force
from tests.made_fits import NUTS_SAMPLING, TINY_SAMPLING, sampled_nuts

NATURAL = ("weight", "bias", "slope", "null_base", "sharpness", "vote")


def arrays(group: xr.DataTree) -> dict[str, np.ndarray]:
    return {str(name): values.to_numpy() for name, values in group.to_dataset().items()}


@pytest.fixture(scope="module")
def natural(nuts: Fit) -> list[dict[str, object]]:
    """Return the natural parameters of every draw, worked out again from the unconstrained ones."""
    unconstrained = {
        name: value.reshape(-1, *value.shape[2:])
        for name, value in arrays(nuts.tree["unconstrained_posterior"]).items()
    }
    agreement = nuts.tree["constant_data"]["agreement_score"].to_numpy()
    draws = ({name: value[sample] for name, value in unconstrained.items()} for sample in range(nuts.n_samples))
    return [brute_force.natural(draw, "bayes", agreement) for draw in draws]


def supports(natural: list[dict[str, object]], fit: Fit, observations: Observations, question: int) -> np.ndarray:
    """Return one question's support by (sample, state), the null last, by the equations in plain Python."""
    reports = brute_force.reports_of(observations, question)
    states = (*observations.candidates[question], brute_force.NULL)
    each = [brute_force.support(brute_force.scores(reports, one, fit.preset.eps)) for one in natural]
    return np.array([[one[state] for state in states] for one in each])


class TestContainer:
    def test_groups_have_named_dimensions(self, nuts: Fit, labelled: Observations) -> None:
        tree = nuts.with_predictive().tree
        on_demand = {"prior", "prior_predictive", "posterior_predictive"}
        groups = {"posterior", "unconstrained_posterior", "sample_stats", "log_likelihood", "log_prior"}
        groups |= {"recalibration", "replay_draws", "replay_weights"}
        assert set(nuts.tree.children) == groups | {"constant_data", "observed_data", "labels", "loo"}
        assert set(tree.children) - set(nuts.tree.children) == on_demand
        posterior = {*NATURAL, "share", "weight_centre", "weight_agreement", "vote_centre", "vote_agreement"}
        assert set(tree["posterior"].data_vars) == set(tree["prior"].data_vars) == posterior
        assert set(tree["log_prior"].data_vars) == set(tree["unconstrained_posterior"].data_vars)
        of_levels = {"weight", "vote", "share", "weight_base_decentered", "vote_decentered"}
        for group in (*groups - {"sample_stats", "replay_draws", "replay_weights"}, *on_demand):
            for name, values in tree[group].data_vars.items():
                others = {"target": ("problem",)} | dict.fromkeys(of_levels, ("level",))
                assert values.dims == ("chain", "draw", *others.get(name, ())), (group, name)
        for group in tree.children.values():
            names = {"problem": labelled.problem_id, "level": labelled.level_names}
            for dim, expected in names.items():
                assert dim not in group.coords or group[dim].to_numpy().tolist() == list(expected)
        assert dict(tree["posterior"].sizes) == {"chain": 2, "draw": NUTS_SAMPLING.num_samples, "level": 5}

    def test_parameters_and_likelihood_are_those_of_the_equations(self, nuts, natural, labelled) -> None:
        posterior = nuts.tree["posterior"]
        for name in NATURAL:
            expected = [np.mean(one["bias"]) if name == "bias" else one[name] for one in natural]
            values = posterior[name].to_numpy()
            np.testing.assert_allclose(values, np.array(expected).reshape(values.shape), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(posterior["share"].sum("level"), 1.0)
        tree = nuts.with_predictive().tree
        reached, drawn = (
            tree[group]["target"].to_numpy().reshape(-1, len(labelled))
            for group in ("log_likelihood", "posterior_predictive")
        )
        for question in range(0, len(labelled), 9):
            support = supports(natural, nuts, labelled, question)
            gold, expected = labelled.questions[question].gold_answer, labelled.candidates[question]
            state = expected.index(gold) if gold in expected else -1
            np.testing.assert_allclose(reached[:, question], np.log(support[:, state]), rtol=1e-10)
            assert nuts.tree["observed_data"]["target"][question] == state
            for state, p in zip((*range(len(expected)), -1), support.T, strict=True):
                gap = (drawn[:, question] == state).sum() - p.sum()
                assert abs(gap) < 4.5 * np.sqrt((p * (1 - p)).sum()) + 1

    def test_what_was_fitted_is_recorded(self, nuts: Fit, labelled: Observations) -> None:
        assert nuts.settings == FitSettings(PRESETS["bayes"], "nuts", NUTS_SAMPLING, seed=8)
        assert nuts.tree.attrs["observations_sha256"] == labelled.fingerprint
        assert {"jax", "numpyro"} <= set(json.loads(nuts.tree.attrs["versions"]))
        assert (nuts.tree["constant_data"]["weight_in_likelihood"] == 1).all()

    def test_the_prior_is_the_models(self, nuts: Fit, labelled: Observations) -> None:
        tree = nuts.with_predictive().tree
        for name, expected in {"bias": stats.norm(0, 2), "slope": stats.lognorm(0.7, scale=0.5)}.items():
            assert stats.kstest(tree["prior"][name].to_numpy().ravel(), expected.cdf).pvalue > 1e-4, name
        target = tree["prior_predictive"]["target"].to_numpy()
        assert ((target >= -1) & (target < labelled.n_candidates)).all()

    def test_its_file_has_log_likelihoods_of_four_digits_and_all_else_exactly(self, nuts: Fit, tmp_path: Path) -> None:
        """The predictive draws are made once, and follow from the stored fit."""
        made = nuts.with_predictive()
        assert made.with_predictive() is made
        nuts.save(tmp_path / "fit.nc")
        again = Fit.load(tmp_path / "fit.nc")
        exact, kept = (fit.tree["log_likelihood"]["target"].to_numpy() for fit in (nuts, again))
        np.testing.assert_allclose(kept, exact, rtol=6e-4)
        nuts.tree.to_netcdf(tmp_path / "exact.nc")
        sizes = [(tmp_path / name).stat().st_size for name in ("exact.nc", "fit.nc")]
        assert sizes[0] - sizes[1] > 0.5 * exact.nbytes
        tree = again.with_predictive().tree
        for group in set(made.tree.children) - {"log_likelihood"}:
            assert tree[group].to_dataset().equals(made.tree[group].to_dataset()), group

    def test_a_map_has_no_predictive_draws(self, point: Fit) -> None:
        with pytest.raises(DirEAGError, match="a MAP has no posterior draws; expected a NUTS fit"):
            point.with_predictive()

    def test_what_is_said_of_the_answer_that_is_selected_without_its_label(self, nuts, labelled) -> None:
        recalibration = nuts.tree["recalibration"].to_dataset()
        assert (
            recalibration["intercept"].shape
            == recalibration["slope"].shape
            == (NUTS_SAMPLING.num_chains, NUTS_SAMPLING.num_samples)
        )
        assert (recalibration.attrs["method"], recalibration.attrs["eps"]) == ("platt", 1e-6)
        assert len(np.unique(recalibration["slope"])) > 0.5 * nuts.n_samples
        loo, fitted = nuts.tree["loo"], nuts.fitted
        assert set(loo.data_vars) == {"elpd", "pareto_k", "candidate", "correct", "support", "probability"}
        right = fitted.correct_candidate[np.arange(len(fitted)), loo["candidate"]]
        assert (right == loo["correct"].to_numpy()).all()
        inside = nuts.predict(labelled.select(labelled.informative))
        apart = loo["probability"].to_numpy() - inside["probability"].to_numpy()
        assert 0 < np.abs(apart).mean() < 0.1
        assert abs(loo["probability"].mean() - loo["correct"].mean()) < 0.05


class TestPredictions:
    def test_they_are_the_printed_equations_over_the_draws(self, nuts, natural, simulated) -> None:
        table, changes = nuts.predict(simulated, interval_level=0.6), []
        spread, of_answer = ["probability_low", "probability_high", "change_probability"], ["answer", "answer_as_given"]
        others = ["support", "null_probability", "n_candidates", "n_used"]
        assert table.columns.tolist() == ["problem_id", *of_answer, "probability", *spread, *others]
        a, b = (nuts.tree["recalibration"][name].to_numpy().ravel() for name in ("intercept", "slope"))
        for question in np.flatnonzero(simulated.usable.all(axis=1))[::7].tolist():
            support, row = supports(natural, nuts, simulated, question), table.iloc[question]
            mean = support.mean(axis=0)
            best = int(mean[:-1].argmax())
            mine = support[:, best]
            probability = 1 / (1 + np.exp(-(a + b * np.log(mine / (1 - mine)))))
            assert row["answer"] == simulated.candidates[question][best]
            ends = np.quantile(probability, [0.2, 0.8])
            figures = row[["support", "probability", "probability_low", "probability_high"]].astype(float)
            np.testing.assert_allclose(figures, [mine.mean(), probability.mean(), *ends], rtol=1e-10)
            shares = {str(k): float(value) for k, value in enumerate(mean[:-1])} | {brute_force.NULL: float(mean[-1])}
            expected = brute_force.null_probability(shares, str(best), probability.mean())
            np.testing.assert_allclose(row["null_probability"], expected, rtol=1e-9, atol=1e-13)
            changes.append((support[:, :-1].argmax(axis=1) != best).mean())
            assert row["change_probability"] == pytest.approx(changes[-1])
        assert min(changes) == 0
        assert max(changes) > 0.05

    @pytest.mark.parametrize("level", [0.0, 1.0, 1.5, -0.1, float("nan")])
    def test_an_interval_has_a_probability_of_nine_tenths_unless_told(self, nuts, labelled, level) -> None:
        with pytest.raises(DirEAGError, match=r"interval level .* expected a probability between 0 and 1"):
            nuts.predict(labelled, interval_level=level)
        pd.testing.assert_frame_equal(nuts.predict(labelled), nuts.predict(labelled, interval_level=0.9))

    def test_candidates_have_intervals_over_the_draws(self, nuts: Fit, natural, simulated: Observations) -> None:
        some = simulated.select(slice(100, 120)).without(np.arange(20)[:, None] == 7)
        table = nuts.predict_candidates(some, interval_level=0.8)
        for row, (name, rows) in enumerate(table.groupby(some.question_column, sort=False)):
            answers = some.candidates[row]
            draws = supports(natural, nuts, some, row)
            expected = np.ones_like(draws)
            if answers:
                chosen = answers.index(rows["answer"].iloc[0])
                selected = nuts.calibration.of_selected(draws[:, [chosen]], some.usable[[row]].astype(int))
                expected = draws * (1 - selected) / (1 - draws[:, [chosen]])
                expected[:, [chosen]] = selected
            order = [*map(answers.index, rows["answer"].iloc[:-1]), -1]
            ends = np.quantile(expected, [0.1, 0.9], axis=0)[:, order]
            np.testing.assert_allclose(rows[["probability_low", "probability_high"]].T, ends, rtol=1e-9, err_msg=name)
            assert (rows["probability_low"] <= rows["probability"]).all()
            assert (rows["probability"] <= rows["probability_high"]).all()

    def test_an_unanswered_question(self, nuts: Fit, unlearnable: Observations) -> None:
        table = nuts.predict(unlearnable).set_index("problem_id")
        silent = table.loc["silent"]
        undefined = ["answer", "probability", "probability_low", "probability_high", "change_probability", "support"]
        assert silent[undefined].isna().all()
        assert (silent["null_probability"], silent["n_candidates"], silent["n_used"]) == (1, 0, 0)
        assert table.drop("silent").notna().all(axis=None)

    def test_parameters_are_medians_and_intervals_over_draws(self, nuts: Fit, natural) -> None:
        rows = nuts.parameters().query("parameter == 'weight'")
        weights = np.array([one["weight"] for one in natural])
        np.testing.assert_allclose(rows[["median", "low", "high"]].T, np.quantile(weights, [0.5, 0.05, 0.95], axis=0))
        share = weights / weights.sum(axis=1, keepdims=True)
        rows = nuts.parameters().query("parameter == 'share'")
        np.testing.assert_allclose(rows["median"], np.median(share, axis=0))


@pytest.mark.slow
def test_fit_nuts_draws_from_the_posterior_of_the_recorded_draws(nuts: Fit, among_others: Observations) -> None:
    """Other versions of JAX, and other machines, draw others: means and spreads are equal within their errors."""
    fresh = sampled_nuts(among_others)
    assert fresh.settings == nuts.settings
    assert fresh.tree.children.keys() == nuts.tree.children.keys()
    for group in nuts.tree.children:
        assert fresh.tree[group].to_dataset().dtypes == nuts.tree[group].to_dataset().dtypes, group
        assert fresh.tree[group].sizes == nuts.tree[group].sizes, group
    drawn = [fit.tree["unconstrained_posterior"].to_dataset() for fit in (nuts, fresh)]
    for kind, statistic in (("mean", np.mean), ("sd", np.std)):
        errors = [mcse(each, method=kind) for each in drawn]
        for name in drawn[0]:
            one, other = (statistic(each[name].to_numpy(), axis=(0, 1)) for each in drawn)
            spread = np.sqrt(sum(error[name].to_numpy() ** 2 for error in errors))
            assert (np.abs(one - other) < 5 * spread).all(), name


@pytest.mark.slow
def test_nuts_fit_follows_from_its_seed_or_its_draws(labelled: Observations) -> None:
    fits = [fit_nuts(labelled, **TINY_SAMPLING.model_dump(), seed=seed).with_predictive() for seed in (1, 1, 2)]
    assert fits[0].tree.equals(fits[1].tree)
    for group, name in (
        ("posterior", "weight"),
        ("prior", "weight"),
        ("prior_predictive", "target"),
        ("posterior_predictive", "target"),
        ("recalibration", "slope"),
    ):
        assert (fits[0].tree[group][name] != fits[2].tree[group][name]).any()
    unconstrained = arrays(fits[0].tree["unconstrained_posterior"])
    again = fit_draws(unconstrained, labelled, sampling=TINY_SAMPLING, seed=1).with_predictive().tree
    assert np.isnan(again["sample_stats"]["energy"]).all()
    for group in set(again.children) - {"sample_stats"}:
        assert again[group].to_dataset().identical(fits[0].tree[group].to_dataset()), group


@pytest.mark.slow
def test_release_has_a_posterior_within_its_bounds_where_questions_weigh_unequally(labelled: Observations) -> None:
    fit = fit_nuts(labelled, preset=PRESETS["release"], **TINY_SAMPLING.model_dump())
    assert fit.preset.is_weighted
    unconstrained = arrays(fit.tree["unconstrained_posterior"])
    bounds = {"weight_base": (-5, 3), "bias": (-5, 5), "slope": (-2, 2)}
    assert len(unconstrained) == 6
    for name, values in unconstrained.items():
        low, high = bounds.get(name, (-8, 3))
        assert ((values > low) & (values < high)).all()
    weight = fit.tree["constant_data"]["weight_in_likelihood"].to_numpy()
    assert len(set(weight)) == 2
    priors = brute_force.log_priors(unconstrained, "release", weight.sum())
    prior = sum(terms.reshape(*terms.shape[:2], -1).sum(axis=2) for terms in priors.values())
    expected = (fit.tree["log_likelihood"]["target"] * weight).sum("problem") + prior
    np.testing.assert_allclose(fit.tree["sample_stats"]["lp"], expected, rtol=1e-10)
    assert fit.recalibration.method == "platt"


class TestFromDraws:
    def test_a_tree_of_arviz_and_without_a_final_calibration_probability_is_support(self, nuts, labelled) -> None:
        few = nuts.tree.isel(draw=slice(25))
        unconstrained = few["unconstrained_posterior"].to_dataset()
        turned = xr.Dataset({name: values.transpose(..., "draw", "chain") for name, values in unconstrained.items()})
        made = xr.DataTree.from_dict({"posterior": turned, "sample_stats": few["sample_stats"].to_dataset()})
        expected = fit_draws(arrays(few["unconstrained_posterior"]), labelled)
        assert expected.settings.sampling.num_samples == 25
        for tree in (made, few):
            again = fit_draws(tree, labelled)
            pd.testing.assert_frame_equal(again.predict(labelled), expected.predict(labelled))
            for name, values in few["sample_stats"].data_vars.items():
                np.testing.assert_allclose(again.tree["sample_stats"][name], values, rtol=1e-10)
        plain = presets.preset("bayes", recalibration={"method": "none"})
        table = fit_draws(few, labelled, preset=plain).predict(labelled)
        np.testing.assert_allclose(table["probability"], table["support"], rtol=1e-12)

    @pytest.mark.parametrize("draws", [xr.DataTree(), {"bias": np.zeros((2, 30))}])
    def test_a_missing_site_is_named(self, labelled: Observations, draws) -> None:
        message = "there is no site 'weight_centre'; expected weight_centre, weight_agreement, vote_centre"
        with pytest.raises(DirEAGError, match=message):
            fit_draws(draws, labelled)

    @pytest.mark.parametrize("shape", [(), (30,), (2, 30), (2, 30, 4), (1, 30, 5), (2, 30, 5, 1)])
    def test_a_site_of_another_shape_is_named(self, nuts: Fit, labelled: Observations, shape: tuple[int, ...]) -> None:
        unconstrained = arrays(nuts.tree["unconstrained_posterior"])
        sites = {name: np.zeros((2, 30, *values.shape[2:])) for name, values in unconstrained.items()}
        message = rf"site 'vote_decentered' has shape {re.escape(str(shape))}; expected \('chain', 'draw', 5\)"
        with pytest.raises(DirEAGError, match=message):
            fit_draws(sites | {"vote_decentered": np.zeros(shape)}, labelled)

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_draws_that_are_not_finite_are_named(self, nuts: Fit, labelled: Observations, value: float) -> None:
        sites = {name: np.array(values) for name, values in arrays(nuts.tree["unconstrained_posterior"]).items()}
        sites["vote_decentered"][1, 3:] = value
        with pytest.raises(DirEAGError, match=r"draws: \d+ of \d+ values of site 'vote_decentered' are NaN"):
            fit_draws(sites, labelled)
