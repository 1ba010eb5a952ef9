"""Logs of Inspect, ``.eval`` and JSON, through its own reader."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from bayes_direag.errors import DirEAGError
from elicitation.importing.replies import Log, Reply


def replies(log: Log) -> Iterator[Reply]:
    """Yield the replies of a log; the model is the level, and so is each epoch if there are several.

    Without a chosen scorer the replies themselves are read. A chosen one gives the answer and, by ``C`` and ``I`` or 1
    and 0, whether it is correct; the reply gives the confidence. Raises DirEAGError if inspect_ai is not installed, or
    the log cannot be read or has no samples.
    """
    try:
        read_eval_log = import_module("inspect_ai.log").read_eval_log
    except ImportError as error:
        raise DirEAGError(
            "reading a log of Inspect needs inspect_ai, which is not installed. Run: "
            'pip install ".[inspect]" in the checkout of bayes-direag'
        ) from error
    try:
        found = read_eval_log(str(log.path), resolve_attachments=True)
    except Exception as error:
        raise log.error(
            f"inspect_ai cannot read this log ({type(error).__name__}: {str(error)[:120]})",
            expected="an .eval or .json log of Inspect",
            remedy="Check the path, and that the evaluation has ended.",
        ) from error
    if not found.samples:
        raise log.error(
            f"the log has no samples (its status is {found.status})",
            expected="the log of an evaluation with its samples",
            remedy="Run the evaluation again, with log_samples.",
        )
    log.check_scorers({name for sample in found.samples for name in sample.scores or {}})
    name = log.level or str(found.eval.model)
    epochs = len({sample.epoch for sample in found.samples})
    for sample in found.samples:
        for scorer in log.scorers or (None,):
            level = name if scorer is None or len(log.scorers) == 1 else f"{name} {scorer}"
            yield Reply(
                str(sample.id),
                f"{level} epoch {sample.epoch}" if epochs > 1 else level,
                sample.output.completion if sample.output.choices else None,
                finish_reason=sample.output.stop_reason if sample.output.choices else None,
                given={} if scorer is None else _judged((sample.scores or {}).get(scorer)),
                gold=_only(sample.target),
                question=_question(sample.input),
                dataset=str(found.eval.task),
                model=str(found.eval.model),
                group=level if epochs > 1 else None,
            )


def _judged(score: Any) -> dict[str, str | float | bool | None]:
    """Return what a score says: its answer, and whether that is correct where the score tells."""
    if score is None or not score.answer:
        return {"answer": None}
    correct = (
        {"C": True, "I": False, 1: True, 0: False}.get(score.value)
        if isinstance(score.value, str | int | float)
        else None
    )
    return {"answer": str(score.answer)} | ({} if correct is None else {"correct": correct})


def _question(asked: Any) -> str:
    """Return the text of a prompt: the last message, of a chat."""
    return asked if isinstance(asked, str) else str(asked[-1].text)


def _only(target: str | list[str]) -> str | None:
    """Return the gold answer, if there is one and no more."""
    targets = [target] if isinstance(target, str) else target
    return targets[0] if len(targets) == 1 and targets[0].strip() else None
