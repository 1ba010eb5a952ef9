"""Where NUTS moves under bayes: its Jacobian determinant is 1, and it compares the null as documented."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from bayes_direag import LikelihoodData, Observations, bayes, paper, preset, simulate_observations
from bayes_direag.inference.coordinates import to_unconstrained
from bayes_direag.model.unconstrained import evaluated
from tests.bayes_direag.model.test_models import some_unconstrained


@pytest.mark.parametrize("signals", [(), ("words",)])
def test_coordinates_keep_volumes(signals: tuple[str, ...]) -> None:
    data = LikelihoodData.of(simulate_observations(40, seed=1, signals=signals))
    data = replace(data, agreement=np.linspace(0.8, -0.9, 5))
    point = some_unconstrained(preset("bayes"), data)
    flat, unravel = ravel_pytree(point)
    slopes = jax.jit(jax.jacfwd(lambda vector: ravel_pytree(to_unconstrained(bayes, data)(unravel(vector)))[0]))(flat)
    sign, log_determinant = np.linalg.slogdet(np.asarray(slopes))
    assert abs(sign) == 1
    np.testing.assert_allclose(log_determinant, 0.0, atol=1e-10)


def test_coordinates_compare_doubt_with_the_base_and_answers_with_the_null() -> None:
    """In questions that all levels answer alike, as sure of it."""
    one = [{"level": level, "answer": "7", "confidence": 60} for level in range(3)]
    questions = [{"problem_id": f"q{n}", "gold_answer": "7", "observations": one} for n in range(4000)]
    data = LikelihoodData.of(Observations.from_records(questions, "numeric"))
    point = some_unconstrained(preset("bayes"), data)
    at_point = jax.jit(lambda point: evaluated(bayes, to_unconstrained(bayes, data)(point), data).natural)(point)
    natural = {name: np.asarray(value) for name, value in at_point.items()}
    belief = 1 / (1 + np.exp(-(natural["bias"] + natural["slope"] * data.logit[0, 0])))
    total, share = natural["weight"].sum(), 0.5
    doubt = total * (1 - belief)
    np.testing.assert_allclose(np.log(doubt / (share + natural["null_base"])), point["bias"], atol=0.01)
    null = share / 2 + natural["null_base"] + doubt
    np.testing.assert_allclose(np.log(total * belief / null), point["weight_centre"], atol=0.01)


def test_coordinates_of_a_level_without_reports_and_of_another_model(labelled: Observations) -> None:
    data = LikelihoodData.of(labelled)
    nobody = replace(data, candidate=np.where(np.arange(5)[:, None] == 2, -1, data.candidate))
    unconstrained = to_unconstrained(bayes, nobody)(some_unconstrained(preset("bayes"), data))
    assert all(np.isfinite(value).all() for value in unconstrained.values())
    point = {"anything": jnp.ones(3)}
    assert to_unconstrained(paper, data)(point) is point
