"""Where NUTS moves under bayes: the inverse and the change of volume are those of the map, which is as documented."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from bayes_direag import LikelihoodData, Observations, bayes, paper, preset, simulate_observations
from bayes_direag.inference.coordinates import Coordinates, References, straightened
from bayes_direag.model.unconstrained import evaluated
from tests.bayes_direag.model.test_models import some_unconstrained


@pytest.mark.parametrize("y", [-60.0, -2.0, 0.3, 4.0], ids=["far left", "left", "middle", "right"])
@pytest.mark.parametrize("signals", [(), ("words",)])
def test_coordinates_have_the_volume_and_the_inverse_of_their_map(signals: tuple[str, ...], y: float) -> None:
    data = LikelihoodData.of(simulate_observations(40, seed=1, signals=signals))
    data = replace(data, agreement=np.linspace(0.8, -0.9, 5))
    references = References(jnp.linspace(-0.4, 0.9, max(data.n_signals, 1)), jnp.asarray(-1.3))
    point = some_unconstrained(preset("bayes"), data) | {"weight_centre": jnp.asarray(y)}
    flat, unravel = ravel_pytree(point)
    coordinates = Coordinates(bayes, data)

    @jax.jit
    def there(vector):
        moved, volume = coordinates.to_unconstrained(unravel(vector), references)
        return ravel_pytree(moved)[0], volume, ravel_pytree(coordinates.of_unconstrained(moved, references))[0]

    _, volume, back = there(flat)
    sign, log_determinant = np.linalg.slogdet(np.asarray(jax.jacfwd(lambda vector: there(vector)[0])(flat)))
    assert abs(sign) == 1
    np.testing.assert_allclose(volume, log_determinant, atol=1e-9)
    np.testing.assert_allclose(back, flat, rtol=1e-9, atol=1e-9)


def test_coordinates_compare_doubt_with_the_base_and_answers_with_the_null() -> None:
    """In questions that all levels answer alike, as sure of it."""
    one = [{"level": level, "answer": "7", "confidence": 60} for level in range(3)]
    questions = [{"problem_id": f"q{n}", "gold_answer": "7", "observations": one} for n in range(4000)]
    data = LikelihoodData.of(Observations.from_records(questions, "numeric"))
    references = References(np.array([data.logit[0, 0]]), np.asarray(-0.7))
    coordinates = Coordinates(bayes, data)

    @jax.jit
    def natural_at(point):
        return evaluated(bayes, coordinates.to_unconstrained(point, references)[0], data).natural

    for y in (3.0, 0.4, -6.0):
        point = some_unconstrained(preset("bayes"), data) | {"weight_centre": jnp.asarray(y)}
        natural = {name: np.asarray(value) for name, value in natural_at(point).items()}
        belief = 1 / (1 + np.exp(-(natural["bias"] + natural["slope"] * data.logit[0, 0])))
        total, share, kappa = natural["weight"].sum(), 0.5, natural["sharpness"]
        doubt = total * (1 - belief)
        np.testing.assert_allclose(np.log(doubt / (share + natural["null_base"])), point["bias"], atol=0.01)
        t = y / kappa + np.log((share + natural["null_base"] + doubt) / share) + 0.7
        u = t - (2 * kappa - 1) * np.log1p(np.exp(-t))
        np.testing.assert_allclose(np.log(total * belief / share), u, atol=0.01)


@pytest.mark.parametrize("signals", [(), ("words",)])
def test_references_leave_no_ridge_along_the_sharpness_and_stay_among_the_logits(signals: tuple[str, ...]) -> None:
    """Within a standard deviation of their mean."""
    data = LikelihoodData.of(simulate_observations(40, seed=1, signals=signals))
    mode = {name: jnp.asarray(value) for name, value in some_unconstrained(preset("bayes"), data).items()}
    flat, unravel = ravel_pytree(mode)
    size = len(flat)
    root = np.random.default_rng(0).normal(size=(size, size)) / np.sqrt(size)
    covariance = 0.1 * np.eye(size) + 0.1 * root @ root.T
    point, moved, references = straightened(bayes, data, flat, covariance)
    place = {name: np.atleast_1d(at) for name, at in unravel(np.arange(size)).items()}
    y, sharpness = place["weight_centre"][0], place["sharpness_base"][0]
    assert abs(moved[y, sharpness]) < 1e-9 * np.sqrt(moved[y, y] * moved[sharpness, sharpness])
    back, _ = Coordinates(bayes, data).to_unconstrained(unravel(point), references)
    np.testing.assert_allclose(ravel_pytree(back)[0], flat, rtol=1e-9, atol=1e-9)
    mean, spread = Coordinates(bayes, data).logits()
    assert (np.abs(references.logit - mean) <= spread).all()
    weight = np.asarray(data.usable) * data.weight
    for number, logits in enumerate(np.reshape(data.logit, (-1, *weight.shape))):
        assert mean[number] == pytest.approx((logits * weight).sum() / (5 + weight.sum()))


def test_coordinates_of_a_level_without_reports_and_of_another_model(labelled: Observations) -> None:
    data = LikelihoodData.of(labelled)
    nobody = replace(data, candidate=np.where(np.arange(5)[:, None] == 2, -1, data.candidate))
    references = References(np.zeros(1), np.zeros(()))
    unconstrained, volume = Coordinates(bayes, nobody).to_unconstrained(
        some_unconstrained(preset("bayes"), data), references
    )
    assert all(np.isfinite(value).all() for value in (*unconstrained.values(), volume))
    point = {"anything": jnp.ones(3)}
    others = Coordinates(paper, data)
    assert others.to_unconstrained(point, None) == (point, 0.0)
    assert others.of_unconstrained(point, None) is point
    assert straightened(paper, data, np.ones(3), np.eye(3)) == (
        pytest.approx(np.ones(3)),
        pytest.approx(np.eye(3)),
        None,
    )
