r"""Explain the answer to a question: what each report adds to each state, and the answer without each report.

.. math::

    \alpha(a) &= \underbrace{\frac{\eta}{K + 1}}_{\text{prior}}
        + \sum_{l: a_l = a} \underbrace{w_l \tilde q_l}_{\text{report } l} \qquad
    \alpha(\varnothing) &= \frac{\eta}{K + 1} + \underbrace{\beta_0}_{\text{null base}}
        + \sum_l \underbrace{\gamma w_l (1 - \tilde q_l)}_{\text{doubt of report } l} \\
    P(a) &\propto \alpha(a)^{\kappa} \prod_{l: a_l = a} \underbrace{e^{v_l}}_{\text{vote factor}} \qquad
    P(\varnothing) \propto \alpha(\varnothing)^{\kappa}

A report counts as :math:`\tilde q_l`, its calibrated confidence. Sharpness and votes act on the whole state. So a
source's part of a state's support is its share of the state's concentration times the support. The parts add up in
every posterior draw, and so do their means. The mean support is a mean of ratios, not the ratio of the means.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from analysis.scores.scoring import draw_columns
from bayes_direag.data.answers import canonical
from bayes_direag.data.arrays import level_table
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Status
from bayes_direag.data.remarks import level_remarks
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.prediction import as_given
from bayes_direag.inference.posterior import sampled_parameters
from bayes_direag.model.equations import clipped_logit
from bayes_direag.model.selection import odds_against, supports, worth

#: Why a report could not be used.
REASONS = {
    Status.ABSENT: "no report of this level",
    Status.NO_ANSWER: "no answer",
    Status.UNPARSABLE: "answer cannot be read",
    Status.NO_CONFIDENCE: "no stated confidence",
}


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation of one question. Figures are means over the fit's posterior draws (a MAP is one draw).

    Intervals are equal-tailed over the draws, in the tables as ``NAME_low`` and ``NAME_high`` beside ``NAME``. For a
    MAP they are NaN, and so is ``change_probability``.

    Attributes
    ----------
    problem_id, question : str
        Its name and its text (None if the file has none).
    n_samples, n_fitted : int
        Number of posterior draws, and of fitted questions.
    few_reports : str or None
        What is to be said if it has fewer usable reports than the fitted questions had, unless the fit is partial.
    learned_from : bool
        Whether a question of this name was fitted to, so that its gold answer may have had an influence.
    interval_level : float
        Posterior probability of the intervals.
    answer : str or None
        The selected answer, canonical; None for an unanswered question, whose confidence and support are NaN.
    answer_as_given : str or None
        Its spelling in most reports.
    confidence, confidence_low, confidence_high : float
        Its final probability of being right.
    support, null_probability, change_probability : float
        As in :meth:`~bayes_direag.fits.fit.Fit.predict`.
    sharpness : float
        The power to which concentrations are raised; 1 if the fit has none.
    recalibration : str
        The method of the final calibration.
    labelled : bool
        Whether it is known which answers are right. Only the next two and ``states["right"]`` depend on this.
    gold_answer : str or None
        Canonical gold answer, if there is one.
    correct : bool or None
        Whether the selected answer is right; None without an answer or a label.
    reports : DataFrame
        One row per usable report: ``number`` (of its level in the fit, from 1), ``level``, ``answer`` (canonical),
        ``stated`` (confidence in [0, 1], not clipped; ``stated_words`` and so on for further signals), ``calibrated``
        (what the report counts as, q~; 1 in variant count), ``weight`` of its level, ``weight_share`` (its share of
        the total weight), ``evidence`` (weight * q~, for its answer), ``null_evidence`` (null_gain * weight * (1 - q~),
        for the null), ``vote_factor`` (by which it multiplies the odds of its answer), parts of the support as
        ``support_part`` and ``null_support_part``; ``answer_without`` and ``confidence_without``, the prediction of the
        same fit without this report; how often its level agrees with the others in the questions given to the fit,
        ``agreement``, and would by chance, ``chance_agreement`` (NaN if the fit does not look at it).
    unusable : DataFrame
        One row per level without a usable report: ``number``, ``level``, ``reason``; ``answer`` as given and
        ``stated``, if there are any.
    states : DataFrame
        One row per candidate, the selected one first, then by falling support; the last row is the null: ``answer``
        (missing for the null), ``answer_as_given`` (its spelling in most reports), ``n_reports`` that give it,
        ``evidence`` from reports, ``prior``, ``null_base``, and their sum ``concentration``; ``sharpened``, that to the
        power of the sharpness; ``vote_factor``, the product of those of its reports; ``support``, the share of
        ``sharpened * vote_factor``; ``selected``; ``right`` (missing if not labelled).
    calibration : DataFrame
        One row per term of a logistic recalibration: ``term``, ``coefficient`` and ``value``, means over the draws.
        ``confidence = sigmoid(sum(coefficient * value))`` holds in every draw, so only approximately for the means.
        Empty without an answer or for other recalibrations.
    parts : DataFrame
        The parts of ``states``, a row a state and source: ``state`` (row of ``states``), ``source`` (report, prior or
        null_base), ``report`` (row of ``reports``; -1 for the other sources), ``concentration``, ``support``.
    level_remarks : tuple of str
        Remarks on the levels of its reports in the fitted questions: see :mod:`bayes_direag.data.remarks`.
    """

    problem_id: str
    question: str | None
    n_samples: int
    n_fitted: int
    few_reports: str | None
    learned_from: bool
    interval_level: float
    answer: str | None
    answer_as_given: str | None
    confidence: float
    confidence_low: float
    confidence_high: float
    support: float
    null_probability: float
    change_probability: float
    sharpness: float
    recalibration: str
    labelled: bool
    gold_answer: str | None
    correct: bool | None
    reports: pd.DataFrame
    unusable: pd.DataFrame
    states: pd.DataFrame
    calibration: pd.DataFrame
    parts: pd.DataFrame
    level_remarks: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class EvidenceParts:
    """The parts of one question's concentrations, in every posterior draw.

    ``level``, ``candidate`` (report,): those of each usable report. ``calibrated`` (sample, report): its calibrated
    confidence, q~. ``weight`` and ``weight_share`` (sample, report): those of its level, the share of the total weight;
    NaN if all weights are 0. ``concentration`` (sample, source, state): what each source (the reports, the prior, the
    null base) adds to each state (the candidates, the null). ``vote_factor`` (sample, report): that by which a report
    multiplies the odds of its answer. ``sharpness`` (sample,). ``state_support`` (sample, state).
    """

    level: Int[np.ndarray, " report"]
    candidate: Int[np.ndarray, " report"]
    calibrated: Float[np.ndarray, "sample report"]
    weight: Float[np.ndarray, "sample report"]
    weight_share: Float[np.ndarray, "sample report"]
    concentration: Float[np.ndarray, "sample source state"]
    vote_factor: Float[np.ndarray, "sample report"]
    sharpness: Float[np.ndarray, " sample"]
    state_support: Float[np.ndarray, "sample state"]

    @property
    def support(self) -> Float[np.ndarray, "sample source state"]:
        """The part of each source in each state's support; the sum over sources is the support."""
        share = self.concentration / self.concentration.sum(axis=1, keepdims=True)
        return np.asarray(share * self.state_support[:, None, :])

    @property
    def state_vote_factor(self) -> Float[np.ndarray, "sample state"]:
        """The product of the vote factors of the reports of each state; 1 for the null."""
        gives = self.candidate[:, None] == np.arange(self.concentration.shape[2])
        return np.where(gives, self.vote_factor[:, :, None], 1.0).prod(axis=1)

    @classmethod
    def of(cls, fit: Fit, question: Observations) -> "EvidenceParts":
        """Compute the parts for observations of a single question, which are aligned with the fit."""
        level, n_candidates = np.flatnonzero(question.usable[0]), len(question.candidates[0])
        candidate, report = question.candidate[0, level], np.arange(len(level))
        parameters, reports = sampled_parameters(fit.tree, question.slots), fit.reports(question)
        stated, label = reports.logit_confidence[0, level], None if reports.label is None else reports.label[0, level]
        calibrated = 1 / (1 + odds_against(stated, level, parameters))
        given, doubt, vote = worth(stated, level, label, parameters)
        weight = parameters.weight
        with np.errstate(invalid="ignore"):
            weight_share = weight[:, level] / weight.sum(axis=1, keepdims=True)
        concentration = np.zeros((len(weight), len(level) + 2, n_candidates + 1))  # without reports only the null
        concentration[:, report, candidate] = given.T
        concentration[:, report, -1] = doubt.T
        concentration[:, -2, :] = parameters.prior_strength[:, None] / (n_candidates + 1)
        concentration[:, -1, -1] = parameters.null_base
        state_support = supports(reports, parameters)[:, 0, [*range(n_candidates), -1]]
        return cls(
            level,
            candidate,
            calibrated.T,
            weight[:, level],
            weight_share,
            concentration,
            np.ones_like(given.T) if vote is None else np.exp(vote.T),
            np.ones(len(weight)) if parameters.sharpness is None else np.asarray(parameters.sharpness),
            state_support,
        )


def with_and_without_each(question: Observations) -> Observations:
    """Return a single question as it is, then once without each of its usable reports."""
    level = np.flatnonzero(question.usable[0])
    copies = question.select(np.zeros(1 + len(level), int))
    missing = np.zeros(copies.usable.shape, bool)
    missing[np.arange(1, len(copies)), level] = True
    return copies.without(missing)


def explain(fit: Fit, observations: Observations, problem_id: str, *, interval_level: float = 0.9) -> Explanation:
    """Explain the answer to one question and its probability. Gold answers are not used.

    Parameters
    ----------
    fit
        A fit by MAP or NUTS.
    observations
        Observations with the question, of the levels of the fit.
    problem_id
        The name of the question.
    interval_level
        Posterior probability of the intervals, strictly between 0 and 1.

    Raises
    ------
    LevelError
        If the observations have a level that the fit has not.
    DirEAGError
        If not exactly one question has that name, the answers are of another kind, or the level is out of range.

    Examples
    --------
    >>> from bayes_direag import fit_map, simulate_observations
    >>> observations = simulate_observations(n=60, seed=1)
    >>> explanation = explain(fit_map(observations), observations, "simulated-1-000003")
    >>> float(explanation.parts["support"].sum().round(12))
    1.0
    """
    row = _row_of(problem_id, observations)
    question = fit.aligned(observations.select(np.array([row])))
    predicted = fit.predict(with_and_without_each(question), interval_level=interval_level, warn=False)
    question = question.of_signals(fit.fitted.signal_names)
    selected = predicted.iloc[0]
    parts = EvidenceParts.of(fit, question)
    answer = _or_none(selected["answer"])
    order = _falling_support(parts, question.candidates[0], answer)
    states = _state_table(parts, question, order, interval_level)
    labelled = bool(question.labelled[0])
    return Explanation(
        problem_id=problem_id,
        question=question.questions[0].question,
        n_samples=fit.n_samples,
        n_fitted=fit.n_questions,
        few_reports=None if fit.partial else fit.enough_reports.remark(question.usable.sum(axis=1)),
        learned_from=problem_id in fit.learned_from,
        interval_level=interval_level,
        answer=answer,
        answer_as_given=_or_none(selected["answer_as_given"]),
        confidence=float(selected["confidence"]),
        confidence_low=float(selected.get("confidence_low", np.nan)),
        confidence_high=float(selected.get("confidence_high", np.nan)),
        support=float(selected["support"]),
        null_probability=float(selected["null_probability"]),
        change_probability=float(selected.get("change_probability", np.nan)),
        sharpness=float(parts.sharpness.mean()),
        recalibration=fit.recalibration.method,
        labelled=labelled,
        gold_answer=canonical(question.questions[0].gold_answer, question.kind),
        correct=bool(states["right"].iloc[0]) if labelled and answer is not None else None,
        reports=_reports(parts, question, predicted.iloc[1:], interval_level).assign(
            **_agreement(fit, question, parts)
        ),
        unusable=_unusable(question, level_table(observations.table)),
        states=states,
        calibration=_calibration(fit, parts, None if answer is None else order[0]),
        parts=_part_table(parts, order),
        level_remarks=level_remarks(fit.fitted, [question.level_names[level] for level in parts.level]),
    )


def _row_of(problem_id: str, observations: Observations) -> int:
    rows = [row for row, name in enumerate(observations.problem_id) if name == problem_id]
    if len(rows) == 1:
        return rows[0]
    if rows:
        raise DirEAGError(
            f"question {problem_id!r}: saw {len(rows)} questions of this name; expected one. Leave the others out."
        )
    near = get_close_matches(problem_id, observations.problem_id, n=3) or observations.problem_id[:3]
    place = "the observations" if observations.table.path is None else str(observations.table.path)
    raise DirEAGError(
        f"{place}: saw no question {problem_id!r}; expected one of the {len(observations)} there, such as "
        f"{', '.join(map(repr, near))}."
    )


def _falling_support(parts: EvidenceParts, candidates: Sequence[str], selected: str | None) -> list[int]:
    """Return the states in order: the selected one, the others by falling mean support, and the null."""
    mean = parts.support.sum(axis=1).mean(axis=0)
    order = sorted(range(len(candidates)), key=lambda state: (candidates[state] != selected, -mean[state]))
    return [*order, len(candidates)]


def _calibration(fit: Fit, parts: EvidenceParts, selected: int | None) -> pd.DataFrame:
    """Return the terms of a logistic recalibration with coefficients and values, means over the draws."""
    final = fit.recalibration
    rows: list[tuple[str, float, float]] = []
    if selected is not None and final.method != "none":
        score = clipped_logit(parts.support.sum(axis=1)[:, selected], final.eps).mean()
        coefficients = (float(draws.mean()) for draws in final.coefficients.values())
        rows = list(zip(final.coefficients, coefficients, (1.0, float(score)), strict=True))
    return pd.DataFrame(rows, columns=["term", "coefficient", "value"])


def _estimated(name: str, draws: Float[np.ndarray, "sample row"], level: float) -> dict[str, np.ndarray]:
    return draw_columns(draws, level, name, f"{name}_low", f"{name}_high")


def _reports(
    parts: EvidenceParts, question: Observations, without: pd.DataFrame, interval_level: float
) -> pd.DataFrame:
    report = np.arange(len(parts.level))
    place = (slice(None), report, parts.candidate)
    return pd.DataFrame(
        {
            "number": parts.level + 1,
            "level": _text(question.level_names[position] for position in parts.level),
            "answer": _text(question.candidates[0][index] for index in parts.candidate),
            "stated": question.confidence[0, parts.level],
            **{f"stated_{name}": question.signals[name][0, parts.level] for name in question.signal_names[1:]},
            **_estimated("calibrated", parts.calibrated, interval_level),
            "weight": parts.weight.mean(axis=0),
            "weight_share": parts.weight_share.mean(axis=0),
            **_estimated("evidence", parts.concentration[place], interval_level),
            **_estimated("null_evidence", parts.concentration[:, report, -1], interval_level),
            **_estimated("support_part", parts.support[place], interval_level),
            **_estimated("null_support_part", parts.support[:, report, -1], interval_level),
            "vote_factor": parts.vote_factor.mean(axis=0),
            "answer_without": _text(map(_or_none, without["answer"])),
            "confidence_without": without["confidence"].to_numpy(),
        }
    )


def _agreement(fit: Fit, question: Observations, parts: EvidenceParts) -> dict[str, Float[np.ndarray, " report"]]:
    agreement, level = fit.fitted.agreement, np.array(question.slots or range(question.n_levels))[parts.level]
    unknown = np.full(len(level), np.nan)
    return {
        "agreement": unknown if agreement is None else agreement.share[level],
        "chance_agreement": unknown if agreement is None else agreement.by_chance[level],
    }


def _unusable(question: Observations, names: Mapping[int, str]) -> pd.DataFrame:
    given = {names[report.level]: report for report in question.questions[0].observations}
    rows = []
    for position in np.flatnonzero(~question.usable[0]):
        level = question.level_names[position]
        report = given.get(level)
        stated = None if report is None else report.confidence
        rows.append(
            {
                "number": int(position) + 1,
                "level": level,
                "reason": REASONS[Status(question.status[0, position])],
                "answer": None if report is None else report.answer,
                "stated": np.nan if stated is None else stated / 100,
            }
        )
    return pd.DataFrame(rows, columns=["number", "level", "reason", "answer", "stated"])


def _state_table(parts: EvidenceParts, question: Observations, order: list[int], interval_level: float) -> pd.DataFrame:
    n_reports = len(parts.level)
    n_candidates = len(order) - 1
    answers = [*question.candidates[0], None]
    by_source = parts.concentration.mean(axis=0)
    right = question.correct_candidate[0, :n_candidates]
    table = pd.DataFrame(
        {
            "answer": _text(answers),
            "answer_as_given": as_given(question, answers, [0] * len(answers)),
            "n_reports": [*np.bincount(parts.candidate, minlength=n_candidates), 0],
            "evidence": by_source[:n_reports].sum(axis=0),
            "prior": by_source[-2],
            "null_base": by_source[-1],
            **_estimated("concentration", parts.concentration.sum(axis=1), interval_level),
            "sharpened": (parts.concentration.sum(axis=1) ** parts.sharpness[:, None]).mean(axis=0),
            "vote_factor": parts.state_vote_factor.mean(axis=0),
            **_estimated("support", parts.support.sum(axis=1), interval_level),
            "right": pd.array([*right, not right.any()] if question.labelled[0] else [pd.NA] * len(order), "boolean"),
        }
    )
    table = table.iloc[order].reset_index(drop=True)
    table.insert(len(table.columns) - 1, "selected", (table.index == 0) & table["answer"].notna())
    return table


def _part_table(parts: EvidenceParts, order: Sequence[int]) -> pd.DataFrame:
    """Return the parts of each state; a report adds only to its answer and to the null."""
    n_reports = len(parts.level)
    adds = np.zeros(parts.concentration.shape[1:], bool)
    adds[np.arange(n_reports), parts.candidate] = True
    adds[:, -1] = True
    adds[-2] = True
    rank = np.argsort(order)
    source, state = np.nonzero(adds)
    table = pd.DataFrame(
        {
            "state": rank[state],
            "source": np.where(source < n_reports, "report", np.where(source == n_reports, "prior", "null_base")),
            "report": np.where(source < n_reports, source, -1),
            "concentration": parts.concentration.mean(axis=0)[source, state],
            "support": parts.support.mean(axis=0)[source, state],
        }
    )
    return table.sort_values("state", kind="stable", ignore_index=True)


def _text(values: Iterable[str | None]) -> pd.Series:
    return pd.Series(list(values), dtype="str")


def _or_none(answer: str | float) -> str | None:
    """Return a text cell, whose missing value is NaN."""
    return answer if isinstance(answer, str) else None
