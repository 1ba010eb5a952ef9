"""A table of labels as one HTML page: a question a screen, its answers as buttons, and the table to save."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.display.page import filled_page
from bayes_direag.commands.console import visible
from bayes_direag.data.answers import canonical
from bayes_direag.data.atomic import atomic_path
from bayes_direag.data.labelling import answers_as_given
from bayes_direag.data.labels import NONE_OF_THESE, Labels, inert, inert_cells
from bayes_direag.data.observations import Observations

if TYPE_CHECKING:
    import pandas


class Screen(NamedTuple):
    """A question as ``labelling.js`` reads it.

    ``name``, ``answers``: as the table has them. ``title``, ``text``, ``shown``: the name, the question and the answers
    for people. ``keys``: the key of each answer, its letter or a number; "" for none. ``rows``: its rows in the table.
    ``right``: its right answers so far; None if it is not labelled.
    """

    name: str
    title: str
    text: str
    answers: list[str]
    shown: list[str]
    keys: list[str]
    rows: list[int]
    right: list[str] | None


def write_labelling_page(
    table: "pandas.DataFrame", observations: Observations, path: Path, *, file: str, then: str
) -> None:
    """Write the page of a table of labels, completely or not at all.

    Parameters
    ----------
    table
        As :func:`bayes_direag.questions_to_label` gives it for these observations.
    file, then
        The name under which the page saves the table, and the command to run next.
    """
    table = inert_cells(table.fillna("").astype("str"))
    labels = Labels.of(table)
    html = filled_page(
        "labelling.html.j2",
        "labelling.css",
        "labelling.js",
        by_answer=labels.column == "correct",
        by_letter=observations.kind == "choice",
        file=visible(file),
        then=visible(then),
        data={
            "set": fingerprint(observations),
            "file": file,
            "none": NONE_OF_THESE,
            "by_answer": labels.column == "correct",
            "header": table.columns.tolist(),
            "rows": table.to_numpy().tolist(),
            "column": table.columns.get_loc(labels.column),
            "questions": [screen._asdict() for screen in screens(labels, observations)],
        },
    )
    with atomic_path(path) as partial_path:
        partial_path.write_text(html, encoding="utf-8", newline="\n")


def fingerprint(observations: Observations) -> str:
    """Return what tells these questions and answers from others, whatever their order and labels."""
    questions = sorted(zip(observations.problem_id, observations.candidates, strict=True))
    return hashlib.sha256(json.dumps(questions).encode()).hexdigest()[:16]


def screens(labels: Labels, observations: Observations) -> list[Screen]:
    """Return the questions of a table of labels, in its order."""
    candidates = dict(zip(observations.problem_id, observations.candidates, strict=True))
    source, standing = observations.table.path, observations.standing
    known = labels.known(candidates, observations.kind, source, standing) if labels.filled else {}
    row_of = {name: row for row, name in enumerate(observations.problem_id)}
    given = answers_as_given(observations)
    rows: dict[str, list[int]] = {}
    for number, row in enumerate(labels.rows):
        rows.setdefault(row.problem_id, []).append(number)
    made = []
    for name, numbers in rows.items():
        answers = [labels.rows[number].answer or "" for number in numbers]
        if labels.column == "gold_answer":
            answers = list(map(inert, given[row_of[name]]))
        keys = [*map(str, range(1, 10)), *[""] * len(answers)][: len(answers)]
        if observations.kind == "choice":
            keys = [canonical(answer, "choice") or "" for answer in answers]
            order = np.argsort(keys)
            keys, answers = ([texts[k] for k in order] for texts in (keys, answers))
            numbers = [numbers[k] for k in order] if labels.column == "correct" else numbers
        right = None
        if name in known:
            right = [text for text in answers if observations.standing(name, text) in known[name].right]
            right = right or [text for text in [known[name].gold_answer] if text]
        text = observations.table.record(int(observations.row[row_of[name]])).question or ""
        shown = [visible(answer).strip() for answer in answers]
        made.append(Screen(name, visible(name), visible(text), answers, shown, keys, numbers, right))
    return made
