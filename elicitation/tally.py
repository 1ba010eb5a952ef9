"""The counts of a run: for the live view, the manifest and the results."""

import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from bayes_direag.data.answers import AnswerKind, same_answer
from bayes_direag.data.records import Observation
from elicitation.adaptive import Spending
from elicitation.frame import is_unknown
from elicitation.generation import REASONING
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
    """The counts of one run, updated as its slots are settled, and its results at the end.

    Attributes
    ----------
    n_questions, n_done, n_unanswered : int
        The number of questions, of those that are done, and of those without any answer.
    n_slots, settled : int
        The number of replies that are wanted, at most, and of those that are settled.
    resumed, asked, tokens : int
        The number of generations, format repairs included, in the journal and of this session, and the completion
        tokens of the latter.
    by_status, unknown_reasons : Counter
        Settled replies by parse status, and by finish reasons that are not known, which count as whole.
    n_in_reasoning : int
        The number of replies that were cut off before the model's reasoning had ended.
    spending : Spending, optional
        What a policy has asked and spent, if there is one.
    """

    def __init__(self, n_slots: int, n_questions: int, kind: AnswerKind) -> None:
        self.n_slots, self.n_questions = n_slots, n_questions
        self.settled = self.n_done = self.n_unanswered = self.n_in_reasoning = 0
        self.resumed = self.asked = self.tokens = 0
        self.by_status: Counter[ParseStatus] = Counter()
        self.unknown_reasons: Counter[str] = Counter()
        self.spending: Spending | None = None
        self._of_question = n_slots / max(n_questions, 1)  # slots
        self._n_spared = 0
        self._kind: AnswerKind = kind
        self._levels: dict[int, LevelSummary] = {}
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

    def add_outcome(self, slot: Slot, outcome: Outcome) -> None:
        """Count a settled slot."""
        self.settled += 1
        self.by_status[outcome.status] += 1
        reason = str((outcome.observations[0].model_extra or {}).get("finish_reason") or "")
        self.n_in_reasoning += reason == REASONING
        if is_unknown(reason):
            self.unknown_reasons[reason] += 1
        for report in outcome.observations:
            level = LevelSummary(report.level, report.level_name or str(report.level))
            level = self._levels.setdefault(report.level, level)
            level.count(report, outcome.status, slot.problem.gold_answer, self._kind)

    def finish_question(self, reports: Sequence[Observation], n_spared: int) -> None:
        """Count a question that is done, with its reports, although this many of its slots were not asked."""
        self.n_done += 1
        self.n_unanswered += all(report.answer is None for report in reports)
        self.n_slots -= n_spared
        self._n_spared += n_spared

    @property
    def generations(self) -> int:
        """The number of generations of all sessions."""
        return self.resumed + self.asked

    @property
    def seconds(self) -> float:
        """The duration of this session, without the start of the engine."""
        return time.monotonic() - self._began if self._seconds is None else self._seconds

    @property
    def seconds_left(self) -> float | None:
        """The remaining time at the pace of this session; None before its first settled slot.

        As large a share of the slots will be spared as in the questions that are done.
        """
        done = self.settled - self._settled_before
        spared = self._n_spared / (self.n_done * self._of_question) if self.n_done else 0.0
        return self.seconds / done * (1 - spared) * (self.n_slots - self.settled) if done else None

    @property
    def accuracy(self) -> float:
        """The current accuracy over all levels, NaN without gold answers."""
        return _share(sum(level.n_right for level in self.levels), sum(level.n_labelled for level in self.levels))

    @property
    def statuses(self) -> dict[str, int]:
        """The number of settled replies by status."""
        return {str(status): n for status, n in sorted(dict(self.by_status).items())}

    @property
    def levels(self) -> tuple[LevelSummary, ...]:
        """The counts by level."""
        return tuple(level for _, level in sorted(dict(self._levels).items()))  # a copy: a view reads in its own thread

    def record(self) -> dict[str, JsonValue]:
        """Return the counts at the end of a run as JSON values."""
        names = (
            "n_questions",
            "n_unanswered",
            "generations",
            "asked",
            "statuses",
            "n_in_reasoning",
            "seconds",
            "tokens",
        )
        return {
            **{name: getattr(self, name) for name in names},
            "unknown_reasons": dict(self.unknown_reasons),
            "levels": [level.record() for level in self.levels],
            "spending": None if self.spending is None else self.spending.record(),
        }


def _share(part: int | float, whole: int) -> float:
    return part / whole if whole else float("nan")
