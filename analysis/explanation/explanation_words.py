"""What decided a question, in two or three plain sentences."""

import math

import pandas as pd

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


def shortened(text: str, width: int = _LONGEST_ANSWER) -> str:
    """Return the text on one line; of one longer than ``width`` the beginning and the end.

    Examples
    --------
    >>> shortened("the mitochondria, powerhouse of the cell")
    'the mitochondri…the cell'
    """
    line = " ".join(text.split())
    if len(line) <= width:
        return line
    tail = width // 3
    return f"{line[: width - tail - 1].rstrip()}…{line[-tail:].lstrip()}"


def quoted(answer: str) -> str:
    """Return an answer as a sentence can hold it: shortened, and in quotation marks if it is of several words."""
    short = shortened(answer)
    return f'"{short}"' if " " in short else short


def questions(n: int) -> str:
    """Return a number of questions in words."""
    return f"{n} question{'' if n == 1 else 's'}"


def probability(value: float) -> str:
    """Return two decimals, never rounded to 0 or 1 unless it is that; a dash if undefined.

    Examples
    --------
    >>> [probability(value) for value in (0.0, 0.001, 0.834, 0.9999, 1.0)]
    ['0.00', '<0.01', '0.83', '>0.99', '1.00']
    """
    if math.isnan(value):
        return "\N{EN DASH}"
    if 0 < value < 0.005:
        return "<0.01"
    return ">0.99" if 0.995 <= value < 1 else f"{value:.2f}"


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
        little = (
            f" and count{'s' if len(supporters) == 1 else ''} little" if supporters["support_part"].mean() < few else ""
        )
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
    low, high = (_without(reports, int(place)) for place in _extremes(reports["confidence_without"]))
    if low[0] == high[0]:
        return f"{start}, and so does its probability."
    return f"{start}, with a probability between {low[0]} (without {low[1]}) and {high[0]} (without {high[1]})."


def _few_reports(explanation: Explanation) -> str:
    n_fitted, few = explanation.n_fitted, explanation.n_fitted_as_few
    if few >= min(FEW_FITTED, n_fitted):
        return ""
    seen = f"Only {few}" if few else "None"
    whole = f"the {questions(n_fitted)} that the fit learned from"
    return f"{seen} of {whole} had as few reports: this is an extrapolation."


def _extremes(values: pd.Series) -> tuple[int, int]:
    return int(values.argmin()), int(values.argmax())


def _without(reports: pd.DataFrame, place: int) -> tuple[str, str]:
    row = reports.iloc[place]
    return probability(row["confidence_without"]), repr(row["level"])
