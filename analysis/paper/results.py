"""The paper's tables and its Figures 2 and 3 from one's own evaluations, in one folder."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.display.document import Picture
from analysis.display.style import RIGHT, WRONG, figure_style, forest, headed_figure, row_labels, save_figure
from analysis.display.text import UNDEFINED
from analysis.evaluation import DIREAG, Evaluation
from analysis.paper.tables import (
    PRINTED_METRICS,
    PRINTED_TABLES,
    in_printed_order,
    paper_table,
    printed_figures,
    setting,
    typeset,
)
from analysis.scores.metrics import evaluate_metrics
from analysis.scores.scoring import interval_columns, scored_rows
from bayes_direag.data.atomic import atomic_path
from bayes_direag.data.files import write_table
from bayes_direag.model.presets import label

#: Probability of the intervals of the figures, and number of resamples behind them.
LEVEL, RESAMPLES = 0.95, 1000
#: The method of Figure 3: the support of the null is that before the final calibration.
SUPPORT_METHOD = "direag_raw"
_MARKS = "Bold: the paper's method. Underlined: the best printed, and the best here, of each setting."


def write_results(folders: Sequence[Path], target: Path, prompts: str, seed: int) -> str:
    """Write both tables (.csv, .html, .tex) and both figures (.png, .csv); return the tables for a terminal.

    ``folders`` are written by ``direag evaluate``; ``target`` is made if need be, and earlier results there are
    replaced; ``prompts`` says what was asked, as a sentence; ``seed`` is that of the intervals of the figures, while
    those of the tables are the evaluations' own. Raises DirEAGError if a folder is none of an evaluation.
    """
    runs = in_printed_order([Evaluation.read(folder) for folder in folders])
    target.mkdir(exist_ok=True)
    shown = []
    for name, table in PRINTED_TABLES.items():
        rows, title = paper_table(name, runs), f"{table}. {prompts}"
        write_table(rows, target / f"{name}.csv")
        for end, as_html in (("html", True), ("tex", False)):
            with atomic_path(target / f"{name}.{end}") as partial:
                partial.write_text(typeset(rows, f"{title} {_MARKS}", as_html=as_html), encoding="utf-8")
        shown += [title, *_blocks(rows)]
    for picture in filter(None, (base_rates(runs, seed), null_means(runs, seed))):
        write_table(picture.tables[picture.name], target / f"{picture.name}.csv")
        save_figure(picture.figure, target / f"{picture.name}.png")
    return "\n\n".join(shown)


def _blocks(rows: pd.DataFrame) -> list[str]:
    headers = {"n": "n"} | {name: short for name, (short, _) in PRINTED_METRICS.items()}
    shown = rows.set_index(["model", "dataset", "method", "source"])[list(headers)].rename(columns=headers)
    return [
        f"{model}, {dataset}\n{part.droplevel([0, 1]).to_string(float_format='{:.4f}'.format, na_rep=UNDEFINED)}"
        for (model, dataset), part in shown.groupby(["model", "dataset"], sort=False)
    ]


def base_rates(runs: Sequence[Evaluation], seed: int) -> Picture | None:
    """Draw Figure 2: by how much DirEAG beats the constant confidence that equals its accuracy; None without runs."""
    printed = printed_figures("table1").xs("DirEAG", level="method")
    rows = []
    for where, predictions in _of_method(runs, DIREAG):
        cell = printed.reindex([(where["model"], where["dataset"])]).iloc[0]
        constant = cell["accuracy"] * (1 - cell["accuracy"])
        both = {"brier_gain_printed": constant - cell["brier"], "auroc_gain_printed": cell["auroc"] - 0.5}
        rows.append({**where, **_over_base_rate(predictions, seed), **both})
    caption = (
        "By how much the Brier score of DirEAG is below, and its AUROC above, that of its own accuracy as the "
        f"confidence of every question. Bars: {LEVEL:.0%} bootstrap interval over questions. Diamonds: what follows "
        "from the paper's Table 1."
    )
    panels = {
        shown: {name: ("these runs", RIGHT, "o"), f"{name}_printed": ("printed", WRONG, "D")}
        for name, shown in (("brier_gain", "gain in Brier score"), ("auroc_gain", "gain in AUROC"))
    }
    return _picture("figure2", "Gain over the base rate, as in the paper's Figure 2", caption, panels, rows)


def _over_base_rate(predictions: pd.DataFrame, seed: int) -> dict[str, object]:
    """Return by how much a method beats the constant confidence p that equals its accuracy, with intervals.

    The constant has a Brier score of p(1 - p), and an AUROC of one half. Each resample has a p of its own.
    """
    scored = scored_rows(predictions)
    answered = scored.answered
    weight = answered.whole_and_resampled(RESAMPLES, seed)
    metrics = evaluate_metrics(answered.confidence, answered.correct, weight, ("accuracy", "brier", "auroc"))
    share, error, area = metrics.values()
    row: dict[str, object] = {"n": len(answered.correct), "unanswered": scored.n_unanswered, "accuracy": share[0]}
    row |= {"brier": error[0], "base_rate_brier": share[0] * (1 - share[0]), "auroc": area[0]}
    for name, gain in (("brier_gain", share * (1 - share) - error), ("auroc_gain", area - 0.5)):
        row |= interval_columns(name, gain[0], gain[1:], LEVEL)
    return row | {"auroc_undefined": int(np.isnan(area[1:]).sum())}


def null_means(runs: Sequence[Evaluation], seed: int) -> Picture | None:
    """Draw Figure 3: the mean support of the null where the answer is right, and where no candidate is."""
    rows = [{**where, **_null_support(predictions, seed)} for where, predictions in _of_method(runs, SUPPORT_METHOD)]
    caption = (
        "Mean held-out support of the null, before the final calibration: of questions whose selected answer is right, "
        f"and of those to which no level gave a right answer. Bars: {LEVEL:.0%} bootstrap interval over questions; "
        "without a square there is no such question. The paper draws the same, but prints no figures of it."
    )
    series = {"correct": ("selected answer right", RIGHT, "o"), "absent": ("no candidate right", WRONG, "s")}
    panels = {"mean support of the null": series}
    return _picture("figure3", "Support of the null, as in the paper's Figure 3", caption, panels, rows)


def _null_support(predictions: pd.DataFrame, seed: int) -> dict[str, object]:
    """Return the mean null probability by group, and the difference of the means, with intervals.

    No candidate is right if the answer is wrong and the observed state as probable as the null. This is not known, and
    the question is left out, without a label, an answer or a distribution, or if a wrong answer's null has probability
    0.
    """
    right, null, state = (predictions[name] for name in ("correct", "null_probability", "state_probability"))
    rows = predictions[right.notna() & null.notna() & state.notna() & (right | (null > 0))]
    correct, probability = rows["correct"].to_numpy(bool), rows["null_probability"].to_numpy(float)
    absent = ~correct & (rows["state_probability"].to_numpy(float) == probability)
    weight = scored_rows(rows).whole_and_resampled(RESAMPLES, seed)
    with np.errstate(invalid="ignore"):  # 0/0: no such question in the resample
        of_correct, of_absent = (
            weight[:, group] @ probability[group] / weight[:, group].sum(axis=1) for group in (correct, absent)
        )
    means = {"correct": of_correct, "absent": of_absent, "difference": of_absent - of_correct}
    row: dict[str, object] = {"n_correct": correct.sum(), "n_absent": absent.sum(), "n_difference": len(rows)}
    for name, mean in means.items():
        row |= interval_columns(name, mean[0], mean[1:], LEVEL)
    return row


def _of_method(runs: Sequence[Evaluation], method: str) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    for run in runs:
        predictions = run.predictions[run.predictions["method"] == method]
        if len(predictions):
            model, dataset = setting(run)
            where = {"run": str(run.folder), "model": model, "dataset": dataset, "preset": label(run.settings.preset)}
            yield where, predictions


def _picture(
    name: str,
    title: str,
    caption: str,
    panels: Mapping[str, Mapping[str, tuple[str, str, str]]],
    rows: Sequence[Mapping[str, object]],
) -> Picture | None:
    """Draw panels with a row for each run, each column with its name, colour and marker; nothing without runs."""
    if not rows:
        return None
    table = pd.DataFrame(rows)
    names = table[["model", "dataset", "preset"]].agg(", ".join, axis="columns")
    with figure_style():
        figure = headed_figure(title, caption, 1.0 + 0.42 * len(names))
        every = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, (label_of, series) in zip(every, panels.items(), strict=True):
            for column, (shown, colour, marker) in series.items():
                ends = [f"{column}_low", f"{column}_high"]
                forest(axes, table.reindex(columns=[column, *ends]), colour=colour, marker=marker)
                axes.plot([], [], color=colour, marker=marker, linestyle="", label=shown)
            axes.set_xlabel(label_of)
        row_labels(every[0], names.tolist())
        every[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=9)
    return Picture(name, figure, {name: table})
