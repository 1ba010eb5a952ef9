"""What fits predict of their own questions without the label, side by side, and whether they can be compared."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.display.style import REFERENCE, RIGHT, WRONG, without_formulas
from analysis.display.text import listed
from analysis.parameters import INTERVAL_LEVEL
from analysis.scores.scoring import cluster_column
from bayes_direag.data.columns import Columns
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import cross_fit
from bayes_direag.inference.psis import smoothed_weights
from bayes_direag.model.presets import preset
from bayes_direag.model.states import States

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FOLDS = 5


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


def out_of_sample(fit: Fit) -> pd.DataFrame:
    """Return what a fit predicts of each of its questions without that question's label, by ``problem_id``.

    A MAP is fitted again to five folds, each question predicted by the fit that has not seen it. NUTS draws are
    reweighted (leave-one-out), and ``low`` and ``high`` are the interval of the reweighted draws. A final calibration
    that is learned from questions kept apart has seen none of these, and stays. An answer is named by the levels
    that gave it.
    """
    questions = fit.fitted
    columns: dict[str, object] = {"cluster": cluster_column(questions), "fitted": False}
    if fit.method == "nuts":
        left_out = fit.left_out
        chosen, probability = left_out["candidate"].to_numpy(), left_out["probability"].to_numpy()
        low, high = left_out_interval(fit)
        columns |= {"answer": chosen, "probability": probability, "low": low, "high": high}
        columns |= {"correct": left_out["correct"].to_numpy()}
    else:
        bare: dict[str, Any] = {"recalibration": {"method": "none", "split": 0}} if fit.calibrated_on else {}
        settings: dict[str, Any] = {"preset": preset(fit.preset, **bare), "partial": fit.partial}
        answer, probability = np.full(len(questions), -1), np.full(len(questions), np.nan)
        for held_out in cross_fit(questions, n_folds=_FOLDS, seed=int(fit.tree.attrs["seed"]), **settings):
            part = questions.select(held_out.index)
            selected = held_out.predictions["answer"]
            answer[held_out.index] = [one.index(own) for one, own in zip(part.candidates, selected, strict=True)]
            probability[held_out.index] = held_out.predictions["probability"]
        if fit.calibrated_on:
            probability = fit.recalibration.of_selected(probability[None], questions.usable.sum(axis=1))[0]
        columns |= {"answer": answer, "probability": probability, "low": np.nan, "high": np.nan}
        columns |= {"correct": questions.right_state[np.arange(len(questions)), answer]}
    index = pd.Index(questions.problem_id, dtype="str", name=(fit.columns or Columns()).question)
    table = pd.DataFrame(columns, index=range(len(questions))).set_axis(index)
    gave = questions.candidate == table["answer"].to_numpy()[:, None]
    levels = np.array(questions.level_names)  # they name an answer, as a fit does not hold its text
    named = [listed([*levels[own][:2], *([f"{own.sum() - 2} more"] if own.sum() > 2 else [])]) for own in gave]
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

    return np.concatenate([*fit.evaluation(questions).each(ends)], axis=1)


def draw_shifts(axes: "Axes", table: pd.DataFrame) -> None:
    """Draw how far each probability moves from the first fit, against that fit's, with the interval of the draws."""
    first, *others = table["model"].unique()
    axes.axhline(0, color=REFERENCE, linewidth=1)
    rows = table[(table["model"] != first) & table["shift"].notna()]
    for changed, colour, marker, size in ((False, RIGHT, "o", 4.5), (True, WRONG, "^", 7.5)):
        part = rows[rows["changed"].astype(bool) == changed]
        x, label = part["reference"], f"{'another' if changed else 'the same'} answer ({len(part)})"
        if "low" in part:
            opacity = 0.8 if changed else 0.25
            axes.vlines(x, part["low"] - x, part["high"] - x, color=colour, linewidth=0.9, alpha=opacity, zorder=1)
        axes.plot(x, part["shift"], marker, color=colour, markersize=size, mec="white", mew=0.5, label=label)
    if "low" in rows and rows["low"].notna().any():
        holds = ((rows["low"] <= rows["reference"]) & (rows["reference"] <= rows["high"])).sum()
        label = f"90% interval; {holds} of {len(rows)} contain 0"
        axes.plot([], [], color=RIGHT, linewidth=0.9, alpha=0.5, label=label)
    axes.set_xlim(0, 1)
    axes.margins(y=0.12)
    axes.set_xlabel(without_formulas(f"probability that the answer is right, {first}"))
    axes.set_ylabel(without_formulas(f"{' or '.join(others)} minus {first}"))
    axes.legend(loc="upper right", ncols=3, columnspacing=1.2, handletextpad=0.4)
