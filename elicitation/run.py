"""A run: ask every question at every level, or at those a policy chooses, and write the observations."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue, TypeAdapter

from bayes_direag.data.files import write_questions
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import DirEAGError
from elicitation.adaptive import Adaptive, Spending
from elicitation.engines import Deferred, Engine, EngineInfo
from elicitation.generation import ChatRequest, Sampling
from elicitation.journal import Entry, Journal
from elicitation.live import LiveView
from elicitation.manifest import Manifest, Session, earlier_sessions, now, questions_digest
from elicitation.prompts import Protocol, prompt_hash
from elicitation.questions import QuestionSet
from elicitation.slots import Outcome, Slot, Task
from elicitation.tally import LevelSummary, Tally

if TYPE_CHECKING:
    from bayes_direag.fits.policy import Policy

__all__ = ["RunSummary", "Sampling", "elicit"]


@dataclass(frozen=True)
class RunSummary:
    """The results of a run.

    Attributes
    ----------
    folder : Path
        The folder of the run.
    n_questions, n_unanswered : int
        The number of questions, and of those without any answer.
    generations, asked : int
        The number of generations, format repairs included, and of those of this session.
    statuses, levels
        Settled replies by parse status, and the summary by level.
    unknown_reasons : dict of str to int
        Settled replies by finish reasons that are not known; they count as whole.
    seconds, tokens
        The duration of this session, without the start of the engine, and its completion tokens.
    waiting : int
        The number of replies that come later (batch services); the observations are written when it is 0.
    spending : Spending, optional
        What was asked and spent by a policy, if there was one.
    """

    folder: Path
    n_questions: int
    n_unanswered: int
    generations: int
    asked: int
    statuses: dict[str, int]
    unknown_reasons: dict[str, int]
    levels: tuple[LevelSummary, ...]
    seconds: float
    tokens: int
    waiting: int
    spending: Spending | None


def elicit(
    questions: QuestionSet,
    protocol: Protocol,
    engine: Engine,
    folder: str | Path,
    sampling: Sampling | None = None,
    seed: int = 0,
    concurrency: int | None = None,
    view: LiveView | None = None,
    *,
    policy: "Policy | None" = None,
    ask_at_once: int = 1,
) -> RunSummary:
    """Ask a model all questions under a protocol; resume the run if the folder contains its beginning.

    Writes ``journal.jsonl``, ``manifest.json`` and, at the end, ``observations.jsonl`` to the folder. Every observation
    also has ``raw_output``, ``parse_status``, ``finish_reason``, ``attempts`` and ``seed``:

    - protocol ``steered``: one observation for each steering level, under its number and name;
    - ``samples``: level i, named ``sample_i``, has the answer and the confidence (if asked for) of sample i;
    - ``topk``: level i, named ``rank_i``, has answer i of the list and its probability in percent.

    A confidence that was not stated is null. With a policy a question has the observations that were asked for, and a
    ``decision``: the last step's ``answer``, ``confidence`` and ``hand_over``.

    Parameters
    ----------
    questions, protocol
        What to ask, and how. A resumed run may have more or fewer of the same questions.
    engine
        The engine to ask; entered only if something is left to ask.
    folder
        The folder of the run; created if necessary.
    sampling, seed
        How replies are drawn; the seed of each request is derived from ``seed``.
    concurrency
        The number of concurrent requests in each lane of the engine; None for as many as the engine takes.
    view
        The display of the progress.
    policy
        What decides which level is asked next, and when to stop; None asks all levels.
    ask_at_once
        With a policy, how many levels of a question are asked at once at first.

    Raises
    ------
    DirEAGError
        If the policy does not fit the questions or the protocol.
    JournalError
        If the folder contains a run with another identity, or the journal cannot be written.
    EngineError
        If the engine fails permanently. As after Ctrl-C, the same call resumes the run.
    """
    sampling = sampling or Sampling()
    if protocol.repairs is not None:
        sampling = sampling.model_copy(update={"repairs": min(sampling.repairs, protocol.repairs)})
    task = Task(protocol, sampling, seed, questions.kind)
    adaptive = None if policy is None else Adaptive(policy, task, questions, ask_at_once)
    run = _Run(questions, task, engine, Path(folder), adaptive)
    run.claim_folder()
    with Journal(run.folder / "journal.jsonl", run.identity) as journal, view or nullcontext():
        run.take_up(journal)
        path = run.folder / "manifest.json"
        manifest = run.manifest(earlier_sessions(path))
        session = manifest.sessions[-1]
        manifest.write(path)
        try:
            if run.waiting:
                asyncio.run(_fill(run, journal, engine, concurrency, partial(_enter_engine, manifest, path), view))
            session.outcome = "waiting"
            if not run.waiting:
                write_questions(run.records(), run.folder / "observations.jsonl")
                session.outcome, manifest.complete = "complete", True
        except BaseException as error:
            session.outcome = type(error).__name__
            raise
        finally:
            session.models = sorted(engine.replied_by)
            run.close(manifest, journal)
            with suppress(OSError) if session.outcome != "complete" else nullcontext():
                manifest.write(path)
    return run.summary()


@dataclass
class _Course:
    """How far a question has come: the turns in which its slots are asked, and the open slots of the present one."""

    slots: tuple[Slot, ...]
    turns: Iterator[tuple[Slot, ...]]
    open_slots: list[Slot] = field(default_factory=list)


class _Run:
    """The state of a run: the outcomes of settled slots, and the course of each question."""

    def __init__(
        self, questions: QuestionSet, task: Task, engine: Engine, folder: Path, adaptive: Adaptive | None
    ) -> None:
        self.questions, self.model, self.folder = questions, engine.model, folder
        self.task, self.adaptive = task, adaptive
        protocol = task.protocol
        levels: dict[str, JsonValue] = {level.name: level.differences for level in protocol.levels if level.differences}
        self.identity: dict[str, JsonValue] = {
            "model": engine.model,
            "dataset": questions.name,
            "protocol": protocol.name,
            **({} if protocol.schema is None else {"form": "json"}),
            "prompts": prompt_hash(protocol),
            "seed": task.seed,
            "sampling": task.sampling.model_dump(),
            **({"levels": levels} if levels else {}),
            **({} if adaptive is None else {"policy": adaptive.identity}),
            **engine.identity,
        }
        self.outcomes: dict[Slot, Outcome] = {}
        self.courses = {problem.problem_id: self._course(task.slots(problem)) for problem in questions.problems}
        n_slots = sum(len(course.slots) for course in self.courses.values())
        self.tally = Tally(n_slots, len(self.courses), questions.kind)

    def _course(self, slots: tuple[Slot, ...]) -> _Course:
        return _Course(slots, iter([slots]) if self.adaptive is None else self.adaptive.turns(slots, self.outcomes))

    def claim_folder(self) -> None:
        """Create the folder, or check that its contents are those of a run."""
        journal = self.folder / "journal.jsonl"
        if (self.folder / "observations.jsonl").exists() and not (journal.exists() and journal.stat().st_size):
            raise DirEAGError(
                f"{self.folder}: saw observations.jsonl and no journal.jsonl; expected a run, or a folder without "
                "either. Choose another folder."
            )
        self.folder.mkdir(parents=True, exist_ok=True)

    def take_up(self, journal: Journal) -> None:
        """Settle slots by the journal as far as it goes."""
        for course in self.courses.values():
            self._go_on(course, journal)
        self.tally.resumed = len(journal.entries)
        self.tally.begin()

    def advance(self, slot: Slot, journal: Journal) -> ChatRequest | None:
        """Return the next request of a slot; once it is settled, record its outcome and return None."""
        next_step = self.task.advance(slot, journal.entries)
        if isinstance(next_step, ChatRequest):
            return next_step
        self.outcomes[slot] = next_step
        self.tally.add_outcome(slot, next_step)
        return None

    def next_slots(self, slot: Slot, journal: Journal) -> list[Slot]:
        """Return what to ask of a question after one of its slots is settled."""
        course = self.courses[slot.problem.problem_id]
        course.open_slots.remove(slot)
        return [] if course.open_slots else self._go_on(course, journal)

    def _go_on(self, course: _Course, journal: Journal) -> list[Slot]:
        """Begin the first turn of a question that the journal does not settle, and return its open slots."""
        for turn in course.turns:
            course.open_slots = [slot for slot in turn if self.advance(slot, journal) is not None]
            if course.open_slots:
                return [*course.open_slots]
        self.tally.finish_question(sum(slot not in self.outcomes for slot in course.slots))
        return []

    @property
    def waiting(self) -> int:
        """The number of open slots."""
        return sum(len(course.open_slots) for course in self.courses.values())

    def _observations(self, course: _Course) -> tuple[Observation, ...]:
        """Return the observations of a question so far, in the order of the levels."""
        settled = (self.outcomes[slot].observations for slot in course.slots if slot in self.outcomes)
        return tuple(chain.from_iterable(settled))

    def records(self) -> list[Question]:
        """Return the questions with their observations, and with what a policy has decided."""
        found = [
            Question(
                problem_id=problem.problem_id,
                dataset=problem.dataset,
                model=self.model,
                question=problem.question,
                gold_answer=problem.gold_answer,
                observations=self._observations(self.courses[problem.problem_id]),
            )
            for problem in self.questions.problems
        ]
        if self.adaptive is None:
            return found
        return [
            question.model_copy(update={"decision": self.adaptive.decision(question.problem_id)}) for question in found
        ]

    def manifest(self, sessions: Sequence[Session]) -> Manifest:
        """Return the manifest at the start of a session."""
        questions: dict[str, JsonValue] = {
            "name": self.questions.name,
            "kind": self.questions.kind,
            "n": len(self.questions.problems),
            "sha256": questions_digest(self.questions.problems),
            "odd_rows": TypeAdapter(object).dump_python(self.questions.odd_rows, mode="json"),
        }
        protocol = TypeAdapter(object).dump_python(self.task.protocol, mode="json")
        policy = None if self.adaptive is None else self.adaptive.content
        return Manifest(
            identity=self.identity,
            protocol=protocol,
            policy=policy,
            questions=questions,
            sessions=[*sessions, Session()],
        )

    def close(self, manifest: Manifest, journal: Journal) -> None:
        """Record the results of a session."""
        manifest.counts = {
            "generations": len(journal.entries),
            "settled": self.tally.settled,
            **{str(status): n for status, n in sorted(self.tally.statuses.items())},
        }
        manifest.levels = [level.record() for level in self.tally.levels()]
        manifest.sessions[-1].ended = now()
        manifest.sessions[-1].generations = len(journal.entries) - self.tally.resumed

    def summary(self) -> RunSummary:
        """Return the summary of the finished run."""
        done = [self._observations(course) for course in self.courses.values() if not course.open_slots]
        return RunSummary(
            folder=self.folder,
            n_questions=len(self.courses),
            n_unanswered=sum(all(report.answer is None for report in reports) for reports in done),
            generations=self.tally.resumed + self.tally.asked,
            asked=self.tally.asked,
            statuses={str(status): n for status, n in sorted(self.tally.statuses.items())},
            unknown_reasons=dict(self.tally.unknown_reasons),
            levels=self.tally.levels(),
            seconds=self.tally.seconds,
            tokens=self.tally.tokens,
            waiting=self.waiting,
            spending=None if self.adaptive is None else self.adaptive.spending(self.outcomes),
        )


def _enter_engine(manifest: Manifest, path: Path, info: EngineInfo) -> None:
    manifest.sessions[-1].engine = info
    manifest.write(path)


async def _fill(
    run: _Run,
    journal: Journal,
    engine: Engine,
    concurrency: int | None,
    on_ready: Callable[[EngineInfo], None],
    view: LiveView | None,
) -> None:
    """Settle the open slots."""
    if view is not None:
        view.say("making the engine ready")
    async with engine as info:
        on_ready(info)
        run.tally.begin()
        waiting = iter([course.open_slots[:] for course in run.courses.values() if course.open_slots])
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(engine.watch())
                async with asyncio.TaskGroup() as workers:
                    for lane in range(engine.lanes):
                        ready = deque[Slot]()
                        for _ in range(concurrency or engine.takes):
                            workers.create_task(_work(run, journal, engine, lane, ready, waiting, view))
                watch.cancel()
        except BaseExceptionGroup as errors:
            raise _first(errors) from None


async def _work(
    run: _Run,
    journal: Journal,
    engine: Engine,
    lane: int,
    ready: deque[Slot],
    waiting: Iterator[list[Slot]],
    view: LiveView | None,
) -> None:
    """Settle one slot after another of those that are ready in the lane, or of the next question for all lanes.

    A slot whose reply comes later stays open.
    """
    while ready or (slots := next(waiting, [])):
        if not ready:
            ready.extend(slots)
        slot = ready.popleft()
        while (request := run.advance(slot, journal)) is not None:
            began = time.monotonic()
            try:
                reply = await engine.generate(request, lane)
            except Deferred:
                break
            entry = Entry(
                **request.key._asdict(),
                **asdict(reply),
                seed=request.seed,
                prompt=request.digest,
                seconds=round(time.monotonic() - began, 3),
            )
            await journal.append(entry)
            run.tally.add_generation(entry)
            if view is not None:
                view.show(run.tally)
        else:
            ready.extendleft(run.next_slots(slot, journal))


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error to report, an expected one if possible."""
    leaves: list[BaseException] = []
    for error in errors.exceptions:
        leaves += [_first(error)] if isinstance(error, BaseExceptionGroup) else [error]
    return next((error for error in leaves if isinstance(error, DirEAGError)), leaves[0])
