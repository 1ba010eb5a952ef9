"""Plain transcripts: JSON Lines of raw replies with the question and level of each."""

from collections.abc import Iterator

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from elicitation.importing.replies import Log, Reply, read_records


class _Transcript(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    problem_id: str = Field(validation_alias=AliasChoices("problem_id", "question_id", "id"))
    text: str | None
    confidence: str | None = None
    level: str | None = None
    finish_reason: str | None = None
    question: str | None = None
    gold_answer: str | None = None
    dataset: str | None = None
    model: str | None = None


def replies(log: Log) -> Iterator[Reply]:
    """Yield the replies of a file of objects with ``problem_id``, ``text`` and ``level``, by default the file's name.

    Optional fields are ``confidence`` (which goes before one in the text), ``finish_reason``, ``question``,
    ``gold_answer``, ``dataset`` and ``model``.
    """
    for line, record in read_records(log, _Transcript):
        yield Reply(
            record.problem_id,
            record.level or "",
            record.text,
            line,
            finish_reason=record.finish_reason,
            confidence=record.confidence,
            gold=record.gold_answer,
            question=record.question,
            dataset=record.dataset,
            model=record.model,
            file=None if record.level else log.path.stem,
            task=record.dataset,
            identity=record.question,
        )
