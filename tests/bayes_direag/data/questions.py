"""Questions from the answers of their levels."""

from bayes_direag.data.records import Observation, Question


def question(name: str, *answers: object, **about: object) -> Question:
    """Return a question whose levels 0, 1, ... gave these answers, with confidences of 50, 51, ..."""
    reports = (Observation(level=k, answer=answer, confidence=50 + k) for k, answer in enumerate(answers))
    return Question(problem_id=name, observations=tuple(reports), **about)
