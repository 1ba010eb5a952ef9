"""Observation files themselves: several runs, of several models say, put together into one."""

from collections.abc import Iterator

from bayes_direag.data.files import read_questions
from elicitation.importing.replies import Log, Reply


def replies(log: Log) -> Iterator[Reply]:
    """Yield the observations of a file; levels and groups keep their names, behind the name that the file is given."""

    def named(own: str) -> str:
        return f"{log.level} {own}" if log.level else own

    for question in read_questions(log.path):
        for one in question.observations:
            further = one.model_extra or {}
            yield Reply(
                question.problem_id,
                named(one.level_name or str(one.level)),
                further.get("raw_output"),
                finish_reason=further.get("finish_reason"),
                given={"answer": one.answer, "confidence": one.confidence, "correct": one.correct},
                gold=question.gold_answer,
                question=question.question,
                dataset=question.dataset,
                model=question.model,
                group=None if one.group is None else named(one.group),
            )
