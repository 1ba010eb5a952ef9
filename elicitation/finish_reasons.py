"""Why models stopped, by the names that servers and logs give."""

import re
from collections.abc import Mapping

_CUT_OFF = re.compile(
    r"length|max|limit|incomplete|partial|unfinished|filter|safety|block|prohibit|recitation|spii|guardrail|refus"
    r"|abort|cancel|interrupt|error|fail|malformed|timeout|time_out|context|exceed|insufficient|truncat|repetition",
    re.IGNORECASE,
)
_WHOLE = re.compile(r"stop|eos|end|complete|finish|success|succeed|done|tool|function|word", re.IGNORECASE)


def is_cut_off(finish_reason: str | None) -> bool:
    """Tell whether a model was stopped before the end of its reply, by any server's name for it.

    Examples
    --------
    >>> [is_cut_off(reason) for reason in ("length", "MAX_TOKENS", "incomplete", "stop", None)]
    [True, True, True, False, False]
    """
    return finish_reason is not None and _CUT_OFF.search(finish_reason) is not None


def is_unknown(finish_reason: str | None) -> bool:
    """Tell whether a finish reason is none of those that servers are known to give; such a reply counts as whole."""
    return bool(finish_reason) and not is_cut_off(finish_reason) and not _WHOLE.search(finish_reason or "")


def tell_unknown(reasons: Mapping[str, int]) -> str:
    """Return a sentence about replies with unknown finish reasons."""
    counts = ", ".join(f"{reason!r} {n}" for reason, n in sorted(reasons.items()))
    return f"Finish reasons that are not known, whose replies count as whole: {counts}."
