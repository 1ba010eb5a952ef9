"""How well NUTS explores the posterior of each file with its defaults, and at what cost.

    python -m tests.benchmarks.posterior svamp.jsonl judges.jsonl simulate:7473 --labels 400 100 --seeds 2

From each file that many labelled questions are taken at random, by the seed of the draws; a file with fewer is passed
over (without --labels: all). R-hat is the largest, bulk and tail effective draws are the smallest of all parameters.
The processor time is that of compilation, warm-up and draws. Lines that the file of --out has are not measured again.
"""

import time
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import arviz_base
import arviz_stats
import jax
import numpy as np
import numpyro
import pandas as pd

from bayes_direag import LikelihoodData, Observations, simulate_observations
from bayes_direag import preset as model
from bayes_direag.inference.nuts import nuts_draws
from bayes_direag.model.models import model_of
from bayes_direag.model.settings import SamplingSettings
from tests.benchmarks.common import Row, parser, shuffled

#: What a run by the defaults should reach.
RHAT, BULK, TAIL = 1.01, 400, 200


def measured(path: Path, labels: int | None, seed: int, preset: str, sampling: SamplingSettings) -> Iterator[Row]:
    """Yield the figures of a run, if the file has so many labelled questions."""
    kind, _, number = path.name.partition(":")
    observations = simulate_observations(int(number), seed=0) if kind == "simulate" else Observations.read(path)
    rows = np.sort(shuffled(observations, seed)[:labels])
    if labels and len(rows) < labels:
        return
    data = LikelihoodData.of(observations.select(rows), preset=preset).counted()
    start = time.process_time()
    draws = nuts_draws(model_of(model(preset)), data, sampling=sampling, seed=seed)
    seconds = time.process_time() - start
    tree = arviz_base.from_dict({"posterior": draws.unconstrained})
    table = arviz_stats.summary(tree, kind="diagnostics", round_to="none")
    bulk, tail = table["ess_bulk"].min(), table["ess_tail"].min()
    n_diverged, rhat = int(draws.stats["diverging"].sum()), table["r_hat"].max()
    yield {
        "file": path.stem if kind != "simulate" else path.name,
        "labels": len(rows),
        "seed": seed,
        "cpu_s": round(seconds, 1),
        "gradients": round(float(draws.stats["n_steps"].mean()), 1),
        "r_hat": round(rhat, 4),
        "bulk": int(bulk),
        "tail": int(tail),
        "divergences": n_diverged,
        "fine": bool(rhat <= RHAT and bulk > BULK and tail > TAIL and n_diverged == 0),
    }


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--preset", default="bayes")
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments.add_argument("--labels", type=int, nargs="+", default=[None])
    arguments.add_argument("--out", type=Path, help="a table (CSV) to add each line to, and to go on with")
    for name, field in SamplingSettings.model_fields.items():
        arguments.add_argument("--" + name.removeprefix("num_").replace("_", "-"), type=type(field.default), dest=name)
    given = arguments.parse_args()
    chosen = {name: getattr(given, name) for name in SamplingSettings.model_fields if getattr(given, name)}
    sampling = SamplingSettings(**chosen)
    numpyro.set_host_device_count(sampling.num_chains)
    warnings.simplefilter("ignore")
    done = pd.read_csv(given.out) if given.out and given.out.exists() else pd.DataFrame()
    known = set(done[["file", "labels", "seed"]].itertuples(index=False, name=None)) if len(done) else set()
    for seed, labels, path in product(given.seeds, given.labels, given.files):
        if (path.stem, labels, seed) in known:
            continue
        for row in measured(path, labels, seed, given.preset, sampling):
            print(" ".join(f"{name} {value}" for name, value in row.items()), flush=True)
            if given.out:
                pd.DataFrame([row]).to_csv(given.out, mode="a", header=not given.out.exists(), index=False)
        jax.clear_caches()


if __name__ == "__main__":
    main()
