"""One method in several evaluations: on which questions, against what, and what is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.comparison import compare
from analysis.evaluation import Evaluation
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
def runs(said: dict[str, Said], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Evaluation]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        name: Evaluation.read(write_run(folder / name, {"majority": said["first"], "direag": own}))
        for name, own in said.items()
    }


def test_each_is_compared_with_the_first_on_what_is_labelled_in_all(
    runs: dict[str, Evaluation], said: dict[str, Said]
) -> None:
    found = compare(runs, seed=5, n_resamples=40)
    kept = [number for number in range(N) if number != 7]
    scored = {
        name: Scored(np.array([own[k][0] for k in kept], float), np.array([own[k][1] for k in kept], bool))
        for name, own in said.items()
    }
    parts = {name: paired_table(scored["first"], scored[name], seed=5, n_resamples=40) for name in ("second", "third")}
    expected = pd.concat(
        [part.assign(model=name, n=N - 1, left_out=1) for name, part in parts.items()], ignore_index=True
    )
    expected["p_adjusted"] = control_false_discoveries(expected["p_value"])
    table = found.tables["metrics"]
    pd.testing.assert_frame_equal(table[expected.columns], expected)
    said_first, _, *blocks = found.blocks()
    verdict = said_first.sentences[:2]
    assert blocks[0].caption == f"second (second) minus first (first), {N - 1} labelled questions, 1 others left out"
    brier = next(row for row in blocks[0].rows if row[0].text == "Brier score")
    assert float(brier[1].text) == pytest.approx(table.query("metric == 'brier'")["first"].iloc[0], abs=6e-4)
    benefits = table[table["metric"] == "benefit"]
    for said, row in zip(verdict, benefits.to_dict("records"), strict=True):
        assert f"{row['model']} has a benefit of {row['second']:.3f}, first of {row['first']:.3f}" in said
        assert ("neither is clearly better" in said) == (row["low"] <= 0 <= row["high"])
    (axes,) = next(found.pictures()).figure.axes
    np.testing.assert_allclose(axes.collections[1].get_offsets()[:, 0], table["difference"])


def test_the_order_of_the_questions_does_not_matter(runs: dict[str, Evaluation]) -> None:
    shuffled = dict(runs)
    other = runs["second"]
    backwards = other.predictions.iloc[::-1].reset_index(drop=True)
    shuffled["second"] = Evaluation(**(vars(other) | {"predictions": backwards}))
    tables = [compare(each, seed=1, n_resamples=20).tables["metrics"] for each in (runs, shuffled)]
    pd.testing.assert_frame_equal(*tables)


def test_what_cannot_be_compared_is_said(runs: dict[str, Evaluation], said: dict[str, Said], tmp_path: Path) -> None:
    with pytest.raises(DirEAGError, match="first has no method 'level'; expected one of majority, direag"):
        compare(runs, method="level", n_resamples=9)
    fewer = Evaluation.read(write_run(tmp_path / "fewer", {"direag": said["first"][:20]}))
    with pytest.raises(DirEAGError, match=r"saw 30 and 20, 20 of them the same, 'q2\d' not among these"):
        compare({"first": runs["first"], "fewer": fewer}, n_resamples=9)
    silent = Evaluation.read(write_run(tmp_path / "silent", {"direag": [(None, False)] * (N - 1) + [(0.5, True)]}))
    mute = Evaluation.read(write_run(tmp_path / "mute", {"direag": [(0.5, True)] * (N - 1) + [(None, False)]}))
    with pytest.raises(DirEAGError, match="no question is answered and labelled in all of silent, mute"):
        compare({"silent": silent, "mute": mute}, n_resamples=9)
