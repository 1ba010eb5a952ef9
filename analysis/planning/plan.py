"""Plan labels: the expected effect of more labels on a fit, and the questions most worth labelling.

Every figure is an expectation under the fit's own posterior. :mod:`analysis.planning.ensemble` narrows a posterior
without fitting again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
import pandas as pd
from jaxtyping import Float
from rich.console import Group
from scipy.special import entr, expit

from analysis.display.folders import ResultFolder, versions
from analysis.display.style import RIGHT, figure_style, headed_figure
from analysis.display.text import number, shown_table
from analysis.planning.ensemble import (
    Information,
    equally_telling,
    futures,
    information,
    logistic_scores,
    most_telling,
    narrowed,
    outcome_scores,
)
from analysis.scores.scoring import mean_and_interval
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.abstention import check_wanted, choose_threshold
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.posterior import sampled_parameters
from bayes_direag.model.evidence import Parameters, supports
from bayes_direag.model.selection import LogisticRecalibration, clipped_logit

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FOLDER = ResultFolder("plan", "plan.json", ("plan", "worth_labelling"), ("plan",))

#: The default numbers of further labels.
MORE = (0, 50, 100, 200, 500, 1000)

_DRAWS = 500
_MOST_QUESTIONS = 2000
_FUTURES = 100
_NEGLIGIBLE = 1e-4


@dataclass(frozen=True, eq=False)
class Plan:
    """The expected effect of more labels.

    ``curve``: a row a number of further labels: ``more``; ``labels``, in all; ``width``, mean width of the intervals of
    the final probabilities; ``nll``, expected negative log-likelihood of being right or wrong, in nats a question;
    ``answered``, expected share of questions answered at the target accuracy.

    ``worth``: the questions most worth labelling, in the order in which to label them: ``problem_id``; the present
    ``confidence``; ``worth``, the number of random questions whose labels would lower the mean variance of the final
    probabilities as much as this label, after the labels above it. The sum of the column is the worth of all of them.

    ``n_questions``: number of questions of the plan. ``n_seen``, ``n_unusable``, ``n_not_drawn``: numbers of questions
    left out because the fit has learned from them, because they have no usable report, and because they are too many.
    ``nll_floor``: the NLL if the parameters were known. ``target``, ``assurance``: of the share answered, see
    :mod:`bayes_direag.fits.abstention`. ``interval_level``: posterior probability of the intervals. ``seed``: of all
    draws.
    """

    curve: pd.DataFrame
    worth: pd.DataFrame
    n_questions: int
    n_seen: int
    n_unusable: int
    n_not_drawn: int
    nll_floor: float
    target: float
    assurance: float
    interval_level: float
    seed: int


class _Beliefs(NamedTuple):
    """The predictions of every draw.

    ``probability``: of each state. ``score``: the logit of the selected answer's support, to which the final
    calibration is applied. ``coefficients``: of the final calibration.
    """

    probability: Float[np.ndarray, "sample problem state"]
    score: Float[np.ndarray, "sample problem"]
    coefficients: Float[np.ndarray, "sample term"]

    @property
    def right(self) -> Float[np.ndarray, "sample problem"]:
        """The probability of each answer being right."""
        return np.asarray(expit(_linear(self.score, self.coefficients)))


def _linear(
    score: Float[np.ndarray, "sample problem"], coefficients: Float[np.ndarray, "sample term"]
) -> Float[np.ndarray, "sample problem"]:
    """Return the log odds of being right."""
    intercept, slope = coefficients.T[:, :, None]
    return np.asarray(intercept + slope * score)


def plan(
    fit: Fit,
    observations: Observations,
    *,
    more: Sequence[int] = MORE,
    n_worth: int = 20,
    target: float = 0.9,
    assurance: float = 0.9,
    interval_level: float = 0.9,
    seed: int = 0,
) -> Plan:
    """Predict the effect of further labels.

    Raises DirEAGError if the fit is a MAP, if no question is left, or if a number is out of range; LevelError if the
    observations have a level that the fit has not.

    ``fit``: by NUTS. ``observations``: questions of the kind to be labelled and answered, whose labels are not used.
    Questions that the fit has learned from, or without a usable report, are left out; of more than 2000 others, 2000
    are drawn. ``more``: numbers of further labels. ``n_worth``: how many questions to list as most worth labelling.
    ``seed``: of the drawn questions, and of the simulated futures over which the share answered is averaged.
    """
    check_wanted(target, assurance)
    wanted = sorted(set(more))
    if not wanted or wanted[0] < 0 or n_worth < 0 or not 0 < interval_level < 1:
        raise DirEAGError(
            f"further labels {', '.join(map(str, more)) or 'none'}, {n_worth} questions, intervals of "
            f"{interval_level}: expected whole numbers from 0 up, and a probability between 0 and 1."
        )
    if fit.n_samples == 1:
        raise DirEAGError("the fit is a MAP, which has no measure of its uncertainty; expected one by --method nuts.")
    rng = np.random.default_rng(seed)
    seen = fit.has_seen(observations)
    assert seen is not None  # noqa: S101 - narrows the type: no NUTS fit is counted
    usable = np.flatnonzero(~seen & observations.answered)
    if not len(usable):
        raise DirEAGError(
            f"all {len(observations)} questions were fitted to, or have no usable report; expected others, labelled or "
            "not."
        )
    kept = np.sort(rng.permutation(usable)[:_MOST_QUESTIONS])
    questions = observations.select(kept)
    beliefs = _beliefs(fit, questions)
    scores = _scores(beliefs)
    learned = tuple(information(score) for score in scores)
    n_labelled, now, rows = fit.n_questions, _entropy(beliefs.right).mean(), []
    for k in wanted:
        then = _linear(narrowed(beliefs.score, learned[0], k), narrowed(beliefs.coefficients, learned[1], k))
        answered = _answered(beliefs, learned, then, k, n_labelled + k, target, assurance, seed)
        mean, low, high = mean_and_interval(expit(then), interval_level)
        # the NLL with known parameters, and what is left of the uncertainty about them
        nll = float((now + _entropy(mean) - _entropy(expit(then)).mean(axis=0)).mean())
        width = float((high - low).mean())
        rows.append({"more": k, "labels": n_labelled + k, "width": width, "nll": nll, "answered": answered})
    return Plan(
        curve=pd.DataFrame(rows),
        worth=_worth(beliefs, scores, learned, questions, n_worth),
        n_questions=len(kept),
        n_seen=int(seen.sum()),
        n_unusable=int((~seen & ~observations.answered).sum()),
        n_not_drawn=len(usable) - len(kept),
        nll_floor=float(now),
        target=target,
        assurance=assurance,
        interval_level=interval_level,
        seed=seed,
    )


def _beliefs(fit: Fit, observations: Observations) -> _Beliefs:
    aligned = fit.aligned(observations)
    draws = np.unique(np.linspace(0, fit.n_samples - 1, min(_DRAWS, fit.n_samples)).round().astype(int))
    with jax.enable_x64(True):
        parameters: Parameters = jax.tree.map(lambda values: values[draws], sampled_parameters(fit.tree, aligned.slots))
        probability = np.asarray(supports(fit.reports(aligned), parameters))
    selected = probability.mean(axis=0)[:, :-1].argmax(axis=1)
    final = fit.recalibration
    assert isinstance(final, LogisticRecalibration)  # noqa: S101 - narrows the type: NUTS has no other
    question = np.arange(len(selected))
    score = clipped_logit(probability[:, question, selected], final.eps)
    coefficients = np.stack([values.ravel()[draws] for values in final.coefficients.values()], axis=1)
    return _Beliefs(probability, score, coefficients)


def _scores(
    beliefs: _Beliefs,
) -> tuple[Float[np.ndarray, "problem state sample"], Float[np.ndarray, "problem 1 sample"]]:
    """Return the scores of a label for the evidence parameters, and for the final calibration.

    The latter is learned from which answers are right, for given support.
    """
    right = beliefs.right.mean(axis=0)
    centred = np.broadcast_to(beliefs.score.mean(axis=0), beliefs.score.shape)
    return outcome_scores(beliefs.probability), logistic_scores(_linear(centred, beliefs.coefficients), right)


def _answered(
    beliefs: _Beliefs,
    learned: tuple[Information, ...],
    then: Float[np.ndarray, "sample problem"],
    k: int,
    n_labelled: int,
    target: float,
    assurance: float,
    seed: int,
) -> float:
    """Return the expected share answered, if the threshold is found with all labelled questions.

    The random numbers are the same for every number of labels. ``then``: the log odds of being right, in draws narrowed
    by k more labels.
    """
    rng = np.random.default_rng([seed, 1])
    score, true_score = futures(beliefs.score, learned[0], k, _FUTURES, rng)
    coefficients, true_coefficients = futures(beliefs.coefficients, learned[1], k, _FUTURES, rng)
    # the mean of a probability with varying log odds (MacKay 1992, doi:10.1162/neco.1992.4.5.720)
    confidence = expit(_linear(score, coefficients) / np.sqrt(1 + np.pi / 8 * then.var(axis=0)))
    right = expit(_linear(true_score, true_coefficients))
    shares = []
    for said, true in zip(confidence, right, strict=True):
        labelled = rng.integers(len(said), size=n_labelled)
        right_then = rng.random(n_labelled) < true[labelled]
        chosen = choose_threshold(said[labelled], right_then, said, target=target, assurance=assurance)
        shares.append(chosen.n_answered / len(said))
    return float(np.mean(shares))


def _worth(
    beliefs: _Beliefs,
    scores: tuple[Float[np.ndarray, "problem _ sample"], ...],
    learned: tuple[Information, ...],
    questions: Observations,
    n: int,
) -> pd.DataFrame:
    """Choose the questions whose labels narrow the final probabilities of all questions most."""
    telling = [np.flatnonzero(learned_part.value > _NEGLIGIBLE * learned_part.value.max()) for learned_part in learned]
    score, coefficients = beliefs.score, beliefs.coefficients
    moved = (  # by the evidence parameters alone, by the final calibration alone
        _linear(score, np.broadcast_to(coefficients.mean(axis=0), coefficients.shape)),
        _linear(np.broadcast_to(score.mean(axis=0), score.shape), coefficients),
    )
    blocks, varied, value = [], [], []
    for score_part, of_linear, learned_part, kept in zip(scores, moved, learned, telling, strict=True):
        probability = expit(of_linear)
        deviation = (probability - probability.mean(axis=0)) / np.sqrt(len(probability) - 1)
        blocks.append(score_part @ learned_part.direction[:, kept])
        varied.append(deviation.T @ learned_part.direction[:, kept])
        value.append(learned_part.value[kept])
    together = np.concatenate(varied, axis=1)
    aim = together.T @ together / len(together)
    evidence, final = blocks  # about separate parameters: beside each other
    before, after = (((0, 0), (0, 0), (0, final.shape[2])), ((0, 0), (0, 0), (evidence.shape[2], 0)))
    joined = np.concatenate([np.pad(evidence, before), np.pad(final, after)], axis=1)
    chosen, lowered = most_telling(joined, aim, n)
    equivalent = equally_telling(np.cumsum(lowered), np.concatenate(value), aim)
    return pd.DataFrame(
        {
            "problem_id": pd.Series([questions.problem_id[number] for number in chosen], dtype="str"),
            "confidence": beliefs.right.mean(axis=0)[chosen],
            "worth": np.diff(equivalent, prepend=0.0),
        }
    )


def _entropy(probability: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    return np.asarray(entr(probability) + entr(1 - probability))


def plan_tables(plan: Plan) -> Group:
    """Return the tables of a plan: the effect of more labels, and the questions most worth labelling."""
    return Group(_curve_table(plan), *([] if plan.worth.empty else [_worth_table(plan)]))


def about(plan: Plan) -> str:
    """Return how many questions a plan is about, and how many it leaves out."""
    left_out = {
        "already learned from": plan.n_seen,
        "without a usable report": plan.n_unusable,
        "not drawn for this": plan.n_not_drawn,
    }
    said = ", ".join(f"{n} {what}" for what, n in left_out.items() if n)
    return f"{plan.n_questions} questions{f'; left out: {said}' if said else ''}"


def _curve_table(plan: Plan) -> Group:
    rows = (
        [
            f"+{row['more']}",
            str(row["labels"]),
            number(row["width"]),
            number(row["nll"], 4),
            f"{row['answered']:.0%}",
        ]
        for row in plan.curve.to_dict("records")
    )
    return shown_table(
        f"Expected effect of more labels: {about(plan)}",
        [],
        ["more labels", "in all", "  interval width", "  NLL", "  answered"],
        rows,
        f"interval width: mean over questions of the final probability's {plan.interval_level:.0%} interval. NLL: "
        "expected, of the answer being right or wrong; right if the fit is, so look at its change. answered: expected "
        f"share at a target accuracy of {plan.target:g} with assurance {plan.assurance:g}, all labelled questions "
        "serving to find the threshold. For labels of random questions like these.",
    )


def _worth_table(plan: Plan) -> Group:
    rows = (
        [f"{place} ", str(row["problem_id"]), number(row["confidence"], 2), number(row["worth"], 1)]
        for place, row in enumerate(plan.worth.to_dict("records"), start=1)
    )
    return shown_table(
        "Most worth labelling, in this order",
        ["", "question"],
        ["  confidence", "  worth"],
        rows,
        "worth: with those above it labelled, its label should narrow intervals as much as those of that many random "
        f"questions. Together: {plan.worth['worth'].sum():.0f}. Questions chosen like this are not a "
        "random sample: fit to them, but do not evaluate or find a threshold with them.",
    )


_PANELS = {
    "width": "mean interval width",
    "nll": "expected NLL (nats)",
    "answered": "expected share answered (%)",
}


def plan_figure(plan: Plan) -> "Figure":
    """Draw interval width, NLL and share answered against the number of labels."""
    caption = (
        f"{about(plan)}. Expected by the fit's own posterior, for labels of random questions like these; hollow: as it "
        f"is now. Width: mean over questions of the final probability's {plan.interval_level:.0%} interval. NLL: of "
        "the answer being right or wrong, if the fit's probabilities hold; dotted: what no label can lower. Answered: "
        f"at a target accuracy of {plan.target:g} with assurance {plan.assurance:g}, all labels serving to find the "
        "threshold."
    )
    curve = plan.curve
    with figure_style():
        figure = headed_figure("What more labels would bring", caption, 2.6, width=7.2)
        panels = figure.subplots(1, 3)
        now = curve["more"] == 0
        for axes, (name, title) in zip(panels, _PANELS.items(), strict=True):
            values = curve[name] * (100 if name == "answered" else 1)
            axes.plot(curve["labels"], values, color=RIGHT, marker="o", markersize=5)
            axes.plot(curve["labels"][now], values[now], "o", markersize=5, color=RIGHT, markerfacecolor="white")
            axes.set_title(title, fontsize=9)
            axes.set_xlabel("labelled questions", fontsize=9)
        panels[0].set_ylim(bottom=0)
        panels[2].set_ylim(0, 100)
        panels[1].axhline(plan.nll_floor, color="0.5", linestyle=":")
    return figure


def plan_record(plan: Plan, fit: Fit) -> dict[str, object]:
    """Return all of a plan and what it is about."""
    about = {name: fit.tree.attrs[name] for name in ("dataset", "model", "variant", "observations_sha256")}
    return {**vars(plan), "fit": about, "versions": versions("numpy", "scipy")}


def write_plan(plan: Plan, fit: Fit, folder: str | Path) -> None:
    """Write a plan as a folder."""
    tables = {"plan": plan.curve, "worth_labelling": plan.worth}
    FOLDER.write(folder, plan_record(plan, fit), tables, {"plan": plan_figure(plan)})
