"""Whether the fits behind an evaluation converged, and what they learned."""

import numpy as np
import pandas as pd
import pytest

from analysis.report.fold_fits import convergence_by_variant, read_parameters
from bayes_direag.fits.convergence import sampler_summary
from tests.analysis.fits import gaussian_draws, made_posterior
from tests.analysis.report.runs import small_observations, small_run


@pytest.mark.parametrize(("gradient", "n_converged"), [(1e-9, 2), (1.5e-6, 1), (np.nan, 1)])
def test_a_map_is_judged_by_its_gradient(tmp_path, gradient, n_converged):
    folder = small_run(tmp_path / "run", gradient=gradient)
    (found,) = convergence_by_variant(folder, read_parameters(folder), "map")
    assert (found.variant, found.n_fits, found.n_converged) == ("confidence", 2, n_converged)
    reached = "nan" if np.isnan(gradient) else {1e-9: "1e-09", 1.5e-6: "2e-06"}[gradient]
    assert found.worst == f"gradient {reached} (at most 1e-06 is fine)"


def test_nuts_is_judged_by_its_chains(tmp_path):
    observations = small_observations().select(slice(10, 40))
    (tmp_path / "fits").mkdir()
    summaries = []
    for fold in (0, 1):
        fit = made_posterior(observations, gaussian_draws(fold, n_chains=2, n_draws=40))
        fit.save(tmp_path / "fits" / f"confidence-{fold}.nc")
        summaries.append(sampler_summary(fit))
    parameters = pd.DataFrame({"variant": "confidence", "fold": ["0", "0", "1"]})
    (found,) = convergence_by_variant(tmp_path, parameters, "nuts")
    assert (found.n_fits, found.n_converged) == (2, 0)
    worst = max(one.largest_rhat for one in summaries)
    assert found.worst.startswith(f"R-hat at most {worst:.3f} (below 1.01), effective draws at least ")
    assert found.worst.endswith("0 divergences (none)")


def test_where_nothing_was_fitted(tmp_path):
    (tmp_path / "parameters.csv").write_text("\n")
    assert convergence_by_variant(tmp_path, read_parameters(tmp_path), "map") == ()


def test_levels_keep_names_that_look_missing(tmp_path):
    rows = {"fold": ["0"], "variant": ["count"], "parameter": ["weight"], "level": ["NA"], "relative": [0.5]}
    pd.DataFrame(rows).to_csv(tmp_path / "parameters.csv", index=False)
    assert read_parameters(tmp_path)["level"].tolist() == ["NA"]
