"""Methods with elicitations of their own: several samples of one prompt, or one list of guesses.

Samples count with or without a stated confidence, so a report that the evidence model cannot use counts here.
Questions are joined to the evaluated ones by ``problem_id``.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from jaxtyping import Float
from scipy.special import entr

from analysis.methods.method import Answers, FixedRule, Method, gives
from bayes_direag.data.observations import Observations


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
