"""The ways in which the same questions reach a fit."""

from pathlib import Path

import numpy as np
import pandas as pd

from bayes_direag import Fit, Observations
from bayes_direag.fits.streaming import predict_file

EXACT = {"answer", "answer_as_given", "n_candidates", "n_used"}


def assert_every_door_says_the_same(fit: Fit, new: Observations, folder: Path) -> None:
    """Predict from files of each format, a frame, records, a stream, a saved fit, and one by one."""
    expected = fit.predict(new)
    for name in ("all.jsonl", "all.csv", "all.parquet"):
        new.write(folder / name)
        pd.testing.assert_frame_equal(fit.predict(folder / name), expected)
        assert Observations.read(folder / name, new.kind).fingerprint == new.fingerprint
    records = [question.model_dump(mode="json") for question in new.questions]
    for source in (new.to_frame(), records, new.to_frame().to_dict("records"), str(folder / name)):
        pd.testing.assert_frame_equal(fit.predict(source), expected)
    predict_file(fit, folder / "all.parquet", folder / "streamed.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "streamed.parquet"), expected, check_dtype=False)
    fit.save(folder / "fit.nc")
    loaded = Fit.load(folder / "fit.nc", preset=fit.program)
    assert (loaded.level_names, loaded.method) == (fit.level_names, fit.method)
    pd.testing.assert_frame_equal(loaded.predict(new), expected, check_exact=True)
    pd.testing.assert_frame_equal(loaded.predict(loaded.fitted), fit.predict(fit.fitted), check_exact=True)
    table = expected.drop(columns="problem_id").astype(object)
    for question, row in zip(records, table.where(table.notna(), None).to_dict("records"), strict=True):
        said = fit.answer(question["observations"])
        assert said.keys() == row.keys() | {"remarks"}
        assert {name: said[name] for name in EXACT & row.keys()} == {name: row[name] for name in EXACT & row.keys()}
        assert [said[name] is None for name in row] == [value is None for value in row.values()]
        pairs = [(said[name], row[name]) for name in row.keys() - EXACT if row[name] is not None]
        np.testing.assert_allclose(*zip(*pairs, strict=True), rtol=0, atol=1e-9)
