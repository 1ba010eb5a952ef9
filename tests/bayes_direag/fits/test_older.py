"""Labels of an older set beside new ones."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from analysis.diagnosis.diagnostics import diagnose
from bayes_direag import Fit, Observations, fit_map, fit_nuts, preset, simulate_observations
from bayes_direag.errors import DirEAGError, UncheckedWarning
from bayes_direag.inference.map import penalised_loss
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.settings import SamplingSettings
from tests.command_line import refuse, succeed

PLAIN = preset("bayes").override(recalibration={"method": "none"})


def renamed(questions: Observations) -> Observations:
    return replace(questions, problem_id=tuple(f"older-{name}" for name in questions.problem_id))


@pytest.fixture(scope="module")
def new() -> Observations:
    return simulate_observations(60, seed=1)


@pytest.fixture(scope="module")
def older() -> Observations:
    return renamed(simulate_observations(90, seed=2))


def raw(fit: Fit) -> dict[str, np.ndarray]:
    group = fit.tree["unconstrained_posterior"].to_dataset()
    return {str(name): values.to_numpy() for name, values in group.items()}


def test_at_full_weight_it_is_the_fit_to_both(new: Observations, older: Observations) -> None:
    both = fit_map(Observations.joined([new, older]), preset=PLAIN)
    beside = fit_map(new, also=older, also_counts=90.0, preset=PLAIN)
    for name, values in raw(both).items():
        np.testing.assert_allclose(raw(beside)[name], values, atol=1e-5)
    assert beside.n_questions == 60
    assert fit_map(new, also=older, also_counts=1e6, preset=PLAIN).older.weight == 1.0


def test_it_is_the_mode_under_the_weighted_likelihood(new: Observations, older: Observations) -> None:
    fit = fit_map(new, also=older, also_counts=45.0)
    both = replace(Observations.joined([new, older]), agreement=new.with_agreement(older).agreement)
    weight = np.repeat([1.0, 0.5], [60, 90])
    data = LikelihoodData.weighted(both, weight, preset=fit.preset, variant=fit.variant)
    names = fit.preset.free_parameters(fit.variant)
    found = {name: raw(fit)[f"{name}_raw"][0, 0] for name in names}
    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(penalised_loss))(found, data)
    assert max(np.abs(value).max() for value in gradient.values()) < 1e-6
    np.testing.assert_array_equal(fit.likelihood_data.weight, weight)


def test_folds_and_final_calibration_are_of_the_new_questions(new: Observations, older: Observations) -> None:
    """Labels of older questions that are all wrong do not reach them, once they count next to nothing."""
    wrong = replace(older, correct=np.zeros_like(older.correct))
    alone = fit_map(new).recalibration.coefficients
    beside = fit_map(replace(new, agreement=new.with_agreement().agreement), also=wrong, also_counts=1e-9)
    for name, values in alone.items():
        np.testing.assert_allclose(beside.recalibration.coefficients[name], values, atol=0.02)


def test_levels_go_by_name_and_may_be_in_one_set_alone(new: Observations, older: Observations) -> None:
    frame = new.to_frame()
    frame = frame[frame["level_name"] != new.level_names[0]].drop(columns="level")
    fewer = Observations.from_frame(frame, level="level_name")
    fit = fit_map(fewer, also=older)
    assert set(fit.level_names) == set(new.level_names)
    assert fit.level_names[-1] == new.level_names[0]
    weight = fit.parameters().query("parameter == 'weight'").set_index("level")["mean"]
    assert weight.notna().all()
    assert fit.predict(new)["confidence"].notna().sum() == new.answered.sum()


def test_file(new: Observations, older: Observations, tmp_path) -> None:
    fit = fit_map(new.select(slice(24)), also=older.select(slice(40)), partial=True)
    fit.save(tmp_path / "fit.nc")
    again = Fit.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.likelihood_data.weight, fit.likelihood_data.weight)
    np.testing.assert_array_equal(again.likelihood_data.merged, fit.likelihood_data.merged)
    np.testing.assert_array_equal(again.predict(new)["confidence"], fit.predict(new)["confidence"])


def test_without_new_labels_it_is_the_older_fit(new: Observations, older: Observations) -> None:
    hidden = replace(new, labelled=np.zeros(60, bool), correct=np.zeros_like(new.correct))
    with pytest.warns(UncheckedWarning, match="none of 60 questions has a label: this is the fit to 90 older ones"):
        fit = fit_map(hidden, also=older)
    assert fit.n_questions == 90
    expected = fit_map(replace(older, agreement=older.with_agreement(new).agreement))
    np.testing.assert_allclose(fit.predict(new)["confidence"], expected.predict(new)["confidence"], atol=1e-6)


def test_what_cannot_be_used(new: Observations, older: Observations) -> None:
    with pytest.raises(DirEAGError, match="60 of 60 older questions are also among the new ones"):
        fit_map(new, also=new)
    with pytest.raises(DirEAGError, match="which count 0 together"):
        fit_map(new, also=older, also_counts=0.0)
    with pytest.raises(DirEAGError, match="the older answers are choice; expected numeric"):
        fit_map(new, also=replace(older, kind="choice"))


def test_the_command(new: Observations, older: Observations, tmp_path) -> None:
    new.write(tmp_path / "new.jsonl")
    frame = older.to_frame().assign(problem_id=lambda table: "older-" + table["problem_id"].astype(str))
    frame.to_csv(tmp_path / "older.csv", index=False)
    options = ("--also", tmp_path / "older.csv", "--also-counts", 45)
    succeed("fit", tmp_path / "new.jsonl", "--out", tmp_path / "fit.nc", *options)
    assert "90 questions, which count 45 together" in succeed("show", tmp_path / "fit.nc")
    assert "are also among the new ones" in refuse(
        "fit", tmp_path / "new.jsonl", "--out", tmp_path / "fit.nc", "--also", tmp_path / "new.jsonl"
    )


@pytest.mark.slow
@pytest.mark.parametrize("partial", [False, True])
def test_nuts(new: Observations, older: Observations, partial: bool) -> None:
    sampling = SamplingSettings(n_chains=2, n_warmup=150, n_draws=50)
    fit = fit_nuts(new, also=older, also_counts=30.0, variant="count", sampling=sampling, partial=partial)
    assert fit.likelihood_data.weight.sum() == pytest.approx(90)
    assert fit.tree["loo"].sizes["problem"] == fit.n_questions == 60
    assert fit.with_predictive().tree["posterior_predictive"].sizes["problem"] == 60
    if partial:
        said = [finding.text for finding in diagnose(fit).verdict if finding.topic == "likelihood"]
        assert "90 older questions count as 30" in said[0]
        assert "composite posterior" in said[1]
