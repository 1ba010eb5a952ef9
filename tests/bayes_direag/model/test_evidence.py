from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from bayes_direag.model import evidence as equations
from bayes_direag.model.evidence import Parameters, Reports, calibrate, supports
from bayes_direag.model.selection import clipped_logit
from tests.bayes_direag import brute_force
from tests.bayes_direag.conftest import EPS, reports

VARIANTS = ("count", "level", "confidence")
BEYOND = ("sharpness", "vote", "vote_slope")
#: Which terms beyond the paper are left out; only variant confidence has a slope of votes to leave out.
FAMILY = [
    pytest.param(variant, left_out, id=f"{variant}-without {' '.join(left_out)}")
    for variant in VARIANTS
    for n in range(4)
    for left_out in combinations(BEYOND if variant == "confidence" else BEYOND[:2], n)
]

#: Compiled, as wherever they are used.
concentration, evidence = map(jax.jit, (equations.concentration, equations.evidence))
support, log_scores = jax.jit(equations.support, static_argnums=2), jax.jit(equations.log_scores, static_argnums=3)


def parameters(n_levels: int, variant: str = "confidence", *, seed: int = 3) -> Parameters:
    """Asymmetric parameters, so that a reversed or shuffled level order shows."""
    rng = np.random.default_rng(seed)
    full = Parameters(
        weight=jnp.asarray(np.linspace(0.3, 1.7, n_levels)),
        prior_strength=jnp.asarray(0.4),
        null_base=jnp.asarray(0.15),
        bias=jnp.asarray(np.sort(rng.normal(size=n_levels))),
        slope=jnp.asarray(0.7),
        null_gain=jnp.asarray(0.6),
        sharpness=jnp.asarray(1.4),
        vote=jnp.asarray(np.linspace(0.6, -0.2, n_levels)),
        vote_slope=jnp.asarray(0.15),
    )
    if variant == "count":
        return full._replace(bias=None, slope=None, null_gain=None, vote_slope=None)
    return full if variant == "confidence" else full._replace(slope=None, vote_slope=None)


def without(values: Parameters, *names: str) -> Parameters:
    return values._replace(**dict.fromkeys(names))


def in_paper(values: Parameters) -> Parameters:
    return without(values, *BEYOND)


def both(given_reports: Reports, values: Parameters) -> np.ndarray:
    """Return concentrations and, sharpened and with votes, support."""
    return np.stack([concentration(given_reports, values), support(given_reports, values)])


def as_dict(values: Parameters) -> dict[str, object]:
    return {name: None if value is None else np.asarray(value).tolist() for name, value in values._asdict().items()}


@pytest.mark.parametrize("variant", VARIANTS)
@given(given_reports=reports())
def test_concentration_is_the_printed_equation(variant: str, given_reports: Reports) -> None:
    values = parameters(given_reports.candidate.shape[1], variant)
    alpha = np.asarray(concentration(given_reports, values))
    for row, candidate, confidence, k in zip(
        alpha, given_reports.candidate, expit(given_reports.logit_confidence), given_reports.n_candidates, strict=True
    ):
        own = [(level, str(a), float(confidence[level])) for level, a in enumerate(candidate) if a >= 0]
        expected = brute_force.concentrations(own, as_dict(values), EPS)
        np.testing.assert_allclose(row[:k], [expected[str(a)] for a in range(k)], rtol=1e-12)
        np.testing.assert_allclose(row[-1], expected[brute_force.NULL], rtol=1e-12)
        assert (row[k:-1] == 0).all()


@pytest.mark.parametrize(("variant", "left_out"), FAMILY)
@given(given_reports=reports())
@settings(max_examples=8)
def test_support_is_the_printed_equation(variant: str, left_out: tuple[str, ...], given_reports: Reports) -> None:
    values = without(parameters(given_reports.candidate.shape[1], variant), *left_out)
    assert_printed(np.asarray(support(given_reports, values)), given_reports, values)


def assert_printed(found: np.ndarray, given_reports: Reports, values: Parameters) -> None:
    for row, candidate, confidence, k in zip(
        found, given_reports.candidate, expit(given_reports.logit_confidence), given_reports.n_candidates, strict=True
    ):
        own = [(level, str(a), float(confidence[level])) for level, a in enumerate(candidate) if a >= 0]
        expected = brute_force.support(brute_force.scores(own, as_dict(values), EPS))
        np.testing.assert_allclose(row[:k], [expected[str(a)] for a in range(k)], rtol=1e-11)
        np.testing.assert_allclose(row[-1], expected[brute_force.NULL], rtol=1e-11)
        assert (row[k:-1] == 0).all()


@given(given_reports=reports())
@settings(max_examples=15)
def test_room_for_no_more_candidates_than_there_are_changes_nothing(given_reports: Reports) -> None:
    values = parameters(4)
    for most in {max(int(given_reports.n_candidates.max()), 1), 6}:
        for one in (values, in_paper(values)):
            found, wide = np.asarray(support(given_reports, one, most)), np.asarray(support(given_reports, one))
            assert found.shape[1] == most + 1
            shared = min(most, 4)
            np.testing.assert_allclose(found[:, :shared], wide[:, :shared], rtol=1e-12)
            np.testing.assert_allclose(found[:, -1], wide[:, -1], rtol=1e-12)
            assert (found[:, shared:-1] == 0).all()


@given(given_reports=reports(), seed=st.integers(0, 99))
def test_questions_candidates_and_levels_have_no_order(given_reports: Reports, seed: int) -> None:
    values, rng = parameters(given_reports.candidate.shape[1]), np.random.default_rng(seed)
    before = both(given_reports, values)
    order = rng.permutation(len(given_reports.n_candidates))
    np.testing.assert_allclose(both(given_reports.select(order), values), before[:, order], rtol=1e-12)

    order = rng.permutation(given_reports.candidate.shape[1])
    shuffled = Reports(
        given_reports.logit_confidence[:, order], given_reports.candidate[:, order], given_reports.n_candidates
    )
    permuted = values._replace(weight=values.weight[order], bias=values.bias[order], vote=values.vote[order])
    np.testing.assert_allclose(both(shuffled, permuted), before, rtol=1e-12)

    candidate, expected = given_reports.candidate.copy(), before.copy()
    for i, k in enumerate(given_reports.n_candidates):
        new = rng.permutation(k)
        candidate[i] = np.where(candidate[i] >= 0, np.append(new, -1)[candidate[i]], -1)
        expected[:, i, new] = before[:, i, :k]
    np.testing.assert_allclose(both(given_reports._replace(candidate=candidate), values), expected, rtol=1e-12)


def test_reversing_levels_alone_does_change_support() -> None:
    one = Reports(clipped_logit(np.array([[0.9, 0.9, 0.2]]), EPS), np.array([[0, 0, 1]]), np.array([2]))
    values = parameters(3)
    reversals = [{"vote": values.vote[::-1]}, {"weight": values.weight[::-1], "bias": values.bias[::-1]}]
    for reversal in reversals:
        both_orders = jax.tree.map(lambda *pair: jnp.stack(pair), values, values._replace(**reversal))
        ours, theirs = np.asarray(supports(one, both_orders))
        np.testing.assert_allclose(ours, np.asarray(support(one, values)), rtol=1e-13)
        assert np.abs(ours - theirs).max() > 0.05


@given(given_reports=reports(), higher=st.floats(0, 1), place=st.tuples(st.integers(0, 5), st.integers(0, 3)))
def test_a_higher_confidence_never_lowers_its_candidate(
    given_reports: Reports, higher: float, place: tuple[int, int]
) -> None:
    i, level = place[0] % given_reports.candidate.shape[0], place[1] % given_reports.candidate.shape[1]
    mine = given_reports.candidate[i, level]
    raised = given_reports.logit_confidence.copy()
    raised[i, level] = clipped_logit(np.array(higher), EPS)
    if mine < 0 or raised[i, level] < given_reports.logit_confidence[i, level]:
        return
    values = parameters(given_reports.candidate.shape[1])
    before, after = both(given_reports, values), both(given_reports._replace(logit_confidence=raised), values)
    rounding = np.array([0.0, 1e-14])  # the concentrations have none
    assert (after[:, i, mine] >= before[:, i, mine] * (1 - rounding)).all()
    assert (after[:, i, -1] <= before[:, i, -1] * (1 + rounding)).all()


@given(given_reports=reports(), factor=st.floats(0.01, 100))
def test_the_common_scale_is_not_identified(given_reports: Reports, factor: float) -> None:
    values = parameters(given_reports.candidate.shape[1])
    scaled = values._replace(
        weight=factor * values.weight,
        prior_strength=factor * values.prior_strength,
        null_base=factor * values.null_base,
    )
    ours, theirs = (np.asarray(support(given_reports, v)) for v in (values, scaled))
    np.testing.assert_allclose(theirs, ours, rtol=1e-10)


def test_a_question_without_reports_has_only_the_null() -> None:
    nothing = Reports(np.zeros((1, 3)), np.full((1, 3), -1), np.array([0]))
    assert np.asarray(support(nothing, parameters(3))).tolist() == [[0, 0, 0, 1]]


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
    double = parameters(4)
    single = jax.tree.map(lambda value: value.astype(jnp.float32), double)
    rounded = some._replace(logit_confidence=some.logit_confidence.astype(np.float32))
    for of in (concentration, support):
        ours = of(rounded, single)
        assert ours.dtype == jnp.float32
        np.testing.assert_allclose(np.asarray(ours), np.asarray(of(some, double)), rtol=2e-5)
