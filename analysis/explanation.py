r"""Why a question got its answer: what each report adds to each state, and the answer without each report.

.. math::

    \alpha(a) &= \frac{\eta}{K + 1} + \sum_{l: a_l = a} w_l \tilde q_l \qquad
    \alpha(\varnothing) = \frac{\eta}{K + 1} + \beta_0 + \sum_l \gamma w_l (1 - \tilde q_l) \\
    P(a) &\propto \alpha(a)^{\kappa} \prod_{l: a_l = a} e^{v_l} \qquad
    P(\varnothing) \propto \alpha(\varnothing)^{\kappa}

A source's part of a state's support is its share of the state's concentration times the support. The parts add up in
every posterior draw, and so do their means.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.display.document import Block, Cell, Column, Paragraph, Record, Table, Terms
from analysis.display.style import figure_style, headed_figure, without_formulas
from analysis.display.text import number, probability, shortened, told_apart
from analysis.scores.scoring import draw_columns
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Status
from bayes_direag.data.remarks import level_remark
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.prediction import as_given
from bayes_direag.model.equations import Equations, contribution, odds_against
from bayes_direag.model.states import supports

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Why a report could not be used.
REASONS = {
    Status.ABSENT: "no report of this level",
    Status.NO_ANSWER: "no answer",
    Status.UNPARSABLE: "answer cannot be read",
    Status.NO_CONFIDENCE: "no stated confidence",
}
NULL = "no candidate is right"
_PICTURE_NOTE = (
    "Each bar is divided by what gives the support: reports for the answer (blue), other reports (orange), and the "
    "doubt that each report has of its own answer, which is support that none is right."
)
#: Mean width of a character in a bar, over that of the axes.
_CHARACTER = 0.014
_PICTURE_NOTE_OF_DRAWS = f"{_PICTURE_NOTE} Lines: intervals over the posterior draws."


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why one question got its answer. Figures are means over the posterior draws; a MAP is one draw.

    Attributes
    ----------
    fit : Fit
        The fit.
    interval_level : float
        Posterior probability of the intervals.
    question : Observations
        The question alone, with the levels of the fit.
    prediction : Series
        Its row of :meth:`~bayes_direag.fits.fit.Fit.predict`.
    reports : DataFrame
        A row for each usable report: ``level``, ``answer``, ``stated`` confidence (``stated_words`` and so on for
        further signals), ``calibrated`` (what it counts as, q~), ``weight`` of its level, ``evidence`` for its answer,
        ``null_evidence`` for the null, ``vote_factor``; ``answer_without`` and ``probability_without``, the prediction
        without this report; the ``agreement`` of its level with the others and ``chance_agreement`` (NaN unless the
        fit looks at it). Some have ends of an interval, ``NAME_low`` and ``NAME_high``, which are NaN for a MAP.
    unusable : DataFrame
        A row for each level without a usable report: ``level``, ``reason``.
    states : DataFrame
        A row for each candidate, the selected one first, then by falling support; the last row is the null: ``answer``
        (missing for the null), ``answer_as_given``, ``n_reports``, ``evidence``, ``prior``, ``null_base``, their sum
        ``concentration``; ``sharpened``, that to the power of the sharpness; ``vote_factor``; ``support``; ``right``.
    parts : DataFrame
        The part of each source (the reports by level, ``prior`` and ``null base``) in the support of each state.
    """

    fit: Fit
    interval_level: float
    question: Observations
    prediction: pd.Series
    reports: pd.DataFrame
    unusable: pd.DataFrame
    states: pd.DataFrame
    parts: pd.DataFrame

    def __repr__(self) -> str:
        return f"Explanation({self._headline()})"

    @property
    def answer(self) -> str | None:
        """The selected answer, canonical; None if no report can be used."""
        answer = self.prediction["answer"]
        return answer if isinstance(answer, str) else None

    @property
    def conclusion(self) -> str:
        """What decided."""
        if self.answer is None:
            return "No report can be used, so no answer is selected."
        null, flips = self.states["support"].iloc[-1], self.reports[self.reports["answer_without"] != self.answer]
        rivals = self.states.iloc[1:-1]
        said = [
            f"{self.states['n_reports'].iloc[0]} of {len(self.reports)} reports bring {_quoted(self.answer)} to a "
            f"support of {probability(self.prediction['support'])}"
        ]
        for row in rivals[:1].to_dict("records"):
            said.append(f"the next, {_quoted(row['answer'])}, has {probability(row['support'])}")
        text = f"{'; '.join(said)}; that none is right has {probability(null)}."
        if len(flips):
            return f"{text} Without {' or '.join(map(repr, flips['level'].head(3)))} alone the answer would be another."
        return f"{text} No single report decides." if len(self.reports) > 1 else text

    @property
    def record(self) -> dict[str, object]:
        """All of it, for JSON."""
        tables = {"reports": self.reports, "unusable": self.unusable, "states": self.states, "parts": self.parts}
        row: dict[str, object] = {str(name): value for name, value in self.prediction.to_dict().items()}
        return row | {"conclusion": self.conclusion, "about": dict(self._terms())} | tables

    def blocks(self) -> Iterator[Block]:
        """Yield the answer, what decided, and tables of the reports, the states and the rest."""
        yield Paragraph(self._headline())
        yield Paragraph(self.conclusion)
        if len(self.reports):
            yield self._report_table()
        if len(self.unusable):
            rows = tuple((Cell(level), Cell(reason)) for level, reason in self.unusable.to_numpy())
            yield Table("Not used", (Column("level", holds="name"), Column("reason", holds="name")), rows)
        yield self._state_table()
        yield Terms("", tuple(self._terms()))

    def figure(self) -> "Figure":
        """Draw the support of every state as a bar of its parts: reports for the answer blue, against it orange."""
        note = _PICTURE_NOTE if np.isnan(self.states["support_low"][0]) else _PICTURE_NOTE_OF_DRAWS
        with figure_style():
            height = 0.9 + max(0.42 * len(self.states), 0.2 * len(self.parts))
            figure = headed_figure(self._headline(), f"{self.conclusion} {note}", height, width=7.4)
            self._draw(figure.subplots())
        return figure

    def _draw(self, axes: "Axes") -> None:
        states, height, left = self.states, np.arange(len(self.states))[::-1], np.zeros(len(self.states))
        ends = states[["support", "support_high"]].max(axis=1)
        widest, unnamed = 1.12 * ends.max(), 0
        *levels, prior, null_base = map(str, self.parts.index)
        names = map(without_formulas, [*told_apart(levels, 26), prior, null_base])
        for name, colour, width in zip(names, self._colours(), self.parts.to_numpy(), strict=True):
            fits = width > _CHARACTER * widest * (len(name) + 1)
            unnamed += not fits.any()
            bars = axes.barh(height, width, 0.62, left, color=colour, edgecolor="white", linewidth=0.6)
            bars.set_label("_named" if fits.any() else name)
            ink = "white" if np.mean(bars[0].get_facecolor()[:3]) < 0.55 else "black"
            axes.bar_label(bars, [name if one else "" for one in fits], label_type="center", color=ink, fontsize=9)
            left += width
        axes.hlines(height - 0.36, states["support_low"], states["support_high"], color="black", linewidth=1)
        for row, end, support in zip(height, ends, left, strict=True):
            axes.text(end + 0.012 * widest, row, probability(support), va="center")
        axes.set_yticks(height, [without_formulas(_answer_or_null(answer, 22)) for answer in states["answer"]])
        axes.set(xlim=(0, widest), xlabel="support")
        axes.grid(visible=False, axis="y")
        if unnamed > 3:
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        elif unnamed:
            axes.legend(loc="best")

    def _colours(self) -> Iterator[object]:
        from matplotlib import colormaps

        is_for = (self.reports["answer"] == self.answer).to_numpy()
        ranks = np.where(is_for, is_for.cumsum(), (~is_for).cumsum()) - 1
        for agrees, rank in zip(is_for.tolist(), ranks.tolist(), strict=True):
            steps = max((is_for == agrees).sum() - 1, 1)
            yield (
                colormaps["Blues"](0.9 - 0.5 * rank / steps)
                if agrees
                else colormaps["Oranges"](0.75 - 0.45 * rank / steps)
            )
        yield from ("0.85", "0.6")

    def _headline(self) -> str:
        line = f"{self.prediction.iloc[0]}: {_answer_or_null(self.answer, 60) if self.answer else 'unanswered'}"
        if self.answer is not None:
            line += f", right with probability {probability(self.prediction['probability'])}"
        if self.answer is not None and "probability_low" in self.prediction:
            low, high = (probability(self.prediction[f"probability_{end}"]) for end in ("low", "high"))
            line += f" ({self.interval_level:.0%} interval {low} to {high})"
        text = self.question.questions[0].question
        return f"{line}\n{shortened(text, 300)}" if text else line

    def _report_table(self) -> Table:
        decimals, stated = self._decimals(), [name for name in map(str, self.reports) if name.startswith("stated")]
        return Table.of(
            "What each report gave",
            self.reports.to_dict("records"),
            {
                Column("level", holds="name"): lambda row: row["level"],
                Column("answer", holds="name"): lambda row: shortened(row["answer"], 16),
                **{Column(_says(name)): partial(_percent, name, "{:g}%") for name in stated},
                Column("counts\nas"): partial(_percent, "calibrated", "{:.0f}%"),
                Column("weight"): partial(_number, "weight", decimals),
                Column("evidence"): partial(_number, "evidence", decimals),
                Column("to\nnull"): partial(_number, "null_evidence", decimals),
                **({Column("vote"): partial(_number, "vote_factor", 2)} if self._has_votes() else {}),
                Column("without\nit"): lambda row: Cell(
                    probability(row["probability_without"]),
                    "" if row["answer_without"] == self.answer else _answer_or_null(row["answer_without"], 10),
                ),
            },
            "evidence: weight x what it counts as. to null: weight x the rest (in presets paper and release also x "
            "null_gain). without it: the probability without this report, and the answer if it is another.",
        )

    def _state_table(self) -> Table:
        decimals = self._decimals()
        shown = {"evidence": "evidence", "prior": "+ prior", "null_base": "+ base", "concentration": "= sum"}
        shown |= {"sharpened": "sharpened"} if (self.states["sharpened"] != self.states["concentration"]).any() else {}
        shown |= {"vote_factor": "x votes"} if self._has_votes() else {}
        return Table.of(
            "What every state got",
            self.states.to_dict("records"),
            {
                Column("state", holds="name"): lambda row: _answer_or_null(row["answer"], 22),
                Column("reports"): lambda row: str(row["n_reports"]) if isinstance(row["answer"], str) else "",
                **{Column(header): partial(_number, name, decimals) for name, header in shown.items()},
                Column("support"): lambda row: probability(row["support"]),
            },
            "support: the share in that of all states. The candidate with the most is selected, never the null.",
        )

    def _terms(self) -> Iterator[tuple[str, str]]:
        fit, name = self.fit, self.prediction.iloc[0]
        if self.answer is not None:
            yield "probability", f"{self.prediction['probability']:.3f}, {_calibrated(fit)}"
        if (change := self.prediction.get("change_probability", 0)) > 0:
            yield "another answer", f"leads in {change:.1%} of the draws"
        yield "the fit", f"of {fit.n_questions} questions{', this one among them' if name in fit.learned_from else ''}"
        if remarks := fit.remarks(self.question, self.question.usable.sum(axis=1)):
            yield "few reports", " ".join(remarks)
        if remark := level_remark(fit.fitted, self.reports["level"].tolist()):
            yield "its levels", remark
        if self.question.labelled[0]:
            right = self.states.loc[self.states["right"], "answer"]
            yield "right answer", ", ".join(_answer_or_null(answer, 60) for answer in right)

    def _has_votes(self) -> bool:
        return bool((self.reports["vote_factor"] != 1).any())

    def _decimals(self) -> int:
        return 2 if self.states["concentration"].sum() < 100 else 1


def explain(fit: Fit, observations: Observations, problem_id: str, *, interval_level: float = 0.9) -> Explanation:
    """Explain the answer to one question and its probability. Gold answers are not used.

    ``interval_level`` is the posterior probability of the intervals. Raises DirEAGError if not exactly one question has
    that name, if it has a level that the fit has not, or answers of another kind, or if the model is more than the
    equations of the presets.

    Examples
    --------
    >>> from bayes_direag import fit_map, simulate_observations
    >>> observations = simulate_observations(n=60, seed=1)
    >>> explanation = explain(fit_map(observations), observations, "simulated-1-000003")
    >>> float(explanation.parts.to_numpy().sum().round(12))
    1.0
    """
    rows = [row for row, name in enumerate(observations.problem_id) if name == problem_id]
    if len(rows) != 1:
        near = get_close_matches(problem_id, observations.problem_id, n=3) or observations.problem_id[:3]
        raise DirEAGError(
            f"{observations.table.path or 'the observations'}: saw {len(rows)} questions {problem_id!r}; expected "
            f"one of the {len(observations)} there, such as {', '.join(map(repr, near))}."
        )
    question = fit.aligned(observations.select(np.array(rows)))
    predicted = fit.predict(with_and_without_each(question), interval_level=interval_level, warn=False)
    question, selected = question.of_signals(fit.fitted.signal_names), predicted.iloc[0]
    level, candidates = np.flatnonzero(question.usable[0]), question.candidates[0]
    n, null, candidate = len(level), len(candidates), question.candidate[0, level]
    parameters, reports = fit.equation_parameters.of_slots(question.slots), fit.reports(question)
    stated = reports.logit_confidence[0, level]
    calibrated = 1 / (1 + odds_against(stated, level, parameters).T)
    evidence, doubt, vote = contribution(stated, level, parameters)
    factor = np.ones_like(evidence.T) if vote is None else np.exp(vote.T)  # (draw, report)
    sharpness = np.ones(len(factor)) if parameters.sharpness is None else np.asarray(parameters.sharpness)

    by_source = np.zeros((len(factor), n + 2, null + 1))  # (draw, source, state)
    by_source[:, np.arange(n), candidate] = evidence.T
    by_source[:, :n, null] += doubt.T
    by_source[:, -2] = parameters.prior_strength[:, None] / (null + 1)
    by_source[:, -1, null] = parameters.null_base
    concentration = by_source.sum(axis=1)
    support = supports(Equations(reports, parameters))[:, 0, [*range(null), -1]]
    votes = np.where(candidate[:, None] == np.arange(null + 1), factor[:, :, None], 1.0).prod(axis=1)
    if parameters.label is not None:
        labels = np.full(null + 1, -1)
        labels[candidate] = reports.label[0, level]
        votes *= np.exp(np.pad(parameters.label, ((0, 0), (0, 1)))[:, labels])  # the last, of index -1, is no label
    order = [*sorted(range(null), key=lambda k: (candidates[k] != selected["answer"], -support[:, k].mean())), null]

    parts = (by_source / concentration[:, None] * support[:, None]).mean(axis=0)
    answers, right = [*candidates, None], question.correct_candidate[0, :null]
    mean, agreement = by_source.mean(axis=0), fit.fitted.agreement
    slots = np.array(question.slots or range(question.n_levels))[level]
    names, known = np.array(question.level_names, object), bool(question.labelled[0])

    def estimated(name: str, draws: np.ndarray) -> dict[str, np.ndarray]:
        return draw_columns(draws, interval_level, name, f"{name}_low", f"{name}_high")

    return Explanation(
        fit,
        interval_level,
        question,
        selected,
        reports=pd.DataFrame(
            {
                "level": pd.Series(names[level], dtype="str"),
                "answer": pd.Series([candidates[k] for k in candidate], dtype="str"),
                "stated": question.confidence[0, level],
                **{f"stated_{name}": question.signals[name][0, level] for name in question.signal_names[1:]},
                **estimated("calibrated", calibrated),
                "weight": parameters.weight[:, level].mean(axis=0),
                **estimated("evidence", evidence.T),
                **estimated("null_evidence", doubt.T),
                "vote_factor": factor.mean(axis=0),
                "answer_without": predicted["answer"].to_numpy()[1:],
                "probability_without": predicted["probability"].to_numpy()[1:],
                "agreement": np.nan if agreement is None else agreement.share[slots],
                "chance_agreement": np.nan if agreement is None else agreement.by_chance[slots],
            }
        ),
        unusable=pd.DataFrame(
            {
                "level": names[~question.usable[0]],
                "reason": [REASONS[Status(status)] for status in question.status[0, ~question.usable[0]]],
            }
        ),
        states=pd.DataFrame(
            {
                "answer": pd.Series(answers, dtype="str"),
                "answer_as_given": as_given(question, answers, [0] * len(answers)),
                "n_reports": [*np.bincount(candidate, minlength=null), 0],
                "evidence": mean[:n].sum(axis=0),
                "prior": mean[-2],
                "null_base": mean[-1],
                **estimated("concentration", concentration),
                "sharpened": (concentration ** sharpness[:, None]).mean(axis=0),
                "vote_factor": votes.mean(axis=0),
                **estimated("support", support),
                "right": pd.array([*right, not right.any()] if known else [pd.NA] * (null + 1), "boolean"),
            }
        )
        .iloc[order]
        .reset_index(drop=True),
        parts=pd.DataFrame(parts[:, order], index=[*names[level], "prior", "null base"]),
    )


def with_and_without_each(question: Observations) -> Observations:
    """Return a single question as it is, then once without each of its usable reports."""
    level = np.flatnonzero(question.usable[0])
    copies = question.select(np.zeros(1 + len(level), int))
    missing = np.zeros(copies.usable.shape, bool)
    missing[np.arange(1, len(copies)), level] = True
    return copies.without(missing)


def _calibrated(fit: Fit) -> str:
    final = fit.recalibration
    if final.method == "none":
        return "the support itself"
    terms = ", ".join(f"{name} {np.mean(draws):.3f}" for name, draws in final.coefficients.items())
    return f"a logistic function of the support's logit: {terms}"


def _says(column: str) -> str:
    """Return the header of a column of stated confidences; a signal may be called as another column is."""
    return "says" if column == "stated" else f"says\n{column.removeprefix('stated_')}"


def _number(name: str, decimals: int, row: Record) -> str:
    return number(row[name], decimals)


def _percent(name: str, form: str, row: Record) -> str:
    return "" if np.isnan(row[name]) else form.format(100 * row[name])


def _quoted(answer: str) -> str:
    short = shortened(answer, 24)
    return f'"{short}"' if " " in short else short


def _answer_or_null(answer: str | float | None, width: int) -> str:
    return shortened(answer, width) if isinstance(answer, str) else NULL
