"""What a report reads, and what it refuses."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.evaluation import Evaluation, StoredFits
from analysis.report import with_parts
from bayes_direag.fits.convergence import sampler_summary
from tests.analysis.fits import gaussian_draws, made_posterior
from tests.analysis.made_runs import write_run
from tests.analysis.report.runs import small_folder, small_observations


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return small_folder(tmp_path_factory.mktemp("files"))


def test_of_quickstarts_folder_all_parts_are_found(files):
    folder, fit, observations = with_parts(files, None, None)
    assert (folder, fit) == (files / "evaluation", files / "fit.nc")
    found = Evaluation.read(folder, observations)
    assert found.observations.fingerprint == small_observations().fingerprint
    assert found.method == "direag"


@pytest.mark.parametrize(
    ("dataset", "model", "about"), [("svamp", "Qwen", "svamp, Qwen"), ("svamp", None, "svamp"), (None, None, "run")]
)
def test_what_it_is_about(tmp_path, dataset, model, about):
    folder = write_run(tmp_path / "run", {"majority": [(0.5, True)]}, dataset=dataset, model=model)
    assert Evaluation.read(folder).name == about


@pytest.mark.parametrize(
    ("gradient", "n_converged", "reached"), [(1e-9, 2, "1e-09"), (1.5e-6, 1, "2e-06"), (np.nan, 1, "nan")]
)
def test_a_map_is_judged_by_its_gradient(tmp_path, gradient, n_converged, reached):
    parameters = pd.DataFrame(
        {"variant": "level", "fold": ["0", "0", "1"], "projected_gradient": [1e-12, 1e-12, gradient]}
    )
    made = Evaluation.read(write_run(tmp_path / "run", {"majority": [(0.5, True)]}))
    (found,) = replace(made, parameters=parameters).convergence.itertuples()
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
    made = Evaluation.read(write_run(tmp_path / "run", {"majority": [(0.5, True)]}))
    settings = made.settings.model_copy(update={"fit_method": "nuts"})
    record = made.record.model_copy(update={"settings": settings})
    made = replace(made, parameters=parameters, record=record, fits=StoredFits(tmp_path / "fits"))
    (found,) = made.convergence.itertuples()
    assert (found.n_fits, found.n_converged) == (2, 0)
    worst = max(one.largest_rhat for one in summaries)
    assert found.worst.startswith(f"R-hat at most {worst:.3f} (up to 1.02")
    assert found.worst.endswith("0 divergences (none)")


def test_levels_keep_names_that_look_missing(tmp_path):
    rows = {"fold": ["0"], "variant": ["count"], "parameter": ["weight"], "level": ["NA"], "relative": [0.5]}
    folder = write_run(tmp_path / "run", {"majority": [(0.5, True)]})
    pd.DataFrame(rows).to_csv(folder / "parameters.csv", index=False)
    assert Evaluation.read(folder).parameters["level"].tolist() == ["NA"]
