"""Whether the final calibration was tuned: what the width of its prior and its votes are worth, file by file.

``python tests/benchmarks/calibration_choices.py --out choices.md FILE ...``

Of every file a MAP under ``bayes`` learns from 30, 100, ... labelled questions and is tested on others, in the splits
of ``direag learning-curve``. The final calibration then learns from its out-of-fold support, with every width of the
prior, with and without votes. The table has the mean NLL of the tested questions over all splits and numbers of labels,
and which choice is best on all *other* files together.
"""

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.learning_curve.splits import draw_splits
from analysis.methods.calibrations import CLIP
from analysis.scores.metrics import nll
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fitting import HeldOut, cross_fit, train_test
from bayes_direag.inference.recalibration import Selected, Votes, recalibrate
from bayes_direag.model.presets import preset
from bayes_direag.model.settings import RecalibrationSettings

WIDTHS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
CHOICES = tuple(product((True, False), WIDTHS))
LABELS = (30, 100, 300, 1000)
UNCALIBRATED = preset("bayes").override(recalibration={"method": "none"})


def selected(observations: Observations, held_out: list[HeldOut]) -> Selected:
    """Put together what the answer of each question got from the fit that predicts it, as a batch of one."""
    rows = pd.concat([one.predictions.set_axis(one.index) for one in held_out]).sort_index()
    pairs = zip(observations.candidates, rows["answer"], strict=True)
    place = np.array([own.index(answer) for own, answer in pairs])
    votes = Votes.of(observations.candidate, place[None])
    return Selected(rows["support"].to_numpy()[None], observations.is_right(rows["answer"])[None], votes)


def held_out(path: Path, n_splits: int) -> Iterator[list[float]]:
    """Yield, for every split and number of labels, the NLL of every choice."""
    observations = Observations.read(path)
    splits = draw_splits(observations, LABELS, n_splits=n_splits, seed=0)
    for split, n in product(range(n_splits), splits.label_counts):
        learned, tested = (observations.select(rows) for rows in (splits.learned(split, n), splits.tested(split)))
        seen = selected(learned, cross_fit(learned, preset=UNCALIBRATED))
        new = selected(tested, train_test(learned, tested, preset=UNCALIBRATED))
        row = []
        for votes, width in CHOICES:
            settings = RecalibrationSettings(scale=width, votes=votes)
            final = recalibrate(seen, np.ones(seen.correct.shape, bool), settings)[0]
            row.append(nll(np.clip(final(new.support, new.votes)[0], CLIP, 1 - CLIP), new.correct[0]))
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="observation files, at least two")
    parser.add_argument("--splits", type=int, default=20, help="random splits of each file")
    parser.add_argument("--out", type=Path, required=True, help="Markdown table")
    options = parser.parse_args()
    means = {}
    for path in options.files:
        means[path.stem] = np.mean(list(held_out(path, options.splits)), axis=0)
        print(path.stem, *(f"{value:.4f}" for value in means[path.stem]), flush=True)
    names = [f"{'votes' if votes else 'no votes'}, {width:g}" for votes, width in CHOICES]
    lines = [f"| file | {' | '.join(names)} | best on the others |", "|" + " --- |" * (len(names) + 2)]
    for name, own in means.items():
        others = np.mean([value for other, value in means.items() if other != name], axis=0)
        figures = " | ".join(f"{value:.4f}" for value in own)
        lines.append(f"| {name} | {figures} | {names[int(others.argmin())]} |")
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
