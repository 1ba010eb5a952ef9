"""The counts of a run, and the display while it is in progress."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from bayes_direag.data.answers import AnswerKind, same_answer
from bayes_direag.data.records import Observation, Question
from elicitation.finish_reasons import is_unknown
from elicitation.generation import REASONING
from elicitation.queries import Query, Reports
from elicitation.readings import READABLE


@dataclass(frozen=True)
class Tally:
    """The counts of a run at its end."""

    n_questions: int
    #: Those without any answer.
    n_unanswered: int
    #: Generations in the journal and of this session, format repairs included, and the completion tokens of the latter.
    generations: int
    asked: int
    tokens: int
    #: The number of settled replies by parse status.
    statuses: dict[str, int]
    #: Replies that were cut off before the model's reasoning had ended.
    n_in_reasoning: int
    #: The duration of this session, without the start and the end of the engine.
    seconds: float
    #: The number of replies by finish reasons that are not known; these replies count as whole.
    unknown_reasons: dict[str, int]
    #: The levels of the observations, by number: ``level``, ``name``, the number ``n`` of observations, and the shares
    #: ``parsed`` (of readable replies, the repaired ones included), ``accuracy`` (a missing answer is wrong) and
    #: ``mean_confidence`` (0..1); None where a share is undefined.
    levels: list[dict[str, JsonValue]]
    #: What a policy has asked and spent, if there is one (:meth:`elicitation.adaptive.Adaptive.spending`).
    spending: dict[str, JsonValue] | None


def count(
    questions: Sequence[Question],
    settled: Mapping[Query, Reports],
    kind: AnswerKind,
    *,
    generations: int,
    asked: int,
    tokens: int,
    seconds: float,
    spending: dict[str, JsonValue] | None = None,
) -> Tally:
    """Count questions, settled replies and, by level, their reports."""
    about = [reports[0].model_extra or {} for reports in settled.values()]
    reasons = Counter(str(one["finish_reason"]) for one in about)
    judged: defaultdict[int, list[tuple[Observation, bool | None]]] = defaultdict(list)
    for query, reports in settled.items():
        gold = query.problem.gold_answer
        for report in reports:
            judged[report.level].append((report, None if gold is None else same_answer(report.answer, gold, kind)))
    return Tally(
        n_questions=len(questions),
        n_unanswered=sum(all(report.answer is None for report in one.observations) for one in questions),
        generations=generations,
        asked=asked,
        tokens=tokens,
        statuses=dict(sorted(Counter(str(one["parse_status"]) for one in about).items())),
        n_in_reasoning=reasons[REASONING],
        seconds=seconds,
        unknown_reasons={reason: n for reason, n in sorted(reasons.items()) if is_unknown(reason)},
        levels=[_level(number, reports) for number, reports in sorted(judged.items())],
        spending=spending,
    )


def _level(number: int, judged: Sequence[tuple[Observation, bool | None]]) -> dict[str, JsonValue]:
    reports = [report for report, _ in judged]
    return {
        "level": number,
        "name": reports[0].level_name or str(number),
        "n": len(reports),
        "parsed": _mean([(report.model_extra or {})["parse_status"] in READABLE for report in reports]),
        "accuracy": _mean([right for _, right in judged if right is not None]),
        "mean_confidence": _mean([report.confidence / 100 for report in reports if report.confidence is not None]),
    }


def _mean(values: Sequence[bool] | Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


class LiveView:
    """A context manager that shows the progress of a run: a bar on a terminal, a plain line at intervals elsewhere.

    Plain lines are at least ``interval`` seconds apart.
    """

    def __init__(self, console: Console, *, interval: float = 15.0) -> None:
        self._console, self._interval, self._last_line = console, interval, -math.inf
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task: TaskID | None = None

    def __enter__(self) -> "LiveView":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, done: int, of: int, unreadable: int) -> None:
        """Show how many questions are done and how many replies are unreadable; called after every reply."""
        described = f"questions; unreadable replies: {unreadable}"
        if self._task is None:  # what an earlier run has done says nothing of the pace
            self._task = self._bar.add_task(described, total=of, completed=done)
        self._bar.update(self._task, completed=done, description=described)
        if not self._console.is_terminal and time.monotonic() - self._last_line >= self._interval:
            self._last_line = time.monotonic()
            self._console.print(f"{done}/{of} {described}", soft_wrap=True)


def levels_table(levels: Sequence[Mapping[str, JsonValue]], title: str) -> Table:
    """Return the table of the levels at the end of a run; undefined values are dashes."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("level", "name", "n", "parsed", "accuracy", "mean confidence"):
        table.add_column(name, justify="left" if name == "name" else "right")
    for level in levels:
        number, label, n, *shares = level.values()
        table.add_row(str(number), str(label), str(n), *("-" if one is None else f"{one:.3f}" for one in shares))
    return table
