"""Forms of our own: raw replies with the question and level of each, and observation files, to combine several runs."""

from collections.abc import Iterator

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from bayes_direag.data.files import read_questions
from elicitation.importing.replies import Log, Reply, read_records

_OF_REPLY = {"problem_id", "gold_answer", "question", "dataset", "model"}


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


def transcripts(log: Log) -> Iterator[Reply]:
    """Yield the replies of a file of objects with ``problem_id``, ``text`` and ``level``, by default the file's name.

    Optional fields are ``confidence`` (which goes before one in the text), ``finish_reason``, ``question``,
    ``gold_answer``, ``dataset`` and ``model``.
    """
    for line, record in read_records(log, _Transcript):
        yield Reply(
            **record.model_dump() | {"level": record.level or ""},
            line=line,
            file=None if record.level else log.path.stem,
            task=record.dataset,
            identity=record.question,
        )


def observations(log: Log) -> Iterator[Reply]:
    """Yield the observations of a file, with all fields of theirs and of the questions."""
    for question in read_questions(log.path):
        for report in question.observations:
            fields = report.model_dump(exclude={"level", "level_name", "group"})
            text, reason = fields.get("raw_output"), fields.get("finish_reason")  # of any type, as no fields of ours
            yield Reply(
                **question.model_dump(include=_OF_REPLY),
                level=report.level_name or str(report.level),
                text=text if isinstance(text, str) else None,
                finish_reason=reason if isinstance(reason, str) else None,
                given=fields,
                group=report.group,
                further=question.model_dump(exclude={*_OF_REPLY, "observations"}),
                task=question.dataset,
                identity=question.question,
            )
