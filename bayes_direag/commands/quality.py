"""What commands say of observations: how many are usable, and what stands out."""

import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group

from bayes_direag.commands.console import visible, visible_text
from bayes_direag.commands.options import out, plain_table, titled
from bayes_direag.data.records import Status

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations
    from bayes_direag.fits.fit import Fit

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
        sentence += f"; {n_conflicts} answers judged both right and wrong (the majority was taken)"
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
    from bayes_direag.data.remarks import answer_remark, level_remark

    notes = [of(observations) for of in (runs_note, voting_note, level_remark, answer_remark)]
    if len(observations.signals) > 1:
        names = observations.signal_names
        notes.insert(0, f"Signals of a report: {', '.join(names)}. Presets paper and release use {names[0]} alone.")
    for note in filter(None, notes):
        out.print(f"{note}\n")


def runs_note(observations: "Observations") -> str:
    """Say which levels are taken for runs because of their names, and how they become levels of their own."""
    names, groups = observations.table.names, observations.groups
    if names is None or not names.are_runs or groups is None:
        return ""
    runs = ", ".join(f"{group} ({n})" for group, n in Counter(groups).items() if n > 1)
    return (
        f"These are taken for runs, each group as one level: {runs}. With --groups none (groups='none') every run is a "
        "level of its own."
    )


def voting_note(observations: "Observations") -> str:
    """Say how reports of levels that only vote count; empty if there are none."""
    if not observations.voting:
        return ""
    if len(observations.voting) == len(observations.learned_levels):
        return "No report states a confidence, so each counts by its level alone."
    return f"These levels state no confidence, so their reports count by level alone: {', '.join(observations.voting)}."


def fewer_runs_note(fit: "Fit") -> str:
    """Say what fewer runs do to a fit of the runs of one group alone; empty for others, partial ones, or if little."""
    if fit.partial or fit.fitted.groups is None or len(fit.level_names) > 1:
        return ""
    import numpy as np

    enough = fit.enough_reports
    if not enough.few(np.array([1])):
        return ""
    return (
        "All reports are runs of one group. If new questions may have fewer runs, fit with --partial: with one in "
        f"place of {len(enough.excess) + 1}, probabilities of this fit are too high by about "
        f"{100 * enough.excess[0]:.0f} points."
    )
