"""A NumPyro function of one's own goes where a preset's name goes."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import arviz_base
import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from fastapi.testclient import TestClient
from numpyro.infer import MCMC, NUTS, Predictive, log_likelihood
from scipy.special import logsumexp

from analysis import compare, evaluate
from analysis.explanation import explain
from analysis.learned import calibration_curves
from analysis.parameters import compared_parameters, parameter_tables
from bayes_direag import (
    Fit,
    LikelihoodData,
    Observations,
    Policy,
    cross_fit,
    fit_draws,
    fit_map,
    fit_nuts,
    policy,
    simulate_observations,
)
from bayes_direag.commands.serve import service
from bayes_direag.errors import DirEAGError
from bayes_direag.inference.psis import smoothed_weights
from bayes_direag.model.evidence import belief_and_doubt, draw_states, sums_by_answer
from bayes_direag.model.forward import Forward
from bayes_direag.model.models import model_of
from bayes_direag.model.presets import preset
from bayes_direag.model.states import supports
from bayes_direag.model.unconstrained import parameter_sites, unconstrained


@unconstrained(noncentered=("slope_base",))  # where it is centred, the density has its mode at a spread of 0
def two_slopes(data: LikelihoodData) -> None:
    """Give each level a slope of its own, around one that the levels share: what no preset has."""
    centre, spread = numpyro.sample("centre", dist.Normal(0, 1)), numpyro.sample("spread", dist.HalfNormal(0.5))
    null_base = numpyro.sample("null_base", dist.Gamma(2.0, 2.0))
    with data.levels():
        weight = numpyro.sample("weight", dist.LogNormal(1.5, 1.0))
        slope = numpyro.sample("slope", dist.LogNormal(centre, spread))
        bias = numpyro.sample("bias", dist.Normal(0, 2))
    belief, doubt = belief_and_doubt(bias[:, None] + slope[:, None] * data.logit, data)
    share = 1 / data.n_states
    answers = share[None] + sums_by_answer(weight[:, None] * belief, data.candidate)
    draw_states(data, jnp.log(answers), jnp.log(share + null_base + weight @ doubt))


@pytest.fixture(scope="module")
def fit(simulated: Observations) -> Fit:
    return fit_map(simulated.select(slice(0, 100)), preset=two_slopes)


def of_prior(location: float) -> Callable[[LikelihoodData], None]:
    def model(data: LikelihoodData) -> None:
        with data.levels():
            weight = numpyro.sample("weight", dist.LogNormal(location, 0.001))
        answers = 1 + sums_by_answer(data.by_report(weight) * data.usable, data.candidate)
        draw_states(data, jnp.log(answers), jnp.zeros(len(data.weight)))

    return model


def test_fits_in_threads_do_not_meet_in_the_handlers_of_numpyro(simulated: Observations) -> None:
    def weights(location: float) -> np.ndarray:
        fit = fit_map(simulated.select(slice(0, 60)), preset=of_prior(location))
        return fit.tree["posterior"]["weight"].to_numpy().ravel()

    with ThreadPoolExecutor() as threads:
        low, high = threads.map(weights, (0.0, 1.0))
    np.testing.assert_allclose(low, 1.0, rtol=1e-3)
    np.testing.assert_allclose(high, np.e, rtol=1e-3)


def test_model_of_ones_own_is_fitted_as_it_is_now(simulated: Observations) -> None:
    class Evidence:
        factor = 1.0

        def model(self, data: LikelihoodData) -> None:
            weight = numpyro.sample("weight", dist.LogNormal(0.0, 0.001))
            answers = 1 + self.factor * scale * sums_by_answer(weight * data.usable, data.candidate)
            draw_states(data, jnp.log(answers), jnp.zeros(len(data.weight)))

    def support() -> float:
        fit = fit_map(three, preset=evidence.model)
        assert fit.predict(three)["support"].equals(fit.predict(few)["support"][:3])
        return fit.predict(three)["support"][0]

    evidence, scale, three, few = Evidence(), 1.0, simulated.select(slice(0, 3)), simulated.select(slice(0, 30))
    before = support()
    scale = 2.0
    doubled = support()
    evidence.factor = 2.0
    assert before < doubled < support()


def test_file_of_an_own_model_predicts_once_the_function_is_given(fit: Fit, simulated: Observations, tmp_path) -> None:
    assert fit.tree["posterior"]["slope"].std() > 0
    np.testing.assert_allclose(fit.tree["posterior"]["share"].sum("level"), 1.0)
    assert float(fit.tree["sample_stats"]["projected_gradient"].item()) < 1e-6
    fit.save(tmp_path / "own.nc")
    loaded = Fit.load(tmp_path / "own.nc", preset=two_slopes)
    np.testing.assert_array_equal(loaded.predict(simulated)["probability"], fit.predict(simulated)["probability"])
    bare = Fit.load(tmp_path / "own.nc")
    record = json.loads(bare.tree.attrs["preset"])
    assert record["name"] == "two_slopes"
    assert "def two_slopes" in record["source"]
    assert "spread" in bare.parameters()["parameter"].tolist()
    with pytest.raises(DirEAGError, match=r"own, two_slopes, whose function .*Fit.load\(FILE, preset=two_slopes\)"):
        bare.predict(simulated)
    with pytest.raises(DirEAGError, match=r"saw sites .*rate.*; the fit has .*slope.*; expected the function that was"):
        Fit.load(tmp_path / "own.nc", preset=odds)


def test_file_is_not_given_another_function_of_the_same_sites(fit: Fit, tmp_path) -> None:
    @unconstrained(noncentered=("slope_base",))
    def doubled(data: LikelihoodData) -> None:
        two_slopes.__wrapped__(replace(data, logit=2 * data.logit))

    fit.save(tmp_path / "own.nc")
    with pytest.raises(DirEAGError, match="model doubled: saw another likelihood of the fitted questions"):
        Fit.load(tmp_path / "own.nc", preset=doubled)


def odds(data: LikelihoodData) -> None:
    """Multiply the odds that reports give, as stated, without a site of a preset."""
    rate, numbers = numpyro.sample("rate", dist.Normal(0.3, 0.2)), data.usable * data.logit
    draw_states(data, rate * sums_by_answer(numbers, data.candidate), jnp.zeros(len(data.weight)))


def stated(data: LikelihoodData) -> None:
    """Take confidences as stated: a weight, and no slope."""
    with data.levels():
        weight = numpyro.sample("weight", dist.LogNormal(1.0, 0.5))
    belief, doubt = belief_and_doubt(data.logit, data)
    answers = 1 / data.n_states[None] + sums_by_answer(data.by_report(weight) * belief, data.candidate)
    draw_states(data, jnp.log(answers), jnp.log(1 / data.n_states + data.of_columns(weight) @ doubt))


def squared(data: LikelihoodData) -> None:
    """Square the evidence, with all names as those of the presets."""
    with data.levels():
        weight = numpyro.sample("weight", dist.LogNormal(1.0, 0.5))
    bias, slope = numpyro.sample("bias", dist.Normal(0, 1)), numpyro.sample("slope", dist.LogNormal(0.0, 0.5))
    belief, doubt = belief_and_doubt(bias + slope * data.logit, data)
    answers = 1 / data.n_states[None] + sums_by_answer(data.by_report(weight) * belief, data.candidate)
    null = 1 / data.n_states + data.of_columns(weight) @ doubt
    draw_states(data, 2 * jnp.log(answers), 2 * jnp.log(null))


def doubtful(data: LikelihoodData) -> None:
    """Add a term for the null to a model that is otherwise a preset's."""
    with data.levels():
        weight = numpyro.sample("weight", dist.LogNormal(1.0, 0.5))
    lonely = numpyro.sample("lonely", dist.Normal(1, 0.5))
    answers = 1 / data.n_states[None] + sums_by_answer(data.by_report(weight) * data.usable, data.candidate)
    draw_states(data, jnp.log(answers), -jnp.log(data.n_states) + lonely * (data.usable.sum(axis=0) < 5))


@pytest.mark.parametrize("program", [odds, stated, squared, doubtful])
def test_forward_is_the_likelihood_of_the_program(program: Callable[..., None], simulated: Observations) -> None:
    """Every term counts, whatever its name: the probability of each state is what numpyro says of that state."""
    data = LikelihoodData.of(simulated.select(slice(0, 60)), preset=program)
    model = model_of(preset(program))
    drawn = Predictive(model, num_samples=3)(jax.random.key(2), data.unlabelled)
    sites = [name for name, site in parameter_sites(model, data).items() if site.is_unconstrained]
    draws = {name: np.asarray(drawn[name], float) for name in sites}
    support = supports(Forward(model, draws, data))
    np.testing.assert_allclose(support.sum(axis=2), 1.0)
    expected = log_likelihood(model, draws, data)["target"]
    of_target = support[:, np.arange(len(data.weight)), data.target]
    merged = np.asarray(data.merged != data.candidate).any(axis=0)  # several right answers are one state
    assert not merged.any()
    np.testing.assert_allclose(of_target, np.exp(expected), rtol=1e-6)


def test_own_model_of_any_term_is_explained(simulated: Observations) -> None:
    some = simulated.select(slice(0, 30))
    draws = {"weight_base": np.zeros((2, 30, 5)), "bias": np.zeros((2, 30)), "slope_base": np.zeros((2, 30))}
    fit = fit_draws(draws, some, preset=squared)
    assert explain(fit, some, some.problem_id[0]).states["support"].sum() == pytest.approx(1)
    assert calibration_curves(fit)["calibrated"].between(0, 1).all()


def test_own_model_has_a_policy(simulated: Observations, tmp_path: Path) -> None:
    asking = policy(fit_map(simulated.select(slice(0, 60)), preset=squared), budget=0.5)
    asking.save(tmp_path / "policy.nc")
    again, report = Policy.load(tmp_path / "policy.nc", preset=squared), {"level": "vanilla", "answer": "3"}
    assert again.next([]).ask in simulated.level_names
    reports = [report | {"confidence": 90}]
    assert again.next(reports).probability in (
        asking.fit.answer(reports)["probability"],
        asking.next(reports).probability,
    )
    with pytest.raises(DirEAGError, match=r"own, squared, whose function a file does not hold"):
        Policy.load(tmp_path / "policy.nc")


def test_own_model_serves_explains_and_has_curves_by_its_own_program(fit: Fit, simulated: Observations) -> None:
    """Each level has a slope of its own, which no preset says."""
    new = simulated.select(np.array([150]))
    reports = [report.model_dump(exclude_none=True) for report in new.questions[0].observations]
    expected = fit.predict(new).iloc[0]
    served = TestClient(service(fit)).post("/answer", json=reports).json()
    assert (served["answer"], served["probability"]) == (expected["answer"], pytest.approx(expected["probability"]))
    explained, curves = (
        explain(fit, new, new.problem_id[0]).reports,
        calibration_curves(fit).set_index(["level", "stated"]),
    )
    assert len(explained) == len(reports)
    for number, own in explained.iterrows():
        without, alone = (fit.answer(part) for part in (reports[:number] + reports[number + 1 :], [reports[number]]))
        assert (own["answer_without"], own["probability_without"]) == (
            without["answer"],
            pytest.approx(without["probability"]),
        )
        assert own["alone"] == pytest.approx(alone["probability"])
        curve = curves.loc[own["level"], "calibrated"]
        assert np.interp(own["stated"], curve.index, curve) == pytest.approx(alone["support"], abs=1e-9)


def test_simulated_questions_are_of_any_program() -> None:
    """Where votes count ten thousandfold, the commonest answer is right, whatever the confidences."""

    def by_votes(data: LikelihoodData) -> None:
        strength = numpyro.sample("strength", dist.Normal(0, 1))
        draw_states(data, strength * sums_by_answer(data.usable, data.candidate), 0.0)

    drawn = simulate_observations(200, seed=2, preset=by_votes, parameters={"strength": np.array(1e4)})
    votes = np.stack(
        [(drawn.candidate == state).sum(axis=1) for state in range(drawn.correct_candidate.shape[1])], axis=1
    )
    right = drawn.correct_candidate & (votes == votes.max(axis=1, keepdims=True))
    assert right.any(axis=1)[drawn.answered].all()


def test_own_model_answers_one_question(simulated: Observations) -> None:
    def even(data: LikelihoodData) -> None:
        null_base = numpyro.sample("null_base", dist.HalfNormal(1.0))
        with data.levels():
            weight = numpyro.sample("weight", dist.Normal(1.0, 0.1))
        answers = 1 / data.n_states[None] + sums_by_answer(data.by_report(weight) * data.usable, data.candidate)
        draw_states(data, jnp.log(answers), jnp.log(1 / data.n_states + null_base))

    some, rng = simulated.select(slice(0, 30)), np.random.default_rng(0)
    draws = {"null_base_base": rng.normal(size=(2, 30)), "weight": rng.normal(1, 0.1, (2, 30, 5))}
    fit = fit_draws(draws, some, preset=even)
    question = some.questions[0]
    reports = [report.model_dump(exclude_none=True) for report in question.observations]
    predicted = fit.answer(reports)["probability"]
    assert predicted == pytest.approx(fit.predict(some)["probability"][0], rel=1e-12)


def test_parameters_of_a_share_that_is_not_of_weights_are_shown(simulated: Observations) -> None:
    def shared(data: LikelihoodData) -> None:
        share = numpyro.sample("share", dist.Normal(0, 1))
        draw_states(data, share * sums_by_answer(data.usable, data.candidate), 0 * data.n_states)

    fit = fit_draws({"share": np.full((2, 30), 0.4)}, simulated.select(slice(0, 30)), preset=shared)
    for table in (fit.parameters(), next(parameter_tables(compared_parameters({"fit": fit}))).rows):
        assert "share" in str(table)


def test_file_of_a_weight_that_may_be_negative_is_read(simulated: Observations, tmp_path) -> None:
    def signed(data: LikelihoodData) -> None:
        with data.levels():
            weight = numpyro.sample("weight", dist.Normal(0, 1))
        draw_states(data, sums_by_answer(data.by_report(weight) * data.usable, data.candidate), 0 * data.n_states)

    some = simulated.select(slice(0, 30))
    fit = fit_draws({"weight": np.full((2, 30, 5), -0.3)}, some, preset=signed)
    fit.save(tmp_path / "own.nc")
    again = Fit.load(tmp_path / "own.nc", preset=signed)
    pd.testing.assert_frame_equal(again.predict(some), fit.predict(some))


def test_own_model_is_cross_fitted_and_its_data_are_a_pytree(simulated: Observations) -> None:
    some = simulated.select(slice(0, 100))
    assert sum(len(part.predictions) for part in cross_fit(some, n_folds=2, preset=two_slopes)) == 100
    data = LikelihoodData.of(some, preset=two_slopes)
    again = jax.tree.unflatten(jax.tree.structure(data), jax.tree.leaves(data))
    assert (again.n_levels, again.n_signals, again.n_labels) == (5, 1, 0)


def test_numpyro_has_the_log_likelihood_of_its_draws(fit: Fit, simulated: Observations) -> None:
    some, rng, unconstrained = simulated.select(slice(0, 100)), np.random.default_rng(0), {}
    for name, mode in fit.tree["unconstrained_posterior"].to_dataset().items():
        unconstrained[str(name)] = mode.to_numpy() + 0.1 * rng.standard_normal((2, 50, *mode.shape[2:]))
    sampled = fit_draws(unconstrained, some, preset=two_slopes)
    assert sampled.tree["posterior"]["slope"].dims == ("chain", "draw", "level")
    assert (sampled.tree["posterior"]["spread"] > 0).all()
    data = LikelihoodData.of(some, preset=two_slopes)
    theirs = log_likelihood(model_of(preset(two_slopes)), unconstrained, data, batch_ndims=2)["target"]
    np.testing.assert_allclose(sampled.tree["log_likelihood"]["target"], theirs, rtol=1e-10)


@pytest.mark.slow
def test_own_model_is_there_for_what_fits_again(simulated: Observations) -> None:
    """Evaluations, and comparisons of a MAP with the posterior; a file of a fit has lost it."""
    some, short = simulated.select(slice(0, 60)), {"num_chains": 2, "num_warmup": 30, "num_samples": 40}
    evaluation = evaluate(some, methods=["direag"], preset=two_slopes, n_folds=2, n_resamples=20)
    assert len(evaluation.predictions.query("method == 'direag'")) == 60
    fits = {"map": fit_map(some, preset=two_slopes), "nuts": fit_nuts(some, preset=two_slopes, **short)}
    comparison = compare(fits, n_resamples=20).tables
    assert comparison["moved"]["fitted"].tolist() == [0, 0]
    slopes = comparison["parameters"].query("model == 'nuts' and parameter == 'slope'")
    assert slopes["level"].tolist() == [*some.level_names]
    assert fits["nuts"].with_predictive().tree["prior"]["slope"].dims == ("chain", "draw", "level")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")
def test_ones_own_run_with_unequal_weights_goes_to_arviz(simulated: Observations) -> None:
    """A weight is no part of the log-likelihood; what leaves a question out takes all that it counts."""
    weighted = replace(simulated.select(slice(0, 40)), weight=np.where(np.arange(40) % 2, 0.25, 2.0))
    settings = {"num_warmup": 50, "num_samples": 50, "num_chains": 2, "chain_method": "sequential"}
    run = MCMC(NUTS(two_slopes), **settings, progress_bar=False)
    with jax.numpy_rank_promotion("allow"):  # numpyro's own draws of a normal
        run.run(jax.random.key(0), LikelihoodData.of(weighted, preset=two_slopes))
        tree = arviz_base.from_numpyro(run, log_likelihood=True)
    fit = fit_draws(run, weighted, preset=two_slopes)
    np.testing.assert_allclose(tree["log_likelihood"]["target"], fit.tree["log_likelihood"]["target"], rtol=1e-10)
    ours, theirs = (arviz_stats.loo(one, var_name="target", pointwise=True) for one in (fit.tree, tree))
    assert ours.elpd == pytest.approx(theirs.elpd)
    density = tree["log_likelihood"]["target"].stack(sample=("chain", "draw"))  # noqa: PD013 - of xarray
    counts = fit.likelihood_data.weight[:, None] * density
    effective = arviz_stats.ess(fit.tree["unconstrained_posterior"].to_dataset(), method="mean")
    reff = np.mean(np.concatenate([np.ravel(values) for values in effective.values()])) / density.sizes["sample"]
    weight, _ = smoothed_weights(counts.to_numpy(), float(reff))
    np.testing.assert_allclose(fit.left_out["elpd"], logsumexp(density.to_numpy() + weight, axis=1), rtol=1e-10)
