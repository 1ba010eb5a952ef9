"""A fit: what its predictions say, its container, and its file, whoever wrote that."""

from pathlib import Path

import arviz_base
import jax
import jax.numpy as jnp
import netCDF4
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayes_direag.data.answers import canonical
from bayes_direag.data.observations import Observations
from bayes_direag.errors import ArgumentError, DirEAGError, FitFileError
from bayes_direag.fits import stored
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import cross_fit, fit_map, fit_nuts
from bayes_direag.inference.map import penalised_loss
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.models import model_of

pytestmark = pytest.mark.filterwarnings("ignore::bayes_direag.errors.FewReportsWarning")


class TestPredictions:
    def test_candidates_sum_to_one_and_the_first_is_the_prediction(self, point: Fit, simulated: Observations) -> None:
        some = simulated.select(slice(40)).without(np.arange(40)[:, None] == 7)
        table, predicted = point.predict_candidates(some), point.predict(some).set_index("problem_id")
        assert table["problem_id"].drop_duplicates().tolist() == list(some.problem_id)
        for name, rows in table.groupby("problem_id"):
            n, (*of_answers, of_null) = predicted["n_candidates"][name], rows["probability"]
            assert rows["answer"].isna().tolist() == [False] * n + [True]
            assert of_answers == sorted(of_answers, reverse=True)
            assert sum(of_answers) + of_null == pytest.approx(1)
            assert of_null == pytest.approx(predicted["null_probability"][name], rel=1e-12)
            if n:
                assert rows["answer"].iloc[0] == predicted["answer"][name]
                assert of_answers[0] == pytest.approx(predicted["probability"][name], rel=1e-12)

    def test_answers_are_also_spelled_as_the_reports_spell_them(self, point: Fit, simulated: Observations) -> None:
        said = {"a": ["3 eggs", "3.0", "3.0", "7", None], "b": ["$1,218", "1218.0", "no", "1218.0", "1,218"], "c": "?"}
        records = [
            {"problem_id": name, "level": simulated.level_names[level], "answer": answer, "confidence": 80}
            for name, answers in said.items()
            for level, answer in enumerate(answers)
        ]
        candidates = point.predict_candidates(records).fillna("")
        table = point.predict(records)[["answer", "answer_as_given"]].fillna("")
        assert table.to_numpy().tolist() == [["3", "3.0"], ["1218", "1218.0"], ["", ""]]
        pairs = dict(zip(candidates["answer"], candidates["answer_as_given"], strict=True))
        assert pairs == {"3": "3.0", "7": "7", "1218": "1218.0", "": ""}
        for row, question in zip(point.predict(simulated).itertuples(), simulated.questions, strict=True):
            spelled = [report.answer for report in question.observations if report.answer is not None]
            same = [text for text in spelled if canonical(text, "numeric") == row.answer]
            assert row.answer_as_given == max(same, key=same.count)
        fitted = point.predict(point.fitted)
        assert fitted["answer_as_given"].tolist() == fitted["answer"].tolist()

    def test_no_gold_answer_is_looked_at_nor_another_question(self, point: Fit, simulated: Observations) -> None:
        """A question is predicted alone as among others that name more levels."""
        names = simulated.level_names
        bare = [
            question.model_copy(
                update={
                    "gold_answer": None,
                    "observations": tuple(
                        one for one in question.observations if one.level_name in (names[:2], names[1:4])[row % 2]
                    ),
                }
            )
            for row, question in enumerate(simulated.questions[:6])
        ]
        together = point.predict(Observations.from_questions(bare, "numeric"))
        fewer = simulated.select(slice(6)).without(np.array([[0, 0, 1, 1, 1], [1, 0, 0, 0, 1]] * 3) == 1)
        pd.testing.assert_frame_equal(together, point.predict(fewer))
        alone = [point.predict(Observations.from_questions([question], "numeric")) for question in bare]
        pd.testing.assert_frame_equal(pd.concat(alone, ignore_index=True), together)

    def test_another_kind_of_answers_is_an_error(self, point: Fit, simulated: Observations) -> None:
        with pytest.raises(DirEAGError, match="are text; expected numeric"):
            point.predict(Observations.from_questions(simulated.questions, answers="text"))


@pytest.mark.parametrize("function", [fit_map, fit_nuts, cross_fit])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (pd.DataFrame({"model": ["gpt"]}), r"saw DataFrame; expected Observations. .*from_frame\(frame, question="),
        ("labelled.jsonl", r"saw str; expected Observations. Read them: Observations.read\('labelled.jsonl'\)"),
        ([{"problem_id": "a"}], r"saw list; expected Observations. Make them: Observations.from_records"),
        (3, "saw int; expected Observations. Make them with Observations.read, from_frame"),
    ],
)
def test_fit_says_of_what_is_no_observations_what_makes_them(function, given, said) -> None:
    with pytest.raises(ArgumentError, match=f"^{function.__name__}: {said}") as caught:
        function(given)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, DirEAGError)


def test_fit_has_a_container_of_what_was_fitted(point: Fit, labelled: Observations) -> None:
    tree = point.tree
    assert tree["posterior"].sizes["chain"] == tree["posterior"].sizes["draw"] == 1
    assert tree["posterior"]["level"].to_numpy().tolist() == list(labelled.level_names)
    assert (tree.attrs["observations_sha256"], tree.attrs["dataset"]) == (labelled.fingerprint, "simulated")
    unconstrained = {
        str(name): jnp.asarray(values.to_numpy()[0, 0]) for name, values in tree["unconstrained_posterior"].items()
    }
    loss_at = jax.jit(lambda unconstrained, data: penalised_loss(model_of(point.preset), unconstrained, data))
    loss = loss_at(unconstrained, LikelihoodData.of(labelled, preset=point.preset))
    assert float(loss_at(unconstrained, point.likelihood_data)) == float(loss)
    np.testing.assert_allclose(tree["sample_stats"]["loss"].item(), float(loss), rtol=1e-12)


class TestFile:
    def test_it_loses_nothing(self, point: Fit, simulated: Observations, tmp_path: Path) -> None:
        point.save(tmp_path / "fit.nc")
        again = Fit.load(tmp_path / "fit.nc")
        assert again.tree.identical(point.tree)
        for name in point.tree.children:
            assert dict(again.tree[name].to_dataset().dtypes) == dict(point.tree[name].to_dataset().dtypes)
        assert (again.settings, again.level_names) == (point.settings, point.level_names)
        pd.testing.assert_frame_equal(again.predict(simulated), point.predict(simulated), check_exact=True)
        assert [path.name for path in tmp_path.iterdir()] == ["fit.nc"]

    @pytest.mark.usefixtures("full_disk")
    def test_a_full_disk_names_the_file(self, point: Fit, tmp_path: Path) -> None:
        with pytest.raises(OSError, match=r"HDF error in writing, perhaps as the disk is full: '.*/fit\.nc'"):
            point.save(tmp_path / "fit.nc")
        assert list(tmp_path.iterdir()) == []

    def test_what_is_not_a_fit_is_said(self, tmp_path: Path) -> None:
        (tmp_path / "text.nc").write_text("not NetCDF")
        arviz_base.from_dict({"posterior": {"mu": np.zeros((1, 1))}}).to_netcdf(tmp_path / "other.nc", engine="netcdf4")
        unreadable = "not a fit that this version can read"
        for name, said in {
            "nowhere.nc": "no such file",
            ".": "saw a folder",
            "text.nc": unreadable,
            "other.nc": rf"{unreadable} \(ValueError: its layout is not format",
        }.items():
            with pytest.raises(FitFileError, match=said):
                Fit.load(tmp_path / name)

    def test_one_that_claims_to_be_larger_than_its_file_is_not_loaded(self, point: Fit, tmp_path: Path) -> None:
        point.save(tmp_path / "fit.nc")
        with netCDF4.Dataset(tmp_path / "fit.nc", "a") as written:
            written.createDimension("huge", 3 * 10**9)
            written.createVariable("posterior/huge", "f8", ("huge",), zlib=True)
        with pytest.raises(FitFileError, match=r"it claims to hold 22,8.. MiB in .* KiB"):
            Fit.load(tmp_path / "fit.nc")

    def test_one_of_which_a_single_bit_is_damaged_is_not_loaded(self, point: Fit, tmp_path: Path) -> None:
        point.save(tmp_path / "fit.nc")
        content, other = (tmp_path / "fit.nc").read_bytes(), "its content is not what was written"
        for byte, says in ((0, "this is no NetCDF file"), (len(content) // 3, other), (len(content) - 1, other)):
            damaged = bytearray(content)
            damaged[byte] ^= 1
            (tmp_path / "damaged.nc").write_bytes(damaged)
            with pytest.raises(FitFileError, match=says):
                Fit.load(tmp_path / "damaged.nc")

    def test_one_that_xarray_has_written_again_is_loaded(self, point: Fit, tmp_path: Path) -> None:
        point.save(tmp_path / "fit.nc")
        xr.open_datatree(tmp_path / "fit.nc").load().to_netcdf(tmp_path / "again.nc")
        again = Fit.load(tmp_path / "again.nc")
        assert again.tree["posterior"].to_dataset().equals(point.tree["posterior"].to_dataset())
        assert again.tree.attrs == point.tree.attrs

    def test_one_that_does_not_return_or_crashes_is_one_error(self, point: Fit, tmp_path: Path, monkeypatch) -> None:
        """Whatever another program has written, which leaves no digest, is read by a process of its own first."""
        point.tree.to_netcdf(tmp_path / "fit.nc", engine="netcdf4")
        for child, says in (("while True: pass", "did not end in 1 sec"), ("import os; os.abort()", "is damaged\\)")):
            monkeypatch.setattr(stored, "_LIMIT", 1)
            monkeypatch.setattr(stored, "_READ_ALL", child)
            with pytest.raises(FitFileError, match=says):
                Fit.load(tmp_path / "fit.nc")
