"""An explanation as a person reads it in a terminal of 80 columns, and as JSON."""

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import pandas as pd
from rich.console import Group, RenderableType
from rich.text import Text

from analysis.display.numbers import counted, number, probability, shortened
from analysis.display.tables import label_grid, shown_table
from analysis.explanation.explanation import Explanation

#: A report counts little if it brings less than this part of what the reports bring on average.
LITTLE = 0.5
#: A fit knows little of questions with so few reports if fewer than this many taught it.
FEW_FITTED = 20
_SHOWN_RIVALS = 2
_SHOWN_LEVELS = 3
_LONGEST_ANSWER = 24
_SOURCES = {"report": "what the reports lack of certainty", "prior": "the prior", "null_base": "the null's base"}


def what_decided(explanation: Explanation) -> str:
    """Say who is for the answer and who against, and what one report less would do.

    Where it applies also: that the null has more support, that the fit has hardly seen questions with so few reports.
    What a report counts is its part of the support, which has both its weight and its calibrated confidence in it. (The
    weight alone would mislead: the data let it trade off with the level's bias.)
    """
    if explanation.answer is None:
        return "No report can be used, so no answer is selected and the null holds all the support."
    clauses = [_for(explanation), *_against(explanation)]
    others = (_null(explanation), _one_report_less(explanation), _few_reports(explanation))
    return " ".join(filter(None, [f"{'; '.join(clauses)}.", *others]))


def quoted(answer: str) -> str:
    """Return an answer as a sentence can hold it: shortened, and in quotation marks if it is of several words."""
    short = shortened(answer, _LONGEST_ANSWER)
    return f'"{short}"' if " " in short else short


def _for(explanation: Explanation) -> str:
    reports, states = explanation.reports, explanation.states
    supporters = reports[reports["answer"] == explanation.answer]
    n, is_single = len(reports), len(supporters) == 1
    verb = "says" if is_single else "say"
    outvoted = bool((states["n_reports"].iloc[1:-1] > len(supporters)).any())
    who = f"{len(supporters)} of {n} reports {verb}"
    if len(supporters) == n:
        who = "The only report says" if is_single else f"All {n} reports say"
    link = f"{', but' if outvoted else ' and'} {'brings' if is_single else 'bring'} it to a support of"
    said = f"{'Only ' if outvoted else ''}{who} {quoted(explanation.answer or '')}{link}"
    top = supporters.iloc[int(supporters["support_part"].argmax())]
    mostly_one = not is_single and top["support_part"] > supporters["support_part"].sum() / 2
    alone = f", {top['level']!r} alone to {probability(top['support_part'])}" if mostly_one else ""
    return f"{said} {probability(explanation.support)}{alone}"


def _against(explanation: Explanation) -> list[str]:
    """Name the rivals: one that more reports name than the selected answer first, else by falling support."""
    reports, states = explanation.reports, explanation.states
    rivals = states.iloc[1:-1]
    outvotes = rivals["n_reports"].where(rivals["n_reports"] > states["n_reports"].iloc[0], 0)
    rivals = rivals.loc[outvotes.sort_values(ascending=False, kind="stable").index]
    few = LITTLE * reports["support_part"].mean()
    clauses = []
    for rival in rivals.head(_SHOWN_RIVALS).to_dict("records"):
        supporters = reports[reports["answer"] == rival["answer"]]
        who = f"{supporters['level'].iloc[0]!r} says" if len(supporters) == 1 else f"{len(supporters)} say"
        counts = " and counts little" if len(supporters) == 1 else " and count little"
        little = counts if supporters["support_part"].mean() < few else ""
        tied = ", tied with it" if math.isclose(rival["support"], explanation.support, rel_tol=1e-12) else ""
        clauses.append(f"{who} {quoted(rival['answer'])}{little}{tied} ({probability(rival['support'])})")
    rest = rivals.iloc[_SHOWN_RIVALS:]
    if len(rest):
        more = "one more answer has" if len(rest) == 1 else f"{len(rest)} more answers share"
        clauses.append(f"{more} {probability(rest['support'].sum())}")
    return clauses


def _null(explanation: Explanation) -> str:
    null = explanation.states.iloc[-1]
    if null["support"] <= explanation.support:
        return ""
    given = explanation.parts[explanation.parts["state"] == len(explanation.states) - 1]
    chief = _SOURCES[str(given.groupby("source")["support"].sum().idxmax())]
    return (
        f"The null, 'no candidate is right', has more support ({probability(null['support'])}), chiefly from {chief}; "
        f"{quoted(explanation.answer or '')} is only the best of the candidates."
    )


def _one_report_less(explanation: Explanation) -> str:
    reports = explanation.reports
    if len(reports) < 2:
        return ""
    flips = reports[reports["answer_without"] != explanation.answer]
    if len(flips) == 1:
        report = flips.iloc[0]
        return (
            f"{report['level']!r} decides: without it the answer would be {quoted(report['answer_without'])}, with a "
            f"probability of {probability(report['confidence_without'])}."
        )
    if len(flips):
        more = len(flips) - _SHOWN_LEVELS
        named = ", ".join(map(repr, flips["level"].head(_SHOWN_LEVELS))) + (f" and {more} more" if more > 0 else "")
        return f"Take away any one of {named}, and the answer changes."
    start = "No single report decides: without any one of them the answer stays"
    values = reports["confidence_without"]
    low, high = (reports.iloc[int(place)] for place in (values.argmin(), values.argmax()))
    least, most = probability(low["confidence_without"]), probability(high["confidence_without"])
    if least == most:
        return f"{start}, and so does its probability."
    between = f"{least} (without {low['level']!r}) and {most} (without {high['level']!r})"
    return f"{start}, with a probability between {between}."


def _few_reports(explanation: Explanation) -> str:
    n_fitted, few = explanation.n_fitted, explanation.n_fitted_as_few
    if few >= min(FEW_FITTED, n_fitted):
        return ""
    seen = f"Only {few}" if few else "None"
    whole = f"the {counted(n_fitted, 'question')} that the fit learned from"
    return f"{seen} of {whole} had as few reports: this is an extrapolation."


NULL = "no candidate is right"
_LONGEST_QUESTION = 300


def explanation_text(explanation: Explanation) -> Group:
    """Return the answer and what decided it, then the reports, the states and the way to the final probability."""
    parts: list[RenderableType] = [_headline(explanation), Text(f"{what_decided(explanation)}\n")]
    if len(explanation.reports):
        parts.append(_reports_table(explanation))
    if len(explanation.unusable):
        parts.append(_unusable_table(explanation))
    return Group(*parts, _states_table(explanation), label_grid(dict(_final_rows(explanation)), "dim"), "")


def _headline(explanation: Explanation) -> Text:
    answer = "unanswered" if explanation.answer is None else shortened(explanation.answer, 60)
    line = Text.assemble(f"{explanation.problem_id}: ", (answer, "bold"))
    if explanation.answer is not None:
        line.append(f", right with probability {probability(explanation.confidence)}")
        if explanation.n_samples > 1:
            low, high = probability(explanation.confidence_low), probability(explanation.confidence_high)
            line.append(f" ({explanation.interval_level:.0%} interval {low} to {high})")
    if explanation.question:
        line.append(f"\n{shortened(explanation.question, _LONGEST_QUESTION)}", style="dim")
    return line.append("\n")


def _reports_table(explanation: Explanation) -> Group:
    decimals = _decimals(explanation)

    def rows() -> Iterator[list[str | Text]]:
        for row in explanation.reports.to_dict("records"):
            without = Text(probability(row["confidence_without"]))
            if row["answer_without"] != explanation.answer:
                other = row["answer_without"] if isinstance(row["answer_without"], str) else "unanswered"
                without = Text(f"{shortened(other, 10)}\n{without}", style="bold")
            yield [
                str(row["number"]),
                row["level"],
                shortened(row["answer"], 16),
                "\n".join(_stated_signals(row)),
                _mean(row, "calibrated"),
                number(row["weight_share"], 2),
                number(row["evidence"], decimals),
                number(row["null_evidence"], decimals),
                _mean(row, "support_part"),
                without,
            ]

    n_levels = len(explanation.reports) + len(explanation.unusable)
    caption = (
        "says: stated confidence. q~: what that counts as, after calibration. weight share: of its level, in the "
        "weight of all. evidence: weight x q~, for its answer. to null: null_gain x weight x (1 - q~). support: what "
        "its evidence adds to the support of its answer. without it: the probability of the answer without this "
        "report, and that answer if it is another."
    )
    if explanation.n_samples > 1:
        caption += f"\nBelow a mean over the draws: its {explanation.interval_level:.0%} interval."
    title = f"What each report gave ({len(explanation.reports)} usable of {n_levels} levels)"
    headers = ["says", "q~", "weight\nshare", "evidence", "to\nnull", "support", "without\nit"]
    return shown_table(title, ["", "level", "answer"], headers, rows(), caption)


def _unusable_table(explanation: Explanation) -> Group:
    rows = (
        [
            str(row["number"]),
            row["level"],
            row["reason"],
            "" if pd.isna(row["answer"]) else shortened(row["answer"], 30),
            _stated(row["stated"]),
        ]
        for row in explanation.unusable.to_dict("records")
    )
    return shown_table("Not used", ["", "level", "not used because", "answer as given"], ["says"], rows)


def _states_table(explanation: Explanation) -> Group:
    decimals = _decimals(explanation)

    def rows() -> Iterator[list[str | Text]]:
        for row in explanation.states.to_dict("records"):
            is_null = pd.isna(row["answer"])
            yield [
                Text(_answer(row["answer"], 22), style="bold" if row["selected"] else "italic" if is_null else ""),
                "" if is_null else str(row["n_reports"]),
                *(number(row[name], decimals) for name in ("evidence", "prior", "null_base", "concentration")),
                _mean(row, "support"),
            ]

    caption = (
        "prior: prior_strength, shared evenly. base: null_base. support: concentration as a share of all, sharpened "
        "and multiplied by votes where the fit has them. The candidate with the most is selected (bold), never the "
        "null. Only ratios of concentrations mean something; their common scale is the preset's."
    )
    if explanation.n_samples > 1:
        caption += (
            f"\nMeans over {explanation.n_samples} posterior draws. The sums hold in every draw, hence for the means; "
            "support is the mean of each draw's ratio, not the ratio of the means."
        )
    headers = ["reports", "evidence", "+ prior", "+ base", "= concentration", "support"]
    return shown_table("What every state got", ["state"], headers, rows(), caption)


def _final_rows(explanation: Explanation) -> Iterator[tuple[str, str]]:
    if explanation.answer is not None:
        yield "probability", _recalibration(explanation)
    if not math.isnan(explanation.change_probability):
        yield "another answer", f"leads in {explanation.change_probability:.1%} of the draws"
    this = {
        True: "; a question of this name among them, so it is not new to the fit",
        False: "",
        None: ", counted by pattern; it does not say whether this one is among them",
    }[explanation.learned_from]
    yield "the fit", f"learned from {counted(explanation.n_fitted, 'question')}{this}"
    if explanation.level_remarks:
        yield "its levels", "\n".join(explanation.level_remarks)
    if explanation.labelled:
        yield "right answer", _gold(explanation)


def _recalibration(explanation: Explanation) -> str:
    support, confidence = explanation.support, explanation.confidence
    if explanation.recalibration == "none":
        return "the support itself; this fit has no recalibration"
    if explanation.recalibration == "isotonic":
        return f"isotonic regression makes {confidence:.3f} of a support of {support:.3f}"
    intercept, slope = explanation.calibration["coefficient"]
    averaged = "" if explanation.n_samples == 1 else ", averaged over the draws (the numbers named are means)"
    score = explanation.calibration["value"].iloc[-1]
    return f"{confidence:.3f} = sigmoid({intercept:.3f} + {slope:.3f} x logit of the support, {score:.3f}){averaged}"


def _gold(explanation: Explanation) -> str:
    """Say what is right by the file's gold answer, or by its flags, and whether that was selected."""
    right = explanation.states.loc[explanation.states["right"], "answer"]
    gold = explanation.gold_answer or ", ".join(_answer(answer, 24) for answer in right)
    verdict = {True: "the selected one is right", False: "the selected one is wrong", None: "nothing is selected"}
    return f"{shortened(gold, 60)}; {verdict[explanation.correct]}. Not used for anything above."


def _answer(answer: str | float, width: int) -> str:
    """Return a cell of an answer column, the null where it is missing."""
    return shortened(answer, width) if isinstance(answer, str) else NULL


def _mean(row: Mapping[Hashable, Any], name: str) -> str:
    """Return a mean, its interval on the next line unless there is but one draw."""
    mean, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    bounds = "" if math.isnan(low) else f"\n{low:.2f}\N{EN DASH}{high:.2f}"
    return f"{mean:.2f}{bounds}"


def _stated_signals(row: Mapping[Hashable, Any]) -> Iterator[str]:
    for name, stated in row.items():
        if str(name).startswith("stated") and (name == "stated" or not math.isnan(stated)):
            yield " ".join(filter(None, [str(name).removeprefix("stated").removeprefix("_"), _stated(stated)]))


def _stated(stated: float) -> str:
    return "" if math.isnan(stated) else f"{100 * stated:g}%"


def _decimals(explanation: Explanation) -> int:
    """Return how many decimals show about three digits of the total concentration."""
    total = explanation.states["concentration"].sum()
    return 3 if total < 10 else 2 if total < 100 else 1
