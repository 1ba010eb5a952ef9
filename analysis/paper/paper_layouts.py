"""The paper's tables as sections of a document."""

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from analysis.display.document import Cell, Column, Paragraph, Record, Section, Table
from analysis.display.text import UNDEFINED, counted, listed, number
from analysis.evaluation import Evaluation
from analysis.methods.rules import VANILLA
from analysis.methods.sampled import SAMPLED_METHODS
from analysis.paper.paper_tables import (
    DECIMALS,
    N_RESAMPLES,
    PRINTED_METRICS,
    REFERENCE_NAME,
    TESTED_METRICS,
    PrintedTable,
    as_printed,
    printed_design,
    setting,
)

_MARKED = "Best of each column in bold, second best underlined; figures equal as printed are equally good. "
_OF_RANK = {1: ("best",), 2: ("second",)}
_COMPARED_NAMES = {"benefit": "benefit", "brier": "Brier score"}


def paper_section(table: PrintedTable, rows: pd.DataFrame, runs: Sequence[Evaluation], level: float) -> Section:
    """Show :func:`~analysis.paper.paper_tables.paper_table` as one table per run."""
    columns = (*_names(table.column), *map(Column, _metric_headers()))
    caption = (
        f"{_MARKED if rows.filter(regex='_rank$').notna().any(axis=None) else ''}"
        "↑ more is better, ↓ less. ECE: bins of equal width, closed on the right. Intervals: percentile bootstrap "
        "over questions, with fits and replies as they are."
    )
    tables = (
        _run_table(run, columns, _paper_rows(of_run, setting(run).is_printed, level), _paper_notes(of_run, run))
        for run, of_run in _by_run(rows, runs)
    )
    title = f"{table.subject.capitalize()}, as in the paper's Table {table.number}"
    return Section(f"direag-{table.number}", title, (*tables, Paragraph(caption, "note")))


def differences_section(
    differences: pd.DataFrame, runs: Sequence[Evaluation], level: float, n_resamples: int = N_RESAMPLES
) -> Section:
    """Show :func:`~analysis.paper.paper_tables.paper_differences` as one table per run."""
    tested = differences[differences["metric"].isin(TESTED_METRICS) & (differences["method"] == REFERENCE_NAME)]
    names = [_COMPARED_NAMES[metric] for metric in TESTED_METRICS]
    columns = (
        *_names("method"),
        *map(Column, ("n", *(header for name in names for header in (name, "adjusted\np")))),
    )
    caption = (
        "Differences are DirEAG minus the other, on the n labelled questions. Benefit, accuracy minus Brier score "
        "of the selected answers, says which is better: above 0, DirEAG. The Brier score is of each method's own "
        "answers, where both have one: below 0 those of DirEAG have the better probabilities. "
        "Intervals: paired bootstrap over questions, with fits and replies as they are. p: paired permutation "
        f"test ({n_resamples} permutations, so never below {_shown_figure(1 / (1 + n_resamples))}), adjusted for all "
        f"{len(tested)} comparisons shown by the method of Benjamini and Hochberg."
    )
    tables = (
        _run_table(run, columns, _difference_cells(of_run, level), [what_differs(of_run, 1 - level)])
        for run, of_run in _by_run(tested, runs)
    )
    title = "DirEAG against each other method, question by question"
    return Section("direag-differences", title, (*tables, Paragraph(caption, "note")))


def overall(differences: pd.DataFrame, rate: float) -> str:
    """Say over all runs how often DirEAG has a higher or a lower benefit than another method, and than which.

    Examples
    --------
    >>> rows = {"method": "DirEAG", "other": ["A", "A", "B"], "metric": "benefit", "difference": [0.2, 0.1, -0.2]}
    >>> print(overall(pd.DataFrame(rows | {"p_adjusted": [0.01, 0.6, 0.02]}), 0.05))
    Of 3 comparisons by benefit, DirEAG is better in 1 (A 1 of 2) and worse in 1 (B 1 of 1), at a false-discovery rate of 5%. In 1 the questions do not tell them apart.
    """  # noqa: E501 - one line is printed
    rows = differences[(differences["method"] == REFERENCE_NAME) & (differences["metric"] == "benefit")]
    if rows.empty:
        return "Nothing to compare: no run has DirEAG and another method."
    clear = rows["p_adjusted"] <= rate

    def counts(told: "pd.Series[bool]") -> str:
        n_of = rows.assign(told=told).groupby("other", sort=False)["told"].agg(["sum", "size"])
        named = [f"{other} {n} of {size}" for other, n, size in n_of.itertuples() if n]
        return f"{told.sum()} ({listed(named)})" if named else "none"

    better, worse = (counts(clear & (sign * rows["difference"] > 0)) for sign in (1, -1))
    return (
        f"Of {counted(len(rows), 'comparison')} by benefit, DirEAG is better in {better} and worse in {worse}, at a "
        f"false-discovery rate of {_percent(rate)}. In {(~clear).sum()} the questions do not tell them apart."
    )


def what_differs(differences: pd.DataFrame, rate: float) -> str:
    """Say which differences of one run can be told from chance at a false-discovery rate, and which cannot.

    Examples
    --------
    >>> rows = {"other": ["A", "B"], "metric": "benefit", "n": 90, "difference": [0.2, 0.1]}
    >>> print(what_differs(pd.DataFrame(rows | {"p_adjusted": [0.01, 0.6]}), 0.05))
    At a false-discovery rate of 5%, DirEAG has a higher benefit than A.
    90 questions do not tell it from B in benefit; that does not make them equal.
    """
    if differences.empty:
        return "Nothing to compare: this run lacks DirEAG, or has nothing beside it."
    clear, lower = differences["p_adjusted"] <= rate, differences["difference"] < 0
    told = [
        *_by_metric(differences[clear & lower], "a lower {metric} than {methods}"),
        *_by_metric(differences[clear & ~lower], "a higher {metric} than {methods}"),
    ]
    untold = _by_metric(differences[~clear], "from {methods} in {metric}")
    sentences = [f"At a false-discovery rate of {_percent(rate)}, DirEAG has {listed(told)}."] if told else []
    if untold:
        fewest, most = differences.loc[~clear, "n"].min(), differences.loc[~clear, "n"].max()
        size = f"{most}" if fewest == most else f"{fewest} to {most}"
        sentences.append(f"{size} questions do not tell it {listed(untold)}; that does not make them equal.")
    return "\n".join(sentences)


def _by_metric(differences: pd.DataFrame, phrase: str) -> list[str]:
    return [
        phrase.format(metric=_COMPARED_NAMES[str(metric)], methods=listed(rows["other"].tolist()))
        for metric, rows in differences.groupby("metric", sort=False)
    ]


def _run_table(
    run: Evaluation, columns: tuple[Column, ...], rows: Iterable[tuple[Cell, ...]], notes: Iterable[str]
) -> Table:
    caption = f"{', '.join(setting(run)[:2])} ({run.folder})"
    return Table(caption, columns, tuple(rows), "\n".join(notes), str(run.folder))


def _by_run(table: pd.DataFrame, runs: Sequence[Evaluation]) -> Iterator[tuple[Evaluation, pd.DataFrame]]:
    for run in runs:
        yield run, table[table["run"] == str(run.folder)]


def _names(*headers: str) -> tuple[Column, ...]:
    return tuple(Column(header, holds="name") for header in headers)


def _metric_headers() -> list[str]:
    return [
        f"{name} {'↑' if more_is_better else '↓'}{f'\n({detail})' if detail else ''}"
        for name, detail, more_is_better in PRINTED_METRICS.values()
    ]


def _rank(row: Record, metric: str) -> int | None:
    rank = row[f"{metric}_rank"]
    return None if pd.isna(rank) else int(rank)


def _paper_rows(rows: pd.DataFrame, is_printed: bool, level: float) -> Iterator[tuple[Cell, ...]]:
    """Yield the figures of each method, with the interval, the printed figure and the difference to it below."""
    for row in rows.to_dict("records"):
        is_ours = not pd.isna(row["n"])
        details = [f"{_percent(level)} interval"] * is_ours + ["printed"] * is_printed
        details += ["difference"] * (is_ours and is_printed)
        cells = [Cell(str(row["method"]), "\n".join(f"  {detail}" for detail in details))]
        for name in PRINTED_METRICS:
            lines = [_span(row[f"{name}_low"], row[f"{name}_high"], UNDEFINED)] * is_ours
            lines += [_shown_figure(row[f"{name}_printed"])] * is_printed
            # from the figures as shown, so that the three lines agree
            gap = as_printed(row[name]) - row[f"{name}_printed"]
            lines += [_shown_figure(gap, signed=True)] * (is_ours and is_printed)
            cells.append(Cell(_shown_figure(row[name]), "\n".join(lines), _OF_RANK.get(_rank(row, name) or 0, ())))
        yield tuple(cells)


def _paper_notes(rows: pd.DataFrame, run: Evaluation) -> Iterator[str]:
    where = setting(run)
    yield f"Ours: {run.design}, {run.how}."
    if where.is_printed:
        yield f"Printed: {printed_design(where.dataset)}, MAP; without intervals."
    else:
        yield "The paper has no such cell, so no printed figures stand here."
    ranked = rows.dropna(subset="benefit").sort_values("benefit", ascending=False, kind="stable")
    if len(ranked):
        benefits = map("{} {}".format, ranked["method"], ranked["benefit"].map(_shown_figure))
        what = "Benefit (accuracy minus Brier score, 0 without an answer), which the paper does not have"
        yield f"{what}: {listed(list(benefits))}."
    options: dict[str, list[str]] = {}
    for name, printed in rows.loc[rows["n"].isna(), ["name", "method"]].itertuples(index=False):
        options.setdefault(_option_for(name), []).append(printed)
    for option, methods in options.items():
        yield f"{listed(methods)}: not in this run; needs direag evaluate {option}."
    n_labelled = int((rows["n"] + rows["unanswered"]).max()) if rows["n"].notna().any() else 0
    if n_labelled < run.of.questions:
        yield f"Figures are over the {n_labelled} questions whose right answer is known."
    unanswered = rows[rows["unanswered"].fillna(0) > 0]
    if len(unanswered):
        counts = map("{} {}".format, unanswered["method"], unanswered["unanswered"])
        yield f"Questions without an answer, which benefit alone counts: {listed(list(counts))}."


def _option_for(method: str) -> str:
    """Return the option of ``direag evaluate`` that a missing method calls for."""
    if method in SAMPLED_METHODS:
        return f"--{SAMPLED_METHODS[method].elicitation}"
    return "--vanilla-level" if method == VANILLA else "--methods"


def _difference_cells(differences: pd.DataFrame, level: float) -> Iterator[tuple[Cell, ...]]:
    for other, rows in differences.groupby("other", sort=False):
        cells = [Cell(str(other), f"  {_percent(level)} interval"), Cell(str(rows["n"].iloc[0]))]
        for row in rows.set_index("metric").loc[list(TESTED_METRICS)].to_dict("records"):
            span = _span(row["low"], row["high"], " to ", DECIMALS)
            cells += [
                Cell(_shown_figure(row["difference"], signed=True), span),
                Cell(_shown_figure(row["p_adjusted"], 3)),
            ]
        yield tuple(cells)


def _span(low: float, high: float, between: str, decimals: int = 3) -> str:
    ends = [number(end, decimals) for end in (low, high)]
    return UNDEFINED if ends == [UNDEFINED] * 2 else between.join(ends)


def _shown_figure(value: float, decimals: int = DECIMALS, *, signed: bool = False) -> str:
    return number(value, decimals, signed=signed)


def _percent(share: float) -> str:
    return f"{round(100 * share, 6):g}%"
