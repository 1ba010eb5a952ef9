"""The equations of the evidence model once more, one question at a time, in plain Python."""

import math
from collections.abc import Mapping, Sequence

NULL = "null"


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def softplus(x: float) -> float:
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def concentrations(
    reports: Sequence[tuple[int, str, float]], parameters: Mapping[str, object], eps: float
) -> dict[str, float]:
    """Return alpha by answer, the null included, from one question's (level, answer, confidence) reports."""
    weight, bias = parameters["weight"], parameters.get("bias")
    answers = sorted({answer for _, answer, _ in reports})
    share = parameters["prior_strength"] / (len(answers) + 1)
    alpha = dict.fromkeys(answers, share) | {NULL: share + parameters["null_base"]}
    for level, answer, confidence in reports:
        if bias is None:
            belief = 1.0
        else:
            q = min(max(confidence, eps), 1 - eps)
            belief = sigmoid(bias[level] + (parameters.get("slope") or 0.0) * math.log(q / (1 - q)))
        alpha[answer] += weight[level] * belief
        alpha[NULL] += (parameters.get("null_gain") or 0.0) * weight[level] * (1 - belief)
    return alpha


def support(alpha: Mapping[str, float]) -> dict[str, float]:
    total = sum(alpha.values())
    return {answer: value / total for answer, value in alpha.items()}
