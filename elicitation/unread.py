"""How many replies were read at each level, and examples of those that were not."""

from collections import Counter
from collections.abc import Mapping, Sequence

from bayes_direag.data.records import Question

#: A pattern of --pattern, as an example.
PATTERN = r"'answer is (?P<answer>\S+), (?P<confidence>\S+) sure'"
_SHOWN = 3
_LENGTH = 100  # of the end of a reply that is shown


def count_words(statuses: Mapping[str, int]) -> str:
    """Return the counts of statuses as text, such as ``ambiguous 2, ok 14``."""
    return ", ".join(f"{status} {n}" for status, n in sorted(statuses.items()))


def tell_unread(questions: Sequence[Question], remedy: str) -> str | None:
    """Return from how many replies an answer was read, by level, three others with the reason, and the remedy.

    None if every reply that holds any text was read. A list of guesses counts once for each guess.
    """
    by_level: Counter[str] = Counter()
    read: Counter[str] = Counter()
    examples: list[str] = []
    for question in questions:
        for report in question.observations:
            extra = report.model_extra or {}
            text, level = extra.get("raw_output"), report.level_name or str(report.level)
            if not isinstance(text, str) or not text.strip():
                continue
            by_level[level] += 1
            read[level] += report.answer is not None
            if report.answer is None and len(examples) < _SHOWN:
                end = " ".join(text.split())
                end = end if len(end) <= _LENGTH else f"... {end[-_LENGTH:].lstrip()}"
                examples.append(f"  {question.problem_id}, {level} ({extra.get('parse_status', 'no answer')}): {end}")
    if not examples:
        return None
    counts = ", ".join(f"{level} {read[level]} of {n}" for level, n in by_level.items())
    told = f"Read {read.total()} of {by_level.total()} replies: {counts}. Not read, for example:"
    return "\n".join([told, *examples, remedy])
