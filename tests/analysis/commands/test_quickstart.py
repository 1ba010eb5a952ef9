"""``direag quickstart``: all of the main job from end to end, and what it says to do next."""

import re
from pathlib import Path

import pandas as pd
import pytest

from analysis.methods.direag import SHARED_AGREEMENT
from analysis.methods.registry import EVALUATED_METHODS, SAMPLED_METHODS
from bayes_direag.fits.fit import Fit
from tests.command_line import contents, refuse, succeed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, str]:
    """The folder that quickstart filled, and what it printed."""
    folder = tmp_path_factory.mktemp("made") / "quickstart"
    return folder, succeed("quickstart", "--out", folder)


def test_it_writes_all_of_the_main_job_and_says_what_came_out(made):
    folder, printed = made
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["evaluation", "fit.nc", "observations.jsonl", "predictions.csv", "report.html"]
    assert len(pd.read_csv(folder / "predictions.csv")) == 300
    assert pd.read_csv(folder / "evaluation" / "metrics.csv")["method"].tolist() == [
        name for name in EVALUATED_METHODS if name not in SAMPLED_METHODS
    ]
    attributes = Fit.load(folder / "fit.nc").tree.attrs
    assert (attributes["dataset"], attributes["model"]) == ("svamp", "Qwen2.5-Coder-1.5B-Instruct")
    assert re.match(r"\d\d\.\d% of the answers of DirEAG are right ", printed)
    asked = "svamp, Qwen2.5-Coder-1.5B-Instruct: 300 questions, 5-fold cross-fit"
    assert all(words in printed for words in ("Accept answers of 90% or more", asked, f"cd {folder}"))
    assert SHARED_AGREEMENT in (folder / "report.html").read_text(encoding="utf-8")
    assert printed.splitlines()[-1].endswith(f"on one page, to open in a browser: {folder / 'report.html'}")


def test_what_it_says_to_do_next_is_understood(made, monkeypatch, tmp_path):
    """The commands it prints run as they stand, up to the work itself."""
    folder, printed = made
    monkeypatch.chdir(tmp_path)
    lines = [line.split()[1:] for line in printed.splitlines() if line.startswith("  direag ")]
    assert [words[0] for words in lines] == ["evaluate", "fit", "predict"]
    for words in lines:
        assert "no such file" in refuse(*words)
    assert folder.exists()


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "fit.nc").write_text("mine")
    assert "other files" in refuse("quickstart", "--out", tmp_path)
    assert contents(tmp_path) == {"fit.nc": b"mine"}
