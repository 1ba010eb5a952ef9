"""What the scripts share: their arguments, random splits of a file, the benefit, and rows that are kept in a file."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_direag import Fit, Observations

type Row = dict[str, object]


def parser(text: str | None, *, splits: int | None = None, files: str = "+") -> argparse.ArgumentParser:
    """Return a parser of files, and of a number of splits, whose help is a module's text."""
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("files", type=Path, nargs=files, help="labelled observation files")
    if splits is not None:
        made.add_argument("--splits", type=int, default=splits)
    return made


def shuffled(observations: Observations, seed: int) -> np.ndarray:
    """Return the rows of the labelled, answered questions in random order."""
    return np.random.default_rng(seed).permutation(np.flatnonzero(observations.labelled & observations.answered))


def stated(fit: Fit, questions: Observations) -> tuple[np.ndarray, np.ndarray]:
    """Return which answers of a fit are right, and their probabilities, 0 for no answer."""
    table = fit.predict(questions, warn=False)
    return questions.is_right(table["answer"]), table["probability"].fillna(0.0).to_numpy()


def benefit(right: np.ndarray, said: np.ndarray) -> float:
    """Return accuracy minus Brier score."""
    return float(right.mean() - np.mean((said - right) ** 2))


def kept_rows(
    path: Path, files: Iterable[Path], measure: Callable[[Path], Iterable[dict[str, object]]]
) -> pd.DataFrame:
    """Return a row for each figure, with its file; what is in ``path`` is not measured again, the rest is added there.

    To repeat a file, delete its rows.
    """
    rows = pd.read_csv(path) if path.exists() else pd.DataFrame({"file": []})
    for file in files:
        if file.stem not in set(rows["file"]):
            rows = pd.concat([rows, pd.DataFrame(measure(file)).assign(file=file.stem)], ignore_index=True)
            rows.to_csv(path, index=False)
    return rows
