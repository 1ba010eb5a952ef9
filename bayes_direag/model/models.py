r"""The three models, each a NumPyro program: what is uncertain, what the reports count for, and the draw of the state.

Every report of a question passes through its level's calibration curve. The calibrated confidence is evidence for the
report's answer, and its complement is evidence for the *null state* "no candidate is right":

.. math::

    \tilde q_{il} &= \operatorname{sigmoid}(b_l + s \operatorname{logit} q_{il}) \\
    \alpha_i(a) &= \frac{\eta}{K_i + 1} + \sum_{l: a_{il} = a} w_l \tilde q_{il} \\
    \alpha_i(\varnothing) &= \frac{\eta}{K_i + 1} + \beta_0 + \gamma \sum_l w_l (1 - \tilde q_{il}) \\
    P_i &= \alpha_i / \textstyle\sum \alpha_i

That is the paper. Evidence adds up, so support is close to a share of the votes: six of ten agreeing reports cannot
give much more than 0.6. In ``bayes`` evidence is sharpened, votes multiply, and labels have a prior:

.. math::

    P_i(a) \propto \alpha_i(a)^{\kappa} \exp \Bigl(\lambda_a + \sum_{l: a_{il} = a} v_l\Bigr), \qquad
    P_i(\varnothing) \propto \alpha_i(\varnothing)^{\kappa}

**The contract.** A model is a NumPyro function of :class:`~bayes_direag.model.likelihood_data.LikelihoodData` that
draws the states by :func:`~bayes_direag.model.evidence.draw_states`. It is fitted, predicted with, left out and
compared, explained and asked by as it is, with every term that it has (:mod:`bayes_direag.model.forward`). Names of
sites are what tables show.

``share``, the share of the weight by level, is what the labels determine where they do not determine the weights.

The programs run under :func:`~bayes_direag.model.unconstrained.unconstrained`, so the optimum that AutoDelta finds is
the mode of the very density that NUTS samples.
"""

import math
import os
from collections.abc import Callable
from functools import cache, partial, wraps

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from numpyro.distributions.transforms import SoftplusTransform

from bayes_direag.errors import DirEAGError
from bayes_direag.model.evidence import belief_and_doubt, draw_states, over_signals, sums_by_answer
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.settings import Preset, Variant
from bayes_direag.model.surroundings import Surroundings
from bayes_direag.model.unconstrained import Model, unconstrained

#: How far levels lie around what their agreement says. The mode of these spreads runs away, so they are fixed.
WEIGHT_SPREAD, VOTE_SPREAD = 0.4, 0.3

#: Where the paper's search starts: at these natural values, before the softplus.
_START = {"weight": 1.0, "slope": 0.5, "prior_strength": 0.1, "null_base": 0.01, "null_gain": 0.25}
PAPER_START = {"bias": 0.0} | {f"{name}_base": math.log(math.expm1(value)) for name, value in _START.items()}


@unconstrained(noncentered=("weight_base", "vote"))
def bayes(data: LikelihoodData) -> None:
    """Sharpen evidence, count votes, and expect more of levels that agree with the others: the default."""
    sample, normal, log_normal = numpyro.sample, dist.Normal, dist.LogNormal
    weight_centre = sample("weight_centre", normal(2, 1.5))
    weight_agreement = sample("weight_agreement", normal(0.4, 0.5))
    vote_centre = sample("vote_centre", normal(0, 0.1))
    vote_agreement = sample("vote_agreement", normal(0.15, 0.2))
    with data.levels():
        weight = sample("weight", log_normal(weight_centre + weight_agreement * data.agreement, WEIGHT_SPREAD))
        vote = sample("vote", normal(vote_centre + vote_agreement * data.agreement, VOTE_SPREAD))
        numpyro.deterministic("share", weight / jnp.sum(weight))
    score = sample("bias", normal(0, 2))
    null_base = sample("null_base", dist.TransformedDistribution(normal(0, 2), SoftplusTransform()))
    sharpness = sample("sharpness", log_normal(0, 0.5))
    votes = data.by_report(vote)
    if data.n_signals:
        with data.signals():  # signals that say the same count as one
            slope = sample("slope", log_normal(math.log(0.5 / data.n_signals), 0.7))
            vote_slope = sample("vote_slope", normal(0, 0.1 / data.n_signals)) if data.n_signals > 1 else None
        score = score + over_signals(data.logit, slope)
        votes = votes if vote_slope is None else votes + over_signals(data.logit, vote_slope)

    belief, doubt = belief_and_doubt(score, data)
    share = 1 / data.n_states
    answers = share[None] + sums_by_answer(data.by_report(weight) * belief, data.candidate)
    null = share + null_base + data.of_columns(weight) @ doubt
    log_odds = sums_by_answer(votes * data.usable, data.candidate)
    if data.n_labels:
        with data.answers():
            label = sample("label", normal(0, 0.25))
        log_odds = log_odds + jnp.append(label, 0.0)[data.label]  # the last, of index -1, is of other answers
    draw_states(data, sharpness * jnp.log(answers) + log_odds, sharpness * jnp.log(null))


@unconstrained(start=PAPER_START, n_searches=12)
def paper(data: LikelihoodData, variant: Variant = "confidence") -> None:
    """Add evidence as the paper prints it; its penalty, .001 x the squared norm, is a normal prior."""
    normal = dist.Normal(0, math.sqrt(1 / (2 * 0.001)))
    positive = dist.TransformedDistribution(normal, SoftplusTransform())
    with data.levels():
        weight = numpyro.sample("weight", positive)
        bias = numpyro.sample("bias", normal) if variant != "count" else None
        numpyro.deterministic("share", weight / jnp.sum(weight))
    slope = numpyro.sample("slope", positive) if variant == "confidence" and data.n_signals else None
    prior_strength, null_base = numpyro.sample("prior_strength", positive), numpyro.sample("null_base", positive)
    null_gain = numpyro.sample("null_gain", positive) if variant != "count" else 0.0
    _add_up(data, weight, bias, slope, prior_strength, null_base, null_gain)


@unconstrained(start=PAPER_START | {"slope": 0.05})
def release(data: LikelihoodData, variant: Variant = "confidence") -> None:
    """Add evidence as the released code does: bounds, a signed slope, .001 x the mean square added to the *mean* loss.

    Questions whose right answer nobody gave weigh, together, as much as the others: see ``data.weight``.
    """
    has_bias, has_slope = variant != "count", variant == "confidence" and data.n_signals > 0
    n_parameters = (1 + has_bias) * data.n_levels + 2 + has_bias + has_slope
    sd = jnp.sqrt(n_parameters / (2 * 0.001 * jnp.sum(data.weight)))

    def bounded(low: float, high: float) -> dist.Distribution:
        return dist.TruncatedNormal(0, sd, low=low, high=high)

    def positive(low: float, high: float) -> dist.Distribution:
        return dist.TransformedDistribution(bounded(low, high), SoftplusTransform())

    with data.levels():
        weight = numpyro.sample("weight", positive(-5.0, 3.0))
        bias = numpyro.sample("bias", bounded(-5.0, 5.0)) if has_bias else None
        numpyro.deterministic("share", weight / jnp.sum(weight))
    slope = numpyro.sample("slope", bounded(-2.0, 2.0)) if has_slope else None
    prior_strength, null_base = (numpyro.sample(name, positive(-8.0, 3.0)) for name in ("prior_strength", "null_base"))
    null_gain = numpyro.sample("null_gain", positive(-8.0, 3.0)) if has_bias else 0.0
    _add_up(data, weight, bias, slope, prior_strength, null_base, null_gain)


def _add_up(
    data: LikelihoodData,
    weight: Float[Array, " level"],
    bias: Float[Array, " level"] | None,
    slope: Float[Array, " *signal"] | None,
    prior_strength: Float[Array, ""],
    null_base: Float[Array, ""],
    null_gain: ArrayLike,
) -> None:
    """Draw the state with probabilities in proportion to the evidence: the equations of the paper."""
    belief, doubt = data.usable, jnp.zeros_like(data.usable)
    if bias is not None:
        score = data.by_report(bias) if slope is None else data.by_report(bias) + over_signals(data.logit, slope)
        belief, doubt = belief_and_doubt(score, data)
    share = prior_strength / data.n_states
    answers = share[None] + sums_by_answer(data.by_report(weight) * belief, data.candidate)
    null = share + null_base + null_gain * (data.of_columns(weight) @ doubt)
    draw_states(data, jnp.log(answers), jnp.log(null))


def model_of(preset: Preset) -> Model:
    """Return the program of a preset, on the real line; always the same one while what it reads stays the same.

    Raises
    ------
    DirEAGError
        For a program of one's own that a file does not hold, and in a process that was forked after JAX had run.
    """
    if _first_process() != os.getpid():
        raise DirEAGError(
            "this process was forked from one in which JAX has run, so that it would never end; expected one that is "
            'started anew. Use multiprocessing.get_context("spawn") or threads.'
        )
    if preset.program is None and (preset.is_own or preset.name not in _PROGRAMS):
        raise DirEAGError(
            f"the fit is of a model of its own, {preset.name}, whose function a file does not hold; expected the "
            f"function. Load it with Fit.load(FILE, preset={preset.name}); predict, evaluate, compare, explain, policy "
            f"and serve take --preset FILE.py:{preset.name}."
        )
    own = preset.program
    return _model_of(_PROGRAMS[preset.name] if own is None else _own_model(own, Surroundings.of(own)), preset.variant)


_first_process = cache(os.getpid)


@cache
def _own_model(program: Callable[..., None], surroundings: Surroundings) -> Model:  # noqa: ARG001 - compiled for these
    if hasattr(program, "n_searches"):
        return wraps(program)(partial(program))
    return unconstrained()(program)


@cache
def _model_of(program: Callable[..., None], variant: Variant) -> Model:
    return program if variant == "confidence" else wraps(program)(partial(program, variant=variant))


_PROGRAMS = {"bayes": bayes, "paper": paper, "release": release}
