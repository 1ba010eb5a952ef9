"""The words of the verdict, one finding at a time; whole diagnoses are in test_diagnostics."""

import numpy as np
import pandas as pd
import pytest

from analysis.diagnosis.checks import CalibrationCheck, PredictiveChecks
from analysis.diagnosis.identifiability import FlatDirection, Scale
from analysis.diagnosis.verdict import (
    calibration_finding,
    direction_in_words,
    learning_findings,
    parameter_labels,
    predictive_finding,
    sampling_findings,
    tail_in_words,
)
from analysis.scores.reliability import reliability
from bayes_direag.model.settings import SamplingSettings


def loadings(**given: float | list[float]) -> pd.DataFrame:
    rows = [
        {"parameter": name, "level": level, "loading": value}
        for name, values in given.items()
        for level, value in (zip("abc", values, strict=True) if isinstance(values, list) else [(None, values)])
    ]
    return pd.DataFrame(rows).astype({"level": "str"})


class TestDirectionInWords:
    def test_the_largest_come_first_and_small_ones_are_left_out(self):
        words = direction_in_words(loadings(weight=[0.1, -0.5, 0.02], slope=0.8, null_gain=-0.25))
        assert words == "slope up, weight[b] down, null_gain down"

    def test_levels_that_move_alike_are_named_once(self):
        words = direction_in_words(loadings(weight=[-0.3, -0.4, -0.5], bias=[0.1, 0.3, -0.2], null_base=0.6))
        assert words == "weight of every level down, null_base up, bias[b] up, bias[c] down"

    def test_no_more_than_four(self):
        words = direction_in_words(loadings(weight=[0.5, -0.4, 0.3], bias=[0.3, -0.35, 0.2]))
        assert words == "weight[a] up, weight[b] down, bias[b] down, weight[c] up"


def test_tail_probabilities_in_words():
    assert tail_in_words(0.0) == "tail probability below 0.001"
    assert tail_in_words(0.0426) == "tail probability 0.043"


def test_labels():
    table = pd.DataFrame({"parameter": ["weight", "slope"], "level": pd.Series(["a b", None], dtype="str")})
    assert parameter_labels(table).tolist() == ["weight[a b]", "slope"]


class TestSampling:
    def parameters(self, *names: str, rhat: float = 1.0, ess: float = 900.0) -> pd.DataFrame:
        figures = {"rhat": rhat, "ess_bulk": ess, "ess_tail": ess, "mcse_relative": 0.02}
        level = pd.Series([None] * len(names), dtype="str")
        return pd.DataFrame({"parameter": pd.Series(names, dtype="str"), "level": level}).assign(**figures)

    def chains(self, divergences: int = 0, bfmi: float = 1.0) -> pd.DataFrame:
        return pd.DataFrame(
            {"chain": [0, 1], "draws": 500, "divergences": [0, divergences], "at_max_depth": 0.0, "bfmi": [1.0, bfmi]}
        )

    def text(self, topic: str, parameters: pd.DataFrame, chains: pd.DataFrame) -> str:
        settings = SamplingSettings(n_chains=2, n_warmup=800, n_draws=500)
        (text,) = [f.text for f in sampling_findings(parameters, chains, settings) if f.topic == topic]
        return text

    @pytest.mark.parametrize(
        ("rhat", "ess", "bfmi", "failing"),
        [
            (1.0099, 401, 0.31, []),
            (1.01, 900, 1.0, ["R-hat"]),
            (1.0, 400, 1.0, ["draws"]),
            (1.0, 900, 0.3, ["energy"]),
            (np.nan, np.nan, np.nan, ["R-hat", "draws", "energy"]),
        ],
    )
    def test_the_limits(self, rhat, ess, bfmi, failing):
        found = sampling_findings(
            self.parameters("slope", rhat=rhat, ess=ess), self.chains(bfmi=bfmi), SamplingSettings(n_chains=2)
        )
        assert [finding.topic for finding in found if finding.status == "failure"] == failing

    def test_what_is_pooled_cannot_be_pooled(self):
        plain, pooled = self.parameters("weight", rhat=2), self.parameters("weight", "weight_spread", rhat=2)
        assert "--preset bayes, or more labelled" in self.text("R-hat", plain, self.chains())
        for topic in ("R-hat", "divergences", "energy"):
            assert "--preset" not in self.text(topic, pooled, self.chains(divergences=3, bfmi=0.1))

    def test_longer_runs_are_longer_than_this_one(self):
        text = self.text("R-hat", self.parameters("slope", rhat=2), self.chains())
        assert "--warmup 1600 --draws 1000" in text

    @pytest.mark.parametrize(("ess", "draws"), [(390.0, 1000), (200.0, 1500), (50.0, 5000), (3.0, 5000)])
    def test_how_many_draws_to_take(self, ess, draws):
        assert f"--draws {draws}." in self.text("draws", self.parameters("slope", ess=ess), self.chains())


class TestLearning:
    PARAMETERS = pd.DataFrame(
        {"parameter": ["slope"], "level": pd.Series([None], dtype="str"), "contraction": 0.8, "z_score": 0.5}
    )

    @pytest.mark.parametrize(
        ("change", "left", "words", "status"),
        [
            (0.02, 0.98, "the prior alone holds it", "warning"),
            (0.3, 0.9, "mostly the prior holds it", "fine"),
            (0.7, 0.9, "labels and prior hold it together", "fine"),
            (0.7, 0.1, "the labels hold it", "fine"),
        ],
    )
    def test_who_holds_the_flat_direction(self, change, left, words, status):
        flat = FlatDirection(loadings(slope=1.0), left, change)
        found = list(learning_findings(self.PARAMETERS, flat, Scale(True, 1.5, 0.4, 0.2)))
        (finding,) = [finding for finding in found if finding.topic == "flat direction"]
        assert finding.status == status
        assert finding.text.endswith(f"moves the log-likelihood by {change:.1f} nats: {words}.")
        assert f"There {left:.0%} of the prior's variance is left" in finding.text

    def test_a_free_scale_that_is_not_the_flat_direction(self):
        flat = FlatDirection(loadings(slope=1.0), 0.9, 0.7)
        findings = learning_findings(self.PARAMETERS, flat, Scale(False, 1.5, 0.0, 0.2))
        texts = {finding.topic: finding.text for finding in findings}
        assert "hold it together" in texts["flat direction"]
        assert "multiplied by 1.5" in texts["scale"]


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

    def test_all_questions_are_looked_at_first(self):
        text = predictive_finding(self.checks(0.0, 0.0, 0.002, 0.9, 0.9)).text
        assert "the selected answer is right in 60% of all 100 questions; 45% to 55% expected" in text

    def test_then_the_patterns_together(self):
        text = predictive_finding(self.checks(0.001, 0.0, 0.2, 0.9, 0.9)).text
        assert "right in 90% of the 40 questions where the levels agree 5; 40% to 60% expected" in text

    def test_one_pattern_alone_is_chance(self):
        assert predictive_finding(self.checks(0.2, 0.0, 0.2, 0.9, 0.9)).status == "fine"


class TestCalibration:
    @pytest.mark.parametrize(("shift", "words"), [(0.3, "too low"), (-0.3, "too high")])
    def test_which_way_it_is_off(self, shift, words):
        rng = np.random.default_rng(0)
        stated = rng.uniform(0.35, 0.65, 300)
        found = reliability(stated, rng.random(300) < stated + shift, rng=0, n_resamples=20)
        (finding,) = [calibration_finding("support", {"support": CalibrationCheck(found, 0.0, 0)}, 0)]
        assert finding.text.startswith(f"Support is {words} (all bins together: tail probability below 0.001).")
        assert "final calibration" not in finding.text, "there is none"
