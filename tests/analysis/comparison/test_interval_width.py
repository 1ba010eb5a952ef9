"""Interval widths against labels: which questions are fitted to, which are measured, and what is measured."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from analysis.comparison import interval_width
from analysis.comparison.interval_width import width_by_labels
from bayes_direag.data.observations import Observations, Question
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.convergence import sampler_summary
from bayes_direag.fits.fit import Fit
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import gaussian_draws, made_posterior


@pytest.fixture(scope="module")
def observations() -> Observations:
    """Return 60 questions, the first ten not labelled, and an unanswered one."""
    simulated = simulate_observations(60, seed=4).questions
    hidden = [question.model_copy(update={"gold_answer": None}) for question in simulated[:10]]
    silent = Question(problem_id="silent", gold_answer="3", observations=())
    return Observations.from_questions([*hidden, *simulated[10:], silent], answers="numeric")


def draws_for(n: int) -> dict[str, np.ndarray]:
    return gaussian_draws(0, spread=1 / np.sqrt(n), n_chains=2, n_draws=40)


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Observations, dict[str, object]]]:
    """Take the sampler's place: draws spread like one over the root of the number of questions; record the calls."""
    calls: list[tuple[Observations, dict[str, object]]] = []

    def fit_nuts(subset: Observations, **settings: object) -> Fit:
        calls.append((subset, settings))
        diverging = np.arange(80).reshape(2, 40) < len(subset) // 20
        return made_posterior(subset, draws_for(len(subset)), statistics={"diverging": diverging})

    monkeypatch.setattr(interval_width, "fit_nuts", fit_nuts)
    return calls


def test_subsets_are_nested_and_measured_on_the_same_other_questions(
    observations: Observations, fitted: list[tuple[Observations, dict[str, object]]]
) -> None:
    steps: list[str] = []
    found = width_by_labels(observations, [40, 10, 20, 10], variant="confidence", seed=3, on_step=steps.append)
    assert found["n_labels"].tolist() == [10, 20, 40]
    subsets = [set(subset.problem_id) for subset, _ in fitted]
    assert [len(subset) for subset in subsets] == [10, 20, 40]
    assert subsets[0] < subsets[1] < subsets[2]
    assert all(subset.labelled.all() and subset.answered.all() for subset, _ in fitted)
    # 60 answered, 40 of them fitted to at most; those without a label are measured too.
    assert found["n_questions"].tolist() == [20] * 3
    assert steps == [f"fitting confidence to {n} labelled questions" for n in (10, 20, 40)]
    assert found["divergences"].tolist() == [0, 1, 2]
    assert (np.diff(found["mean_width"]) < 0).all()


def test_widths_are_those_of_the_predicted_intervals(
    observations: Observations, fitted: list[tuple[Observations, dict[str, object]]]
) -> None:
    found = width_by_labels(observations, [30], interval_level=0.6, seed=1).iloc[0]
    subset, settings = fitted[0]
    others = observations.select(~np.isin(observations.problem_id, subset.problem_id) & observations.answered)
    fit = made_posterior(subset, draws_for(30))
    table = fit.predict(others, interval_level=0.6)
    width = table["confidence_high"] - table["confidence_low"]
    assert found["n_questions"] == len(others) == 30
    assert found["mean_width"] == pytest.approx(width.mean())
    expected = np.quantile(width, [0.1, 0.5, 0.9])
    np.testing.assert_allclose(found[["low_width", "median_width", "high_width"]].to_numpy(float), expected)
    assert found["largest_rhat"] == sampler_summary(fit).largest_rhat
    assert settings["preset"] == "bayes"
    assert settings["sampling"] == interval_width.SHORT_RUNS


def test_the_seed_draws_the_subsets(
    observations: Observations, fitted: list[tuple[Observations, dict[str, object]]]
) -> None:
    for seed in (1, 1, 2):
        width_by_labels(observations, [20], seed=seed)
    first, again, other = (subset.problem_id for subset, _ in fitted)
    assert first == again != other
    assert [settings["seed"] for _, settings in fitted] == [1, 1, 2]


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ([], "numbers of labels none: expected one or more between 1 and the 50"),
        ([0, 10], "numbers of labels 0, 10: expected"),
        ([10, 51], "numbers of labels 10, 51: expected one or more between 1 and the 50"),
    ],
)
def test_numbers_that_cannot_be_are_named(observations: Observations, sizes: list[int], says: str) -> None:
    with pytest.raises(DirEAGError, match=says):
        width_by_labels(observations, sizes)


def test_some_question_must_be_left_over(observations: Observations) -> None:
    labelled = observations.select(slice(10, 60))
    with pytest.raises(DirEAGError, match=r"50 labels: that is every answered question.*expected fewer than 50"):
        width_by_labels(labelled, [50])


@pytest.mark.slow
def test_more_labels_narrow_the_intervals_of_real_fits() -> None:
    short: Callable[..., pd.DataFrame] = width_by_labels
    sampling = SamplingSettings(n_chains=2, n_warmup=200, n_draws=200)
    found = short(simulate_observations(600, seed=2), [25, 400], sampling=sampling)
    assert found["mean_width"].iloc[1] < 0.6 * found["mean_width"].iloc[0]
