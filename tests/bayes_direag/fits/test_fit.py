from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

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
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import ArgumentError, DirEAGError, FitFileError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map, fit_map_batch, fit_nuts
from bayes_direag.fits.stored import write_tree
from bayes_direag.inference.map import penalised_loss
from bayes_direag.model import presets
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.models import model_of
from tests.bayes_direag import brute_force

#: Votes alone, calibrated in sample.
COUNT = presets.preset("paper", "count", recalibration={"split": 0})


@pytest.fixture(scope="module")
def fit(simulated: Observations) -> Fit:
    return fit_map(simulated)


def unlabelled(observations: Observations) -> Observations:
    questions = [question.model_copy(update={"gold_answer": None}) for question in observations.questions]
    return Observations.from_questions(questions, answers=observations.kind)


def test_predictions_are_the_printed_equations(fit: Fit, simulated: Observations) -> None:
    table = fit.predict(simulated)
    of_answer = ["problem_id", "answer", "answer_as_given", "probability", "support", "null_probability"]
    assert table.columns.tolist() == [*of_answer, "n_candidates", "n_used", "few_reports"]
    values, final = brute_force.of_map(fit), fit.tree["recalibration"].to_dataset()
    for i, row in table.iterrows():
        own = brute_force.reports_of(simulated, i)
        support = brute_force.support(brute_force.scores(own, values, fit.preset.eps))
        best = max(value for answer, value in support.items() if answer != brute_force.NULL)
        assert row["answer"] == min(a for a, value in support.items() if value == best and a != brute_force.NULL)
        np.testing.assert_allclose(row["support"], best, rtol=1e-12)
        score = final["intercept"].item() + final["slope"].item() * np.log(best / (1 - best))
        np.testing.assert_allclose(row["probability"], brute_force.sigmoid(score), rtol=1e-12)
        null = brute_force.null_probability(support, row["answer"], row["probability"])
        np.testing.assert_allclose(row["null_probability"], null, rtol=1e-10, atol=1e-14)
        assert (row["n_candidates"], row["n_used"]) == (len(support) - 1, len(own))


def test_answers_are_also_spelled_as_the_reports_spell_them(fit: Fit, simulated: Observations) -> None:
    said = {"a": ["3 eggs", "3.0", "3.0", "7", None], "b": ["$1,218", "1218.0", "no", "1218.0", "1,218"], "c": ["?"]}
    records = [
        {"problem_id": name, "level": simulated.level_names[level], "answer": answer, "confidence": 80}
        for name, answers in said.items()
        for level, answer in enumerate(answers)
    ]
    table = fit.predict(records)
    assert table["answer"].fillna("").tolist() == ["3", "1218", ""]
    assert table["answer_as_given"].fillna("").tolist() == ["3.0", "1218.0", ""]
    candidates = fit.predict_candidates(records).fillna("")
    assert dict(zip(candidates["answer"], candidates["answer_as_given"], strict=True)) == {
        **{"3": "3.0", "7": "7", "1218": "1218.0", "": ""}
    }
    spelled = fit.predict(simulated)
    for row, question in zip(spelled.itertuples(), simulated.questions, strict=True):
        given = [report.answer for report in question.observations if report.answer is not None]
        same = [text for text in given if canonical(text, "numeric") == row.answer]
        assert row.answer_as_given == max(same, key=same.count)
    np.testing.assert_array_equal(fit.predict(fit.fitted)["answer_as_given"], fit.predict(fit.fitted)["answer"])


def test_no_gold_answer_is_looked_at_in_prediction(fit: Fit, simulated: Observations) -> None:
    pd.testing.assert_frame_equal(fit.predict(unlabelled(simulated)), fit.predict(simulated))


def test_a_question_is_predicted_alone_as_among_others_that_name_more_levels(simulated: Observations) -> None:
    def at_levels(question: Question, levels: tuple[str, ...]) -> Question:
        kept = tuple(one for one in question.observations if one.level_name in levels)
        return question.model_copy(update={"observations": kept})

    few, more = simulated.level_names[:2], simulated.level_names[1:4]
    fewer = [at_levels(question, levels) for question, levels in zip(simulated.questions, (few, more), strict=False)]
    learned = Observations.from_questions(
        [*simulated.questions[:60], *(at_levels(question, few) for question in simulated.questions[60:])],
        answers="numeric",
    )
    fit = fit_map(learned)
    together = fit.predict(Observations.from_questions(fewer, answers="numeric"))
    for question, row in zip(fewer, together.itertuples(index=False), strict=True):
        alone = fit.predict(Observations.from_questions([question], answers="numeric"))
        assert next(alone.itertuples(index=False)) == row


def test_another_kind_of_answers_is_an_error(fit: Fit, simulated: Observations) -> None:
    texts = Observations.from_questions(simulated.questions, answers="text")
    with pytest.raises(DirEAGError, match="are text; expected numeric"):
        fit.predict(texts)


def test_saving_loses_nothing(fit: Fit, simulated: Observations, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit.nc")
    again = Fit.load(tmp_path / "fit.nc")
    assert again.tree.identical(fit.tree)
    assert again.preset == fit.preset
    assert again.level_names == fit.level_names
    pd.testing.assert_frame_equal(again.predict(simulated), fit.predict(simulated), check_exact=True)
    assert [path.name for path in tmp_path.iterdir()] == ["fit.nc"]


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_names_the_file(fit: Fit, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"HDF error in writing, perhaps as the disk is full: '.*/fit\.nc'"):
        fit.save(tmp_path / "fit.nc")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_a_fit_is_said(tmp_path: Path) -> None:
    with pytest.raises(FitFileError, match=r"nowhere\.nc: no such file"):
        Fit.load(tmp_path / "nowhere.nc")
    (tmp_path / "text.nc").write_text("not NetCDF")
    with pytest.raises(FitFileError, match=r"text\.nc: not a fit that this version can read"):
        Fit.load(tmp_path / "text.nc")
    arviz_base.from_dict({"posterior": {"mu": np.zeros((1, 1))}}).to_netcdf(tmp_path / "other.nc", engine="netcdf4")
    with pytest.raises(
        FitFileError,
        match=r"other\.nc: not a fit that this version can read \(ValueError: its content is not what was written",
    ):
        Fit.load(tmp_path / "other.nc")


def altered(group: str, name: str, **at: int) -> Callable[[Any], Callable[[xr.DataTree], None]]:
    """Return a function of a value, which gives the change of a container to that value at one place."""

    def change_to(value: Any) -> Callable[[xr.DataTree], None]:
        def change(tree: xr.DataTree) -> None:
            tree[group][name][at] = value

        return change

    return change_to


WEIGHT, SLOPE = altered("posterior", "weight", level=1), altered("posterior", "slope")
CHANGES = {
    "a weight of NaN": WEIGHT(np.nan),
    "a negative weight": WEIGHT(-1.0),
    "an infinite slope": SLOPE(np.inf),
    "a candidate that there is not": altered("constant_data", "candidate", problem=3, level=0)(9),
    "level -1": altered("constant_data", "candidate", problem=3, level=0)(-2),
    "a billion candidates": altered("constant_data", "n_candidates", problem=3)(10**9),
    "a final calibration of NaN": altered("recalibration", "slope")(np.nan),
    "eps of the calibration": lambda tree: tree["recalibration"].attrs.update(eps=1e308),
    "method of the calibration": lambda tree: tree["recalibration"].attrs.update(method="softmax"),
    "no signals": lambda tree: tree.attrs.update(signals="{"),
    "signals that are no names": lambda tree: tree.attrs.update(signals="[3]"),
    "two signals": lambda tree: tree.attrs.update(signals='["number", "words"]'),
    "a preset that is none": lambda tree: tree.attrs.update(preset='{"eps": 0.1}'),
    "labels that are none": lambda tree: tree.attrs.update(labels="[3]"),
    "other answers": lambda tree: tree.attrs.update(answers="numbers"),
    "columns that are none": lambda tree: tree.attrs.update(columns='["levl=model"]'),
    "columns that are no list": lambda tree: tree.attrs.update(columns="3"),
    "another scale": lambda tree: tree.attrs.update(scale="points"),
    "calibrated on nothing": lambda tree: tree.attrs.update(calibrated_on="3"),
    **{f"no {group}": partial(lambda tree, name: tree.__delitem__(name), name=group) for group in
       ("posterior", "unconstrained_posterior", "constant_data", "labels", "recalibration")},
    **{f"no {name}": partial(lambda tree, name: tree.attrs.pop(name), name=name) for name in
       ("format", "preset", "answers", "method", "seed", "observations_sha256", "versions")},
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_fit_that_was_tampered_with_is_one_error(
    change: Callable[[xr.DataTree], None], fit: Fit, tmp_path: Path
) -> None:
    tree = fit.tree.copy(deep=True)
    change(tree)
    write_tree(tree, tmp_path / "tampered.nc")
    with pytest.raises(FitFileError, match=r"tampered\.nc: not a fit that this version can read"):
        Fit.load(tmp_path / "tampered.nc")


def test_a_fit_that_claims_to_be_larger_than_its_file_is_not_loaded(fit: Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit.nc")
    with netCDF4.Dataset(tmp_path / "fit.nc", "a") as stored:
        stored.createDimension("huge", 3 * 10**9)
        stored.createVariable("posterior/huge", "f8", ("huge",), zlib=True)
    content = (tmp_path / "fit.nc").read_bytes()
    (tmp_path / "fit.nc").write_bytes(content + b"direag " + sha256(content).digest())
    with pytest.raises(FitFileError, match=r"it claims to hold 22,8.. MiB in .* KiB"):
        Fit.load(tmp_path / "fit.nc")


def test_a_damaged_fit_is_refused_before_it_is_opened(
    fit: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single bit is enough; the NetCDF library might not return from it."""
    fit.save(tmp_path / "fit.nc")
    assert xr.open_datatree(tmp_path / "fit.nc")["posterior"].to_dataset().equals(fit.tree["posterior"].to_dataset())
    content = (tmp_path / "fit.nc").read_bytes()
    monkeypatch.setattr(netCDF4, "Dataset", None)
    other = "its content is not what was written"
    for place, says in ((0, "this is no NetCDF file"), (len(content) // 3, other), (len(content) - 1, other)):
        damaged = bytearray(content)
        damaged[place] ^= 1
        (tmp_path / "damaged.nc").write_bytes(damaged)
        with pytest.raises(FitFileError, match=says):
            Fit.load(tmp_path / "damaged.nc")


def test_the_container_holds_what_was_fitted(fit: Fit, simulated: Observations) -> None:
    tree = fit.tree
    assert tree["posterior"].sizes["chain"] == tree["posterior"].sizes["draw"] == 1
    assert tree["posterior"]["level"].to_numpy().tolist() == list(simulated.level_names)
    assert tree.attrs["observations_sha256"] == simulated.fingerprint
    assert tree.attrs["dataset"] == "simulated"
    raw = {str(name): jnp.asarray(own.to_numpy()[0, 0]) for name, own in tree["unconstrained_posterior"].items()}
    loss_at = jax.jit(lambda raw, data: penalised_loss(model_of(fit.preset), raw, data))
    loss = loss_at(raw, LikelihoodData.of(simulated, preset=fit.preset))
    assert float(loss_at(raw, fit.likelihood_data)) == float(loss)
    np.testing.assert_allclose(tree["sample_stats"]["loss"].item(), float(loss), rtol=1e-12)


def test_out_of_fold_support_comes_from_fits_that_did_not_see_the_question(simulated: Observations) -> None:
    honest = presets.preset("paper", recalibration={"split": 0, "out_of_fold": 3})
    fit = fit_map(simulated, preset=presets.preset(honest, "count"), seed=11)
    hashed = [sha256(f"11 {name}".encode()).digest() for name in simulated.problem_id]
    fold = np.argsort(np.argsort(np.array(hashed))) % 3
    of_all, answers, reached = fit.predict(simulated)["answer"], [], []
    for number in range(3):
        rest = fit_map(simulated.select(fold != number), preset=COUNT)
        values = brute_force.of_map(rest)
        for i in np.flatnonzero(fold == number):
            scores = brute_force.scores(brute_force.reports_of(simulated, i), values, rest.preset.eps)
            every = brute_force.support(scores)
            del every[brute_force.NULL]
            for answer in (max(sorted(every), key=every.get), of_all[i]):  # each by half
                reached.append(every[answer])
                answers.append(answer == simulated.questions[i].gold_answer)
    support, right = np.array(reached), np.array(answers)
    score = np.log(support / (1 - support))
    a, b = (fit.recalibration.to_dataset()[name].item() for name in ("intercept", "slope"))
    residual = 1 / (1 + np.exp(-(a + b * score))) - right
    np.testing.assert_allclose(residual.mean() + 0.001 * a, 0, atol=1e-6)
    np.testing.assert_allclose((residual * score).mean() + 0.001 * (b - 1), 0, atol=1e-6)
    in_sample = fit_map(simulated, preset=COUNT)
    assert abs(in_sample.recalibration.to_dataset()["slope"].item() - b) > 1e-4


def test_a_member_of_one_question_leaves_the_others_calibrated_out_of_fold(simulated: Observations) -> None:
    honest = presets.preset("paper", recalibration={"split": 0, "out_of_fold": 3})
    one = np.arange(len(simulated)) == 5
    fits = fit_map_batch(simulated, np.stack([~one, one]), preset=presets.preset(honest, "count"), seed=2)
    for row, fit in zip((~one, one), fits, strict=True):
        alone = fit_map(simulated.select(row), preset=presets.preset(honest, "count"), seed=2)
        np.testing.assert_allclose(fit.parameters()["mode"], alone.parameters()["mode"], rtol=1e-5)
    in_sample = fit_map(simulated.select(one), preset=COUNT)
    np.testing.assert_allclose(fits[1].parameters()["mode"], in_sample.parameters()["mode"], rtol=1e-5)


class TestWhatIsTaken:
    """Predictions take whatever observations are read from; a fit takes observations, and says what makes them."""

    @pytest.mark.parametrize("fitted", [fit_map, fit_nuts])
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (pd.DataFrame({"model": ["gpt"]}), r"saw DataFrame; expected Observations. .*from_frame\(frame, question="),
            ("labelled.jsonl", r"saw str; expected Observations. Read them: Observations.read\('labelled.jsonl'\)"),
            ([{"problem_id": "a"}], r"saw list; expected Observations. Make them: Observations.from_records"),
            (3, "saw int; expected Observations. Make them with Observations.read, from_frame"),
        ],
    )
    def test_a_fit_says_what_to_call(self, fitted, given, said) -> None:
        with pytest.raises(ArgumentError, match=said) as caught:
            fitted(given)
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, DirEAGError)
        assert str(caught.value).startswith(fitted.__qualname__)


class TestCandidates:
    def test_probabilities_sum_to_one_and_the_first_is_the_prediction(self, fit: Fit, simulated: Observations) -> None:
        table, predicted = fit.predict_candidates(simulated), fit.predict(simulated).set_index("problem_id")
        np.testing.assert_allclose(table.groupby("problem_id")["probability"].sum(), 1)
        assert len(table) == (simulated.n_candidates + 1).sum()
        assert table["problem_id"].drop_duplicates().tolist() == list(simulated.problem_id)
        for name, rows in table.groupby("problem_id"):
            assert rows["answer"].isna().tolist() == [False] * (len(rows) - 1) + [True]
            assert (rows["probability"].iloc[:-1].diff().dropna() <= 0).all()
            assert rows["answer"].iloc[0] == predicted["answer"][name]
            assert rows["probability"].iloc[0] == pytest.approx(predicted["probability"][name], rel=1e-12)
            assert rows["probability"].iloc[-1] == pytest.approx(predicted["null_probability"][name], rel=1e-12)

    def test_without_a_usable_report_there_is_none_of_them_alone(self, fit: Fit, simulated: Observations) -> None:
        nothing = [Observation(level=number, level_name=name) for number, name in enumerate(simulated.level_names)]
        silent = Observations.from_questions([Question(problem_id="silent", observations=nothing)], answers="numeric")
        assert fit.predict_candidates(silent)["probability"].tolist() == [1.0]
