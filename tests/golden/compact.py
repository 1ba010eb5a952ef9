"""Make the golden files of this folder from a folder of reference figures: ``python compact.py REFERENCE``.

REFERENCE holds, for each set, ``NAME.jsonl`` (observations in the released implementation's form),
``NAME.configs.csv`` (its fitted parameters), ``NAME.predictions.csv`` and ``NAME.metrics.csv``; see README.md here for
where the figures come from.
"""

import sys
from pathlib import Path

import pandas as pd

from bayes_direag.data.files import read_questions, write_questions

HERE = Path(__file__).parent
METHODS = {
    "majority": "majority",
    "mean_conf": "mean_confidence",
    "steerconf": "steerconf",
    "mle_dirichlet_count": "count",
    "mle_dirichlet_count_platt": "count_calibrated",
    "mle_dirichlet_level_bias": "level",
    "mle_dirichlet_level_bias_platt": "level_calibrated",
    "mle_dirichlet_qcal": "confidence",
    "mle_dirichlet_qcal_platt": "direag",
}
METRICS = {"auprc_positive": "pr_positive", "auprc_negative": "pr_negative"}
VARIANTS = {"count": "count", "level_bias": "level", "qcal": "confidence"}


def main(reference: Path) -> None:
    """Write the compact form of every set."""
    for name in ("strong", "mid", "weak", "train", "test"):
        write_questions(read_questions(reference / f"{name}.jsonl"), HERE / f"{name}.parquet")
    lines = (reference / "weak.jsonl").read_text().splitlines(keepends=True)
    (HERE / "released_form.jsonl").write_text("".join(lines[:40]))
    for name in ("strong", "mid", "weak", "train"):
        configs = pd.read_csv(reference / f"{name}.configs.csv", dtype={"fold": "str"})
        configs = configs.assign(variant=configs["mode"].map(VARIANTS))
        columns = ["fold", "variant", "null_target_weight", "cal_categorical_nll", "raw_params_json"]
        configs[columns].to_csv(HERE / f"{name}.configs.csv", index=False)
        predictions = pd.read_csv(
            reference / f"{name}.predictions.csv", dtype={"fold": "str", "pred_answer_norm": "str"}
        )
        predictions = predictions.assign(method=predictions["method"].map(METHODS)).rename(
            columns={"pred_answer_norm": "answer"}
        )
        columns = ["problem_id", "fold", "method", "answer", "confidence", "correct"]
        predictions[columns].to_parquet(HERE / f"{name}.predictions.parquet", index=False)
        metrics = pd.read_csv(reference / f"{name}.metrics.csv").rename(columns=METRICS)
        metrics = metrics.assign(method=metrics["method"].map(METHODS)).drop(columns=["dataset", "mean_confidence"])
        metrics.to_csv(HERE / f"{name}.metrics.csv", index=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
