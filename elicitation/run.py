"""A run: ask every question at every level, keep what comes back, and write the observations."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from pydantic import JsonValue, TypeAdapter

from bayes_direag.data.files import write_questions
from bayes_direag.data.records import Question
from bayes_direag.errors import DirEAGError
from elicitation.engines import Deferred, Engine, EngineInfo
from elicitation.generation import ChatRequest, Sampling
from elicitation.journal import Entry, Journal
from elicitation.live import LiveView
from elicitation.manifest import Manifest, Session, earlier_sessions, now, questions_digest
from elicitation.prompts import Protocol, prompt_hash
from elicitation.questions import QuestionSet
from elicitation.slots import Outcome, Slot, Task
from elicitation.tally import LevelSummary, Tally

__all__ = ["RunSummary", "Sampling", "elicit"]


@dataclass(frozen=True)
class RunSummary:
    """What a finished run has brought.

    Attributes
    ----------
    folder : Path
        Where it lies.
    n_questions, n_unanswered : int
        Questions in all, and those to which no reply gave an answer.
    generations, asked : int
        Generations in all, format repairs included, and those of this session.
    statuses, levels
        Settled replies by parse status, and the summary by level.
    seconds, tokens
        How long this session took, without starting the engine, and its completion tokens.
    waiting : int
        Replies that come later (batch services); until there are none, the run has no observations.
    """

    folder: Path
    n_questions: int
    n_unanswered: int
    generations: int
    asked: int
    statuses: dict[str, int]
    levels: tuple[LevelSummary, ...]
    seconds: float
    tokens: int
    waiting: int


def elicit(
    questions: QuestionSet,
    protocol: Protocol,
    engine: Engine,
    folder: str | Path,
    sampling: Sampling | None = None,
    seed: int = 0,
    concurrency: int = 32,
    view: LiveView | None = None,
) -> RunSummary:
    """Ask a model all questions under a protocol; resume the run if the folder holds its beginning.

    The folder gets ``journal.jsonl``, ``manifest.json`` and, at the end, ``observations.jsonl``, which keeps
    ``raw_output``, ``parse_status``, ``finish_reason``, ``attempts`` and ``seed`` of every observation as well:

    - protocol ``steered``: one observation a steering level, under its number and name;
    - ``samples``: level i, called ``sample_i``, has answer and confidence (if asked for) of sample i of the one prompt;
    - ``topk``: level i, called ``rank_i``, has the answer in place i of the list and its probability in percent.

    A confidence that was not stated is null, never made up.

    Parameters
    ----------
    questions, protocol
        What to ask, and how. A resumed run may have more or fewer of the same questions.
    engine
        Whom to ask; entered only if something is left to ask.
    folder
        Where the run lies; made if need be.
    sampling, seed
        How replies are drawn; each request's seed is derived from the run's.
    concurrency
        Requests in flight at each of the engine's lanes.
    view
        What shows the progress.

    Raises
    ------
    JournalError
        If the folder holds a run under another identity, or the journal cannot be written.
    EngineError
        If the engine fails for good. As after Ctrl-C, the same call goes on from where this one stopped.
    """
    sampling = sampling or Sampling()
    if protocol.repairs is not None:
        sampling = sampling.model_copy(update={"repairs": min(sampling.repairs, protocol.repairs)})
    run = _Run(questions, protocol, sampling, seed, engine, Path(folder))
    run.claim_folder()
    with Journal(run.folder / "journal.jsonl", run.identity) as journal, view or nullcontext():
        run.take_up(journal)
        path = run.folder / "manifest.json"
        manifest = run.manifest(earlier_sessions(path))
        session = manifest.sessions[-1]
        manifest.write(path)
        try:
            if run.open_slots:
                asyncio.run(_fill(run, journal, engine, concurrency, partial(_enter_engine, manifest, path), view))
            session.outcome = "waiting"
            if not run.waiting:
                write_questions(run.records(), run.folder / "observations.jsonl")
                session.outcome, manifest.complete = "complete", True
        except BaseException as error:
            session.outcome = type(error).__name__
            raise
        finally:
            run.close(manifest, journal)
            with suppress(OSError) if session.outcome != "complete" else nullcontext():
                manifest.write(path)
    return run.summary()


class _Run:
    """The state of a run: which slots are settled, how, and which are open."""

    def __init__(
        self, questions: QuestionSet, protocol: Protocol, sampling: Sampling, seed: int, engine: Engine, folder: Path
    ) -> None:
        self.questions, self.model, self.folder = questions, engine.model, folder
        self.task = Task(protocol, sampling, seed, questions.kind)
        self.identity: dict[str, JsonValue] = {
            "model": engine.model,
            "dataset": questions.name,
            "protocol": protocol.name,
            "prompts": prompt_hash(protocol),
            "seed": seed,
            "sampling": sampling.model_dump(),
            **getattr(engine, "identity", {}),
        }
        self.outcomes: dict[Slot, Outcome] = {}
        self.open_slots: list[tuple[Slot, ...]] = []
        self._slots = [self.task.slots(problem) for problem in questions.problems]
        self.tally = Tally(len(protocol.levels) * protocol.n_samples, len(self._slots), questions.kind)

    def claim_folder(self) -> None:
        """Make the folder, or make sure that what lies in it is a run."""
        journal = self.folder / "journal.jsonl"
        if (self.folder / "observations.jsonl").exists() and not (journal.exists() and journal.stat().st_size):
            raise DirEAGError(
                f"{self.folder}: saw observations.jsonl and no journal.jsonl; expected a run, or a folder without "
                "either. Choose another folder."
            )
        self.folder.mkdir(parents=True, exist_ok=True)

    def take_up(self, journal: Journal) -> None:
        """Find out what the journal settles, and what is open."""
        for slots in self._slots:
            missing = tuple(slot for slot in slots if self.advance(slot, journal) is not None)
            if missing:
                self.open_slots.append(missing)
        self.tally.resumed = len(journal.entries)
        self.tally.begin()

    def advance(self, slot: Slot, journal: Journal) -> ChatRequest | None:
        """Return what to ask next for a slot; None, and its outcome is noted, once it is settled."""
        next_step = self.task.advance(slot, journal.entries)
        if isinstance(next_step, ChatRequest):
            return next_step
        self.outcomes[slot] = next_step
        self.tally.add_outcome(slot, next_step)
        return None

    @property
    def waiting(self) -> int:
        """The number of slots that are open."""
        return self.tally.n_total - self.tally.settled

    def records(self) -> list[Question]:
        """Return the questions with their observations."""
        return [
            Question(
                problem_id=problem.problem_id,
                dataset=problem.dataset,
                model=self.model,
                question=problem.question,
                gold_answer=problem.gold_answer,
                observations=tuple(chain.from_iterable(self.outcomes[slot].observations for slot in slots)),
            )
            for problem, slots in zip(self.questions.problems, self._slots, strict=True)
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
        return Manifest(identity=self.identity, protocol=protocol, questions=questions, sessions=[*sessions, Session()])

    def close(self, manifest: Manifest, journal: Journal) -> None:
        """Enter what a session has brought."""
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
        answered = defaultdict[str, bool](bool)
        for slot, outcome in self.outcomes.items():
            answered[slot.problem.problem_id] |= any(o.answer is not None for o in outcome.observations)
        return RunSummary(
            folder=self.folder,
            n_questions=len(self._slots),
            n_unanswered=sum(not value for value in answered.values()),
            generations=self.tally.resumed + self.tally.asked,
            asked=self.tally.asked,
            statuses={str(status): n for status, n in sorted(self.tally.statuses.items())},
            levels=self.tally.levels(),
            seconds=self.tally.seconds,
            tokens=self.tally.tokens,
            waiting=self.waiting,
        )


def _enter_engine(manifest: Manifest, path: Path, info: EngineInfo) -> None:
    manifest.sessions[-1].engine = info
    manifest.write(path)


async def _fill(
    run: _Run,
    journal: Journal,
    engine: Engine,
    concurrency: int,
    on_ready: Callable[[EngineInfo], None],
    view: LiveView | None,
) -> None:
    """Ask for everything that is open."""
    if view is not None:
        view.say("making the engine ready")
    async with engine as info:
        on_ready(info)
        run.tally.begin()
        waiting = iter(run.open_slots)
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(engine.watch())
                async with asyncio.TaskGroup() as workers:
                    for lane in range(engine.lanes):
                        slots = _in_lane(waiting)
                        for _ in range(concurrency):
                            workers.create_task(_work(run, journal, engine, lane, slots, view))
                watch.cancel()
        except BaseExceptionGroup as errors:
            raise _first(errors) from None


def _in_lane(waiting: Iterator[tuple[Slot, ...]]) -> Iterator[Slot]:
    """Yield the slots of whole questions, taken one question at a time from what all lanes share."""
    for slots in waiting:
        yield from slots


async def _work(
    run: _Run, journal: Journal, engine: Engine, lane: int, slots: Iterator[Slot], view: LiveView | None
) -> None:
    """Settle one slot after another; one whose reply comes later stays open."""
    for slot in slots:
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


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error to report: an expected one if there is any."""
    leaves: list[BaseException] = []
    for error in errors.exceptions:
        leaves += [_first(error)] if isinstance(error, BaseExceptionGroup) else [error]
    return next((error for error in leaves if isinstance(error, DirEAGError)), leaves[0])
