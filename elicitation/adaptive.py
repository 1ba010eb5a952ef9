"""Asking by a policy: one report of a question after another, while the next one is worth its price."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue, TypeAdapter

from bayes_direag.data.runs import group_of
from bayes_direag.errors import DirEAGError
from elicitation.queries import Query, Reports, Task
from elicitation.questions import QuestionSet

if TYPE_CHECKING:
    from bayes_direag.decisions.policy import Policy, Step

#: How many questions for a person are named.
_SHOWN = 10
#: What the policy is told about a report.
_TOLD = {"level", "level_name", "group", "answer", "confidence", "confidences"}


class Adaptive:
    """A policy that is followed in a run; what it asks depends on the replies alone.

    Of each question, the ``at_once`` reports that are worth most alone are asked together at first. Raises DirEAGError
    if the policy does not fit the run: lists of guesses, answers of another kind, or too few levels.
    """

    def __init__(self, policy: "Policy", task: Task, questions: QuestionSet, at_once: int) -> None:
        levels = policy.fit.level_names
        self.content: JsonValue = TypeAdapter(object).dump_python(policy.record(), mode="json")
        self._policy = policy
        self._task, self._at_once = task, at_once
        self._groups = None if policy.fit.columns is None else policy.fit.columns.groups
        self._most = dict(zip(levels, policy.most.tolist(), strict=True))
        self._price = dict(zip(levels, policy.prices.tolist(), strict=True))
        self._steps: dict[str, Step] = {}  # the last one on each question that is done
        self._check(questions)
        self._first: list[str] = []
        while len(self._first) < at_once:
            unanswered = [{"group": name, "answer": None} for name in self._first]
            if (name := self._policy.next(unanswered).ask) is None:
                break
            self._first.append(name)

    @property
    def identity(self) -> JsonValue:
        """What must not change when a run is resumed."""
        digest = hashlib.sha256(json.dumps(self.content, sort_keys=True).encode()).hexdigest()
        return {"sha256": digest, "ask_at_once": self._at_once}

    def decision(self, problem_id: str) -> dict[str, JsonValue]:
        """Return the answer to a question that is done, the probability that it is right, and who is to give it."""
        step = self._steps[problem_id]
        return {"answer": step.answer, "probability": step.probability, "hand_over": step.hand_over}

    def turns(self, queries: Sequence[Query], settled: Mapping[Query, Reports]) -> Iterator[tuple[Query, ...]]:
        """Yield which queries of a question to send, each time after the earlier ones are settled."""
        left = {name: iter([query for query in queries if self._learned_as(query) == name]) for name in self._most}
        asked = [next(left[name]) for name in self._first]
        if asked:
            yield tuple(asked)
        while (step := self._policy.next(_reports(asked, settled))).ask is not None:
            asked.append(next(left[step.ask]))
            yield (asked[-1],)
        self._steps[queries[0].problem.problem_id] = step

    def spending(self, settled: Mapping[Query, Reports]) -> dict[str, JsonValue]:
        """Return what has been asked and spent so far, of what all reports on these questions cost, as JSON values.

        The fields are ``reports`` that were asked and ``all_reports``, their ``price`` and the ``full_price``, and
        ``handed_over``, the names of the questions that are for a person.
        """
        asked = Counter(map(self._learned_as, settled))
        n = len({query.problem.problem_id for query in settled} | self._steps.keys())
        full = {name: n * most for name, most in self._most.items()}
        price, full_price = (sum((n * self._price[name] for name, n in each.items()), 0.0) for each in (asked, full))
        return {
            "reports": asked.total(),
            "all_reports": sum(full.values()),
            "price": price,
            "full_price": full_price,
            "handed_over": [*sorted(name for name, step in self._steps.items() if step.hand_over)],
        }

    def _learned_as(self, query: Query) -> str:
        """Return the name under which the fit has learned the query's reports: of its group, or else of its level."""
        level, group = self._task.level_of(query)
        return group or group_of(self._groups, level) or level

    def _check(self, questions: QuestionSet) -> None:
        protocol, answers = self._task.protocol, self._policy.fit.answers
        if protocol.holds == "guesses":
            raise DirEAGError("--policy: saw lists of guesses; expected one report a reply. Choose another --protocol.")
        if questions.kind != answers:
            raise DirEAGError(
                f"--policy: saw a policy for {answers} answers, and questions with {questions.kind} ones; expected "
                f"one kind. Give --answers {answers}, or make a policy of such questions."
            )
        present = Counter(map(self._learned_as, self._task.queries(questions.problems[0])))
        for name, most in self._most.items():
            if present[name] < most:
                raise DirEAGError(
                    f"--policy: saw a policy that asks up to {most} reports of {name!r}, and {present[name]} of "
                    f"{', '.join(present)}; expected as many. Name the levels as in the fit, by --levels FILE."
                )


def tell_spending(spending: Mapping[str, Any]) -> str:
    """Return in sentences what was spent."""
    handed_over, more = spending["handed_over"], ""
    if n := len(handed_over):
        names = ", ".join(handed_over[:_SHOWN]) + (f" and {n - _SHOWN} more" if n > _SHOWN else "")
        more = f" {n} {'question is' if n == 1 else 'questions are'} for a person: {names}."
    reports, price = (
        f"{spending[part] / spending[whole]:.0%}" if spending[whole] else "-"
        for part, whole in (("reports", "all_reports"), ("price", "full_price"))
    )
    return (
        f"The policy asked {spending['reports']} of {spending['all_reports']} reports ({reports}) at {price} of their "
        f"price.{more}"
    )


def _reports(queries: Sequence[Query], settled: Mapping[Query, Reports]) -> list[dict[str, object]]:
    return [report.model_dump(include=_TOLD) for query in queries for report in settled[query]]
