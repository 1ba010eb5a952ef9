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

from bayes_direag.data.answers import AnswerKind, canonical, same_answer
from elicitation.importing.replies import Log, Reply, read_records
from elicitation.parsing import read_reply

_HIDDEN = "-1"  # the number of a right choice that is not published
#: Metrics that judge the answer.
_JUDGE = re.compile(
    r"(?:quasi_)?exact_match|extractive_match|exact|em|(?:relaxed_)?acc(?:uracy)?|(?:is_)?correct|math_verify|pass(?:@|_at_)1"
    r"|prompt_level_(?:strict|loose)_acc"
)
_OF_OTHER_CHOICE = frozenset(("acc_norm", "acc_bytes", "acc_mutual_info"))  # by another measure than the likelihood


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
    over all choices. An answer is right if it is the target, as far as any answer of the log is its target. Otherwise
    it is judged by the first metric that is known to judge answers, or the chosen one, if that is 0 or 1 throughout and
    has seen this answer: a likeliest choice, that of a chosen filter, or a whole reply. With other scores between 0 and
    1, questions are unlabelled. Raises ObservationError if only other metrics could judge.
    """
    task = re.sub(r"^samples_|_\d{4}-\d\d-\d\dT[\d.-]+$", "", log.path.stem)
    samples = list(read_records(log, _Sample))
    log.check_scorers({sample.filter for _, sample in samples})
    chosen = log.scorers or (samples[0][1].filter,)
    used = [(line, sample) for line, sample in samples if sample.filter in chosen]
    metric, others, is_graded = _metric(log, [sample for _, sample in used])
    read: list[Reply] = []
    for line, sample in used:
        level = sample.filter if len(chosen) > 1 else ""
        about = Reply(str(sample.doc_id), level, None, line, file=task, task=task, identity=sample.doc_hash)
        read += _of_sample(log, about, sample, metric)
    same, said = _compared(read), [reply.given.get("correct") for reply in read]
    if others and metric is None and log.metric is None and not any(same):
        raise log.error(
            "no metric is known to judge the answers, and no answer is its target",
            seen=", ".join(others),
            expected="a metric such as exact_match, acc or pass@1",
            remedy="Name one that does with --metric NAME, or compare with the targets: --metric target.",
        )
    odd = [n for n, both in enumerate(zip(same, said, strict=True)) if None not in both and both[0] != both[1]]
    is_target = any(same) and log.metric is None
    has_golds = not is_graded and (is_target or not any(said[n] for n in odd))
    remark, unused = None, ", ".join(sorted(_OF_OTHER_CHOICE & {*others}))
    if unused and metric is None:
        remark = f"{log.path.name}: {unused} judges another choice than the likeliest. The target counts."
    elif odd and any(same):
        shown = ", ".join(f"{read[n].problem_id} ({read[n].gold_answer!r})" for n in odd[:3])
        told = f"{metric} contradicts the target on {len(odd)} of {len(read)} answers, as on question {shown}"
        remark = f"{log.path.name}: {told}. The {'target' if is_target else 'metric'} counts."
    repeated = {reply.group for reply in read}
    for n, reply in enumerate(read):
        is_first = reply.group is None and reply.level in repeated  # one reply, where other questions have several
        yield replace(
            reply,
            given={**reply.given, "correct": same[n]} if is_target and None not in (same[n], said[n]) else reply.given,
            level=f"{reply.level} 0".strip() if is_first else reply.level,
            group=reply.level if is_first else reply.group,
            gold_answer=reply.gold_answer if has_golds else None,
            remark=remark,
        )


def _metric(log: Log, samples: list[_Sample]) -> tuple[str | None, list[str], bool]:
    """Return the metric that judges, others that are 0 or 1 and once 1, and whether all are grades."""
    names = dict.fromkeys(name for sample in samples for name in sample.metrics)
    scores = {name: [(sample.model_extra or {}).get(name) for sample in samples] for name in names}
    flags = [name for name, values in scores.items() if all(value in (0, 1) for value in values)]
    usable = [name for name in flags if name not in _OF_OTHER_CHOICE]
    if log.metric not in (None, "target", *usable):
        raise log.error(
            f"this metric {'judges another choice than the likeliest' if log.metric in flags else 'is not of 0 and 1'}",
            seen=log.metric,
            expected=f"one of {', '.join(usable) or 'none'}",
            remedy="Name another with --metric, or compare with the targets: --metric target.",
        )
    between = any(isinstance(value, float) and 0 < value < 1 for values in scores.values() for value in values)
    judges = [name for name in usable if (_JUDGE.fullmatch(name) if log.metric is None else name == log.metric)]
    return next(iter(judges), None), [name for name in flags if any(scores[name])], not flags and between


def _compared(replies: list[Reply]) -> list[bool | None]:
    """Return whether each answer is the target, in a kind that most targets have; None without one of the two."""
    golds = [reply.gold_answer for reply in replies if reply.gold_answer is not None]
    every: tuple[AnswerKind, ...] = get_args(AnswerKind)
    kinds = [kind for kind in every if 2 * sum(canonical(gold, kind) is not None for gold in golds) > len(golds)]
    compared: list[bool | None] = []
    for reply in replies:
        answers = [(_answer(reply, kind), kind) for kind in kinds] if reply.gold_answer is not None else []
        same = [same_answer(answer, reply.gold_answer, kind) for answer, kind in answers if answer is not None]
        compared.append(any(same) if same else None)
    return compared


def _answer(reply: Reply, kind: AnswerKind) -> str | None:
    """Return the answer of a reply: that of the log, or the text, or what is read in it."""
    if "answer" in reply.given or reply.text is None:
        return None if reply.given.get("answer") is None else str(reply.given["answer"])
    return read_reply(reply.text, reply.finish_reason, kind=kind).answer


def _of_sample(log: Log, about: Reply, sample: _Sample, metric: str | None) -> Iterator[Reply]:
    """Yield the replies of a sample, given what is known of each."""
    arguments = [list(request.values()) for request in sample.arguments.values()]
    is_whole = arguments and all(sample.resps) and sample.filtered_resps and min(map(len, arguments)) > 1
    if not is_whole or len(arguments) != len(sample.resps):
        raise log.error(
            "a sample without the requests to its replies",
            line=about.line,
            seen=sample.arguments,
            expected="arguments as lm-eval 0.4 writes them, one a reply",
            remedy="Write the log with lm-eval 0.4.3 or later.",
        )
    verdict = {} if metric is None else {"correct": bool((sample.model_extra or {})[metric])}
    choices = _choices(arguments)
    asked = sample.doc.get("question") if isinstance(sample.doc, dict) else None
    contexts = {str(context) for context, *_ in choices}
    gold = sample.targets[0].rpartition("####")[2].strip() if len(sample.targets) == 1 else None
    question = asked if isinstance(asked, str) else contexts.pop() if len(contexts) == 1 else None
    about = replace(about, gold_answer=gold, question=question)
    if isinstance(arguments[0][1], str):  # a continuation whose likelihood was requested
        letter, confidence = _likeliest(log, about.line, sample, len(choices))
        gold = _right_letter(log, about.line, sample, [str(choice).strip() for _, choice, *_ in choices])
        judged = {} if sample.targets in ([], [_HIDDEN]) else verdict
        yield replace(about, given={"answer": letter, "confidence": confidence, **judged}, gold_answer=gold)
        return
    texts, filtered = [str(text) for text in sample.resps[0]], sample.filtered_resps[0]
    if log.scorers and not isinstance(filtered, list) and len(texts) > 1:  # one answer from all the replies
        yield replace(about, given=_extracted(filtered))
        return
    answers = filtered if isinstance(filtered, list) else [filtered]
    if len(texts) > 1 or answers[:1] == ["[invalid]"] or not (log.scorers or answers == texts):
        verdict = {}
    for repeat, text in enumerate(texts[: len(answers)] if log.scorers else texts):
        given = (_extracted(answers[repeat]) if log.scorers else {}) | verdict
        reply = replace(about, text=text, given=given)
        level = about.level
        yield reply if len(texts) == 1 else replace(reply, level=f"{level} {repeat}".strip(), group=level)


def _choices(arguments: list[list[Any]]) -> list[list[Any]]:
    """Return the requests of the choices; for mutual information, each is made once more, without its context."""
    half = len(arguments) // 2
    first, second = arguments[:half], arguments[half:]
    again = [one[1] for one in first] == [one[1] for one in second] and {str(one[0]) for one in second} == {""}
    return first if half and again else arguments


def _extracted(answer: JsonValue) -> dict[str, object]:
    return {"answer": None if answer in (None, "[invalid]") else str(answer)}


def _likeliest(log: Log, line: int | None, sample: _Sample, n: int) -> tuple[str, float]:
    """Return the letter of the likeliest choice, and its share of the likelihood in percent."""
    with suppress(ValueError, IndexError):
        likelihoods = [float(str(reply[0][0])) for reply in sample.resps[:n] if isinstance(reply[0], list)]
        best = max(likelihoods)
        if len(likelihoods) == n and 2 <= n <= 26 and math.isfinite(best):
            share = 100 / sum(math.exp(likelihood - best) for likelihood in likelihoods)
            return ascii_uppercase[likelihoods.index(best)], share
    raise log.error(
        "these are no log-likelihoods of choices",
        line=line,
        seen=sample.resps,
        expected="one for each of 2 to 26 choices",
        remedy="Check that the task is one of multiple choice.",
    )


def _right_letter(log: Log, line: int | None, sample: _Sample, choices: list[str]) -> str | None:
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
