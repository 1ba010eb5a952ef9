"""Observations made by hand: from a table of what every level said, and with the gaps that files have."""

from collections.abc import Sequence

from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.model.simulate import simulate_observations

type Report = tuple[str | None, float | None] | None


def observe(*table: list[Report], gold: str | None = None, names: Sequence[str] = ()) -> Observations:
    """Build observations from the (answer, percentage) of every level of every question; None where it is missing.

    The right answer is the same to all. ``names``: of the levels.
    """
    names = names or [f"level {level}" for level in range(len(table[0]))]
    questions = [
        Question(
            problem_id=str(number),
            gold_answer=gold,
            observations=tuple(
                Observation(level=level, level_name=names[level], answer=report[0], confidence=report[1])
                for level, report in enumerate(row)
                if report is not None
            ),
        )
        for number, row in enumerate([*table, [("7", 50)] * len(names)])  # the last one has all levels
    ]
    return Observations.from_questions(questions, "numeric").select(slice(len(table)))


def with_gaps() -> Observations:
    """Return 30 questions, one of them unanswered and one without a gold answer."""
    questions = list(simulate_observations(30, seed=3).questions)
    questions[4] = questions[4].model_copy(update={"gold_answer": None})
    silent = tuple(report.model_copy(update={"confidence": None}) for report in questions[9].observations)
    questions[9] = questions[9].model_copy(update={"observations": silent})
    return Observations.from_questions(questions, answers="numeric")
