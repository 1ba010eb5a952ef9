"""The queries of a run: one for every question, level and sample, each settled by a reply."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.records import Observation
from elicitation.generation import REASONING, ChatRequest, Generation, Key, Sampling, request_seed
from elicitation.journal import Entry, JournalError
from elicitation.parsing import read_guesses, read_last_number, read_reply
from elicitation.prompts import Protocol, messages, repair_messages
from elicitation.questions import Problem
from elicitation.readings import READABLE, ParseStatus
from elicitation.token_probability import answer_probability


class Query(NamedTuple):
    """One question at one level of the protocol; of several samples, one. An unreadable reply is asked for again."""

    problem: Problem
    level: int
    sample: int


type Reports = tuple[Observation, ...]
"""The observations of a settled reply, which say how its last attempt was read and ended: one, or one for each rank."""


@dataclass(frozen=True)
class Task:
    """How questions are asked and replies are read; ``seed`` is that of the run, ``kind`` that of the answers."""

    protocol: Protocol
    sampling: Sampling
    seed: int
    kind: AnswerKind

    @cached_property
    def sampling_by_level(self) -> tuple[Sampling, ...]:
        """How the replies of each level are drawn."""
        return tuple(self.sampling.override(level.sampling) for level in self.protocol.levels)

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return the queries of a question; they are asked one after another, to share the server's prefix cache."""
        levels, samples = self.protocol.levels, range(self.protocol.n_samples)
        return tuple(Query(problem, level.index, sample) for level in levels for sample in samples)

    def advance(self, query: Query, entries: Mapping[Key, Entry]) -> ChatRequest | Reports:
        """Return the next request of a query, or its observations if it is settled.

        A query is settled by a readable reply, by the last repair, or by what a repair does not change: a prompt or
        reasoning that is too long. Raises JournalError if a recorded reply answers a prompt other than the one that
        would be sent.
        """
        attempts: list[Entry] = []
        for attempt in range(self.sampling_by_level[query.level].repairs + 1):
            request = self._request(query, attempt, attempts[-1] if attempts else None)
            entry = entries.get(request.key)
            if entry is None:
                return request
            if (entry.prompt, entry.seed) != (request.digest, request.seed):
                raise JournalError(
                    f"question {query.problem.problem_id!r}, level {query.level}: saw a recorded reply to another "
                    "prompt; expected the same question as before. Give the questions of that run, or choose another "
                    "folder."
                )
            attempts.append(entry)
            if entry.finish_reason in ("context", REASONING) or self._read(query, entry.generation)[0] in READABLE:
                break
        return self._reports(query, attempts)

    def _reports(self, query: Query, attempts: Sequence[Entry]) -> Reports:
        *failed, last = attempts  # which counts
        status, reports = self._read(query, last.generation)
        if failed and status is ParseStatus.OK:
            status = ParseStatus.REPAIRED
        provenance = {
            "raw_output": last.text,
            "parse_status": str(status),
            "finish_reason": last.finish_reason,
            "attempts": len(failed) + 1,
            "seed": last.seed,
        }
        level = self.protocol.levels[query.level]
        told = {"group": level.group, "model": level.model}
        provenance |= {field: name for field, name in told.items() if name is not None}
        observations = []
        for rank, (answer, confidence) in enumerate(reports):
            number, name = self._place(query, rank)
            values = {"level": number, "level_name": name, "answer": answer, "confidence": confidence}
            probability = None if answer is None else answer_probability(last.text, last.final_tokens, answer)
            signals = {} if probability is None else {"confidences": {"logprob": round(probability, 2)}}
            observations.append(Observation.model_validate(values | signals | provenance))
        return tuple(observations)

    def _request(self, query: Query, attempt: int, previous: Entry | None) -> ChatRequest:
        key = Key(query.problem.problem_id, query.level, query.sample, attempt)
        prompt = (self.protocol, query.level, query.problem.question)
        chat = messages(*prompt) if previous is None else repair_messages(*prompt, previous.text)
        sampling = self.sampling_by_level[query.level]
        pattern = self.protocol.reply_pattern if sampling.structured else None
        return ChatRequest(key, tuple(chat), request_seed(self.seed, key), sampling, pattern, self.protocol.schema)

    def _read(self, query: Query, reply: Generation) -> tuple[ParseStatus, list[tuple[str | None, float | None]]]:
        """Return the status of a reply, and each answer with its confidence in percent."""
        holds, text, finish_reason = self.protocol.holds, reply.text, reply.finish_reason
        if holds == "guesses":
            guesses = read_guesses(text, finish_reason, kind=self.kind)
            return guesses.status, [*guesses.answers] or [(None, None)]
        reading = read_reply(text, finish_reason, kind=self.kind, confident=holds == "pair")
        lenient = self.sampling_by_level[query.level].lenient
        if lenient and reading.status in (ParseStatus.NO_ANSWER, ParseStatus.TRUNCATED):
            reading = read_last_number(reply.text, confident=holds == "pair")
        return reading.status, [(reading.answer, reading.confidence)]

    def level_of(self, query: Query) -> tuple[str, str | None]:
        """Return the name of the level of the query's reports, and their group."""
        return self._place(query, 0)[1], self.protocol.levels[query.level].group

    def _place(self, query: Query, rank: int) -> tuple[int, str]:
        """Return the number and name of an observation's level."""
        protocol = self.protocol
        name = protocol.levels[query.level].name
        if protocol.name == "topk":
            return rank, f"rank_{rank}"
        if protocol.n_samples == 1:
            return query.level, name
        number = query.level * protocol.n_samples + query.sample
        return number, f"sample_{query.sample}" if len(protocol.levels) == 1 else f"{name}_{query.sample}"
