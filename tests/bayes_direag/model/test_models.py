"""The programs are the equations and priors of the documentation, and any NumPyro tool takes them."""

import itertools
import math
from dataclasses import replace

import arviz_base
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoLaplaceApproximation, AutoNormal
from numpyro.infer.util import log_density
from numpyro.optim import Adam

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import fit_draws
from bayes_direag.inference.map import penalised_loss
from bayes_direag.inference.nuts import NUMPYRO_STATISTICS
from bayes_direag.model.likelihood_data import LikelihoodData, fitted_to
from bayes_direag.model.models import bayes, model_of
from bayes_direag.model.presets import preset
from bayes_direag.model.settings import Preset
from bayes_direag.model.simulate import simulate_observations
from bayes_direag.model.unconstrained import Unconstrained, evaluated, parameter_sites, unconstrained
from tests.bayes_direag import brute_force
from tests.bayes_direag.data.questions import question

MODELS = {
    "paper": preset("paper"),
    "paper-level": preset("paper", "level"),
    "release": preset("release"),
    "release-count": preset("release", "count"),
    "bayes": preset("bayes"),
}
each_model = pytest.mark.parametrize(
    "settings",
    [
        pytest.param(own, id=name, marks=[pytest.mark.slow] if own.variant != "confidence" else [])
        for name, own in MODELS.items()
    ],
)


def some_unconstrained(model: Preset, data: LikelihoodData, at: int = 0) -> Unconstrained:
    rng = np.random.default_rng(at)
    sites = parameter_sites(model_of(model), data)
    return {name: jnp.asarray(rng.normal(size=site.shape)) for name, site in sites.items() if site.is_unconstrained}


def some_data(observations: Observations, settings: Preset, labels: tuple[str, ...] = ()) -> LikelihoodData:
    observations, settings = fitted_to(observations, settings)
    weight = 1.0 + np.arange(len(observations)) % 3
    data = LikelihoodData.weighted(observations, weight, preset=settings, labels=labels)
    levels = np.linspace(0.8, -0.9, data.n_levels)
    return replace(data, agreement=levels) if settings.uses_agreement else data


def log_probability(observations: Observations, question: int, values: dict[str, object], eps: float) -> float:
    """Return the log probability of the state that occurred, in plain Python."""
    scores = brute_force.scores(brute_force.reports_of(observations, question), values, eps)
    support = brute_force.support(scores)
    right = [
        candidate
        for number, candidate in enumerate(observations.candidates[question])
        if observations.correct_candidate[question, number]
    ]
    return math.log(sum(support[answer] for answer in right or [brute_force.NULL]))


def grouped(observations: Observations) -> Observations:
    return replace(observations, groups=("a", "b", "b", "c", "b"))


def several_right(observations: Observations) -> Observations:
    """Return questions of which the first three reports are right, whatever they say."""
    return replace(observations, correct=observations.usable & (np.arange(observations.n_levels) < 3))


def labelled_yes_no(n: int) -> Observations:
    rng = np.random.default_rng(5)
    records = []
    for number in range(n):
        said = rng.choice(["yes", "no", "unsure"], size=4, p=[0.6, 0.3, 0.1]).tolist()
        votes = [
            {"level": k, "answer": answer, "confidence": float(rng.integers(40, 99))} for k, answer in enumerate(said)
        ]
        records.append(
            {"problem_id": f"q{number}", "gold_answer": "yes" if number % 2 else "no", "observations": votes}
        )
    return Observations.from_records(records, "text")


class TestDensity:
    """Priors with their constants, and the log probability of each state, to the last digits."""

    @each_model
    def test_it_is_that_of_the_equations(self, settings: Preset, labelled: Observations) -> None:
        self.check(settings, labelled)

    @pytest.mark.parametrize("name", ["paper", "bayes"])
    @pytest.mark.parametrize("changed", [grouped, several_right])
    def test_with_groups_and_several_right_answers(self, name: str, changed, labelled: Observations) -> None:
        self.check(MODELS[name], changed(labelled))

    def test_with_several_signals(self) -> None:
        self.check(MODELS["bayes"], simulate_observations(40, seed=3, signals=("words", "token")))

    def test_with_labels(self) -> None:
        observations = labelled_yes_no(40)
        labels = MODELS["bayes"].labels(observations)
        assert labels == ("no", "unsure", "yes")
        self.check(MODELS["bayes"], observations, labels)

    def check(self, settings: Preset, observations: Observations, labels: tuple[str, ...] = ()) -> None:
        model, kind = model_of(settings), settings.name
        data = some_data(observations, settings, labels)
        unconstrained = some_unconstrained(settings, data)
        values = brute_force.natural(unconstrained, kind, data.agreement if kind == "bayes" else (), labels)
        slots = observations.slots
        by_level = ("weight", "bias", "vote") if slots else ()
        values |= {name: [values[name][slot] for slot in slots or ()] for name in by_level if name in values}
        each = [log_probability(observations, i, values, settings.eps) for i in range(len(data.weight))]
        both = lambda x: (evaluated(model, x, data), log_density(model, (data,), {}, x)[0])  # noqa: E731
        ours, joint = jax.jit(both)(unconstrained)
        np.testing.assert_allclose(ours.log_likelihood, each, rtol=1e-12, atol=1e-14)
        priors = brute_force.log_priors(unconstrained, kind, float(data.weight.sum()))
        for name, prior in priors.items():
            np.testing.assert_allclose(ours.log_prior[name], prior, rtol=1e-12, atol=1e-13)
        expected = sum(np.sum(prior) for prior in priors.values()) + data.weight @ np.array(each)
        np.testing.assert_allclose(float(joint), expected, rtol=1e-12)
        weight = ours.natural["weight"]
        np.testing.assert_allclose(ours.natural["share"], weight / np.sum(weight), rtol=1e-12)


@pytest.mark.parametrize("variant", ["count", "level", "confidence"])
def test_model_release_has_the_printed_loss(variant, labelled: Observations) -> None:
    """The weighted mean of -log P, plus .001 times the mean of unconstrained^2."""
    settings = preset("release", variant)
    data = some_data(labelled, settings)
    unconstrained = some_unconstrained(settings, data)
    values = brute_force.natural(unconstrained, "release")
    losses = [-log_probability(labelled, i, values, settings.eps) for i in range(len(data.weight))]
    entries = np.concatenate([np.ravel(value) for value in unconstrained.values()])
    expected = data.weight @ np.array(losses) / data.weight.sum() + 0.001 * np.mean(entries**2)
    loss = jax.jit(lambda unconstrained: penalised_loss(model_of(settings), unconstrained, data))(unconstrained)
    np.testing.assert_allclose(float(loss), expected, rtol=1e-12)


@each_model
def test_model_density_and_gradient_are_finite_however_far_out(settings: Preset, labelled: Observations) -> None:
    """Also where a question has no report, and in rows that only fill up."""
    nothing = question("silent", None, gold_answer="3")
    together = Observations.from_questions([*labelled.questions[:20], nothing], answers="numeric")
    data = some_data(together.align(labelled.level_names) if together.n_levels != 5 else together, settings).padded(30)

    @jax.jit
    @jax.value_and_grad
    def joint(unconstrained: Unconstrained) -> jax.Array:
        return log_density(model_of(settings), (data,), {}, unconstrained)[0]

    middle = {name: jnp.full_like(value, 0.1) for name, value in some_unconstrained(settings, data).items()}
    alternating = jnp.asarray([1.0, -1.0, 1.0, -1.0, 1.0])
    for (name, value), sign in itertools.product(middle.items(), (-1, 1)):
        far = jnp.full_like(value, 2.9 if settings.name == "release" else 30.0) * sign
        reached, slopes = joint(middle | {name: far * alternating if value.ndim else far})
        assert settings.name == "release" or np.isfinite(float(reached)), name
        assert all(np.isfinite(slope).all() for slope in slopes.values()), name


def test_model_density_changes_little_in_single_precision(labelled: Observations) -> None:
    """As NUTS works: with parameters and the work of each question in single precision, and sums in double."""
    from bayes_direag.model.unconstrained import in_single_precision

    data = some_data(labelled, MODELS["bayes"])
    unconstrained = some_unconstrained(MODELS["bayes"], data)

    @jax.jit
    def densities(unconstrained: Unconstrained) -> tuple[jax.Array, jax.Array]:
        whole = log_density(bayes, (data,), {}, unconstrained)[0]
        return whole, log_density(in_single_precision(bayes), (data.in_single_precision(),), {}, unconstrained)[0]

    whole, rounded = densities(unconstrained)
    assert rounded.dtype == jnp.float64
    assert 0 < abs(float(whole - rounded)) < 1e-3

    @jax.grad
    def slope(unconstrained: Unconstrained) -> jax.Array:
        return log_density(in_single_precision(bayes), (data.in_single_precision(),), {}, unconstrained)[0]

    operations, (n_reports, n) = str(jax.make_jaxpr(slope)(unconstrained)), data.candidate.shape
    assert f"f32[{n_reports},{n}] = exp" in operations
    assert f"f64[{n_reports},{n}]" not in operations
    assert f"f64[{n_reports + 1},{n}]" not in operations


@pytest.fixture(scope="module")
def numpyro_run(labelled: Observations) -> MCMC:
    """The same posterior, drawn from by numpyro's own sampler."""
    chains = {"num_chains": 2, "chain_method": "sequential", "progress_bar": False}
    run = MCMC(NUTS(bayes, dense_mass=True), num_warmup=150, num_samples=200, **chains)
    run.run(jax.random.key(3), LikelihoodData.of(labelled), extra_fields=tuple(NUMPYRO_STATISTICS))
    return run


@pytest.fixture(scope="module")
def data(labelled: Observations) -> LikelihoodData:
    return LikelihoodData.of(labelled)


@pytest.fixture(scope="module")
def draws(nuts: Fit) -> dict[str, np.ndarray]:
    kept = nuts.tree["unconstrained_posterior"].to_dataset().isel(chain=0, draw=slice(20))
    return {str(name): values.to_numpy() for name, values in kept.items()}


@pytest.mark.slow
def test_model_chain_goes_to_arviz_and_comes_back_as_a_fit(
    numpyro_run: MCMC, nuts: Fit, labelled: Observations, simulated: Observations
) -> None:
    """Log-likelihoods are those of the fit; predictions are those of the project's own sampler, but for noise."""
    fit = fit_draws(numpyro_run, labelled)
    with jax.numpy_rank_promotion("allow"):  # numpyro's own draws of a normal
        tree = arviz_base.from_numpyro(numpyro_run, log_likelihood=True)
    assert tree["posterior"]["share"].dims == ("chain", "draw", "level")
    assert tree["observed_data"]["target"].to_numpy().tolist() == LikelihoodData.of(labelled).target.tolist()
    np.testing.assert_allclose(tree["log_likelihood"]["target"], fit.tree["log_likelihood"]["target"], rtol=1e-10)
    apart = np.abs(fit.predict(simulated)["support"] - nuts.predict(simulated)["support"])
    assert (apart.max() < 0.08, apart.mean() < 0.02) == (True, True)


def test_model_predicts_from_prior_and_posterior(draws: dict[str, np.ndarray], data: LikelihoodData) -> None:
    prior = Predictive(bayes, num_samples=20)(jax.random.key(1), data.unlabelled)
    after = Predictive(bayes, draws)(jax.random.key(1), data.unlabelled)
    for drawn in (np.asarray(prior["target"]), np.asarray(after["target"])):
        assert ((drawn >= -1) & (drawn < data.n_candidates)).all()
    assert after["target"].shape == numpyro.infer.log_likelihood(bayes, draws, data)["target"].shape == (20, 80)


def test_model_log_likelihood_has_no_weights(draws: dict[str, np.ndarray], data: LikelihoodData) -> None:
    heavy = data.with_weight(3 * data.weight)
    tripled, same = (numpyro.infer.log_likelihood(bayes, draws, weighted)["target"] for weighted in (heavy, data))
    np.testing.assert_array_equal(tripled, same)


@pytest.mark.slow
@pytest.mark.parametrize("guide", [AutoNormal, AutoLaplaceApproximation])
def test_model_takes_any_guide_and_optimiser(guide: type, data: LikelihoodData) -> None:
    svi = SVI(bayes, guide(bayes), Adam(0.05), Trace_ELBO())
    losses = np.asarray(svi.run(jax.random.key(0), 60, data, progress_bar=False).losses)
    assert losses[-10:].mean() < losses[:10].mean()


def test_model_drawing_names_its_plates_and_sites(data: LikelihoodData) -> None:
    with jax.numpy_rank_promotion("allow"):  # numpyro's own draws of a normal
        relations = numpyro.infer.inspect.get_model_relations(bayes, (data,))
    assert {"weight_base_decentered", "vote_decentered"} <= set(relations["plate_sample"]["level"])
    assert relations["plate_sample"]["problem"] == relations["observed"] == ["target"]


@each_model
def test_model_draws_targets_from_the_support_without_labels(settings: Preset) -> None:
    n, said = 4000, (("a", 80), ("b", 80), ("a", 80))
    one = Observations.from_questions([question("q", *said, gold_answer="a")], answers="text")
    data = some_data(one, settings)
    unconstrained = some_unconstrained(settings, data)
    many = data.select(np.zeros(n, int)).unlabelled
    drawn = np.asarray(
        Predictive(model_of(settings), unconstrained, batch_ndims=0)(jax.random.key(4), many)["target"]
    ).ravel()
    values = brute_force.natural(unconstrained, settings.name, data.agreement if settings.name == "bayes" else ())
    support = brute_force.support(brute_force.scores(brute_force.reports_of(one, 0), values, settings.eps))
    for state, name in ((0, "a"), (1, "b"), (-1, brute_force.NULL)):
        p, count = support[name], np.sum(drawn == state)
        assert abs(count - n * p) < 4.5 * np.sqrt(n * p * (1 - p)) + 1


def test_unconstrained_sites_of_any_support_keep_the_density(labelled: Observations) -> None:
    """The mode there is that of the density with its Jacobian: log Gamma(3, 2) has it at log(3 / 2)."""

    @unconstrained()
    def program(_: LikelihoodData) -> None:
        numpyro.sample("rate", dist.Gamma(3.0, 2.0))
        numpyro.sample("share", dist.Beta(2.0, 5.0))
        numpyro.sample("scale", dist.HalfNormal(2.0))
        numpyro.sample("bound", dist.TruncatedNormal(0.0, 1.0, low=-1.0, high=2.0))
        numpyro.sample("target", dist.Normal(0.0, 1.0), obs=0.0)

    data = LikelihoodData.of(labelled)

    def density(at: float) -> jax.Array:
        unconstrained = {"rate_base": at, "share_base": 0.0, "scale_base": 0.0, "bound": 0.0}
        return log_density(program, (data,), {}, unconstrained)[0]

    assert abs(float(jax.grad(density)(math.log(1.5)))) < 1e-6


def test_model_called_with_a_frame_says_what_to_give(labelled: Observations) -> None:
    with pytest.raises(DirEAGError, match=r"bayes: saw DataFrame; expected LikelihoodData, as LikelihoodData\.of"):
        bayes(labelled.to_frame())
