"""How many observations are usable, level by level, on a terminal of 80 columns."""

import io
from dataclasses import replace

import numpy as np
from rich.console import Console, RenderableType

from bayes_direag.commands.quality import quality_sentence, quality_table
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Status
from bayes_direag.model.simulate import simulate_observations
from tests.bayes_direag.data.questions import question


def shown(table: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(table)
    return console.file.getvalue()


def cells(text: str) -> dict[str, list[str]]:
    """Return the words of each line by its first one."""
    return {words[0]: words[1:] for words in map(str.split, text.splitlines()) if words}


def test_counts_by_level_and_reason():
    questions = [
        question("0", "7", "7", gold_answer="7"),
        question("1", "8", None, gold_answer="7"),
        question("2", "no idea", ("7", None)),
    ]
    observations = Observations.from_questions(questions, "numeric")
    text = shown(quality_table(replace(observations, level_names=("[b]0[/b]", "[b]1[/b]")), "x"))
    rows = cells(text)
    assert rows["[b]0[/b]"] == ["2", "·", "1", "·"]
    assert rows["[b]1[/b]"] == ["1", "1", "·", "1"]
    assert "absent" not in text
    assert "3 questions: 2 answered, 2 labelled, 1 with a right answer among the candidates." in text.replace("\n", " ")
    assert quality_sentence(observations.select(slice(1))).startswith("1 question: 1 answered, 1 labelled, ")


def test_long_names_are_whole_at_80_columns():
    observations = simulate_observations(60, seed=6).select(np.arange(5 * 1234) % 60)
    names = ("claude-3-5-haiku-20241022_absolute", "x" * 70, "a", "b", "c")
    status = np.repeat(np.array(Status, np.int8), 1234 * 5).reshape(-1, 5)
    text = shown(quality_table(replace(observations, level_names=names, status=status), "simulated.jsonl"))
    assert "…" not in text
    assert all(cells(text)[name] == ["1234"] * 5 for name in names if len(name) < 70)
    assert text.count("x") == 70


def test_quality_breaks_a_name_that_is_too_long_at_a_hyphen():
    observations = replace(
        simulate_observations(60, seed=6), level_names=("meta-llama/Meta-Llama-3.1-70B-Instruct-Turbo", *"abcd")
    )
    lines = shown(quality_table(observations, "x")).splitlines()
    assert [line.split()[0] for line in lines[3:5]] == ["meta-llama/Meta-", "Llama-3.1-70B-Instruct-Turbo"]
