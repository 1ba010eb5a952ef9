"""How well NUTS explores the posterior of each file with its defaults, and at what cost.

    python -m tests.benchmarks.posterior svamp.jsonl judges.jsonl simulate:7473 --labels 400 100 --seeds 2

From each file that many labelled questions are taken at random, by the seed of the draws; a file with fewer is passed
over (without --labels: all). R-hat is the largest, bulk and tail effective draws are the smallest of all parameters.
The processor time is that of compilation, warm-up and draws. With --against-numpyro it is said how far means and
quantiles are from those of numpyro's own NUTS, in standard errors. Lines that the file of --out has are not measured
again.
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
from numpyro.infer import MCMC, NUTS

from bayes_direag import LikelihoodData, Observations, simulate_observations
from bayes_direag import preset as model
from bayes_direag.inference.nuts import nuts_draws
from bayes_direag.model.models import model_of
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.unconstrained import Model, UnconstrainedDraws, parameter_sites
from tests.benchmarks.common import Row, parser, shuffled

#: What a run by the defaults should reach.
RHAT, BULK, TAIL = 1.01, 400, 200


def numpyro_draws(model: Model, data: LikelihoodData, *, num_warmup: int, num_samples: int) -> UnconstrainedDraws:
    """Return draws of numpyro's own NUTS, four chains on the program as it stands, with a mass matrix of its own."""
    with jax.enable_x64(True):
        kernel = NUTS(model, dense_mass=True, target_accept_prob=0.95)
        steps = {"num_warmup": num_warmup, "num_samples": num_samples, "num_chains": 4, "progress_bar": False}
        chains = MCMC(kernel, **steps, chain_method="sequential")
        chains.run(jax.random.key(1), data)
        sites = chains.get_samples(group_by_chain=True)
    return {name: np.asarray(sites[name]) for name in parameter_sites(model, data) if name in sites}


def largest_difference(first: UnconstrainedDraws, second: UnconstrainedDraws) -> float:
    """Return how far means and 5, 50 and 95 % quantiles differ at most, in Monte Carlo standard errors."""
    both = [arviz_base.convert_to_dataset({name: draws[name] for name in first}) for draws in (first, second)]
    chains, worst = ("chain", "draw"), 0.0
    for prob in (None, 0.05, 0.5, 0.95):
        method = "mean" if prob is None else "quantile"
        figures = [draws.mean(chains) if prob is None else draws.quantile(prob, chains) for draws in both]
        errors = [arviz_stats.mcse(draws, method=method, prob=prob) for draws in both]
        distances = abs(figures[0] - figures[1]) / np.sqrt(errors[0] ** 2 + errors[1] ** 2)
        worst = max(worst, *(float(distance.max()) for distance in distances.data_vars.values()))
    return worst


def measured(
    path: Path, labels: int | None, seed: int, preset: str, sampling: SamplingSettings, *, against_numpyro: bool = False
) -> Iterator[Row]:
    """Yield the figures of a run, if the file has so many labelled questions."""
    kind, _, number = path.name.partition(":")
    observations = simulate_observations(int(number), seed=0) if kind == "simulate" else Observations.read(path)
    rows = np.sort(shuffled(observations, seed)[:labels])
    if labels and len(rows) < labels:
        return
    data = LikelihoodData.of(observations.select(rows), preset=preset)
    start = time.process_time()
    draws = nuts_draws(model_of(model(preset)), data.counted(), sampling=sampling, seed=seed)
    seconds = time.process_time() - start
    tree = arviz_base.from_dict({"posterior": draws.unconstrained})
    table = arviz_stats.summary(tree, kind="diagnostics", round_to="none")
    bulk, tail = table["ess_bulk"].min(), table["ess_tail"].min()
    n_diverged, rhat = int(draws.stats["diverging"].sum()), table["r_hat"].max()
    further = {}
    if against_numpyro:
        own = numpyro_draws(model_of(model(preset)), data, num_warmup=1000, num_samples=2000)
        further = {"differs": round(largest_difference(draws.unconstrained, own), 2)}
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
        **further,
    }


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the median and the worst of each figure by the number of labels, and which files miss a limit."""
    names = ["r_hat", "bulk", "tail", "divergences", "gradients", "cpu_s"]
    tables = {}
    for labels, runs in rows.groupby("labels"):
        worst = {name: runs[name].min() if name in ("bulk", "tail") else runs[name].max() for name in names}
        missing = ", ".join(sorted(set(runs.loc[~runs["fine"], "file"]))) or "none"
        of_both = {"median": runs[names].median().to_dict(), "worst": worst}
        tables |= {(labels, kind): {"runs": len(runs)} | of | {"miss": missing} for kind, of in of_both.items()}
    return pd.DataFrame.from_dict(tables, orient="index")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--preset", default="bayes")
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments.add_argument("--labels", type=int, nargs="+", default=[None])
    arguments.add_argument("--against-numpyro", action="store_true")
    arguments.add_argument("--out", type=Path, help="a table (CSV) to add each line to, and to go on with")
    for name, field in SamplingSettings.model_fields.items():
        arguments.add_argument("--" + name.removeprefix("num_").replace("_", "-"), type=type(field.default), dest=name)
    given = arguments.parse_args()
    chosen = {name: getattr(given, name) for name in SamplingSettings.model_fields if getattr(given, name)}
    sampling = SamplingSettings(**chosen)
    numpyro.set_host_device_count(sampling.num_chains)
    warnings.simplefilter("ignore")
    rows = pd.read_csv(given.out) if given.out and given.out.exists() else pd.DataFrame()
    known = set(rows[["file", "labels", "seed"]].itertuples(index=False, name=None)) if len(rows) else set()
    for seed, labels, path in product(given.seeds, given.labels, given.files):
        if (path.stem, labels, seed) in known:
            continue
        found = measured(path, labels, seed, given.preset, sampling, against_numpyro=given.against_numpyro)
        for row in found:
            print(" ".join(f"{name} {value}" for name, value in row.items()), flush=True)
            rows = pd.concat([rows, pd.DataFrame([row])], ignore_index=True)
            if given.out:
                rows.to_csv(given.out, index=False)
        jax.clear_caches()
    print(summary(rows).to_string())


if __name__ == "__main__":
    main()
