"""The logs that the tools wrote (generate_logs.py), and what tests of importers read and write."""

import json
from pathlib import Path
from typing import Any

from bayes_direag.data.records import Observation, Question
from elicitation.importing.replies import Imported

SAID = "Answer and Confidence (0-100): 5, 90%"
LOGS = Path(__file__).parent / "logs"
LM_EVAL = {path.name.split("_")[2]: path for path in (LOGS / "lm-eval").iterdir()}


def reports(question: Question) -> list[tuple[str | None, str | None, float | None]]:
    return [(one.level_name, one.answer, one.confidence) for one in question.observations]


def first(imported: Imported) -> Observation:
    return imported.questions[0].observations[0]


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path
