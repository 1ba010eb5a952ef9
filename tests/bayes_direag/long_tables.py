"""Long-form tables with all that is normal in practice, drawn at random."""

import numpy as np
import pandas as pd

ANSWERS = {
    "numeric": ("7", "7.0", "$12", "-3", "0", "twelve", "3:4", " ", "", "1e3", "1,000", None),
    "choice": ("A", "(b)", "B.", "c", "Answer: A", "none of them", "", None),
    "text": ("Paris", "paris ", "PARIS", "new  york", "New York", "é", "Z", "\t", None),
}
GOLDS = {"numeric": ("7", "12.0", "5"), "choice": ("A", "b", "(C)"), "text": ("paris", "rome", "É")}


def long_table(kind: str, n: int = 40, seed: int = 0, *, flagged: bool = True) -> pd.DataFrame:
    """Draw questions: levels missing and in any order, answers unreadable, blank or null, some unlabelled or silent."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, object]] = []
    for number in range(n):
        about = {"problem_id": f"q{number}", "dataset": rng.choice(["first", "second"])}
        if rng.random() < 0.7:
            about["gold_answer"] = rng.choice(GOLDS[kind])
        flags = flagged and (number % 3 == 0 or "gold_answer" in about)
        levels = rng.permutation(4)[: rng.integers(0, 5)]
        if not len(levels):
            rows.append(about)
        for level in levels.tolist():
            row: dict[str, object] = {"level": level, "answer": rng.choice(np.array(ANSWERS[kind], object))}
            if rng.random() < 0.8:
                row["level_name"] = f"level {'dcba'[level]}"
            if rng.random() < 0.9:
                row["confidence"] = float(rng.choice([0, 10, 50, 99.9, 100]))
            if flags and (number % 3 == 0 or rng.random() < 0.5):
                row["correct"] = bool(rng.random() < 0.5)
            rows.append({**about, **row})
    columns = ["problem_id", "level", "level_name", "answer", "confidence", "correct", "gold_answer", "dataset"]
    return pd.DataFrame(rows, columns=columns).convert_dtypes()


def rows(n: int = 24, **columns: object) -> pd.DataFrame:
    """Return a report of one level on each question."""
    plain = {"problem_id": [f"q{i}" for i in range(n)], "level": "a", "answer": "5", "gold_answer": "5"}
    return pd.DataFrame(plain | {"confidence": 80.0} | columns)
