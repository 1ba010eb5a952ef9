"""How long the paper's whole fitting takes: 99 fits, baselines, metrics and their intervals, in one process.

Three models, each on GSM8K (fitted to 7,473 questions, tested on 1,319), SVAMP (5 folds of 1,000) and GSM-Hard (5 folds
of 1,319), each under three variants of evidence. The observations are simulated, of the same sizes; the clock runs over
the nine evaluations alone: a first round, in which computations are compiled, then once more.

    python tests/benchmarks/paper_workload.py
    python tests/benchmarks/paper_workload.py --profile workload.pstats
"""

import argparse
import contextlib
import cProfile
import csv
import resource
import time
from collections.abc import Iterator

from analysis.evaluation import Evaluation, evaluate
from bayes_direag import Observations, simulate_observations

GSM8K_TRAIN, GSM8K_TEST, SVAMP, GSM_HARD = 7473, 1319, 1000, 1319


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=3, help="how many models answered the questions")
    parser.add_argument("--resamples", type=int, default=1000, help="bootstrap replicates of every metric")
    parser.add_argument("--rounds", type=int, default=2, help="times the workload is done; the first one compiles")
    parser.add_argument("--profile", metavar="FILE", help="write a cProfile of the first round, to read with pstats")
    parser.add_argument("--csv", metavar="FILE", help="write the seconds of every evaluation")
    arguments = parser.parse_args()
    workload = {f"model {model}": observations(model) for model in range(arguments.models)}
    rows = []
    for number in range(1, arguments.rounds + 1):
        profile = cProfile.Profile() if arguments.profile and number == 1 else None
        with profile or contextlib.nullcontext():
            for row in one_round(workload, arguments.resamples):
                rows.append({"round": number, **row})
                print(
                    "{round}  {model:9s} {dataset:9s} wall {wall:6.2f} s  cpu {cpu:6.2f} s  {fits:3d} fits".format(
                        **rows[-1]
                    )
                )
        mine = [row for row in rows if row["round"] == number]
        wall, cpu, fits = (sum(row[name] for row in mine) for name in ("wall", "cpu", "fits"))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{number}  together            wall {wall:6.2f} s  cpu {cpu:6.2f} s  {fits:3d} fits; peak {peak:.0f} MiB"
        )
        if profile:
            profile.dump_stats(arguments.profile)
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


def observations(model: int) -> dict[str, tuple[Observations, Observations | None]]:
    """Simulate what one model said of each set of questions: those to fit to, and those to test on."""
    seed = 10 * model
    return {
        "GSM8K": (simulate_observations(GSM8K_TRAIN, seed=seed + 1), simulate_observations(GSM8K_TEST, seed=seed + 2)),
        "SVAMP": (simulate_observations(SVAMP, seed=seed + 3), None),
        "GSM-Hard": (simulate_observations(GSM_HARD, seed=seed + 4), None),
    }


def one_round(
    workload: dict[str, dict[str, tuple[Observations, Observations | None]]], n_resamples: int
) -> Iterator[dict[str, object]]:
    for model, sets in workload.items():
        for dataset, (questions, test) in sets.items():
            wall, cpu = time.perf_counter(), time.process_time()
            found: Evaluation = evaluate(questions, test, n_resamples=n_resamples)
            yield {
                "model": model,
                "dataset": dataset,
                "wall": time.perf_counter() - wall,
                "cpu": time.process_time() - cpu,
                "fits": len(found.fits),
            }


if __name__ == "__main__":
    main()
