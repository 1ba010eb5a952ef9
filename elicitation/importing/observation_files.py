"""Observation files, to combine several runs, for example of several models."""

from collections.abc import Iterator

from bayes_direag.data.files import read_questions
from elicitation.importing.replies import Log, Reply

_QUESTION = {"problem_id", "gold_answer", "question", "dataset", "model", "observations"}


def replies(log: Log) -> Iterator[Reply]:
    """Yield the observations of a file, with all fields of theirs and of the questions."""
    for question in read_questions(log.path):
        for report in question.observations:
            given = report.model_dump(exclude={"level", "level_name", "group"})
            text, reason = given.get("raw_output"), given.get("finish_reason")  # of any type, as no field of ours
            yield Reply(
                question.problem_id,
                report.level_name or str(report.level),
                text if isinstance(text, str) else None,
                finish_reason=reason if isinstance(reason, str) else None,
                given=given,
                gold=question.gold_answer,
                question=question.question,
                dataset=question.dataset,
                model=question.model,
                group=report.group,
                further=question.model_dump(exclude=_QUESTION),
                task=question.dataset,
                identity=question.question,
            )
