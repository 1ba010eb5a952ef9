"""Methods, metrics and parameters, each in one plain sentence."""

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


METHODS: Mapping[str, str] = MappingProxyType(
    {
        "vanilla": "the answer and the confidence of one prompt, as stated",
        "self_consistency": "the commonest of several samples of one prompt; its share of them",
        "answer_entropy": "the same answer; how far the samples agree (1 minus their entropy)",
        "topk": "the likeliest answer on the model's own list of guesses, with the probability that the list gives",
        "majority": "the commonest answer over all levels; its share of them",
        "mean_confidence": "the answer with the largest summed confidence; its share of the sum",
        "steerconf": "SteerConf: the mean confidence, lowered where levels disagree or their confidences vary",
        "best_level": "the level that was right most often on the labelled questions, as stated",
        "cisc": "CISC: votes weighted by a softmax of confidences, its temperature learned",
        "vote_logistic": "the majority's answer; a logistic regression on how the votes fell",
        "level_logistic": "the majority's answer; a logistic regression on how the votes fell and who agreed",
        "boosted_stack": "the majority's answer; boosted trees on how the votes fell and who agreed",
        "dawid_skene": "Dawid and Skene: levels have accuracies, learned without labels, and err independently",
        "dawid_skene_labelled": "the same, with accuracies learned from labels",
        "conditional_logit": "the product of what levels say, with learned weights (log-linear pooling)",
        "count": "DirEAG from votes alone: each level's vote has a learned weight",
        "count_calibrated": "count, with the final calibration",
        "level": "DirEAG from votes, with a learned weight and bias for each level, without stated confidences",
        "level_calibrated": "level, with the final calibration",
        "confidence": "DirEAG before its final calibration: stated confidences, weighed level by level, as evidence",
        "direag": "DirEAG: confidence, with the final calibration. This is what `direag predict` gives",
    }
)

_CALIBRATIONS = {
    "platt": "Platt scaling",
    "isotonic": "isotonic regression",
    "beta": "beta calibration",
    "venn": "Venn-Abers calibration",
}


def method_words(method: str) -> str:
    """Say what a method does."""
    simple, _, way = method.rpartition("_")
    if simple in METHODS and way in _CALIBRATIONS:
        return f"{simple}, recalibrated on labelled questions by {_CALIBRATIONS[way]}"
    return METHODS.get(method, "not known to this report")


#: The metrics to look at first, then those of a method's own answers.
METRICS: Mapping[str, MetricWords] = MappingProxyType(
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
