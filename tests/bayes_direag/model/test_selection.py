"""The presets' equations in NumPy: by the equations in plain Python; what it must not depend on; and its limits."""

from itertools import combinations

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax

from bayes_direag.data.arrays import ranks
from bayes_direag.model import states
from bayes_direag.model.selection import Recalibration, predict, select
from tests.bayes_direag import brute_force, equations
from tests.bayes_direag.conftest import EPS, natural_parameters, reports
from tests.bayes_direag.equations import Equations, Parameters, Reports, clipped_logit

#: The terms that a model may lack: those of a variant of the paper's, each with some of the terms beyond the paper.
FAMILY = [
    (*variant, *beyond)
    for variant in ((), ("slope", "vote_slope"), ("bias", "slope", "vote_slope"))
    for n in range(4)
    for beyond in combinations(("sharpness", "vote") if variant else ("sharpness", "vote", "vote_slope"), n)
]


def without(values: Parameters, *names: str) -> Parameters:
    return values._replace(**dict.fromkeys(names))


def supports(given_reports: Reports, values: Parameters) -> np.ndarray:
    return states.supports(Equations(given_reports, values))


def support(given_reports: Reports, values: Parameters) -> np.ndarray:
    """Return the support under one set of parameters: (problem, state)."""
    return supports(given_reports, Parameters(*(None if value is None else value[None] for value in values)))[0]


def said(given_reports: Reports, question: int) -> list[tuple[int, str, float]]:
    """Return one question's reports, as the plain equations take them."""
    rows = zip(given_reports.candidate[question].tolist(), given_reports.logit_confidence[question], strict=True)
    return [(level, str(k), float(expit(logit))) for level, (k, logit) in enumerate(rows) if k >= 0]


def as_dict(values: Parameters) -> dict[str, object]:
    return {name: None if value is None else value.tolist() for name, value in values._asdict().items()}


@given(given_reports=reports(), seed=st.integers(0, 99))
def test_support_does_not_depend_on_the_order_of_questions_candidates_and_levels(
    given_reports: Reports, seed: int
) -> None:
    values, rng = natural_parameters(given_reports.candidate.shape[1]), np.random.default_rng(seed)
    before = support(given_reports, values)
    order = rng.permutation(len(given_reports.n_candidates))
    np.testing.assert_allclose(support(given_reports.select(order), values), before[order], rtol=1e-12)

    order = rng.permutation(given_reports.candidate.shape[1])
    shuffled = Reports(*(array if array.ndim == 1 else array[:, order] for array in given_reports))
    permuted = values._replace(weight=values.weight[order], bias=values.bias[order], vote=values.vote[order])
    np.testing.assert_allclose(support(shuffled, permuted), before, rtol=1e-12)

    candidate, expected = given_reports.candidate.copy(), before.copy()
    for i, k in enumerate(given_reports.n_candidates):
        new = rng.permutation(k)
        candidate[i] = np.where(candidate[i] >= 0, np.append(new, -1)[candidate[i]], -1)
        expected[i, new] = before[i, :k]
    np.testing.assert_allclose(support(given_reports._replace(candidate=candidate), values), expected, rtol=1e-12)


def test_support_changes_where_levels_alone_are_reversed() -> None:
    one = Reports(
        clipped_logit(np.array([[0.9, 0.9, 0.2]]), EPS), np.array([[0, 0, 1]]), np.array([2]), np.full((1, 3), -1)
    )
    values = natural_parameters(3)
    reversals = [{"vote": values.vote[::-1]}, {"weight": values.weight[::-1], "bias": values.bias[::-1]}]
    for reversal in reversals:
        both_orders = jax.tree.map(lambda *pair: np.stack(pair), values, values._replace(**reversal))
        ours, theirs = supports(one, both_orders)
        np.testing.assert_allclose(ours, support(one, values), rtol=1e-13)
        assert np.abs(ours - theirs).max() > 0.05


@given(given_reports=reports(), higher=st.floats(0, 1), place=st.tuples(st.integers(0, 5), st.integers(0, 3)))
def test_support_is_never_lowered_by_a_higher_confidence(
    given_reports: Reports, higher: float, place: tuple[int, int]
) -> None:
    i, level = place[0] % given_reports.candidate.shape[0], place[1] % given_reports.candidate.shape[1]
    mine = given_reports.candidate[i, level]
    raised = given_reports.logit_confidence.copy()
    raised[i, level] = clipped_logit(np.array(higher), EPS)
    if mine < 0 or raised[i, level] < given_reports.logit_confidence[i, level]:
        return
    values = natural_parameters(given_reports.candidate.shape[1])
    before = support(given_reports, values)
    after = support(given_reports._replace(logit_confidence=raised), values)
    assert after[i, mine] >= before[i, mine] * (1 - 1e-14)
    assert after[i, -1] <= before[i, -1] * (1 + 1e-14)


@given(given_reports=reports(), factor=st.floats(0.01, 100))
def test_support_does_not_depend_on_the_common_scale(given_reports: Reports, factor: float) -> None:
    values = natural_parameters(given_reports.candidate.shape[1])
    common = ("weight", "prior_strength", "null_base")
    scaled = values._replace(**{name: factor * getattr(values, name) for name in common})
    ours, theirs = (support(given_reports, v) for v in (values, scaled))
    np.testing.assert_allclose(theirs, ours, rtol=1e-10)


def test_support_of_a_question_without_reports_is_the_null_s() -> None:
    nothing = Reports(np.zeros((1, 3)), np.full((1, 3), -1), np.array([0]), np.full((1, 3), -1))
    assert support(nothing, natural_parameters(3)).tolist() == [[0, 1]]


def spread_parameters(n_samples: int, n_levels: int = 4) -> Parameters:
    """Draw parameters that differ widely between samples."""
    rng = np.random.default_rng(1)
    return Parameters(
        weight=rng.gamma(2, 1, (n_samples, n_levels)),
        prior_strength=rng.gamma(1, 0.1, n_samples),
        null_base=rng.gamma(1, 0.1, n_samples),
        bias=rng.normal(size=(n_samples, n_levels)),
        slope=rng.gamma(2, 1, (n_samples, n_levels, 1)),
        null_gain=rng.gamma(1, 0.3, n_samples),
        sharpness=rng.gamma(8, 0.15, n_samples),
        vote=rng.normal(0, 0.5, (n_samples, n_levels)),
        vote_slope=rng.normal(0, 0.2, (n_samples, n_levels, 1)),
    )


def some_reports(n: int, n_levels: int = 4, *, all_differ: bool = False) -> Reports:
    rng = np.random.default_rng(9)
    candidate = ranks(rng.integers(-1, 3, (n, n_levels)))
    candidate[0] = -1
    shape = n, n_levels
    stated = clipped_logit(rng.random(shape) if all_differ else rng.choice([0.0, 0.3, 0.5, 1.0], shape), EPS)
    return Reports(stated, candidate.astype(np.int32), candidate.max(axis=1) + 1, np.full_like(candidate, -1))


@pytest.mark.parametrize("pieces", [9, 50, 1])
def test_support_is_the_same_by_pieces_of_any_size(pieces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given_reports, parameters = some_reports(80), spread_parameters(5)
    expected = supports(given_reports, parameters)
    monkeypatch.setattr(equations, "_PIECE_CELLS", pieces)
    np.testing.assert_allclose(supports(given_reports, parameters), expected, rtol=1e-13)


@pytest.mark.parametrize("sharpness", [0.05, 40.0])
def test_support_is_a_probability_however_sharp(sharpness: float) -> None:
    """Powers of concentrations and votes that by themselves are too large or too small for a number."""
    given_reports, every = some_reports(40), spread_parameters(5)
    sharp = every._replace(sharpness=np.full(5, sharpness), weight=every.weight * 1e12, vote=every.vote * 1e3)
    support = supports(given_reports, sharp)
    for sample, of_sample in enumerate(support):
        values = as_dict(Parameters(*(value if value is None else value[sample] for value in sharp)))
        for question, k in enumerate(given_reports.n_candidates):
            alpha = brute_force.concentrations(said(given_reports, question), values, EPS)
            scores = {state: sharpness * np.log(value) for state, value in alpha.items()}
            for level, answer, stated in said(given_reports, question):
                of_stated = values["vote_slope"][level][0] * brute_force.logit(stated, EPS)
                scores[answer] += values["vote"][level] + of_stated
            states = [*map(str, range(k)), brute_force.NULL]
            expected = softmax([scores[state] for state in states])
            np.testing.assert_allclose(of_sample[question, [*range(k), -1]], expected, rtol=1e-9, atol=1e-300)


REPORTS = Reports(
    logit_confidence=clipped_logit(
        np.array([[1.0, 0.9, 0.3], [0.95, 1.0, 1.0], [0.5, 0.6, 0.0], [0.5, 0.5, 0.5]]), EPS
    ),
    candidate=np.array([[0, 1, 0], [0, 0, 0], [-1, 0, 1], [-1, -1, -1]]),
    n_candidates=np.array([2, 1, 2, 0]),
    label=np.full((4, 3), -1),
)


@pytest.mark.parametrize("largest", [0.0, 40.0, 640.0])
def test_selection_keeps_the_digits_of_the_null_beside_a_weight_that_dwarfs_the_others(largest: float) -> None:
    """What its reports lack of certainty is far below the rounding of the weight itself, and above the rest."""
    first = Parameters(
        weight=np.exp([largest, 0.0, 0.5]),
        prior_strength=np.array(0.4),
        null_base=np.array(0.15),
        bias=np.array([0.9 * largest, -0.3, 0.4]),
        slope=np.full((3, 1), 0.7),
        null_gain=np.array(0.6),
    )
    twice = jax.tree.map(lambda value: np.stack([value, value]), first)
    (selected,) = Equations(REPORTS, twice).each(select)
    plain = as_dict(first)
    for question in range(4):
        expected = brute_force.support(brute_force.concentrations(said(REPORTS, question), plain, EPS))
        null = expected.pop(brute_force.NULL)
        np.testing.assert_allclose(selected.mean_support[question, -1], null, rtol=1e-12)
        assert selected.candidate[question] == max([-1, *map(int, expected)], key=lambda k: expected.get(str(k), 0.0))
        if expected:
            np.testing.assert_allclose(selected.support[:, question], max(expected.values()), rtol=1e-12)


def recalibration(n_samples: int) -> Recalibration:
    rng = np.random.default_rng(2)
    coefficients = {"intercept": rng.normal(size=(1, n_samples)), "slope": rng.gamma(2, 1, (1, n_samples))}
    return Recalibration("platt", coefficients, 1e-6)


def assert_predicted_as_by_plain_equations(given_reports: Reports, parameters: Parameters) -> dict[str, np.ndarray]:
    """Predict; compare with the plain equations, every state of every question in every sample; return the columns."""
    n_samples = len(parameters.weight)
    final = recalibration(n_samples)
    every = np.zeros((n_samples, len(given_reports.n_candidates), given_reports.candidate.shape[1] + 1))
    for sample, question in np.ndindex(every.shape[:2]):
        of_sample = {k: v[sample] for k, v in parameters._asdict().items() if v is not None}
        reported = [(level, int(k), stated) for level, k, stated in said(given_reports, question)]
        scores = brute_force.scores(reported, of_sample, EPS)
        states = [*range(len(scores) - 1), -1]
        every[sample, question, states] = np.array([*(scores[k] for k in states[:-1]), scores[brute_force.NULL]])
    every /= every.sum(axis=2, keepdims=True)
    support = supports(given_reports, parameters)
    np.testing.assert_allclose(support, every[..., [*range(support.shape[2] - 1), -1]], rtol=1e-11)
    mean, some = every.mean(axis=0), given_reports.n_candidates > 0
    best = mean[:, :-1].argmax(axis=1)
    selected = np.where(some, every[:, np.arange(len(best)), best], np.nan)
    a, b = (final.coefficients[name].reshape(-1, 1) for name in ("intercept", "slope"))
    clipped = np.clip(selected, 1e-6, 1 - 1e-6)
    confidence = 1 / (1 + np.exp(-(a + b * (np.log(clipped) - np.log1p(-clipped)))))
    null = []
    for of_sample, n, k, probability in zip(
        mean, given_reports.n_candidates, best, confidence.mean(axis=0), strict=True
    ):
        of_states = dict(enumerate(of_sample[:n])) | {brute_force.NULL: of_sample[-1]}
        null.append(brute_force.null_probability(of_states, k, probability) if n else 1.0)
    expected = {
        "candidate": np.where(some, best, -1),
        "probability": confidence.mean(axis=0),
        "probability_low": np.quantile(confidence, 0.1, axis=0),
        "probability_high": np.quantile(confidence, 0.9, axis=0),
        "change_probability": np.where(some, (every[:, :, :-1].argmax(axis=2) != best).mean(axis=0), np.nan),
        "support": selected.mean(axis=0),
        "null_probability": np.array(null),
    }
    columns = predict(Equations(given_reports, parameters), final, 0.8)
    assert list(columns) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(columns[name], values, rtol=1e-12, atol=1e-13, err_msg=name)
    return columns


@pytest.mark.parametrize("left_out", FAMILY, ids=lambda names: f"without {' '.join(names)}")
@pytest.mark.parametrize("all_differ", [False, True], ids=["few confidences", "all different"])
def test_prediction_is_what_the_equations_say(left_out: tuple[str, ...], all_differ: bool) -> None:
    parameters = without(spread_parameters(5), *left_out)
    assert_predicted_as_by_plain_equations(some_reports(100, all_differ=all_differ), parameters)


def test_support_of_an_answer_that_is_a_label_has_its_prior_once() -> None:
    """However many reports give it; any other answer, here candidate 2, has none."""
    parameters, given_reports = spread_parameters(3), some_reports(60)
    effects = np.random.default_rng(4).normal(size=(3, 2))
    labelled = given_reports._replace(label=np.where(given_reports.candidate < 2, given_reports.candidate, -1))
    support = supports(labelled, parameters._replace(label=effects))
    plain = supports(given_reports, parameters)
    factor = np.pad(np.exp(effects), ((0, 0), (0, plain.shape[2] - 2)), constant_values=1.0)
    expected = plain * factor[:, None]
    np.testing.assert_allclose(support, expected / expected.sum(axis=2, keepdims=True), rtol=1e-12)


def test_parameters_are_read_by_the_names_of_their_axes() -> None:
    """One value for all levels is repeated, whatever the order of the axes; what is missing is neutral."""
    sites = {"weight": np.ones((2, 3)), "bias": np.array([1.0, 2.0]), "slope": np.arange(12.0).reshape(2, 2, 3)}
    dims = {"weight": ("level",), "bias": (), "slope": ("signal", "level")}
    read = Parameters.of_sites(sites, dims, n_signals=2)
    assert read.bias.tolist() == [[1, 1, 1], [2, 2, 2]]
    np.testing.assert_array_equal(read.slope, sites["slope"].transpose(0, 2, 1))
    neutral = read.prior_strength, read.null_base, read.null_gain
    assert [values.tolist() for values in neutral] == [[1, 1], [0, 0], [1, 1]]
    assert read.sharpness is read.vote is read.vote_slope is read.label is None


def test_prediction_of_a_map_has_no_intervals() -> None:
    columns = predict(Equations(some_reports(10), spread_parameters(1)), recalibration(1), 0.8)
    assert set(columns) == {"candidate", "probability", "support", "null_probability"}


def test_selection_between_equals_is_by_string_order() -> None:
    """Two levels that count alike, each with its own answer: whichever comes first, answer 0 is selected."""
    every = spread_parameters(5, n_levels=2)
    alike = Parameters(*(v if v is None or v.ndim == 1 else v[:, :1].repeat(2, axis=1) for v in every))
    candidate = np.array([[0, 1], [1, 0], [0, 0]], np.int32)
    given_reports = Reports(np.full((3, 2), 0.4), candidate, np.array([2, 2, 1]), np.full_like(candidate, -1))
    columns = assert_predicted_as_by_plain_equations(given_reports, alike)
    assert columns["candidate"].tolist() == [0, 0, 0]


def test_selection_between_equals_within_a_sample_is_by_string_order_too() -> None:
    """Reports of no weight in one sample leave both answers with what every state has."""
    parameters = without(spread_parameters(5, n_levels=2), "vote", "vote_slope")
    parameters.weight[1] = 1e-30
    candidate = np.array([[0, 1], [1, 0]], np.int32)
    given_reports = Reports(np.array([[2.2, -2.2]] * 2), candidate, np.array([2, 2]), np.full_like(candidate, -1))
    columns = assert_predicted_as_by_plain_equations(given_reports, parameters)
    assert columns["change_probability"][0] != columns["change_probability"][1]


def test_prediction_of_no_question_has_empty_columns() -> None:
    nothing = some_reports(5).select(np.arange(0))
    assert all(
        len(values) == 0 for values in predict(Equations(nothing, spread_parameters(5)), recalibration(5), 0.8).values()
    )
