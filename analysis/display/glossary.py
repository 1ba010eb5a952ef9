"""Metrics and parameters, each in one plain sentence."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class MetricWords(NamedTuple):
    """The header of a metric, whether more of it is better, and what it means."""

    header: str
    more_is_better: bool
    meaning: str

    @property
    def arrow(self) -> str:
        """An arrow in the direction of better values."""
        return "↑" if self.more_is_better else "↓"


#: The metrics to look at first, then those of a method's own answers.
METRIC_WORDS: Mapping[str, MetricWords] = MappingProxyType(
    {
        "benefit": MetricWords(
            "benefit",
            True,
            "accuracy minus Brier score, over all labelled questions: twice the mean gain if an answer is used when "
            "its probability exceeds the cost of a mistake, over all costs. 1 is perfect, 0 is never answering",
        ),
        "accuracy_of_all": MetricWords(
            "accuracy", True, "share of the labelled questions answered correctly; no answer counts as wrong"
        ),
        "log_score": MetricWords(
            "log score",
            False,
            "mean of -log of the probability given to what was right: a candidate, or none of them; only of methods "
            "that give each of these a probability",
        ),
        "accuracy": MetricWords(
            "accuracy of answered", True, "share of the answered questions whose selected answer is right"
        ),
        "ece": MetricWords(
            "ECE",
            False,
            "expected calibration error: how far probabilities are, on average over ten bins of equal width, from the "
            "share that is right",
        ),
        "brier": MetricWords(
            "Brier score",
            False,
            "mean squared error of the probabilities; 0 is perfect, 0.25 is what 50% for every answer scores",
        ),
        "nll": MetricWords("NLL", False, "mean negative log-likelihood: punishes sure and wrong hardest"),
        "auroc": MetricWords(
            "AUROC",
            True,
            "chance that a right answer has a higher probability than a wrong one; 0.5 is tossing a coin, 1 is perfect",
        ),
        "smece": MetricWords("smECE", False, "the same as ECE without bins (smoothed)"),
        "adaptive_ece": MetricWords("adaptive ECE", False, "the same as ECE in ten bins of equally many questions"),
        "pr_positive": MetricWords(
            "PR-P",
            True,
            "average precision in finding right answers by high probability; falls with the share of right ones",
        ),
        "pr_negative": MetricWords(
            "PR-N",
            True,
            "average precision in finding wrong answers by low probability; rises with the share of wrong ones",
        ),
    }
)
FIRST_METRICS = ("benefit", "accuracy_of_all", "log_score")

#: Of the parameters that are one for all levels.
PARAMETERS: Mapping[str, str] = MappingProxyType(
    {
        "slope": "how much a stated confidence matters; 0: not at all, 1: as stated",
        "prior_strength": "evidence for every answer before any report",
        "null_base": "evidence, before any report, that no answer is right",
        "null_gain": "how much doubt in the reports counts as evidence that no answer is right",
        "recalibration_intercept": "final calibration; 0 leaves the support as it is",
        "recalibration_slope": "final calibration; 1 leaves the support as it is, above 1: it was too cautious",
        "sharpness": "power to which the evidence is raised; 1: support is a share of the evidence, as in the paper",
        "vote_slope": "what a surer report adds to the log odds of its answer, in addition to its evidence",
    }
)
