"""Rules that answer from the reports alone, and the level that labels choose.

Rules use the usable levels of a question in level order, with confidences clipped to ``[MIN_CONFIDENCE, 1 -
MIN_CONFIDENCE]``. A question without a usable level is unanswered.

Methods with elicitations of their own answer from several samples of one prompt, which count with or without a stated
confidence, or from one list of guesses. Their questions are joined to the evaluated ones by ``problem_id``.
"""

import math
import statistics
from collections.abc import Mapping
from functools import lru_cache, partial
from types import MappingProxyType

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import entr

from analysis.methods.method import Answerer, Answers, FixedRule, Method, gives, stated_signals
from analysis.scores.metrics import MIN_CONFIDENCE
from bayes_direag.data.observations import Observations
from bayes_direag.errors import LevelError, did_you_mean

#: The rule that takes the answer and confidence of one level, and the default name of that level.
VANILLA = "vanilla"
#: Sums of confidences that agree to this number of decimals are tied, such as 0.1 + 0.2 and 0.3.
_TIE_DECIMALS = 12


def vanilla(observations: Observations, level_name: str) -> Answers:
    """Select the answer of one named level, with the confidence stated there."""
    if level_name not in observations.level_names:
        raise LevelError(
            f"no level is called {level_name!r}.{did_you_mean(level_name, observations.level_names)} Expected one of "
            f"{', '.join(observations.level_names)}. Name one of these."
        )
    level = observations.level_names.index(level_name)
    confidence = np.clip(stated_signals(observations)[0, :, level], MIN_CONFIDENCE, 1 - MIN_CONFIDENCE)
    return Answers(observations.candidate[:, level], confidence)


@np.errstate(invalid="ignore")  # 0/0 is the NaN of an unanswered question
def majority(observations: Observations) -> Answers:
    """Select the commonest answer, with its share; ties go to the higher mean confidence, then to the first seen."""
    votes = _sum_by_answer(observations, observations.usable.astype(float))
    confidence = _sum_by_answer(observations, _stated_confidence(observations))
    most = votes.max(axis=1)
    # among answers with the same number of votes, the highest sum is the highest mean
    level = _first_maximum(confidence * (votes == most[:, None]))
    return _select(observations, level, most / observations.usable.sum(axis=1))


@np.errstate(invalid="ignore")
def mean_confidence(observations: Observations) -> Answers:
    """Select the answer with the largest summed confidence, with its share of the sum; ties go to the first seen."""
    summed = _sum_by_answer(observations, _stated_confidence(observations))
    over_all = np.where(_seen_first(observations), summed, 0.0).cumsum(axis=1)[:, -1]
    return _select(observations, _first_maximum(summed), summed.max(axis=1) / over_all)


@np.errstate(invalid="ignore")
def steerconf(observations: Observations) -> Answers:
    r"""Select a level by the mean and the variation of the steered confidences, and by the majority's share.

    With mean :math:`m`, standard deviation :math:`s`, minimum :math:`l` and maximum :math:`h` of the :math:`n` usable
    confidences, and the share :math:`v` of the majority answer,

    .. math:: c = \frac{m\,v}{1 + s/m}, \qquad
              k = \min(\max(\lfloor n (c - l) / (h - l) \rfloor, 0), n - 1), \quad k = 0 \text{ if } h = l.

    The answer is that of usable level number k, counted from 0; the confidence is c. (The method's own script compares
    c with confidences in percent, and so takes the first level unless a confidence is 0.)

    Source: Zhou et al. (2025), SteerConf: Steering LLMs for Confidence Elicitation, arXiv:2503.02863.
    """
    usable = observations.usable
    stated = _stated_confidence(observations)
    n_usable = usable.sum(axis=1)
    rows = zip(stated, usable, strict=True)
    moments = [_mean_and_deviation(tuple(sorted(row[usable]))) for row, usable in rows]
    mean, deviation = np.array(moments).reshape(-1, 2).T
    score = mean * majority(observations).confidence * (1 / (1 + deviation / mean))
    low, high = stated.min(axis=1, where=usable, initial=1.0), stated.max(axis=1)
    spread = np.where(high > low, high - low, np.inf)
    number = np.clip(np.floor((score - low) / spread * n_usable), 0, n_usable - 1)
    level = (usable & (usable.cumsum(axis=1) - 1 == number[:, None])).argmax(axis=1)
    return _select(observations, level, score)


def _stated_confidence(observations: Observations) -> Float[np.ndarray, "problem level"]:
    """Return the clipped confidences, 0 for a level that is not usable."""
    clipped = np.clip(stated_signals(observations)[0], MIN_CONFIDENCE, 1 - MIN_CONFIDENCE)
    return np.where(observations.usable, clipped, 0.0)


def _sum_by_answer(
    observations: Observations, value: Float[np.ndarray, "problem level"]
) -> Float[np.ndarray, "problem level"]:
    """Return for every level the sum of a value over the levels with the same answer; it must be 0 if not usable."""
    total = np.zeros_like(value)
    for level in range(value.shape[1]):
        agrees = observations.candidate == observations.candidate[:, [level]]
        total += agrees * value[:, [level]]
    return total


@lru_cache(maxsize=1 << 16)
def _mean_and_deviation(stated: tuple[float, ...]) -> tuple[float, float]:
    """Return mean and population standard deviation, correctly rounded, so that equal reports have equal scores."""
    return (statistics.mean(stated), statistics.pstdev(stated)) if stated else (math.nan, math.nan)


def _seen_first(observations: Observations) -> Bool[np.ndarray, "problem level"]:
    """Return the usable levels that are the first to give their answer."""
    earlier = np.tril(observations.candidate[:, :, None] == observations.candidate[:, None, :], -1)
    return np.asarray(observations.usable & ~earlier.any(axis=2))


def _first_maximum(value: Float[np.ndarray, "problem level"]) -> Int[np.ndarray, " problem"]:
    """Return the level with the greatest value; if answers tie, the level of the answer seen first."""
    return np.asarray(value.round(_TIE_DECIMALS).argmax(axis=1))


def _select(
    observations: Observations, level: Int[np.ndarray, " problem"], confidence: Float[np.ndarray, " problem"]
) -> Answers:
    """Take the answer of one level of every question; -1 for an unanswered question."""
    return Answers(np.take_along_axis(observations.candidate, level[:, None], axis=1)[:, 0], confidence)


def best_level(labelled: Observations, _: int) -> Answerer:
    """Choose the level with the most right answers to the labelled questions, the first of equals."""
    most = int(np.argmax(labelled.correct.sum(axis=0)))
    return partial(vanilla, level_name=labelled.level_names[most])


def vanilla_method(level_name: str = VANILLA) -> Method:
    """Return the method that takes the answer and confidence of one level."""
    rule = FixedRule(partial(vanilla, level_name=level_name))
    return Method(rule, words="the answer and the confidence of one prompt, as stated", spoken="single level as stated")


#: All other rules that answer from the reports alone, and the level that labels choose.
RULES: Mapping[str, Method] = MappingProxyType(
    {
        "majority": Method(
            FixedRule(majority), words="the commonest answer over all levels; its share of them", spoken="majority vote"
        ),
        "mean_confidence": Method(
            FixedRule(mean_confidence),
            words="the answer with the largest summed confidence; its share of the sum",
            spoken="mean confidence",
            needs_confidences=True,
        ),
        "steerconf": Method(
            FixedRule(steerconf),
            words="SteerConf: the mean confidence, lowered where levels disagree or their confidences vary",
            spoken="SteerConf",
            needs_confidences=True,
        ),
        "best_level": Method(
            best_level,
            words="the level that was right most often on the labelled questions, as stated",
            spoken="best single level",
        ),
    }
)


def self_consistency(samples: Observations) -> Answers:
    """Select the commonest answer of the k samples, with its share of all k.

    Ties go to the first in string order. A sample without a readable answer agrees with no other.
    """
    return _commonest(samples, gives(samples).sum(axis=1).max(axis=1) / samples.n_levels)


def answer_entropy(samples: Observations) -> Answers:
    r"""Select as :func:`self_consistency`, with confidence :math:`1 - H / \log k`, clipped to [0, 1].

    H is the entropy of the shares of the k samples' distinct answers. Each sample without a readable answer counts as
    another answer; the paper's released code leaves it out of the sum, so that one answer of five has confidence 0.8. A
    single sample has confidence 1.
    """
    k = samples.n_levels
    count = np.hstack([gives(samples).sum(axis=1), ~samples.usable])
    # in order, so that equal counts have equal sums
    entropy = entr(np.sort(count, axis=1) / k).sum(axis=1)
    return _commonest(samples, np.clip(1 - entropy / np.log(k), 0, 1) if k > 1 else np.ones(len(samples)))


def top_k(guesses: Observations) -> Answers:
    """Select the listed answer with the highest stated probability; ties go to the one listed first.

    Guesses without a readable answer or a probability are skipped.
    """
    stated = np.where(guesses.usable & ~np.isnan(guesses.confidence), guesses.confidence, -1.0)
    first = stated.argmax(axis=1)[:, None]
    candidate, highest = (np.take_along_axis(values, first, axis=1)[:, 0] for values in (guesses.candidate, stated))
    return Answers(np.where(highest >= 0, candidate, -1), np.where(highest >= 0, highest, np.nan))


def _commonest(samples: Observations, confidence: Float[np.ndarray, " problem"]) -> Answers:
    commonest = gives(samples).sum(axis=1).argmax(axis=1)
    return Answers(np.where(samples.answered, commonest, -1), np.where(samples.answered, confidence, np.nan))


SAMPLED_METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "self_consistency": Method(
            FixedRule(self_consistency),
            words="the commonest of several samples of one prompt; its share of them",
            spoken="self-consistency",
            elicitation="samples",
        ),
        "answer_entropy": Method(
            FixedRule(answer_entropy),
            words="the same answer; how far the samples agree (1 minus their entropy, unreadable samples each an "
            "answer)",
            spoken="answer entropy",
            elicitation="samples",
        ),
        "topk": Method(
            FixedRule(top_k),
            words="the likeliest answer on the model's own list of guesses, with the probability that the list gives",
            spoken="top-k list",
            elicitation="topk",
        ),
    }
)
