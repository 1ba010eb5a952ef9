"""The logs that the tools wrote (logs/README.md), and what tests of importers read and write."""

import json
from pathlib import Path
from typing import Any

LOGS = Path(__file__).parent / "logs"
LM_EVAL = {path.name.split("_")[2]: path for path in (LOGS / "lm-eval").iterdir()}


def of_tool(name: str) -> Path:
    """Return the log that a tool wrote, by the beginning of its name."""
    return next(LOGS.glob(f"{name}*"))


def lines(path: Path) -> Any:
    """Return the records of a file of JSON Lines, or the content of one of JSON."""
    text = path.read_text("utf-8")
    return json.loads(text) if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path
