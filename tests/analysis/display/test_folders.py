"""Folders of results: whole or not there at all, and never in the place of anyone else's files."""

import json
import math
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.display.document import Picture
from analysis.display.folders import ResultFolder
from analysis.display.style import figure_style
from bayes_direag.errors import DirEAGError
from tests.command_line import contents

FOLDER = ResultFolder("thing", "thing.json", ("table",), ("picture",), ("fits/*.nc",))
TABLE = pd.DataFrame({"name": ["a", None], "value": [0.5, math.nan]})


def write(folder, number=1.0, **tables):
    FOLDER.write(folder, {"number": number, "rows": TABLE, "pair": (1, math.inf)}, tables, ())


@pytest.fixture
def out(tmp_path) -> Path:
    """Return a folder that holds a thing, and a fit."""
    write(tmp_path / "out", table=TABLE)
    (tmp_path / "out" / "fits").mkdir()
    (tmp_path / "out" / "fits" / "one.nc").touch()
    return tmp_path / "out"


def test_folder_is_written(tmp_path, monkeypatch):
    with figure_style():
        figure = Figure(figsize=(1.0, 1.0))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()  # an empty one will do
    FOLDER.write("out", {"rows": TABLE, "pair": (1, math.inf)}, {"table": TABLE}, [Picture("picture", figure)])
    assert set(contents(tmp_path / "out")) == {"thing.json", "table.csv", "picture.png"} < FOLDER.contents
    record = json.loads((tmp_path / "out" / "thing.json").read_text())
    assert record == {"rows": [{"name": "a", "value": 0.5}, {"name": None, "value": None}], "pair": [1, None]}
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out" / "table.csv"), TABLE, check_dtype=False)


def test_folder_replaces_an_earlier_one_and_keeps_a_link(out, tmp_path):
    (tmp_path / "link").symlink_to(out)
    write(tmp_path / "link", 2.0)
    assert (tmp_path / "link").is_symlink()
    assert set(contents(out)) == {"thing.json"}
    assert json.loads((out / "thing.json").read_text())["number"] == 2
    assert {path.name for path in tmp_path.iterdir()} == {"link", "out"}


@pytest.mark.usefixtures("full_disk")
def test_folder_on_a_full_disk_is_named_as_given(out, tmp_path):
    before = contents(out)
    for name in ("out", "new"):
        with pytest.raises(OSError, match=f"File too large: '{tmp_path}/{name}'$"):
            write(tmp_path / name, table=pd.DataFrame({"value": range(9000)}))
    assert contents(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("at", ["before", "out"])
def test_folder_stays_if_the_new_cannot_take_its_place(out, tmp_path, monkeypatch, at):
    before, rename, failed = contents(out), Path.rename, []

    def fail_once(self: Path, target: Path) -> Path:
        if Path(target).name == at and not failed:
            failed.append(at)
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_once)
    with pytest.raises(KeyboardInterrupt):
        write(out, 2.0)
    assert contents(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    write(out, 2.0)
    assert json.loads((out / "thing.json").read_text())["number"] == 2


@pytest.mark.parametrize("stranger", ["notes.txt", ".hidden", "table.xlsx", "fits/mine.csv", "fits/sub/a.nc"])
def test_folder_keeps_foreign_files(out, stranger):
    (out / stranger).parent.mkdir(exist_ok=True)
    (out / stranger).write_text("dear to me")
    before = contents(out)
    outermost = "/".join(Path(stranger).parts[:2])
    for refuse in (FOLDER.check, write):
        with pytest.raises(
            DirEAGError, match=rf"saw {outermost}; expected a new or empty folder, or one with an earlier"
        ):
            refuse(out)
    assert contents(out) == before


def test_folder_without_its_record_is_foreign_and_three_files_are_named(tmp_path):
    for name in "abcd":
        (tmp_path / name).touch()
    with pytest.raises(DirEAGError, match=r"saw a, b, c, \.\.\. \(4 in all\); expected"):
        FOLDER.check(tmp_path)


def test_folder_refuses_places_that_cannot_be_replaced(out, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.chdir(out)
    places = {tmp_path / "file": "saw a file", tmp_path / "no" / "out": "there is no folder"}
    for folder, says in (places | dict.fromkeys((".", out, "../out"), "the current folder")).items():
        with pytest.raises(DirEAGError, match=says):
            FOLDER.check(folder)
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path / "new", "out"):
        FOLDER.check(folder)


def test_folder_apart_may_lie_anywhere_but_in_a_result(out, tmp_path):
    (tmp_path / "file").touch()
    for folder, says in (
        (out, "saw an earlier thing there"),
        (tmp_path / "file", "saw a file"),
        (tmp_path / "no" / "out", "there is no folder"),
    ):
        with pytest.raises(DirEAGError, match=says):
            FOLDER.check_apart(folder)
    FOLDER.check_apart(tmp_path / "new")
    FOLDER.check_apart(tmp_path)
