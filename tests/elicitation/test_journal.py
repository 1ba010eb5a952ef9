import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from elicitation.generation import Key, request_seed
from elicitation.journal import Entry, Journal, JournalError, read_journal

IDENTITY: dict[str, Any] = {"model": "m", "sampling": {"temperature": 0.7, "top_p": 1.0}}


def entry(number: int, text: str = "ü\n\u2028 7, 90%") -> Entry:
    return Entry(
        problem_id=f"p{number}",
        level=1,
        sample=0,
        attempt=0,
        seed=number,
        prompt="abc",
        text=text,
        finish_reason="stop",
        prompt_tokens=5,
        completion_tokens=6,
        seconds=0.5,
    )


def append(journal: Journal, *numbers: int) -> None:
    for number in numbers:
        asyncio.run(journal.append(entry(number)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a journal of three generations."""
    with Journal(tmp_path / "journal.jsonl", IDENTITY) as journal:
        append(journal, 0, 1, 2)
    return tmp_path / "journal.jsonl"


def test_journal_reads_what_it_has_written(path: Path) -> None:
    assert read_journal(path) == (IDENTITY, {entry(number).key: entry(number) for number in range(3)})
    with Journal(path, IDENTITY) as journal:
        assert list(journal.entries) == [Key(f"p{number}", 1, 0, 0) for number in range(3)]


def test_journal_removes_a_last_line_cut_off_anywhere(path: Path) -> None:
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for size in [*range(0, len(whole), 41), *(end + step for end in ends for step in (-1, 0))]:
        path.write_bytes(whole[:size])
        n_whole = max(0, sum(end <= size for end in ends) - 1)
        if ends[0] <= size:
            assert len(read_journal(path)[1]) == n_whole
            assert path.read_bytes() == whole[:size]  # reading changes nothing
        with Journal(path, IDENTITY) as journal:
            assert len(journal.entries) == n_whole, size
            append(journal, *range(n_whole, 3))
        assert path.read_bytes() == whole


def test_journal_without_generations_takes_another_identity(tmp_path: Path) -> None:
    for identity in (IDENTITY, {"model": "other"}):
        Journal(tmp_path / "journal.jsonl", identity).__exit__(None, None, None)
        assert read_journal(tmp_path / "journal.jsonl")[0] == identity


def test_journal_is_locked_until_its_run_ends(path: Path) -> None:
    with Journal(path, IDENTITY), pytest.raises(JournalError, match="another run"):
        Journal(path, IDENTITY)
    Journal(path, IDENTITY).__exit__(None, None, None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello\n", "line 1: saw b'hello'; expected the header"),
        (b'{"journal": 99, "identity": {}}\n', "version 1"),
        (b'[1]\n{"journal": 1}\n', "line 1"),
        (b"[" * 100_000 + b"\n", "line 1"),
        (b"a draft without a newline", "line 1: saw b'a draft without a newline'; expected the header"),
        (b"hello\nand a last line without its newline", "line 1: saw b'hello'; expected the header"),
        (b"%(0)s%(1)s\0\0\n%(2)s{", "line 3"),
        (b"%(0)s%(1)s%(2)s%(1)s", "line 4: .*expected one finished generation, and each once"),
    ],
)
def test_journal_refuses_other_files_and_leaves_them_alone(path: Path, content: bytes, message: str) -> None:
    lines = {str(number).encode(): line for number, line in enumerate(path.read_bytes().splitlines(keepends=True))}
    content = content % lines if b"%" in content else content
    path.write_bytes(content)
    with pytest.raises(JournalError, match=message):
        Journal(path, IDENTITY)
    assert path.read_bytes() == content
    path.unlink()
    with pytest.raises(JournalError, match="no such file"):
        read_journal(path)


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_journal_has_whole_lines_after_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    path = tmp_path / "journal.jsonl"
    write = os.write

    def full(descriptor: int, data: bytes = b"") -> int:
        if data and write(descriptor, data[:10]) and len(data) <= 10:
            return len(data)
        raise OSError(errno.ENOSPC, "No space left on device")

    with Journal(path, IDENTITY) as journal:
        append(journal, 0)
        before = path.read_bytes()
        monkeypatch.setattr(os, call, full)
        with pytest.raises(JournalError, match="No space left"):
            append(journal, 1)
        assert path.read_bytes() == before
        monkeypatch.undo()
        append(journal, 2)
    assert [one.seed for one in read_journal(path)[1].values()] == [0, 2]


def test_journal_does_not_mix_concurrent_lines(tmp_path: Path) -> None:
    async def write() -> None:
        await asyncio.gather(*(journal.append(entry(number, "x" * 5000)) for number in range(80)))

    with Journal(tmp_path / "journal.jsonl", IDENTITY) as journal:
        asyncio.run(write())
    assert {one.seed for one in read_journal(tmp_path / "journal.jsonl")[1].values()} == set(range(80))


def test_request_seed_differs_by_every_part_of_its_key() -> None:
    keys = [Key("a", 0, 0, 0), Key("b", 0, 0, 0), Key("a", 1, 0, 0), Key("a", 0, 1, 0), Key("a", 0, 0, 1)]
    seeds = {request_seed(run, key) for run in (0, 1) for key in keys}
    assert len(seeds) == 10
    assert all(0 <= seed < 2**31 for seed in seeds)
