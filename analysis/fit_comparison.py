"""A point estimate and a posterior side by side: their parameters, and their predictions of questions left out."""

from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.display.document import Cell, Column, Record, Table
from analysis.display.style import REFERENCE, RIGHT, WRONG, forest, row_labels, without_formulas
from analysis.display.text import interval, listed, number, percent, shortened
from analysis.scores.scoring import cluster_column
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import cross_fit
from bayes_direag.fits.parameters import tidy_draws
from bayes_direag.inference.posterior import sampled_parameters
from bayes_direag.inference.psis import smoothed_weights
from bayes_direag.model.selection import States, evaluate_samples

type Show = Callable[[Record], Cell | str]

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Posterior probability of all intervals, and how many standard deviations of a normal posterior it spans.
INTERVAL_LEVEL, _SPAN = 0.9, 3.29
_FOLDS = 5
#: What a reader asks of first, in this order.
_FIRST = ("share", "slope", "bias", "sharpness")
_COLOURS = {"blue": RIGHT, "green": "#009E73", "purple": "#CC79A7"}
_POOLED = ("_centre", "_spread", "_agreement")


def check_comparable(fits: Mapping[str, Fit], *, same_questions: bool) -> None:
    """Raise DirEAGError unless a question counts the same in all fits and, if they must be, these are to the same."""
    first_name, first = next(iter(fits.items()))
    for name, fit in fits.items():
        if same_questions and fit.fingerprint != first.fingerprint:
            raise DirEAGError(
                f"{first_name} and {name} were fitted to different observations (SHA-256 {first.fingerprint[:8]}… and "
                f"{fit.fingerprint[:8]}…); expected the same. Fit them to one file, or give questions to predict "
                "(--obs)."
            )
        if fit.partial != first.partial or (fit.partial and fit.method != first.method):
            raise DirEAGError(
                f"{first_name} is a {_kind(first)} fit and {name} a {_kind(fit)} one: a question does not count the "
                "same in both, since its copies count a quarter each under MAP and an eighth under NUTS; expected fits "
                "that learn alike. Fit both without --partial."
            )


def _kind(fit: Fit) -> str:
    return f"{'partial' if fit.partial else 'whole'} {fit.method.upper()}"


def compared_parameters(fits: Mapping[str, Fit]) -> pd.DataFrame:
    """Return the parameters of fits under each other, those that labels identify first.

    ``parameter``, ``level`` (missing without one), ``identified``, ``model``; ``value``, the mode of a MAP or the
    median of draws; ``low``, ``high``, the 90 % interval of draws. Where a MAP is among the fits: ``below``, the share
    of draws below it (ties count half), and ``shift``, from the median to it in posterior standard deviations, taken as
    the interval's width over 3.29, since a long tail has no useful standard deviation.
    """
    point = next((fit for fit in fits.values() if fit.n_samples == 1), None)
    draws = {
        name: {known: tidy_draws(fit.tree, identified=known) for known in (True, False)} for name, fit in fits.items()
    }
    tables = []
    for name, fit in fits.items():
        for known, table in draws[name].items():
            ends = table.quantile([0.5, (1 - INTERVAL_LEVEL) / 2, (1 + INTERVAL_LEVEL) / 2]).to_numpy()
            rows = table.columns.to_frame(index=False).assign(identified=known, model=name, value=ends[0])
            rows = rows.assign(low=np.nan, high=np.nan, below=np.nan, shift=np.nan)
            if fit.n_samples > 1:
                rows = rows.assign(low=ends[1], high=ends[2])
                if point is not None:
                    at = tidy_draws(point.tree, identified=known).iloc[0].reindex(table.columns).to_numpy(float)
                    below = (table < at).mean() + (table == at).mean() / 2
                    rows["below"] = below.where(~np.isnan(at)).to_numpy()
                    rows["shift"] = (at - ends[0]) / ((ends[2] - ends[1]) / _SPAN)
            tables.append(rows)
    found = pd.concat(tables, ignore_index=True)
    order = {name: place for place, name in enumerate(dict.fromkeys([*_FIRST, *found["parameter"]]))}
    levels = {name: place for place, name in enumerate(found["level"].dropna().unique())}
    keys = {"_known": ~found["identified"].astype(bool), "_name": found["parameter"].map(order)}
    keys |= {"_level": found["level"].map(levels).fillna(-1)}
    return found.assign(**keys).sort_values([*keys], kind="stable").drop(columns=[*keys]).reset_index(drop=True)


def out_of_sample(fit: Fit) -> pd.DataFrame:
    """Return what a fit predicts of each of its questions without that question's label, by ``problem_id``.

    A MAP is fitted again to five folds, each question predicted by the fit that has not seen it. NUTS draws are
    reweighted (leave-one-out), and ``low`` and ``high`` are the interval of the reweighted draws. Answers are numbered
    in the order of the levels.
    """
    questions = fit.fitted
    columns: dict[str, object] = {"cluster": cluster_column(questions), "fitted": False}
    if fit.method == "nuts":
        left_out = fit.left_out
        chosen, confidence = left_out["candidate"].to_numpy(), left_out["confidence"].to_numpy()
        low, high = left_out_interval(fit)
        columns |= {"answer": chosen, "confidence": confidence, "low": low, "high": high}
        columns |= {"correct": left_out["correct"].to_numpy()}
    else:
        settings: dict[str, Any] = {"preset": fit.preset, "variant": fit.variant, "partial": fit.partial}
        answer, confidence = np.full(len(questions), -1), np.full(len(questions), np.nan)
        for held_out in cross_fit(questions, n_folds=_FOLDS, seed=int(fit.tree.attrs["seed"]), **settings):
            part = questions.select(held_out.index)
            selected = held_out.predictions["answer"]
            answer[held_out.index] = [one.index(own) for one, own in zip(part.candidates, selected, strict=True)]
            confidence[held_out.index] = held_out.predictions["confidence"]
        columns |= {"answer": answer, "confidence": confidence, "low": np.nan, "high": np.nan}
        columns |= {"correct": questions.right_state[np.arange(len(questions)), answer]}
    index = pd.Index(questions.problem_id, dtype="str", name="problem_id")
    table = pd.DataFrame(columns, index=range(len(questions))).set_axis(index)
    named = [f"no. {number_of + 1}" for number_of in table["answer"]]  # a fit does not hold the text of answers
    return table.assign(answer=named, correct=table["correct"].astype("boolean"), state_probability=np.nan)


def common_questions(frames: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Keep the questions that all frames have, in the order of the first: a fit may set some apart."""
    first, *others = frames.values()
    kept = [name for name in first.index if all(name in other.index for other in others)]
    return {name: frame.loc[kept] for name, frame in frames.items()}


def left_out_interval(fit: Fit) -> Float[np.ndarray, "2 problem"]:
    """Return the ends of the interval of each selected answer's final probability, its own label left out."""
    questions, chosen = fit.fitted, fit.left_out["candidate"].to_numpy()
    density = fit.tree["log_likelihood"]["target"].transpose("chain", "draw", ...).to_numpy()
    density = density.reshape(-1, len(questions))
    tails = np.array([(1 - INTERVAL_LEVEL) / 2, (1 + INTERVAL_LEVEL) / 2])

    def ends(states: States) -> Float[np.ndarray, "2 problem"]:
        place = np.arange(states.place.start, min(states.place.stop, len(questions)))
        support = states.support[chosen[place], np.arange(len(place))].T
        final = fit.recalibration.of_selected(support, states.n_reports)
        log_weight, _ = smoothed_weights(np.ascontiguousarray(density[:, place].T), 1.0)
        order = final.argsort(axis=0)
        reached = np.take_along_axis(np.exp(log_weight).T, order, axis=0).cumsum(axis=0)
        rank = [(reached < tail * reached[-1]).sum(axis=0) for tail in tails]
        ranked = np.take_along_axis(final, order, axis=0)
        return np.stack([ranked[np.minimum(one, len(ranked) - 1), np.arange(len(place))] for one in rank])

    found = evaluate_samples(fit.reports(questions), sampled_parameters(fit.tree, questions.slots), ends)
    return np.concatenate([*found], axis=1)


def parameters_in_words(table: pd.DataFrame) -> Iterator[str]:
    """Say where the mode of a MAP lies in each posterior."""
    known = table[table["identified"].astype(bool) & table["shift"].notna()]
    for name, rows in known.groupby("model", sort=False):
        far = rows.iloc[int(rows["shift"].abs().to_numpy().argmax())].to_dict()
        outside = int((~rows["below"].between((1 - INTERVAL_LEVEL) / 2, (1 + INTERVAL_LEVEL) / 2)).sum())
        of = far["parameter"] if pd.isna(far["level"]) else f"{far['parameter']} of {far['level']}"
        yield (
            f"Of {len(rows)} parameters that labels identify, {outside} have their mode outside the "
            f"{INTERVAL_LEVEL:.0%} interval of {name}; farthest from the median is that of {of}, by "
            f"{number(far['shift'], 1, signed=True)} posterior standard deviations."
        )


def parameter_tables(table: pd.DataFrame) -> Iterator[Table]:
    """Yield the parameters that labels identify, and those that they do not, with a column for each fit."""
    names = table["model"].unique().tolist()
    point = table["shift"].notna().any()
    note = "share: of the weight of all levels. relative: in units of that weight."
    if point:
        note += (
            " draws below: how much of the posterior lies below the mode. shift: from the median to the mode, in "
            "posterior standard deviations."
        )
    scale = "Only their ratios change predictions: the prior alone sets their common scale."
    for known, title in ((True, "Parameters that labels identify"), (False, "And those that they do not")):
        rows: dict[tuple[str, str], dict[str, object]] = {}
        for one in table[table["identified"] == known].to_dict("records"):
            level = one["level"] if isinstance(one["level"], str) else ""
            name = f"{one['parameter']}, {shortened(level, 22)}" if level else one["parameter"]
            row = rows.setdefault((one["parameter"], level), {"name": name})
            row |= {f"{one['model']} {end}": one[end] for end in ("value", "low", "high")}
            if not np.isnan(one["below"]):
                row |= {"below": one["below"], "shift": one["shift"]}
        columns: dict[Column, Show] = {Column("parameter", holds="name"): lambda row: row["name"]}
        for name in names:
            columns |= _columns_of(name, is_point=bool(table.loc[table["model"] == name, "low"].isna().all()))
        if point:
            columns[Column("draws\nbelow")] = lambda row: percent(row["below"], 0) if "below" in row else ""
            columns[Column("shift")] = lambda row: number(row["shift"], 1, signed=True) if "shift" in row else ""
        yield Table.of(title, rows.values(), columns, note if known else scale, "parameters.csv")


def _columns_of(name: str, *, is_point: bool) -> dict[Column, Show]:
    short = shortened(name, 12)

    def value(row: Record) -> str:
        return number(row.get(f"{name} value", np.nan), 2)

    if is_point:
        return {Column(f"{short}\nmode"): value}
    return {
        Column(f"{short}\nmedian"): value,
        Column(f"{INTERVAL_LEVEL:.0%}\ninterval"): lambda row: interval(
            row.get(f"{name} low", np.nan), row.get(f"{name} high", np.nan), 2
        ),
    }


def draw_parameters(figure: "Figure", table: pd.DataFrame) -> None:
    """Draw what labels identify as a forest, a panel for each parameter: those of levels left, the others right.

    What pooled levels share (centre, spread, agreement) is left to the table.
    """
    known = table[table["identified"].astype(bool) & ~table["parameter"].str.endswith(_POOLED)]
    panels = [part for _, part in known.groupby("parameter", sort=False)]
    sides = (
        [part for part in panels if part["level"].notna().all()],
        [part for part in panels if part["level"].isna().all()],
    )
    grid = figure.add_gridspec(1, 2)
    for side, parts in enumerate(sides):
        if parts:
            rows = [part["level"].nunique() or 1 for part in parts]
            cells = grid[side].subgridspec(len(parts), 1, height_ratios=[n + (0.8 if side == 0 else 0) for n in rows])
            for place, (part, n) in enumerate(zip(parts, rows, strict=True)):
                axes = figure.add_subplot(cells[place, 0])
                labels = [shortened(str(level), 18) for level in part["level"].unique()] if side == 0 else [""] * n
                _draw_forest(axes, part, labels)
                axes.set_title(part["parameter"].iloc[0].replace("_", " "), loc="left", fontsize=10)


def forest_caption(table: pd.DataFrame) -> str:
    """Say what stands for which fit."""
    is_point = table.groupby("model", sort=False)["low"].apply(lambda low: low.isna().all())
    points, draws = ([str(name) for name in is_point.index[rows]] for rows in (is_point, ~is_point))
    said = [f"Orange diamonds: {listed(points)}, the mode."] if points else []
    said += [
        f"{colour.capitalize()} dots and lines: {name}, median and {INTERVAL_LEVEL:.0%} interval."
        for name, colour in zip(draws, _COLOURS, strict=False)
    ]
    return " ".join([*said, "Each panel has its own scale; what pooled levels share is in the table."])


def height_of_forest(table: pd.DataFrame) -> float:
    """Return the height in inches that :func:`draw_parameters` needs."""
    known = table[table["identified"].astype(bool) & ~table["parameter"].str.endswith(_POOLED)]
    of_levels = known[known["level"].notna()]
    left = 0.24 * len(of_levels[["parameter", "level"]].drop_duplicates()) + 0.55 * of_levels["parameter"].nunique()
    return float(max(left, 0.62 * known.loc[known["level"].isna(), "parameter"].nunique()) + 0.4)


def _draw_forest(axes: "Axes", part: pd.DataFrame, labels: list[str]) -> None:
    """Draw a row for each level: the median and interval of draws, the mode of a MAP as a diamond."""
    colours = cycle(_COLOURS.values())
    for _, rows in part.groupby("model", sort=False):
        if rows["low"].isna().all():
            place = np.arange(len(rows))[::-1]
            axes.plot(rows["value"], place, "D", color=WRONG, markersize=6, markeredgecolor="white", zorder=4)
        else:
            forest(axes, rows[["value", "low", "high"]], colour=next(colours))
    row_labels(axes, labels)
    axes.set_ylim(-0.6, len(labels) - 0.4)
    axes.locator_params(axis="x", nbins=5)
    axes.tick_params(axis="y", length=0)


def draw_shifts(axes: "Axes", table: pd.DataFrame) -> None:
    """Draw how far each probability moves from the first fit, against that fit's, with the interval of the draws."""
    first, *others = table["model"].unique()
    axes.axhline(0, color=REFERENCE, linewidth=1)
    for name in others:
        rows = table[(table["model"] == name) & table["shift"].notna()]
        for changed, colour, marker, size in ((False, RIGHT, "o", 16), (True, WRONG, "^", 44)):
            part = rows[rows["changed"].astype(bool) == changed]
            x, label = part["reference"], f"{'another' if changed else 'the same'} answer ({len(part)})"
            if "low" in part:
                opacity = 0.8 if changed else 0.25
                axes.vlines(x, part["low"] - x, part["high"] - x, color=colour, linewidth=0.8, alpha=opacity)
            axes.plot(x, part["shift"], marker, color=colour, markersize=size**0.5, mec="white", mew=0.4, label=label)
    axes.set_xlim(0, 1)
    axes.set_xlabel(without_formulas(f"probability that the answer is right, {first}"))
    axes.set_ylabel(without_formulas(f"{' or '.join(others)} minus {first}"))
    axes.legend(loc="upper right")
