"""The equations of the models once more, one question at a time, in plain Python, with their priors."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from bayes_direag.data.observations import Observations
from bayes_direag.fits.container import label_names
from bayes_direag.fits.fit import Fit

NULL = "null"


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def softplus(x: float) -> float:
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def inverse_softplus(x: float | np.ndarray) -> np.ndarray:
    return np.asarray(x + np.log(-np.expm1(-np.asarray(x))))


def logit(confidence: float, eps: float) -> float:
    q = min(max(confidence, eps), 1 - eps)
    return math.log(q / (1 - q))


def over_signals(slope: float | Sequence[float] | None, stated: float | Sequence[float], eps: float) -> float:
    """Return the sum over signals of slope times logit; a signal that is missing (NaN) adds nothing."""
    pairs = [] if slope is None else zip(np.atleast_1d(slope), np.atleast_1d(stated), strict=True)
    return sum(own * logit(q, eps) for own, q in pairs if q == q)


def of_level(slope: object, level: int) -> object:
    """Return the slopes of a level, which may have its own for each signal."""
    return slope[level] if np.ndim(slope) == 2 else slope


def natural(
    unconstrained: Mapping[str, object], model: str, agreement: Sequence[float] = (), labels: Sequence[str] = ()
) -> dict[str, object]:
    """Return the natural parameters by name from unconstrained numbers and lists of them."""
    given = {name: np.asarray(value).tolist() for name, value in unconstrained.items()}
    if model != "bayes":
        values = {name.removesuffix("_base"): value for name, value in given.items() if name in ("bias", "slope")}
        for name, value in given.items():
            if name not in values:
                link = [softplus(one) for one in value] if isinstance(value, list) else softplus(value)
                values[name.removesuffix("_base")] = link
        return values
    offsets = zip(given["weight_base_decentered"], given["vote_decentered"], strict=True)
    x = list(agreement) or [0.0] * len(given["vote_decentered"])
    weight, vote = [], []
    for own, (of_weight, of_vote) in zip(x, offsets, strict=True):
        weight.append(math.exp(given["weight_centre"] + given["weight_agreement"] * own + 0.4 * of_weight))
        vote.append(given["vote_centre"] + given["vote_agreement"] * own + 0.3 * of_vote)
    values = {"weight": weight, "vote": vote, "bias": [given["bias"]] * len(weight), "prior_strength": 1.0}
    values |= {"null_base": softplus(given["null_base_base"]), "sharpness": math.exp(given["sharpness_base"])}
    values |= {"null_gain": 1.0, "label": dict(zip(labels, given.get("label", []), strict=True))}
    if "slope_base" in given:
        values["slope"] = np.exp(given["slope_base"]).tolist()
    return values | ({"vote_slope": given["vote_slope"]} if "vote_slope" in given else {})


def log_priors(unconstrained: Mapping[str, object], model: str, total_weight: float) -> dict[str, np.ndarray]:
    """Return the log prior density of each unconstrained number."""
    slope = np.asarray(unconstrained.get("slope_base", 0.0))  # perhaps with leading axes chain and draw
    n_signals = slope.shape[-1] if slope.ndim % 2 else 1
    normals = {
        "weight_centre": (2, 1.5),
        "weight_agreement": (0.4, 0.5),
        "vote_centre": (0, 0.1),
        "vote_agreement": (0.15, 0.2),
        "weight_base_decentered": (0, 1),
        "vote_decentered": (0, 1),
        "bias": (0, 2),
        "slope_base": (math.log(0.5 / n_signals), 0.7),
        "null_base_base": (0, 2),
        "sharpness_base": (0, 0.5),
        "vote_slope": (0, 0.1 / n_signals),
        "label": (0, 0.25),
    }
    if model == "paper":
        normals = dict.fromkeys(unconstrained, (0, math.sqrt(500)))
    if model != "release":
        return {name: stats.norm.logpdf(np.asarray(value), *normals[name]) for name, value in unconstrained.items()}
    n_unconstrained = sum(np.size(value) for value in unconstrained.values()) / np.size(
        unconstrained["prior_strength_base"]
    )  # in each draw
    sd = math.sqrt(n_unconstrained / (2 * 0.001 * total_weight))
    bounds = {"weight_base": (-5, 3), "bias": (-5, 5), "slope": (-2, 2)}
    return {
        name: stats.truncnorm.logpdf(np.asarray(value), *np.array(bounds.get(name, (-8, 3))) / sd, scale=sd)
        for name, value in unconstrained.items()
    }


def of_draws(fit: Fit) -> list[dict[str, object]]:
    """Return the natural parameters of each draw of a fit, one chain after the other."""
    posterior = fit.tree["posterior"].to_dataset()
    arrays = {str(name): values.to_numpy().reshape(-1, *values.shape[2:]) for name, values in posterior.items()}
    draws = []
    for each in zip(*(values.tolist() for values in arrays.values()), strict=True):
        values = {"prior_strength": 1.0, "null_gain": 1.0} | dict(zip(arrays, each, strict=True))
        values["label"] = dict(zip(label_names(fit.tree), values.get("label", []), strict=False))
        if "bias" in values and not isinstance(values["bias"], list):
            values["bias"] = [values["bias"]] * len(values["weight"])
        draws.append(values)
    return draws


def reports_of(observations: Observations, question: int) -> list[tuple[int, str, float]]:
    """Return one question's usable reports: level, answer, the confidence of each signal."""
    stated = np.stack([*observations.signals.values()], axis=2)[question]
    return [
        (level, observations.candidates[question][a], stated[level])
        for level, a in enumerate(observations.candidate[question].tolist())
        if a >= 0
    ]


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
            belief, doubt = 1.0, 0.0
        else:
            score = bias[level] + over_signals(of_level(parameters.get("slope"), level), confidence, eps)
            belief, doubt = sigmoid(score), sigmoid(-score)
        alpha[answer] += weight[level] * belief
        alpha[NULL] += parameters.get("null_gain", 1.0) * weight[level] * doubt
    return alpha


def scores(reports: Sequence[tuple[int, str, float]], parameters: Mapping[str, object], eps: float) -> dict[str, float]:
    """Return what the probability of each answer, and of the null, is proportional to."""
    sharpness, vote = parameters.get("sharpness"), parameters.get("vote")
    alpha = concentrations(reports, parameters, eps)
    score = {state: value ** (1.0 if sharpness is None else sharpness) for state, value in alpha.items()}
    for level, answer, confidence in reports:
        constant = 0.0 if vote is None else vote[level]
        score[answer] *= math.exp(
            constant + over_signals(of_level(parameters.get("vote_slope"), level), confidence, eps)
        )
    labels = parameters.get("label") or {}
    return {state: value * math.exp(labels.get(state, 0.0)) for state, value in score.items()}


def support(scores: Mapping[str, float]) -> dict[str, float]:
    total = sum(scores.values())
    return {answer: value / total for answer, value in scores.items()}


def null_probability(support: dict[str, float], selected: str, probability: float) -> float:
    """What is left for the null when the others share what the selected answer leaves, none getting more than it."""
    rest = 1 - support[selected]
    shares = [value * (1 - probability) / rest for answer, value in support.items() if answer not in (selected, NULL)]
    return 1 - probability - sum(min(share, probability) for share in shares)
