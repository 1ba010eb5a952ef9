"""The words of the verdict, one finding at a time; whole diagnoses are in test_diagnostics."""

import numpy as np
import pandas as pd
import pytest

from analysis.diagnosis.checks import CalibrationCheck, PredictiveChecks, calibration_check
from analysis.diagnosis.identifiability import FlatDirection
from analysis.diagnosis.verdict import (
    calibration_finding,
    direction_in_words,
    learning_findings,
    parameter_labels,
    predictive_finding,
    sampling_findings,
    tail_in_words,
)
from bayes_direag.model.settings import SamplingSettings


def loadings(**given: float | list[float]) -> pd.DataFrame:
    rows = [
        {"parameter": name, "level": level, "loading": value}
        for name, values in given.items()
        for level, value in (zip("abc", values, strict=True) if isinstance(values, list) else [(None, values)])
    ]
    return pd.DataFrame(rows).astype({"level": "str"})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"weight": [0.1, -0.5, 0.02], "slope": 0.8, "null_gain": -0.25}, "slope up, weight[b] down, null_gain down"),
        (
            {"weight": [-0.3, -0.4, -0.5], "bias": [0.1, 0.3, -0.2], "null_base": 0.6},
            "weight of every level down, null_base up, bias[b] up, bias[c] down",
        ),
        (
            {"weight": [0.5, -0.4, 0.3], "bias": [0.3, -0.35, 0.2]},
            "weight[a] up, weight[b] down, bias[b] down, weight[c] up",
        ),
    ],
    ids=["largest first, small ones out", "alike are named once", "no more than four"],
)
def test_directions_in_words(given, words):
    assert direction_in_words(loadings(**given)) == words


def test_tails_and_labels_in_words():
    assert tail_in_words(0.0) == "tail probability below 0.001"
    assert tail_in_words(0.0426) == "tail probability 0.043"
    table = pd.DataFrame({"parameter": ["weight", "slope"], "level": pd.Series(["a b", None], dtype="str")})
    assert parameter_labels(table).tolist() == ["weight[a b]", "slope"]


class TestSampling:
    def parameters(self, *names: str, rhat: float = 1.0, ess: float = 900.0) -> pd.DataFrame:
        figures = {"rhat": rhat, "rhat_by_chance": 1.02, "ess_bulk": ess, "ess_tail": ess, "mcse_relative": 0.02}
        level = pd.Series([None] * len(names), dtype="str")
        return pd.DataFrame({"parameter": pd.Series(names, dtype="str"), "level": level}).assign(**figures)

    def chains(self, divergences: int = 0, bfmi: float = 1.0, cut: float = 0.0) -> pd.DataFrame:
        return pd.DataFrame(
            {"chain": [0, 1], "draws": 500, "divergences": [0, divergences], "at_max_depth": cut, "bfmi": [1.0, bfmi]}
        )

    def texts(self, parameters: pd.DataFrame, chains: pd.DataFrame, **settings: float) -> dict[str, str]:
        sampling = SamplingSettings(**{"n_chains": 2, "n_warmup": 800, "n_draws": 500, **settings})
        return {f"{f.status} {f.topic}": f.text for f in sampling_findings(parameters, chains, sampling)}

    @pytest.mark.parametrize(
        ("rhat", "ess", "bfmi", "failing"),
        [
            (1.0099, 201, 0.31, []),
            (1.02, 900, 1.0, ["R-hat"]),
            (1.0, 200, 1.0, ["draws"]),
            (1.0, 900, 0.3, ["energy"]),
            (np.nan, np.nan, np.nan, ["R-hat", "draws", "energy"]),
        ],
    )
    def test_the_limits(self, rhat, ess, bfmi, failing):
        found = self.texts(self.parameters("slope", rhat=rhat, ess=ess), self.chains(bfmi=bfmi))
        expected = [f"failure {topic}" for topic in (["sampling", *failing] if failing else [])]
        assert [name for name in found if name.startswith("failure")] == expected

    def test_an_r_hat_that_chance_explains_is_too_few_draws_to_tell(self):
        text = self.texts(self.parameters("slope", "weight", rhat=1.015), self.chains())["warning R-hat"]
        assert "below 1.01 expected, but of 2 parameters chance alone takes it to 1.020" in text

    def test_what_is_pooled_cannot_be_pooled(self):
        plain, pooled = self.parameters("weight", rhat=2), self.parameters("weight", "weight_spread", rhat=2)
        text = self.texts(plain, self.chains())["failure R-hat"]
        assert "--preset bayes, or more labelled" in text
        assert "--warmup 1600 --draws 1000" in text, "longer than this one"
        assert "--preset" not in "".join(self.texts(pooled, self.chains(divergences=3, bfmi=0.1)).values())

    @pytest.mark.parametrize(("ess", "draws"), [(195.0, 1000), (100.0, 1500), (25.0, 5000), (3.0, 5000)])
    def test_how_many_draws_to_take(self, ess, draws):
        assert f"--draws {draws}." in self.texts(self.parameters("slope", ess=ess), self.chains())["failure draws"]

    def test_divergences_at_a_high_acceptance_ask_for_something_else(self):
        chains, parameters = self.chains(divergences=3), self.parameters("slope", "slope_spread")
        assert "--target-accept 0.99" in self.texts(parameters, chains)["failure divergences"]
        text = self.texts(parameters, chains, target_accept=0.995)["failure divergences"]
        assert text.startswith("3 of 1000 draws diverged")
        assert text.endswith("away from it. Fit again with more labelled questions.")

    def test_trajectories_cut_short_are_a_warning(self):
        text = self.texts(self.parameters("slope"), self.chains(cut=0.01))["warning tree depth"]
        assert text.startswith("1.0% of the trajectories")
        assert "warning tree depth" not in self.texts(self.parameters("slope"), self.chains())


class TestLearning:
    PARAMETERS = pd.DataFrame(
        {"parameter": ["slope"], "level": pd.Series([None], dtype="str"), "contraction": 0.8, "z_score": 0.5}
    )

    @pytest.mark.parametrize(
        ("change", "left", "words", "status"),
        [
            (0.02, 0.98, "the prior alone determines it", "warning"),
            (0.3, 0.9, "the prior mostly determines it", "fine"),
            (0.7, 0.9, "labels and prior determine it together", "fine"),
            (0.7, 0.1, "the labels determine it", "fine"),
        ],
    )
    def test_who_holds_the_flat_direction(self, change, left, words, status):
        flat = FlatDirection(loadings(slope=1.0), left, change)
        found = list(learning_findings(self.PARAMETERS, flat))
        (finding,) = [finding for finding in found if finding.topic == "flat direction"]
        assert finding.status == status
        assert finding.text.endswith(f"moves the log-likelihood by {change:.1f} nats: {words}.")
        assert f"There {left:.0%} of the prior's variance is left" in finding.text


class TestPredictive:
    def checks(self, tail: float, *tails: float) -> PredictiveChecks:
        table = pd.DataFrame(
            {
                "statistic": ["accuracy", "accuracy", "null", "null"],
                "pattern": ["5", "all", "5", "all"],
                "n": [40, 100, 40, 100],
                "observed": [0.9, 0.6, 0.3, 0.2],
                "predicted": [0.5, 0.5, 0.3, 0.2],
                "low": [0.4, 0.45, 0.2, 0.15],
                "high": [0.6, 0.55, 0.4, 0.25],
                "tail_probability": tails,
            }
        )
        return PredictiveChecks(table, tail)

    def test_all_questions_are_looked_at_first_then_the_patterns_together(self):
        text = predictive_finding(self.checks(0.0, 0.0, 0.002, 0.9, 0.9)).text
        assert "the selected answer is right in 60% of all 100 questions; 45% to 55% expected" in text
        text = predictive_finding(self.checks(0.001, 0.0, 0.2, 0.9, 0.9)).text
        assert "right in 90% of the 40 questions where the levels agree 5; 40% to 60% expected" in text
        assert predictive_finding(self.checks(0.2, 0.0, 0.2, 0.9, 0.9)).status == "fine", "one pattern alone is chance"


def off_by(shift: float, n: int = 300) -> CalibrationCheck:
    rng = np.random.default_rng(0)
    stated = rng.uniform(0.35, 0.65, n)
    return calibration_check(stated, rng.random(n) < stated + shift, interval_level=0.9, rng=rng)


@pytest.mark.parametrize(("shift", "words"), [(0.3, "too low"), (-0.3, "too high")])
def test_which_way_the_calibration_is_off(shift, words):
    bad, good = off_by(shift), off_by(0.0)
    text = calibration_finding("support", {"support": bad}, 0).text
    assert text.startswith(bad.calibration.sentence("support"))
    assert f"], {words}. " in text
    assert "final calibration" not in text, "there is none"
    both = {"support": good, "confidence": bad}
    assert [calibration_finding(name, both, 7).status for name in both] == ["fine", "warning"]
    text = calibration_finding("confidence", both, 7).text
    assert text.startswith("Miscalibration of the confidence was found: ")
    assert calibration_finding("support", {"support": off_by(0.0, 20)}, 0).status == "warning", "too few to tell"
    assert "several answers" not in text
