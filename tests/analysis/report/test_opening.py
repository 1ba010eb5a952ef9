"""The answer in sentences, against figures worked out here."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from analysis.evaluation import Evaluation
from analysis.report import sentences, title
from tests.analysis.made_runs import random_said, write_run


def found_in(folder, said, **options):
    return Evaluation.read(write_run(folder, said, **options))


def said_of(evaluation):
    return [title(evaluation), *sentences(evaluation)]


def test_how_often_right_how_far_off_and_what_to_accept(tmp_path):
    said = [(0.95, True), (0.95, True), (0.9, False), (0.35, False), (0.35, True), (None, False)]
    found = found_in(tmp_path / "run", {"direag": said})
    share, calibration, accepted, rival = said_of(found)
    assert share.startswith("60.0% of the answers of DirEAG are right [95%: ")
    assert calibration.startswith("Too few answers to judge the probabilities: with 5, ")
    low, high = binomtest(2, 3).proportion_ci(0.95, method="exact")
    (row,) = found.thresholds.query("threshold == 0.9").to_dict("records")
    assert (row["labelled"], row["share"]) == (3, 3 / 6)
    assert (row["right"], row["low"], row["high"]) == pytest.approx((2 / 3, low, high))
    assert f"90% or more, 50% of the questions: 66.7% of these are right [95%: {100 * low:.1f}% to" in accepted
    assert rival == "No other method was evaluated on the same questions."
    unsure = found_in(tmp_path / "unsure", {"direag": [(0.5, True), (0.6, False)]})
    assert said_of(unsure)[2] == "Check every answer: none has a probability of 90% or more."
    silent = found_in(tmp_path / "silent", {"direag": [(None, False)] * 3})
    assert said_of(silent) == ["DirEAG has answered none of the labelled questions"]


def test_a_vote_that_selects_better_answers_is_named(tmp_path):
    direag = [(0.6, number % 2 == 0) for number in range(100)]
    vote = [(0.6, number % 10 > 0) for number in range(100)]
    said = said_of(found_in(tmp_path / "better", {"majority": vote, "direag": direag}))[-1]
    assert said.startswith("A plain vote selects better answers: 90.0% of them are right (")
    hardly = [(0.6, number % 3 > 0 if number < 30 else right) for number, (_, right) in enumerate(direag)]
    for name, other in (("worse", {"majority": direag, "direag": vote}), ("hardly", {"majority": hardly})):
        assert "vote selects" not in said_of(found_in(tmp_path / name, {"direag": direag} | other))[-1]


class TestTheDifference:
    @staticmethod
    def said(rng, *, worse: float, n: int = 400):
        """Return a calibrated method, and the same with its confidences moved towards one half."""
        own = random_said(rng, n, sharpness=2)
        return own, [(one * (1 - worse) + worse * 0.5, right) for one, right in own]

    def test_of_a_better_method(self, tmp_path):
        direag, mean = self.said(np.random.default_rng(1), worse=0.8)
        found = found_in(tmp_path / "run", {"majority": direag, "majority_platt": mean, "direag": direag})
        gap = [(other - right) ** 2 - (one - right) ** 2 for (one, right), (other, _) in zip(direag, mean, strict=True)]
        row = found.differences.query("method == 'majority_platt' and metric == 'benefit'").iloc[0]
        assert row["difference"] == pytest.approx(np.mean(gap))
        half = 1.96 * np.std(gap) / np.sqrt(len(gap))  # the bootstrap of a mean is nearly normal
        assert (row["low"], row["high"]) == pytest.approx((np.mean(gap) - half, np.mean(gap) + half), abs=half / 4)
        # A rule that learns nothing is not what it has to beat, however good it happens to be.
        assert found.rival == "majority_platt"
        said = said_of(found)[-1]
        assert f"{row['second']:.3f}, and {row['first']:.3f} of the strongest rival, majority vote with Platt" in said
        low, high = row["low"], row["high"]
        assert said.endswith(f"DirEAG is better: +{np.mean(gap):.3f} [95%: +{low:.3f}, +{high:.3f}].")

    def test_of_a_worse_one_and_who_the_rival_is(self, tmp_path):
        better, worse = self.said(np.random.default_rng(2), worse=0.8)
        last = said_of(found_in(tmp_path / "vote", {"majority": better, "direag": worse}))[-1]
        assert "strongest rival, majority vote. DirEAG is worse: " in last
        said = {"best_level_platt": worse, "conditional_logit": better, "majority": better, "direag": worse}
        assert found_in(tmp_path / "calibrated", said).rival == "conditional_logit"

    def test_that_cannot_be_told(self, tmp_path):
        rng = np.random.default_rng(3)
        direag = random_said(rng, 60, sharpness=1)
        other = [(float(np.clip(one + rng.normal(0, 0.1), 0, 1)), right) for one, right in direag]
        found = found_in(tmp_path / "run", {"mean_confidence": other, "direag": direag}, level=0.99)
        row = found.differences.query("metric == 'benefit'").iloc[0]
        assert row["low"] < 0 < row["high"]
        assert "On 60 questions neither is clearly better" in said_of(found)[-1]
        assert "[99%: " in said_of(found)[-1]

    def test_an_unanswered_question_is_worth_nothing(self, tmp_path):
        said = {
            "majority": [(0.9, True), (None, False), (0.8, False)],
            "direag": [(None, False), (0.6, True), (0.4, False)],
        }
        rows = found_in(tmp_path / "run", said).differences
        assert rows["n"].tolist() == [3, 3, 3]
        own, other = (1 - 0.4**2 - 0.4**2) / 3, (1 - 0.1**2 - 0.8**2) / 3
        assert rows.set_index("metric").loc["benefit", "difference"] == pytest.approx(own - other)


def test_the_same_resamples_as_the_evaluation_had(tmp_path):
    """Of a method that says the same of all, the difference moves as the other method's metric does."""
    rng = np.random.default_rng(4)
    said = {"majority": [(0.5, bool(rng.random() < 0.6)) for _ in range(50)], "direag": [(0.5, False)] * 50}
    folder = write_run(tmp_path / "run", said)
    metrics = pd.read_csv(folder / "metrics.csv").set_index("method").loc["majority"]
    row = Evaluation.read(folder).differences.query("metric == 'accuracy_of_all'").iloc[0]
    assert (-row["high"], -row["low"]) == pytest.approx((metrics["accuracy_low"], metrics["accuracy_high"]))
