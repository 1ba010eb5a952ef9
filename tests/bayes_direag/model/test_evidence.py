import jax
import jax.numpy as jnp
import numpy as np

from bayes_direag.model.equations import Parameters, Reports, clipped_logit
from bayes_direag.model.evidence import calibrate, log_scores
from tests.bayes_direag.conftest import EPS, natural_parameters


def parameters(n_levels: int) -> Parameters:
    return jax.tree.map(jnp.asarray, natural_parameters(n_levels))


def test_belief_and_doubt_keep_their_digits_in_the_tails() -> None:
    stated = jnp.asarray(clipped_logit(np.array([[0.0, 1.0]]), EPS))
    steep = parameters(2)._replace(bias=jnp.zeros(2), slope=jnp.asarray(3.0))
    belief, doubt = calibrate(stated, steep)
    odds = ((1 - EPS) / EPS) ** 3
    np.testing.assert_allclose(np.asarray(doubt)[0, 1], 1 / (1 + odds), rtol=1e-9)
    np.testing.assert_allclose(np.asarray(belief)[0, 0], 1 / (1 + odds), rtol=1e-9)


def test_belief_and_doubt_have_their_slope_however_far_out() -> None:
    def halves(score: jax.Array) -> tuple[jax.Array, jax.Array]:
        belief, doubt = calibrate(jnp.zeros(1), parameters(1)._replace(bias=score[None]))
        return belief[0], doubt[0]

    scores = np.array([-800.0, -400, -30, 0, 30, 400, 800])
    rising, falling = jax.jit(jax.vmap(jax.jacfwd(halves)))(jnp.asarray(scores))
    odds = np.exp(-np.abs(scores))
    np.testing.assert_allclose(rising, odds / (1 + odds) ** 2, rtol=1e-12)
    np.testing.assert_allclose(falling, -odds / (1 + odds) ** 2, rtol=1e-12)
    backwards = jax.jit(jax.vmap(jax.grad(lambda score: sum(halves(score)))))(jnp.asarray(scores))
    np.testing.assert_allclose(backwards, np.zeros(7), atol=1e-15)


def test_single_precision_agrees_to_single_precision() -> None:
    rng = np.random.default_rng(1)
    some = Reports(rng.normal(size=(50, 4)), rng.integers(0, 3, (50, 4)), np.full(50, 3))
    rounded = some._replace(logit_confidence=some.logit_confidence.astype(np.float32))
    ours = log_scores(rounded, parameters(4))
    assert ours.dtype == jnp.float32
    expected = np.asarray(log_scores(some, parameters(4)))
    np.testing.assert_allclose(np.asarray(ours), expected, rtol=2e-5, atol=2e-5)
