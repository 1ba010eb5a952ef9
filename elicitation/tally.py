"""Running counts of a run, for the live view and the summary."""

import time
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import asdict, dataclass, field

from pydantic import JsonValue

from bayes_direag.data.answers import AnswerKind, same_answer
from bayes_direag.data.records import Observation
from elicitation.frame import is_unknown
from elicitation.journal import Entry
from elicitation.parsing import ParseStatus
from elicitation.slots import READABLE, Outcome, Slot


@dataclass(frozen=True)
class LevelSummary:
    """One level at the end of a run.

    Attributes
    ----------
    level, name, n
        Its number, its name, and the number of its observations.
    parsed : float
        The share of observations from readable replies, repaired ones included.
    accuracy : float
        The share of right answers among observations with a gold answer, where a missing answer is wrong; NaN without
        gold answers.
    mean_confidence : float
        The mean stated confidence, 0..1; NaN if none was stated.
    auroc : float
        The probability that a right answer has a higher confidence than a wrong one (ties count half); NaN without
        both.
    """

    level: int
    name: str
    n: int
    parsed: float
    accuracy: float
    mean_confidence: float
    auroc: float

    def record(self) -> dict[str, JsonValue]:
        """Return the fields as JSON values, with None for NaN."""
        return {name: None if value != value else value for name, value in asdict(self).items()}


@dataclass
class _Level:
    name: str
    n: int = 0
    parsed: int = 0
    golds: int = 0
    right: int = 0
    confidences: list[float] = field(default_factory=list)
    judged: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))  # of wrong answers, of right ones


class Tally:
    """The counts of one run, updated as its slots are settled.

    Attributes
    ----------
    n_total, n_questions : int
        The number of slots, at most, and of questions.
    settled, questions_done : int
        The number of settled slots, and of questions that are done.
    statuses, unknown_reasons : Counter
        The number of settled replies by status, and by finish reasons that are not known.
    resumed, asked, tokens : int
        The number of generations from the journal and of this session, and the completion tokens of the latter.
    """

    def __init__(self, n_total: int, n_questions: int, kind: AnswerKind) -> None:
        self.n_total, self.n_questions = n_total, n_questions
        self._n_spared, self._n_slots = 0, n_total / max(n_questions, 1)  # of a question
        self.settled = self.questions_done = self.resumed = self.asked = self.tokens = 0
        self.statuses: Counter[ParseStatus] = Counter()
        self.unknown_reasons: Counter[str] = Counter()
        self._kind: AnswerKind = kind
        self._levels: dict[int, _Level] = {}
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
        for observation in outcome.observations:
            self._count(observation, slot.problem.gold_answer, outcome.status)

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
        return _share(sum(level.right for level in levels), sum(level.golds for level in levels))

    @property
    def failures(self) -> dict[ParseStatus, int]:
        """The number of unreadable replies by status."""
        return {status: n for status, n in sorted(dict(self.statuses).items()) if status not in READABLE}

    def levels(self) -> tuple[LevelSummary, ...]:
        """Return the counts by level."""
        return tuple(
            LevelSummary(
                number,
                level.name,
                level.n,
                _share(level.parsed, level.n),
                _share(level.right, level.golds),
                _share(sum(level.confidences) / 100, len(level.confidences)),
                _auroc(*level.judged),
            )
            for number, level in sorted(self._levels.items())
        )

    def _count(self, observation: Observation, gold: str | None, status: ParseStatus) -> None:
        level = self._levels.setdefault(observation.level, _Level(observation.level_name or str(observation.level)))
        level.n += 1
        level.parsed += status in READABLE
        level.golds += gold is not None
        right = gold is not None and same_answer(observation.answer, gold, self._kind)
        level.right += right
        if observation.confidence is not None:
            level.confidences.append(observation.confidence)
            if gold is not None:
                level.judged[right].append(observation.confidence)


def _auroc(wrong: list[float], right: list[float]) -> float:
    wrong = sorted(wrong)
    passed = sum(bisect_left(wrong, stated) + bisect_right(wrong, stated) for stated in right)
    return _share(passed / 2, len(wrong) * len(right))


def _share(part: int | float, whole: int) -> float:
    return part / whole if whole else float("nan")
