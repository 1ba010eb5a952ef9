"""What pooling does on worlds that are known, and that one setting alone is believed as its preset believes it."""

import arviz_stats
import numpy as np
import pytest
from scipy import stats

from bayes_direag.fits.fitting import fit_nuts
from bayes_direag.fits.multi_setting import fit_multi_setting, levels_apart
from bayes_direag.inference.posterior import parameter_draws
from bayes_direag.model.multi_setting import BETWEEN
from bayes_direag.model.presets import preset
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations

pytestmark = pytest.mark.slow
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
