"""The whole diagnosis: faults put in by hand are found, and said so in plain words."""

from collections.abc import Callable

import numpy as np
import pytest

from analysis.diagnosis.diagnosis_figures import pairs_figure
from analysis.diagnosis.diagnostics import Diagnosis, diagnose
from analysis.diagnosis.verdict import Finding
from analysis.display.folders import jsonable
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.convergence import sampler_summary
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import preset as named_preset
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import (
    APART,
    CENTRE,
    Draws,
    gaussian_draws,
    good_fit,
    made_fit,
    made_posterior,
    natural,
    replaced,
)

OBSERVATIONS = simulate_observations(60, seed=8)


def findings(diagnosis: Diagnosis, topic: str) -> list[Finding]:
    return [finding for finding in diagnosis.verdict if finding.topic == topic]


def statuses(diagnosis: Diagnosis) -> dict[str, str]:
    return {finding.topic: finding.status for finding in diagnosis.verdict}


def faulty(fault: Callable[[Draws], None], **statistics: np.ndarray) -> Diagnosis:
    raw = gaussian_draws(8, spread=0.1)
    fault(raw)
    return diagnose(made_posterior(OBSERVATIONS, raw, statistics=statistics))


def nothing(_: Draws) -> None:
    pass


def stick(raw: Draws) -> None:
    for values in raw.values():
        values[1] = values[1, 0]


def separate(raw: Draws) -> None:
    raw["bias"][2:, :, 1] += 5


def break_one(raw: Draws) -> None:
    raw["slope"][0, 5] = np.nan


def slow(raw: Draws) -> None:
    raw["null_gain"] = raw["null_gain"].copy()
    raw["null_gain"][:] = -1.9 + 0.02 * np.random.default_rng(0).standard_normal((4, 250)).cumsum(axis=1)


class TestAGoodFit:
    @pytest.fixture(scope="class")
    @staticmethod
    def found() -> Diagnosis:
        return diagnose(good_fit())

    def test_it_is_believed(self, found):
        assert found.believable
        assert set(statuses(found).values()) == {"fine"}

    def test_the_verdict_states_figures(self, found):
        largest = found.parameters["rhat"].max()
        assert findings(found, "R-hat")[0].text == f"The chains agree: R-hat is at most {largest:.3f} (below 1.01)."
        assert findings(found, "divergences")[0].text == "None of the 1000 draws diverged."
        assert "no Pareto k of 120 exceeds 0.7" in findings(found, "leave-one-out")[0].text
        assert [finding.text.partition("(")[0] for finding in findings(found, "calibration")] == [
            "Selected answers are right as often as their support says ",
            "Selected answers are right as often as their confidence says ",
        ]

    def test_the_parameters_are_the_sampled_ones_and_the_recalibration(self, found):
        table = found.parameters
        assert len(table) == 27
        terms = [f"recalibration_{name}" for name in ("intercept", "slope")]
        assert table["parameter"].tolist()[-3:] == ["vote_spread", *terms]
        assert set(table["parameter"][:-2]) == set(CENTRE)
        assert table.notna().drop(columns="level").all().all()

    def test_what_is_constant_by_definition_is_left_out(self):
        settings = named_preset("bayes").override(recalibration={"method": "none"}, slope={"fixed": 1.6})
        raw = gaussian_draws(8, spread=0.1)
        del raw["slope"]
        found = diagnose(made_posterior(OBSERVATIONS, raw, preset=settings))
        assert set(found.parameters["parameter"]) == set(CENTRE) - {"slope"}
        assert list(found.calibration) == ["support"]
        assert found.believable

    def test_the_interval_level_and_the_seed(self):
        wide, narrow = (diagnose(good_fit(), interval_level=level) for level in (0.98, 0.5))
        widths = [(one.predictive.table["high"] - one.predictive.table["low"]).mean() for one in (wide, narrow)]
        assert widths[0] > 2 * widths[1]
        bins = [one.calibration["support"].reliability.bins for one in (wide, narrow)]
        assert (bins[0]["right_high"] > bins[1]["right_high"]).any()
        again = diagnose(good_fit(), interval_level=0.5)
        assert again.calibration["support"].tail_probability == narrow.calibration["support"].tail_probability


def test_a_fit_without_questions_is_refused():
    tree = good_fit().tree.copy()
    tree["constant_data"] = tree["constant_data"].to_dataset().isel(problem=slice(0, 0))
    with pytest.raises(DirEAGError, match="learned from no labelled question of its own"):
        diagnose(Fit(tree))


class TestFaults:
    def test_a_stuck_chain(self):
        found = faulty(stick)
        assert not found.believable
        assert statuses(found)["R-hat"] == "failure"
        assert "--warmup 2000 --draws 1000" in findings(found, "R-hat")[0].text

    def test_chains_in_different_places(self):
        found = faulty(separate)
        assert not found.believable
        text = findings(found, "R-hat")[0].text
        assert text.startswith("The chains do not agree on 1 of 27 parameters: R-hat of bias[cautious] is ")
        assert "--preset" not in text, "levels are pooled already"

    def test_a_draw_that_is_not_a_number(self):
        found = faulty(break_one)
        assert not found.believable
        assert "R-hat of slope is undefined" in findings(found, "R-hat")[0].text
        assert "undefined number of slope" in findings(found, "draws")[0].text
        assert {"flat direction", "calibration"} <= {f.topic for f in found.verdict if f.status == "warning"}

    def test_too_few_effective_draws(self):
        found = faulty(slow)
        assert not found.believable
        text = findings(found, "draws")[0].text
        smallest = found.parameters[["ess_bulk", "ess_tail"]].min().min()
        assert f"{smallest:.0f} of null_gain" in text
        assert "--draws 2500" in text

    def test_divergences(self):
        diverging = np.zeros((4, 250), bool)
        diverging[3, [5, 9]] = True
        found = faulty(nothing, diverging=diverging)
        assert not found.believable
        assert [topic for topic, status in statuses(found).items() if status == "failure"] == ["divergences"]
        text = findings(found, "divergences")[0].text
        assert text.startswith("2 of 1000 draws diverged (none expected)")
        assert "--target-accept 0.99" in text

    def test_divergences_at_a_high_acceptance_ask_for_something_else(self):
        diverging = np.ones((4, 250), bool)
        fit = made_posterior(OBSERVATIONS, gaussian_draws(8, spread=0.1), statistics={"diverging": diverging})
        fit.tree.attrs["sampling"] = fit.tree.attrs["sampling"].replace('"target_accept":0.9', '"target_accept":0.995')
        text = findings(diagnose(fit), "divergences")[0].text
        assert "target-accept" not in text
        assert text.endswith("Fit again with more labelled questions.")

    @pytest.mark.parametrize("still", [False, True], ids=["slow", "constant"])
    def test_an_energy_that_hardly_moves(self, still):
        energy = np.random.default_rng(0).standard_normal((4, 250))
        energy[2] = 7.0 if still else np.linspace(-3, 3, 250)
        found = faulty(nothing, energy=energy)
        assert not found.believable
        assert "in chain 2:" in findings(found, "energy")[0].text

    def test_draws_without_the_statistics_of_a_sampler(self):
        unknown = dict.fromkeys(("diverging", "energy", "tree_depth", "acceptance_rate"), np.full((4, 250), np.nan))
        fit = made_posterior(OBSERVATIONS, gaussian_draws(8, spread=0.1), statistics=unknown)
        found = diagnose(fit)
        assert not found.believable
        assert [topic for topic, status in statuses(found).items() if status == "failure"] == ["divergences", "energy"]
        assert "is not recorded" in findings(found, "divergences")[0].text
        assert "BFMI is undefined" in findings(found, "energy")[0].text
        assert np.isnan(sampler_summary(fit).divergences)
        assert "not recorded" in pairs_figure(found).get_supxlabel()

    def test_a_single_chain_of_another_sampler(self):
        fit = made_posterior(OBSERVATIONS, gaussian_draws(8, spread=0.1, n_chains=1))
        fit.tree.attrs["sampling"] = '{"n_chains": 1, "n_warmup": 0, "n_draws": 250, "target_accept": 0.9}'
        found = diagnose(fit)
        assert statuses(found)["R-hat"] == "failure"
        assert "--warmup 1000" in findings(found, "R-hat")[0].text

    def test_trajectories_cut_short_are_a_warning(self):
        depth = np.full((4, 250), 5)
        depth[0, :10] = 10
        found = faulty(nothing, tree_depth=depth)
        assert found.believable
        assert findings(found, "tree depth")[0].status == "warning"
        assert findings(found, "tree depth")[0].text.startswith("1.0% of the trajectories")

    def test_heavy_pareto_tails(self):
        k = np.full(120, 0.2)
        k[[3, 40, 41]] = 0.8, 1.3, np.nan
        fit = replaced(good_fit(), "loo", pareto_k=k)
        found = diagnose(fit)
        names = fit.tree["loo"]["problem"].to_numpy()
        text = findings(found, "leave-one-out")[0].text
        assert found.believable
        assert text.startswith(
            f"Pareto k exceeds 0.7 for 3 of 120 questions (1 of them undefined), first of all {names[41]}"
        )
        assert names[40] in text
        assert found.pareto["n"].tolist() == [117, 0, 1, 1, 1]

    def test_labels_that_the_model_does_not_explain(self):
        fit = good_fit()
        mixed = np.random.default_rng(0).permutation(fit.tree["labels"]["correct"].to_numpy())
        selected = mixed[np.arange(120), fit.tree["loo"]["candidate"].to_numpy()]
        found = diagnose(replaced(replaced(fit, "labels", correct=mixed), "loo", correct=selected))
        assert found.believable, "bad predictions are no fault of the sampling"
        assert "The labels are not as the model predicts them" in findings(found, "predictive")[0].text
        assert all(finding.status == "warning" for finding in findings(found, "calibration"))
        assert "use confidence" in findings(found, "calibration")[0].text
        assert "direag evaluate" in findings(found, "calibration")[1].text

    def test_the_final_calibration_may_mend_what_support_says(self):
        found = diagnose(good_fit(n=300, calibrated=(-1.5, 1.0)))
        assert [finding.status for finding in findings(found, "calibration")] == ["fine", "warning"]
        assert findings(found, "calibration")[1].text.startswith("Confidence is too low")


class TestLearning:
    def test_a_parameter_that_nothing_was_learned_of(self):
        raw = gaussian_draws(8, spread=0.05)
        raw["null_base"] = 2 * np.random.default_rng(1).standard_normal((4, 250))
        found = diagnose(made_posterior(OBSERVATIONS, raw))
        assert findings(found, "learning")[0].status == "warning"
        assert "next to nothing about null_base (contraction below 0.1)" in findings(found, "learning")[0].text
        flat = findings(found, "flat direction")[0].text
        assert flat.startswith("The labels constrain least: null_base up. There 97% of the prior's variance is left")
        assert found.believable

    def test_a_posterior_far_out_in_its_prior(self):
        raw = gaussian_draws(8, spread=0.1)
        raw["bias_centre"] -= 6
        found = diagnose(made_posterior(OBSERVATIONS, raw))
        (finding,) = findings(found, "prior")
        assert finding.status == "warning"
        assert finding.text.startswith("The posterior of bias_centre lies more than 3 prior standard deviations")

    def test_the_scale_under_a_penalty(self):
        step = np.random.default_rng(2).standard_normal((4, 250))
        raw = gaussian_draws(8, spread=0.02, centre=APART)
        raw["weight"] = 6 + 2 * step[:, :, None] + 0.02 * raw["weight"]
        raw["prior_strength"] = 6 + 2 * step
        fit = made_posterior(OBSERVATIONS, raw, preset="paper")
        found = diagnose(fit)
        (finding,) = findings(found, "scale")
        assert finding.status == "warning"
        assert "Nothing but the prior holds the common scale" in finding.text
        assert "0.0 nats" in finding.text
        assert "of which below" in findings(found, "flat direction")[0].text
        assert "weight of every level up, prior_strength up" in findings(found, "flat direction")[0].text


class TestWeightedLikelihood:
    def test_it_is_said_first_and_what_has_no_meaning_is_not_judged(self):
        settings = named_preset("bayes").override(null_target_weight=2.0)
        found = diagnose(made_posterior(OBSERVATIONS, gaussian_draws(8, spread=0.1), preset=settings))
        assert found.is_weighted
        assert found.verdict[0].topic == "likelihood"
        assert "not a probability model" in found.verdict[0].text
        assert not {"predictive", "calibration", "leave-one-out"} & set(statuses(found))
        assert found.believable


class TestSeveralRightAnswers:
    def test_they_are_counted_and_said(self):
        fit = good_fit(n=600)
        right = fit.tree["labels"]["correct"].to_numpy().copy()
        several = (fit.tree["constant_data"]["n_candidates"].to_numpy() > 2) & right.any(axis=1)
        right[several, :2] = True
        selected = right[np.arange(600), fit.tree["loo"]["candidate"].to_numpy()]
        found = diagnose(replaced(replaced(fit, "labels", correct=right), "loo", correct=selected))
        assert found.n_several_correct == several.sum() > 20
        text = findings(found, "calibration")[0].text
        assert text.startswith("Support is too low")
        assert f"In {several.sum()} questions several answers are right" in text


class TestErrors:
    def test_a_map_has_no_diagnostics(self):
        fit = made_fit(OBSERVATIONS, natural(5))
        with pytest.raises(DirEAGError, match=r"a MAP, a single draw, .*; expected a NUTS fit\. .*--method nuts"):
            diagnose(fit)

    @pytest.mark.parametrize("level", [0.0, 1.0, 90.0])
    def test_a_level_out_of_range(self, level):
        with pytest.raises(DirEAGError, match="expected a probability between 0 and 1"):
            diagnose(good_fit(), interval_level=level)

    def test_the_fit_is_left_as_it_was(self):
        fit: Fit = good_fit()
        before = fit.tree.copy(deep=True)
        diagnose(fit)
        assert fit.tree.identical(before)


class TestRecord:
    def test_it_holds_everything(self):
        fit = good_fit()
        found = diagnose(fit)
        record = jsonable(found.record)
        assert record["believable"] is True
        assert [row["text"] for row in record["verdict"]] == [finding.text for finding in found.verdict]
        assert len(record["parameters"]) == 27
        assert record["parameters"][0]["level"] == "very_cautious"
        assert record["parameters"][-1]["level"] is None
        assert record["parameters"][3]["rhat"] == found.parameters["rhat"].iloc[3]
        assert len(record["correlations"]) == 25 * 24 / 2
        assert record["flat"]["variance_left"] == found.flat.variance_left
        assert len(record["flat"]["loadings"]) == 25
        assert record["scale"]["fixed"] is True
        assert record["predictive"]["tail_probability"] == found.predictive.tail_probability
        assert record["calibration"]["support"]["reliability"]["n"] == 120
        assert record["loo"]["n"] == 120
        assert record["sampling"]["n_draws"] == 250
        assert record["fit"]["preset"]["name"] == "bayes"
        assert record["interval_level"] == 0.9
        assert record["seed"] == 0

    def test_what_is_undefined_is_null(self):
        raw = gaussian_draws(1)
        raw["slope"][0, 0] = np.nan
        fit = made_posterior(simulate_observations(30, seed=1), raw)
        record = jsonable(diagnose(fit).record)
        (slope,) = [row for row in record["parameters"] if row["parameter"] == "slope"]
        assert slope["rhat"] is None
        assert record["flat"]["variance_left"] is None
        assert record["believable"] is False
