"""Observations without labels, their table of labels, and its page."""

from pathlib import Path

import pandas as pd

from analysis.labelling.labelling_page import write_labelling_page
from bayes_direag import Observations, questions_to_label
from bayes_direag.data.records import Observation, Question

THEN = "direag fit new.jsonl --labels labels.csv --out fit.nc"


def question(name: str, *answers: str, text: str | None = None) -> Question:
    reports = (Observation(level=k, answer=answer, confidence=50 + k) for k, answer in enumerate(answers))
    return Question(problem_id=name, question=text, observations=tuple(reports))


def numbers() -> Observations:
    said = {"pens": ["7", "$7", "9"], "eggs": ["3", "5", "5"], "cats": ["8", "8.0", "8"], "dogs": ["-1", "2", "4"]}
    return Observations.from_questions(
        [question(name, *answers, text=f"How many {name}?") for name, answers in said.items()], "numeric"
    )


def hostile() -> Observations:
    """Return free text that is made to break pages and tables."""
    markup = ["<b>bold</b>", "</script><script>document.title = 'broken'</script>", "=1+1", 'a "b", c\nd', "\u202eabc"]
    names = ["<img src=x onerror=\"document.title='broken'\">", "__proto__", "w" * 300]
    texts = [*markup, "{{ 7 * 7 }}", "x" * 500, *(f"other {k}" for k in range(8))]
    questions = [question(name, *texts[k:], text=f"{name} & more") for k, name in enumerate(names)]
    return Observations.from_questions(questions, "text")


def written(observations: Observations, folder: Path, table: pd.DataFrame | None = None) -> tuple[Path, pd.DataFrame]:
    """Write the page of a table of labels, by default of all questions, and return both."""
    table = questions_to_label(observations, len(observations)) if table is None else table
    write_labelling_page(table, observations, folder / "label.html", file="labels.csv", then=THEN)
    return folder / "label.html", table
