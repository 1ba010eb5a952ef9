"""The counts of a run, which are kept here alone, and their display while it is in progress."""

import math
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence

from pydantic import JsonValue
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from bayes_direag.data.answers import AnswerKind, same_answer
from bayes_direag.data.records import Observation
from elicitation.fields import is_unknown
from elicitation.generation import REASONING
from elicitation.journal import Entry
from elicitation.parsing import READABLE, count_words

#: The counts of a run at its end.
_RECORDED = (
    *("n_questions", "n_unanswered", "generations", "asked", "statuses", "n_in_reasoning", "seconds", "tokens"),
    *("unknown_reasons", "levels", "spending"),
)


class Tally:
    """The counts of one run, updated as its slots are settled, and its results at the end.

    Attributes
    ----------
    n_questions, n_done, n_unanswered : int
        The number of questions, of those that are done, and of those without any answer.
    n_slots : int
        The number of replies that are wanted, at most.
    resumed, asked, tokens : int
        The number of generations, format repairs included, in the journal and of this session, and the completion
        tokens of the latter.
    by_status, by_reason : Counter
        Settled replies by parse status and by finish reason.
    spending : dict, optional
        What a policy has asked and spent, if there is one (:meth:`elicitation.adaptive.Adaptive.spending`).
    """

    def __init__(self, n_slots: int, n_questions: int, kind: AnswerKind) -> None:
        self.n_slots, self.n_questions, self._kind = n_slots, n_questions, kind
        self.n_done = self.n_unanswered = self.resumed = self.asked = self.tokens = 0
        self.by_status: Counter[str] = Counter()
        self.by_reason: Counter[str] = Counter()
        self.spending: dict[str, JsonValue] | None = None
        self._n_right = self._n_labelled = self._n_spared = 0
        self._slots_of_question = n_slots / max(n_questions, 1)
        self._judged: dict[int, list[tuple[Observation, bool | None]]] = {}  # whether it is right, by level
        self._settled_before, self._began = 0, time.monotonic()
        self._seconds: float | None = None

    def begin(self) -> None:
        """Start the clock of this session."""
        self._settled_before, self._began = self.settled, time.monotonic()

    def end(self) -> None:
        """Stop the clock."""
        self._seconds = self.seconds

    def add_generation(self, entry: Entry) -> None:
        """Count a generation of this session."""
        self.asked += 1
        self.tokens += entry.completion_tokens

    def add_reply(self, reports: Sequence[Observation], gold: str | None) -> None:
        """Count the reports of a settled reply; a missing answer is wrong where there is a gold answer."""
        about = reports[0].model_extra or {}
        self.by_status[about["parse_status"]] += 1
        self.by_reason[about["finish_reason"]] += 1
        for report in reports:
            right = None if gold is None else same_answer(report.answer, gold, self._kind)
            self._n_labelled += right is not None
            self._n_right += right is True
            self._judged.setdefault(report.level, []).append((report, right))

    def finish_question(self, reports: Sequence[Observation], n_spared: int) -> None:
        """Count a question that is done, with its reports, although this many of its slots were not asked."""
        self.n_done += 1
        self.n_unanswered += all(report.answer is None for report in reports)
        self.n_slots -= n_spared
        self._n_spared += n_spared

    @property
    def settled(self) -> int:
        """The number of settled replies."""
        return self.by_status.total()

    @property
    def generations(self) -> int:
        """The number of generations of all sessions."""
        return self.resumed + self.asked

    @property
    def statuses(self) -> dict[str, int]:
        """The number of settled replies by status."""
        return dict(sorted(self.by_status.items()))

    @property
    def n_in_reasoning(self) -> int:
        """The number of replies that were cut off before the model's reasoning had ended."""
        return self.by_reason[REASONING]

    @property
    def unknown_reasons(self) -> dict[str, int]:
        """The number of replies by finish reasons that are not known; these replies count as whole."""
        return {reason: n for reason, n in sorted(self.by_reason.items()) if is_unknown(reason)}

    @property
    def accuracy(self) -> float | None:
        """The current accuracy over all levels, None without gold answers."""
        return _share(self._n_right, self._n_labelled)

    @property
    def seconds(self) -> float:
        """The duration of this session so far, without the start and the end of the engine."""
        return time.monotonic() - self._began if self._seconds is None else self._seconds

    @property
    def seconds_left(self) -> float | None:
        """The remaining time at the pace of this session; None before its first settled slot.

        As large a share of the slots will be spared as in the questions that are done.
        """
        done = self.settled - self._settled_before
        spared = self._n_spared / (self.n_done * self._slots_of_question) if self.n_done else 0.0
        return self.seconds / done * (1 - spared) * (self.n_slots - self.settled) if done else None

    @property
    def levels(self) -> list[dict[str, JsonValue]]:
        """The levels of the observations, by number, as JSON values; what is undefined is None.

        Each has ``level``, ``name``, the number ``n`` of observations, the share ``parsed`` of readable replies (the
        repaired ones included), ``accuracy``, ``mean_confidence`` (0..1), and ``auroc``, the probability that a right
        answer has a higher confidence than a wrong one, where ties count half.
        """
        return [_level(number, judged) for number, judged in sorted(self._judged.items())]

    def record(self) -> dict[str, JsonValue]:
        """Return the counts at the end of a run as JSON values."""
        return {name: getattr(self, name) for name in _RECORDED}


def _level(number: int, judged: Sequence[tuple[Observation, bool | None]]) -> dict[str, JsonValue]:
    reports = [report for report, _ in judged]
    right = [right for _, right in judged if right is not None]
    stated = [report.confidence for report in reports if report.confidence is not None]
    wrong_at, right_at = (
        sorted(report.confidence for report, right in judged if report.confidence is not None and right is own)
        for own in (False, True)
    )
    passed = sum(bisect_left(wrong_at, one) + bisect_right(wrong_at, one) for one in right_at)
    return {
        "level": number,
        "name": reports[0].level_name or str(number),
        "n": len(reports),
        "parsed": _share(sum((one.model_extra or {})["parse_status"] in READABLE for one in reports), len(reports)),
        "accuracy": _share(sum(right), len(right)),
        "mean_confidence": _share(sum(stated) / 100, len(stated)),
        "auroc": _share(passed / 2, len(wrong_at) * len(right_at)),
    }


def _share(part: int | float, whole: int) -> float | None:
    return part / whole if whole else None


class LiveView:
    """A context manager that shows the progress of a run: a bar on a terminal, a plain line at intervals elsewhere.

    Plain lines are at least ``interval`` seconds apart.
    """

    def __init__(self, console: Console, *, interval: float = 15.0) -> None:
        self._console, self._interval = console, interval
        self._tally: Tally | None = None
        self._last_line = -math.inf
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(*columns, TextColumn("{task.fields[facts]}"), console=console, transient=True)
        self._task = self._bar.add_task("starting", total=None, facts="")

    def __enter__(self) -> "LiveView":
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()
        elif self._tally is not None:
            self._line(self._tally)

    def say(self, message: str) -> None:
        """Show a message before or after the questions."""
        self._bar.update(self._task, description=message)
        if not self._console.is_terminal:
            self._console.print(message, soft_wrap=True)

    def show(self, tally: Tally) -> None:
        """Show the counts; called after every generation."""
        self._tally = tally
        if self._console.is_terminal:
            facts = "\n".join(f"{name}  {value}" for name, value in facts_of(tally).items())
            n, of = tally.n_done, tally.n_questions
            self._bar.update(self._task, description="questions", completed=n, total=of, facts=facts)
        elif time.monotonic() - self._last_line >= self._interval:
            self._line(tally)

    def _line(self, tally: Tally) -> None:
        self._last_line = time.monotonic()
        facts = "; ".join(f"{name} {value}" for name, value in facts_of(tally).items())
        self._console.print(f"{tally.n_done}/{tally.n_questions} questions; {facts}", soft_wrap=True)


def facts_of(tally: Tally) -> dict[str, str]:
    """Return the state of a run in progress, by the name of each fact."""
    failures = {status: n for status, n in tally.statuses.items() if status not in READABLE}
    facts = {
        "replies": f"{tally.settled}/{tally.n_slots}",
        "tokens/s": f"{tally.tokens / tally.seconds:.0f}" if tally.seconds > 0 else "-",
        "unreadable": count_words(failures) or "none",
    }
    if tally.n_in_reasoning:
        facts["cut off in the reasoning"] = str(tally.n_in_reasoning)
    if tally.accuracy is not None:
        facts["accuracy"] = f"{tally.accuracy:.3f}"
    left = tally.seconds_left
    return facts | {"time left": "-" if left is None else _clock(left)}


def levels_table(levels: Sequence[Mapping[str, JsonValue]], title: str) -> Table:
    """Return the table of the levels at the end of a run; undefined values are dashes."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("level", "name", "n", "parsed", "accuracy", "mean confidence", "AUROC"):
        table.add_column(name, justify="left" if name == "name" else "right")
    for level in levels:
        number, label, n, *shares = level.values()
        table.add_row(str(number), str(label), str(n), *("-" if one is None else f"{one:.3f}" for one in shares))
    return table


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
