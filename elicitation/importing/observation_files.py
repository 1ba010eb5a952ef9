"""Observation files themselves: several runs, of several models say, put together into one."""

from collections.abc import Iterator

from bayes_direag.data.observations import read_questions
from elicitation.importing.replies import Log, Reply


def replies(log: Log) -> Iterator[Reply]:
    """Yield the observations of a file; its levels keep their names, behind the name that the file is given."""
    for question in read_questions(log.path):
        for one in question.observations:
            name = one.level_name or str(one.level)
            further = one.model_extra or {}
            yield Reply(
                question.problem_id,
                f"{log.level} {name}" if log.level else name,
                further.get("raw_output"),
                finish_reason=further.get("finish_reason"),
                given={"answer": one.answer, "confidence": one.confidence, "correct": one.correct},
                gold=question.gold_answer,
                question=question.question,
                dataset=question.dataset,
                model=question.model,
                group=one.group,
            )
