"""What the paper claims of its methods, counted over settings: as printed, and in one's own evaluations."""

import numpy as np
import pandas as pd

from analysis.display.document import Cell, Column, Paragraph, Section, Table
from analysis.display.text import UNDEFINED
from analysis.paper.paper_tables import (
    DECIMALS,
    PAIRS,
    PRINTED_METRICS,
    PRINTED_TABLES,
    as_printed,
    printed_method,
)

#: The metrics of the claims: who is right more often, and whose probabilities hold.
CLAIMED_METRICS = ("accuracy", "ece", "brier", "auroc")
PRINTED = "printed"
_CLAIM = ["method", "other", "metric", "source"]


def paper_claims(differences: pd.DataFrame) -> pd.DataFrame:
    """Count :func:`~analysis.paper.paper_tables.paper_differences` over settings, to the decimals of the paper.

    A row for each pair, metric and source: ``printed``, the paper's nine settings, or the preset of the runs. ``n``
    settings, and in how many the method is ``better`` than the other, ``equal`` and ``worse``; ``clearly_better`` and
    ``clearly_worse``, where all of the interval is on that side.
    """
    own = differences[differences["metric"].isin(CLAIMED_METRICS)].rename(columns={"preset": "source"})
    table = pd.concat([_printed(), own], ignore_index=True)
    sign = np.where([PRINTED_METRICS[metric][2] for metric in table["metric"]], 1, -1)
    first, second = (table[side].map(as_printed) for side in ("first", "second"))
    gain = (second - first).round(DECIMALS) * sign
    low, high = np.sort(sign * table[["low", "high"]].to_numpy(float).T, axis=0)
    counts = table[_CLAIM].assign(
        n=gain.notna(), better=gain > 0, equal=gain == 0, worse=gain < 0, clearly_better=low > 0, clearly_worse=high < 0
    )
    return counts.groupby(_CLAIM, sort=False).sum().reset_index()


def _printed() -> pd.DataFrame:
    """Return the printed figures of each pair as ``second`` and ``first``, without intervals."""
    figures: dict[str, pd.DataFrame] = {}
    for table in PRINTED_TABLES:
        for name, method in table.rows.items():
            figures.setdefault(method, pd.DataFrame(table.figures().xs(name, level=table.column)))
    parts = []
    for method, other in PAIRS:
        names = {"method": printed_method(method), "other": printed_method(other), "source": PRINTED}
        for metric in CLAIMED_METRICS:
            sides = pd.DataFrame({"first": figures[other][metric], "second": figures[method][metric]})
            parts.append(sides.assign(metric=metric, low=np.nan, high=np.nan, **names))
    return pd.concat(parts, ignore_index=True)


def claims_section(claims: pd.DataFrame, level: float) -> Section:
    """Show :func:`paper_claims`: a row a pair, with the counts of each source below each other."""
    rows = []
    for (method, other), of_pair in claims.groupby(["method", "other"], sort=False):
        counts = of_pair.set_index(["source", "metric"])
        sources = of_pair["source"].unique()
        cells = (
            Cell("", "\n".join(_counted(counts.loc[source, metric], source) for source in sources))
            for metric in CLAIMED_METRICS
        )
        rows.append((Cell(f"{method} against {other}", "\n".join(f"  {source}" for source in sources)), *cells))
    headers = (f"{PRINTED_METRICS[name][0]} {'↑' if PRINTED_METRICS[name][2] else '↓'}" for name in CLAIMED_METRICS)
    columns = (Column("", holds="name"), *map(Column, headers))
    note = (
        "Settings in which the first is better-equal-worse, to four decimals; in brackets those in which all of the "
        f"{round(100 * level, 6):g}% interval of the difference is on the better, and on the worse side. printed: the "
        "paper's nine settings, without intervals; below it these runs, by preset. Only accuracy sees which answers "
        "are selected."
    )
    title = "What the paper claims, counted over settings"
    return Section(
        "direag-claims", title, (Table("", columns, tuple(rows), source="claims.csv"), Paragraph(note, "note"))
    )


def _counted(counts: pd.Series, source: str) -> str:
    if not counts["n"]:
        return UNDEFINED
    text = f"{counts['better']}-{counts['equal']}-{counts['worse']}"
    return text if source == PRINTED else f"{text} ({counts['clearly_better']}-{counts['clearly_worse']})"
