from dataclasses import replace

import arviz_base
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro.handlers import seed, trace
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoLaplaceApproximation, AutoNormal
from numpyro.infer.util import log_density
from numpyro.optim import Adam
from scipy import stats

from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.map import penalised_loss
from bayes_direag.inference.nuts import NUMPYRO_STATISTICS
from bayes_direag.model.equations import Reports, clipped_logit
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import direag, log_likelihood, log_prior, raw_from_vector, sites
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import LEVEL_PARAMETERS, VARIANTS, Preset, Variant
from tests.bayes_direag import brute_force

#: Of judges, whose answers have to be a few labels: tests/bayes_direag/fits/test_judges.py.
EVERY = [(preset, variant) for preset in PRESETS.values() if preset.label_vote is None for variant in VARIANTS]
#: Which of them are held by default: every preset and every variant; the others are slow.
QUICK = {"paper-level", "release-count", "bayes-confidence"}
each_model = pytest.mark.parametrize(
    ("preset", "variant"),
    [
        pytest.param(preset, variant, id=name, marks=[] if name in QUICK else [pytest.mark.slow])
        for preset, variant in EVERY
        for name in [f"{preset.name}-{variant}"]
    ],
)


def some_raw(preset: Preset, variant: Variant, n_levels: int = 5, at: int = 0) -> dict[str, jax.Array]:
    rng = np.random.default_rng(at)
    return {
        name: jnp.asarray(rng.normal(size=n_levels if name in LEVEL_PARAMETERS else ()))
        for name in preset.free_parameters(variant)
    }


def some_data(observations: Observations, preset: Preset, variant: Variant) -> LikelihoodData:
    weight = np.where(np.arange(len(observations)) % 7 == 0, 0.0, 1.0 + np.arange(len(observations)) % 3)
    data = LikelihoodData.weighted(observations, weight, preset=preset, variant=variant)
    return replace(data, agreement=np.linspace(0.8, -0.9, 5) if preset.uses_agreement else None)


def unanswered(observations: Observations) -> Observations:
    """Return a question to which no level gave an answer."""
    nothing = tuple(Observation(level=0, level_name=name, answer=None) for name in observations.level_names[:1])
    silent = Question(problem_id="silent", gold_answer="3", observations=nothing)
    together = Observations.from_questions([silent, *observations.questions[:4]], answers="numeric")
    return together.select(slice(0, 1))


def log_probability(observations: Observations, question: int, values: dict[str, object], eps: float) -> float:
    """Return the log probability of the state that occurred, in plain Python."""
    support = brute_force.support(brute_force.scores(brute_force.reports_of(observations, question), values, eps))
    gold = observations.questions[question].gold_answer
    return float(np.log(support[gold if gold in support else brute_force.NULL]))


@each_model
def test_loss_is_the_printed_equation(preset: Preset, variant: Variant, labelled: Observations) -> None:
    raw, data = some_raw(preset, variant), some_data(labelled, preset, variant)
    values = brute_force.natural(raw, preset, data.agreement)
    total = sum(-w * log_probability(labelled, i, values, preset.eps) for i, w in enumerate(data.weight))
    entries = np.concatenate([np.ravel(value) for value in raw.values()])
    if preset.penalty is not None:
        penalty = preset.penalty * np.mean(entries**2)
    else:
        priors = brute_force.raw_priors(raw, preset, data.weight.sum())
        squares = [np.sum(((np.asarray(raw[name]) - loc) / scale) ** 2) for name, (loc, scale) in priors.items()]
        penalty = sum(squares) / (2 * data.weight.sum())
    expected = total / data.weight.sum() + penalty
    np.testing.assert_allclose(float(jax.jit(penalised_loss)(raw, data)), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["paper", "bayes"])
def test_several_right_answers_share_one_state(name: str) -> None:
    """Their probabilities add up, and so do those of two right ones, whichever of them the target is called by."""
    preset = PRESETS[name]
    raw = some_raw(preset, "confidence", n_levels=4)
    reports = [
        Observation(level=level, answer=answer, confidence=stated, correct=answer != "b")
        for level, (answer, stated) in enumerate([("a", 90.0), ("b", 60.0), ("c", 80.0), ("a", 30.0)])
    ]
    judged = Observations.from_questions([Question(problem_id="q", observations=tuple(reports))], answers="text")
    data = LikelihoodData.of(judged, preset=preset)
    own = brute_force.reports_of(judged, 0)
    support = brute_force.support(brute_force.scores(own, brute_force.natural(raw, preset), preset.eps))
    expected, reached = np.log(support["a"] + support["c"]), jax.jit(log_likelihood)
    np.testing.assert_allclose(np.asarray(reached(raw, data)), [expected], rtol=1e-12)
    for target, state in ((1, "b"), (-1, brute_force.NULL)):
        wrong = replace(data, target=np.array([target]))
        np.testing.assert_allclose(np.asarray(reached(raw, wrong)), [np.log(support[state])], rtol=1e-12)


@each_model
@pytest.mark.parametrize("sign", [-1, 1])
def test_value_and_gradient_are_finite_however_far_out(
    preset: Preset, variant: Variant, sign: int, labelled: Observations
) -> None:
    """Also where a question has no report, and in rows that only fill up."""
    data = some_data(labelled, preset, variant)
    nothing = LikelihoodData.weighted(unanswered(labelled), np.zeros(1), preset=preset, variant=variant)
    assert nothing.reports.n_candidates.tolist() == [0]
    data = data.padded(len(data.weight) + 3)

    @jax.jit
    @jax.value_and_grad
    def joint(raw: dict[str, jax.Array]) -> jax.Array:
        return jnp.sum(data.weight * log_likelihood(raw, data)) + jnp.sum(log_likelihood(raw, nothing))

    middle = {name: jnp.full_like(value, 0.1) for name, value in some_raw(preset, variant).items()}
    alternating = jnp.asarray([30.0, -30.0, 30.0, -30.0, 30.0])
    for name, value in middle.items():
        far = jnp.full_like(value, 30.0 * sign) if value.ndim == 0 else sign * alternating
        if name == "weight_spread" and sign > 0:
            continue  # weights then are exp(e^30 times an offset), which is no number
        reached, slopes = joint(middle | {name: far})
        assert np.isfinite(float(reached)), name
        assert all(np.isfinite(slope).all() for slope in slopes.values()), name


@each_model
def test_the_joint_density_is_that_of_the_equations(preset: Preset, variant: Variant, labelled: Observations) -> None:
    """The constant too: normal priors on raw parameters, and the log support of the state that occurred."""
    raw, data = some_raw(preset, variant), some_data(labelled, preset, variant)
    prior = sum(
        stats.norm.logpdf(np.asarray(raw[name]), loc, scale).sum()
        for name, (loc, scale) in brute_force.raw_priors(raw, preset, float(data.weight.sum())).items()
    )
    values = brute_force.natural(raw, preset, data.agreement)
    likelihood = sum(w * log_probability(labelled, i, values, preset.eps) for i, w in enumerate(data.weight))
    joint = jax.jit(lambda raw: log_density(direag, (data,), {}, sites(raw))[0])(raw)
    np.testing.assert_allclose(float(joint), prior + likelihood, rtol=1e-12)
    np.testing.assert_allclose(float(jax.jit(log_prior)(raw, data)), prior, rtol=1e-12)


@pytest.fixture(scope="module")
def numpyro_run(labelled: Observations) -> MCMC:
    """The same posterior, drawn from by numpyro's own sampler on the exported model."""
    chains = {"num_chains": 2, "chain_method": "sequential", "progress_bar": False}
    run = MCMC(NUTS(direag, dense_mass=True), num_warmup=150, num_samples=200, **chains)
    run.run(jax.random.key(3), LikelihoodData.of(labelled, preset="bayes"), extra_fields=tuple(NUMPYRO_STATISTICS))
    return run


class TestAnyNumPyroTool:
    """The model as anybody would use it, under preset bayes."""

    @pytest.fixture(scope="class")
    @staticmethod
    def data(labelled: Observations) -> LikelihoodData:
        return LikelihoodData.of(labelled, preset="bayes")

    @pytest.fixture(scope="class")
    @staticmethod
    def draws(nuts: Fit) -> dict[str, np.ndarray]:
        kept = nuts.tree["unconstrained_posterior"].to_dataset().isel(chain=0, draw=slice(20))
        return {str(name): values.to_numpy() for name, values in kept.items()}

    @pytest.mark.slow
    def test_a_chain_goes_to_arviz(self, numpyro_run: MCMC, data: LikelihoodData) -> None:
        tree = arviz_base.from_numpyro(numpyro_run, log_likelihood=True)
        assert tree["posterior"]["weight"].dims == ("chain", "draw", "level")
        assert tree["observed_data"]["target"].to_numpy().tolist() == data.target.tolist()
        raw = {name: numpyro_run.get_samples(group_by_chain=True)[f"{name}_raw"][1, 7] for name in
               data.preset.free_parameters("confidence")}  # fmt: skip
        reached = tree["log_likelihood"]["target"].to_numpy()[1, 7]
        np.testing.assert_allclose(reached, np.asarray(jax.jit(log_likelihood)(raw, data)), rtol=1e-12)

    @pytest.mark.slow
    def test_a_chain_comes_back_as_a_fit(
        self, numpyro_run: MCMC, nuts: Fit, labelled: Observations, simulated: Observations
    ) -> None:
        """Predictions are those of the project's own sampler, but for noise."""
        fit = Fit.from_draws(numpyro_run, labelled)
        theirs = nuts.predict(simulated)
        np.testing.assert_allclose(fit.predict(simulated)["support"], theirs["support"], atol=0.08)
        assert np.abs(fit.predict(simulated)["support"] - theirs["support"]).mean() < 0.02
        reached = fit.tree["log_likelihood"]["target"].sum("problem").to_numpy()
        raw = {name: numpyro_run.get_samples(True)[f"{name}_raw"] for name in fit.preset.free_parameters("confidence")}
        prior = sum(
            np.sum(stats.norm.logpdf(raw[name], loc, scale).reshape(*reached.shape, -1), axis=2)
            for name, (loc, scale) in brute_force.raw_priors(raw, fit.preset, np.nan).items()
        )
        np.testing.assert_allclose(fit.tree["sample_stats"]["lp"], reached + prior, rtol=1e-10)

    def test_prior_and_posterior_prediction(self, draws: dict[str, np.ndarray], data: LikelihoodData) -> None:
        prior = Predictive(direag, num_samples=20)(jax.random.key(1), data.unlabelled)
        after = Predictive(direag, draws)(jax.random.key(1), data.unlabelled)
        for drawn in (np.asarray(prior["target"]), np.asarray(after["target"])):
            assert ((drawn >= -1) & (drawn < data.reports.n_candidates)).all()
        assert after["target"].shape == numpyro.infer.log_likelihood(direag, draws, data)["target"].shape == (20, 80)

    @pytest.mark.slow
    @pytest.mark.parametrize("guide", [AutoNormal, AutoLaplaceApproximation])
    def test_any_guide_and_optimiser(self, guide: type, data: LikelihoodData) -> None:
        svi = SVI(direag, guide(direag), Adam(0.05), Trace_ELBO())
        losses = np.asarray(svi.run(jax.random.key(0), 60, data, progress_bar=False).losses)
        assert losses[-10:].mean() < losses[:10].mean()

    def test_a_drawing_names_its_plates_and_sites(self, data: LikelihoodData) -> None:
        relations = numpyro.infer.inspect.get_model_relations(direag, (data,))
        assert {"bias_raw", "weight_raw"} <= set(relations["plate_sample"]["level"])
        assert relations["plate_sample"]["problem"] == ["target"]
        assert relations["observed"] == ["target"]


@each_model
def test_without_labels_targets_are_drawn_from_the_support(preset: Preset, variant: Variant) -> None:
    n = 4000
    candidate = np.tile([[0, 1, 0]], (n, 1))
    reports = Reports(clipped_logit(np.full((n, 3), 0.8), preset.eps), candidate, np.full(n, 2))
    data = LikelihoodData(reports, None, candidate, np.ones(n), preset.model_settings, variant)
    raw_sites = [f"{name}_raw" for name in preset.free_parameters(variant)]

    @jax.jit
    def draw() -> dict[str, jax.Array]:
        drawn_sites = trace(seed(direag, jax.random.key(4))).get_trace(data)
        return {name: drawn_sites[name]["value"] for name in ("target", *raw_sites)}

    drawn_once = draw()
    drawn = np.asarray(drawn_once["target"])
    raw = {name.removesuffix("_raw"): drawn_once[name] for name in raw_sites}
    values = brute_force.natural(raw, preset)
    own = [(0, "a", 0.8), (1, "b", 0.8), (2, "a", 0.8)]
    support = brute_force.support(brute_force.scores(own, values, preset.eps))
    counts = [np.sum(drawn == state) for state in (0, 1, -1)]
    assert sum(counts) == 4000
    probabilities = [support["a"], support["b"], support[brute_force.NULL]]
    for count, p in zip(counts, probabilities, strict=True):
        assert abs(count - 4000 * p) < 4.5 * np.sqrt(4000 * p * (1 - p)) + 1


def test_the_raw_vector_is_read_in_the_recorded_order() -> None:
    raw = raw_from_vector(np.arange(14.0), preset=PRESETS["release"], variant="confidence", n_levels=5)
    assert list(raw) == ["weight", "bias", "slope", "prior_strength", "null_base", "null_gain"]
    assert raw["weight"].tolist() == [0, 1, 2, 3, 4]
    assert raw["bias"].tolist() == [5, 6, 7, 8, 9]
    assert [float(raw[name]) for name in list(raw)[2:]] == [10, 11, 12, 13]
    with pytest.raises(ValueError, match="has 13 entries; confidence with 5 levels has 14"):
        raw_from_vector(np.arange(13.0), preset=PRESETS["paper"], variant="confidence", n_levels=5)
