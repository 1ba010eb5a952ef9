"""Levels that are runs: the group of a level by the form of its name, and the form of names that say so."""

import re
from collections import Counter
from collections.abc import Sequence

from bayes_direag.errors import DirEAGError

#: In place of a form of groups: every level is one of its own.
NO_GROUPS = "none"
# Words that say of the number after them that it is that of a run.
_WORDS = "(?:run|sample|trial|repeat|repetition|replicate|rollout|attempt|epoch|seed|draw|try)s?"
_RUN = re.compile(rf"(.*?)([\W_]*(?<![^\W\d_]){_WORDS}[\W_]*)\d+([\W_]*)", re.IGNORECASE)


def group_of(groups: str | None, level: str) -> str | None:
    """Return the group of a level by a form such as ``{group}_run{n}``; None if its name has another form.

    Without ``{group}`` there is one group, called as the form without ``{n}``, or ``runs``. A level that is a number
    alone, such as ``level_3``, has the form ``{n}``. With ``none`` no level has a group. Raises DirEAGError for a form
    without ``{n}``, which stands for a number.

    Examples
    --------
    >>> group_of("{group}_run{n}", "small_bold_run12"), group_of("sample {n}", "sample 3"), group_of("{n}", "level_3")
    ('small_bold', 'sample', 'runs')
    """
    if groups in (None, NO_GROUPS):
        return None
    if groups.count("{group}") > 1 or groups.count("{n}") != 1:
        raise DirEAGError(
            f"groups={groups!r} (--groups): expected the form of the names of levels, with a number {{n}} and "
            "the name of the group {group} if there are several, such as {group}_run{n} or {n}; or none."
        )
    pattern = re.escape(groups).replace(r"\{group\}", "(.+?)").replace(r"\{n\}", r"\d+")
    if "{group}" in groups:
        match = re.fullmatch(pattern, level)
        return match and match[1]
    name = groups.replace("{n}", "").strip(" _-/.:#()[]") or "runs"
    return name if re.fullmatch(pattern, level) or re.fullmatch(pattern, level.removeprefix("level_")) else None


def form_of_runs(levels: Sequence[str], column: str) -> str | None:
    """Return the form of the names of levels that are runs, by their names or by their column; None if they are none.

    Runs are two or more levels of a group whose names end in a word such as *run* and a number, or are numbers in a
    column with such a name. Of several forms, that of the most levels. None if a group would have another level's name.

    Examples
    --------
    >>> form_of_runs(["bold_run0", "bold_run1", "other"], "level"), form_of_runs(["level_0", "level_1"], "run")
    ('{group}_run{n}', '{n}')
    >>> form_of_runs(["gpt-4o-2024-05-13", "gpt-4o-2024-08-06"], "model"), form_of_runs(["prompt1", "prompt2"], "level")
    (None, None)
    """
    *before, last = column.split(",")
    forms = [("{group}/{n}" if before else "{n}")] if is_word_for_runs(last) else []
    named = filter(None, map(_RUN.fullmatch, levels))
    counted = Counter(f"{'{group}' * bool(match[1])}{match[2]}{{n}}{match[3]}" for match in named)
    for form in forms + [form for form, _ in counted.most_common()]:
        group = {level: group_of(form, level) for level in levels}
        sizes = Counter(filter(None, group.values()))
        if any(size > 1 for size in sizes.values()) and not sizes.keys() & {name for name in group if not group[name]}:
            return form
    return None


def run_number(level: str) -> str | None:
    """Return the number of a level that is called as a run alone, such as ``run3``; None for others."""
    named = _RUN.fullmatch(level)
    return re.findall(r"\d+", level)[-1] if named and not named[1] else None


def is_word_for_runs(name: str) -> bool:
    """Tell whether a column with this name holds the number of a run."""
    return re.fullmatch(rf"{_WORDS}(?:[ _-]?(?:id|number|no|index|idx))?", name.strip(), re.IGNORECASE) is not None
