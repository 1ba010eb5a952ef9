"""What follows from the probabilities of states: by loops over questions and draws, and what ties give."""

import numpy as np
import pytest

from bayes_direag.model.selection import Recalibration, predict
from tests.bayes_direag import brute_force
from tests.bayes_direag.known_states import Known

N_CANDIDATES = np.append(0, np.random.default_rng(9).integers(0, 4, 99))


def recalibration(n_draws: int) -> Recalibration:
    rng = np.random.default_rng(2)
    coefficients = {"intercept": rng.normal(size=(1, n_draws)), "slope": rng.gamma(2, 1, (1, n_draws))}
    return Recalibration("platt", coefficients, 1e-6)


def assert_predicted_as_by_loops(known: Known) -> dict[str, np.ndarray]:
    """Predict; compare with loops over questions and draws; return the columns."""
    final = recalibration(len(known.support))
    rows = []
    for n, of_question in zip(known.n_candidates.tolist(), known.support.swapaxes(0, 1), strict=True):
        if not n:
            rows.append([-1, *[np.nan] * 5, 1.0])
            continue
        mean = of_question.mean(axis=0)
        best = max(range(n), key=lambda k: mean[k])  # the first of equals
        probability = []
        for draw, a, b in zip(
            of_question, *(final.coefficients[name][0] for name in ("intercept", "slope")), strict=True
        ):
            probability.append(brute_force.sigmoid(a + b * brute_force.logit(draw[best], 1e-6)))
        changes = np.mean([max(range(n), key=lambda k: draw[k]) != best for draw in of_question])
        of_states = dict(enumerate(mean[:n])) | {brute_force.NULL: mean[-1]}
        null = brute_force.null_probability(of_states, best, np.mean(probability))
        ends = np.quantile(probability, [0.1, 0.9])
        rows.append([best, np.mean(probability), *ends, changes, mean[best], null])
    columns = predict(known, final, 0.8)
    names = ["candidate", "probability", "probability_low", "probability_high", "change_probability", "support"]
    assert list(columns) == [*names, "null_probability"]
    for (name, found), expected in zip(columns.items(), zip(*rows, strict=True), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13, err_msg=name)
    return columns


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("size", [7, 200])
def test_prediction_is_that_of_loops(size: int, ties: bool) -> None:
    drawn = Known.drawn(5, N_CANDIDATES, ties=ties)
    assert_predicted_as_by_loops(Known(drawn.support, drawn.n_candidates, size))


def test_prediction_of_a_map_has_no_intervals() -> None:
    columns = predict(Known.drawn(1, N_CANDIDATES), recalibration(1), 0.8)
    assert set(columns) == {"candidate", "probability", "support", "null_probability"}


def test_selection_between_equals_is_by_string_order() -> None:
    """In the mean, and within a draw: there another answer is selected only where it is ahead, or first of equals."""
    support = np.array([[[0.4, 0.4, 0.2]] * 2, [[0.3, 0.3, 0.4], [0.2, 0.4, 0.4]], [[0.3, 0.3, 0.4], [0.4, 0.2, 0.4]]])
    columns = assert_predicted_as_by_loops(Known(support, np.array([2, 2])))
    assert columns["candidate"].tolist() == [0, 0]
    second_first = Known(np.array([[[0.4, 0.4, 0.2]], [[0.2, 0.4, 0.4]]]), np.array([2]))
    columns = assert_predicted_as_by_loops(second_first)
    assert (columns["candidate"].tolist(), columns["change_probability"].tolist()) == ([1], [0.5])


def test_prediction_of_no_question_has_empty_columns() -> None:
    nothing = Known.drawn(5, np.zeros(0, int))
    assert all(len(values) == 0 for values in predict(nothing, recalibration(5), 0.8).values())
