"""``direag fit`` and ``direag show``: a MAP and a short run of NUTS from end to end, and what cannot be fitted."""

import json
import os

import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.fits import making
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import fit_map
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import FitSettings, SamplingSettings
from tests.command_line import direag, labels_of, one_line, refuse, succeed

SHORT = ("--method", "nuts", "--chains", 2, "--warmup", 20, "--draws", 25)
SAMPLING = SamplingSettings(num_chains=2, num_warmup=20, num_samples=25, target_accept_prob=0.9)
LEVELS = ("very_cautious", "cautious", "vanilla", "confident", "very_confident")


@pytest.fixture(autouse=True)
def same_environment(monkeypatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))


def test_fit_and_show_say_plainly_what_the_fit_is(fitted, observations):
    path, printed = fitted
    assert f"{observations}: numeric answers (inferred from the gold answers)" in one_line(printed)
    assert "Converged: gradient " in printed
    words = one_line(succeed("show", path))
    for said in (
        "method MAP, the mode of the posterior",
        "bayes",
        "learned from 80 questions with numeric answers",
        "dataset, model simulated; simulated",
        f"levels 5: {', '.join(LEVELS)}",
        "recalibration platt, on out-of-fold support, 5 folds",
        "ok Converged: gradient ",
        "seed 3",
        "share",
        "agrees",
        "by chance",
        *Fit.load(path).parameters()["parameter"].unique(),
    ):
        assert said in words


def test_show_json(fitted):
    shown = json.loads(succeed("show", fitted[0], "--json"))
    said = {name: shown[name] for name in ("fit", "preset", "levels", "converged", "seed")}
    assert said == {"fit": str(fitted[0]), "preset": "bayes", "levels": list(LEVELS), "converged": True, "seed": 3}
    assert shown["versions"]["bayes-direag"]
    rows = shown["parameters"]
    assert len(rows) == 4 + 3 * 5 + 4 + 2 + 2
    assert {name: len(values) for name, values in shown["agreement"].items()} == dict.fromkeys(
        ("share", "by_chance", "score"), 5
    )
    assert not any({"median", "low", "high"} & row.keys() for row in rows)  # of a MAP
    assert {row["level"] for row in rows if row["parameter"] == "slope"} == {None}
    assert sum(row["mode"] for row in rows if row["parameter"] == "share") == pytest.approx(1)


def test_labels_in_a_table_of_their_own(tmp_path, observations, questions):
    labels = labels_of(observations, tmp_path / "labels.csv", 30)
    said = one_line(succeed("fit", questions, "--labels", labels, "--out", tmp_path / "fit.nc"))
    assert f"{questions}: numeric answers (inferred from the gold answers)" in said
    assert "81 questions: 80 answered, 30 labelled" in said
    known = Observations.read(observations)
    alone = fit_map(known.select(slice(0, 30))).parameters()["mode"].to_numpy()
    assert Fit.load(tmp_path / "fit.nc").parameters()["mode"].to_numpy() == pytest.approx(alone, rel=1e-6)


def test_further_questions_tell_how_levels_agree(tmp_path, observations):
    known = Observations.read(observations)
    few, rest = tmp_path / "few.jsonl", tmp_path / "rest.jsonl"
    known.select(slice(0, 30)).write(few)
    known.select(slice(30, None)).write(rest)
    succeed("fit", few, "--unlabelled", rest, "--out", tmp_path / "fit.nc")
    agreement = Fit.load(tmp_path / "fit.nc").fitted.agreement
    for mine, whole in zip(agreement, known.with_agreement().agreement, strict=True):
        assert mine == pytest.approx(whole)
    options = ("--unlabelled", rest, "--preset", "paper", "--out", tmp_path / "paper.nc")
    assert "preset paper learns nothing from unlabelled questions" in refuse("fit", few, *options)


def test_labels_that_cannot_be_used(tmp_path, observations, questions):
    labels = labels_of(observations, tmp_path / "labels.csv", 0)
    for table, said in ((labels, ", field gold_answer: no row is filled in"), ("none.csv", ": there is no such file")):
        assert f"{table}{said}" in refuse("fit", questions, "--labels", table, "--out", tmp_path / "fit.nc")


@pytest.mark.parametrize(
    ("made", "options", "name", "sampling", "says"),
    [
        ("point", ("--preset", "paper"), "paper", None, "Converged: gradient "),
        ("nuts", (*SHORT, "--target-accept", 0.9), "bayes", SAMPLING, "R-hat at most"),
    ],
)
def test_options_reach_the_fit(tmp_path, observations, monkeypatch, request, made, options, name, sampling, says):
    fit, asked = request.getfixturevalue(made), []
    monkeypatch.setattr(making, "fit_by", lambda *given, **_: asked.append(given) or fit)
    result = direag("fit", observations, "--out", tmp_path / "fit.nc", *options, "--seed", 5)
    ((settings, labelled, unlabelled),) = asked
    assert settings == FitSettings(PRESETS[name], fit.method, sampling, seed=5)
    assert (len(labelled), unlabelled) == (80, None)
    assert says in result.stdout
    assert result.exit_code == ("NOT converged" in result.stdout)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("--preset", "papre"),
        ("--seed", "-1"),
        ("--chains", 1),
        ("--draws", 24),
        ("--warmup", 0),
        ("--target-accept", 1.0),
    ],
)
def test_fit_takes_a_choice_that_does_not_exist_for_a_usage_error(tmp_path, observations, name, value):
    result = direag("fit", observations, "--out", tmp_path / "out", name, value)
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert name in result.stderr


@pytest.mark.slow
def test_fit_by_sampling(tmp_path, observations):
    result = direag("fit", observations, "--out", tmp_path / "fit.nc", *SHORT, "--seed", 3)
    assert (result.exit_code, "Do not believe these draws" in result.stdout) == (1, True)
    fit = Fit.load(tmp_path / "fit.nc")
    assert (fit.tree.attrs["method"], int(fit.tree.attrs["seed"])) == ("nuts", 3)
    assert dict(fit.tree["posterior"].sizes) == {"chain": 2, "draw": 25, "level": 5}
    # fifty draws are too few by any measure
    assert json.loads(succeed("show", tmp_path / "fit.nc", "--json"))["converged"] is False


def test_show_json_says_null_where_chains_never_moved(tmp_path, nuts):
    path = tmp_path / "fit.nc"
    nuts.save(path)
    shown = json.loads(succeed("show", path, "--json"))
    assert (shown["method"], shown["chains"], shown["draws"]) == ("nuts", 2, 600)
    assert shown["smallest_ess"] > 0
    assert all(row["low"] is not None for row in shown["parameters"])
    stuck = Fit.load(path)
    stuck.tree["posterior"]["null_base"] *= 0
    stuck.save(path)
    shown = json.loads(succeed("show", path, "--json"))
    assert (shown["largest_rhat"], shown["converged"]) == (None, False)
