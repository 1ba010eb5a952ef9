"""The ways in which the same questions reach a fit."""

from pathlib import Path

import pandas as pd
import pytest

from bayes_direag import Fit, Observations, Predictor
from bayes_direag.fits.streaming import predict_file


def assert_every_door_says_the_same(fit: Fit, observations: Observations, folder: Path) -> None:
    """Predict from files of each format, a frame, a stream, a saved fit, and an exported predictor."""
    expected = fit.predict(observations)
    for name in ("all.jsonl", "all.csv", "all.parquet"):
        observations.write(folder / name)
        pd.testing.assert_frame_equal(fit.predict(folder / name), expected)
        assert Observations.read(folder / name).fingerprint == observations.fingerprint
    records = [question.model_dump(mode="json") for question in observations.questions]
    for given in (observations.to_frame(), records, observations.to_frame().to_dict("records"), str(folder / name)):
        pd.testing.assert_frame_equal(fit.predict(given), expected)
    predict_file(fit, folder / "all.parquet", folder / "streamed.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "streamed.parquet"), expected, check_dtype=False)
    fit.save(folder / "fit.nc")
    loaded = Fit.load(folder / "fit.nc")
    pd.testing.assert_frame_equal(loaded.predict(observations), expected)
    assert loaded.predict(loaded.fitted)["support"].tolist() == expected["support"].tolist()
    fit.export(folder / "fit.json")
    predictor = Predictor.load(folder / "fit.json")
    for question, row in zip(observations.questions[:20], expected.to_dict("records"), strict=False):
        said = predictor.predict([report.model_dump() for report in question.observations])
        assert (said["answer"], said["probability"]) == (row["answer"], pytest.approx(row["probability"], rel=1e-12))
