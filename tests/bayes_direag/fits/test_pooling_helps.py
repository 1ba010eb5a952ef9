"""What pooling does on worlds that are known, and that one setting alone is believed as its preset believes it."""

import math

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_nuts
from bayes_direag.fits.multi_setting import fit_multi_setting, levels_apart
from bayes_direag.inference.posterior import parameter_draws
from bayes_direag.model.evidence import Parameters
from bayes_direag.model.multi_setting import BETWEEN
from bayes_direag.model.presets import preset
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations

pytestmark = pytest.mark.slow

SHORT = SamplingSettings(n_chains=2, n_warmup=150, n_draws=150)
BAYES = levels_apart(preset("bayes"))
NAMES = BAYES.free_parameters("confidence")


def test_one_setting_alone_is_its_own_preset_reweighted() -> None:
    """The posteriors differ by the ratio of the priors, which quadrature over the spreads gives."""
    observations = simulate_observations(80, seed=5)
    long = SamplingSettings(n_chains=2, n_warmup=500, n_draws=1500)
    alone = parameter_draws(fit_nuts(observations, preset=BAYES, sampling=long, seed=1).tree)
    pooled = fit_multi_setting({"one": observations}, sampling=long, seed=1)
    assert not pooled.hierarchy["sample_stats"]["diverging"].any()
    found = parameter_draws(pooled.settings["one"].tree)
    node, mass = np.polynomial.legendre.leggauss(60)
    tau = 3 * (node + 1)
    mass = 3 * mass * stats.halfnorm.pdf(tau)
    log_ratio = np.zeros(3000)
    for name in NAMES:
        prior = BAYES.parameter(name)
        unit = (alone[f"{name}_raw"].to_numpy().reshape(3000, -1) - prior.loc) / prior.scale
        sd = np.sqrt(1 - BETWEEN + BETWEEN * tau**2)
        inside = stats.norm.logpdf(unit[:, :, None], 0, sd).sum(axis=1)
        log_ratio += np.log(np.exp(inside) @ mass) - stats.norm.logpdf(unit).sum(axis=1)
    weight = np.exp(log_ratio - log_ratio.max())
    weight /= weight.sum()
    kept = 1 / (weight**2).sum() / 3000
    assert kept > 0.3
    for name in NAMES:
        theirs, ours = alone[f"{name}_raw"], found[f"{name}_raw"]
        size = arviz_stats.ess(alone)[f"{name}_raw"].to_numpy().ravel() * kept
        own = arviz_stats.ess(found)[f"{name}_raw"].to_numpy().ravel()
        values = theirs.to_numpy().reshape(3000, -1)
        mean = weight @ values
        sd = np.sqrt(weight @ (values - mean) ** 2)
        error = sd * np.sqrt(1 / size + 1 / own)
        assert (abs(ours.to_numpy().reshape(3000, -1).mean(axis=0) - mean) < 4 * error).all(), name
        np.testing.assert_allclose(ours.to_numpy().reshape(3000, -1).std(axis=0), sd, rtol=0.2)


#: Evidence that adds up, as in these worlds.
APART = BAYES.override(sharpness=None, vote=None, vote_spread=None)


def truth(rng: np.random.Generator, centre: dict[str, np.ndarray]) -> Parameters:
    """Return the parameters of a setting, half as far from the centre as settings are expected to lie."""
    with jax.enable_x64(True):
        return Parameters(
            weight=jnp.exp(jnp.asarray(centre["weight"] + 0.25 * rng.normal(size=5))),
            bias=jnp.asarray(centre["bias"] + 0.5 * rng.normal(size=5)),
            slope=jnp.exp(jnp.asarray(centre["slope"] + 0.15 * rng.normal())),
            prior_strength=jnp.asarray(1.0),
            null_base=jnp.asarray(0.3),
            null_gain=jnp.exp(jnp.asarray(centre["null_gain"] + 0.15 * rng.normal())),
        )


def centre(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "weight": rng.normal(2, 1, 5),
        "bias": rng.normal(-1, 1.5, 5),
        "slope": rng.normal(0, 0.4),
        "null_gain": rng.normal(-1, 0.5),
    }


def log_loss(fit: Fit, test: Observations) -> float:
    table = fit.predict(test)
    right, p = test.is_right(table["answer"]), np.clip(table["confidence"].to_numpy(float), 0.01, 0.99)
    return float(-np.mean(np.where(right, np.log(p), np.log1p(-p))))


@pytest.mark.parametrize(("alien", "n_labels", "least_gain"), [(False, 30, 0.0), (True, 80, -0.05)])
def test_few_labels_of_a_new_setting(alien: bool, n_labels: int, least_gain: float) -> None:
    """With three settings of 200 labels each it is predicted better; where it is of another kind, little worse."""
    gains = []
    for world in range(3):
        rng = np.random.default_rng(world)
        shared = centre(rng)
        seen = {
            f"set {k}": simulate_observations(200, seed=1000 * world + k, parameters=truth(rng, shared))
            for k in range(3)
        }
        own, stranger = truth(rng, shared), truth(rng, centre(rng))
        questions = simulate_observations(
            580, seed=1000 * world + (60 if alien else 50), parameters=stranger if alien else own
        )
        learned, test = questions.select(slice(0, n_labels)), questions.select(slice(80, 580))
        pooled = fit_multi_setting(seen | {"own": learned}, preset=APART, sampling=SHORT, seed=world)
        assert pooled.hierarchy["sample_stats"]["diverging"].mean() < 0.01
        alone = fit_nuts(learned, preset=APART, sampling=SHORT, seed=world)
        gains.append(log_loss(alone, test) - log_loss(pooled.settings["own"], test))
    assert math.fsum(gains) / len(gains) > least_gain
