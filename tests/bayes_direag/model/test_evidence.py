import jax
import jax.numpy as jnp
import numpy as np

from bayes_direag.model.evidence import both_sigmoids, sums_by_answer
from bayes_direag.model.patterns import first_mentions


def test_belief_and_doubt_keep_their_digits_in_the_tails() -> None:
    score = 3 * np.log((1 - 1e-6) / 1e-6)
    belief, doubt = both_sigmoids(jnp.asarray([-score, score]))
    np.testing.assert_allclose([belief[0], doubt[1]], [1 / (1 + np.exp(score))] * 2, rtol=1e-12)


def test_belief_and_doubt_have_their_slope_however_far_out() -> None:
    scores = np.array([-800.0, -400, -30, 0, 30, 400, 800])
    rising, falling = jax.jit(jax.vmap(jax.jacfwd(both_sigmoids)))(jnp.asarray(scores))
    odds = np.exp(-np.abs(scores))
    np.testing.assert_allclose(rising, odds / (1 + odds) ** 2, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(falling, -odds / (1 + odds) ** 2, rtol=1e-12, atol=1e-300)
    backwards = jax.jit(jax.vmap(jax.grad(lambda score: sum(both_sigmoids(score)))))(jnp.asarray(scores))
    np.testing.assert_allclose(backwards, np.zeros(7), atol=1e-15)


def test_belief_and_doubt_add_up_to_one_in_single_precision() -> None:
    """Where no number below the smallest normal one is kept, as in compiled programs."""
    scores = np.linspace(-300, 300, 601, dtype=np.float32)
    belief, doubt = jax.jit(both_sigmoids)(scores)
    assert belief.dtype == np.float32
    np.testing.assert_allclose(belief + doubt, np.ones(601), atol=1e-6)
    np.testing.assert_allclose(belief, 1 / (1 + np.exp(-scores.astype(float))), atol=1e-6)


def test_reports_of_one_answer_have_one_sum_and_its_gradient() -> None:
    candidate = np.array([[0, -1], [1, 0], [0, 0]])
    values = jnp.asarray([[1.0, 8.0], [2.0, 16.0], [4.0, 32.0]])
    np.testing.assert_array_equal(sums_by_answer(values, candidate), [[5, 0], [2, 48], [5, 48]])
    slopes = jax.grad(lambda values: jnp.sum(jnp.arange(6.0).reshape(3, 2) * sums_by_answer(values, candidate)))(values)
    np.testing.assert_array_equal(slopes, [[4, 0], [2, 8], [4, 8]])
    assert first_mentions(candidate).tolist() == [[True, False], [True, True], [False, False]]


def test_sums_of_many_reports_are_those_of_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    candidate, values = rng.integers(-1, 5, (60, 3)), rng.normal(size=(60, 3))
    expected = np.zeros((60, 3))
    for report, problem in zip(*np.nonzero(candidate >= 0), strict=True):
        same = candidate[:, problem] == candidate[report, problem]
        expected[report, problem] = values[same, problem].sum()
    np.testing.assert_allclose(sums_by_answer(values, candidate), expected, rtol=1e-12)
    slopes = jax.grad(lambda values: jnp.sum(sums_by_answer(values, candidate)))(values)
    sizes = (candidate[:, None] == candidate[None]).sum(axis=0) * (candidate >= 0)
    np.testing.assert_allclose(slopes, sizes)
