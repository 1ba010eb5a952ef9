"""The counts of a run, and what is shown of them."""

import io

import pytest
from rich.console import Console

from bayes_direag.data.records import Observation, Question
from elicitation.progress import LiveView, Tally, count, levels_table
from elicitation.queries import Query, Reports
from elicitation.questions import Problem


def console(*, terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, legacy_windows=False)


def shown(on: Console) -> str:
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


def tally(gold: str | None = "4") -> Tally:
    """Return the counts of one question with two levels, the first right, the second unreadable."""
    low = {"level": 0, "level_name": "low", "answer": "$4", "confidence": 80, "parse_status": "repaired"}
    high = {"level": 1, "level_name": "high", "parse_status": "no_answer"}
    settled: dict[Query, Reports] = {}
    for number, report in enumerate((low, high)):
        query = Query(Problem("a", "sums", "How many?", gold), number, 0)
        settled[query] = (Observation.model_validate(report | {"finish_reason": "stop"}),)
    questions = [Question(problem_id="a", observations=tuple(one for (one,) in settled.values()))]
    return count(questions, settled, "numeric", generations=2, asked=1, tokens=100, seconds=1.0)


def test_count_is_by_status_and_level() -> None:
    counts = tally()
    assert (counts.statuses, counts.n_unanswered) == ({"no_answer": 1, "repaired": 1}, 0)
    low, high = counts.levels
    assert [low[name] for name in ("name", "n", "parsed", "accuracy", "mean_confidence")] == ["low", 1, 1, 1, 0.8]
    assert (high["parsed"], high["accuracy"], high["mean_confidence"]) == (0, 0, None)


@pytest.mark.parametrize(("gold", "cells"), [("4", ["0.000", "0.000", "-"]), (None, ["0.000", "-", "-"])])
def test_levels_table_shows_undefined_values_as_dashes(gold: str | None, cells: list[str]) -> None:
    plain = console()
    plain.print(levels_table(tally(gold).levels, "sums"))
    title, header, *_, last = shown(plain).splitlines()
    assert (title.strip(), header.split()[:2]) == ("sums", ["level", "name"])
    assert last.split() == ["1", "high", "1", *cells]


def test_live_view_prints_a_line_at_intervals_where_there_is_no_terminal() -> None:
    plain = console()
    with LiveView(plain, interval=3600.0) as view:
        for done in range(50):
            view.show(done, 50, 3)
    assert shown(plain) == "0/50 questions; unreadable replies: 3\n"


def test_live_view_shows_a_bar_on_a_terminal() -> None:
    terminal = console(terminal=True)
    with LiveView(terminal) as view:
        view.show(7, 50, 3)
        view._bar.refresh()
    assert all(text in shown(terminal) for text in ("7/50", "unreadable replies: 3"))
