"""One method in several evaluations: on which questions, against what, and what is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.comparison.loo_comparison import compare_evaluations
from analysis.runs.evaluated_run import EvaluatedRun, read_evaluated_run
from analysis.scores.paired import control_false_discoveries, paired_table
from analysis.scores.scoring import Scored
from bayes_direag.errors import DirEAGError
from tests.analysis.made_runs import Said, random_said, write_run

N = 30


@pytest.fixture(scope="module")
def said() -> dict[str, Said]:
    """Return what three evaluations say; one leaves a question unanswered, another has no label of one."""
    rng = np.random.default_rng(0)
    found = {name: list(random_said(rng, N, sharpness=1)) for name in ("first", "second", "third")}
    found["second"][3] = (None, False)
    found["third"][7] = (0.4, None)
    return found


@pytest.fixture(scope="module")
def runs(said: dict[str, Said], tmp_path_factory: pytest.TempPathFactory) -> dict[str, EvaluatedRun]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        name: read_evaluated_run(write_run(folder / name, {"majority": said["first"], "direag": own}))
        for name, own in said.items()
    }


def test_each_is_compared_with_the_first_on_what_is_labelled_in_all(
    runs: dict[str, EvaluatedRun], said: dict[str, Said]
) -> None:
    found = compare_evaluations(runs, seed=5, n_resamples=40, level=0.8)
    assert (found.reference, found.n, found.n_left_out, found.interval_level) == ("first", N - 1, 1, 0.8)
    kept = [number for number in range(N) if number != 7]
    scored = {
        name: Scored(np.array([own[k][0] for k in kept], float), np.array([own[k][1] for k in kept], bool))
        for name, own in said.items()
    }
    parts = {
        name: paired_table(scored["first"], scored[name], seed=5, n_resamples=40, level=0.8)
        for name in ("second", "third")
    }
    expected = pd.concat([part.assign(evaluation=name) for name, part in parts.items()], ignore_index=True)
    expected["p_adjusted"] = control_false_discoveries(expected["p_value"])
    pd.testing.assert_frame_equal(found.table[expected.columns], expected)


def test_the_order_of_the_questions_does_not_matter(runs: dict[str, EvaluatedRun]) -> None:
    shuffled = dict(runs)
    other = runs["second"]
    backwards = other.predictions.iloc[::-1].reset_index(drop=True)
    shuffled["second"] = EvaluatedRun(**(vars(other) | {"predictions": backwards}))
    tables = [compare_evaluations(each, seed=1, n_resamples=20).table for each in (runs, shuffled)]
    pd.testing.assert_frame_equal(*tables)


def test_what_cannot_be_compared_is_said(runs: dict[str, EvaluatedRun], said: dict[str, Said], tmp_path: Path) -> None:
    with pytest.raises(DirEAGError, match="saw 1 evaluation; expected two or more"):
        compare_evaluations({"first": runs["first"]}, seed=0)
    with pytest.raises(DirEAGError, match="first has no method 'level'; expected one of majority, direag"):
        compare_evaluations(runs, "level", seed=0)
    fewer = read_evaluated_run(write_run(tmp_path / "fewer", {"direag": said["first"][:20]}))
    with pytest.raises(DirEAGError, match=r"saw 30 and 20, 20 of them the same, 'q2\d' not among these"):
        compare_evaluations({"first": runs["first"], "fewer": fewer}, seed=0)
    silent = read_evaluated_run(write_run(tmp_path / "silent", {"direag": [(None, False)] * (N - 1) + [(0.5, True)]}))
    mute = read_evaluated_run(write_run(tmp_path / "mute", {"direag": [(0.5, True)] * (N - 1) + [(None, False)]}))
    with pytest.raises(DirEAGError, match="no question is answered and labelled in all of silent, mute"):
        compare_evaluations({"silent": silent, "mute": mute}, seed=0)
