"""A run: ask every question at every level, or at those a policy chooses, and write the observations."""

import asyncio
import json
import platform
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue, TypeAdapter

from bayes_direag.data.atomic import atomic_path
from bayes_direag.data.files import write_questions
from bayes_direag.data.records import Question
from bayes_direag.errors import DirEAGError
from elicitation.adaptive import Adaptive
from elicitation.engines import Engine
from elicitation.generation import ChatRequest, Sampling
from elicitation.journal import Entry, Journal
from elicitation.progress import LiveView, Tally, count
from elicitation.prompts import Protocol, prompt_hash
from elicitation.queries import Query, Reports, Task
from elicitation.questions import QuestionSet
from elicitation.readings import READABLE

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
    questions, protocol, engine
        What to ask, how, and whom. A resumed run may have more or fewer of the same questions.
    folder, view
        The folder of the run, created if necessary; the display of the progress.
    sampling, seed
        How replies are drawn; the seed of each request is derived from ``seed``.
    concurrency
        The number of concurrent requests in each lane of the engine; None for as many as the engine takes.
    policy, ask_at_once
        What decides which level is asked next, and when to stop (None asks all levels); how many levels of a question
        it has asked at once at first.

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
    task, folder = Task(protocol, sampling, seed, questions.kind), Path(folder)
    adaptive = None if policy is None else Adaptive(policy, task, questions, ask_at_once)
    written, recorded = (folder / name for name in ("observations.jsonl", "journal.jsonl"))
    if written.exists() and not (recorded.exists() and recorded.stat().st_size):
        raise DirEAGError(
            f"{folder}: saw observations.jsonl and no journal.jsonl; expected a run, or a folder without either. "
            "Choose another folder."
        )
    earlier = _earlier_manifest(folder / "manifest.json")
    folder.mkdir(parents=True, exist_ok=True)
    with Journal(recorded, _identity(questions, task, engine, adaptive)) as journal, view or nullcontext():
        manifest: dict[str, Any] = {
            "format": 1,
            "identity": journal.identity,  # what must not change when the run is resumed
            "protocol": protocol,  # the full prompts
            "policy": None if adaptive is None else adaptive.content,
            "questions": {
                "name": questions.name,
                "kind": questions.kind,
                "n": len(questions.problems),
                "sha256": questions.digest,
                "odd_rows": questions.odd_rows,
            },
            "complete": False,
            "engine": earlier.get("engine"),  # the last that was asked
            "counts": None,
            "versions": {"python": platform.python_version()}
            | {name: version(name) for name in ("bayes-direag", "httpx2", "pydantic")},
        }

        def record(**changes: object) -> None:
            """Write everything needed to repeat the run, without any API key, beside the journal."""
            manifest.update(changes, written=datetime.now(UTC).isoformat(timespec="seconds"))
            with atomic_path(folder / "manifest.json") as partial:
                partial.write_bytes(TypeAdapter(object).dump_json(manifest, indent=2) + b"\n")

        run, n_resumed = _Run(questions, task, engine, journal, adaptive, view), len(journal.entries)
        record()
        if run.waiting:
            asyncio.run(run.ask(concurrency, lambda about: record(engine=about)))
        records = run.records()
        write_questions(records, written)
        fresh = [*journal.entries.values()][n_resumed:]
        tally = count(
            records,
            run.settled,
            questions.kind,
            generations=len(journal.entries),
            asked=len(fresh),
            tokens=sum(entry.completion_tokens for entry in fresh),
            seconds=run.seconds,
            spending=None if adaptive is None else adaptive.spending(run.settled),
        )
        record(complete=True, counts=tally)
    return tally


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


class _Run:
    """The queries of a run: those that the journal settles, and those that are still to be asked."""

    def __init__(
        self,
        questions: QuestionSet,
        task: Task,
        engine: Engine,
        journal: Journal,
        adaptive: Adaptive | None,
        view: LiveView | None,
    ) -> None:
        self.questions, self.task, self.engine, self.journal = questions, task, engine, journal
        self.adaptive, self.view = adaptive, view
        self.settled: dict[Query, Reports] = {}
        self.seconds, self.n_done, self.n_unreadable = 0.0, 0, 0
        self._n_open = Counter[str]()  # queries of each question that are being asked
        self._turns: dict[str, Iterator[tuple[Query, ...]]] = {}
        for problem in questions.problems:
            queries = task.queries(problem)
            turns = iter([queries]) if adaptive is None else adaptive.turns(queries, self.settled)
            self._turns[problem.problem_id] = turns
        self.waiting = [*filter(None, map(self._next_turn, self._turns))]

    async def ask(self, concurrency: int | None, record: Callable[[dict[str, object]], None]) -> None:
        """Settle all queries; ``record`` gets the description of the engine, at last with the models it has named."""
        async with self.engine as about:
            record(about)
            began, waiting = time.monotonic(), iter(self.waiting)
            try:
                async with asyncio.TaskGroup() as workers:
                    for lane in range(self.engine.lanes):
                        ready = deque[Query]()
                        for _ in range(concurrency or self.engine.takes):
                            workers.create_task(self._work(lane, ready, waiting))
            except BaseExceptionGroup as errors:
                raise _first(errors) from None
            self.seconds = time.monotonic() - began
        record(about | {"models": sorted(self.engine.replied_by)})

    def records(self) -> list[Question]:
        """Return the questions with their observations, and with what a policy has decided."""
        records = []
        for problem in self.questions.problems:
            reports = (self.settled.get(query, ()) for query in self.task.queries(problem))
            record = Question(**vars(problem), model=self.engine.model, observations=tuple(chain(*reports)))
            decided = {} if self.adaptive is None else {"decision": self.adaptive.decision(problem.problem_id)}
            records.append(record.model_copy(update=decided))
        return records

    async def _work(self, lane: int, ready: deque[Query], waiting: Iterator[list[Query]]) -> None:
        """Settle one query after another of those that are ready in the lane, or of the next question for all lanes."""
        while ready or (turn := next(waiting, [])):
            if not ready:
                ready.extend(turn)
            query = ready.popleft()
            while (request := self._advance(query)) is not None:
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
            self._n_open[query.problem.problem_id] -= 1
            if not self._n_open[query.problem.problem_id]:
                ready.extendleft(self._next_turn(query.problem.problem_id))
            if self.view is not None:
                self.view.show(self.n_done, len(self._turns), self.n_unreadable)

    def _next_turn(self, problem_id: str) -> list[Query]:
        """Return the next queries of a question that the journal does not settle; none if the question is done."""
        for turn in self._turns[problem_id]:
            if queries := [query for query in turn if self._advance(query) is not None]:
                self._n_open[problem_id] = len(queries)
                return queries
        self.n_done += 1
        return []

    def _advance(self, query: Query) -> ChatRequest | None:
        """Return the next request of a query; once it is settled, keep its reports and return None."""
        step = self.task.advance(query, self.journal.entries)
        if isinstance(step, ChatRequest):
            return step
        self.settled[query] = step
        self.n_unreadable += (step[0].model_extra or {})["parse_status"] not in READABLE
        return None


def _earlier_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest that a run goes on with, empty if there is none; DirEAGError if the file is no manifest."""
    if not path.exists():
        return {}
    with suppress(ValueError, RecursionError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict) and content.get("format") == 1:
            return content
    raise DirEAGError(f"{path}: saw no manifest; expected that of a run. Move it away; the run needs only the journal.")


def _first(error: BaseException) -> BaseException:
    """Return the first error in a group, an expected one if possible."""
    while isinstance(error, BaseExceptionGroup):
        error = (error.subgroup(DirEAGError) or error).exceptions[0]
    return error
