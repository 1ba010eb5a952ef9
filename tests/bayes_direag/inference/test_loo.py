"""Leave-one-out predictions: against ArviZ, against exact integration, and against fitting again."""

import warnings
from dataclasses import replace

import arviz_stats
import numpy as np
import pytest
import xarray as xr
from scipy.special import logsumexp

from bayes_direag.data.observations import Observations
from bayes_direag.fits.container import left_out_group
from bayes_direag.fits.fit import Fit
from bayes_direag.inference import loo
from bayes_direag.inference.loo import LeaveOneOut, leave_one_out
from bayes_direag.model.selection import Recalibration
from tests.bayes_direag import one_level
from tests.bayes_direag.data import questions
from tests.bayes_direag.known_states import Known

N_CHAINS, N_DRAWS = 2, 150


def relative_size(fit: Fit) -> float:
    """Return the mean effective sample size of the unconstrained parameters, relative to the number of draws."""
    unconstrained = fit.tree["unconstrained_posterior"].to_dataset()
    sizes = [np.ravel(size) for size in arviz_stats.ess(unconstrained, method="mean").values()]
    return float(np.concatenate(sizes).mean() / fit.n_samples)


@pytest.mark.parametrize("name", ["nuts", "one_level_nuts"])
def test_loo_elpd_and_pareto_k_are_those_of_arviz(name: str, request: pytest.FixtureRequest) -> None:
    fit: Fit = request.getfixturevalue(name)
    ours = fit.tree["loo"].to_dataset()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimated shape parameter of Pareto", UserWarning)
        theirs = arviz_stats.loo(fit.tree, pointwise=True, reff=relative_size(fit))
    np.testing.assert_allclose(ours["elpd"], theirs.elpd_i, rtol=1e-10)
    np.testing.assert_allclose(ours["pareto_k"], theirs.pareto_k, rtol=1e-8, atol=1e-10)
    assert ours["problem"].to_numpy().tolist() == theirs.elpd_i["problem"].to_numpy().tolist()


def test_loo_is_that_of_exact_integration(one_level_nuts: Fit) -> None:
    exact = one_level.posterior()
    loo = one_level_nuts.tree["loo"].to_dataset()
    right = one_level.observations().gold_generated
    full = exact.probability()
    for question, target in enumerate(right):
        without = exact.probability(without=question)
        support = without @ exact.support[:, question]
        np.testing.assert_allclose(loo["support"][question], support, atol=0.01)
        ratio = np.exp(-exact.log_likelihood[:, question])  # elpd is minus the log of its mean over the draws
        spread = np.sqrt(full @ ratio**2 / (full @ ratio) ** 2 - 1)
        draws = np.exp(-one_level_nuts.tree["log_likelihood"]["target"].to_numpy()[..., question])
        error = spread / np.sqrt(float(arviz_stats.ess(draws, method="mean")))
        np.testing.assert_allclose(loo["elpd"][question], np.log(support if target else 1 - support), atol=4 * error)
    assert (loo["candidate"] == 0).all()
    assert (loo["correct"].to_numpy() == right).all()
    moved = loo["support"].to_numpy() - full @ exact.support
    # a question's own right answer has raised its support, its wrong one lowered it
    assert (moved[right] < 0).all()
    assert (moved[~right] > 0).all()


@pytest.fixture(scope="module")
def observations() -> Observations:
    """Fifty questions of three levels, some answers missing, each answer judged right or wrong on its own."""
    rng = np.random.default_rng(4)
    asked = []
    for number in range(50):
        said = rng.choice(["x", "y", "z"], size=3, p=[0.5, 0.3, 0.2]).tolist()
        verdict = dict(zip(("x", "y", "z"), (rng.random(3) < (0.6, 0.4, 0.3)).tolist(), strict=True))
        reports = zip(said, rng.integers(0, 101, 3).tolist(), map(verdict.get, said), strict=True)
        kept = [report if k == number % 3 or rng.random() < 0.9 else ... for k, report in enumerate(reports)]
        asked.append(questions.question(str(number), *kept))
    return Observations.from_questions(asked, answers="text")


@pytest.fixture(scope="module")
def unconstrained() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {"weight": rng.normal(size=(N_CHAINS, N_DRAWS, 3)), "slope": rng.normal(size=(N_CHAINS, N_DRAWS))}


@pytest.fixture(scope="module")
def states(observations: Observations) -> Known:
    return Known.drawn(N_CHAINS * N_DRAWS, observations.n_candidates)


@pytest.fixture(scope="module")
def log_likelihood() -> np.ndarray:
    rng = np.random.default_rng(6)
    return -rng.gamma(2.0, 0.5, size=(N_CHAINS, N_DRAWS, 50))


def left_out(unconstrained: dict[str, np.ndarray], log_likelihood: np.ndarray, states: Known) -> LeaveOneOut:
    dims = {"weight": ("chain", "draw", "level"), "slope": ("chain", "draw")}
    posterior = xr.Dataset({name: (dims[name], value) for name, value in unconstrained.items()})
    return leave_one_out(posterior, log_likelihood, states)


@pytest.fixture(scope="module")
def predicted(unconstrained, log_likelihood, states) -> LeaveOneOut:
    return left_out(unconstrained, log_likelihood, states)


@pytest.fixture(scope="module")
def weight(unconstrained, log_likelihood) -> np.ndarray:
    """Smoothed importance weights by ArviZ's labelled front, (sample, problem)."""
    draws = xr.DataArray(log_likelihood, dims=("chain", "draw", "problem"))
    entries = [*np.moveaxis(unconstrained["weight"], 2, 0), unconstrained["slope"]]
    size = np.mean([arviz_stats.ess(entry, method="mean") for entry in entries])
    log_weight, _ = draws.azstats.psislw(r_eff=size / (N_CHAINS * N_DRAWS), dim=["chain", "draw"])
    return np.exp(log_weight.transpose("chain", "draw", "problem").to_numpy().reshape(-1, 50))


def test_loo_support_of_every_candidate(predicted, weight, states) -> None:
    np.testing.assert_allclose(weight.sum(axis=0), 1)
    for question, n in enumerate(states.n_candidates):
        every = states.support[:, question, :n]
        np.testing.assert_allclose(predicted.support[question, :n], weight[:, question] @ every, rtol=1e-10)
        np.testing.assert_allclose(predicted.support_of_all[question, :n], every.mean(axis=0), rtol=1e-10)
        assert (predicted.support[question, n:-1] == 0).all()
    np.testing.assert_allclose(predicted.support.sum(axis=1), 1)
    assert (predicted.support.argmax(axis=1) != predicted.support_of_all.argmax(axis=1)).any()


def test_loo_elpd_is_that_of_the_smoothed_weights(predicted, weight, log_likelihood) -> None:
    expected = logsumexp(log_likelihood.reshape(-1, 50), b=weight, axis=0)
    np.testing.assert_allclose(predicted.elpd, expected, rtol=1e-10)


def test_loo_outcomes_are_what_the_final_calibration_learns_from(predicted, observations) -> None:
    """Answers selected without and with a question's own label, by halves."""
    learned = predicted.outcomes(observations.right_state, np.ones(50))
    question = np.arange(50)
    for half, by in ((slice(0, 50), predicted.support), (slice(50, 100), predicted.support_of_all)):
        best = by[:, :-1].argmax(axis=1)
        np.testing.assert_array_equal(learned.support[0, half], predicted.support[question, best])
        np.testing.assert_array_equal(learned.right[0, half], observations.correct_candidate[question, best])
    assert learned.weight.tolist() == [[0.5] * 100]


def test_loo_table_of_questions(predicted, observations, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any of several right answers is right."""
    assert (observations.correct_candidate.sum(axis=1) > 1).any()
    a, b = np.array([0.4, -1.0]), np.array([0.6, 1.5])
    final = Recalibration("platt", {"intercept": a[None], "slope": b[None]}, 1e-6)
    panels = observations.usable.astype(int)
    table = left_out_group(predicted, observations, panels, final).to_dataset()
    assert table["problem"].to_numpy().tolist() == list(observations.problem_id)
    for question, support in enumerate(predicted.support):
        best = support[:-1].argmax()
        confidence = (1 / (1 + np.exp(-a - b * np.log(support[best] / (1 - support[best]))))).mean()
        row = table.isel(problem=question)
        assert row["candidate"] == best
        np.testing.assert_allclose(row["support"], support[best])
        np.testing.assert_allclose(row["probability"], confidence, rtol=1e-10)
        verdicts = {one.answer: one.correct for one in observations.questions[question].observations}
        assert row["correct"] == verdicts[observations.candidates[question][best]]
    monkeypatch.setattr(loo, "_CELLS", 70)
    xr.testing.assert_allclose(left_out_group(predicted, observations, panels, final).to_dataset(), table, rtol=1e-12)


def test_loo_does_not_depend_on_the_pieces(predicted, unconstrained, log_likelihood, states) -> None:
    again = left_out(unconstrained, log_likelihood, replace(states, size=16))
    for before, after in zip(predicted, again, strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-12)


def test_loo_tells_chains_that_stand_still_by_pareto_k(unconstrained, states, log_likelihood) -> None:
    """A fit that has failed is still a fit, for its diagnostics to be read."""
    stuck = log_likelihood.copy()
    stuck[..., 7] = -0.3
    stuck[0, :, 8], stuck[1, :, 8] = -0.2, -1.5
    still = left_out(unconstrained, stuck, states)
    assert np.isinf(still.pareto_k[[7, 8]]).all()
    assert np.isfinite(np.delete(still.pareto_k, [7, 8])).all()
    np.testing.assert_allclose(still.elpd[7], -0.3)
    np.testing.assert_allclose(still.elpd[8], -np.log((np.exp(0.2) + np.exp(1.5)) / 2))
    assert np.isfinite(still.support).all()
