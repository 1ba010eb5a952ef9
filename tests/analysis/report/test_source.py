"""What a report reads, and what it refuses."""

import pytest

from analysis.report.source import read_source
from bayes_direag.errors import DirEAGError
from tests.analysis.made_runs import write_run
from tests.analysis.report.runs import METHODS, small_fit, small_observations, small_run


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    small_run(folder / "evaluation")
    small_fit().save(folder / "fit.nc")
    small_observations().write(folder / "observations.jsonl")
    return folder


def test_of_quickstarts_folder_all_parts_are_found(files):
    source = read_source(files)
    assert source.run.folder == files / "evaluation"
    assert source.fit_path == files / "fit.nc"
    assert source.observations.fingerprint == small_observations().fingerprint
    assert source.method == "direag"
    assert source.n_labelled == 58


def test_of_an_evaluation_alone_nothing_else_is_taken(files):
    source = read_source(files / "evaluation")
    assert source.fit is None
    assert source.observations is None
    assert source.scores.keys() == set(METHODS)


def test_what_is_named_goes_before_what_is_found(files, tmp_path):
    small_fit(gradient=0.5).save(tmp_path / "other.nc")
    assert read_source(files, tmp_path / "other.nc").fit_path == tmp_path / "other.nc"


@pytest.mark.parametrize(
    ("dataset", "model", "about"), [("svamp", "Qwen", "svamp, Qwen"), ("svamp", None, "svamp"), (None, None, "run")]
)
def test_what_it_is_about(tmp_path, dataset, model, about):
    folder = write_run(tmp_path / "run", {"majority": [(0.5, True)]}, dataset=dataset, model=model)
    assert read_source(folder).about == about


def test_refusals(files, tmp_path):
    with pytest.raises(DirEAGError, match="expected a folder written by direag evaluate"):
        read_source(tmp_path)
    with pytest.raises(DirEAGError, match="no such file; expected a fit"):
        read_source(files / "evaluation", tmp_path / "none.nc")
    small_observations().select(slice(0, 5)).write(tmp_path / "other.jsonl")
    with pytest.raises(DirEAGError, match="saw other observations"):
        read_source(files / "evaluation", None, tmp_path / "other.jsonl")
