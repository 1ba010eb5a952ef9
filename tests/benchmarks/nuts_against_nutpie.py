"""Effective draws a second: our NUTS against nutpie's, on the same density, in one session.

Both sample the log joint density of the raw parameters that a NUTS fit explores, written once, in double precision, on
four chains and the cores there are. The clock runs over warm-up and draws, not over compilation. The runs alternate,
and the median of the ratios is what counts: on a busy machine the two are slowed alike.

    pip install '.[benchmark]'
    python tests/benchmarks/nuts_against_nutpie.py observations.jsonl --repeats 3
"""

import argparse
import os
import statistics
import time

import jax
import numpy as np
import numpyro
from arviz_base import from_dict
from arviz_stats import ess

N_CHAINS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("observations", help="a file of labelled observations, or simulate:N")
    parser.add_argument("--preset", default="bayes")
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--target-accept", type=float, default=0.9)
    arguments = parser.parse_args()
    numpyro.set_host_device_count(N_CHAINS)
    jax.config.update("jax_enable_x64", True)

    data = labelled(arguments.observations, arguments.preset)
    ours = our_sampler(data, arguments)
    theirs = their_sampler(data, arguments)
    ours(0), theirs(0)
    print("run    ours: s  min ESS   ESS/s   nutpie: s  min ESS   ESS/s   ratio")
    ratios = []
    for repeat in range(1, arguments.repeats + 1):
        (our_seconds, our_size), (their_seconds, their_size) = ours(repeat), theirs(repeat)
        our_rate, their_rate = our_size / our_seconds, their_size / their_seconds
        ratios.append(our_rate / their_rate)
        print(
            f"{repeat:3d} {our_seconds:10.2f} {our_size:8.0f} {our_rate:7.0f} "
            f"{their_seconds:11.2f} {their_size:8.0f} {their_rate:7.0f} {ratios[-1]:7.2f}"
        )
    print(f"median ratio of minimum bulk ESS per second, ours / nutpie: {statistics.median(ratios):.2f}")


def labelled(source: str, preset_name: str):
    """Return the reports and labels that a NUTS fit learns from."""
    from bayes_direag import LikelihoodData, Observations, simulate_observations

    kind, _, number = source.partition(":")
    observations = simulate_observations(int(number), seed=0) if kind == "simulate" else Observations.read(source)
    fitted = observations.select(observations.labelled & observations.answered)
    print(f"{source}: {len(fitted)} labelled questions, {fitted.n_levels} levels, preset {preset_name}")
    return LikelihoodData.of(fitted, preset=preset_name)


def our_sampler(data, arguments):
    from bayes_direag.inference.nuts import nuts_draws
    from bayes_direag.model.settings import SamplingSettings

    sampling = SamplingSettings(
        n_chains=N_CHAINS, n_warmup=arguments.warmup, n_draws=arguments.draws, target_accept=arguments.target_accept
    )

    def run(seed: int) -> tuple[float, float]:
        start = time.perf_counter()
        draws = nuts_draws(preset(arguments.preset).model, data, sampling=sampling, seed=seed)
        seconds = time.perf_counter() - start
        return seconds, smallest_ess(draws.raw)

    return run


def their_sampler(data, arguments):
    import nutpie
    from jax.flatten_util import ravel_pytree
    from nutpie.compiled_pyfunc import from_pyfunc

    from bayes_direag import preset
    from bayes_direag.model.real_line import log_joint, start_and_bounds

    model = preset(arguments.preset).model
    point, unravel = ravel_pytree(start_and_bounds(model, data)[0])
    density = jax.jit(jax.value_and_grad(lambda x: log_joint(model, unravel(x), data)))
    size = len(point)
    density(np.zeros(size))

    def make_logp():
        def logp(x):
            value, gradient = density(x)
            return float(value), np.asarray(gradient)

        return logp

    def make_expand(*_):
        return lambda x: {"x": x}

    compiled = from_pyfunc(size, make_logp, make_expand, [np.dtype("float64")], [(size,)], ["x"])

    def run(seed: int) -> tuple[float, float]:
        start = time.perf_counter()
        trace = nutpie.sample(
            compiled,
            draws=arguments.draws,
            tune=arguments.warmup,
            chains=N_CHAINS,
            cores=os.cpu_count(),
            seed=seed,
            progress_bar=False,
            target_accept=arguments.target_accept,
        )
        seconds = time.perf_counter() - start
        return seconds, smallest_ess({"x": trace["posterior"]["x"].to_numpy()})

    return run


def smallest_ess(draws: dict[str, np.ndarray]) -> float:
    """Return the smallest bulk effective sample size over all raw parameters."""
    sizes = ess(from_dict({"posterior": draws})["posterior"].to_dataset(), method="bulk")
    return min(float(sizes[name].min()) for name in sizes.data_vars)


if __name__ == "__main__":
    main()
