"""How often the test of changed reports raises a false alarm, and finds and names a replaced level: random splits.

    python -m tests.benchmarks.drift_power FILES --splits 60 --sizes 100/100 100/300 300/300

One level, drawn at random, is taken out of the labelled questions. In the new ones its reports stand under the name of
another, as if that model had been replaced. The level is named if it is the most different one of a true alarm.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from bayes_direag import Observations
from bayes_direag.decisions.drift import Drift
from tests.benchmarks.common import parser


def of_columns(questions: Observations, columns: list[int]) -> Observations:
    """Return the reports of these columns under the names of the first ones, without groups."""
    return replace(
        questions,
        level_names=questions.level_names[: len(columns)],
        groups=None,
        candidate=questions.candidate[:, columns],
        signals={name: values[:, columns] for name, values in questions.signals.items()},
        status=questions.status[:, columns],
    )


def tested(questions: Observations, n_labelled: int, n_new: int, seed: int) -> dict[str, float]:
    """Test a split as it is and with a replaced level."""
    rng = np.random.default_rng([seed, 1])  # apart from that of the random divisions
    order = rng.permutation(len(questions))
    labelled, new = questions.select(order[:n_labelled]), questions.select(order[n_labelled : n_labelled + n_new])
    columns = rng.permutation(questions.n_levels).tolist()
    place = int(rng.integers(len(columns) - 1))
    *before, other = columns
    after = [*before[:place], other, *before[place + 1 :]]
    alike = Drift.between(labelled, new, seed=seed)
    changed = Drift.between(of_columns(labelled, before), of_columns(new, after), seed=seed)
    named = float(changed.levels["level"].iloc[0] == questions.level_names[place]) if changed.differs else np.nan
    return {"false alarm": float(alike.differs), "found": float(changed.differs), "named": named}


def main() -> None:
    arguments = parser(__doc__, splits=60)
    arguments.add_argument("--sizes", nargs="+", default=["100/100"], help="numbers of labelled and new questions")
    given = arguments.parse_args()
    for size in given.sizes:
        n_labelled, n_new = map(int, size.split("/"))
        means = {}
        for path in given.files:
            questions = Observations.read(path)
            questions = questions.select(questions.answered)
            found = [tested(questions, n_labelled, n_new, seed) for seed in range(given.splits)]
            means[path.stem] = pd.DataFrame(found).mean()
        table = pd.DataFrame(means).T
        table.loc["mean"] = table.mean()
        print(f"{size} questions, {given.splits} splits\n{table.round(3).to_string()}\n", flush=True)


if __name__ == "__main__":
    main()
