import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_direag.fits.selection import select_reports
from bayes_direag.model.evidence import Parameters, Reports, clipped_logit, concentration
from tests.bayes_direag import brute_force

EPS = 1e-6

CONFIDENCE = np.array([[1.0, 0.9, 0.3], [0.95, 1.0, 1.0], [0.5, 0.6, 0.0], [0.5, 0.5, 0.5]])
REPORTS = Reports(
    logit_confidence=clipped_logit(CONFIDENCE, EPS),
    candidate=np.array([[0, 1, 0], [0, 0, 0], [-1, 0, 1], [-1, -1, -1]]),
    n_candidates=np.array([2, 1, 2, 0]),
)


@pytest.mark.parametrize("largest", [0.0, 40.0, 640.0])
def test_a_weight_that_dwarfs_the_others_leaves_the_null_its_digits(largest: float) -> None:
    """What its reports lack of certainty is far below the rounding of the weight itself, and above the rest."""
    own = Parameters(
        weight=jnp.exp(jnp.array([largest, 0.0, 0.5])),
        prior_strength=jnp.array(0.4),
        null_base=jnp.array(0.15),
        bias=jnp.array([0.9 * largest, -0.3, 0.4]),
        slope=jnp.array(0.7),
        null_gain=jnp.array(0.6),
    )
    samples = jax.tree.map(lambda value: jnp.stack([value, value]), own)
    (found,) = select_reports(REPORTS, samples, lambda _, selection: selection)
    alpha = np.asarray(concentration(REPORTS, own))
    plain = {name: value.tolist() for name, value in own._asdict().items()}
    for question in range(4):
        rows = zip(REPORTS.candidate[question].tolist(), CONFIDENCE[question].tolist(), strict=True)
        told = [(level, str(a), stated) for level, (a, stated) in enumerate(rows) if a >= 0]
        expected = brute_force.support(brute_force.concentrations(told, plain, EPS))
        null = expected.pop(brute_force.NULL)
        np.testing.assert_allclose(found.null_probability[question], null, rtol=1e-12)
        np.testing.assert_allclose(alpha[question, -1] / alpha[question].sum(), null, rtol=1e-12)
        assert found.candidate[question] == max([-1, *map(int, expected)], key=lambda k: expected.get(str(k), 0.0))
        if expected:
            np.testing.assert_allclose(found.support[:, question], max(expected.values()), rtol=1e-12)
