"""Observation files, to combine several runs, for example of several models."""

from collections.abc import Iterator

from bayes_direag.data.files import read_questions
from elicitation.importing.replies import Log, Reply


def replies(log: Log) -> Iterator[Reply]:
    """Yield the observations of a file."""
    for question in read_questions(log.path):
        for report in question.observations:
            further = report.model_extra or {}
            yield Reply(
                question.problem_id,
                report.level_name or str(report.level),
                further.get("raw_output"),
                finish_reason=further.get("finish_reason"),
                given={"answer": report.answer, "confidence": report.confidence, "correct": report.correct},
                gold=question.gold_answer,
                question=question.question,
                dataset=question.dataset,
                model=question.model,
                group=report.group,
                task=question.dataset,
                identity=question.question,
            )
