"""What pooling gives a setting with few labels, and what it costs.

``python tests/benchmarks/pooling_settings.py --simulated 3 --out pooling.md FILE FILE ...``

Every file in turn is the new setting, with a few labels or none, and the others have 300 each; it is fitted with them
(``direag fit --pool``) and alone (``direag fit --method nuts``), and tested on 500 further questions of its own. Then
simulated worlds of four settings: in the first kind all four are alike, half as far apart as is expected beforehand; in
the second the fourth is a stranger, with a centre of its own. NLL clips confidences to 0.01..0.99, width is that of the
90 % intervals; means over splits, or worlds.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from analysis.methods.calibrations import CLIP
from analysis.scores.metrics import nll
from bayes_direag.data.observations import Observations
from bayes_direag.fits.convergence import convergence, raw_draws
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_nuts
from bayes_direag.fits.multi_setting import fit_multi_setting, levels_apart
from bayes_direag.model.model import natural_parameters, raw_priors
from bayes_direag.model.multi_setting import settings_from
from bayes_direag.model.presets import preset
from bayes_direag.model.settings import LEVEL_PARAMETERS, SamplingSettings
from bayes_direag.model.simulate import LEVEL_NAMES, simulate_observations

SAMPLING = SamplingSettings(n_chains=2, n_warmup=300, n_draws=300)
BAYES = levels_apart(preset("bayes"))
OLD, TESTED = 300, 500
HALF_AS_FAR = 0.5
COLUMNS = ("nll pooled", "alone", "accuracy pooled", "alone", "width pooled", "alone")


def measured(fit: Fit, test: Observations) -> tuple[float, float, float]:
    """Return NLL, accuracy and mean width."""
    table = fit.predict(test)
    right = test.is_right(table["answer"])
    width = (table["confidence_high"] - table["confidence_low"]).mean()
    return nll(table["confidence"].clip(CLIP, 1 - CLIP), right), float(right.mean()), float(width)


def both_ways(old: dict[str, Observations], own: Observations, n: int) -> tuple[list[float], float, float]:
    """Return the columns of a row, and largest R-hat and divergences of the pooled fit.

    The first ``n`` of the new setting's own questions are learned from, the others tested.
    """
    labelled, test = own.select(slice(0, n)), own.select(slice(n, None))
    pooled = fit_multi_setting({**old, "the new one": labelled}, sampling=SAMPLING, seed=1)
    together = measured(pooled.settings["the new one"], test)
    alone = measured(fit_nuts(labelled, sampling=SAMPLING, seed=1), test) if n else (np.nan,) * 3
    some = pooled.settings[next(iter(old))]
    rhat = float(convergence(raw_draws(some))["rhat"].max())
    row = [value for pair in zip(together, alone, strict=True) for value in pair]
    return row, rhat, float(some.tree["sample_stats"]["diverging"].sum())


def worlds(stranger: bool, seed: int) -> list[Observations]:
    """Simulate four settings."""
    key = jax.random.key(seed)
    raw: dict[str, jax.Array] = {}
    for name, prior in raw_priors(BAYES, "confidence", len(LEVEL_NAMES), 1.0).items():
        key, one, other = jax.random.split(key, 3)
        shape = (len(LEVEL_NAMES),) if name in LEVEL_PARAMETERS else ()
        values = settings_from(jnp.asarray(HALF_AS_FAR), jax.random.normal(one, (4, *shape)), prior)
        own = settings_from(jnp.asarray(HALF_AS_FAR), jax.random.normal(other, (1, *shape)), prior)
        raw[name] = jnp.concatenate([values[:3], own]) if stranger else values
    found = []
    for setting in range(4):
        parameters = natural_parameters({name: value[setting] for name, value in raw.items()}, BAYES, "confidence")
        found.append(simulate_observations(OLD + TESTED, seed=100 * seed + setting, parameters=parameters))
    return found


def cases(options: argparse.Namespace) -> Iterator[tuple[str, int, dict[str, Observations], Observations]]:
    """Yield what the new setting is, its number of labels, the others, and its questions, the last to be tested on."""
    sets = {path.stem: Observations.read(path) for path in options.files}
    for name, everything in sets.items():
        for n in (0, 10, 30, 50):
            for split in range(options.splits):
                rng = np.random.default_rng(split)
                usable = rng.permutation(np.flatnonzero(everything.labelled & everything.answered))
                own = everything.select(np.concatenate([usable[:n], usable[n : n + TESTED]]))
                old = {}
                for other, questions in sets.items():
                    if other != name:
                        rows = rng.permutation(np.flatnonzero(questions.labelled & questions.answered))
                        old[other] = questions.select(rows[:OLD])
                yield name, n, old, own
    for stranger in (False, True):
        for n in (10, 30, 80):
            for seed in range(options.simulated):
                *others, own = worlds(stranger, seed + 1)
                old = {f"setting {number}": one.select(slice(0, OLD)) for number, one in enumerate(others)}
                last = own.select(np.r_[0:n, OLD : OLD + TESTED])
                yield "simulated, a stranger" if stranger else "simulated, alike", n, old, last


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help="observation files, two or more, or none")
    parser.add_argument("--splits", type=int, default=2, help="random splits of each file")
    parser.add_argument("--simulated", type=int, default=0, help="simulated worlds of each kind")
    parser.add_argument("--out", type=Path, required=True, help="Markdown table")
    options = parser.parse_args()
    rows: dict[tuple[str, int], list[list[float]]] = {}
    worst, diverging = 0.0, 0.0
    for name, n, old, own in cases(options):
        row, rhat, divergences = both_ways(old, own, n)
        rows.setdefault((name, n), []).append(row)
        worst, diverging = max(worst, rhat), diverging + divergences
        print(name, n, *(f"{value:.3f}" for value in row), flush=True)
    lines = [f"| the new setting | labels | {' | '.join(COLUMNS)} | NLL better by |", "|" + " --- |" * 9]
    for (name, n), found in rows.items():
        mean = np.mean(found, axis=0)
        gained = ", ".join(f"{row[1] - row[0]:.3f}" for row in found) if n else ""
        figures = " | ".join("" if np.isnan(value) else f"{value:.3f}" for value in mean)
        lines.append(f"| {name} | {n} | {figures} | {gained} |")
    lines.append(f"\nLargest R-hat {worst:.3f}; {diverging:.0f} divergences in all pooled fits.")
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
