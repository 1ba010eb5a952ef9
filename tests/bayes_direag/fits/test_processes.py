"""Fits in threads, and in processes that were forked."""

import multiprocessing
import warnings
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit


def test_fits_are_read_and_written_in_threads(point: Fit, labelled: Observations, tmp_path: Path) -> None:
    point.save(tmp_path / "fit.nc")
    expected = point.predict(labelled)["probability"]

    def again(number: int) -> bool:
        fit = Fit.load(tmp_path / "fit.nc")
        fit.save(tmp_path / f"{number}.nc")
        return np.array_equal(Fit.load(tmp_path / f"{number}.nc").predict(labelled)["probability"], expected)

    with ThreadPoolExecutor(8) as threads:
        assert [*threads.map(again, range(8))] == [True] * 8


def _predict(fit: Fit, questions: Observations, said: Connection) -> None:
    try:
        fit.predict(questions)
    except DirEAGError as error:
        said.send(str(error))


def test_forked_process_is_told_instead_of_hanging(point: Fit, labelled: Observations) -> None:
    point.predict(labelled)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_predict, args=(point, labelled, there))
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of JAX, that this may hang
        child.start()
    try:
        assert here.poll(60), "it hangs"
        assert 'Use multiprocessing.get_context("spawn")' in here.recv()
    finally:
        child.kill()
