"""Which questions to label, and their table.

Half are drawn at random, and half have the closest votes. There it matters most which reports count; the random half
shows what it is like where votes are not close.
"""

import hashlib
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from bayes_direag.data.answers import AnswerKind, canonical
from bayes_direag.data.arrays import kind_of, spellings
from bayes_direag.data.labels import AT_RANDOM, CLOSE_VOTES, COLUMNS, Labels
from bayes_direag.data.long_table import LongTable
from bayes_direag.data.observations import Observations

if TYPE_CHECKING:
    import pandas

#: Stands between the answers in one cell of a table.
BETWEEN = " | "
#: More distinct texts than this hardly recur, so each answer is judged.
_MOST_LABELS = 12
#: The share of answers that must be numbers, or letters, for the others to be taken for unreadable ones.
_READABLE = 0.9


def questions_to_label(
    observations: Observations, n: int, *, seed: int = 0, so_far: "pandas.DataFrame | None" = None
) -> "pandas.DataFrame":
    """Choose questions to label, and return a table to fill in, for :meth:`Observations.with_labels`.

    The first, third, ... question is drawn at random. The others have the smallest vote margin: the shares of the two
    most frequent answers among the usable reports differ least (by 1 if all agree; ties in random order). So one may
    stop at any row. Each comes from a cluster with the fewest labelled or chosen questions. Labelled questions, and
    those without a usable report, are never chosen. The order of the observations does not matter.

    Parameters
    ----------
    n
        How many questions without a label the table is to have, if there are so many. Those of ``so_far`` count.
    seed
        Of the random order. With one seed, 30 questions and 30 more are the same as 60.
    so_far
        A table to go on with. Its rows come first, as they are.

    Returns
    -------
    DataFrame
        A row for each question: ``problem_id``, or what its file calls it; ``question``, if there are texts;
        ``answers``, the most frequent first, as they were given; an empty ``gold_answer``; and ``chosen``, why the
        question is there: ``at random`` or ``close votes``. If answers are flagged, or texts with more than 12
        different answers, a row for each ``answer``, with an empty ``correct``.

    Raises
    ------
    ObservationError
        If a question of ``so_far`` is unknown, or its labels cannot be used.

    Examples
    --------
    >>> said = {"a": ["7", "$7", "9"], "b": ["3", "5", "5"], "c": ["8", "8.0", "8"]}
    >>> reports = [
    ...     {"problem_id": name, "level": level, "answer": answer, "confidence": 80}
    ...     for name, answers in said.items()
    ...     for level, answer in enumerate(answers)
    ... ]
    >>> questions_to_label(Observations.from_records(reports, "numeric"), 2)["answers"].tolist()
    ['5 | 3', '7 | 9']
    """
    import pandas as pd

    table, taken = observations.table, observations.labelled.copy()
    has_texts = table.texts_of_questions("question").given[observations.row].any()
    are_free = observations.kind == "text" and len({*chain.from_iterable(observations.candidates)}) > _MOST_LABELS
    by_answer = are_free or table.texts("correct").given.any()
    name = observations.question_column if observations.question_column not in COLUMNS else "problem_id"
    columns = [name, *(["question"] if has_texts else [])]
    columns += [*(["answer", "correct"] if by_answer else ["answers", "gold_answer"]), "chosen"]
    if so_far is not None:
        labels, columns = Labels.of(so_far), [*map(str, so_far.columns)]
        labels.check_names(labels.rows, observations.problem_id, table.path)
        if labels.filled:
            observations.with_labels(so_far)
        name, names = labels.name, {row.problem_id for row in labels.rows}
        taken |= np.isin(observations.problem_id, [*names])
        n -= len(names - labels.filled.keys())
    rows, given = [], answers_as_given(observations)
    for number, why in _chosen(observations, n, taken, seed).items():
        said, question = given[number], table.record(int(observations.row[number]))
        about = {name: question.problem_id, "question": question.question or "", "chosen": why}
        of_labels = [{"answer": text} for text in said] if "answer" in columns else [{"answers": BETWEEN.join(said)}]
        rows += [[(about | label).get(column, "") for column in columns] for label in of_labels]
    added = pd.DataFrame(rows, columns=columns, dtype="str")
    return added if so_far is None else pd.concat([so_far.set_axis(columns, axis=1), added], ignore_index=True)


def answers_as_given(observations: Observations) -> list[dict[str, int]]:
    """Return how many reports give each candidate of each question, as most of them spell it, the most frequent first.

    Of several spellings, the first.
    """
    spelled, given = spellings(observations.table, observations.kind), []
    for row, candidates, said in zip(observations.row, observations.candidates, observations.candidate, strict=True):
        votes = Counter(spelled[row][candidates[number]] for number in np.sort(said[said >= 0]).tolist())
        given.append(dict(votes.most_common()))
    return given


def likely_kind(table: LongTable) -> AnswerKind:
    """Tell how answers are probably compared.

    By the gold answers or flags, as ever; without any, as letters or numbers if nine in ten answers are such.
    """
    if table.texts("gold_answer").values or table.texts("correct").given.any():
        return kind_of(table)
    said = table.texts("answer")
    n_reports = np.bincount(said.code[said.given], minlength=len(said.values))
    kinds: tuple[AnswerKind, ...] = ("choice", "numeric")
    for kind in kinds:
        is_readable = np.array([canonical(text, kind) is not None for text in said.values], bool)
        if n_reports[is_readable].sum() >= _READABLE * n_reports.sum():
            return kind
    return "text"


def _chosen(observations: Observations, n: int, taken: Bool[np.ndarray, " problem"], seed: int) -> dict[int, str]:
    """Choose up to n questions that are not taken: the first, third, ... at random, the others by vote margin."""
    own_number = np.arange(len(observations))
    cluster = own_number if observations.cluster_number is None else observations.cluster_number
    n_taken = np.bincount(cluster[taken], minlength=len(own_number))
    digests = [hashlib.sha256(f"{seed} {name}".encode()).hexdigest() for name in observations.problem_id]
    order = np.argsort(np.argsort(digests))
    criteria = (order, AT_RANDOM), (vote_margin(observations), CLOSE_VOTES)
    left, chosen = np.flatnonzero(observations.answered & ~taken), dict[int, str]()
    while len(chosen) < n and len(left):
        criterion, why = criteria[len(chosen) % 2]
        first = left[np.lexsort((order[left], criterion[left], n_taken[cluster[left]]))[0]]
        n_taken[cluster[first]] += 1
        left = left[left != first]
        chosen[int(first)] = why
    return chosen


def vote_margin(observations: Observations) -> Float[np.ndarray, " problem"]:
    """Return how much the shares of the two most frequent answers differ; 0 without a usable report."""
    votes = observations.candidate[:, :, None] == np.arange(max(observations.n_levels, 2))
    counts = np.sort(votes.sum(axis=1), axis=1)
    return np.asarray((counts[:, -1] - counts[:, -2]) / np.maximum(counts.sum(axis=1), 1))
