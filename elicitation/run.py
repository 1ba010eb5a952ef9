"""A run: ask every question at every level, or at those a policy chooses, and write the observations."""

import asyncio
import json
import platform
import time
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue, TypeAdapter

from bayes_direag.data.atomic import atomic_path
from bayes_direag.data.files import write_questions
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import DirEAGError
from elicitation.adaptive import Adaptive
from elicitation.engines import Engine
from elicitation.generation import ChatRequest, Sampling
from elicitation.journal import Entry, Journal
from elicitation.progress import LiveView, Tally
from elicitation.prompts import Protocol, prompt_hash
from elicitation.questions import QuestionSet
from elicitation.slots import Reports, Slot, Task

if TYPE_CHECKING:
    from bayes_direag.decisions.policy import Policy


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
) -> Tally:
    """Ask a model all questions under a protocol, and return the counts; resume the run that the folder contains.

    Writes ``journal.jsonl``, ``manifest.json`` and, at the end, ``observations.jsonl`` to the folder. Every observation
    also has ``raw_output``, ``parse_status``, ``finish_reason``, ``attempts`` and ``seed``:

    - protocol ``steered``: one observation for each steering level, under its number and name;
    - ``samples``: level i, named ``sample_i``, has the answer and the confidence (if asked for) of sample i;
    - ``topk``: level i, named ``rank_i``, has answer i of the list and its probability in percent.

    A confidence that was not stated is null. With a policy a question has the observations that were asked for, and a
    ``decision``: the last step's ``answer``, ``probability`` and ``hand_over``.

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
    folder, identity = Path(folder), _identity(questions, task, engine, adaptive)
    written, recorded = (folder / name for name in ("observations.jsonl", "journal.jsonl"))
    if written.exists() and not (recorded.exists() and recorded.stat().st_size):
        raise DirEAGError(
            f"{folder}: saw observations.jsonl and no journal.jsonl; expected a run, or a folder without either. "
            "Choose another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    with Journal(recorded, identity) as journal, view or nullcontext():
        run = _Run(questions, task, engine, folder, adaptive, journal, view)
        run.write_manifest()
        try:
            if any(course.open_slots for course in run.courses.values()):
                asyncio.run(run.fill(concurrency))
            write_questions(run.records(), written)
            run.session["outcome"], run.manifest["complete"] = "complete", True
        except BaseException as error:
            run.session["outcome"] = type(error).__name__
            raise
        finally:
            run.close()
    return run.tally


def _identity(questions: QuestionSet, task: Task, engine: Engine, adaptive: Adaptive | None) -> dict[str, JsonValue]:
    """Return what must not change when a run is resumed."""
    protocol = task.protocol
    levels: dict[str, JsonValue] = {level.name: level.differences for level in protocol.levels if level.differences}
    return {
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


@dataclass
class _Course:
    """How far a question has come: the turns in which its slots are asked, and the open slots of the present one."""

    slots: tuple[Slot, ...]
    turns: Iterator[tuple[Slot, ...]]
    open_slots: list[Slot] = field(default_factory=list)


class _Run:
    """A run: its journal and manifest, the observations of settled slots, and the course of each question."""

    def __init__(
        self,
        questions: QuestionSet,
        task: Task,
        engine: Engine,
        folder: Path,
        adaptive: Adaptive | None,
        journal: Journal,
        view: LiveView | None,
    ) -> None:
        self.questions, self.task, self.engine, self.folder = questions, task, engine, folder
        self.adaptive, self.journal, self.view = adaptive, journal, view
        self.settled: dict[Slot, Reports] = {}
        self.courses: dict[str, _Course] = {}
        for problem in questions.problems:
            slots = task.slots(problem)
            turns = iter([slots]) if adaptive is None else adaptive.turns(slots, self.settled)
            self.courses[problem.problem_id] = _Course(slots, turns)
        n_slots = sum(len(course.slots) for course in self.courses.values())
        self.tally = Tally(n_slots, len(self.courses), questions.kind)
        for course in self.courses.values():
            self._go_on(course)
        self.tally.resumed = len(journal.entries)
        self.tally.begin()
        self.session: dict[str, Any] = {
            "started": _now(),
            "ended": None,  # if it was killed
            "engine": None,  # if nothing was asked
            "generations": None,
            "models": [],  # that replies named
            "outcome": "running",  # complete, killed, or the type of the error
            "versions": _versions(),
        }
        self.manifest: dict[str, Any] = {
            "format": 1,
            "identity": journal.identity,  # what must not change when the run is resumed
            "protocol": task.protocol,  # the full prompts
            "policy": None if adaptive is None else adaptive.content,
            "questions": {
                "name": questions.name,
                "kind": questions.kind,
                "n": len(questions.problems),
                "sha256": questions.digest,
                "odd_rows": questions.odd_rows,
            },
            "complete": False,  # whether there are no open slots
            "counts": {},  # of generations, and of settled replies by status
            "levels": [],
            "sessions": [*_earlier_sessions(folder / "manifest.json"), self.session],
        }

    def write_manifest(self) -> None:
        """Write everything needed to repeat the run, without any API key, beside the journal."""
        with atomic_path(self.folder / "manifest.json") as partial:
            partial.write_bytes(TypeAdapter(object).dump_json(self.manifest, indent=2) + b"\n")

    def _advance(self, slot: Slot) -> ChatRequest | None:
        """Return the next request of a slot; once it is settled, record its observations and return None."""
        next_step = self.task.advance(slot, self.journal.entries)
        if isinstance(next_step, ChatRequest):
            return next_step
        self.settled[slot] = next_step
        self.tally.add_reply(next_step, slot.problem.gold_answer)
        return None

    def _go_on(self, course: _Course) -> list[Slot]:
        """Begin the first turn of a question that the journal does not settle, and return its open slots."""
        for turn in course.turns:
            course.open_slots = [slot for slot in turn if self._advance(slot) is not None]
            if course.open_slots:
                return [*course.open_slots]
        n_spared = sum(slot not in self.settled for slot in course.slots)
        self.tally.finish_question(self._observations(course), n_spared)
        return []

    async def fill(self, concurrency: int | None) -> None:
        """Settle the open slots."""
        if self.view is not None:
            self.view.say("making the engine ready")
        async with self.engine as info:
            self.session["engine"] = info
            self.write_manifest()
            self.tally.begin()
            waiting = iter([course.open_slots[:] for course in self.courses.values() if course.open_slots])
            try:
                async with asyncio.TaskGroup() as group:
                    watch = group.create_task(self.engine.watch())
                    async with asyncio.TaskGroup() as workers:
                        for lane in range(self.engine.lanes):
                            ready = deque[Slot]()
                            for _ in range(concurrency or self.engine.takes):
                                workers.create_task(self._work(lane, ready, waiting))
                    watch.cancel()
            except BaseExceptionGroup as errors:
                raise _first(errors) from None

    async def _work(self, lane: int, ready: deque[Slot], waiting: Iterator[list[Slot]]) -> None:
        """Settle one slot after another of those that are ready in the lane, or of the next question for all lanes."""
        while ready or (slots := next(waiting, [])):
            if not ready:
                ready.extend(slots)
            slot = ready.popleft()
            while (request := self._advance(slot)) is not None:
                began = time.monotonic()
                reply = await self.engine.generate(request, lane)
                entry = Entry(
                    **request.key._asdict(),
                    **asdict(reply),
                    seed=request.seed,
                    prompt=request.digest,
                    seconds=round(time.monotonic() - began, 3),
                )
                await self.journal.append(entry)
                self.tally.add_generation(entry)
                if self.view is not None:
                    self.view.show(self.tally)
            course = self.courses[slot.problem.problem_id]
            course.open_slots.remove(slot)
            if not course.open_slots:
                ready.extendleft(self._go_on(course))

    def _observations(self, course: _Course) -> tuple[Observation, ...]:
        """Return the observations of a question so far, in the order of the levels."""
        settled = (self.settled[slot] for slot in course.slots if slot in self.settled)
        return tuple(chain.from_iterable(settled))

    def records(self) -> list[Question]:
        """Return the questions with their observations, and with what a policy has decided."""
        records = []
        for problem in self.questions.problems:
            reports = self._observations(self.courses[problem.problem_id])
            record = Question(**vars(problem), model=self.engine.model, observations=reports)
            decided = {} if self.adaptive is None else {"decision": self.adaptive.decision(problem.problem_id)}
            records.append(record.model_copy(update=decided))
        return records

    def close(self) -> None:
        """Record the results of the session in the manifest; a full disk does not replace an error of the session."""
        tally = self.tally
        tally.end()
        tally.spending = None if self.adaptive is None else self.adaptive.spending(self.settled)
        self.manifest["counts"] = {"generations": tally.generations, "settled": tally.settled, **tally.statuses}
        self.manifest["levels"] = tally.levels
        self.session |= {"ended": _now(), "generations": tally.asked, "models": sorted(self.engine.replied_by)}
        with suppress(OSError) if self.session["outcome"] != "complete" else nullcontext():
            self.write_manifest()


def _earlier_sessions(path: Path) -> list[dict[str, Any]]:
    """Return the sessions in a manifest, none if there is no manifest; DirEAGError if the file is not one.

    A session whose outcome is still ``running`` was killed.
    """
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        content = None
    match content:
        case {"format": 1, "sessions": [*sessions]} if all(isinstance(session, dict) for session in sessions):
            return [one | ({"outcome": "killed"} if one.get("outcome") == "running" else {}) for one in sessions]
    raise DirEAGError(
        f"{path}: saw no manifest of this version; expected one. Move it away; the run needs only the journal."
    )


def _versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that a run depends on."""
    numbers = {"python": platform.python_version()}
    for name in ("bayes-direag", "httpx2", "pydantic"):
        with suppress(PackageNotFoundError):
            numbers[name] = version(name)
    return numbers


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _first(error: BaseException) -> BaseException:
    """Return the first error in a group, an expected one if possible."""
    while isinstance(error, BaseExceptionGroup):
        error = (error.subgroup(DirEAGError) or error).exceptions[0]
    return error
