"""The names of questions and levels in logs that are imported together."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from elicitation.importing.replies import Log, Reply


def named(replies: Iterable[tuple[Log, Reply]]) -> list[tuple[Log, Reply]]:
    """Return the replies with the whole names of their levels and groups, and different names of different questions.

    If one name stands for different questions, their tasks come before it. A level without a name in its log has the
    name that the user gave to the file, or that of the file. Files of one folder that share no question are parts of
    one level, which has the name of the folder. Raises ObservationError if a name still stands for two questions.
    """
    replies = _told_apart(list(replies))
    folders = {path: path.resolve().parent for path in {log.path for log, _ in replies}}
    parts = _are_parts(replies, folders)
    whole = []
    for log, reply in replies:
        name = folders[log.path].name if parts and reply.file else reply.file
        before = f"{log.level or name or ''} "
        group = None if reply.group is None else f"{before}{reply.group}".strip()
        whole.append((log, replace(reply, level=f"{before}{reply.level}".strip(), group=group)))
    return whole


def _told_apart(replies: list[tuple[Log, Reply]]) -> list[tuple[Log, Reply]]:
    """Put a question's task before its name, if a name stands for several questions."""
    if not _second_questions(replies):
        return replies
    tasks: dict[tuple[str, str | None], str | None] = {}
    for _, reply in replies:
        tasks.setdefault((reply.problem_id, _identity(reply)), reply.task)
    apart = []
    for log, reply in replies:
        task = tasks[reply.problem_id, _identity(reply)]
        apart.append((log, reply if task is None else replace(reply, problem_id=f"{task}/{reply.problem_id}")))
    for log, reply in _second_questions(apart):
        raise log.error(
            f"two different questions have the name {reply.problem_id!r}",
            line=reply.line,
            seen=(reply.question or "no text that says what is asked")[:80],
            expected="one question, with one text, under each name",
            remedy="Import logs of different questions into separate files. If it is one question, name it in the logs "
            "(problem_id), or give --questions.",
        )
    return apart


def _second_questions(replies: list[tuple[Log, Reply]]) -> list[tuple[Log, Reply]]:
    """Return the replies to another question than that of an earlier reply with the same name."""
    first: dict[str, str] = {}
    second = []
    for log, reply in replies:
        identity = _identity(reply)
        if identity is not None and first.setdefault(reply.problem_id, identity) != identity:
            second.append((log, reply))
    return second


def _identity(reply: Reply) -> str | None:
    return None if reply.identity is None else " ".join(reply.identity.split())


def _are_parts(replies: list[tuple[Log, Reply]], folders: dict[Path, Path]) -> bool:
    """Tell whether no two files of a folder share a question, although some folder has several files."""
    asked: dict[Path, dict[Path, set[str]]] = defaultdict(lambda: defaultdict(set))
    for log, reply in replies:
        if reply.file:
            asked[folders[log.path]][log.path].add(reply.problem_id)
    parts = [list(files.values()) for files in asked.values()]
    shared = any(sum(map(len, files)) > len(set().union(*files)) for files in parts)
    return not shared and any(len(files) > 1 for files in parts)
