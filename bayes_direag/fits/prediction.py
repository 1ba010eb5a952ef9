"""Predictions as tables: a row for each question, or for each candidate of each question."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float, Shaped

from bayes_direag.data.arrays import spellings
from bayes_direag.data.observations import Observations


def selected_table(questions: Observations, selected: Mapping[str, Shaped[np.ndarray, " problem"]]) -> pd.DataFrame:
    """Return the columns of :meth:`Fit.predict <bayes_direag.fits.fit.Fit.predict>`; ``selected`` has the candidate."""
    columns = dict(selected)
    pairs = zip(questions.candidates, columns.pop("candidate"), strict=True)
    answers = [candidates[number] if number >= 0 else None for candidates, number in pairs]
    return pd.DataFrame(
        {
            questions.question_column: pd.Series(questions.problem_id, dtype="str"),
            "answer": pd.Series(answers, dtype="str"),
            "answer_as_given": as_given(questions, answers),
            **columns,
            "n_candidates": questions.n_candidates,
            "n_used": questions.usable.sum(axis=1),
        }
    )


def candidate_table(questions: Observations, figures: Mapping[str, Float[np.ndarray, "problem state"]]) -> pd.DataFrame:
    """Return the columns of :meth:`Fit.predict_candidates <bayes_direag.fits.fit.Fit.predict_candidates>`."""
    rows, states, answers = list[int](), list[int](), list[str | None]()
    for row, (candidates, probability) in enumerate(zip(questions.candidates, figures["probability"], strict=True)):
        order = np.argsort(-probability[: len(candidates)], kind="stable").tolist()
        rows += [row] * (len(order) + 1)
        states += [*order, -1]
        answers += [*(candidates[number] for number in order), None]
    return pd.DataFrame(
        {
            questions.question_column: pd.Series([questions.problem_id[row] for row in rows], dtype="str"),
            "answer": pd.Series(answers, dtype="str"),
            "answer_as_given": as_given(questions, answers, rows),
            **{name: values[rows, states] for name, values in figures.items()},
        }
    )


def as_given(
    questions: Observations, answers: Iterable[str | float | None], rows: Sequence[int] | None = None
) -> pd.Series:
    """Return the spelling in most reports of an answer to each question, or to those in these rows; missing if it is.

    An answer is as it is where the texts of reports are not known.
    """
    spelled = spellings(questions.table, questions.kind)
    rows = range(len(questions)) if rows is None else rows
    pairs = zip(questions.row[list(rows)].tolist(), answers, strict=True)
    return pd.Series([spelled[row].get(answer, answer) for row, answer in pairs], dtype="str")
