"""Mistakes in a program of one's own: each is one line, before anything is fitted."""

from collections.abc import Callable
from itertools import count

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan
from numpyro.infer.reparam import LocScaleReparam

from bayes_direag import LikelihoodData, fit_map, simulate_observations
from bayes_direag.errors import DirEAGError
from bayes_direag.model.contract import require_program
from bayes_direag.model.evidence import draw_states, sums_by_answer
from bayes_direag.model.presets import preset
from bayes_direag.model.unconstrained import unconstrained

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


def one_by_one(data: LikelihoodData) -> None:
    for number in range(len(data.weight)):
        numpyro.sample(f"ease_{number}", dist.Normal(0, 1))
    finished(data)


def within_a_plate(data: LikelihoodData) -> None:
    rate = numpyro.sample("rate", dist.Normal(0, 1))
    with numpyro.plate("problem", len(data.weight)):
        finished(data, rate)


def of_levels(data: LikelihoodData) -> None:
    rate = numpyro.sample("rate", dist.Normal(0, 1))
    draw_states(data, rate * data.usable[0], jnp.zeros(len(data.weight)))


def kinked(data: LikelihoodData) -> None:
    finished(data, jnp.sqrt(numpyro.sample("rate", dist.Normal(0, 1)) ** 2))


def rotated(data: LikelihoodData) -> None:
    finished(data, 1j * numpyro.sample("rate", dist.Normal(0, 1)))


def told(data: LikelihoodData) -> None:
    finished(data, numpyro.sample("rate", dist.Normal(0, 1)) * (data.target >= 0)[None])


def told_if_known(data: LikelihoodData) -> None:
    known = 0.0 if data.target is None else (data.target >= 0)[None]
    finished(data, numpyro.sample("rate", dist.Normal(0, 1)) + known)


def standardised(data: LikelihoodData) -> None:
    finished(data, numpyro.sample("rate", dist.Normal(0, 1)) * (data.logit - data.logit.mean()))


def noisy(data: LikelihoodData) -> None:
    rate = numpyro.sample("rate", dist.Normal(0, 1))
    finished(data, rate + jax.random.normal(numpyro.prng_key()))


def noisy_with_a_key(data: LikelihoodData) -> None:
    rate, key = numpyro.sample("rate", dist.Normal(0, 1)), numpyro.prng_key()
    finished(data, rate if key is None else rate + jax.random.normal(key, (1, len(data.weight))))


def noisy_by_place(data: LikelihoodData) -> None:
    rate = numpyro.sample("rate", dist.Normal(0, 1))
    finished(data, rate + jax.random.normal(jax.random.key(1), (1, len(data.weight))))


def hidden(data: LikelihoodData) -> None:
    rate = numpyro.sample("rate", dist.Normal(0, 1))
    with numpyro.handlers.block():
        finished_by = numpyro.sample("noise", dist.Normal(0, 1))
    finished(data, rate + finished_by)


RUNS = count()


def renamed(data: LikelihoodData) -> None:
    numpyro.sample(f"rate_{next(RUNS)}", dist.Normal(0, 1))
    finished(data)


def branching(data: LikelihoodData) -> None:
    rate = numpyro.sample("rate", dist.Normal(0, 1))
    finished(data, rate if rate > 0 else 0.0)


@unconstrained(noncentered=("wieght_base",))
def misnamed(data: LikelihoodData) -> None:
    with data.levels():
        weight = numpyro.sample("weight", dist.LogNormal(0, 1))
    finished(data, data.by_report(weight))


@unconstrained(start={"weight": 1.0})
def started_elsewhere(data: LikelihoodData) -> None:
    misnamed.__wrapped__(data)


def plated(name: str, *sizes: int, **keywords: int) -> Callable[[LikelihoodData], None]:
    """Return a step that draws a value for each member of plates of this name."""

    def step(_: LikelihoodData) -> None:
        for number, size in enumerate(sizes):
            with numpyro.plate(name, size, **keywords):
                numpyro.sample(f"effect_{number}", dist.Normal(0, 1))

    return step


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
        "a name twice, or an improper prior, which cannot be drawn from",
    ),
    "a second observed site": (mistaken(half_observed), "site 'seen' is observed; expected the states as the only"),
    "a name with a slash": (mistaken(lambda _: numpyro.sample("a/b", dist.Normal(0, 1))), "a site is called 'a/b'"),
    "a name of a dimension": (mistaken(lambda _: numpyro.sample("level", dist.Normal(0, 1))), "is called 'level'"),
    "a vector without a plate": (
        mistaken(lambda data: numpyro.sample("w", dist.Normal(jnp.zeros(data.n_levels), 1))),
        r"site 'w' has the shape \(5,\), its plates are none; expected one value for each member",
    ),
    "the same name twice": (mistaken(lambda _: numpyro.sample("rate", dist.Normal(0, 1))), "rate"),
    "a site for each question, by name": (
        one_by_one,
        "its sites change with the questions .*: ease_2, ease_3, ease_4;",
    ),
    "states within a plate": (within_a_plate, "it draws the states within a plate; expected draw_states outside"),
    "evidence of another shape": (of_levels, r"saw answers of shape \(30,\) .* for \(report, problem\) = \(5, 30\)"),
    "a kink at the start": (kinked, "the slope of its log density along 'rate' is not finite at the start"),
    "evidence that is not real": (rotated, "model rotated .*Error: .*complex"),
    "a label": (told, r"\(test_contract.py, line \d+\): TypeError: .*NoneType.* on questions without labels too"),
    "a label, if there is one": (told_if_known, "the probability of a state depends on its label"),
    "a mean over questions": (standardised, "depends on its label, on the other questions, or on chance"),
    "a random number": (noisy, "it draws random numbers by numpyro.prng_key or a hidden site"),
    "a random number where there is a key": (noisy_with_a_key, "it draws random numbers by numpyro.prng_key"),
    "a random number of each place": (noisy_by_place, "depends on its label, on the other questions, or on chance"),
    "a hidden site": (hidden, "it draws random numbers by numpyro.prng_key or a hidden site"),
    "other sites in every run": (renamed, "its sites change with the questions or from run to run: rate_1, rate_2"),
    "a branch on a value": (branching, r"\(test_contract.py, line \d+\): TracerBoolConversionError"),
    "a site to move that there is not": (
        misnamed,
        "unconstrained names 'wieght_base'; expected .*: weight_base. A pos",
    ),
    "a start of a natural parameter": (started_elsewhere, "unconstrained names 'weight'; expected .*: weight_base."),
    "a compiled function": (jax.jit(mistaken()), "its sites change with .*: rate; expected"),
    "a point mass": (mistaken(lambda _: numpyro.sample("k", dist.Delta(1.0))), "'k' has a point mass as its prior"),
    "a negative spread": (mistaken(lambda _: numpyro.sample("s", dist.Normal(0, -1.0))), "invalid scale parameter"),
    "a name that is no text": (
        mistaken(lambda _: numpyro.sample(3, dist.Normal(0, 1))),
        "a site is called 3; expected",
    ),
    "a name with a sign": (mistaken(lambda _: numpyro.sample("$a", dist.Normal(0, 1))), "a site is called '\\$a'"),
    "a plate of chains": (mistaken(plated("chain", 3)), "a plate of 3 is called 'chain'; expected"),
    "levels of another number": (mistaken(plated("level", 3)), "a plate of 3 is called 'level'; expected"),
    "a plate with a slash": (mistaken(plated("a/b", 3)), "a plate of 3 is called 'a/b'; expected"),
    "two sizes of a plate": (mistaken(plated("family", 2, 3)), "plate 'family' has 2 and 3 members; expected one size"),
    "a subsample": (mistaken(plated("family", 4, subsample_size=2)), "plate 'family' takes a subsample; expected all"),
    "a plate of the name of a site": (mistaken(plated("rate", 2)), r"\(test_contract.py, line \d+\): AssertionError: "),
    "a complex value": (
        mistaken(lambda _: numpyro.deterministic("z", jnp.asarray(1j))),
        "'z' is complex; expected real numbers",
    ),
    "a simplex of one": (
        mistaken(lambda _: numpyro.sample("one", dist.Dirichlet(jnp.ones(1)))),
        "'one' leaves nothing to learn; expected a value that can vary",
    ),
    "a determinstic of the questions": (
        mistaken(lambda data: numpyro.deterministic("score", data.logit)),
        r"site 'score' has the shape \(5, 30\), which grows",
    ),
}


@pytest.mark.usefixtures("unchecked_types")  # the shapes of draw_states are checked before it is asked
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


def masked(data: LikelihoodData) -> None:
    rate = numpyro.sample("rate", dist.Normal(0, 1))
    with numpyro.handlers.mask(mask=data.n_candidates > 1):
        finished(data, rate)


def reparametrised(data: LikelihoodData) -> None:
    centre = numpyro.sample("centre", dist.Normal(0, 1))
    with numpyro.handlers.reparam(config={"skill": LocScaleReparam(0)}), data.levels():
        skill = numpyro.sample("skill", dist.Normal(centre, 0.5))
    finished(data, data.by_report(skill))


def scanned(data: LikelihoodData) -> None:
    def step(before: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        skill = numpyro.sample("skill", dist.Normal(before, 0.5))
        return skill, skill

    _, skills = scan(step, jnp.zeros(()), None, length=data.n_levels)
    finished(data, data.by_report(jax.lax.cond(skills[0] > 0, jnp.asarray, jnp.negative, skills)))


def one_null(data: LikelihoodData) -> None:
    rate = numpyro.sample("rate", dist.Normal(0, 1))
    draw_states(data, sums_by_answer(1.0 * data.usable, data.candidate), rate)


def null_of_a_number(data: LikelihoodData) -> None:
    rate = numpyro.sample("rate", dist.Normal(0, 1))
    draw_states(data, rate * sums_by_answer(1.0 * data.usable, data.candidate), 0)


RIGHT = [one_null, null_of_a_number, simplex, own_plate, factored, masked, reparametrised, scanned]


@pytest.mark.parametrize("program", RIGHT)
def test_contract_takes_what_is_right(program: Callable[[LikelihoodData], None]) -> None:
    """Vectors of an event, plates with priors that have no mean, factors, masks, own reparametrisation, loops."""
    with jax.numpy_rank_promotion("allow"):  # of numpyro's Dirichlet
        require_program(preset(program), LikelihoodData.of(QUESTIONS, preset=program))


def half_used(data: LikelihoodData) -> None:
    """Draw two sites that nothing depends on, one of them positive, and others in a chain of priors."""
    numpyro.sample("idle", dist.Normal(0, 1))
    numpyro.sample("scale", dist.LogNormal(0, 1))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    with data.levels():
        weight = numpyro.sample("weight", dist.LogNormal(0, spread))
    with numpyro.plate("idle_plate", 3):
        numpyro.deterministic("shown", numpyro.sample("vector", dist.Normal(0, 1)) + 1)
    finished(data, data.of_columns(weight)[:, None])


def test_contract_tells_sites_that_nothing_uses() -> None:
    """By the program itself: where another value changes no probability of a state and no prior of another site."""
    with pytest.warns(UserWarning, match=r"model half_used: saw the site idle, scale, vector; nothing depends on it"):
        require_program(preset(half_used), LikelihoodData.of(QUESTIONS))
