"""How a layman reads each picture of a diagnosis, and what is seen in it, for those who cannot see it."""

from collections.abc import Mapping
from types import MappingProxyType

from analysis.diagnosis.diagnostics import Diagnosis
from analysis.diagnosis.verdict import tail_in_words
from analysis.report.numbers import counted, listed, number
from analysis.report.picture_words import PictureWords
from bayes_direag.inference.loo import LARGEST_PARETO_K


def _chains(diagnosis: Diagnosis) -> str:
    return (
        "Traces of the parameters with the fewest effective draws, chain by chain, and where the draws of each chain "
        f"rank among all. The largest R-hat of all parameters is {number(diagnosis.parameters['rhat'].max())}."
    )


def _energy(diagnosis: Diagnosis) -> str:
    bfmi = [number(value, 2) for value in diagnosis.chains["bfmi"]]
    return f"For every chain a histogram of its energy and the outline of its steps; BFMI {listed(bfmi)}."


def _pairs(diagnosis: Diagnosis) -> str:
    if diagnosis.correlations.empty:
        return "No pair to draw."
    row = diagnosis.correlations.iloc[0]
    return (
        f"Clouds of draws of the most correlated pairs of parameters; first {row['first']} and {row['second']}, with a "
        f"correlation of {number(row['correlation'], 2, signed=True)}."
    )


def _learning(diagnosis: Diagnosis) -> str:
    contraction = diagnosis.parameters["contraction"].dropna()
    return (
        "Densities of every parameter before and after the labels. The share of the prior's variance that they have "
        f"removed goes from {number(contraction.min(), 2)} to {number(contraction.max(), 2)}."
    )


def _levels(diagnosis: Diagnosis) -> str:
    return (
        f"Share of the weight and bias of every level, as medians with {diagnosis.interval_level:.0%} intervals, "
        "before and after the labels."
    )


def _predictive(diagnosis: Diagnosis) -> str:
    rows = diagnosis.predictive.table
    n_out = int(((rows["observed"] < rows["low"]) | (rows["observed"] > rows["high"])).sum())
    return (
        f"Observed shares against what the fit predicts, by how the levels agree; {n_out} of {len(rows)} lie outside "
        f"their {diagnosis.interval_level:.0%} interval."
    )


def _calibration(diagnosis: Diagnosis) -> str:
    parts = [f"{name} {tail_in_words(check.tail_probability)}" for name, check in diagnosis.calibration.items()]
    return f"Reliability diagrams of questions left out. All bins together: {listed(parts)}."


def _pareto(diagnosis: Diagnosis) -> str:
    largest = number(diagnosis.worst["pareto_k"].max(), 2)
    n = counted(int(diagnosis.pareto["n"].sum()), "question")
    return f"Pareto k of {n}, with the line at {LARGEST_PARETO_K}; the largest is {largest}."


#: In the order of the report.
DIAGNOSIS_PICTURES: Mapping[str, PictureWords[Diagnosis]] = MappingProxyType(
    {
        "chains": PictureWords(
            "Do the chains agree?",
            "Each colour is one independent run of the sampler. They should look alike, overlap, and go nowhere; the "
            "lines on the right should stay in the grey band.",
            _chains,
        ),
        "energy": PictureWords(
            "Does the sampler move freely?",
            "The black outline should be about as wide as the grey histogram. Much narrower means badly explored "
            "tails.",
            _energy,
        ),
        "pairs": PictureWords(
            "What is known only together?",
            "A round cloud: two numbers are known each by itself. A narrow one: only their combination is. Crosses, "
            "if there are any, are draws that went wrong.",
            _pairs,
        ),
        "learning": PictureWords(
            "What did the labels teach?",
            "Dashed is what was believed before any label, filled what is believed after them. Where the two look "
            "the same, nothing was learned.",
            _learning,
        ),
        "levels": PictureWords(
            "How do the levels differ, before and after?",
            "Grey: before any label. Blue: after. Levels whose blue bars do not overlap are told apart.",
            _levels,
        ),
        "predictive": PictureWords(
            "Would the model have produced such labels?",
            "Dots should lie on the grey bars. Diamonds lie outside; a few of many do by chance.",
            _predictive,
        ),
        "calibration": PictureWords(
            "Do the probabilities hold when a question is left out?",
            "Read it as the reliability diagram above, but of this fit: each question is predicted without its own "
            "label.",
            _calibration,
        ),
        "pareto": PictureWords(
            "Does any single question carry the result?",
            "Every dot is a question. One above the line moves the result on its own: look at it.",
            _pareto,
        ),
    }
)
