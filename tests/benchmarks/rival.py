"""How often ``direag fit`` says that a regression on two labels is clearly better, and how often that is true.

    python -m tests.benchmarks.rival FILES --labels 30 100 --splits 4

A fit to that many labelled questions says it or not; the others show the difference in benefit, with its interval.
Files whose answers are not two labels are passed over.
"""

import numpy as np
import pandas as pd

from analysis.methods.label_logistic import has_two_labels, label_logistic
from analysis.rival import rival_remark
from analysis.scores.paired import paired_table
from analysis.scores.scoring import Scored
from bayes_direag import Observations, fit_map
from tests.benchmarks.common import parser, shuffled, stated


def measured(observations: Observations, labels: int, split: int) -> dict[str, object]:
    """Return what is said of a fit, and the benefit of the regression less that of the fit on other questions."""
    order = shuffled(observations, split)
    labelled, others = (observations.select(np.sort(rows)) for rows in (order[:labels], order[labels:]))
    fit = fit_map(labelled)
    right, said = stated(fit, others)
    answers = label_logistic(labelled, 0)(others)
    sides = Scored(said, right), Scored(answers.confidence, answers.is_right(others))
    (row,) = paired_table(*sides, metrics=["benefit"], seed=0, level=0.9).to_dict("records")
    said_so = bool(rival_remark(fit))
    return {
        "labels": labels,
        "split": split,
        "said": said_so,
        **{key: row[key] for key in ("difference", "low", "high")},
    }


def main() -> None:
    arguments = parser(__doc__, splits=4)
    arguments.add_argument("--labels", type=int, nargs="+", default=[30, 100])
    given = arguments.parse_args()
    rows = []
    for path in given.files:
        observations = Observations.read(path)
        if has_two_labels(observations):
            for labels in given.labels:
                rows += [measured(observations, labels, split) | {"file": path.stem} for split in range(given.splits)]
    table = pd.DataFrame(rows)
    print(table.to_string(float_format="{:.3f}".format))
    table = table.assign(better=table["difference"] > 0, clearly=table["low"] > 0)
    print(table.groupby("said")[["better", "clearly"]].agg(["size", "sum"]).to_string())


if __name__ == "__main__":
    main()
