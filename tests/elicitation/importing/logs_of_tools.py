"""The logs that the tools wrote (generate_logs.py), and what tests of importers read and write."""

import json
from pathlib import Path
from typing import Any

from bayes_direag.data.records import Question

LOGS = Path(__file__).parent / "logs"
LM_EVAL = {path.name.split("_")[2]: path for path in (LOGS / "lm-eval").iterdir()}


def of_tool(name: str) -> Path:
    """Return the log that a tool wrote, by the beginning of its name."""
    return next(LOGS.glob(f"{name}*"))


def reports(question: Question) -> list[tuple[str | None, str | None, float | None]]:
    return [(one.level_name, one.answer, one.confidence) for one in question.observations]


def lines(path: Path) -> Any:
    """Return the records of a file of JSON Lines, or the content of one of JSON."""
    text = path.read_text("utf-8")
    return json.loads(text) if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def promptfoo_result(test: int, prompt: int, output: object, *, passes: bool) -> dict[str, Any]:
    return {
        "testIdx": test,
        "promptIdx": prompt,
        "provider": {"id": "openai:gpt-5", "label": ""},
        "prompt": {"raw": "{{question}}", "label": f"p{prompt}"},
        "testCase": {"vars": {"question": "2 + 3?"}, "assert": [{"type": "equals", "value": "5"}]},
        "response": {"output": output},
        "success": passes,
    }


def evals_event(name: str, form: str, **data: object) -> dict[str, object]:
    return {"run_id": "r", "event_id": 0, "sample_id": name, "type": form, "data": data}
