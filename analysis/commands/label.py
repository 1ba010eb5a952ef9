"""The command ``direag label``: which questions to label, as a table and a page to fill in."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from bayes_direag.commands import options
from bayes_direag.data.answers import AnswerKind
from bayes_direag.errors import DirEAGError


def label_command(
    observations: options.ObservationsFile,
    target: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Table of labels (CSV), new or to go on with.  [the name of OBS, with -labels.csv]",
            show_default=False,
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--page", help="Also write a page (.html) on which to label, and to save the table.")
    ] = None,
    n: Annotated[int, typer.Option("--n", min=1, help="How many questions without a label the table is to have.")] = 30,
    answers: Annotated[
        AnswerKind | None,
        typer.Option(help="How answers are compared. By default as numbers or letters if most answers are such."),
    ] = None,
    column: options.ColumnOption = None,
    scale: options.ScaleOption = None,
    groups: options.GroupsOption = None,
    same: options.SameOption = None,
    seed: options.SeedOption = 0,
) -> None:
    """Choose questions to label: half at random, and half where the votes are closest.

    A table gets a row for each question, with its distinct answers. Write the right answer under gold_answer, whether a
    report gives it or not; or "none of these". Leave it empty if you do not know. Answers in free text get a row each:
    write true or false under correct.

    The same command adds questions to a table that is filled in. What is in it stays.

    The page shows a question at a time, with a button for each answer. It needs no network, keeps what you label in the
    browser, and saves the table.

    Example: direag label new.jsonl --n 30 --out labels.csv --page label.html
    """
    target = target or options.beside(observations, "-labels.csv")
    options.require_suffix(target, ".csv")
    options.check_file(target, observations, goes_on=True)
    columns = options.chosen_columns(column, scale, groups)
    with options.progress() as step:
        step(f"reading {observations}")
        from bayes_direag.data.files import read_table
        from bayes_direag.data.labelling import likely_kind, questions_to_label
        from bayes_direag.data.labels import Labels, read_labels, write_labels
        from bayes_direag.data.observations import Observations

        reports = read_table(observations, columns)
        questions = Observations.of_table(reports, answers or likely_kind(reports), same=options.chosen_same(same))
    if page is not None:
        options.require_suffix(page, ".html", ".htm", option="--page")
        options.check_file(page, observations, option="--page")
    so_far = read_labels(target) if target.is_file() else None
    table = questions_to_label(questions, n, seed=seed, so_far=so_far)
    if table.empty:
        raise DirEAGError(
            f"{observations}: saw no question with a usable report and without a label; expected at least one. Nothing "
            "is left to label."
        )
    also = {"--answers": answers, "--scale": scale, "--groups": groups, "--same": same}
    reading = [*also.items(), *(("--column", pair) for pair in column or ())]
    same_reading = [str(word) for name, value in reading if value for word in (name, value)]
    then = shlex.join(["direag", "fit", f"{observations}", "--labels", f"{target}", *same_reading])
    if page is not None:
        from analysis.display.labelling_page import write_labelling_page

        write_labelling_page(table, questions, page, file=target.name, then=then)
    write_labels(table, target)
    labels, known = Labels.of(table), () if so_far is None else Labels.of(so_far).rows
    labelled, names = labels.filled.keys(), {row.problem_id for row in labels.rows}
    n_open, n_new = len(names - labelled), len(names - {row.problem_id for row in known})
    text = f"{target}: {n_open} questions to label, {n_new} of them new (seed {seed}); {len(labelled)} labelled."
    if n_open < n:
        text += " There are no others with a usable report and without a label."
    options.out.print(text, f"Then: {then}", sep="\n", soft_wrap=True)
