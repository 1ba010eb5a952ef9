"""Which answers to a question are one candidate, if the user decides that.

The user gives a function of two answers and their question, or a file of clusters. What it says holds in both
directions and is transitive: if it joins A and B, and B and C, then A, B and C are one candidate. Of the spellings in a
cluster the commonest is kept; of several, the first in string order. The gold answer joins no answers: a cluster is
right if it holds an answer equal to the gold answer.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import get_args

import numpy as np

from bayes_direag.data.answers import AnswerKind, canonical
from bayes_direag.data.columns import SameAnswer
from bayes_direag.data.json_lines import json_lines, read_lines
from bayes_direag.data.long_table import Coded, LongTable
from bayes_direag.data.records import Question
from bayes_direag.errors import ObservationError


@dataclass(frozen=True)
class EqualAnswers:
    """Clusters of equal canonical answers, each with the question that it is for, None for all questions."""

    clusters: tuple[tuple[str | None, frozenset[str]], ...]

    def __call__(self, first: str, second: str, question: Question) -> bool:
        """Tell whether two canonical answers to a question are in one cluster."""
        clusters = *self._of_question.get(question.problem_id, ()), *self._of_question.get(None, ())
        return any(first in cluster and second in cluster for cluster in clusters)

    @cached_property
    def _of_question(self) -> dict[str | None, list[frozenset[str]]]:
        of_question: dict[str | None, list[frozenset[str]]] = {}
        for name, cluster in self.clusters:
            of_question.setdefault(name, []).append(cluster)
        return of_question

    def to_json(self) -> str:
        """Return the clusters as :meth:`of_json` takes them."""
        return json.dumps([(name, sorted(cluster)) for name, cluster in self.clusters])

    @classmethod
    def of_json(cls, text: str) -> "EqualAnswers":
        """Return the clusters that :meth:`to_json` has written."""
        return cls(tuple((name, frozenset(map(str, cluster))) for name, cluster in json.loads(text)))


def read_equal(path: Path) -> EqualAnswers:
    """Read a file of clusters: JSON Lines with equal ``answers``, for the question ``problem_id`` or for all questions.

    Raises ObservationError if a line is not a cluster.
    """
    clusters: list[tuple[str | None, frozenset[str]]] = []
    for number, record in json_lines(read_lines(path), path):
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
        spelled = (canonical(str(text), kind) for text in listed for kind in get_args(AnswerKind))
        name = None if record.get("problem_id") is None else str(record["problem_id"])
        clusters.append((name, frozenset(text for text in spelled if text is not None)))
    return EqualAnswers(tuple(clusters))


def in_question(same_answer: SameAnswer, question: Question) -> Callable[[str, str], bool]:
    """Return what tells whether two canonical answers to a question are equal, in both directions."""
    return lambda first, second: (
        first == second or same_answer(first, second, question) or same_answer(second, first, question)
    )


def merged(table: LongTable, kind: AnswerKind, same_answer: SameAnswer) -> LongTable:
    """Return questions with one spelling for equal answers, flagged as right where their cluster is."""
    answer, correct = table.texts("answer").objects(), table.texts("correct").objects()
    for number, rows in enumerate(np.split(np.arange(len(answer)), table.start[1:])):
        question = table.record(number)
        same = in_question(same_answer, question)
        said = {row: text for row in rows.tolist() if (text := canonical(answer[row], kind)) is not None}
        given = {text: answer[row] for row, text in reversed(said.items())}
        spelling, gold = _spelling(Counter(said.values()), same), canonical(question.gold_answer, kind)
        right = set() if gold is None else {kept for text, kept in spelling.items() if same(text, gold)}
        flagged = {spelling[text] for row, text in said.items() if correct[row] is not None}
        for row, text in said.items():
            answer[row] = given[spelling[text]]
            if gold is not None and spelling[text] not in flagged:
                correct[row] = spelling[text] in right
    return replace(table, columns={**table.columns, "answer": Coded.of(answer), "correct": Coded.of(correct)})


def _spelling(counts: Counter[str], same: Callable[[str, str], bool]) -> dict[str, str]:
    """Return the spelling to keep of each answer."""
    spelling = {answer: answer for answer in sorted(counts, key=lambda answer: (-counts[answer], answer))}
    for first, second in combinations(spelling, 2):
        if same(first, second):
            kept, dropped = sorted((spelling[first], spelling[second]), key=[*spelling].index)
            spelling |= {answer: kept for answer, current in spelling.items() if current == dropped}
    return spelling
