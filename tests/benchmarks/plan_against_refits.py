"""What `direag plan` foretells, against fits with the labels bought.

``python tests/benchmarks/plan_against_refits.py --simulated 3 --out plan.md FILE ...``

Of every set a fit learns from some random questions; its plan, for questions left over, says how wide intervals will be
with more labels. The questions are then labelled, and fitted to: more random ones, and as many as the plan finds most
worth labelling. Widths and NLL are measured on questions that none of the fits has learned from.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from analysis.planning.plan import plan
from bayes_direag.data.observations import Observations
from bayes_direag.fits.answering import answer
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_nuts
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations

SAMPLING = SamplingSettings(n_chains=2, n_warmup=400, n_draws=500)
TARGET = 0.8
HEADER = (
    "| set | labels | width now | foretold | came | NLL change foretold | came | answered foretold | came |"
    " worth of the chosen | width foretold for these | came | same number, random |\n|" + " --- |" * 13 + "\n"
)


def sets(options: argparse.Namespace) -> Iterator[tuple[str, Observations]]:
    n = options.labels + options.more + 900
    for seed in range(options.simulated):
        yield f"simulated {seed}", simulate_observations(n, seed=100 + seed)
    for path in options.files:
        everything = Observations.read(path)
        order = np.random.default_rng(7).permutation(np.flatnonzero(everything.labelled))
        yield path.stem, everything.select(order[:n])


def measured(fit: Fit, test: Observations) -> tuple[float, float, float]:
    """Return the mean width, the NLL, and the share answered with a threshold from the fit's own labels."""
    predictions = fit.predict(test)
    confidence = predictions["confidence"].clip(1e-6, 1 - 1e-6).to_numpy()
    right = test.is_right(predictions["answer"])
    nll = -np.log(np.where(right, confidence, 1 - confidence)).mean()
    found = answer(fit, test, predictions, target=TARGET)
    width = (predictions["confidence_high"] - predictions["confidence_low"]).mean()
    return float(width), float(nll), found.decision.n_answered / len(test)


def compared(name: str, observations: Observations, options: argparse.Namespace) -> str:
    observations = observations.select(np.flatnonzero(observations.answered))
    test = observations.select(slice(len(observations) - 400, None))
    pool = observations.select(slice(0, len(observations) - 400))
    start, n = options.labels, options.chosen

    def refit(rows: np.ndarray) -> tuple[float, float, float]:
        return measured(fit_nuts(pool.select(rows), sampling=SAMPLING, seed=2), test)

    known = np.arange(start)
    fit = fit_nuts(pool.select(known), sampling=SAMPLING, seed=1)
    now = measured(fit, test)
    foretold = plan(fit, test, more=[0, options.more], n_worth=0, target=TARGET).curve
    candidates = plan(fit, pool.select(slice(start, None)), more=[0], n_worth=n, target=TARGET)
    equivalent = round(candidates.worth["worth"].sum())
    for_chosen = plan(fit, test, more=[equivalent], n_worth=0, target=TARGET).curve["width"].iloc[0]
    place = {problem: row for row, problem in enumerate(pool.problem_id)}
    chosen = np.array([place[problem] for problem in candidates.worth["problem_id"]])
    later = refit(np.arange(start + options.more))
    with_chosen, with_random = refit(np.concatenate([known, chosen])), refit(np.arange(start + n))
    nll = foretold["nll"].to_numpy()
    cells = [
        name,
        f"{start} + {options.more}",
        f"{now[0]:.3f}",
        f"{foretold['width'].iloc[1]:.3f}",
        f"{later[0]:.3f}",
        f"{nll[1] - nll[0]:+.4f}",
        f"{later[1] - now[1]:+.4f}",
        f"{foretold['answered'].iloc[1]:.2f}",
        f"{later[2]:.2f}",
        f"{n} = {equivalent}",
        f"{for_chosen:.3f}",
        f"{with_chosen[0]:.3f}",
        f"{with_random[0]:.3f}",
    ]
    return "| " + " | ".join(cells) + " |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "files", nargs="*", type=Path, help="labelled observation files of a thousand questions or more"
    )
    parser.add_argument("--simulated", type=int, default=3, help="number of simulated sets")
    parser.add_argument("--labels", type=int, default=100, help="labelled questions to begin with")
    parser.add_argument("--more", type=int, default=200, help="random questions labelled later")
    parser.add_argument("--chosen", type=int, default=50, help="questions most worth labelling that are labelled")
    parser.add_argument("--out", type=Path, required=True, help="where to write the table, as it grows")
    options = parser.parse_args()
    options.out.write_text(HEADER)
    for name, observations in sets(options):
        line = compared(name, observations, options)
        with options.out.open("a") as file:
            file.write(line)


if __name__ == "__main__":
    main()
