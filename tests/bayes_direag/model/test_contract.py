"""Mistakes in a program of one's own: each is one line, before anything is fitted."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from bayes_direag import LikelihoodData, fit_map, simulate_observations
from bayes_direag.errors import DirEAGError
from bayes_direag.model.contract import require_program
from bayes_direag.model.evidence import draw_states, sums_by_answer
from bayes_direag.model.presets import preset

QUESTIONS = simulate_observations(30, seed=3)


def finished(data: LikelihoodData, weight: object = 1.0) -> None:
    draw_states(data, sums_by_answer(weight * data.usable, data.candidate), jnp.zeros(len(data.weight)))


def mistaken(*steps: Callable[[LikelihoodData], object]) -> Callable[[LikelihoodData], None]:
    """Return a program that takes these steps, and then draws the states."""

    def my_model(data: LikelihoodData) -> None:
        numpyro.sample("rate", dist.Normal(0, 1))
        for step in steps:
            step(data)
        finished(data)

    return my_model


def no_states(data: LikelihoodData) -> None:
    with data.levels():
        numpyro.sample("weight", dist.LogNormal(0, 1))


def own_target(data: LikelihoodData) -> None:
    rate = numpyro.sample("rate", dist.Normal(0, 1))
    with numpyro.plate("problem", len(data.weight)):
        numpyro.sample("target", dist.Bernoulli(logits=rate), obs=jnp.asarray(data.target >= 0, int))


def no_parameter(data: LikelihoodData) -> None:
    finished(data)


def misspelt(data: LikelihoodData) -> None:
    numpyro.sample("rate", dist.Normal(0, 1))
    finished(data.logits)


def two_arguments(data: LikelihoodData, spread: float) -> None:
    numpyro.sample("rate", dist.Normal(0, spread))
    finished(data)


def impossible(data: LikelihoodData) -> None:
    numpyro.sample("rate", dist.Normal(0, 1))
    draw_states(data, jnp.full(data.candidate.shape, -jnp.inf), jnp.zeros(len(data.weight)))


def undefined(data: LikelihoodData) -> None:
    rate = numpyro.sample("rate", dist.Normal(0, 1))
    finished(data, jnp.log(-1.0 - rate**2))


def within_questions(data: LikelihoodData) -> None:
    with numpyro.plate("question", len(data.weight)):
        ease = numpyro.sample("ease", dist.Normal(0, 1))
    finished(data, ease[None])


def half_observed(_: LikelihoodData) -> None:
    numpyro.sample("seen", dist.Normal(0, 1), obs=jnp.array(0.5))


MISTAKES = {
    "no states": (no_states, "it does not draw the states; expected draw_states"),
    "a target of its own": (own_target, "it does not draw the states; expected draw_states"),
    "no parameter": (no_parameter, "it has no parameter; expected at least one numpyro.sample"),
    "a misspelt field": (misspelt, r"\(test_contract.py, line \d+\): AttributeError: .*logits"),
    "a missing argument": (two_arguments, "TypeError: .*missing 1 required positional argument: 'spread'"),
    "a state of no probability": (impossible, "log density at the start is not finite: the probability of the state"),
    "a term that is NaN": (undefined, "log density at the start is not finite"),
    "a value for each question": (
        within_questions,
        r"site 'ease' has the shape \(30,\), which grows with the questions",
    ),
    "a param": (mistaken(lambda _: numpyro.param("p", 1.0)), "'p' is a numpyro.param; expected a prior"),
    "a discrete site": (mistaken(lambda _: numpyro.sample("k", dist.Poisson(2.0))), "'k' is discrete"),
    "an improper prior": (
        mistaken(lambda _: numpyro.sample("u", dist.ImproperUniform(dist.constraints.real, (), ()))),
        "a prior that cannot be drawn from, such as an improper one",
    ),
    "a second observed site": (mistaken(half_observed), "site 'seen' is observed; expected the states as the only"),
    "a name with a slash": (mistaken(lambda _: numpyro.sample("a/b", dist.Normal(0, 1))), "a site is called 'a/b'"),
    "a name of a dimension": (mistaken(lambda _: numpyro.sample("level", dist.Normal(0, 1))), "is called 'level'"),
    "a vector without a plate": (
        mistaken(lambda data: numpyro.sample("w", dist.Normal(jnp.zeros(data.n_levels), 1))),
        r"site 'w' has the shape \(5,\), its plates are none; expected one value for each member",
    ),
    "the same name twice": (mistaken(lambda _: numpyro.sample("rate", dist.Normal(0, 1))), "rate"),
    "a determinstic of the questions": (
        mistaken(lambda data: numpyro.deterministic("score", data.logit)),
        r"site 'score' has the shape \(5, 30\), which grows",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_contract_refuses(mistake: str) -> None:
    program, message = MISTAKES[mistake]
    data = LikelihoodData.of(QUESTIONS, preset=program)
    with pytest.raises(DirEAGError, match=message) as caught:
        require_program(preset(program), data)
    assert str(caught.value).count("\n") == 0
    assert str(caught.value).startswith(f"model {program.__name__}")


def test_contract_holds_before_a_fit() -> None:
    with pytest.raises(DirEAGError, match="model no_states: it does not draw the states"):
        fit_map(QUESTIONS, preset=no_states)


def simplex(data: LikelihoodData) -> None:
    share = numpyro.sample("portion", dist.Dirichlet(jnp.ones(data.n_levels)))
    finished(data, data.by_report(share))


def own_plate(data: LikelihoodData) -> None:
    with numpyro.plate("family", 2, dim=-2):
        skill = numpyro.sample("skill", dist.Cauchy(0, 1))
    finished(data, data.by_report(skill[np.arange(data.n_levels) % 2, 0]))


def factored(data: LikelihoodData) -> None:
    rate = numpyro.sample("rate", dist.Normal(0, 1))
    numpyro.factor("narrow", -(rate**2))
    numpyro.deterministic("twice", 2 * rate)
    finished(data, rate)


@pytest.mark.parametrize("program", [simplex, own_plate, factored])
def test_contract_takes_what_is_right(program: Callable[[LikelihoodData], None]) -> None:
    """Vectors of an event, plates of one's own with priors that have no mean, and factors."""
    with jax.numpy_rank_promotion("allow"):  # of numpyro's Dirichlet
        require_program(preset(program), LikelihoodData.of(QUESTIONS, preset=program))
