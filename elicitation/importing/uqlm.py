"""Results of uqlm: ``json.dump(result.to_dict(), file)``, or ``result.to_df()`` as JSON Lines."""

from collections.abc import Iterator
from dataclasses import replace

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from bayes_direag.data.files import read_lines
from elicitation.importing.replies import Log, Reply, read_record, read_records


class _Row(BaseModel):
    model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True)

    response: str | None
    prompt: object = None
    sampled_responses: list[str | None] | None = None
    problem_id: str | None = Field(None, validation_alias=AliasChoices("problem_id", "id"))
    gold_answer: str | None = Field(None, validation_alias=AliasChoices("gold_answer", "answer", "ideal"))


class _Result(BaseModel):
    data: dict[str, object]


def replies(log: Log) -> Iterator[Reply]:
    """Yield the replies of a result: the level ``response``, and a level for each sampled response.

    A column ``problem_id`` or ``id`` names the questions. Without it they are those of ``--questions`` in order, or
    ``0``, ``1`` ..., and rows of several results are one question if they have one prompt. A column ``gold_answer``,
    ``answer`` or ``ideal`` is the gold answer. Each chosen score is a further level, with the answer of the response,
    and the score, from 0 to 1, as its confidence.
    """
    rows = list(_rows(log))
    further = [row.model_extra or {} for _, row in rows]
    log.check_scorers(name for name in further[0] if all(_is_share(row.get(name)) for row in further))
    if log.names and len(log.names) != len(rows) and any(row.problem_id is None for _, row in rows):
        raise log.error(
            "the rows name no questions",
            seen=f"{len(rows)} rows",
            expected=f"{len(log.names)}, one for each question of --questions in its order",
            remedy="Give the questions that were asked, or add a column problem_id.",
        )
    names = log.names or tuple(map(str, range(len(rows))))
    for position, (line, row) in enumerate(rows):
        prompt = row.prompt if isinstance(row.prompt, str) else None
        answered = Reply(
            row.problem_id or names[position],
            "response",
            row.response,
            line,
            gold_answer=row.gold_answer,
            question=prompt,
            identity=None if log.names or row.problem_id else str(row.prompt or log.path),
        )
        yield answered
        for number, text in enumerate(row.sampled_responses or (), 1):
            yield replace(answered, level=f"sample {number}", text=text, group="samples")
        for scorer in log.scorers:
            score = (row.model_extra or {}).get(scorer)
            share = min(max(float(score), 0.0), 1.0) if isinstance(score, int | float) and score == score else None
            given = {"confidence": None if share is None else 100 * share}
            yield replace(answered, level=scorer, given=given)


def _rows(log: Log) -> Iterator[tuple[int | None, _Row]]:
    """Yield the rows of a file in either form."""
    try:
        data = _Result.model_validate_json("".join(read_lines(log.path))).data
    except ValidationError:
        yield from read_records(log, _Row)
        return
    columns = {name: values for name, values in data.items() if isinstance(values, list)}
    n = len(columns.get("responses", ()))
    if not n:
        raise log.error("no responses", seen=sorted(data), expected="data.responses", remedy="Check the file.")
    # uqlm names the columns of its data frames in this way
    singular = {name: name if name == "sampled_responses" else name.removesuffix("s") for name in columns}
    for place in range(n):
        row = {singular[name]: values[place] for name, values in columns.items() if len(values) == n}
        yield None, read_record(log, _Row, row)


def _is_share(value: object) -> bool:
    """Tell whether a value is a score from 0 to 1, but for rounding, or missing."""
    return value is None or (isinstance(value, int | float) and (value != value or -1e-3 <= value <= 1 + 1e-3))
