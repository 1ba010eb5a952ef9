"""A folder that a run goes on with, or refuses to."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.learning_curve import curve_folder
from analysis.learning_curve.curve import Splits, no_results
from bayes_direag.errors import DirEAGError
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.learning_curve.made_results import made_results

OBSERVATIONS = simulate_observations(150, seed=1).select(slice(0, 10))
SPLITS = Splits((2, 4), {100: "too many"}, 6, np.tile(np.arange(10), (2, 1)))
SAMPLING = SamplingSettings(n_chains=2)
PLAIN = curve_folder.identity(OBSERVATIONS, SPLITS, sampling=None, seed=3)
RESULTS = made_results({"majority": {2: np.array([0.1, 1 / 3])}}, gap=0.1)


def test_results_come_back_to_the_last_digit(tmp_path: Path) -> None:
    pd.testing.assert_frame_equal(curve_folder.begin(tmp_path / "out", PLAIN), no_results())
    curve_folder.write_results(tmp_path / "out", RESULTS)
    pd.testing.assert_frame_equal(curve_folder.begin(tmp_path / "out", PLAIN), RESULTS)


def test_a_killed_run_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    curve_folder.begin(tmp_path / "out", PLAIN)
    (tmp_path / "out" / ".results-0123abcd.csv").write_text("half a ta")
    assert curve_folder.begin(tmp_path / "out", PLAIN).empty


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"seed": 4}, r"another seed \(3\); expected 4"),
        ({"label_counts": [2]}, r"another label_counts \(\[2, 4\]\); expected \[2\]"),
    ],
)
def test_another_curve_is_refused(tmp_path: Path, changed: dict[str, object], says: str) -> None:
    curve_folder.begin(tmp_path / "out", PLAIN)
    before = (tmp_path / "out" / "learning_curve.json").read_bytes()
    with pytest.raises(DirEAGError, match=says):
        curve_folder.begin(tmp_path / "out", PLAIN | changed)
    assert (tmp_path / "out" / "learning_curve.json").read_bytes() == before


def test_sampling_matters_from_the_first_time_that_it_is_given(tmp_path: Path) -> None:
    sampled = curve_folder.identity(OBSERVATIONS, SPLITS, sampling=SAMPLING, seed=3)
    for identity in (PLAIN, sampled, PLAIN):
        curve_folder.begin(tmp_path / "out", identity)
        curve_folder.finish(tmp_path / "out", SPLITS, ("majority",), 0.9, pd.DataFrame({"mean": [0.1]}), Figure())
    longer = curve_folder.identity(OBSERVATIONS, SPLITS, sampling=SamplingSettings(n_chains=4), seed=3)
    with pytest.raises(DirEAGError, match="another sampling"):
        curve_folder.begin(tmp_path / "out", longer)


@pytest.mark.parametrize(("name", "text"), [("results.csv", "a,b\n1,2\n"), ("learning_curve.json", "{")])
def test_what_cannot_be_read_is_refused(tmp_path: Path, name: str, text: str) -> None:
    curve_folder.begin(tmp_path / "out", PLAIN)
    (tmp_path / "out" / name).write_text(text)
    with pytest.raises(DirEAGError, match=f"{name}: this cannot be read"):
        curve_folder.begin(tmp_path / "out", PLAIN)
