"""Folders of results: whole or not there at all, and never in the place of anyone else's files."""

import json
import math

import pandas as pd
import pytest

from analysis.display import folders
from analysis.display.folders import ResultFolder
from analysis.display.style import figure_style, new_figure
from bayes_direag.errors import DirEAGError
from tests.command_line import contents

FOLDER = ResultFolder("thing", "thing.json", ("table",), ("picture",), ("fits/*.nc",))
TABLE = pd.DataFrame({"name": ["a", None], "value": [0.5, math.nan]})


def write(folder, number=1.0, **tables):
    FOLDER.write(folder, {"number": number, "rows": TABLE, "pair": (1, math.inf)}, tables, {})


def test_what_is_written(tmp_path):
    with figure_style():
        figure = new_figure(1.0, 1.0)
    FOLDER.write(tmp_path / "out", {"rows": TABLE, "pair": (1, math.inf)}, {"table": TABLE}, {"picture": figure})
    assert set(contents(tmp_path / "out")) == {"thing.json", "table.csv", "picture.png"} < FOLDER.contents
    record = json.loads((tmp_path / "out" / "thing.json").read_text())
    assert record == {"rows": [{"name": "a", "value": 0.5}, {"name": None, "value": None}], "pair": [1, None]}
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out" / "table.csv"), TABLE, check_dtype=False)


def test_an_earlier_one_gives_way_and_stays_if_the_next_fails(tmp_path, monkeypatch):
    write(tmp_path / "out", table=TABLE)
    (tmp_path / "out" / "fits").mkdir()
    (tmp_path / "out" / "fits" / "one.nc").touch()
    write(tmp_path / "out", 2.0)
    assert set(contents(tmp_path / "out")) == {"thing.json"}
    before = contents(tmp_path / "out")
    monkeypatch.setattr(folders, "write_table", lambda *_: 1 / 0)
    for folder in ("out", "new"):
        with pytest.raises(ZeroDivisionError):
            write(tmp_path / folder, table=TABLE)
    assert contents(tmp_path / "out") == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (["a.txt", "b.txt", "c.txt", "d.txt", "thing.json"], r"saw a\.txt, b\.txt, c\.txt, \.\.\. \(4 in all\)"),
        (["table.csv"], r"saw table\.csv; expected a new or empty folder, or one with an earlier thing"),
    ],
)
def test_strangers_are_named_and_kept(tmp_path, files, says):
    for name in files:
        (tmp_path / name).write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(DirEAGError, match=says):
        write(tmp_path)
    assert contents(tmp_path) == before


def test_places_that_cannot_be_replaced(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    for folder, says in ((tmp_path / "file", "saw a file"), (".", "the current folder")):
        with pytest.raises(DirEAGError, match=says):
            FOLDER.check(folder)
    FOLDER.check(tmp_path / "new")
