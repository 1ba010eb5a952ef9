"""Metrics, parameters and pictures in plain words."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class MetricWords(NamedTuple):
    """The header of a metric, whether more of it is better, and what it means."""

    header: str
    more_is_better: bool
    meaning: str


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

#: Of parameters, and of what pooled ones share by the last part of its name.
PARAMETERS: Mapping[str, str] = MappingProxyType(
    {
        "share": "of the weight of all levels",
        "bias": "how far a vote, or a confidence of 50%, is believed; below 0 it speaks more for the null",
        "vote": "what a report adds to the log odds of its answer at any confidence",
        "prior_strength_relative": "evidence for every answer before any report, in units of the total weight",
        "null_base_relative": "evidence, before any report, that no answer is right, likewise",
        "slope": "how much a stated confidence matters; 0: not at all, 1: as stated",
        "null_gain": "how much doubt in the reports counts as evidence that no answer is right",
        "recalibration_intercept": "final calibration; 0 leaves the support as it is",
        "recalibration_slope": "final calibration; 1 leaves the support as it is, above 1: it was too cautious",
        "sharpness": "power to which the evidence is raised; 1: support is a share of the evidence, as in the paper",
        "centre": "around which the levels lie",
        "label": "what is added to the log odds of an answer that is this label",
        "agreement": "how far it moves with a level's agreement beyond chance",
        "vote_slope": "what a surer report adds to the log odds of its answer, in addition to its evidence",
    }
)

#: Title of each picture, and how to read it.
PICTURE_WORDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "benefit": (
            "What are the answers worth?",
            "If an answer is used whenever its probability is higher than what a mistake would cost, this is twice the "
            "mean gain over all such prices. It sees both which answers are selected and whether their probabilities "
            "hold. Farther right is better; 0 is as good as not answering.",
        ),
        "reliability": (
            "Are answers right as often as stated?",
            "Of the answers that are given 80%, are 80% right? Then a mark lies on the dashed line. Marks below it: "
            "too sure; above it: not sure enough. A bar that reaches the line gives no reason to doubt. Places with "
            "few answers (bottom) say little.",
        ),
        "risk_coverage": (
            "What if only the surest answers are used?",
            "From right to left the least sure answers are left out. A good curve falls to the left: what remains "
            "has fewer errors. One that stays level does not know which of its answers are wrong. The far left rests "
            "on few questions.",
        ),
        "parameters": (
            "What has the fit learned?",
            "What belongs to a level, such as its share of the weight of all; beside it, of a fit by NUTS, what all "
            "levels share. A bar is the uncertainty that the labelled questions leave.",
        ),
        "calibration_curves": (
            "What does a stated confidence count for?",
            "On the dashed line it counts as stated, below it for less. Where the curve is flat, the stated confidence "
            "makes no difference. It is learned only where confidences were stated (bottom).",
        ),
        "recalibration": (
            "The last step, from support to probability",
            "This curve turns the support of an answer into its probability of being right. On the dashed line support "
            "is left as it is; a flatter curve corrects support that is too sure, a steeper curve support that is too "
            "cautious.",
        ),
        "ranks": (
            "Do the chains agree?",
            "Each line style is one independent run of the sampler. Left: they should look alike. Right: lines should "
            "stay near the middle and show no trend; p is the probability of lines this far apart by chance.",
        ),
        "left_out": (
            "Are left-out answers right as often as stated?",
            "Read it as the reliability diagram above, but of this fit: each question is predicted without its own "
            "label.",
        ),
        "pareto_k": (
            "Does any single question carry the result?",
            "Every dot is a question. One above 0.7 moves the result on its own: look at it.",
        ),
    }
)
