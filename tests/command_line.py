"""``direag`` as a user types it, for the tests of every command."""

import itertools
import json
from pathlib import Path
from unittest.mock import patch

from click.testing import Result
from typer.testing import CliRunner

from bayes_direag.cli import app

#: Code that has a process hear Ctrl-C, even if the tests run in the background, where a shell has that ignored.
HEAR_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"


def direag(*arguments: object) -> Result:
    """Run a command."""
    typed = [str(argument) for argument in arguments]
    with patch("sys.argv", ["/somewhere/bin/direag", *typed]):
        return CliRunner().invoke(app, typed)


def succeed(*arguments: object) -> str:
    """Run what has to succeed, and return what it printed."""
    result = direag(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refuse(*arguments: object) -> str:
    """Run what must be refused as an expected error, and return the one line that says so."""
    result = direag(*arguments)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("direag: ")
    return lines[0]


def one_line(text: str) -> str:
    return " ".join(text.split())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def labels_of(source: Path, target: Path, n: int) -> Path:
    """Write the gold answers of the first n questions as a table of labels, whose other rows are empty.

    Every second question was chosen at random.
    """
    records = [json.loads(line) for line in source.read_text().splitlines()]
    golds = [record["gold_answer"] if k < n else "" for k, record in enumerate(records)]
    whys = itertools.cycle(("at random", "close votes"))
    rows = [f"{record['problem_id']},{gold},{why}" for record, gold, why in zip(records, golds, whys, strict=False)]
    target.write_text("\n".join(["problem_id,gold_answer,chosen", *rows]) + "\n")
    return target


def without_gold(source: Path, target: Path, *extra: dict[str, object]) -> Path:
    records = [json.loads(line) for line in source.read_text().splitlines()]
    lines = [json.dumps({key: value for key, value in record.items() if key != "gold_answer"}) for record in records]
    target.write_text("\n".join([*lines, *map(json.dumps, extra)]) + "\n")
    return target
