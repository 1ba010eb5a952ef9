"""Which answers to a question are one candidate, if the user decides that.

The user gives a function of two answers and their question, or a file of clusters. What it says holds in both
directions and is transitive: if it joins A and B, and B and C, then A, B and C are one candidate. Of the spellings in a
cluster the commonest is kept; of several, the first in string order. The gold answer joins no answers: a cluster is
right if it holds an answer equal to the gold answer.
"""

from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import get_args

from bayes_direag.data.answers import AnswerKind, canonical
from bayes_direag.data.columns import SameAnswer
from bayes_direag.data.json_lines import json_lines
from bayes_direag.data.records import Question
from bayes_direag.errors import ObservationError


def read_equal(path: Path) -> SameAnswer:
    """Read a file of clusters: JSON Lines with equal ``answers``, for the question ``problem_id`` or for all questions.

    Raises ObservationError if a line is not a cluster.
    """
    clusters: dict[str | None, list[frozenset[str | None]]] = {}
    for number, record in json_lines(path):
        listed = record.get("answers") if isinstance(record, dict) else None
        if (
            not isinstance(record, dict)
            or not isinstance(listed, list)
            or record.keys() - {"answers", "problem_id"}
            or not all(isinstance(text, str | int | float | None) for text in (*listed, record.get("problem_id")))
        ):
            raise ObservationError(
                "this is not a cluster of answers",
                path=path,
                line=number,
                seen=record,
                expected='{"problem_id": "river-3", "answers": ["Nile", "Nile River"]}, without problem_id for all '
                "questions",
                remedy="Correct the line.",
            )
        answers = frozenset(canonical(str(text), kind) for text in listed for kind in get_args(AnswerKind))
        problem_id = record.get("problem_id")
        clusters.setdefault(None if problem_id is None else str(problem_id), []).append(answers)

    def same(first: str, second: str, question: Question) -> bool:
        candidates = clusters.get(question.problem_id, []) + clusters.get(None, [])
        return any(first in cluster and second in cluster for cluster in candidates)

    return same


def merged(question: Question, kind: AnswerKind, same_answer: SameAnswer) -> Question:
    """Return a question with one spelling for equal answers, flagged as right where their cluster is."""
    answers = [canonical(report.answer, kind) for report in question.observations]
    counts = Counter(answer for answer in answers if answer is not None)

    def same(first: str, second: str) -> bool:
        return first == second or same_answer(first, second, question) or same_answer(second, first, question)

    spelling = {answer: answer for answer in sorted(counts, key=lambda answer: (-counts[answer], answer))}
    for first, second in combinations(spelling, 2):
        if same(first, second):
            kept, dropped = sorted((spelling[first], spelling[second]), key=[*spelling].index)
            spelling |= {answer: kept for answer, current in spelling.items() if current == dropped}
    gold = canonical(question.gold_answer, kind)
    right = set() if gold is None else {spelling[answer] for answer in spelling if same(answer, gold)}
    spelled = [None if answer is None else spelling[answer] for answer in answers]
    reports = list(zip(question.observations, spelled, strict=True))
    flagged = {answer for report, answer in reports if report.correct is not None}
    observations = []
    for report, answer in reports:
        if answer is not None:
            correct = report.correct if gold is None or answer in flagged else answer in right
            report = report.model_copy(update={"answer": answer, "correct": correct})
        observations.append(report)
    return question.model_copy(update={"observations": tuple(observations)})
