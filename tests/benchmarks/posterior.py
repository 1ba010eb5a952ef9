"""How well NUTS explores the posterior of each file, and at what cost, for several seeds.

R-hat is the largest, the effective sample size (bulk or tail) the smallest of all free parameters. The processor time
is that of warm-up and draws; for the first seed of a file compilation comes on top.

    python -m tests.benchmarks.posterior svamp.jsonl judges.jsonl simulate:7473 --seeds 3 --warmup 250
"""

import argparse
import time

import arviz_stats

from bayes_direag import LikelihoodData, Observations, simulate_observations
from bayes_direag import preset as model
from bayes_direag.inference.nuts import nuts_draws
from bayes_direag.model.models import model_of
from bayes_direag.model.settings import SamplingSettings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="files of labelled observations, or simulate:N; with :PRESET or not")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=SamplingSettings().n_warmup)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--target-accept", type=float, default=SamplingSettings().target_accept)
    arguments = parser.parse_args()
    sampling = SamplingSettings(
        n_chains=arguments.chains,
        n_warmup=arguments.warmup,
        n_draws=arguments.draws,
        target_accept=arguments.target_accept,
    )
    print("file                            preset   seed   CPU s  gradients a draw   R-hat     ESS  divergences")
    for source in arguments.files:
        name, preset, data = labelled(source)
        for seed in range(arguments.seeds):
            start = time.process_time()
            draws = nuts_draws(model_of(model(preset)), data, sampling=sampling, seed=seed)
            seconds = time.process_time() - start
            tables = [largest_rhat_and_smallest_ess(values) for values in draws.raw.values()]
            rhat, size = max(one[0] for one in tables), min(one[1] for one in tables)
            gradients, divergences = float(draws.stats["n_steps"].mean()), int(draws.stats["diverging"].sum())
            row = f"{seconds:7.1f} {gradients:17.1f} {rhat:7.4f} {size:7.0f} {divergences:12d}"
            print(f"{name[:30]:31s} {preset:8s} {seed:4d} {row}", flush=True)


def labelled(source: str) -> tuple[str, str, LikelihoodData]:
    """Return a name, the preset, and the data of the fit."""
    if source.startswith("simulate:"):
        _, number, *chosen = source.split(":")
        name, observations = f"simulated {number}", simulate_observations(int(number), seed=0)
    else:
        path, *chosen = source.split(":")
        name, observations = path.rpartition("/")[2], Observations.read(path)
    preset = chosen[0] if chosen else "bayes"
    return name, preset, LikelihoodData.of(observations, preset=preset).counted()


def largest_rhat_and_smallest_ess(values) -> tuple[float, float]:
    """Return both over the elements of a parameter (chain, draw, ...)."""
    each = values.reshape(*values.shape[:2], -1)
    columns = [each[..., element] for element in range(each.shape[2])]
    rhat = max(float(arviz_stats.rhat(column)) for column in columns)
    bulk = min(float(arviz_stats.ess(column, method="bulk")) for column in columns)
    tail = min(float(arviz_stats.ess(column, method="tail", prob=(0.05, 0.95))) for column in columns)
    return rhat, min(bulk, tail)


if __name__ == "__main__":
    main()
