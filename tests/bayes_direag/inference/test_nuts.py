"""What NUTS explores is the density whose mode a MAP fit finds, and its draws are draws from it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import arviz_stats
import numpy as np
import pytest

from bayes_direag import LikelihoodData, bayes, simulate_observations
from bayes_direag.fits.fit import Fit
from bayes_direag.inference import nuts
from bayes_direag.model.models import model_of
from bayes_direag.model.settings import SamplingSettings
from tests.bayes_direag import brute_force, one_level
from tests.benchmarks.posterior import largest_difference, numpyro_draws


class TestStatistics:
    def test_lp_is_the_log_joint_density(self, nuts: Fit) -> None:
        """Of labels and unconstrained parameters together, every constant included, and not its negative."""
        drawn = nuts.tree["unconstrained_posterior"].to_dataset()
        unconstrained = {str(name): values.to_numpy() for name, values in drawn.items()}
        expected = nuts.tree["log_likelihood"]["target"].sum("problem")
        for terms in brute_force.log_priors(unconstrained, "bayes", np.nan).values():
            expected = expected + (terms.sum(axis=2) if terms.ndim == 3 else terms)
        np.testing.assert_allclose(nuts.tree["sample_stats"]["lp"], expected, rtol=1e-10)
        assert (expected < 0).all()

    def test_energy_is_minus_lp_and_the_momentums_half_a_degree_of_freedom_each(self, one_level_nuts: Fit) -> None:
        """A model of one's own is sampled in its unconstrained parameters."""
        stats = one_level_nuts.tree["sample_stats"].to_dataset()
        kinetic = (stats["energy"] + stats["lp"]).to_numpy()
        n_unconstrained = 2
        assert (kinetic > 0).all()
        assert abs(kinetic.mean() - n_unconstrained / 2) < 4.5 * np.sqrt(n_unconstrained / 2 / kinetic.size)

    def test_depth_follows_from_the_steps(self, one_level_nuts: Fit) -> None:
        """A tree of depth d has taken its d doublings, the last of them perhaps in part."""
        n_steps, depth = (one_level_nuts.tree["sample_stats"][name].to_numpy() for name in ("n_steps", "tree_depth"))
        assert (2 ** (depth - 1) <= n_steps).all()
        assert (n_steps <= 2**depth - 1).all()

    def test_the_step_size_is_a_chains_own_and_gives_about_the_acceptance_asked_for(self, one_level_nuts: Fit) -> None:
        stats = one_level_nuts.tree["sample_stats"].to_dataset()
        step_size = stats["step_size"].to_numpy()
        assert (step_size == step_size[:, :1]).all()
        assert step_size[0, 0] != step_size[1, 0]
        accepted = stats["acceptance_rate"].to_numpy()
        assert ((accepted >= 0) & (accepted <= 1)).all()
        assert accepted.mean() == pytest.approx(one_level_nuts.settings.sampling.target_accept_prob, abs=0.07)


class TestDraws:
    def test_mean_and_sd_are_those_of_numerical_integration(self, one_level_nuts: Fit) -> None:
        exact = one_level.posterior()
        probability = exact.probability()
        posterior = one_level_nuts.tree["unconstrained_posterior"].to_dataset()[["weight_base", "bias"]]
        error = {kind: arviz_stats.mcse(posterior, method=kind) for kind in ("mean", "sd")}
        ess = arviz_stats.ess(posterior, method="mean")
        for name in ("weight_base", "bias"):
            draws = posterior[name].to_numpy().ravel()
            mean = probability @ exact.unconstrained[name]
            sd = np.sqrt(probability @ (exact.unconstrained[name] - mean) ** 2)
            assert ess[name].item() > 500
            assert error["mean"][name].item() < 0.06 * sd
            assert abs(draws.mean() - mean) < 4 * error["mean"][name].item()
            assert abs(draws.std() - sd) < 4 * error["sd"][name].item()
        support = one_level_nuts.predict(one_level.observations())["support"]
        np.testing.assert_allclose(support, probability @ exact.support, atol=0.01)


def test_nuts_compiles_once_for_fits_of_one_shape() -> None:
    """Whatever their questions, their seed and the number of their draws; here that of the fit of the tests above."""
    n_compiled = set()
    observations = one_level.observations()
    for seed, num_samples in ((1, 25), (2, 90)):
        data = LikelihoodData.of(observations[seed:], preset=one_level.PRESET).counted()
        sampling = SamplingSettings(**one_level.SAMPLING | {"num_samples": num_samples})
        draws = nuts.nuts_draws(model_of(one_level.PRESET), data, sampling=sampling, seed=seed)
        assert draws.stats["lp"].shape == (2, num_samples)
        last = [next(reversed(function.programs.values())) for function in (nuts._started, nuts._advanced)]
        n_compiled.add(tuple((program, program._cache_size()) for program in last))
    assert len(n_compiled) == 1


ELSEWHERE = """
import sys
import jax, numpyro
numpyro.set_host_device_count(2)
import json
import numpy as np
from bayes_direag.fits.making import fit_nuts
from tests.bayes_direag import one_level

sampling = {"num_chains": 2, "num_warmup": 300, "num_samples": 1500}
fit = fit_nuts(one_level.observations(), preset=one_level.PRESET, **sampling, seed=1)
unconstrained = fit.tree["unconstrained_posterior"]
np.save(sys.argv[1], np.stack([unconstrained[name].to_numpy()[..., 0] for name in ("weight_base", "bias")]))
groups = {path: one.to_dataset() for path, one in fit.tree.subtree_with_keys}
floats = {str(value.dtype) for one in groups.values() for value in one.data_vars.values() if value.dtype.kind == "f"}
print(json.dumps({"devices": jax.local_device_count(), "x64": jax.config.jax_enable_x64, "floats": sorted(floats)}))
"""


@pytest.mark.slow
def test_nuts_has_the_same_posterior_in_double_precision_and_in_parallel(tmp_path: Path) -> None:
    """In a process of its own, JAX in single precision by default and the CPU split into two devices."""
    command = [sys.executable, "-W", "error", "-c", ELSEWHERE, str(tmp_path / "draws.npy")]
    options = {"cwd": Path(__file__).resolve().parents[3], "env": os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}}
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"devices": 2, "x64": False, "floats": ["float64"]}
    draws = np.load(tmp_path / "draws.npy")
    exact = one_level.posterior()
    probability = exact.probability()
    for name, mine in zip(("weight_base", "bias"), draws, strict=True):
        assert (mine[0] != mine[1]).all()
        assert arviz_stats.rhat(mine) < 1.02
        mean = probability @ exact.unconstrained[name]
        sd = np.sqrt(probability @ (exact.unconstrained[name] - mean) ** 2)
        for chain in mine:
            assert abs(chain.mean() - mean) < 4 * sd / np.sqrt(arviz_stats.ess(chain[None]))
        np.testing.assert_allclose(mine.std(), sd, rtol=0.15)


def test_adapted_matrix_is_the_covariance_of_normal_draws_and_balances_those_of_others() -> None:
    """The draws' covariance is that of M (gradients' covariance) M, both shrunk as if each parameter gave a draw."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    covariance, matrix = root @ root.T, np.diag([4.0, 0.25, 1.0])
    draws = rng.normal(size=(4, 50, 3)) @ root.T + 7
    of_normal = nuts.adapted_matrix(draws, (draws - 7) @ np.linalg.inv(covariance), covariance)
    np.testing.assert_allclose(of_normal, covariance, rtol=1e-9)
    gradients = rng.standard_t(5, size=(4, 50, 3)) + draws[..., ::-1]
    adapted = nuts.adapted_matrix(draws, gradients, matrix)
    of_draws, of_gradients = (np.cov(values.reshape(-1, 3), rowvar=False) for values in (draws, gradients))
    shrunk = 200 * of_gradients + 3 * np.linalg.inv(matrix)
    np.testing.assert_allclose(adapted @ shrunk @ adapted, 200 * of_draws + 3 * matrix, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("optimised")
def test_draws_are_those_of_numpyro_s_own_nuts_on_the_program_as_it_stands() -> None:
    """Means and quantiles of all parameters, within four Monte Carlo standard errors of their difference."""
    data = LikelihoodData.of(simulate_observations(60, seed=3))
    draws = nuts.nuts_draws(bayes, data.counted(), sampling=SamplingSettings(), seed=1).unconstrained
    own = numpyro_draws(bayes, data, num_warmup=500, num_samples=1000)
    assert largest_difference(draws, own) < 4
    assert largest_difference({name: values + 0.3 * values.std() for name, values in draws.items()}, own) > 4
