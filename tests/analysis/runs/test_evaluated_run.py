"""Evaluation folders read back: as they were written, or refused with the file at fault."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from analysis.evaluation import MANIFEST, Evaluation
from bayes_direag.errors import DirEAGError
from tests.analysis.made_runs import predictions, write_run

SAID = {
    "vanilla": [(0.9, True), (None, False), (0.25, False), (0.6, None)],
    "direag": [(0.123456789012345, True), (0.5, True), (1.0, False), (0.0, None)],
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("written") / "run", SAID)


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "run"))


class TestRead:
    def test_tables_are_as_written(self, folder):
        run = Evaluation.read(folder)
        expected = predictions(SAID).drop(columns="null_probability")
        assert run.predictions["confidence"].equals(expected["confidence"])
        assert run.predictions["correct"].equals(expected["correct"])
        assert run.predictions["correct"].isna().sum() == 2
        for column in ("problem_id", "method", "fold"):
            assert run.predictions[column].tolist() == expected[column].tolist()
        assert run.predictions["answer"].isna().tolist() == expected["answer"].isna().tolist()
        assert run.metrics.set_index("method")["n"].to_dict() == {"vanilla": 2, "direag": 3}
        assert run.metrics.set_index("method")["unanswered"].to_dict() == {"vanilla": 1, "direag": 0}

    def test_settings_and_names(self, folder):
        run = Evaluation.read(str(folder))
        assert run.folder == folder
        assert (run.of.datasets, run.of.models) == (("svamp",), ("Qwen/Qwen2.5-7B-Instruct",))
        assert run.how == "MAP, preset paper"
        assert (run.settings.interval_level, run.settings.n_resamples, run.settings.seed) == (0.95, 200, 3)
        assert run.design == "4 questions, 5-fold cross-fit"

    def test_a_test_set_names_what_was_evaluated(self, tmp_path):
        run = Evaluation.read(write_run(tmp_path / "run", SAID, n_fitted=7))
        assert run.of.datasets == ("svamp",)
        assert run.design == "4 questions, fitted to 7 others"

    def test_texts_that_look_like_something_else_stay_texts(self, folder):
        table = pd.read_csv(folder / "predictions.csv", dtype=str)
        table.loc[:2, "problem_id"] = ["007", "NA", "1e3"]
        table.to_csv(folder / "predictions.csv", index=False)
        assert Evaluation.read(folder).predictions["problem_id"].tolist()[:3] == ["007", "NA", "1e3"]


class TestRefuse:
    def test_another_folder(self, tmp_path):
        for folder, seen in ((tmp_path / "nowhere", "no such folder"), (tmp_path, r"no evaluation\.json there")):
            with pytest.raises(DirEAGError, match=f"saw {seen}; expected a folder written by direag evaluate"):
                Evaluation.read(folder)

    @pytest.mark.parametrize(
        ("text", "seen"),
        [
            ("{", "JSONDecodeError"),
            ("{}", "ValidationError .*settings"),
            ("[1]", "ValidationError"),
            ('{"settings": 1}', "ValidationError"),
            ("", "ValidationError"),  # a setting of another version
        ],
    )
    def test_a_broken_manifest(self, folder, text, seen):
        manifest = json.loads((folder / MANIFEST).read_text())
        manifest["settings"]["preset"]["new"] = 1
        (folder / MANIFEST).write_text(text or json.dumps(manifest))
        with pytest.raises(DirEAGError, match=rf"evaluation\.json: this cannot be read; saw {seen}"):
            Evaluation.read(folder)

    @pytest.mark.parametrize("name", ["metrics.csv", "predictions.csv"])
    def test_a_table_that_is_missing_or_lacks_a_column_or_holds_nonsense(self, folder, name):
        path = folder / name
        table = pd.read_csv(path)
        number = "brier" if name == "metrics.csv" else "confidence"
        table.astype({number: "str"}).assign(**{number: "much"}).to_csv(path, index=False)
        with pytest.raises(DirEAGError, match=rf"{name}: this cannot be read; saw .*much"):
            Evaluation.read(folder)
        table.drop(columns="method").to_csv(path, index=False)
        with pytest.raises(DirEAGError, match=rf"{name}: this cannot be read; saw .*method.*Evaluate again\."):
            Evaluation.read(folder)
        path.unlink()
        with pytest.raises(DirEAGError, match=rf"{name}: this cannot be read; saw .*No such file"):
            Evaluation.read(folder)
