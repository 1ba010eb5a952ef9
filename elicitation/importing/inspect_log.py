"""Logs of Inspect, ``.eval`` and JSON, read by its own reader."""

import re
from collections.abc import Iterator
from typing import Any

from bayes_direag.errors import DirEAGError
from elicitation.importing.replies import Log, Reply

_VERDICTS = {"c": 1, "yes": 1, "true": 1, "i": 0, "p": 0, "no": 0, "false": 0, "n": None}


def replies(log: Log) -> Iterator[Reply]:
    """Yield the replies of a log; the level is the model, or the model and the epoch if there are several.

    By default the replies are read. A chosen scorer gives the answer and whether it is correct, and the reply gives the
    confidence. Of a scorer whose answer is the whole reply (``includes``, ``match``, ``f1``, ``model_graded_qa`` ...)
    the reply is read, unless it is one line without a field. ``C``, ``yes``, ``true`` and 1 are correct; ``I``, ``P``
    (partly), ``no``, ``false`` and numbers from 0 to below 1 are not. With ``N`` (no answer), NaN or no verdict, a
    sample has no answer. Any other value, such as a grade out of 10, says nothing of the answer. Raises DirEAGError if
    inspect_ai is not installed, or the log cannot be read or has no samples.
    """
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise DirEAGError(
            "reading a log of Inspect needs inspect_ai, which is not installed. "
            'Run: pip install ".[inspect]" in the checkout of bayes-direag'
        ) from error
    try:
        evaluation = read_eval_log(str(log.path), resolve_attachments=True)
    except Exception as error:
        raise log.error(
            f"inspect_ai cannot read this log ({type(error).__name__}: {str(error)[:120]})",
            expected="an .eval or .json log of Inspect",
            remedy="Check the path, and that the evaluation has ended.",
        ) from error
    if not evaluation.samples:
        raise log.error(
            f"the log has no samples (its status is {evaluation.status})",
            expected="the log of an evaluation with its samples",
            remedy="Run the evaluation again, with log_samples.",
        )
    log.check_scorers({name for sample in evaluation.samples for name in sample.scores or {}})
    model, task = str(evaluation.eval.model), str(evaluation.eval.task)
    epochs = len({sample.epoch for sample in evaluation.samples})
    for sample in evaluation.samples:
        question = _question(sample.input)
        for scorer in log.scorers or (None,):
            names = [] if log.level else [model]
            level = " ".join(names if scorer is None or len(log.scorers) == 1 else [*names, scorer])
            yield Reply(
                str(sample.id),
                f"{level} epoch {sample.epoch}".strip() if epochs > 1 else level,
                sample.output.completion if sample.output.choices else None,
                finish_reason=sample.output.stop_reason if sample.output.choices else None,
                given={} if scorer is None else _judged((sample.scores or {}).get(scorer), sample.output.completion),
                gold_answer=_only(sample.target),
                question=question,
                dataset=task,
                model=model,
                group=level if epochs > 1 else None,
                task=task,
                identity="\n".join([question or "", *(sample.choices or ())]).strip() or None,
            )


def _judged(score: Any, reply: str) -> dict[str, object]:
    """Return the answer of a score and whether it is correct; no answer without a verdict, or if the reply has it."""
    value = None if score is None else score.value
    if isinstance(value, str):
        value = _VERDICTS.get(value.lower(), value)
    if value is None or value != value or not score.answer:
        return {"answer": None}
    answer = str(score.answer)
    is_whole = answer.casefold().split() == reply.casefold().split()
    reported = (
        {} if is_whole and re.search(r"[:%\n]", reply.strip()) else {"answer": reply.strip() if is_whole else answer}
    )
    return reported | ({"correct": value == 1} if isinstance(value, int | float) and 0 <= value <= 1 else {})


def _question(asked: Any) -> str | None:
    """Return the text of a prompt, of a chat that of the last message; None if there is none."""
    return asked if isinstance(asked, str) else str(asked[-1].text) if asked else None


def _only(target: str | list[str]) -> str | None:
    """Return the gold answer, the list of several letters; None if there is none, or any of several is right."""
    targets = [target] if isinstance(target, str) else target
    if len(targets) > 1 and all(re.fullmatch("[A-Z]", letter) for letter in targets):
        return ",".join(targets)
    return targets[0] if len(targets) == 1 and targets[0].strip() else None
