"""What NUTS explores is the density whose mode a MAP fit finds, and its draws are draws from it."""

import json
import subprocess
import sys
from pathlib import Path

import arviz_stats
import numpy as np
import pytest

from bayes_direag.fits.fit import Fit
from bayes_direag.inference.nuts import inverse_mass_matrix, learning_steps
from tests.bayes_direag import brute_force, one_level
from tests.made_fits import NUTS_SAMPLING


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
        found = one_level_nuts.tree["sample_stats"].to_dataset()
        kinetic = (found["energy"] + found["lp"]).to_numpy()
        n_unconstrained = 2
        assert (kinetic > 0).all()
        assert abs(kinetic.mean() - n_unconstrained / 2) < 4.5 * np.sqrt(n_unconstrained / 2 / kinetic.size)

    def test_depth_follows_from_the_steps(self, nuts: Fit) -> None:
        """A tree of depth d has taken its d doublings, the last of them perhaps in part."""
        n_steps, depth = (nuts.tree["sample_stats"][name].to_numpy() for name in ("n_steps", "tree_depth"))
        assert (2 ** (depth - 1) <= n_steps).all()
        assert (n_steps <= 2**depth - 1).all()

    def test_the_step_size_is_a_chains_own_and_gives_about_the_acceptance_asked_for(self, nuts: Fit) -> None:
        found = nuts.tree["sample_stats"].to_dataset()
        step_size = found["step_size"].to_numpy()
        assert (step_size == step_size[:, :1]).all()
        assert step_size[0, 0] != step_size[1, 0]
        accepted = found["acceptance_rate"].to_numpy()
        assert ((accepted >= 0) & (accepted <= 1)).all()
        assert accepted.mean() == pytest.approx(NUTS_SAMPLING.target_accept, abs=0.07)


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


class TestMassMatrix:
    def test_it_is_learned_twice_and_most_steps_keep_it(self) -> None:
        assert learning_steps(1000) == [160, 400]
        for n_warmup in (1, 12, 13, 60, 5000):
            assert all(0 < step <= 0.4 * n_warmup for step in learning_steps(n_warmup))
        assert learning_steps(2) == []

    def test_draws_give_their_covariance(self) -> None:
        """In the order in which JAX lays out a dictionary: by name."""
        root = np.array([[1.0, 0, 0], [0.5, 2, 0], [-1, 0.3, 0.1]])
        draws = np.random.default_rng(0).normal(size=(2, 20_000, 3)) @ root.T
        before = np.broadcast_to(np.eye(3), (2, 3, 3))
        found = inverse_mass_matrix({"weight": draws[..., 1:], "slope": draws[..., 0]}, before)
        np.testing.assert_allclose(found, np.broadcast_to(root @ root.T, (2, 3, 3)), atol=0.15)

    def test_few_draws_count_for_little(self) -> None:
        """Chains that stand still keep their matrix but for its scale, and it stays one that can be inverted."""
        before = np.array([np.diag([2.0, 3.0])])
        found = inverse_mass_matrix({"weight": np.ones((1, 6, 2))}, before)
        np.testing.assert_allclose(found, before * 2 / 8)


ELSEWHERE = """
import sys
import jax, numpyro
numpyro.set_host_device_count(2)
import json
import numpy as np
from bayes_direag.fits.fitting import fit_nuts
from bayes_direag.model.settings import SamplingSettings
from tests.bayes_direag import one_level

sampling = SamplingSettings(n_chains=2, n_warmup=300, n_draws=1500)
fit = fit_nuts(one_level.observations(), preset=one_level.PRESET, sampling=sampling, seed=1)
unconstrained = fit.tree["unconstrained_posterior"]
np.save(sys.argv[1], np.stack([unconstrained[name].to_numpy()[..., 0] for name in ("weight_base", "bias")]))
groups = {path: one.to_dataset() for path, one in fit.tree.subtree_with_keys}
floats = {str(value.dtype) for one in groups.values() for value in one.data_vars.values() if value.dtype.kind == "f"}
print(json.dumps({"devices": jax.local_device_count(), "x64": jax.config.jax_enable_x64, "floats": sorted(floats)}))
"""


@pytest.mark.slow
def test_in_double_precision_and_in_parallel_it_is_the_same_posterior(tmp_path: Path) -> None:
    """In a process of its own, JAX in single precision by default and the CPU split into two devices."""
    command = [sys.executable, "-W", "error", "-c", ELSEWHERE, str(tmp_path / "draws.npy")]
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)  # noqa: S603
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
