"""What commands say of observations: how many are usable, and what stands out."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group

from bayes_direag.commands.console import visible, visible_text
from bayes_direag.commands.options import out, plain_table, titled
from bayes_direag.data.records import Status

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations

_STATUS_HEADERS = {
    Status.USABLE: "usable",
    Status.ABSENT: "absent",
    Status.NO_ANSWER: "no\nanswer",
    Status.UNPARSABLE: "unreadable\nanswer",
    Status.NO_CONFIDENCE: "no\nconfidence",
}
#: Names of levels that are longer are broken at hyphens.
_NAME_WIDTH = 37


def quality_table(observations: "Observations", title: str) -> Group:
    """Return the number of usable observations of each level, and of others by the reasons that occur."""
    table, counts = plain_table("level"), observations.status_counts
    shown = [status for status in Status if status is Status.USABLE or counts[:, status].any()]
    for status in shown:
        table.add_column(_STATUS_HEADERS[status], justify="right")
    for name, of_level in zip(observations.level_names, counts[:, shown], strict=True):
        lines = textwrap.wrap(visible(name), _NAME_WIDTH, break_long_words=False)
        table.add_row(visible_text("\n".join(lines)), *(str(count) if count else "·" for count in of_level))
    return titled(title, table, quality_sentence(observations))


def quality_sentence(observations: "Observations") -> str:
    """Say how many questions are answered, labelled, and have a right answer among the candidates."""
    n = len(observations)
    sentence = (
        f"{n} question{'s' * (n != 1)}: {observations.answered.sum()} answered, {observations.labelled.sum()} "
        f"labelled, {observations.gold_generated.sum()} with a right answer among the candidates"
    )
    if n_several := (observations.correct_candidate.sum(axis=1) > 1).sum():
        sentence += f", {n_several} with several"
    if n_conflicts := observations.conflicting.sum():
        sentence += f"; {n_conflicts} answers judged both right and wrong, or wrong though they equal the right answer"
        sentence += " (the majority of verdicts was taken)"
    return f"{sentence}."


def show_quality(observations: "Observations", path: Path, *, inferred: bool, by_level: bool = True) -> None:
    """Print how many observations are usable, and how answers are compared."""
    how = " (inferred from the gold answers)" if inferred else ""
    if observations.same is not None:
        how += f", equal by {observations.same.name}"
    title = f"{path}: {observations.kind} answers{how}"
    if by_level:
        out.print(quality_table(observations, title))
    else:
        out.print(f"{title}. {quality_sentence(observations)}\n")


def show_remarks(observations: "Observations") -> None:
    """Print what stands out in observations."""
    from bayes_direag.data.remarks import REMARKS

    for remark in filter(None, (of(observations) for of in REMARKS)):
        out.print(f"{remark}\n")
