import numpy as np

from bayes_direag.model.selection import distribution
from bayes_direag.model.simulate import LEVEL_NAMES, default_parameters, simulate_observations
from tests.bayes_direag.equations import Equations, Parameters, Reports


def test_simulate_has_five_levels_and_some_of_everything() -> None:
    observations = simulate_observations(n=400, seed=0)
    assert observations.level_names == LEVEL_NAMES
    assert 0.5 < observations.gold_generated.mean() < 0.98
    assert not observations.usable.all()
    assert observations.n_candidates.max() >= 4
    assert set(np.unique(observations.confidence[observations.usable])) >= {0.5, 0.95, 1.0}


def test_simulate_draws_what_comes_true_by_the_models_probabilities() -> None:
    observations = simulate_observations(n=6000, seed=3)
    truth = Parameters(**{name: value[None] for name, value in default_parameters().items()})
    expected = distribution(Equations(Reports.of(observations, 1e-6), truth))
    came_true = np.concatenate([observations.correct_candidate, ~observations.gold_generated[:, None]], axis=1)
    for low, high in [(0, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1)]:
        cells = (expected > low) & (expected <= high)
        mean, sd = expected[cells].sum(), np.sqrt((expected * (1 - expected))[cells].sum())
        assert abs(came_true[cells].sum() - mean) < 4.5 * sd
