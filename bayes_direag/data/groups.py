"""The groups of levels that are runs of one model, by the form of their names."""

import re

from bayes_direag.errors import DirEAGError


def group_of(groups: str | None, level: str) -> str | None:
    """Return the group of a level by a pattern such as ``{group}_run{n}``; None if its name has another form.

    Raises DirEAGError for a pattern without ``{group}`` or ``{n}``, which stands for a number.

    Examples
    --------
    >>> group_of("{group}_run{n}", "small_bold_run12")
    'small_bold'
    """
    if groups is None:
        return None
    if groups.count("{group}") != 1 or groups.count("{n}") != 1:
        raise DirEAGError(
            f"groups={groups!r} (--groups): expected the form of the names of levels, with {{group}} and a number "
            "{n}, such as {group}_run{n}."
        )
    pattern = re.escape(groups).replace(r"\{group\}", "(.+)").replace(r"\{n\}", r"\d+")
    found = re.fullmatch(pattern, level)
    return found and found[1]
