"""A whole NUTS fit: what its container holds, what it leaves out, and what it predicts."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map, fit_nuts
from bayes_direag.model import presets
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import SamplingSettings
from tests.bayes_direag import brute_force
from tests.made_fits import NUTS_SAMPLING

N_CHAINS, N_DRAWS = NUTS_SAMPLING.n_chains, NUTS_SAMPLING.n_draws
NATURAL = ("weight", "bias", "slope", "null_base", "sharpness", "vote")
TINY = SamplingSettings(n_chains=2, n_warmup=20, n_draws=25, target_accept=0.9)


def natural(fit: Fit) -> list[dict[str, object]]:
    """Return the natural parameters of every draw, worked out again from the raw ones."""
    values = {str(name): own.to_numpy() for name, own in fit.tree["unconstrained_posterior"].to_dataset().items()}
    raw = {name: value.reshape(-1, *value.shape[2:]) for name, value in values.items()}
    agreement = fit.tree["constant_data"]["agreement_score"].to_numpy()
    return [
        brute_force.natural({name: value[sample] for name, value in raw.items()}, "bayes", agreement)
        for sample in range(fit.n_samples)
    ]


def supports(fit: Fit, observations: Observations, question: int) -> np.ndarray:
    """Return one question's support by (sample, state), the null last, by the equations in plain Python."""
    own = brute_force.reports_of(observations, question)
    states = (*observations.candidates[question], brute_force.NULL)
    each = [brute_force.support(brute_force.scores(own, one, fit.preset.eps)) for one in natural(fit)]
    return np.array([[one[state] for state in states] for one in each])


class TestContainer:
    def test_groups_have_named_dimensions(self, nuts: Fit, labelled: Observations) -> None:
        drawn = ("prior_predictive", "posterior_predictive")
        tree = nuts.with_predictive().tree
        assert set(tree.children) - set(nuts.tree.children) == {"prior", *drawn}
        assert set(nuts.tree.children) == {
            *("posterior", "unconstrained_posterior", "sample_stats", "log_likelihood"),
            *("constant_data", "observed_data", "labels", "log_prior", "loo", "recalibration"),
        }
        for group in (*drawn, "log_likelihood"):
            assert tree[group]["target"].dims == ("chain", "draw", "problem")
        assert tree["observed_data"]["target"].dims == ("problem",)
        for name, group in tree.children.items():
            if "problem" in group.coords:
                assert group["problem"].to_numpy().tolist() == list(labelled.problem_id), name

    def test_parameters_have_level_names(self, nuts: Fit, labelled: Observations) -> None:
        tree = nuts.with_predictive().tree
        shared = {"weight_centre", "weight_agreement", "vote_centre", "vote_agreement"}
        assert set(tree["posterior"].data_vars) == set(tree["prior"].data_vars) == {*NATURAL, *shared, "share"}
        assert set(tree["log_prior"].data_vars) == set(tree["unconstrained_posterior"].data_vars)
        of_levels = {"weight", "vote", "share", "weight_base_decentered", "vote_decentered"}
        for group in ("posterior", "prior", "log_prior", "unconstrained_posterior"):
            assert tree[group]["level"].to_numpy().tolist() == list(labelled.level_names)
            for name, values in tree[group].data_vars.items():
                assert values.dims == ("chain", "draw", *(("level",) if name in of_levels else ()))
        assert dict(tree["posterior"].sizes) == {"chain": N_CHAINS, "draw": N_DRAWS, "level": 5}
        assert tree["prior"].sizes["chain"] == 1

    def test_natural_parameters_are_those_of_the_equations(self, nuts: Fit) -> None:
        draws, posterior = natural(nuts), nuts.tree["posterior"]
        for name in NATURAL:
            own = [np.mean(one["bias"]) if name == "bias" else one[name] for one in draws]
            found = posterior[name].to_numpy()
            np.testing.assert_allclose(found, np.array(own).reshape(found.shape), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(posterior["share"].sum("level"), 1.0)

    def test_log_likelihood_is_the_log_support_of_what_came_true(self, nuts: Fit, labelled: Observations) -> None:
        found = nuts.tree["log_likelihood"]["target"].to_numpy().reshape(-1, len(labelled))
        for question in range(0, len(labelled), 9):
            support = supports(nuts, labelled, question)
            gold, own = labelled.questions[question].gold_answer, labelled.candidates[question]
            state = own.index(gold) if gold in own else -1
            np.testing.assert_allclose(found[:, question], np.log(support[:, state]), rtol=1e-10)
            assert nuts.tree["observed_data"]["target"][question] == state

    def test_what_was_fitted_is_recorded(self, nuts: Fit, labelled: Observations) -> None:
        attributes = nuts.tree.attrs
        assert (attributes["method"], attributes["seed"]) == ("nuts", 8)
        assert SamplingSettings.model_validate_json(attributes["sampling"]) == NUTS_SAMPLING
        assert nuts.preset == PRESETS["bayes"]
        assert attributes["observations_sha256"] == labelled.fingerprint
        assert {"jax", "numpyro"} <= set(json.loads(attributes["versions"]))
        assert (nuts.tree["constant_data"]["weight_in_likelihood"] == 1).all()

    def test_the_prior_is_the_models(self, nuts: Fit) -> None:
        prior = nuts.with_predictive().tree["prior"].to_dataset()
        for name, expected in (
            ("bias", stats.norm(0, 2)),
            ("slope", stats.lognorm(0.7, scale=0.5)),
            ("sharpness", stats.lognorm(0.5)),
            ("weight_centre", stats.norm(2, 1.5)),
            ("vote_agreement", stats.norm(0.15, 0.2)),
        ):
            assert stats.kstest(prior[name].to_numpy().ravel(), expected.cdf).pvalue > 1e-4, name

    def test_predictive_frequencies_are_the_mean_support(self, nuts: Fit, labelled: Observations) -> None:
        tree = nuts.with_predictive().tree
        drawn = tree["posterior_predictive"]["target"].to_numpy().reshape(-1, len(labelled))
        assert len(drawn) == nuts.n_samples
        for question in range(0, len(labelled), 9):
            support = supports(nuts, labelled, question)
            for state, probability in zip((*range(support.shape[1] - 1), -1), support.T, strict=True):
                gap = (drawn[:, question] == state).sum() - probability.sum()
                assert abs(gap) < 4.5 * np.sqrt((probability * (1 - probability)).sum()) + 1
        n_candidates = labelled.n_candidates
        for group in ("prior_predictive", "posterior_predictive"):
            target = tree[group]["target"].to_numpy().reshape(-1, len(labelled))
            assert (target >= -1).all()
            assert (target < n_candidates).all()

    def test_predictive_draws_are_made_once_and_follow_from_the_stored_fit(self, nuts: Fit, tmp_path: Path) -> None:
        made = nuts.with_predictive()
        assert made.with_predictive() is made
        nuts.save(tmp_path / "fit.nc")
        again = Fit.load(tmp_path / "fit.nc").with_predictive()
        for group in ("prior", "prior_predictive", "posterior_predictive"):
            assert again.tree[group].to_dataset().equals(made.tree[group].to_dataset()), group

    def test_a_stored_fit_has_log_likelihoods_of_four_digits_and_all_else_exactly(
        self, nuts: Fit, tmp_path: Path
    ) -> None:
        nuts.save(tmp_path / "fit.nc")
        again = Fit.load(tmp_path / "fit.nc").tree
        exact, kept = (tree["log_likelihood"]["target"].to_numpy() for tree in (nuts.tree, again))
        np.testing.assert_allclose(kept, exact, rtol=6e-4)
        nuts.tree.to_netcdf(tmp_path / "exact.nc")
        sizes = [(tmp_path / name).stat().st_size for name in ("exact.nc", "fit.nc")]
        assert sizes[0] - sizes[1] > 0.5 * exact.nbytes
        for group in set(nuts.tree.children) - {"log_likelihood"}:
            assert again[group].to_dataset().equals(nuts.tree[group].to_dataset()), group

    def test_a_map_has_no_predictive_draws(self, labelled: Observations) -> None:
        with pytest.raises(DirEAGError, match="a MAP has no posterior draws; expected a NUTS fit"):
            fit_map(labelled).with_predictive()

    def test_a_recalibration_for_every_draw(self, nuts: Fit) -> None:
        found = nuts.tree["recalibration"].to_dataset()
        assert found["intercept"].shape == found["slope"].shape == (N_CHAINS, N_DRAWS)
        assert (found.attrs["method"], found.attrs["eps"]) == ("platt", 1e-6)
        assert len(np.unique(found["slope"])) > 0.5 * nuts.n_samples

    def test_what_the_group_loo_says_of_the_selected_answer(self, nuts: Fit, labelled: Observations) -> None:
        loo, fitted = nuts.tree["loo"], nuts.fitted
        assert set(loo.data_vars) == {"elpd", "pareto_k", "candidate", "correct", "support", "probability"}
        question = np.arange(len(fitted))
        assert (fitted.correct_candidate[question, loo["candidate"]] == loo["correct"].to_numpy()).all()
        inside = nuts.predict(labelled.select(labelled.labelled & labelled.answered))
        apart = loo["probability"].to_numpy() - inside["probability"].to_numpy()
        assert 0 < np.abs(apart).mean() < 0.1
        assert abs(loo["probability"].mean() - loo["correct"].mean()) < 0.05


class TestPredictions:
    LEVEL = 0.6

    @pytest.fixture
    def table(self, nuts: Fit, simulated: Observations) -> pd.DataFrame:
        return nuts.predict(simulated, interval_level=self.LEVEL)

    def test_they_are_the_printed_equations_over_the_draws(
        self, nuts: Fit, simulated: Observations, table: pd.DataFrame
    ) -> None:
        final = nuts.tree["recalibration"].to_dataset()
        a, b = (final[name].to_numpy().ravel() for name in ("intercept", "slope"))
        changes = []
        for question in range(0, len(simulated), 11):
            support, row = supports(nuts, simulated, question), table.iloc[question]
            mean = support.mean(axis=0)
            best = int(mean[:-1].argmax())
            mine = support[:, best]
            probability = 1 / (1 + np.exp(-(a + b * np.log(mine / (1 - mine)))))
            assert row["answer"] == simulated.candidates[question][best]
            np.testing.assert_allclose(row["support"], mine.mean(), rtol=1e-10)
            np.testing.assert_allclose(row["probability"], probability.mean(), rtol=1e-10)
            shares = {str(k): float(value) for k, value in enumerate(mean[:-1])} | {brute_force.NULL: float(mean[-1])}
            expected = brute_force.null_probability(shares, str(best), probability.mean())
            np.testing.assert_allclose(row["null_probability"], expected, rtol=1e-9, atol=1e-13)
            ends = np.quantile(probability, [0.2, 0.8])
            np.testing.assert_allclose(row[["probability_low", "probability_high"]].astype(float), ends, rtol=1e-10)
            changes.append((support[:, :-1].argmax(axis=1) != best).mean())
            assert row["change_probability"] == pytest.approx(changes[-1])
        assert max(changes) > 0.05
        assert min(changes) == 0

    @pytest.mark.parametrize("level", [0.0, 1.0, 1.5, -0.1, float("nan")])
    def test_a_level_is_a_probability(self, nuts: Fit, labelled: Observations, level: float) -> None:
        with pytest.raises(DirEAGError, match=r"interval level .* expected a probability between 0 and 1"):
            nuts.predict(labelled, interval_level=level)

    def test_an_interval_has_a_probability_of_nine_tenths_unless_told(self, nuts: Fit, labelled: Observations) -> None:
        pd.testing.assert_frame_equal(nuts.predict(labelled), nuts.predict(labelled, interval_level=0.9))

    def test_an_unanswered_question(self, nuts: Fit, unlearnable: Observations) -> None:
        table = nuts.predict(unlearnable).set_index("problem_id")
        silent = table.loc["silent"]
        undefined = ["answer", "probability", "probability_low", "probability_high", "change_probability", "support"]
        assert silent[undefined].isna().all()
        assert (silent["null_probability"], silent["n_candidates"], silent["n_used"]) == (1, 0, 0)
        assert table.drop("silent").notna().all(axis=None)

    def test_the_columns(self, nuts: Fit, labelled: Observations) -> None:
        spread = ["probability_low", "probability_high", "change_probability"]
        few = [
            "problem_id",
            "answer",
            "answer_as_given",
            "probability",
            "support",
            "null_probability",
            "n_candidates",
            "n_used",
            "few_reports",
        ]
        assert nuts.predict(labelled).columns.tolist() == [*few[:4], *spread, *few[4:]]

    def test_parameters_are_medians_and_intervals_over_draws(self, nuts: Fit) -> None:
        table = nuts.parameters()
        draws = natural(nuts)
        rows = table[table["parameter"] == "weight"]
        weights = np.array([one["weight"] for one in draws])
        ends = np.quantile(weights, [0.5, 0.05, 0.95], axis=0)
        np.testing.assert_allclose(rows[["median", "low", "high"]].T, ends)
        np.testing.assert_allclose(rows["relative"], np.median(weights / weights.sum(axis=1, keepdims=True), axis=0))


class TestRuns:
    @pytest.mark.slow
    def test_equal_seeds_and_equal_draws_give_equal_fits(self, labelled: Observations) -> None:
        fits = [fit_nuts(labelled, sampling=TINY, seed=seed).with_predictive() for seed in (1, 1, 2)]
        assert fits[0].tree.equals(fits[1].tree)
        for group, name in (
            ("posterior", "weight"),
            ("prior", "weight"),
            ("prior_predictive", "target"),
            ("posterior_predictive", "target"),
            ("recalibration", "slope"),
        ):
            assert (fits[0].tree[group][name] != fits[2].tree[group][name]).any()
        raw = {str(name): values.to_numpy() for name, values in fits[0].tree["unconstrained_posterior"].items()}
        again = Fit.from_draws(raw, labelled, sampling=TINY, seed=1).with_predictive().tree
        assert np.isnan(again["sample_stats"]["energy"]).all()
        for group in set(again.children) - {"sample_stats"}:
            assert again[group].to_dataset().identical(fits[0].tree[group].to_dataset()), group

    def test_release_has_a_posterior_within_its_bounds_where_questions_weigh_unequally(
        self, labelled: Observations
    ) -> None:
        fit = fit_nuts(labelled, preset="release", sampling=NUTS_SAMPLING)
        assert fit.preset.is_weighted
        raw = {str(name): own.to_numpy() for name, own in fit.tree["unconstrained_posterior"].to_dataset().items()}
        for name, (low, high) in {"weight_base": (-5, 3), "bias": (-5, 5), "slope": (-2, 2)}.items():
            assert ((raw[name] > low) & (raw[name] < high)).all()
        weight = fit.tree["constant_data"]["weight_in_likelihood"].to_numpy()
        assert len(set(weight)) == 2
        priors = brute_force.log_priors(raw, "release", weight.sum())
        prior = sum(own.reshape(N_CHAINS, N_DRAWS, -1).sum(axis=2) for own in priors.values())
        expected = (fit.tree["log_likelihood"]["target"] * weight).sum("problem") + prior
        np.testing.assert_allclose(fit.tree["sample_stats"]["lp"], expected, rtol=1e-10)
        assert fit.recalibration.method == "platt"

    def test_without_a_final_calibration_probability_is_support(self, labelled: Observations) -> None:
        plain = presets.preset("bayes", recalibration={"method": "none"})
        fit = fit_nuts(labelled, preset=plain, sampling=TINY)
        table = fit.predict(labelled)
        np.testing.assert_allclose(table["probability"], table["support"], rtol=1e-12)
        assert fit.tree["recalibration"]["slope"].shape == (2, 25)


class TestFromDraws:
    def test_a_tree_of_arviz(self, nuts: Fit, labelled: Observations) -> None:
        raw = nuts.tree["unconstrained_posterior"].to_dataset()
        turned = xr.Dataset({name: values.transpose(..., "draw", "chain") for name, values in raw.items()})
        made = xr.DataTree.from_dict({"posterior": turned, "sample_stats": nuts.tree["sample_stats"].to_dataset()})
        expected = Fit.from_draws({str(name): values.to_numpy() for name, values in raw.items()}, labelled)
        for tree in (made, nuts.tree):
            again = Fit.from_draws(tree, labelled)
            pd.testing.assert_frame_equal(again.predict(labelled), expected.predict(labelled))
            for name in ("diverging", "energy", "step_size", "n_steps", "tree_depth", "acceptance_rate", "lp"):
                np.testing.assert_allclose(
                    again.tree["sample_stats"][name], nuts.tree["sample_stats"][name], rtol=1e-10
                )
        with pytest.raises(DirEAGError, match="there is no site 'weight_centre'"):
            Fit.from_draws(xr.DataTree(), labelled)

    def test_a_missing_site_is_named(self, labelled: Observations) -> None:
        message = "there is no site 'weight_centre'; expected weight_centre, weight_agreement, vote_centre"
        with pytest.raises(DirEAGError, match=message):
            Fit.from_draws({"bias": np.zeros((2, 30))}, labelled)

    @pytest.mark.parametrize("shape", [(), (30,), (2, 30), (2, 30, 4), (1, 30, 5), (2, 30, 5, 1)])
    def test_a_site_of_another_shape_is_named(self, nuts: Fit, labelled: Observations, shape: tuple[int, ...]) -> None:
        raw = nuts.tree["unconstrained_posterior"].to_dataset()
        sites = {str(name): np.zeros((2, 30, *values.shape[2:])) for name, values in raw.items()}
        message = rf"site 'vote_decentered' has shape {re.escape(str(shape))}; expected \('chain', 'draw', 5\)"
        with pytest.raises(DirEAGError, match=message):
            Fit.from_draws(sites | {"vote_decentered": np.zeros(shape)}, labelled)
