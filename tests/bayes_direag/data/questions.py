"""Questions from the answers of their levels."""

from bayes_direag.data.records import Observation, Question

FIELDS = ("answer", "confidence", "correct")


def question(name: str, *answers: object, **about: object) -> Question:
    """Return a question whose levels 0, 1, ... gave these answers, with confidences of 50, 51, ..., or these fields.

    ``...`` stands for a level without a report.
    """
    reports = {
        level: answer if isinstance(answer, tuple) else (answer, 50 + level)
        for level, answer in enumerate(answers)
        if answer is not ...
    }
    observations = (Observation(level=k, **dict(zip(FIELDS, report, strict=False))) for k, report in reports.items())
    return Question(problem_id=name, observations=tuple(observations), **about)
