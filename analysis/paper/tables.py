"""The paper's Tables 1 and 2: the printed figures, and beside them those of one's own evaluations."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from analysis.display.text import UNDEFINED
from analysis.evaluation import Evaluation
from analysis.paper.printed import (
    DECIMALS,
    METHODS_TABLE,
    PRINTED_METRICS,
    PrintedTable,
    printed_dataset,
    printed_model,
    printed_sizes,
)
from analysis.scores.scoring import SELECTION_SCORES
from bayes_direag.errors import DirEAGError
from bayes_direag.model.presets import label

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

#: Where a row of a table is from, if not from a run, whose preset stands there.
PRINTED = "printed"
#: The preset that the printed figures are of.
PRINTED_PRESET = "release"
#: The method of the paper, whose rows are bold, by its printed names.
OWN = ("DirEAG", "Full DirEAG")

_KEYS = ["model", "dataset", "method", "source"]
_UNDERLINE, _BOLD = "text-decoration:underline;underline:--rwrap--latex;", "font-weight:bold;"


class Setting(NamedTuple):
    """Model and dataset of a run, under the paper's names if it has them."""

    model: str
    dataset: str


def setting(run: Evaluation) -> Setting:
    """Return where in the paper's tables a run belongs."""
    model = printed_model(run.of.models[0]) if len(run.of.models) == 1 else None
    dataset = printed_dataset(run.of.datasets[0]) if len(run.of.datasets) == 1 else None
    return Setting(
        model or ", ".join(run.of.models) or "unnamed model", dataset or ", ".join(run.of.datasets) or "unnamed dataset"
    )


def in_printed_order(runs: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the runs in the paper's order of models and datasets, others at the end; ``release`` is the first preset.

    Raises DirEAGError if two runs have the same model, dataset and preset.
    """
    cells = list(dict.fromkeys(row[:2] for row in METHODS_TABLE.figures().index))
    seen: dict[tuple[Setting, str], Evaluation] = {}
    for run in runs:
        where, preset = setting(run), label(run.settings.preset)
        other = seen.setdefault((where, preset), run)
        if other is not run:
            raise DirEAGError(
                f"{run.folder}: saw {', '.join(where)}, {preset}, as in {other.folder}; expected one evaluation "
                "of each. Move one of the two away."
            )

    def place(run: Evaluation) -> tuple[int, Setting, bool]:
        where = setting(run)
        return cells.index(where) if where in cells else len(cells), where, label(run.settings.preset) != PRINTED_PRESET

    return sorted(runs, key=place)


def paper_table(table: PrintedTable, runs: Sequence[Evaluation]) -> pd.DataFrame:
    """Return one of the paper's tables: for each setting and method the printed row, and one of each run.

    Columns are ``model``, ``dataset``, ``method`` as printed, ``source`` (``printed``, or the preset of a run), the
    folder of the ``run``, the numbers ``n`` of answered questions and of ``unanswered`` ones, and the metrics. Those of
    runs have intervals, ``_low`` and ``_high``, and benefit. NaN where there is none.
    """
    order, sizes = {name: position for position, name in enumerate(table.rows)}, printed_sizes()
    measured = [*PRINTED_METRICS, *SELECTION_SCORES]
    columns = ["n", "unanswered", *(f"{name}{end}" for name in measured for end in ("", "_low", "_high"))]
    blocks = []
    for where, own in groupby(runs, setting):
        figures = table.figures().query("model == @where.model and dataset == @where.dataset")
        rows = [figures.reset_index().rename(columns={table.column: "method"}).assign(source=PRINTED)]
        rows[0]["n"] = sizes.get(where.dataset)
        for run in own:
            metrics = run.metrics.set_index("method")
            shown = {printed: name for printed, name in table.rows.items() if name in metrics.index}
            values = metrics.loc[list(shown.values()), columns].assign(
                source=label(run.settings.preset), run=str(run.folder)
            )
            rows.append(values.assign(**where._asdict(), method=list(shown)))
        block = pd.concat([part for part in rows if len(part)], ignore_index=True)
        blocks.append(block.sort_values("method", key=lambda names: names.map(order), kind="stable"))
    whole = pd.concat(blocks, ignore_index=True).reindex(columns=[*_KEYS, "run", *columns])
    return whole.astype(dict.fromkeys(("n", "unanswered"), "Int64"))


def styled(rows: pd.DataFrame, caption: str, *, latex: bool = False) -> "Styler":
    """Show a table as printed: its own method bold, and the best of each setting and source underlined.

    Figures that are equal as printed are equally good. A missing one is a dash.
    """
    up, down = ("$\\uparrow$", "$\\downarrow$") if latex else ("↑", "↓")
    headers = {name: f"{short} {up if more else down}" for name, (short, more) in PRINTED_METRICS.items()}
    figures = rows.set_index(_KEYS)[list(headers)].astype(float)
    sign = [1 if more else -1 for _, more in PRINTED_METRICS.values()]
    signed = figures.map(as_printed) * sign
    is_best = signed == signed.groupby(["model", "dataset", "source"]).transform("max")
    is_own = rows["method"].isin(OWN).to_numpy()
    marks = np.where(is_best, _UNDERLINE, "") + np.where(is_own, _BOLD, "")[:, None].astype(object)
    shown = figures.assign(n=rows["n"].to_numpy()).rename(columns=headers)[["n", *headers.values()]]
    escape = "latex" if latex else "html"
    return (
        shown.style.apply(lambda _: marks, axis=None, subset=list(headers.values()))
        .format(precision=DECIMALS, na_rep="--" if latex else UNDEFINED)
        .format_index(escape=escape, axis="index")
        .set_caption(caption)
    )


def as_printed(value: float) -> float:
    """Round to the decimals that the paper prints, exactly as formatting does; NaN stays NaN.

    Examples
    --------
    >>> as_printed(0.66875), round(0.66875, 4), f"{0.66875:.4f}"
    (0.6687, 0.6687, '0.6687')
    """
    return float(f"{value:.{DECIMALS}f}")
