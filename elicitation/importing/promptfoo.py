"""Exports of promptfoo: ``promptfoo eval --output results.json``, or ``results.jsonl``."""

import json
from collections.abc import Iterator

from pydantic import BaseModel, Field, JsonValue

from bayes_direag.data.files import read_lines
from elicitation.generation import text_of
from elicitation.importing.replies import Log, Reply, read_record, read_records


class _Named(BaseModel):
    id: str | None = None
    label: str | None = None
    raw: str | None = None


class _Test(BaseModel):
    vars: dict[str, JsonValue] = {}
    asserts: list[dict[str, JsonValue]] = Field([], alias="assert")


class _Result(BaseModel):
    test: int = Field(alias="testIdx")
    prompt_number: int = Field(alias="promptIdx")
    provider: _Named
    prompt: _Named
    test_case: _Test = Field(alias="testCase")
    response: JsonValue = None
    success: bool


class _Results(BaseModel):
    results: list[dict[str, JsonValue]]


class _Export(BaseModel):
    results: _Results


def replies(log: Log) -> Iterator[Reply]:
    """Yield the results of an export; the level is the provider, or the provider and the prompt if there are several.

    A question is a test, by its variable ``problem_id`` or ``id``, or else its number. The value of its only assertion
    ``equals`` is the gold answer. With assertions, a result without an error is right if it passes.
    """
    if log.path.name.removesuffix(".gz").endswith(".jsonl"):
        rows = list(read_records(log, _Result))
    else:
        export = read_record(log, _Export, "".join(read_lines(log.path)))
        rows = [(0, read_record(log, _Result, row)) for row in export.results.results]
    several = len({row.prompt_number for _, row in rows}) > len({row.provider.id for _, row in rows})
    for line, row in rows:
        told = row.test_case.vars
        said = row.response.get("output") if isinstance(row.response, dict) else row.response
        text = said if isinstance(said, str) else text_of(said) or json.dumps(said)
        golds = [test.get("value") for test in row.test_case.asserts if test.get("type") == "equals"]
        name = row.provider.label or row.provider.id or ""
        failed = said is None
        yield Reply(
            str(told.get("problem_id", told.get("id", row.test))),
            " ".join([name, row.prompt.label or str(row.prompt_number)]) if several else name,
            None if failed else text,
            line or None,
            given={"correct": row.success} if row.test_case.asserts and not failed else {},
            gold_answer=str(golds[0]) if len(golds) == 1 else None,
            question=str(told["question"]) if "question" in told else None,
            model=row.provider.id,
            identity=str(told.get("question", json.dumps(told))) if told else None,
        )
