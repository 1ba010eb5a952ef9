"""How well NUTS explores the posterior of each file, and at what cost, for several seeds.

    python -m tests.benchmarks.posterior svamp.jsonl judges.jsonl simulate:7473 --seeds 3 --warmup 250

R-hat is the largest, the effective sample size (bulk or tail) the smallest of all parameters. The processor time is
that of warm-up and draws; for the first seed of a file compilation comes on top.
"""

import time
import warnings

import arviz_base
import arviz_stats
import numpyro

from bayes_direag import LikelihoodData, Observations, simulate_observations
from bayes_direag import preset as model
from bayes_direag.inference.nuts import nuts_draws
from bayes_direag.model.models import model_of
from bayes_direag.model.settings import SamplingSettings
from tests.benchmarks.common import parser


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--preset", default="bayes")
    arguments.add_argument("--seeds", type=int, default=3)
    for name, field in SamplingSettings.model_fields.items():
        arguments.add_argument("--" + name.removeprefix("num_").replace("_", "-"), type=type(field.default), dest=name)
    given = arguments.parse_args()
    chosen = {name: getattr(given, name) for name in SamplingSettings.model_fields if getattr(given, name)}
    numpyro.set_host_device_count(chosen.get("num_chains", 4))
    warnings.simplefilter("ignore")
    print("file                            seed   CPU s  gradients a draw   R-hat     ESS  divergences")
    for path in given.files:
        kind, _, number = path.name.partition(":")
        observations = simulate_observations(int(number), seed=0) if kind == "simulate" else Observations.read(path)
        data = LikelihoodData.of(observations, preset=given.preset).counted()
        for seed in range(given.seeds):
            start = time.process_time()
            draws = nuts_draws(model_of(model(given.preset)), data, sampling=SamplingSettings(**chosen), seed=seed)
            seconds = time.process_time() - start
            tree = arviz_base.from_dict({"posterior": draws.unconstrained})
            table = arviz_stats.summary(tree, kind="all", round_to="none")
            size = table[["ess_bulk", "ess_tail"]].min(axis=None)
            cost = f"{seconds:7.1f} {draws.stats['n_steps'].mean():17.1f}"
            found = f"{table['r_hat'].max():7.4f} {size:7.0f} {draws.stats['diverging'].sum():12d}"
            print(f"{path.name[:30]:31s} {seed:4d} {cost} {found}", flush=True)


if __name__ == "__main__":
    main()
