"""Which answers to a question are one candidate, where that is for the user to say.

A function of two answers and their question decides, or a file of clusters. What it says is taken both ways and on
through others: if it holds of A and B in either order, and of B and C, then A, B and C are one. Of a cluster the
commonest spelling stays, the first in string order of several. The gold answer makes nobody one: it says afterwards
which clusters are right, those that hold an answer equal to it.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import get_args

from bayes_direag.data.answers import AnswerKind, canonical
from bayes_direag.data.files import json_lines
from bayes_direag.data.records import Question, SameAnswer
from bayes_direag.errors import ObservationError


def merged(questions: Sequence[Question], kind: AnswerKind, same_answer: SameAnswer) -> tuple[Question, ...]:
    """Return the questions with one spelling for the answers that are one, and flags where only a cluster is right."""
    return tuple(_merged(question, kind, same_answer) for question in questions)


def read_equal(path: Path) -> SameAnswer:
    """Read a file of clusters: JSON Lines, each with ``answers`` that are one, to ``problem_id`` or to all questions.

    Raises ObservationError if a line is something else.
    """
    clusters: dict[str | None, list[frozenset[str | None]]] = {}
    for number, record in json_lines(path):
        listed = record.get("answers") if isinstance(record, dict) else None
        if not isinstance(record, dict) or not isinstance(listed, list) or record.keys() - {"answers", "problem_id"}:
            raise ObservationError(
                "this is no cluster of answers",
                path=path,
                line=number,
                seen=record,
                expected='{"problem_id": "river-3", "answers": ["Nile", "Nile River"]}, for all questions without '
                "problem_id",
                remedy="Correct the line.",
            )
        answers = frozenset(canonical(str(text), kind) for text in listed for kind in get_args(AnswerKind))
        clusters.setdefault(record.get("problem_id"), []).append(answers)

    def same(first: str, second: str, question: Question) -> bool:
        own = clusters.get(question.problem_id, []) + clusters.get(None, [])
        return any(first in cluster and second in cluster for cluster in own)

    return same


def _merged(question: Question, kind: AnswerKind, same_answer: SameAnswer) -> Question:
    said = [canonical(one.answer, kind) for one in question.observations]
    counts = Counter(answer for answer in said if answer is not None)

    def same(first: str, second: str) -> bool:
        return first == second or same_answer(first, second, question) or same_answer(second, first, question)

    spelling = {answer: answer for answer in sorted(counts, key=lambda answer: (-counts[answer], answer))}
    for first, second in combinations(spelling, 2):
        if same(first, second):
            kept, gone = sorted((spelling[first], spelling[second]), key=[*spelling].index)
            spelling |= {answer: kept for answer, own in spelling.items() if own == gone}
    gold = canonical(question.gold_answer, kind)
    right = set() if gold is None else {own for answer, own in spelling.items() if same(answer, gold)}
    reports = [
        (one, None if answer is None else spelling[answer])
        for one, answer in zip(question.observations, said, strict=True)
    ]
    flagged = {own for one, own in reports if one.correct is not None}
    observations = [
        one
        if own is None
        else one.model_copy(
            update={"answer": own, "correct": one.correct if gold is None or own in flagged else own in right}
        )
        for one, own in reports
    ]
    return question.model_copy(update={"observations": tuple(observations)})
