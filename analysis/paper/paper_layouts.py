"""The tables of :mod:`analysis.paper.paper_tables` in words and figures, ready for any format."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from analysis.display.text import UNDEFINED, listed, number
from analysis.methods.rules import VANILLA
from analysis.methods.sampled import SAMPLED_METHODS
from analysis.paper.paper_tables import (
    COMPARED_METRICS,
    DECIMALS,
    N_RESAMPLES,
    PRINTED_METRICS,
    REFERENCE,
    PrintedTable,
    as_printed,
    printed_protocol,
    setting,
)
from analysis.runs.evaluated_run import EvaluatedRun

Mark = Literal["bold", "underline"]

_MARKED = "Best of each column in bold, second best underlined; figures equal as printed are equally good. "
_OF_RANK: Mapping[int, tuple[Mark, ...]] = {1: ("bold",), 2: ("underline",)}
_MARKDOWN = {"bold": "**{}**", "underline": "<ins>{}</ins>"}
_LATEX = {"bold": r"\textbf{{{}}}", "underline": r"\underline{{{}}}"}

#: Characters that LaTeX would not print unescaped.
_LATEX_TEXT = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "{}$&#_%"},
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",
    "]": "{]}",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "\N{MINUS SIGN}": "$-$",
}


@dataclass(frozen=True)
class Cell:
    """A text, and how it stands out."""

    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Row:
    """A label and a cell for each further column; a detail tells more of the row above."""

    label: str
    cells: tuple[Cell, ...]
    is_detail: bool = False


@dataclass(frozen=True)
class Section:
    """Rows that belong together, the folder they come from, and notes; a single section has no title."""

    title: str
    source: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """A table: the headers of all columns (in lines, the first over the labels), its sections, and how to read it.

    ``name`` stands for it in cross-references; the first ``n_names`` columns are of names, the others of figures.
    """

    name: str
    title: str
    headers: tuple[str, ...]
    sections: tuple[Section, ...]
    caption: str
    n_names: int = 1

    @property
    def columns(self) -> str:
        """How each column is set: ``l`` to the left, ``r`` to the right."""
        return "l" * self.n_names + "r" * (len(self.headers) - self.n_names)


def to_console(layout: Layout) -> Group:
    """Return a rich renderable: best in bold, second best underlined, details dimmed."""
    parts: list[Text | Table | str] = [Text(layout.title, style="italic")]
    for section in layout.sections:
        table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
        for position, header in enumerate(layout.headers):
            left = position == 0
            table.add_column(
                Text(header), justify="left" if left else "right", no_wrap=not left, overflow="fold", vertical="bottom"
            )
        for row in section.rows:
            cells = (Text(cell.text, style=" ".join(cell.marks)) for cell in row.cells)
            table.add_row(Text(row.label), *cells, style="dim" if row.is_detail else "")
        notes = (Text(note, style="dim italic") for note in section.notes)
        parts += [Text(f"\n{section.title} ({section.source})"), table, *notes]
    return Group(*parts, Text(f"\n{layout.caption}", style="dim italic"), "")


def to_markdown(layout: Layout) -> str:
    """Return Markdown; underlined is what HTML calls inserted, which GitHub shows so."""
    lines = [f"## {_markdown_text(layout.title)}"]
    for section in layout.sections:
        lines += ["", f"### {_markdown_text(f'{section.title} ({section.source})')}"] if section.title else []
        rule = ["---" if side == "l" else "---:" for side in layout.columns]
        lines += ["", *map(_markdown_row, (map(_markdown_text, layout.headers), rule))]
        for row in section.rows:
            cells = (_marked(_markdown_text(cell.text), cell.marks, _MARKDOWN) for cell in row.cells)
            lines.append(_markdown_row((_markdown_text(row.label), *cells)))
        for note in section.notes:
            lines += ["", _markdown_text(note)]
    caption = ["", _markdown_text(layout.caption)] if layout.caption else []
    return "\n".join([*lines, *caption, ""])


def to_latex(layout: Layout) -> str:
    """Return LaTeX, a ``table`` a section. The document needs the package booktabs and nothing else."""
    return "\n".join(_latex_table(layout, number, section) for number, section in enumerate(layout.sections, 1))


def _latex_table(layout: Layout, number: int, section: Section) -> str:
    return rf"""% From {" ".join(section.source.split())}. Needs \usepackage{{booktabs}}.
\begin{{table}}
\centering\small
\setlength{{\tabcolsep}}{{3pt}}
\caption{{{_latex_text(f"{layout.title}: {section.title}")}}}
\label{{tab:{layout.name}-{number}}}
\begin{{tabular}}{{{layout.columns}}}
\toprule
{" & ".join(map(_latex_header, layout.headers))} \\
\midrule
{_latex_rows(section.rows, r"\addlinespace")}
\bottomrule
\end{{tabular}}
\par\smallskip
\begin{{minipage}}{{\linewidth}}\footnotesize
{_latex_text(" ".join((*section.notes, layout.caption)))}
\end{{minipage}}
\end{{table}}
"""


def to_longtable(layout: Layout) -> str:
    """Return the only section of a table as one LaTeX ``longtable``."""
    return rf"""% Needs \usepackage{{booktabs,longtable}}.
\begin{{longtable}}{{{layout.columns}}}
\caption{{{_latex_text(layout.title)}}}\label{{tab:{layout.name}}}\\
\toprule
{" & ".join(map(_latex_header, layout.headers))} \\
\midrule
\endhead
{_latex_rows(layout.sections[0].rows, r"\midrule")}
\bottomrule
\end{{longtable}}
"""


def _latex_rows(rows: Sequence[Row], between: str) -> str:
    """Return the rows, with a line between those that have a label and what is above them."""
    lines = []
    for position, row in enumerate(rows):
        texts = [_latex_text(row.label), *(_marked(_latex_text(cell.text), cell.marks, _LATEX) for cell in row.cells)]
        if row.is_detail:
            texts = [text and rf"{{\scriptsize {text}}}" for text in texts]
        elif position and row.label:
            lines.append(between)
        lines.append(rf"{' & '.join(texts)} \\")
    return "\n".join(lines)


def _marked(text: str, marks: tuple[Mark, ...], by_mark: Mapping[str, str]) -> str:
    for mark in reversed(marks):
        text = by_mark[mark].format(text)
    return text


def _markdown_row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\`*_|<\[\]~])", r"\\\1", text).replace("\n", "<br>")


def _latex_header(header: str) -> str:
    lines = [_latex_text(line) for line in header.split("\n")]
    return lines[0] if len(lines) == 1 else rf"\shortstack[r]{{{r' \\ '.join(lines)}}}"


def _latex_text(text: str) -> str:
    printable = "".join(character if character.isprintable() else " " for character in text)
    escaped = "".join(_LATEX_TEXT.get(character, character) for character in " ".join(printable.split()))
    # Two hyphens are an en dash to LaTeX: those of the text are kept apart.
    return re.sub("-(?=-)", "-{}", escaped).replace("\N{EN DASH}", "--")


_COMPARED_NAMES = {"benefit": "benefit", "brier": "Brier score"}


def long_layout(table: PrintedTable, rows: pd.DataFrame) -> Layout:
    """Lay out all runs in one piece, set as in the paper: best underlined, DirEAG in bold."""
    body = []
    for _, of_run in rows.groupby("run", sort=False):
        for place, row in enumerate(of_run.to_dict("records")):
            model, dataset = (str(row["model"]), str(row["dataset"])) if place == 0 else ("", "")
            own: tuple[Mark, ...] = ("bold",) if row["name"] == REFERENCE else ()
            best: list[tuple[Mark, ...]] = [("underline",) if _rank(row, name) == 1 else () for name in PRINTED_METRICS]
            metrics = (Cell(_n(row[name]), own + marks) for name, marks in zip(PRINTED_METRICS, best, strict=True))
            body.append(Row(model, (Cell(dataset), Cell(str(row["method"]), own), *metrics)))
    return Layout(
        name=f"direag-{table.number}-long",
        title=f"{table.subject.capitalize()}, all settings, set as in the paper's Table {table.number}",
        headers=("Model", "Dataset", table.column.capitalize(), *_metric_headers()),
        sections=(Section("", "", tuple(body), ()),),
        caption="",
        n_names=3,
    )


def _metric_headers(*, details: bool = False) -> list[str]:
    return [
        f"{name} {'↑' if more_is_better else '↓'}{f'\n({detail})' if details and detail else ''}"
        for name, detail, more_is_better in PRINTED_METRICS.values()
    ]


def _rank(row: Mapping[Hashable, Any], metric: str) -> int | None:
    rank = row[f"{metric}_rank"]
    return None if pd.isna(rank) else int(rank)


def paper_layout(table: PrintedTable, rows: pd.DataFrame, runs: Sequence[EvaluatedRun], level: float) -> Layout:
    """Lay out what :func:`~analysis.paper.paper_tables.paper_table` found at an interval level, one section per run."""
    return Layout(
        name=f"direag-{table.number}",
        title=f"{table.subject.capitalize()}, as in the paper's Table {table.number}",
        headers=(table.column, *_metric_headers(details=True)),
        sections=_sections(rows, runs, lambda own, run: _paper_rows(own, setting(run).is_printed, level), _paper_notes),
        caption=(
            f"{_MARKED if rows.filter(regex='_rank$').notna().any(axis=None) else ''}"
            "↑ more is better, ↓ less. ECE: bins of equal width, closed on the right. Intervals: percentile bootstrap "
            "over questions, with fits and replies as they are."
        ),
    )


def differences_layout(
    differences: pd.DataFrame, runs: Sequence[EvaluatedRun], level: float, n_resamples: int = N_RESAMPLES
) -> Layout:
    """Lay out what :func:`~analysis.paper.paper_tables.method_differences` found so, one section per run."""
    names = [_COMPARED_NAMES[metric] for metric in COMPARED_METRICS]
    return Layout(
        name="direag-differences",
        title="DirEAG against each other method, question by question",
        headers=("method", "n", *(header for name in names for header in (name, "adjusted\np"))),
        sections=_sections(
            differences,
            runs,
            lambda own, _: _difference_rows(own, level),
            lambda own, _: what_differs(own, 1 - level).splitlines(),
        ),
        caption=(
            "Differences are DirEAG minus the other, on the n labelled questions. Benefit, accuracy minus Brier score "
            "of the selected answers, says which is better: above 0, DirEAG. The Brier score is of each method's own "
            "answers, where both have one: below 0 those of DirEAG have the better probabilities. "
            "Intervals: paired bootstrap over questions, with fits and replies as they are. p: paired permutation "
            f"test ({n_resamples} permutations, so never below {_n(1 / (1 + n_resamples))}), adjusted for all "
            f"{len(differences)} comparisons shown by the method of Benjamini and Hochberg."
        ),
    )


def what_differs(differences: pd.DataFrame, rate: float) -> str:
    """Say which differences of one run can be told from chance at a false-discovery rate, and which cannot.

    Examples
    --------
    >>> rows = {"method": ["A", "B"], "metric": "benefit", "n": 90, "difference": [0.2, 0.1]}
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
        phrase.format(metric=_COMPARED_NAMES[str(metric)], methods=listed(rows["method"].tolist()))
        for metric, rows in differences.groupby("metric", sort=False)
    ]


def _sections(
    table: pd.DataFrame,
    runs: Sequence[EvaluatedRun],
    rows_of: Callable[[pd.DataFrame, EvaluatedRun], Iterable[Row]],
    notes_of: Callable[[pd.DataFrame, EvaluatedRun], Iterable[str]],
) -> tuple[Section, ...]:
    """Make one section per run, of its part of a table."""
    parts = [(run, table[table["run"] == str(run.folder)]) for run in runs]
    return tuple(
        Section(", ".join(setting(run)[:2]), str(run.folder), tuple(rows_of(own, run)), tuple(notes_of(own, run)))
        for run, own in parts
    )


def _paper_rows(rows: pd.DataFrame, is_printed: bool, level: float) -> Iterator[Row]:
    for row in rows.to_dict("records"):
        metrics = list(PRINTED_METRICS)
        cells = (Cell(_n(row[name]), _OF_RANK.get(_rank(row, name) or 0, ())) for name in metrics)
        yield Row(str(row["method"]), tuple(cells))
        if not pd.isna(row["n"]):
            spans = [_span(row[f"{name}_low"], row[f"{name}_high"], UNDEFINED) for name in metrics]
            yield _detail(f"{_percent(level)} interval", spans)
        if is_printed:
            yield _detail("printed", [_n(row[f"{name}_printed"]) for name in metrics])
        if is_printed and not pd.isna(row["n"]):
            # From the figures as shown, so that the three lines agree.
            gaps = [as_printed(row[name]) - row[f"{name}_printed"] for name in metrics]
            yield _detail("difference", [_n(gap, signed=True) for gap in gaps])


def _paper_notes(rows: pd.DataFrame, run: EvaluatedRun) -> Iterator[str]:
    where = setting(run)
    yield f"Ours: {run.protocol}, {run.fit_method.upper()}, preset {run.preset}."
    if where.is_printed:
        yield f"Printed: {printed_protocol(where.dataset)}, MAP; without intervals."
    else:
        yield "The paper has no such cell, so no printed figures stand here."
    ranked = rows.dropna(subset="benefit").sort_values("benefit", ascending=False, kind="stable")
    if len(ranked):
        benefits = map("{} {}".format, ranked["method"], ranked["benefit"].map(_n))
        what = "Benefit (accuracy minus Brier score, 0 without an answer), which the paper does not have"
        yield f"{what}: {listed(list(benefits))}."
    options: dict[str, list[str]] = {}
    for name, printed in rows.loc[rows["n"].isna(), ["name", "method"]].itertuples(index=False):
        options.setdefault(_option_for(name), []).append(printed)
    for option, methods in options.items():
        yield f"{listed(methods)}: not in this run; needs direag evaluate {option}."
    n_labelled = int((rows["n"] + rows["unanswered"]).max()) if rows["n"].notna().any() else 0
    if n_labelled < (run.protocol.n_evaluated or 0):
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


def _difference_rows(differences: pd.DataFrame, level: float) -> Iterator[Row]:
    for method, rows in differences.groupby("method", sort=False):
        records = rows.set_index("metric").loc[list(COMPARED_METRICS)].to_dict("records")
        estimates = [text for row in records for text in (_n(row["difference"], signed=True), _n(row["p_adjusted"], 3))]
        spans = [text for row in records for text in (_span(row["low"], row["high"], " to ", DECIMALS), "")]
        yield Row(str(method), tuple(map(Cell, [str(rows["n"].iloc[0]), *estimates])))
        yield _detail(f"{_percent(level)} interval", ["", *spans])


def _detail(label: str, texts: Sequence[str]) -> Row:
    return Row(f"  {label}", tuple(map(Cell, texts)), is_detail=True)


def _span(low: float, high: float, between: str, decimals: int = 3) -> str:
    ends = [number(end, decimals, bare=True) for end in (low, high)]
    return UNDEFINED if ends == [UNDEFINED] * 2 else between.join(ends)


def _n(value: float, decimals: int = DECIMALS, *, signed: bool = False) -> str:
    return number(value, decimals, signed=signed, bare=True)


def _percent(share: float) -> str:
    return f"{round(100 * share, 6):g}%"
