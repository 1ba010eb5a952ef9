"""The counts of a run, and what is shown of them."""

import io
import re

import pytest
from rich.console import Console

from bayes_direag.data.records import Observation
from elicitation.progress import LiveView, Tally, facts_of, levels_table


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, legacy_windows=False)


def shown(on: Console) -> str:
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


def report(level: int, name: str, answer: str | None, confidence: float | None, status: str = "ok") -> Observation:
    given = {"level": level, "level_name": name, "answer": answer, "confidence": confidence}
    return Observation.model_validate(given | {"parse_status": status, "finish_reason": "stop"})


def tally() -> Tally:
    """Return the counts of one question with two levels, the first right, the second unreadable."""
    counts = Tally(4, 2, "numeric")
    good, bad = report(0, "low", "$4", 80, "repaired"), report(1, "high", None, None, "no_answer")
    counts.add_reply((good,), "4")
    counts.begin()
    counts.add_reply((bad,), "4")
    counts.finish_question([good, bad], 0)
    counts.asked, counts.tokens = 1, 100
    return counts


def test_the_counts_are_those_of_the_replies() -> None:
    counts = tally()
    assert (counts.settled, counts.n_slots, counts.n_done) == (2, 4, 1)
    assert (counts.statuses, counts.n_unanswered) == ({"no_answer": 1, "repaired": 1}, 0)
    counts.add_reply((report(0, "low", "9", 50),), None)
    assert counts.accuracy == 0.5
    low, high = counts.levels
    assert [low[name] for name in ("name", "n", "parsed", "accuracy", "mean_confidence")] == ["low", 2, 1, 1, 0.65]
    assert (high["parsed"], high["accuracy"], high["mean_confidence"]) == (0, 0, None)
    counts.add_reply((report(0, "low", "9", 50),), "9")
    assert counts.accuracy == 2 / 3


def test_without_gold_answers_accuracy_is_undefined_and_not_shown() -> None:
    counts = Tally(1, 1, "numeric")
    assert counts.accuracy is None
    assert counts.levels == []
    assert [*facts_of(counts)] == ["replies", "tokens/s", "unreadable", "time left"]
    assert facts_of(counts)["time left"] == "-"


def test_the_time_left_is_at_the_pace_of_this_session_without_slots_that_are_spared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elicitation.progress.time.monotonic", iter([0.0, 0.0, *[30.0] * 20]).__next__)
    assert facts_of(tally())["time left"] == "1:00"
    monkeypatch.setattr("elicitation.progress.time.monotonic", iter([0.0, *[30.0] * 20]).__next__)
    counts, right = Tally(15, 3, "numeric"), report(0, "low", "4", 80)
    for _ in range(2):
        counts.add_reply((right,), "4")
    counts.finish_question([right], 3)  # of five
    facts = facts_of(counts)
    assert (facts["replies"], facts["time left"]) == ("2/12", "1:00")


def test_a_console_that_is_no_terminal_gets_plain_lines() -> None:
    plain = console(terminal=False)
    with LiveView(plain, interval=3600.0) as view:
        view.say("making the engine ready")
        for _ in range(50):
            view.show(tally())
    assert "\x1b" not in shown(plain)
    message, first, last = shown(plain).splitlines()  # of the states the first and the last
    assert message == "making the engine ready"
    facts = r"replies 2/4; tokens/s \d+; unreadable no_answer 1; accuracy 0.500; time left 0:00"
    assert all(re.fullmatch(f"1/2 questions; {facts}", line) for line in (first, last))


def test_a_terminal_gets_a_bar_and_the_facts() -> None:
    terminal = console(terminal=True)
    with LiveView(terminal) as view:
        view.say("making the engine ready")
        view._bar.refresh()
        view.show(tally())
        view._bar.refresh()
    assert all(text in shown(terminal) for text in ("making the engine ready", "1/2", "no_answer 1", "time left  0:00"))


def test_the_table_of_levels_shows_what_is_undefined_as_a_dash() -> None:
    plain = console(terminal=False)
    plain.print(levels_table(tally().levels, "sums"))
    title, header, *_, last = shown(plain).splitlines()
    assert title.strip() == "sums"
    assert header.split() == ["level", "name", "n", "parsed", "accuracy", "mean", "confidence", "AUROC"]
    assert last.split() == ["1", "high", "1", "0.000", "0.000", "-", "-"]
