import numpy as np

from bayes_direag.model.simulate import LEVEL_NAMES, default_parameters, simulate_observations
from tests.bayes_direag import brute_force


def test_simulate_has_five_levels_and_some_of_everything() -> None:
    observations = simulate_observations(n=400, seed=0)
    assert observations.level_names == LEVEL_NAMES
    assert 0.5 < observations.gold_generated.mean() < 0.98
    assert not observations.usable.all()
    assert observations.n_candidates.max() >= 4
    assert set(np.unique(observations.confidence[observations.usable])) >= {0.5, 0.95, 1.0}


def test_simulate_draws_what_comes_true_by_the_models_probabilities() -> None:
    observations = simulate_observations(n=2000, seed=3)
    truth, expected, came_true = default_parameters(), [], []
    for row, answers in enumerate(observations.candidates):
        support = brute_force.support(brute_force.scores(brute_force.reports_of(observations, row), truth, 1e-6))
        expected += [support[state] for state in (*answers, brute_force.NULL)]
        came_true += [*observations.correct_candidate[row, : len(answers)], not observations.gold_generated[row]]
    expected, came_true = np.array(expected), np.array(came_true)
    for low, high in [(0, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1)]:
        cells = (expected > low) & (expected <= high)
        mean, sd = expected[cells].sum(), np.sqrt((expected * (1 - expected))[cells].sum())
        assert abs(came_true[cells].sum() - mean) < 4.5 * sd
