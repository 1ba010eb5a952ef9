"""Why a question got its answer: by the fit's own program, with all reports, without each of them, and with each alone.

So a model of one's own is explained as any other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.display.document import Block, Cell, Column, Paragraph, Record, Table, Terms
from analysis.display.style import REFERENCE, RIGHT, WRONG, figure_style, headed_figure, row_labels
from analysis.display.text import probability, shortened
from analysis.scores.scoring import draw_columns
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Status
from bayes_direag.data.remarks import level_remark
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.prediction import as_given
from bayes_direag.model.states import supports

if TYPE_CHECKING:
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
    "The support of the selected answer: the grey line with all reports, a dot without one of them. Bars: what that "
    "report adds (blue) or takes (orange), the most first."
)


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
        further signals); ``alone``, how probably its answer would be right if there were no other report;
        ``answer_without`` and ``probability_without``, the prediction without this report; ``support_without``, that of
        the selected answer then, and what the report ``adds`` to it, with ends of its interval; the ``agreement`` of
        its level with the others and ``chance_agreement`` (NaN unless the fit looks at it).
    unusable : DataFrame
        A row for each level without a usable report: ``level``, ``reason``.
    states : DataFrame
        A row for each candidate, the selected one first, then by falling support; the last row is the null: ``answer``
        (missing for the null), ``answer_as_given``, ``n_reports``, ``support`` with ends of its interval, ``right``.
    """

    fit: Fit
    interval_level: float
    question: Observations
    prediction: pd.Series
    reports: pd.DataFrame
    unusable: pd.DataFrame
    states: pd.DataFrame

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
        tables = {"reports": self.reports, "unusable": self.unusable, "states": self.states}
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
        """Draw the support of the selected answer with all reports and without each, sorted by what each adds."""
        rows = self.reports.sort_values("adds", ascending=False, kind="stable")
        whole, without = self.prediction["support"], rows["support_without"].to_numpy()
        with figure_style():
            height = 0.9 + 0.3 * max(len(rows), 2)
            figure = headed_figure(self._headline(), f"{self.conclusion} {_PICTURE_NOTE}", height, width=7.4)
            axes, place = figure.subplots(), np.arange(len(rows))[::-1]
            colour = np.where(without < whole, RIGHT, WRONG)
            axes.axvline(whole, color=REFERENCE, linewidth=1.5)
            axes.barh(place, without - whole, left=whole, height=0.5, color=colour, alpha=0.45)
            axes.scatter(without, place, s=36, color=colour, zorder=3)
            texts = zip(rows["level"], rows["answer"], strict=True)
            row_labels(axes, [f"{shortened(level, 20)}: {shortened(answer, 12)}" for level, answer in texts])
            axes.set(
                xlim=(0, 1), ylim=(-0.6, len(rows) - 0.4), xlabel="support of the selected answer without the report"
            )
        return figure

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
        stated = [name for name in map(str, self.reports) if name.startswith("stated")]
        return Table.of(
            "What each report gave",
            self.reports.to_dict("records"),
            {
                Column("level", holds="name"): lambda row: row["level"],
                Column("answer", holds="name"): lambda row: shortened(row["answer"], 16),
                **{Column("\n".join(["says", *name.split("_", 1)[1:]])): partial(_percent, name) for name in stated},
                Column("alone"): lambda row: probability(row["alone"]),
                Column("adds"): lambda row: f"{row['adds']:+.3f}",
                Column("without\nit"): lambda row: Cell(
                    probability(row["probability_without"]),
                    "" if row["answer_without"] == self.answer else _answer_or_null(row["answer_without"], 10),
                ),
            },
            "alone: the probability of its answer if there were no other report. adds: to the support of the selected "
            "answer. without it: the probability without this report, and the answer if it is another.",
        )

    def _state_table(self) -> Table:
        return Table.of(
            "What every state got",
            self.states.to_dict("records"),
            {
                Column("state", holds="name"): lambda row: _answer_or_null(row["answer"], 22),
                Column("reports"): lambda row: str(row["n_reports"]) if isinstance(row["answer"], str) else "",
                Column("support"): lambda row: probability(row["support"]),
            },
            "The candidate with the most support is selected, never the null.",
        )

    def _terms(self) -> Iterator[tuple[str, str]]:
        fit, name = self.fit, self.prediction.iloc[0]
        if self.answer is not None:
            yield "probability", f"{self.prediction['probability']:.3f}, {_calibrated(fit, self.question)}"
        if (change := self.prediction.get("change_probability", 0)) > 0:
            yield "another answer", f"leads in {change:.1%} of the draws"
        yield "the fit", f"of {fit.n_questions} questions{', this one among them' if name in fit.learned_from else ''}"
        if remarks := fit.remarks(self.question):
            yield "few reports", " ".join(remarks)
        if remark := level_remark(fit.fitted, self.reports["level"].tolist()):
            yield "its levels", remark
        if self.question.labelled[0]:
            right = self.states.loc[self.states["right"], "answer"]
            yield "right answer", ", ".join(_answer_or_null(answer, 60) for answer in right)


def explain(fit: Fit, observations: Observations, problem_id: str, *, interval_level: float = 0.9) -> Explanation:
    """Explain the answer to one question and its probability. Gold answers are not used.

    ``interval_level`` is the posterior probability of the intervals. Raises DirEAGError if not exactly one question has
    that name, or if it has a level that the fit has not, or answers of another kind.

    Examples
    --------
    >>> from bayes_direag import fit_map, simulate_observations
    >>> observations = simulate_observations(n=60, seed=1)
    >>> explanation = explain(fit_map(observations), observations, "simulated-1-000003")
    >>> float(explanation.states["support"].sum().round(12))
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
    less, alone = with_and_without_each(question)
    predicted, lone = (fit.predict(each, interval_level=interval_level, warn=False) for each in (less, alone))
    question, selected = question.of_signals(fit.fitted.signal_names), predicted.iloc[0]
    level, candidates = np.flatnonzero(question.usable[0]), question.candidates[0]
    null, candidate = len(candidates), question.candidate[0, level]
    of_all = supports(fit.evaluation(less))
    support = of_all[:, 0, [*range(null), -1]]
    of_selected = np.stack(
        [_support_of(selected["answer"], *each) for each in zip(less.candidates, of_all.swapaxes(0, 1), strict=True)]
    )
    order = [*sorted(range(null), key=lambda k: (candidates[k] != selected["answer"], -support[:, k].mean())), null]
    right, agreement = question.correct_candidate[0, :null], fit.fitted.agreement
    slots = np.array(question.slots or range(question.n_levels))[level]
    names, known = np.array(question.level_names, object), bool(question.labelled[0])
    reports = {
        "level": pd.Series(names[level], dtype="str"),
        "answer": pd.Series([candidates[k] for k in candidate], dtype="str"),
        "stated": question.confidence[0, level],
        **{f"stated_{name}": question.signals[name][0, level] for name in question.signal_names[1:]},
        "alone": lone["probability"].to_numpy(),
        "answer_without": predicted["answer"].to_numpy()[1:],
        "probability_without": predicted["probability"].to_numpy()[1:],
        "support_without": of_selected[1:].mean(axis=1),
        **draw_columns((of_selected[0] - of_selected[1:]).T, interval_level, "adds", "adds_low", "adds_high"),
        "agreement": np.nan if agreement is None else agreement.share[slots],
        "chance_agreement": np.nan if agreement is None else agreement.by_chance[slots],
    }
    reasons = [REASONS[Status(status)] for status in question.status[0, ~question.usable[0]]]
    states = {
        "answer": pd.Series([*candidates, None], dtype="str"),
        "answer_as_given": as_given(question, [*candidates, None], [0] * (null + 1)),
        "n_reports": [*np.bincount(candidate, minlength=null), 0],
        **draw_columns(support, interval_level, "support", "support_low", "support_high"),
        "right": pd.array([*right, not right.any()] if known else [pd.NA] * (null + 1), "boolean"),
    }
    return Explanation(
        fit,
        interval_level,
        question,
        selected,
        reports=pd.DataFrame(reports),
        unusable=pd.DataFrame({"level": names[~question.usable[0]], "reason": reasons}),
        states=pd.DataFrame(states).iloc[order].reset_index(drop=True),
    )


def _support_of(
    answer: str | float | None, candidates: Sequence[str], support: Float[np.ndarray, "sample state"]
) -> Float[np.ndarray, " sample"]:
    """Return the support of an answer; 0 where no report gives it."""
    return support[:, candidates.index(answer)] if answer in candidates else np.zeros(len(support))


def with_and_without_each(question: Observations) -> tuple[Observations, Observations]:
    """Return a single question as it is, then without each of its usable reports; and with each of these alone."""
    each = np.eye(question.n_levels, dtype=bool)[question.usable[0]]
    less = question.select(np.zeros(1 + len(each), int)).without(np.vstack([np.zeros_like(question.usable), each]))
    alone = question.select(np.zeros(len(each), int)).without(question.usable & ~each)
    return less, alone


def _calibrated(fit: Fit, question: Observations) -> str:
    if fit.recalibration.method == "none":
        return "the support itself"
    intercept, slope = fit.calibration.coefficients(fit.evaluation(question).data.panels)[0]
    return f"a logistic function of the support's logit: intercept {intercept:.3f}, slope {slope:.3f}"


def _percent(name: str, row: Record) -> str:
    return "" if np.isnan(row[name]) else f"{100 * row[name]:g}%"


def _quoted(answer: str) -> str:
    short = shortened(answer, 24)
    return f'"{short}"' if " " in short else short


def _answer_or_null(answer: str | float | None, width: int) -> str:
    return shortened(answer, width) if isinstance(answer, str) else NULL
