"""All pictures of an evaluation, each with the tables behind it, for files and reports."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.display.document import LeftOut, Picture
from analysis.display.glossary import BENEFIT
from analysis.display.reliability_figure import MOST_MARKED, reliability_figure
from analysis.display.style import (
    REFERENCE,
    RIGHT,
    WRONG,
    figure_style,
    forest,
    headed_figure,
    panel_grid,
    row_labels,
)
from analysis.display.text import interval, number
from analysis.evaluation import Evaluation
from analysis.learned import stated_confidences
from analysis.methods.direag import FITTED_METHODS, methods_of
from analysis.scores.null_state import NULL_GROUPS, NullState, base_rate_gains, null_state
from analysis.scores.reliability import reliability
from analysis.scores.scoring import Scored, scored_by_method, selection_table
from analysis.scores.selective import risk_coverage, selective_table
from bayes_direag.errors import DirEAGError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def evaluation_pictures(
    evaluation: Evaluation, method: str, *, seed: int, level: float = 0.95
) -> Iterator[Picture | LeftOut]:
    """Draw an evaluation: the reliability and the null state of one method, the other pictures of all methods.

    Parameters
    ----------
    evaluation
        The evaluation; the picture of stated confidences needs its observations or its fits.
    method
        The method of the pictures of one method.
    seed, level
        Seed and probability of the bootstrap intervals.

    Raises
    ------
    DirEAGError
        If the method was not evaluated, or has answered no labelled question.
    """
    predictions, reports = evaluation.predictions, evaluation.reports
    scores = scored_by_method(predictions)
    if method not in scores:
        raise DirEAGError(
            f"saw method {method!r}, not evaluated here; expected one of {', '.join(scores)}."
            f"{did_you_mean(method, list(scores))} Choose one of these."
        )
    if not scores[method].is_answered.any():
        raise DirEAGError(f"method {method} has answered no labelled question; expected some. Choose another method.")
    fitted = evaluation.settings.fit_method.upper()
    about = f"{evaluation.name}, {evaluation.design} ({fitted}): no question is predicted by a fit that has seen it."
    worth = selection_table(predictions, seed=seed, level=level)
    yield Picture("benefit", benefit_figure(worth, about, level), {"benefit": worth.assign(interval_level=level)})
    yield _reliability(scores, method, about, seed, level)
    gains = base_rate_gains(predictions, seed=seed, level=level)
    names = [f"{own['method']}  (acc {own['accuracy']:.2f})" for own in gains.to_dict("records")]
    figure = base_rate_figure(gains, names, f"{about} {_answered_note(gains)}", level)
    yield Picture("base_rate", figure, {"base_rate": gains.assign(interval_level=level)})
    yield _selective(predictions, scores, about, seed, level)
    yield _null_state(predictions, method, about, seed, level)
    if reports is None:
        yield LeftOut("stated_confidence", "the evaluated observations are not available; give them (--obs)")
    else:
        stated = stated_confidences(reports)
        of = f"{evaluation.name}, {len(reports.problem_id)} labelled questions."
        yield Picture("stated_confidence", stated_confidence_figure(stated, of), {"stated_confidence": stated})


def _null_state(predictions: pd.DataFrame, method: str, about: str, seed: int, level: float) -> Picture | LeftOut:
    rows = predictions[predictions["method"] == method]
    if rows["null_probability"].isna().all():
        return LeftOut("null_state", f"method {method} has no null state; {', '.join(FITTED_METHODS)} do")
    state = null_state(rows, seed=seed, level=level)
    tables = {"null_state": state.summary.assign(interval_level=level), "null_state_questions": state.questions}
    return Picture("null_state", null_state_figure(state, method, about), tables)


def _reliability(scores: dict[str, Scored], method: str, about: str, seed: int, level: float) -> Picture:
    fitted = FITTED_METHODS.get(method)
    stages = methods_of(fitted.variant) if fitted and fitted.column == "confidence" else {method: ""}
    shown = {name: scores[name].answered for name in stages if name in scores}
    results = {name: reliability(own.confidence, own.correct, rng=seed, level=level) for name, own in shown.items()}
    when = {"support": "before recalibration\n", "confidence": "after recalibration\n"} if len(shown) > 1 else {}
    bins = _stacked({name: own.bins for name, own in results.items()}).assign(interval_level=level)
    figure = reliability_figure({when.get(stages[name], "") + name: own for name, own in results.items()}, about)
    return Picture("reliability", figure, {"reliability": bins})


def _selective(predictions: pd.DataFrame, scores: dict[str, Scored], about: str, seed: int, level: float) -> Picture:
    curves = {name: risk_coverage(*scored.answered[:2]) for name, scored in scores.items()}
    summary = selective_table(predictions, seed=seed, level=level)
    tables = {"selective": summary.assign(interval_level=level), "selective_curves": _stacked(curves)}
    return Picture("risk_coverage", selective_figure(curves, summary, about, level), tables)


def _stacked(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Put the tables of several methods under each other, with the method in front."""
    return pd.concat(
        [table.assign(method=name)[["method", *table]] for name, table in tables.items()], ignore_index=True
    )


#: Of the two halves of a figure.
_HALVES = ((RIGHT, "o"), ("#009E73", "s"))
_GROUPS = ((RIGHT, None), ("#56B4E9", "////"), (WRONG, "...."))


def benefit_figure(worth: pd.DataFrame, about: str, interval_level: float) -> "Figure":
    """Draw benefit and accuracy of every method, in the order of the table."""
    caption = (
        f"{about} n = {worth['n'].max()} labelled questions. Benefit: {BENEFIT}. An unanswered question has no "
        "benefit, and counts as wrong. "
        f"Bars: {interval_level:.0%} bootstrap interval over questions; methods share their questions, so bars that "
        "overlap may still differ clearly."
    )
    panels = {"benefit": "benefit\n(more is better)", "accuracy_of_all": "accuracy\n(more is better)"}
    return _two_forests("What the answers are worth, by method", caption, worth, worth["method"].tolist(), panels)


def base_rate_figure(gains: pd.DataFrame, names: list[str], about: str, interval_level: float) -> "Figure":
    """Draw by how much each named row beats its base rate in Brier score and AUROC; a printed gain, where there is one.

    ``gains``: from :func:`~analysis.scores.null_state.base_rate_gains`, perhaps with ``NAME_printed``.
    """
    caption = (
        f"{about} Base rate: every question gets the method's own accuracy (acc) as its confidence; its Brier score is "
        f"acc (1 - acc), its AUROC 0.5. Bars: {interval_level:.0%} bootstrap interval over questions. Filled: all of "
        "it is above 0."
    )
    panels = {
        "brier_gain": "Brier score below the base rate's\n(right of 0 is better)",
        "auroc_gain": "AUROC above 0.5\n(right of 0 is better)",
    }
    figure = _two_forests("Gain over the base rate", caption, gains, names, panels, from_zero=True)
    for axes, name in zip(figure.axes, panels, strict=True):
        if f"{name}_printed" in gains:
            place = np.arange(len(gains))[::-1] - 0.3
            axes.scatter(gains[f"{name}_printed"], place, s=26, marker="D", color="white", edgecolor="0.2", zorder=3)
    return figure


def _two_forests(
    title: str,
    caption: str,
    table: pd.DataFrame,
    names: list[str],
    panels: dict[str, str],
    *,
    from_zero: bool = False,
) -> "Figure":
    """Draw two columns of a table side by side; ``from_zero``: on a line at 0, filled where all of a bar is above."""
    with figure_style():
        figure = headed_figure(title, caption, 0.9 + 0.27 * len(table))
        both = figure.subplots(1, 2, sharey=True)
        for axes, (name, label), (colour, marker) in zip(both, panels.items(), _HALVES, strict=True):
            filled = (table[f"{name}_low"] > 0).to_numpy() if from_zero else True
            if from_zero:
                axes.axvline(0, color="0.2", linewidth=1.2)
            forest(axes, table[[name, f"{name}_low", f"{name}_high"]], colour=colour, marker=marker, filled=filled)
            axes.margins(x=0.08)
            axes.set_xlabel(label)
        row_labels(both[0], names)
    return figure


def null_state_figure(state: NullState, method: str, about: str) -> "Figure":
    """Draw a method's null probabilities where a right answer was selected, was there, and was not."""
    level = f"{state.interval_level:.0%} interval"
    caption = (
        "Mean where no candidate is right, minus the mean where one is: "
        f"{_with_interval(state.quantity('difference'), signed=True)}. AUROC, the chance that a question without a "
        f"right candidate has the higher null probability: {_with_interval(state.quantity('AUROC'))}.\n"
        f"{about} Method {method}, n = {len(state.questions)}. Black line, grey band, brackets: mean and its {level}, "
        "by bootstrap over questions."
    )
    values = state.questions["null_probability"].to_numpy()
    upper = min(1.0, np.ceil(values.max(initial=0.05) * 20) / 20)
    edges = np.linspace(0, upper, 31)
    with figure_style():
        figure = headed_figure("Null probability: is it higher where no candidate is right?", caption, 4.2)
        rows = figure.subplots(3, 1, sharex=True)
        for axes, name, (colour, hatch) in zip(rows, NULL_GROUPS, _GROUPS, strict=True):
            _null_histogram(axes, state, name, edges, colour, hatch)
        rows[1].set_ylabel("share of the questions (%)")
        rows[-1].set_xlabel("null_probability: held-out probability that no candidate is right")
    return figure


def stated_confidence_figure(stated: pd.DataFrame, about: str) -> "Figure":
    """Draw by level which confidences were stated, and how many of the answers behind them were right."""
    names = stated["level"].unique().tolist()
    caption = (
        f"{about} Each level's own answer, right or wrong. Bars are 5 points wide and hold their upper edge: 95% is in "
        "90 to 95; the first also holds 0. n: usable reports."
    )
    n_columns = 3 if len(names) > 4 else 2
    with figure_style():
        figure = headed_figure(
            "Stated confidence by level, and whether that answer was right",
            caption,
            0.7 + 1.55 * -(-len(names) // n_columns),
        )
        by_level = {name: stated[stated["level"] == name] for name in names}
        titles = []
        for name, rows in by_level.items():
            right, n = int(rows["right"].sum()), int((rows["right"] + rows["wrong"]).sum())
            titles.append((name, f"n = {n}" + (f", {right / n:.0%} right" if n else "")))
        panels = panel_grid(figure, titles, n_columns, x_label="stated (%)", y_label="answers")
        for axes, rows in zip(panels, by_level.values(), strict=True):
            place = (rows["low"] + rows["high"]) / 2
            axes.bar(place, rows["right"], width=4.4, color=RIGHT, label="right")
            look: dict[str, Any] = {"color": "white", "edgecolor": WRONG, "hatch": "////", "linewidth": 0.6}
            axes.bar(place, rows["wrong"], width=4.4, bottom=rows["right"], label="wrong", **look)
        panels[0].set(xlim=(0, 100), xticks=[0, 50, 100])
        panels[0].legend(loc="upper left", handlelength=1.2, borderaxespad=0.1)
    return figure


def _null_histogram(
    axes: "Axes", state: NullState, name: str, edges: np.ndarray, colour: str, hatch: str | None
) -> None:
    probability = state.questions.loc[state.questions["group"] == name, "null_probability"].to_numpy()
    row = state.quantity(name)
    axes.set_title(f"{name}: n = {len(probability)}, mean {_with_interval(row)}", fontsize=10)
    if not len(probability):
        return
    share = 100 * np.histogram(probability, edges)[0] / len(probability)
    face = colour if hatch is None else "white"
    axes.bar(edges[:-1], share, np.diff(edges), align="edge", color=face, edgecolor=colour, hatch=hatch, linewidth=0.6)
    axes.axvspan(row["low"], row["high"], color=REFERENCE, alpha=0.45, linewidth=0)
    axes.axvline(row["value"], color="black", linewidth=1.5)


def _with_interval(row: pd.Series, *, signed: bool = False) -> str:
    if np.isnan(row["value"]):
        return "undefined"
    return f"{number(row['value'], signed=signed)} {interval(row['low'], row['high'], signed=signed)}"


def _answered_note(table: pd.DataFrame) -> str:
    """Say how many questions the methods have answered, and which left some out."""
    counts = table["n"].unique()
    if len(counts) == 1 and not table["unanswered"].any():
        return f"n = {counts[0]}."
    most = table["n"].max()
    fewer = table[table["n"] < most]
    left = ", ".join(f"{method} {n}" for method, n in zip(fewer["method"], fewer["n"], strict=True))
    return f"n = {most} answered questions" + (f", but {left}." if left else ".")


_NAMED_COLOURS = (RIGHT, WRONG, "#009E73")
#: Below this share answered a few questions decide, and nothing is drawn.
_LEAST_SHARE = 0.05


def selective_figure(
    curves: dict[str, pd.DataFrame], summary: pd.DataFrame, about: str, interval_level: float
) -> "Figure":
    """Draw errors against the share answered; DirEAG and the two other methods of least area are in colour."""
    defined = summary.dropna(subset=["aurc"])
    first = defined.assign(other=defined["method"] != "direag").sort_values(["other", "aurc"], kind="stable")
    shown = first.head(len(_NAMED_COLOURS)).sort_values("aurc")
    caption = (
        f"{about} Questions are taken in order of confidence; within a tie, every order counts alike. AURC: mean error "
        f"over all shares answered, less is better, with its {interval_level:.0%} bootstrap interval over questions; "
        "excess: above that of the best order of the same answers. Dots: where a threshold can stop, if there are few. "
        f"{'Grey: other methods. ' if len(defined) > len(shown) else ''}Below 5% a few questions decide, so nothing is "
        "drawn. n: answered, labelled questions."
    )
    with figure_style():
        figure = headed_figure("Errors among the surest questions", caption, 2.9)
        axes = figure.subplots()
        for method in defined["method"][~defined["method"].isin(shown["method"])]:
            axes.plot(100 * curves[method]["coverage"], 100 * curves[method]["risk"], color="0.82", linewidth=0.9)
        for colour, row in zip(_NAMED_COLOURS, shown.to_dict("records"), strict=False):
            curve = curves[row["method"]]
            stops = np.flatnonzero(curve["attainable"])
            axes.plot(
                100 * curve["coverage"],
                100 * curve["risk"],
                color=colour,
                linewidth=2,
                marker="o" if len(stops) <= MOST_MARKED else None,
                markersize=4,
                markevery=stops.tolist(),
                label=f"{row['method']}, n = {row['n']}: AURC {row['aurc']:.3f} "
                f"[{row['aurc_low']:.3f}, {row['aurc_high']:.3f}], excess {row['excess_aurc']:.3f}",
            )
        seen = pd.concat(curves.values())
        worst = seen.loc[seen["coverage"] >= 0.1, "risk"].max()
        reach = 100.0 if np.isnan(worst) else min(100.0, 110 * max(worst, 0.02))
        axes.set(xlim=(100 * _LEAST_SHARE, 100), ylim=(0, reach), xlabel="answered (%)", ylabel="errors (%)")
        if len(shown):
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize=9)
    return figure
