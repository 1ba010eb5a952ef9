"""How a layman reads each picture of an evaluation or a fit, and what is seen in it, for those who cannot see it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pandas as pd

from analysis.report.numbers import listed, number, percent

#: The tables behind a picture, by the name of their file.
Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class PictureWords[Numbers]:
    """The title of a picture, how to read it and what to look for, and what is seen in it, from its numbers."""

    title: str
    how_to_read: str
    seen: Callable[[Numbers], str]


def _reliability(tables: Tables) -> str:
    errors = [f"{row['method']}: ECE {number(row['ece'])}" for row in tables["reliability"].to_dict("records")]
    return f"Reliability diagrams, in bins above and without bins below them: {listed(errors)}."


def _benefit(tables: Tables) -> str:
    rows = tables["benefit"].dropna(subset="benefit")
    shown = [f"{row['method']} {number(row['benefit'])}" for row in rows.head(3).to_dict("records")]
    return f"{len(rows)} methods, a dot and a bar each, the best on top. The greatest benefits: {listed(shown)}."


def _base_rate(tables: Tables) -> str:
    rows = tables["base_rate"].dropna(subset=["brier_gain"])
    best = rows.nlargest(1, "brier_gain").iloc[0]
    above = rows.loc[rows["brier_gain_low"] > 0, "method"].tolist()
    which = f"clearly above 0 in Brier score: {listed(above)}" if above else "none is clearly above 0 in Brier score"
    return (
        f"{len(rows)} methods, a dot and a bar each; {which}. The largest gain is that of {best['method']}, "
        f"{number(best['brier_gain'], signed=True)}."
    )


def _risk_coverage(tables: Tables) -> str:
    rows = tables["selective"].dropna(subset=["aurc"])
    if rows.empty:
        return "An empty picture: the areas are undefined."
    best = rows.nsmallest(1, "aurc").iloc[0]
    return (
        f"Curves of errors against the share of questions answered, of {len(rows)} methods. The least area under the "
        f"curve, {number(best['aurc'])}, is that of {best['method']}."
    )


def _null_state(tables: Tables) -> str:
    rows = tables["null_state"].set_index("quantity")["value"]
    means = [f"{name} {number(rows[name])}" for name in rows.index[:3]]
    return f"Three histograms of the null probability, with means: {listed(means)}."


def _stated_confidence(tables: Tables) -> str:
    sums = tables["stated_confidence"].groupby("level", sort=False)[["right", "wrong"]].sum()
    share = sums["right"] / sums.sum(axis=1)
    return (
        f"A histogram of stated confidence for each of {len(sums)} levels, right answers solid and wrong ones "
        f"hatched. Between {percent(share.min(), 0)} ({share.idxmin()}) and {percent(share.max(), 0)} "
        f"({share.idxmax()}) are right."
    )


def _calibration_curves(tables: Tables) -> str:
    middle = tables["calibration_curves"].query("stated == 0.9").set_index("level")["calibrated"]
    return (
        f"A rising curve for each of {len(middle)} levels. A stated 90% counts for between "
        f"{percent(middle.min(), 0)} ({middle.idxmin()}) and {percent(middle.max(), 0)} ({middle.idxmax()})."
    )


def _levels(tables: Tables) -> str:
    share = tables["levels"].query("quantity == 'share'").set_index("level")["value"]
    return (
        f"A dot for each of {len(share)} levels. Shares of the weight go from {percent(share.min(), 0)} "
        f"({share.idxmin()}) to {percent(share.max(), 0)} ({share.idxmax()})."
    )


def _shared(tables: Tables) -> str:
    values = [f"{row['quantity']} {number(row['value'], 2)}" for row in tables["shared"].to_dict("records")]
    return f"A dot on a scale of its own for each quantity: {listed(values)}."


def _recalibration(tables: Tables) -> str:
    curve = tables["recalibration"].set_index("support")["probability"]
    pairs = [
        f"{percent(place, 0)} to {percent(curve.iloc[int(place * (len(curve) - 1))], 0)}" for place in (0.25, 0.5, 0.75)
    ]
    return f"A rising curve that takes a support of {listed(pairs)}, above a histogram of the support of the questions."


#: The pictures of an evaluation, in the order of the report.
EVALUATION_PICTURES: Mapping[str, PictureWords[Tables]] = MappingProxyType(
    {
        "benefit": PictureWords(
            "What are the answers worth?",
            "If an answer is used whenever its probability is higher than what a mistake would cost, this is twice the "
            "mean gain over all such prices. It sees both which answers are selected and whether their probabilities "
            "hold. Right is better; at 0 one might as well not answer.",
            _benefit,
        ),
        "reliability": PictureWords(
            "Do the probabilities hold?",
            "Of the answers that are given 80%, are 80% right? Then a mark lies on the dashed line. Marks below it: "
            "too sure; above it: not sure enough. A bar that reaches the line, or a curve inside the grey band, "
            "gives no reason to doubt. Places with few questions (bottom) say little.",
            _reliability,
        ),
        "base_rate": PictureWords(
            "Does a method know more than how often it is right?",
            "A method that gave every answer the same probability, its own share of right ones, would lie on the "
            "line at 0. To the right of it probabilities are worth something; a filled mark means that chance does "
            "not explain it.",
            _base_rate,
        ),
        "risk_coverage": PictureWords(
            "What if only the surest answers are used?",
            "From right to left the least sure answers are left out. A good curve falls to the left: what remains "
            "has fewer errors. One that stays level does not know which of its answers are wrong. The far left rests "
            "on few questions.",
            _risk_coverage,
        ),
        "null_state": PictureWords(
            "Does it notice when no answer is right?",
            "DirEAG also gives a probability that none of the model's answers is right. If that works, the bottom "
            "histogram, of questions without a right answer, lies farther to the right than the top one.",
            _null_state,
        ),
        "stated_confidence": PictureWords(
            "What the model itself stated",
            "This is what goes in, not what comes out: how often each level stated which confidence. Were it honest, "
            "the solid part would fill the bars at 100 and hardly show at the left. Bars that are half solid "
            "everywhere mean that stated confidence says little.",
            _stated_confidence,
        ),
    }
)

FIT_PICTURES: Mapping[str, PictureWords[Tables]] = MappingProxyType(
    {
        "levels": PictureWords(
            "Whom does it listen to?",
            "Left: how much each level counts; on the dashed line all count alike. Right, if there: how its "
            "confidences are moved; left of 0 they are taken for less than stated. A bar is what the labelled "
            "questions leave open.",
            _levels,
        ),
        "calibration_curves": PictureWords(
            "What is a stated confidence taken for?",
            "On the dashed line it is taken at its word, below it for less. A flat curve means that it makes no "
            "difference what was stated. Only where there are grey bars was anything learned.",
            _calibration_curves,
        ),
        "shared": PictureWords(
            "What all levels share",
            "For those who know the model: each number on a scale of its own. The slope says how much stated "
            "confidences matter at all (0: not).",
            _shared,
        ),
        "recalibration": PictureWords(
            "The last step, from support to probability",
            "The evidence is added up to a support, and this curve makes it a probability of being right. On the "
            "dashed line support is left as it is; a flatter curve says that it was too sure, a steeper one too "
            "timid.",
            _recalibration,
        ),
    }
)
