"""Files that appear whole or not at all, whatever is at their path, and however the process ends."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pandas as pd
import pytest

from bayes_direag.data.atomic import atomic_path, folder_beside
from bayes_direag.data.files import write_table

WAIT = """
import sys, time
from pathlib import Path
from bayes_direag.data.atomic import atomic_path
with atomic_path(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""


def run(code: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)  # noqa: S603


def write(path: Path, text: str = "new") -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text)


def test_atomic_path_appears_when_the_block_is_done_and_not_at_all_if_it_fails(tmp_path):
    path = tmp_path / "out.csv"
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        assert temporary.suffix == ".csv"
        assert not path.exists()

    def fail_half_way(error):
        with atomic_path(str(path)) as temporary:
            temporary.write_text("half")
            raise error

    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            fail_half_way(error)
    with pytest.raises(FileNotFoundError, match=r"out\.csv'$"), atomic_path(path):
        pass
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("exists", [True, False])
def test_atomic_path_leaves_a_link_a_link(tmp_path, exists):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    link.symlink_to(target)
    if exists:
        target.write_text("old")
    write(link)
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert {entry.name for entry in tmp_path.rglob("*")} == {"folder", "target", "link"}


def test_atomic_path_writes_into_a_device_and_a_pipe(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write(pipe)
    reader.join()
    assert (read, pipe.is_fifo(), list(tmp_path.iterdir())) == (["new"], True, [pipe])
    write(Path("/dev/null"))
    assert Path("/dev/null").is_char_device()
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write(Path("/dev/full"))
    with pytest.raises(IsADirectoryError):
        write(tmp_path)
    with pytest.raises(FileNotFoundError, match=f"'{tmp_path}/no/out.csv'$"):
        write(tmp_path / "no" / "out.csv")


@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_atomic_path_on_a_full_disk_names_the_file_that_was_given(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    with pytest.raises(OSError, match=f"File too large: '{path}'"):
        write_table(pd.DataFrame({"value": [str(n) * 9 for n in range(9000)]}), path)
    assert list(tmp_path.iterdir()) == []


def test_atomic_path_removes_what_a_killed_process_has_left_and_keeps_what_another_is_writing(tmp_path):
    path = tmp_path / "out.csv"
    killed, going_on = run(WAIT, path), run(WAIT, path)
    for process in (killed, going_on):
        process.stdout.readline()
    killed.kill()
    killed.communicate()
    others = [
        tmp_path / name for name in (".out.csv.backup", ".out.csv.12345678.partial.old", ".other.csv.12345678.partial")
    ]
    for folder in others:
        folder.mkdir()
    assert len(list(tmp_path.iterdir())) == 5
    write(path)
    (temporary,) = {*tmp_path.iterdir()} - {path, *others}
    assert (temporary / "out.csv").read_text() == "half"
    going_on.kill()
    going_on.communicate()
    write(path)
    assert {*tmp_path.iterdir()} == {path, *others}


def test_folder_beside_puts_back_a_folder_that_had_to_make_room(tmp_path):
    path = tmp_path / "results"
    (tmp_path / ".results.a1b2c3d4.partial" / "before").mkdir(parents=True)
    with folder_beside(path):
        assert path.is_dir()
    assert list(tmp_path.iterdir()) == [path]
