"""Sample files of the LM Evaluation Harness: ``samples_TASK_DATE.jsonl``, as ``--log_samples`` writes them."""

import ast
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from string import ascii_uppercase
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, JsonValue

from bayes_direag.data.answers import AnswerKind, same_answer
from elicitation.importing.replies import Log, Reply, read_records

_HIDDEN = "-1"  # the number of a right choice that is not published


class _Sample(BaseModel):
    model_config = ConfigDict(extra="allow")  # the metrics, each by its name

    doc_id: int
    doc: JsonValue = None
    doc_hash: str | None = None
    target: JsonValue
    arguments: dict[str, dict[str, JsonValue]]
    resps: list[list[JsonValue]]
    filtered_resps: list[JsonValue]
    filter: str = "none"
    metrics: list[str] = []

    @property
    def targets(self) -> list[str]:
        """The gold answers: several if the target is a list, none if it is hidden."""
        target = str(self.target).strip()
        if target.startswith("["):
            with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                return [str(one) for one in ast.literal_eval(target)]
        return [] if target in ("", "None") else [target]


def replies(log: Log) -> Iterator[Reply]:
    """Yield the replies of a sample file; the level is the task, or the task and the repeat if there are several.

    By default the replies are read. A chosen filter gives the answer, and the reply gives the confidence. In multiple
    choice the answer is the letter of the likeliest choice, and its confidence is the likelihood relative to the sum
    over all choices. The first metric that is 0 or 1 throughout judges what it has seen: a likeliest choice, the answer
    of a chosen filter, or a whole reply. Without a verdict the target is compared; with scores between 0 and 1,
    questions are unlabelled. Targets that contradict a verdict of 1 are no gold answers.
    """
    task = re.sub(r"^samples_|_\d{4}-\d\d-\d\dT[\d.-]+$", "", log.path.stem)
    samples = list(read_records(log, _Sample))
    log.check_scorers({sample.filter for _, sample in samples})
    chosen = log.scorers or (samples[0][1].filter,)
    hashes = {line: sample.doc_hash for line, sample in samples}
    used = [(line, sample) for line, sample in samples if sample.filter in chosen]
    metric, is_graded = _metric([sample for _, sample in used])
    read = [
        reply
        for line, sample in used
        for reply in _of_sample(log, line, sample, sample.filter if len(chosen) > 1 else "", metric)
    ]
    kinds: tuple[AnswerKind, ...] = get_args(AnswerKind)
    no_golds = is_graded or any(
        reply.given.get("correct")
        and reply.gold_answer is not None
        and not any(same_answer(str(reply.given.get("answer", reply.text)), reply.gold_answer, kind) for kind in kinds)
        for reply in read
    )
    repeated = {reply.group for reply in read}
    for reply in read:
        is_first = reply.group is None and reply.level in repeated  # one reply, where other questions have several
        yield replace(
            reply,
            level=f"{reply.level} 0".strip() if is_first else reply.level,
            group=reply.level if is_first else reply.group,
            file=task,
            task=task,
            identity=hashes[reply.line or 0],
            gold_answer=None if no_golds else reply.gold_answer,
        )


def _metric(samples: list[_Sample]) -> tuple[str | None, bool]:
    """Return the first metric that is 0 or 1 in all samples; without one, also whether there are scores between."""
    scores = {name: [(sample.model_extra or {}).get(name) for sample in samples] for name in samples[0].metrics}
    verdict = next((name for name, values in scores.items() if all(value in (0, 1) for value in values)), None)
    between = any(isinstance(value, float) and 0 < value < 1 for values in scores.values() for value in values)
    return verdict, verdict is None and between


def _of_sample(log: Log, line: int, sample: _Sample, level: str, metric: str | None) -> Iterator[Reply]:
    arguments = [list(request.values()) for request in sample.arguments.values()]
    is_whole = arguments and all(sample.resps) and sample.filtered_resps and min(map(len, arguments)) > 1
    if not is_whole or len(arguments) != len(sample.resps):
        raise log.error(
            "a sample without the requests to its replies",
            line=line,
            seen=sample.arguments,
            expected="arguments as lm-eval 0.4 writes them, one a reply",
            remedy="Write the log with lm-eval 0.4.3 or later.",
        )
    verdict = {} if metric is None else {"correct": bool((sample.model_extra or {})[metric])}
    n = _n_choices(arguments)
    asked = sample.doc.get("question") if isinstance(sample.doc, dict) else None
    contexts = {str(argument[0]) for argument in arguments[:n]}
    question = asked if isinstance(asked, str) else contexts.pop() if len(contexts) == 1 else None
    problem_id = str(sample.doc_id)
    if isinstance(arguments[0][1], str):  # a continuation whose likelihood was requested
        letter, confidence = _likeliest(log, line, sample, n)
        gold = _right_letter(log, line, sample, [str(argument[1]).strip() for argument in arguments[:n]])
        judged: dict[str, object] = {"answer": letter, "confidence": confidence}
        if sample.targets not in ([], [_HIDDEN]):
            judged |= verdict
        yield Reply(problem_id, level, None, line, given=judged, gold_answer=gold, question=question)
        return
    gold = sample.targets[0].rpartition("####")[2].strip() if len(sample.targets) == 1 else None
    texts = [str(text) for text in sample.resps[0]]
    filtered = sample.filtered_resps[0]
    if log.scorers and not isinstance(filtered, list) and len(texts) > 1:  # one answer from all the replies
        yield Reply(problem_id, level, None, line, given=_extracted(filtered), gold_answer=gold, question=question)
        return
    answers = filtered if isinstance(filtered, list) else [filtered]
    if len(texts) > 1 or answers[:1] == ["[invalid]"] or not (log.scorers or answers == texts):
        verdict = {}
    for repeat, text in enumerate(texts[: len(answers)] if log.scorers else texts):
        yield Reply(
            problem_id,
            f"{level} {repeat}".strip() if len(texts) > 1 else level,
            text,
            line,
            given=(_extracted(answers[repeat]) if log.scorers else {}) | verdict,
            gold_answer=gold,
            question=question,
            group=level if len(texts) > 1 else None,
        )


def _n_choices(arguments: list[list[Any]]) -> int:
    """Return the number of choices; for mutual information, each is requested once more, without its context."""
    half = len(arguments) // 2
    first, second = arguments[:half], arguments[half:]
    again = [one[1] for one in first] == [one[1] for one in second] and {str(one[0]) for one in second} == {""}
    return half if half and again else len(arguments)


def _extracted(answer: JsonValue) -> dict[str, object]:
    return {"answer": None if answer in (None, "[invalid]") else str(answer)}


def _likeliest(log: Log, line: int, sample: _Sample, n: int) -> tuple[str, float]:
    """Return the letter of the likeliest choice, and its share of the likelihood in percent."""
    try:
        likelihoods = [float(str(reply[0][0])) for reply in sample.resps[:n] if isinstance(reply[0], list)]
        best = max(likelihoods)
        if len(likelihoods) != n or not 2 <= len(likelihoods) <= 26 or not math.isfinite(best):
            raise ValueError
    except (ValueError, IndexError) as error:
        raise log.error(
            "these are no log-likelihoods of choices",
            line=line,
            seen=sample.resps,
            expected="one for each of 2 to 26 choices",
            remedy="Check that the task is one of multiple choice.",
        ) from error
    confidence = 100 / sum(math.exp(likelihood - best) for likelihood in likelihoods)
    return ascii_uppercase[likelihoods.index(best)], confidence


def _right_letter(log: Log, line: int, sample: _Sample, choices: list[str]) -> str | None:
    """Return the letter of the choice whose number or text is the target; None if that is hidden, or says several."""
    if len(sample.targets) != 1:
        return None
    (target,) = sample.targets
    right = [number for number, choice in enumerate(choices) if target in (choice, str(number))]
    if not right and target != _HIDDEN:
        raise log.error(
            "the target is none of the choices",
            line=line,
            seen=sample.target,
            expected=f"a number from 0 to {len(choices) - 1}, or one of {choices}",
            remedy="Check the task.",
        )
    return ascii_uppercase[right[0]] if len(right) == 1 else None
