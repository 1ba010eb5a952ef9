"""The tables of :mod:`analysis.paper.paper_tables` in words and figures, ready for any format."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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

_MARKED = "Best of each column in bold, second best {}; figures equal as printed are equally good."
_CONSOLE_STYLE = {1: "bold", 2: "underline"}
_MARKDOWN_MARKS = {1: "**", 2: "*"}
_LATEX_COMMAND = {1: r"\textbf", 2: r"\underline"}

#: What LaTeX would not print as it stands.
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
    """A text, and its rank in its column if it takes part: 1 is the best."""

    text: str
    rank: int | None = None


@dataclass(frozen=True)
class Row:
    """A label and a cell for each further column; a detail tells more of the row above."""

    label: str
    cells: tuple[Cell, ...]
    is_detail: bool = False


@dataclass(frozen=True)
class Section:
    """Rows that belong together, the folder they come from, and what is to be said of them."""

    title: str
    source: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """A table: the headers of all columns (in lines, the first over the labels), its sections, and how to read it.

    ``name`` stands for it in cross-references.
    """

    name: str
    title: str
    headers: tuple[str, ...]
    sections: tuple[Section, ...]
    caption: str

    @property
    def has_ranks(self) -> bool:
        """Whether any cell is ranked."""
        return any(cell.rank for section in self.sections for row in section.rows for cell in row.cells)


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
            cells = (Text(cell.text, style=_CONSOLE_STYLE.get(cell.rank or 0, "")) for cell in row.cells)
            table.add_row(Text(row.label), *cells, style="dim" if row.is_detail else "")
        notes = (Text(note, style="dim italic") for note in section.notes)
        parts += [Text(f"\n{section.title} ({section.source})"), table, *notes]
    return Group(*parts, Text(f"\n{_caption(layout, 'underlined')}", style="dim italic"), "")


def to_markdown(layout: Layout) -> str:
    """Return Markdown: best in bold, second best in italics."""
    lines = [f"## {_markdown_text(layout.title)}"]
    rule = ["---", *["---:"] * (len(layout.headers) - 1)]
    for section in layout.sections:
        lines += ["", f"### {_markdown_text(f'{section.title} ({section.source})')}", ""]
        lines += map(_markdown_row, ([_markdown_text(header) for header in layout.headers], rule))
        for row in section.rows:
            cells = [f"{mark}{_markdown_text(cell.text)}{mark}" for cell in row.cells for mark in [_mark(cell)]]
            lines.append(_markdown_row([_markdown_text(row.label), *cells]))
        for note in section.notes:
            lines += ["", _markdown_text(note)]
    return "\n".join([*lines, "", _markdown_text(_caption(layout, "in italics")), ""])


def to_latex(layout: Layout) -> str:
    r"""Return LaTeX, a ``table`` a section: best in ``\textbf``, second best in ``\underline``.

    The document needs the package booktabs and nothing else.
    """
    return "\n".join(_latex_table(layout, number, section) for number, section in enumerate(layout.sections, 1))


def _latex_table(layout: Layout, number: int, section: Section) -> str:
    body = []
    for position, row in enumerate(section.rows):
        texts = [_latex_text(row.label), *map(_latex_cell, row.cells)]
        if row.is_detail:
            texts = [text and rf"{{\scriptsize {text}}}" for text in texts]
        elif position:
            body.append(r"\addlinespace")
        body.append(rf"{' & '.join(texts)} \\")
    notes = " ".join((*section.notes, _caption(layout, "underlined")))
    return rf"""% From {" ".join(section.source.split())}. Needs \usepackage{{booktabs}}.
\begin{{table}}
\centering\small
\setlength{{\tabcolsep}}{{3pt}}
\caption{{{_latex_text(f"{layout.title}: {section.title}")}}}
\label{{tab:{layout.name}-{number}}}
\begin{{tabular}}{{l{"r" * (len(layout.headers) - 1)}}}
\toprule
{" & ".join(map(_latex_header, layout.headers))} \\
\midrule
{"\n".join(body)}
\bottomrule
\end{{tabular}}
\par\smallskip
\begin{{minipage}}{{\linewidth}}\footnotesize
{_latex_text(notes)}
\end{{minipage}}
\end{{table}}
"""


def long_markdown(table: PrintedTable, rows: pd.DataFrame) -> str:
    """Return one table over all runs, set as in the paper: best underlined, DirEAG in bold."""
    headers = ["model", "dataset", table.column, *_metric_headers()]
    lines = [f"## {_long_title(table)}", "", *map(_markdown_row, (headers, ["---"] * 3 + ["---:"] * 6))]
    for texts, best, own in _long_rows(rows):
        cells = [
            f"<u>{text}</u>" if mark else text for text, mark in zip(map(_markdown_text, texts), best, strict=True)
        ]
        lines.append(_markdown_row([f"**{cell}**" if own and cell else cell for cell in cells]))
    return "\n".join([*lines, ""])


def long_latex(table: PrintedTable, rows: pd.DataFrame) -> str:
    r"""Return one ``longtable`` over all runs, set as in the paper: best underlined, DirEAG in bold."""
    headers = [_latex_text(header) for header in ("Model", "Dataset", table.column.capitalize(), *_metric_headers())]
    body = []
    for texts, best, own in _long_rows(rows):
        cells = [
            rf"\underline{{{text}}}" if mark else text for text, mark in zip(map(_latex_text, texts), best, strict=True)
        ]
        body += [r"\midrule"] if texts[0] else []
        body.append(rf"{' & '.join(rf'\textbf{{{cell}}}' if own and cell else cell for cell in cells)} \\")
    return rf"""% Needs \usepackage{{booktabs,longtable}}.
\begin{{longtable}}{{lllrrrrrr}}
\caption{{{_latex_text(_long_title(table))}}}\label{{tab:direag-{table.number}-long}}\\
\toprule
{" & ".join(headers)} \\
\endhead
{"\n".join(body)}
\bottomrule
\end{{longtable}}
"""


def _long_title(table: PrintedTable) -> str:
    return f"{table.subject.capitalize()}, all settings, set as in the paper's Table {table.number}"


def _metric_headers() -> list[str]:
    return [f"{name} {'↑' if more_is_better else '↓'}" for name, _, more_is_better in PRINTED_METRICS.values()]


def _long_rows(rows: pd.DataFrame) -> Iterator[tuple[list[str], list[bool], bool]]:
    """Yield the texts of each row, which of them are the best of their run, and whether the row is DirEAG's."""
    for _, of_run in rows.groupby("run", sort=False):
        for place, row in enumerate(of_run.to_dict("records")):
            where = [str(row["model"]), str(row["dataset"])] if place == 0 else ["", ""]
            texts = [*where, str(row["method"]), *(_n(row[name]) for name in PRINTED_METRICS)]
            ranks = [row[f"{name}_rank"] for name in PRINTED_METRICS]
            best = [False] * 3 + [not pd.isna(rank) and rank == 1 for rank in ranks]
            yield texts, best, row["name"] == REFERENCE


def _caption(layout: Layout, second_best: str) -> str:
    return f"{_MARKED.format(second_best)} {layout.caption}" if layout.has_ranks else layout.caption


def _mark(cell: Cell) -> str:
    return _MARKDOWN_MARKS.get(cell.rank or 0, "")


def _markdown_row(texts: list[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\`*_|<\[\]~])", r"\\\1", text).replace("\n", "<br>")


def _latex_cell(cell: Cell) -> str:
    command, text = _LATEX_COMMAND.get(cell.rank or 0), _latex_text(cell.text)
    return f"{command}{{{text}}}" if command else text


def _latex_header(header: str) -> str:
    lines = [_latex_text(line) for line in header.split("\n")]
    return lines[0] if len(lines) == 1 else rf"\shortstack[r]{{{r' \\ '.join(lines)}}}"


def _latex_text(text: str) -> str:
    printable = "".join(character if character.isprintable() else " " for character in text)
    escaped = "".join(_LATEX_TEXT.get(character, character) for character in " ".join(printable.split()))
    # Two hyphens are an en dash to LaTeX: those of the text are kept apart.
    return re.sub("-(?=-)", "-{}", escaped).replace("\N{EN DASH}", "--")


_COMPARED_NAMES = {"benefit": "benefit", "brier": "Brier score"}


def paper_layout(table: PrintedTable, rows: pd.DataFrame, runs: Sequence[EvaluatedRun], level: float) -> Layout:
    """Lay out what :func:`~analysis.paper.paper_tables.paper_table` found at an interval level, a section a run."""
    headers = [
        f"{name} {'↑' if more_is_better else '↓'}{detail and f'\n({detail})'}"
        for name, detail, more_is_better in PRINTED_METRICS.values()
    ]
    return Layout(
        name=f"direag-{table.number}",
        title=f"{table.subject.capitalize()}, as in the paper's Table {table.number}",
        headers=(table.column, *headers),
        sections=tuple(
            Section(
                _section_title(run),
                str(run.folder),
                tuple(_paper_rows(of_run, setting(run).is_printed, level)),
                tuple(_paper_notes(of_run, run)),
            )
            for run in runs
            for of_run in [rows[rows["run"] == str(run.folder)]]
        ),
        caption=(
            "↑ more is better, ↓ less. ECE: bins of equal width, closed on the right. Intervals: percentile bootstrap "
            "over questions, with fits and replies as they are."
        ),
    )


def differences_layout(
    differences: pd.DataFrame, runs: Sequence[EvaluatedRun], level: float, n_resamples: int = N_RESAMPLES
) -> Layout:
    """Lay out what :func:`~analysis.paper.paper_tables.method_differences` found so, a section a run."""
    names = [_COMPARED_NAMES[metric] for metric in COMPARED_METRICS]
    return Layout(
        name="direag-differences",
        title="DirEAG against each other method, question by question",
        headers=("method", "n", *(header for name in names for header in (name, "adjusted\np"))),
        sections=tuple(
            Section(
                _section_title(run),
                str(run.folder),
                tuple(_difference_rows(of_run, level)),
                tuple(what_differs(of_run, 1 - level).splitlines()),
            )
            for run in runs
            for of_run in [differences[differences["run"] == str(run.folder)]]
        ),
        caption=(
            "Differences are DirEAG less the other, on the n labelled questions. Benefit, accuracy less Brier score of "
            "the selected answers, says which is better: above 0, DirEAG. The Brier score is of each method's own "
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


def _section_title(run: EvaluatedRun) -> str:
    model, dataset, _ = setting(run)
    return f"{model}, {dataset}"


def _paper_rows(rows: pd.DataFrame, is_printed: bool, level: float) -> Iterator[Row]:
    for row in rows.to_dict("records"):
        metrics = list(PRINTED_METRICS)
        ranks = [None if pd.isna(row[f"{name}_rank"]) else int(row[f"{name}_rank"]) for name in metrics]
        values = [_n(row[name]) for name in metrics]
        yield Row(str(row["method"]), tuple(map(Cell, values, ranks)))
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
        what = "Benefit (accuracy less Brier score, 0 without an answer), which the paper does not have"
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
        return f"--{SAMPLED_METHODS[method]}"
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
