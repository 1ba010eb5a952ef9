"""What a question's weight does: in the likelihood, the final calibration and the folds, by every door."""

from dataclasses import replace

import jax
import numpy as np
import pandas as pd
import pytest

from bayes_direag import Fit, LikelihoodData, Observations, fit_map, fit_nuts, preset, simulate_observations
from bayes_direag.decisions.estimate import estimate
from bayes_direag.fits.making import cross_fit
from bayes_direag.inference.map import penalised_loss
from bayes_direag.model import presets
from bayes_direag.model.models import model_of
from tests.bayes_direag.model.test_models import some_unconstrained

IN_SAMPLE = presets.preset("bayes", recalibration={"out_of_fold": 0})
DOUBLED = np.arange(60) % 3 == 0


def renamed(questions: Observations, prefix: str) -> Observations:
    return replace(questions, problem_id=tuple(f"{prefix}-{name}" for name in questions.problem_id))


@pytest.fixture(scope="module")
def questions() -> Observations:
    return simulate_observations(60, seed=1).with_agreement()


@pytest.fixture(scope="module")
def twice(questions: Observations) -> Observations:
    """The questions, some of them twice, under another name."""
    frame = questions.to_frame()
    again = frame[frame["problem_id"].isin(np.array(questions.problem_id)[DOUBLED])]
    again = again.assign(problem_id="again-" + again["problem_id"].astype(str))
    both = Observations.from_frame(pd.concat([frame, again]), answers=questions.kind)
    return replace(both, agreement=questions.agreement)


@pytest.fixture(scope="module")
def weighted(questions: Observations) -> Observations:
    return questions.weighted(np.where(DOUBLED, 2.0, 1.0))


def unconstrained(fit: Fit) -> dict[str, np.ndarray]:
    group = fit.tree["unconstrained_posterior"].to_dataset()
    return {str(name): values.to_numpy() for name, values in group.items()}


@pytest.mark.parametrize("name", ["bayes", "paper", "release"])
def test_weight_two_is_two_equal_questions(name: str, weighted: Observations, twice: Observations) -> None:
    """In the density of each model, and in the fit of the default."""
    settings = preset(name)
    data = [LikelihoodData.of(each, preset=settings) for each in (weighted, twice)]
    assert len(data[0].weight) < len(data[1].weight)
    assert data[0].weight.sum() == pytest.approx(data[1].weight.sum())
    start = some_unconstrained(settings, data[0])
    losses = [float(jax.jit(lambda one: penalised_loss(model_of(settings), start, one))(each)) for each in data]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    if name == "bayes":
        one, other = (fit_map(each, preset=IN_SAMPLE) for each in (weighted, twice))
        for name, values in unconstrained(other).items():
            np.testing.assert_allclose(unconstrained(one)[name], values, atol=1e-5)
        for name, value in other.recalibration.coefficients.items():
            np.testing.assert_allclose(one.recalibration.coefficients[name], value, atol=1e-5)


@pytest.mark.parametrize("split", [{}, {"recalibration": {"split": 4, "out_of_fold": 0}}])
def test_weight_zero_is_no_label(questions: Observations, split: dict) -> None:
    chosen = presets.preset("bayes", **split)
    without = replace(questions, labelled=questions.labelled & ~DOUBLED)
    fits = [fit_map(each, preset=chosen) for each in (questions.weighted(np.where(DOUBLED, 0.0, 1.0)), without)]
    assert fits[0].learned_from == fits[1].learned_from
    np.testing.assert_array_equal(fits[0].predict(questions)["probability"], fits[1].predict(questions)["probability"])


def test_weights_stay_when_the_array_that_gave_them_changes(questions: Observations) -> None:
    weight = np.ones(len(questions))
    weighted = questions.weighted(weight)
    weight[:] = 2.0
    assert (weighted.weight == 1).all()


def test_weights_times_the_balance_of_the_null(questions: Observations) -> None:
    weight = np.linspace(0.5, 2, 60)
    data = LikelihoodData.of(questions.weighted(weight), preset="release")
    present, counts = questions.gold_generated, weight * questions.informative
    balance = (counts @ present) / (counts @ ~present)
    expected = np.where(present, 1.0, balance) * weight
    np.testing.assert_allclose(data.weight, expected[questions.informative])


def test_older_labels_are_rows_with_a_weight(tmp_path) -> None:
    """By concatenation of frames; a fit to such a file, and its likelihood, come back from their files."""
    new, older = simulate_observations(30, seed=3), renamed(simulate_observations(90, seed=4), "older")
    frames = [new.to_frame(), older.to_frame()]
    frames[1]["problem_id"] = "older-" + frames[1]["problem_id"].astype(str)
    observations = Observations.from_frame(pd.concat([frames[0], frames[1].assign(weight=0.25)]), answers=new.kind)
    np.testing.assert_array_equal(observations.weight, np.repeat([1.0, 0.25], [30, 90]))
    for suffix in (".csv", ".jsonl", ".parquet"):
        observations.write(tmp_path / f"both{suffix}")
        again = Observations.read(tmp_path / f"both{suffix}", new.kind)
        np.testing.assert_array_equal(again.weight, observations.weight)
        assert again.fingerprint == observations.fingerprint
    fit = fit_map(observations)
    fit.save(tmp_path / "fit.nc")
    loaded = Fit.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(loaded.likelihood_data.weight, observations.weight)
    np.testing.assert_array_equal(loaded.fitted.weight, observations.weight)
    predicted = estimate(fit, renamed(simulate_observations(50, seed=5), "next"))
    assert (predicted.n_labels, predicted.n_answers) == (round(30 + 90 * 0.25), 50)


def test_folds_leave_weight_zero_out(questions) -> None:
    held_out = cross_fit(questions.weighted(np.where(DOUBLED, 0.0, 1.0)), preset=IN_SAMPLE)
    index = np.concatenate([fold.index for fold in held_out])
    np.testing.assert_array_equal(np.sort(index), np.flatnonzero(~DOUBLED & questions.answered))


@pytest.mark.slow
def test_nuts(weighted: Observations, twice: Observations) -> None:
    """Draws from the posterior of two equal questions; what is left out is a question with all its weight."""
    sampling = {"num_chains": 2, "num_warmup": 150, "num_samples": 150}
    fits = [fit_nuts(each, **sampling, seed=2) for each in (weighted, twice)]
    names = sorted(unconstrained(fits[0]))
    means = [np.concatenate([unconstrained(fit)[name].mean(axis=(0, 1)).ravel() for name in names]) for fit in fits]
    spread = np.concatenate([unconstrained(fits[0])[name].std(axis=(0, 1)).ravel() for name in names])
    assert np.abs((means[0] - means[1]) / spread).max() < 0.5
    assert fits[0].n_questions < fits[1].n_questions
    by_row = fits[0].tree["log_likelihood"]["target"].to_numpy().reshape(300, -1)
    ratio = -by_row * weighted.weight
    weight = np.exp(ratio) / np.exp(ratio).sum(axis=0)
    expected = np.log((weight * np.exp(by_row)).sum(axis=0))
    light_tailed = (fits[0].left_out["pareto_k"] < 0.5).to_numpy()  # so that plain importance sampling is as good
    assert light_tailed.mean() > 0.8
    np.testing.assert_allclose(fits[0].left_out["elpd"][light_tailed], expected[light_tailed], atol=0.02)
