"""Running counts of a run, for the live view and the summary."""

import time
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field

from pydantic import JsonValue

from bayes_direag.data.answers import AnswerKind, same_answer
from bayes_direag.data.records import Observation
from elicitation.frame import is_unknown
from elicitation.journal import Entry
from elicitation.parsing import ParseStatus
from elicitation.slots import READABLE, Outcome, Slot


@dataclass
class LevelSummary:
    """One level of a run: the counts of its observations so far."""

    level: int
    name: str
    n: int = 0
    n_parsed: int = 0  # from readable replies, repaired ones included
    n_labelled: int = 0  # with a gold answer
    n_right: int = 0
    confidences: list[float] = field(default_factory=list)  # in percent
    judged: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))  # of wrong answers, of right ones

    def count(self, observation: Observation, status: ParseStatus, gold: str | None, kind: AnswerKind) -> None:
        """Count an observation, from a reply with this status."""
        self.n += 1
        self.n_parsed += status in READABLE
        right = gold is not None and same_answer(observation.answer, gold, kind)
        self.n_labelled += gold is not None
        self.n_right += right
        if observation.confidence is not None:
            self.confidences.append(observation.confidence)
            if gold is not None:
                self.judged[right].append(observation.confidence)

    @property
    def parsed(self) -> float:
        """The share of observations from readable replies."""
        return _share(self.n_parsed, self.n)

    @property
    def accuracy(self) -> float:
        """The share of right answers, where a missing answer is wrong; NaN without gold answers."""
        return _share(self.n_right, self.n_labelled)

    @property
    def mean_confidence(self) -> float:
        """The mean stated confidence, 0..1; NaN if none was stated."""
        return _share(sum(self.confidences) / 100, len(self.confidences))

    @property
    def auroc(self) -> float:
        """The probability that a right answer has a higher confidence than a wrong one (ties count half), or NaN."""
        wrong, right = sorted(self.judged[False]), self.judged[True]
        passed = sum(bisect_left(wrong, stated) + bisect_right(wrong, stated) for stated in right)
        return _share(passed / 2, len(wrong) * len(right))

    def record(self) -> dict[str, JsonValue]:
        """Return numbers, name and shares as JSON values, with None for NaN."""
        names = ("level", "name", "n", "parsed", "accuracy", "mean_confidence", "auroc")
        values = {name: getattr(self, name) for name in names}
        return {name: None if value != value else value for name, value in values.items()}


class Tally:
    """The counts of one run, updated as its slots are settled."""

    def __init__(self, n_total: int, n_questions: int, kind: AnswerKind) -> None:
        self.n_total, self.n_questions = n_total, n_questions  # slots, at most, and questions
        self._n_spared, self._n_slots = 0, n_total / max(n_questions, 1)  # of a question
        self.settled = self.questions_done = 0
        self.resumed = self.asked = self.tokens = 0  # generations of the journal and of this session, with its tokens
        self.statuses: Counter[ParseStatus] = Counter()
        self.unknown_reasons: Counter[str] = Counter()
        self._kind: AnswerKind = kind
        self._levels: dict[int, LevelSummary] = {}
        self._settled_before = 0
        self._began = time.monotonic()

    def begin(self) -> None:
        """Start the clock of this session."""
        self._settled_before, self._began = self.settled, time.monotonic()

    def add_generation(self, entry: Entry) -> None:
        """Count a generation of this session."""
        self.asked += 1
        self.tokens += entry.completion_tokens

    def add_outcome(self, slot: Slot, outcome: Outcome) -> None:
        """Count a settled slot."""
        self.settled += 1
        self.statuses[outcome.status] += 1
        reason = str((outcome.observations[0].model_extra or {}).get("finish_reason") or "")
        if is_unknown(reason):
            self.unknown_reasons[reason] += 1
        for report in outcome.observations:
            level = LevelSummary(report.level, report.level_name or str(report.level))
            level = self._levels.setdefault(report.level, level)
            level.count(report, outcome.status, slot.problem.gold_answer, self._kind)

    def finish_question(self, n_spared: int) -> None:
        """Count a question that is done, although this many of its slots were not asked."""
        self.questions_done += 1
        self.n_total -= n_spared
        self._n_spared += n_spared

    @property
    def seconds(self) -> float:
        """The time since the session began."""
        return time.monotonic() - self._began

    @property
    def seconds_left(self) -> float | None:
        """The remaining time at the pace of this session; None before its first settled slot.

        As large a share of the slots will be spared as in the questions that are done.
        """
        done = self.settled - self._settled_before
        spared = self._n_spared / (self.questions_done * self._n_slots) if self.questions_done else 0.0
        return self.seconds / done * (1 - spared) * (self.n_total - self.settled) if done else None

    @property
    def accuracy(self) -> float:
        """The current accuracy over all levels, NaN without gold answers."""
        levels = list(self._levels.values())  # a copy, as the live view reads in another thread
        return _share(sum(level.n_right for level in levels), sum(level.n_labelled for level in levels))

    @property
    def by_status(self) -> dict[str, int]:
        """The number of settled replies by status."""
        return {str(status): n for status, n in sorted(dict(self.statuses).items())}

    @property
    def failures(self) -> dict[str, int]:
        """The number of unreadable replies by status."""
        return {status: n for status, n in self.by_status.items() if status not in READABLE}

    def levels(self) -> tuple[LevelSummary, ...]:
        """Return the counts by level."""
        return tuple(level for _, level in sorted(self._levels.items()))


def _share(part: int | float, whole: int) -> float:
    return part / whole if whole else float("nan")
