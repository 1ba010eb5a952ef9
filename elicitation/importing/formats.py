"""The formats of logs, and the function that imports them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from bayes_direag.data.answers import AnswerKind
from bayes_direag.errors import DirEAGError
from elicitation.fields import Scale
from elicitation.importing import batch, inspect_log, lm_eval, own_forms
from elicitation.importing.naming import named
from elicitation.importing.replies import Imported, Log, Reply, put_together
from elicitation.questions import QuestionSet

LogFormat = Literal["lm-eval", "inspect", "batch", "transcripts", "observations"]

#: The function that reads a log of each format.
LOG_FORMATS: Mapping[LogFormat, Callable[[Log], Iterator[Reply]]] = {
    "lm-eval": lm_eval.replies,
    "inspect": inspect_log.replies,
    "batch": batch.replies,
    "transcripts": own_forms.transcripts,
    "observations": own_forms.observations,
}
_WITH_SCORERS = ("lm-eval", "inspect")


def import_logs(
    form: LogFormat,
    files: Sequence[str | Path | tuple[str, str | Path]] | Mapping[str, str | Path],
    *,
    questions: QuestionSet | None = None,
    scorers: Sequence[str] = (),
    kind: AnswerKind | None = None,
    pattern: str | None = None,
    scale: Scale = "percent",
    metric: str | None = None,
) -> Imported:
    """Read questions and observations from logs of another tool.

    Raises DirEAGError if a file is missing or of another format, or the replies contradict each other.

    Parameters
    ----------
    form, files
        The format of the files; the files, a mapping from levels to files, or pairs of level and file, in which a level
        may have several files.
    questions : QuestionSet, optional
        The questions that were asked, for logs without gold answers.
    scorers : sequence of str
        The filters of lm-eval or scorers of Inspect to use.
    kind : {"numeric", "choice", "choices", "text"}, optional
        How answers are compared; by default inferred from the gold answers.
    pattern : str, optional
        A regular expression to use instead of the fields of a reply: its group ``answer``, or the first, is the answer,
        ``confidence``, or the second, if any, the confidence. Of a run of ours it reads the replies without an answer.
    scale : {"percent", "fraction"}
        What a confidence is that has no unit, and whose label does not say.
    metric : str, optional
        The metric of lm-eval that judges answers, or ``target`` to compare them with the target.

    Returns
    -------
    Imported
        The questions, for :meth:`bayes_direag.Observations.from_questions` or
        :func:`bayes_direag.data.files.write_questions`, and the number of replies by status. A confidence that was not
        stated is null.
    """
    pairs = files.items() if isinstance(files, Mapping) else files
    paths = [(pair[0], Path(pair[1])) if isinstance(pair, tuple) else (None, Path(pair)) for pair in pairs]
    names = () if questions is None else tuple(problem.problem_id for problem in questions.problems)
    logs = [Log(path, level, tuple(scorers), names, metric) for level, path in paths]
    if metric is not None and form != "lm-eval":
        raise DirEAGError(f"--metric {metric}: saw logs of {form}; expected those of lm-eval. Leave it out.")
    for log in logs:
        if not log.path.is_file():
            raise DirEAGError(f"{log.path}: saw no such file; expected a log of format {form}. Check the path.")
        if form not in _WITH_SCORERS:
            log.check_scorers(())
    replies = named((log, reply) for log in logs for reply in LOG_FORMATS[form](log))
    return put_together(replies, questions, kind, None if pattern is None else _compiled(pattern), scale)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
        if "answer" not in compiled.groupindex and compiled.groups not in (1, 2):
            raise re.error(f"it has {compiled.groups} groups")
    except re.error as error:
        raise DirEAGError(
            f"--pattern: saw {pattern!r} ({error}); expected a regular expression with groups (?P<answer>...) "
            r"and perhaps (?P<confidence>...), or one or two groups, as 'answer is (\S+)'. Correct it."
        ) from error
    return compiled
