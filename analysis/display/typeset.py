"""Tables of a document as Markdown, and as LaTeX that needs the package booktabs and nothing else."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from analysis.display.document import Column, Line, Paragraph, Section, Table

_MARKDOWN: Mapping[str, str] = {"best": "**{}**", "second": "<ins>{}</ins>"}
_LATEX: Mapping[str, str] = {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}"}

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


def to_markdown(section: Section) -> str:
    """Return a section as Markdown; the second best is what HTML calls inserted, which GitHub underlines."""
    lines = [f"## {_markdown_text(section.title)}"]
    for block in section.blocks:
        if isinstance(block, Paragraph):
            lines += ["", _markdown_text(block.text)]
        elif isinstance(block, Table):
            lines += ["", f"### {_markdown_text(block.caption)}"] if block.caption else []
            rule = ("---:" if column.holds == "number" else "---" for column in block.columns)
            lines += ["", _markdown_row(_markdown_text(column.header) for column in block.columns), _markdown_row(rule)]
            for line in block.lines():
                lines.append(_markdown_row(_marked(line, _markdown_text, _MARKDOWN)))
            for note in block.note.splitlines():
                lines += ["", _markdown_text(note)]
    return "\n".join([*lines, ""])


def to_latex(section: Section) -> str:
    """Return each table of a section as a LaTeX ``table``, with the section's paragraphs below it."""
    tables = [block for block in section.blocks if isinstance(block, Table)]
    below = [block.text for block in section.blocks if isinstance(block, Paragraph)]
    return "\n".join(_latex_table(section, number, table, below) for number, table in enumerate(tables, 1))


def _latex_table(section: Section, number: int, table: Table, below: Sequence[str]) -> str:
    return rf"""% From {" ".join(table.source.split())}. Needs \usepackage{{booktabs}}.
\begin{{table}}
\centering\small
\setlength{{\tabcolsep}}{{3pt}}
\caption{{{_latex_text(f"{section.title}: {table.caption}")}}}
\label{{tab:{section.name}-{number}}}
\begin{{tabular}}{{{_alignment(table)}}}
\toprule
{" & ".join(map(_latex_header, table.columns))} \\
\midrule
{_latex_rows(table)}
\bottomrule
\end{{tabular}}
\par\smallskip
\begin{{minipage}}{{\linewidth}}\footnotesize
{_latex_text(" ".join((table.note, *below)))}
\end{{minipage}}
\end{{table}}
"""


def _latex_rows(table: Table) -> str:
    """Return the rows, with space above those that have a name."""
    lines: list[str] = []
    for line in table.lines():
        texts: Iterable[str] = _marked(line, _latex_text, _LATEX)
        if line.is_detail:
            texts = (text and rf"{{\scriptsize {text}}}" for text in texts)
        elif lines and line.cells[0].text:
            lines.append(r"\addlinespace")
        lines.append(rf"{' & '.join(texts)} \\")
    return "\n".join(lines)


def _marked(line: Line, escaped: Callable[[str], str], by_mark: Mapping[str, str]) -> list[str]:
    """Return the escaped texts of a line with their marks."""
    texts = []
    for cell in line.cells:
        text = escaped(cell.text)
        for mark in reversed(cell.marks):
            text = by_mark[mark].format(text)
        texts.append(text)
    return texts


def _alignment(table: Table) -> str:
    return "".join("r" if column.holds == "number" else "l" for column in table.columns)


def _markdown_row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\`*_|<\[\]~])", r"\\\1", text).replace("\n", "<br>")


def _latex_header(column: Column) -> str:
    lines = [_latex_text(line) for line in column.header.split("\n")]
    return lines[0] if len(lines) == 1 else rf"\shortstack[r]{{{r' \\ '.join(lines)}}}"


def _latex_text(text: str) -> str:
    printable = "".join(character if character.isprintable() else " " for character in text)
    escaped = "".join(_LATEX_TEXT.get(character, character) for character in " ".join(printable.split()))
    # Two hyphens are an en dash to LaTeX: those of the text are kept apart.
    return re.sub("-(?=-)", "-{}", escaped).replace("\N{EN DASH}", "--")
