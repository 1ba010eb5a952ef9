"""Commands of the analysis read tables under other names, as those of the core do."""

import pandas as pd
import pytest

from analysis.evaluation import Evaluation
from bayes_direag.data.observations import Observations
from tests.analysis.fits import random_fit
from tests.command_line import succeed

PAIRS = ["--column", "question=id", "--column", "level=prompt"]


@pytest.fixture(scope="module")
def table(observations, tmp_path_factory):
    path = tmp_path_factory.mktemp("theirs") / "theirs.csv"
    ours = Observations.read(observations).to_frame().drop(columns="level")
    ours.rename(columns={"problem_id": "id", "level_name": "prompt"}).to_csv(path, index=False)
    return path


def test_an_evaluation_and_what_reads_it(table, observations, tmp_path):
    for name, path, pairs in (("theirs", table, PAIRS), ("ours", observations, [])):
        succeed("evaluate", path, "--out", tmp_path / name, "--methods", "majority", "--resamples", 20, *pairs)
    found, known = (pd.read_csv(tmp_path / name / "metrics.csv") for name in ("theirs", "ours"))
    pd.testing.assert_frame_equal(found, known)
    succeed("report", tmp_path / "theirs", "--obs", table)
    theirs = Evaluation.read(tmp_path / "theirs", observations=table).observations
    ours = Evaluation.read(tmp_path / "ours", observations=observations).observations
    assert theirs.problem_id == ours.problem_id


def test_an_explanation(table, observations, tmp_path):
    questions = Observations.read(observations)
    random_fit(questions).save(tmp_path / "fit.nc")
    found = succeed("explain", tmp_path / "fit.nc", table, questions.problem_id[0], *PAIRS)
    assert found == succeed("explain", tmp_path / "fit.nc", observations, questions.problem_id[0])
