"""What a report reads, and what it refuses."""

import numpy as np
import pandas as pd
import pytest

from analysis.report.source import convergence_by_variant, read_parameters, read_source
from bayes_direag.fits.convergence import sampler_summary
from tests.analysis.fits import gaussian_draws, made_posterior
from tests.analysis.made_runs import write_run
from tests.analysis.report.runs import small_folder, small_observations


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return small_folder(tmp_path_factory.mktemp("files"))


def test_of_quickstarts_folder_all_parts_are_found(files):
    source = read_source(files)
    assert source.run.folder == files / "evaluation"
    assert source.fit_path == files / "fit.nc"
    assert source.observations.fingerprint == small_observations().fingerprint
    assert source.method == "direag"
    assert source.n_labelled == 58


@pytest.mark.parametrize(
    ("dataset", "model", "about"), [("svamp", "Qwen", "svamp, Qwen"), ("svamp", None, "svamp"), (None, None, "run")]
)
def test_what_it_is_about(tmp_path, dataset, model, about):
    folder = write_run(tmp_path / "run", {"majority": [(0.5, True)]}, dataset=dataset, model=model)
    assert read_source(folder).about == about


@pytest.mark.parametrize(
    ("gradient", "n_converged", "reached"), [(1e-9, 2, "1e-09"), (1.5e-6, 1, "2e-06"), (np.nan, 1, "nan")]
)
def test_a_map_is_judged_by_its_gradient(tmp_path, gradient, n_converged, reached):
    parameters = pd.DataFrame(
        {"variant": "level", "fold": ["0", "0", "1"], "projected_gradient": [1e-12, 1e-12, gradient]}
    )
    (found,) = convergence_by_variant(tmp_path, parameters, "map")
    assert (found.variant, found.n_fits, found.n_converged) == ("level", 2, n_converged)
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
    assert found.worst.startswith(f"R-hat at most {worst:.3f} (below 1.01")
    assert found.worst.endswith("0 divergences (none)")


def test_levels_keep_names_that_look_missing(tmp_path):
    rows = {"fold": ["0"], "variant": ["count"], "parameter": ["weight"], "level": ["NA"], "relative": [0.5]}
    pd.DataFrame(rows).to_csv(tmp_path / "parameters.csv", index=False)
    assert read_parameters(tmp_path)["level"].tolist() == ["NA"]
