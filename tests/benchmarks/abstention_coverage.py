"""How often abstention misses its target: simulated sets, and random splits of real files.

``python tests/benchmarks/abstention_coverage.py --simulated 500 --out simulated.md``
``python tests/benchmarks/abstention_coverage.py --splits 40 --out real.md FILE ...``

In every run a fit learns from some questions, and its threshold for others comes from labelled questions that it has
not seen (``labelled``), or from those that it was fitted to (``fit``). A run misses if less than the target of the
answered new questions turn out right. The share of such runs should be at most 1 - assurance.
"""

import argparse
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits import answering
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map, fit_nuts
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations

TARGETS = (0.8, 0.9, 0.95)


def runs(options: argparse.Namespace) -> Iterator[tuple[str, Observations]]:
    """Yield what each run is about, in random order."""
    n = options.fitted + options.labelled + options.new
    for seed in range(options.simulated):
        yield "simulated", simulate_observations(n, seed=seed)
    for path in options.files:
        everything = Observations.read(path)
        usable = np.flatnonzero(everything.labelled)
        for seed in range(options.splits):
            order = np.random.default_rng(seed).permutation(usable)
            yield path.stem, everything.select(order[:n])


def fitted(observations: Observations, method: str) -> Fit:
    if method == "map":
        return fit_map(observations, preset="bayes")
    return fit_nuts(observations, sampling=SamplingSettings(n_chains=2, n_warmup=300, n_draws=300))


def outcomes(name: str, observations: Observations, options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Yield what came of a run, a row a source and target."""
    first, second = options.fitted, options.fitted + options.labelled
    fit = fitted(observations.select(slice(0, first)), options.method)
    labelled, new = observations.select(slice(first, second)), observations.select(slice(second, None))
    predictions = fit.predict(new)
    right = new.is_right(predictions["answer"])
    for target in TARGETS:
        for source, given in (("labelled", labelled), ("fit", None)):
            found = answering.answer(fit, new, predictions, given, target=target, assurance=options.assurance)
            answered = found.table["answered"].to_numpy()
            yield {
                "set": name,
                "source": source,
                "target": target,
                "answered": answered.mean(),
                "any": answered.any(),
                "missed": bool(answered.any()) and bool(right[answered].mean() < target),
            }


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the share of misses with its Clopper-Pearson interval, by set, source and target, and over all sets."""
    several = [rows, rows.assign(set="all")] if len(set(rows["set"])) > 1 else [rows]
    found = []
    for (source, target, name), part in pd.concat(several).groupby(["source", "target", "set"], sort=False):
        share = binomtest(int(part["missed"].sum()), len(part)).proportion_ci(0.95)
        some = part[part["any"]]
        found.append(
            {
                "source": source,
                "target": target,
                "set": name,
                "runs": len(part),
                "missed": f"{part['missed'].mean():.3f} [{share.low:.3f}, {share.high:.3f}]",
                "answered": f"{part['answered'].mean():.3f}",
                "runs that answer": len(some),
                "missed of these": int(some["missed"].sum()),
            }
        )
    return pd.DataFrame(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="labelled observation files")
    parser.add_argument("--simulated", type=int, default=0, help="number of simulated sets")
    parser.add_argument("--splits", type=int, default=40, help="splits of each file")
    parser.add_argument("--fitted", type=int, default=200, help="questions to fit to")
    parser.add_argument("--labelled", type=int, default=200, help="labelled questions the fit has not seen")
    parser.add_argument("--new", type=int, default=300, help="questions to answer or not")
    parser.add_argument("--method", choices=["map", "nuts"], default="map")
    parser.add_argument("--assurance", type=float, default=0.9)
    parser.add_argument("--out", type=Path, required=True, help="where to write the table, as it grows")
    options = parser.parse_args()
    answering._left_out = cache(answering._left_out)  # the same for all targets
    rows: list[dict[str, object]] = []
    for number, (name, observations) in enumerate(runs(options)):
        try:
            rows += outcomes(name, observations, options)
        except DirEAGError as error:
            print(f"run {number} left out: {error}", flush=True)
        if number % 20 == 19:
            options.out.write_text(as_markdown(table(pd.DataFrame(rows))))
    options.out.write_text(as_markdown(table(pd.DataFrame(rows))))


def as_markdown(found: pd.DataFrame) -> str:
    lines = [found.columns, ["---"] * len(found.columns), *found.to_numpy()]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    main()
