"""Where NUTS moves: its Jacobian is that of the map, and the map says what it is documented to say."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from bayes_direag import LikelihoodData, Observations, preset, simulate_observations
from bayes_direag.inference.coordinates import centring_from, recentred, to_raw
from bayes_direag.model.evidence import evidence
from bayes_direag.model.model import natural_parameters
from bayes_direag.model.settings import raw_shape


def somewhere(data: LikelihoodData) -> dict[str, jax.Array]:
    rng = np.random.default_rng(3)
    names = data.preset.free_parameters(data.variant)
    return {name: jnp.asarray(rng.normal(size=raw_shape(name, **data.sizes))) for name in names}


def some_centring(data: LikelihoodData, share: float | None = None) -> dict[str, jax.Array]:
    rng = np.random.default_rng(4)
    pooled = [name for name in data.preset.free_parameters(data.variant) if data.preset.pools(name)]
    shapes = {name: raw_shape(name, **data.sizes) for name in pooled}
    return {
        name: jnp.asarray(rng.random(shape) if share is None else np.full(shape, share))
        for name, shape in shapes.items()
    }


@pytest.mark.parametrize(
    ("name", "variant", "changes"),
    [
        ("bayes", "confidence", {}),
        ("bayes", "count", {}),
        ("bayes", "level", {"null_base": {"link": "exp"}, "weight_spread": {"link": "softplus"}}),
        ("bayes", "confidence", {"null_base": {"fixed": 0.0}}),
        ("paper", "confidence", {}),
    ],
)
def test_the_jacobian_is_that_of_the_map(
    name: str, variant: Any, changes: dict[str, Any], labelled: Observations
) -> None:
    data = LikelihoodData.of(labelled, preset=preset(name).override(**changes), variant=variant)
    data = replace(data, agreement=np.linspace(0.8, -0.9, 5))
    place, centring = somewhere(data), some_centring(data)
    flat, unravel = ravel_pytree(place)
    raw, log_jacobian = jax.jit(to_raw(data, centring))(place)
    assert {key: value.shape for key, value in raw.items()} == {key: value.shape for key, value in place.items()}
    slopes = jax.jit(jax.jacfwd(lambda vector: ravel_pytree(to_raw(data, centring)(unravel(vector))[0])[0]))(flat)
    sign, expected = np.linalg.slogdet(np.asarray(slopes))
    assert abs(sign) == 1
    np.testing.assert_allclose(float(log_jacobian), expected, rtol=1e-10, atol=1e-12)


def test_the_null_is_compared_with_itself_and_with_the_levels() -> None:
    """In a question that all levels answer alike: the odds of what doubt gives the null, and its concentration."""
    one = [{"level": level, "answer": "7", "confidence": 60} for level in range(3)]
    questions = [{"problem_id": f"q{n}", "gold_answer": "7", "observations": one} for n in range(400)]
    data = LikelihoodData.of(Observations.from_records(questions, "numeric"))
    place = somewhere(data)

    @jax.jit
    def concentrations(place: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        raw = to_raw(data, some_centring(data))(place)[0]
        parameters = natural_parameters(raw, data.preset, data.variant, data.agreement)
        weighed = evidence(data.reports, parameters)
        return weighed.null[0], weighed.share[0] + parameters.null_base, raw["weight_centre"]

    null, without_doubt, centre = map(np.asarray, concentrations(place))
    np.testing.assert_allclose(np.log(null / without_doubt - 1), place["null_gain"], atol=0.01)
    np.testing.assert_allclose(centre - np.log(null), place["weight_centre"], atol=0.01)


def test_centring_goes_from_the_offset_to_the_distance(labelled: Observations) -> None:
    data = LikelihoodData.of(labelled)
    place = somewhere(data)
    wider = place | {"weight_spread": place["weight_spread"] + 1.0}
    for share in (0.0, 0.3, 1.0):
        centring = some_centring(data, share)
        raw_of = jax.jit(to_raw(data, centring))
        first, second = (raw_of(one)[0] for one in (place, wider))
        np.testing.assert_allclose(second["weight"] / first["weight"], np.exp(-share), rtol=1e-12)
        back, _ = raw_of(recentred(place, centring, data.preset))
        np.testing.assert_allclose(back["weight"], place["weight"], rtol=1e-12)


def test_levels_that_labels_settle_are_centred_and_open_ones_are_not() -> None:
    """A Hessian by hand, in the order of the names: an open level, a half settled and a settled one; and a centre."""
    mode = {"weight": jnp.zeros(3), "weight_centre": jnp.zeros(()), "weight_spread": jnp.zeros(())}
    information = np.array([0.0, 1.0, 999.0])
    curvature = np.diag([*(1 + information), 1 / 0.3**2, 1 / 0.5**2])
    curvature[2, 4] = curvature[4, 2] = 20.0  # given the spread, what it has to do with the level does not count
    found = centring_from(jnp.asarray(curvature), mode)
    assert found.keys() == {"weight"}
    np.testing.assert_allclose(found["weight"], [0.0, 0.5, 0.999])


def test_with_a_fixed_gain_the_null_and_the_centre_stay_raw(labelled: Observations) -> None:
    data = LikelihoodData.of(labelled, preset=preset("bayes").override(null_gain={"fixed": 0.5}))
    place = somewhere(data)
    raw, _ = jax.jit(to_raw(data, some_centring(data)))(place)
    for name in ("null_base", "weight_centre"):
        assert raw[name] == place[name]


def test_several_signals_and_no_report_of_a_level() -> None:
    observations = simulate_observations(n=30, seed=1, signals=("words",))
    data = LikelihoodData.of(observations)
    silent = np.where(np.arange(5) == 2, -1, data.reports.candidate)
    nobody = replace(data, reports=data.reports._replace(candidate=silent))
    raw, log_jacobian = jax.jit(to_raw(nobody, some_centring(data)))(somewhere(data))
    assert np.isfinite(log_jacobian)
    assert all(np.isfinite(value).all() for value in raw.values())
