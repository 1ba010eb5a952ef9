"""What a part of the preset gains with few labels: paired fits to the same labels, tested on the same questions.

    python -m tests.benchmarks.few_labels ../shared/data/observations/*.jsonl --without weight_agreement=null \
        vote_agreement=null

The other questions of a file count as unlabelled ones. A smaller set of labels is part of the larger ones. A row has
the mean benefit of the preset over the draws, and by how much it exceeds that of the changed preset.
"""

import argparse
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_direag import Observations
from bayes_direag.fits.fitting import fit_map_batch
from bayes_direag.model.presets import parse_overrides, preset
from bayes_direag.model.settings import Preset

MOST_TESTED = 800


def benefits(observations: Observations, settings: Preset, counts: list[int], n_draws: int) -> pd.DataFrame:
    """Return the benefit by draw and number of labels."""
    usable = np.flatnonzero(observations.labelled & observations.answered)
    orders = [np.random.default_rng(draw).permutation(usable) for draw in range(n_draws)]
    pool = np.unique([order[: counts[-1]] for order in orders])
    chosen = np.stack([np.isin(pool, order[:n]) for order in orders for n in counts])
    fits = iter(fit_map_batch(observations.with_agreement().select(pool), chosen, preset=settings))
    rows = []
    for order in orders:
        tested = observations.select(order[counts[-1] :][:MOST_TESTED])
        for fit in islice(fits, len(counts)):
            table = fit.predict(tested)
            right, said = tested.is_right(table["answer"]), table["confidence"].to_numpy()
            rows.append(right.mean() - np.mean((said - right) ** 2))
    return pd.DataFrame(np.reshape(rows, (n_draws, len(counts))), columns=counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="files of labelled observations, with :PRESET or not")
    parser.add_argument("--without", nargs="+", required=True, help="FIELD=VALUE: the preset to compare with")
    parser.add_argument("--n", type=int, nargs="+", default=[10, 30, 100])
    parser.add_argument("--draws", type=int, default=4)
    given = parser.parse_args()
    counts, gains = sorted(given.n), []
    for source in given.files:
        path, *chosen = source.split(":")
        settings, observations = preset(chosen[0] if chosen else "bayes"), Observations.read(Path(path))
        changed = settings.override(**parse_overrides(given.without))
        mine, other = (benefits(observations, one, counts, given.draws) for one in (settings, changed))
        gains.append((mine - other).mean())
        row = "  ".join(f"{mine[n].mean():.3f} {gains[-1][n]:+.4f}" for n in counts)
        print(f"{Path(path).stem[:40]:41s} {row}", flush=True)
    table = pd.DataFrame(gains)
    for name, values in {"mean": table.mean(), "standard error": table.sem(), "least": table.min()}.items():
        print(f"{name:41s} " + "  ".join(f"      {values[n]:+.4f}" for n in counts))


if __name__ == "__main__":
    main()
