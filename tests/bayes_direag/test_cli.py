"""The command line: what each command writes, prints and refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
import xarray as xr
from click.testing import Result
from typer.testing import CliRunner

from analysis.evaluation import METHODS, SAMPLED_METHODS
from analysis.scores.scoring import METRIC_NAMES
from bayes_direag.cli import app
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.simulate import simulate_observations

COMMANDS = typer.main.get_command(app).list_commands(None)
FROM_ONE_ELICITATION = [method for method in METHODS if method not in SAMPLED_METHODS]
LEVELS = ("very_cautious", "cautious", "vanilla", "confident", "very_confident")
PREDICTION_COLUMNS = ["problem_id", "fold", "method", "answer", "confidence", "correct", "null_probability"]


def direag(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments: object) -> str:
    result = direag(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refuse(*arguments: object) -> str:
    """Run what must be refused as an expected error, and return the one line that says so."""
    result = direag(*arguments)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("direag: ")
    return lines[0]


def one_line(text: str) -> str:
    return " ".join(text.split())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def without_gold(source: Path, target: Path, *extra: dict[str, object]) -> Path:
    records = [json.loads(line) for line in source.read_text().splitlines()]
    lines = [json.dumps({key: value for key, value in record.items() if key != "gold_answer"}) for record in records]
    target.write_text("\n".join([*lines, *map(json.dumps, extra)]) + "\n")
    return target


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def observations(home) -> Path:
    path = home / "observations.jsonl"
    succeed("simulate", "--n", 80, "--seed", 4, "--out", path)
    return path


@pytest.fixture(scope="module")
def fitted(home, observations) -> tuple[Path, str]:
    """A fit, and what was printed when it was made."""
    path = home / "fit.nc"
    return path, succeed("fit", observations, "--out", path, "--seed", 3)


@pytest.fixture(scope="module")
def evaluated(home, observations) -> tuple[Path, str]:
    """The folder of an evaluation of all methods, and what was printed when it was made."""
    folder = home / "results"
    return folder, succeed("evaluate", observations, "--out", folder, "--resamples", 20)


@pytest.fixture(scope="module")
def questions(home, observations) -> Path:
    """The same questions without gold answers, and one that nobody answered."""
    silent = {
        "problem_id": "silent",
        "observations": [{"level": 0, "level_name": LEVELS[0], "answer": None, "confidence": None}],
    }
    return without_gold(observations, home / "unlabelled.jsonl", silent)


@pytest.fixture(scope="module")
def expected(fitted, questions) -> pd.DataFrame:
    return Fit.load(fitted[0]).predict(Observations.read(questions, "numeric"))


@pytest.fixture(scope="module")
def made(home) -> tuple[Path, str]:
    """The folder that quickstart filled, and what it printed."""
    folder = home / "quickstart"
    return folder, succeed("quickstart", "--out", folder)


@pytest.fixture
def unfitted(tmp_path, observations) -> Path:
    """The folder of an evaluation that needed no fit."""
    folder = tmp_path / "results"
    succeed("evaluate", observations, "--out", folder, "--methods", "majority", "--resamples", 5)
    return folder


class TestHelp:
    def test_no_command_shows_the_commands(self):
        assert all(command in direag().output for command in COMMANDS)

    def test_the_commands(self):
        asking, learning = {"elicit", "simulate"}, {"fit", "predict", "show", "quickstart"}
        judging = {"evaluate", "diagnose", "compare", "explain", "plot", "report", "tables", "sbc"}
        assert set(COMMANDS) == asking | learning | judging | {"learning-curve", "plan"}

    @pytest.mark.parametrize("command", [None, *COMMANDS])
    def test_help_has_an_example_that_runs_this_command(self, command):
        text = succeed(*filter(None, [command, "--help"]))
        assert f"Example: direag {command or ''}" in text

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_option_is_explained(self, command):
        group = typer.main.get_command(app)
        options = group.get_command(None, command).params
        assert all(option.help for option in options)

    def test_every_method_is_named_in_the_help_of_evaluate(self):
        text = succeed("evaluate", "--help")
        assert all(method in text for method in METHODS)


class TestSimulate:
    def test_the_file_says_that_it_is_simulated(self, observations):
        records = [json.loads(line) for line in observations.read_text().splitlines()]
        assert len(records) == 80
        assert {record["dataset"] for record in records} == {"simulated"}
        assert {record["model"] for record in records} == {"simulated"}

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_other_formats_hold_the_same(self, tmp_path, observations, suffix):
        path = tmp_path / f"o.{suffix}"
        assert "80 simulated questions, 5 levels" in succeed("simulate", "--n", 80, "--seed", 4, "--out", path)
        same = Observations.read(path, "numeric").fingerprint
        assert same == Observations.read(observations, "numeric").fingerprint

    def test_another_seed_gives_another_set(self, tmp_path, observations):
        succeed("simulate", "--n", 80, "--seed", 5, "--out", tmp_path / "o.jsonl")
        assert (tmp_path / "o.jsonl").read_text() != observations.read_text()


class TestFitAndShow:
    def test_fit_prints_what_it_read_and_what_it_found(self, fitted, observations):
        _, printed = fitted
        assert f"{observations}: numeric answers (inferred from the gold answers)" in one_line(printed)
        assert "80 questions" in printed
        assert "converged" in printed

    def test_show_says_plainly_what_the_fit_is(self, fitted):
        path, _ = fitted
        words = one_line(succeed("show", path))
        assert "method MAP, the mode of the posterior" in words
        assert "variant confidence, preset paper" in words
        assert "learned from 80 questions with numeric answers" in words
        assert "dataset, model simulated; simulated" in words
        assert f"levels 5: {', '.join(LEVELS)}" in words
        assert "recalibration platt, on the questions fitted to" in words
        assert "converged yes" in words
        assert "seed 3" in words
        for name in ("weight", "share", "bias", "slope", "prior_strength", "null_base", "null_gain"):
            assert name in words

    def test_show_json(self, fitted):
        path, _ = fitted
        shown = json.loads(succeed("show", path, "--json"))
        assert shown["fit"] == str(path)
        assert shown["preset"] == "paper"
        assert shown["levels"] == list(LEVELS)
        assert shown["converged"] is True
        assert shown["seed"] == 3
        assert shown["versions"]["bayes-direag"]
        assert len(shown["parameters"]) == 2 * 5 + 4 + 2
        # A MAP has no standard deviation, and a bias no share: undefined is null.
        assert {row["sd"] for row in shown["parameters"]} == {None}
        assert {row["relative"] for row in shown["parameters"] if row["parameter"] == "bias"} == {None}
        shares = [row["relative"] for row in shown["parameters"] if row["parameter"] == "weight"]
        assert sum(shares) == pytest.approx(1)

    def test_overrides_reach_the_fit_and_are_shown(self, tmp_path, observations):
        path = tmp_path / "fit.nc"
        options = ["--variant", "count", "--set", "eps=0.01", "--set", "weight.start=0.25", "--recalibration", "none"]
        printed = json.loads(succeed("fit", observations, "--out", path, *options, "--json"))
        assert printed["variant"] == "count"
        assert printed["preset"] == "paper with weight.start=0.25, eps=0.01, recalibration.method=none"
        preset = Fit.load(path).preset
        assert (preset.eps, preset.weight.start, preset.recalibration.method) == (0.01, 0.25, "none")

    @pytest.mark.parametrize(
        ("setting", "says"),
        [
            ("epps=0.1", "'epps'"),
            ("weight.strat=0", "'weight.strat'"),
            ("eps=0.7", "eps: Input should be less than 0.5"),
            ("eps", "FIELD=VALUE"),
            ("weight=1", "weight"),
            ("weight.low=2", "weight: start 0.54"),
            ("penalty=NaN", "penalty: Input should be a finite number"),
        ],
    )
    def test_a_setting_that_cannot_be_is_named(self, tmp_path, observations, setting, says):
        assert says in refuse("fit", observations, "--out", tmp_path / "fit.nc", "--set", setting)
        assert list(tmp_path.iterdir()) == []

    def test_settings_that_contradict_each_other(self, tmp_path, observations):
        options = ["--set", "recalibration=platt", "--out-of-fold", 3]
        assert "recalibration" in refuse("fit", observations, "--out", tmp_path / "fit.nc", *options)

    @pytest.mark.parametrize("option", [["--preset", "papre"], ["--variant", "votes"], ["--seed", "-1"]])
    def test_a_choice_that_does_not_exist_is_a_usage_error(self, tmp_path, observations, option):
        result = direag("fit", observations, "--out", tmp_path / "fit.nc", *option)
        assert result.exit_code == 2
        assert option[0] in result.stderr

    def test_names_that_look_like_markup_are_shown_as_they_are(self, tmp_path):
        questions = simulate_observations(20, seed=1).questions
        path = tmp_path / "[bold]:+1:.jsonl"
        renamed = [question.model_dump_json().replace('"vanilla"', '"[red]run[/red]"') for question in questions]
        path.write_text("\n".join(renamed) + "\n")
        printed = succeed("evaluate", path, "--out", tmp_path / "r", "--methods", "majority", "--resamples", 2)
        assert "[red]run[/red]" in printed
        assert "[bold]:+1:.jsonl" in printed.replace("\n", "")


class TestNuts:
    """The whole posterior, by a run too short to be relied on."""

    SHORT = ("--method", "nuts", "--variant", "count", "--chains", 2, "--warmup", 60, "--draws", 40)

    @pytest.fixture(scope="class")
    @staticmethod
    def sampled(home, observations) -> tuple[Path, str]:
        """A fit by sampling, and what was printed when it was made; the environment is as it was before."""
        path = home / "nuts.nc"
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
            return path, succeed("fit", observations, "--out", path, *TestNuts.SHORT, "--seed", 3)

    def test_the_options_reach_the_sampler(self, sampled):
        attributes = Fit.load(sampled[0]).tree.attrs
        assert (attributes["method"], attributes["variant"], int(attributes["seed"])) == ("nuts", "count", 3)
        assert json.loads(attributes["sampling"]) == {
            "n_chains": 2,
            "n_warmup": 60,
            "n_draws": 40,
            "target_accept": 0.9,
        }
        assert dict(Fit.load(sampled[0]).tree["posterior"].sizes) == {"chain": 2, "draw": 40, "level": 5}

    def test_bayes_is_the_preset_unless_told_otherwise(self, sampled):
        assert Fit.load(sampled[0]).preset == PRESETS["bayes"]

    def test_what_is_printed_is_what_show_shows(self, sampled):
        path, printed = sampled
        shown = one_line(succeed("show", path))
        assert shown in one_line(printed)
        assert "method NUTS, the whole posterior" in shown
        assert "variant count, preset bayes" in shown
        assert "learned from 80 questions with numeric answers" in shown
        assert "recalibration platt, on leave-one-out support" in shown
        assert "draws 40 of each of 2 chains" in shown
        assert "R-hat" in shown
        assert " ± " in shown

    def test_show_json(self, sampled):
        shown = json.loads(succeed("show", sampled[0], "--json"))
        assert (shown["method"], shown["chains"], shown["draws"]) == ("nuts", 2, 40)
        # eighty draws are too few by any measure
        assert shown["converged"] is False
        assert shown["smallest_ess"] > 0
        assert all(row["sd"] is not None for row in shown["parameters"])

    def test_show_json_says_null_where_chains_never_moved(self, tmp_path, sampled):
        fit = Fit.load(sampled[0])
        posterior = fit.tree["posterior"].to_dataset()
        stuck = posterior.assign(null_base_raw=posterior["null_base_raw"] * 0)
        fit.tree["posterior"] = xr.DataTree(stuck)
        fit.save(tmp_path / "stuck.nc")
        shown = json.loads(succeed("show", tmp_path / "stuck.nc", "--json"))
        assert shown["largest_rhat"] is None
        assert shown["converged"] is False

    def test_predictions_have_intervals(self, tmp_path, sampled, questions):
        succeed("predict", sampled[0], questions, "--out", tmp_path / "p.csv")
        table = pd.read_csv(tmp_path / "p.csv")
        assert len(table) == 81
        answered = table[table["confidence"].notna()]
        assert len(answered) == 80
        assert (answered["confidence_low"] <= answered["confidence_high"]).all()
        assert answered["change_probability"].between(0, 1).all()
        assert table.iloc[-1][["confidence_low", "confidence_high", "change_probability"]].isna().all()

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (["--target-accept", 2], "--target-accept 2.0: expected a rate between 0 and 1"),
            (["--target-accept", 0], "--target-accept 0.0: expected a rate between 0 and 1"),
            (["--preset", "release"], "preset release weighs questions unequally"),
            (["--preset", "release", "--recalibration", "platt", "--allow-weighted"], "within bounds"),
            (["--preset", "release", "--allow-weighted"], "recalibration method release is for MAP"),
            (["--recalibration", "isotonic"], "recalibration method isotonic is for MAP"),
            (["--set", "null_target_weight=balanced"], "--allow-weighted"),
            (["--set", "weight.low=-5"], "within bounds"),
        ],
    )
    def test_what_cannot_be_sampled(self, tmp_path, observations, monkeypatch, options, says):
        monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
        assert says in refuse("fit", observations, "--out", tmp_path / "fit.nc", "--method", "nuts", *options)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("option", [("--chains", 1), ("--draws", 24), ("--warmup", 0), ("--method", "hmc")])
    @pytest.mark.parametrize("command", ["fit", "evaluate"])
    def test_a_run_that_cannot_be_is_a_usage_error(self, tmp_path, observations, command, option):
        name = "--fit-method" if option[0] == "--method" and command == "evaluate" else option[0]
        result = direag(command, observations, "--out", tmp_path / "out", name, option[1])
        assert result.exit_code == 2
        assert name in result.stderr
        assert list(tmp_path.iterdir()) == []

    def test_evaluate_refuses_what_cannot_be_sampled(self, tmp_path, observations, monkeypatch):
        monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
        nuts = ["--out", tmp_path / "r", "--fit-method", "nuts", "--methods", "count"]
        assert "--target-accept 1.0: expected" in refuse("evaluate", observations, *nuts, "--target-accept", 1)
        assert "weighs questions unequally" in refuse("evaluate", observations, *nuts, "--preset", "release")
        assert list(tmp_path.iterdir()) == []

    def test_ctrl_c_while_sampling(self, tmp_path, observations, monkeypatch):
        def interrupt(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
        monkeypatch.setattr("bayes_direag.fits.nuts_fit.nuts_draws", interrupt)
        result = direag("fit", observations, "--out", tmp_path / "fit.nc", *self.SHORT)
        assert result.exit_code == 130
        assert "interrupted" in result.stderr
        assert list(tmp_path.iterdir()) == []


class TestPredict:
    def test_only_the_surest_are_answered(self, tmp_path, fitted):
        labelled, new, target = (tmp_path / name for name in ("labelled.jsonl", "new.jsonl", "p.csv"))
        simulate_observations(200, seed=77).write(labelled)
        simulate_observations(60, seed=78).write(new)
        options = ["--target-accuracy", 0.6, "--assurance", 0.8, "--labelled", labelled]
        printed = one_line(succeed("predict", fitted[0], new, "--out", target, *options))
        table = pd.read_csv(target)
        n = int(table["answered"].sum())
        assert 0 < n < 60
        assert f"{n} of 60 new questions are answered" in printed
        assert "With assurance 0.8, at least 0.6 of these answers are right" in printed
        assert table.loc[table["answered"], "confidence"].min() > table.loc[~table["answered"], "confidence"].max()
        found = json.loads(succeed("predict", fitted[0], new, "--out", target, "--json", *options))
        assert (found["abstention"]["n_answered"], found["abstention"]["source"]) == (n, "labelled")

    def test_labels_without_a_target_are_refused(self, tmp_path, fitted, questions):
        assert "--labelled is for --target-accuracy" in refuse(
            "predict", fitted[0], questions, "--out", tmp_path / "p.csv", "--labelled", questions
        )

    @pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
    def test_a_row_a_question_in_order(self, tmp_path, fitted, questions, expected, suffix):
        path = tmp_path / f"predictions.{suffix}"
        printed = succeed("predict", fitted[0], questions, "--out", path)
        assert "81 questions, 1 of them unanswered." in printed
        text = {"problem_id": "str", "answer": "str"}
        table = {
            "csv": lambda: pd.read_csv(path, dtype=text),
            "parquet": lambda: pd.read_parquet(path),
            "jsonl": lambda: pd.DataFrame(map(json.loads, path.read_text().splitlines())).astype(text),
        }[suffix]()
        columns = ["problem_id", "answer", "confidence", "support", "null_probability", "n_candidates", "n_used"]
        assert table.columns.tolist() == columns
        assert table["problem_id"].tolist() == [*(f"simulated-4-{i:06d}" for i in range(80)), "silent"]
        pd.testing.assert_frame_equal(table, expected, check_exact=True)
        assert table.iloc[-1][["answer", "confidence", "support"]].isna().all()
        assert table["confidence"].iloc[:-1].between(0, 1).all()

    def test_json(self, tmp_path, fitted, questions):
        path = tmp_path / "p.csv"
        printed = json.loads(succeed("predict", fitted[0], questions, "--out", path, "--json"))
        assert printed == {"out": str(path), "n": 81, "unanswered": 1}

    def test_nothing_is_answered(self, tmp_path, fitted):
        path = tmp_path / "silent.jsonl"
        path.write_text('{"problem_id": "a", "observations": [{"level": 0, "level_name": "vanilla"}]}\n')
        succeed("predict", fitted[0], path, "--out", tmp_path / "p.csv")
        table = pd.read_csv(tmp_path / "p.csv")
        assert table[["answer", "confidence"]].isna().all(axis=None)
        assert table["null_probability"].tolist() == [1]

    def test_an_unknown_level_is_named(self, tmp_path, fitted, observations):
        strange = tmp_path / "strange.jsonl"
        strange.write_text(observations.read_text().replace('"cautious"', '"bold"'))
        line = refuse("predict", fitted[0], strange, "--out", tmp_path / "p.csv")
        assert "'bold'" in line
        assert "very_cautious, cautious, vanilla" in line
        assert not (tmp_path / "p.csv").exists()

    def test_a_wrong_suffix(self, tmp_path, fitted, observations):
        line = refuse("predict", fitted[0], observations, "--out", tmp_path / "p.xlsx")
        assert "'.xlsx'" in line
        assert ".csv, .jsonl, .parquet" in line

    @pytest.mark.parametrize("made_of", [b"", b"not a fit", b"\x89HDF\r\n\x1a\n and no more"])
    def test_not_a_fit(self, tmp_path, observations, made_of):
        path = tmp_path / "fit.nc"
        path.write_bytes(made_of)
        assert f"{path}: not a fit" in refuse("predict", path, observations, "--out", tmp_path / "p.csv")
        assert f"{path}: not a fit" in refuse("show", path)

    def test_no_such_fit(self, tmp_path):
        assert "no such file" in refuse("show", tmp_path / "none.nc")


class TestEvaluate:
    def test_the_folder(self, evaluated):
        folder, _ = evaluated
        assert sorted(path.name for path in folder.iterdir()) == [
            "evaluation.json",
            "fits",
            "metrics.csv",
            "parameters.csv",
            "predictions.csv",
        ]
        assert sorted(path.name for path in (folder / "fits").iterdir()) == sorted(
            f"{variant}-{fold}.nc" for variant in ("count", "level", "confidence") for fold in range(5)
        )
        assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".")] == []

    def test_predictions(self, evaluated, observations):
        table = pd.read_csv(evaluated[0] / "predictions.csv", dtype=str, keep_default_na=False)
        assert table.columns.tolist() == PREDICTION_COLUMNS
        assert list(dict.fromkeys(table["method"])) == FROM_ONE_ELICITATION
        assert set(table["correct"]) == {"True", "False"}
        gold = {question.problem_id: question.gold_answer for question in Observations.read(observations).questions}
        for _, rows in table.groupby("method"):
            assert sorted(rows["problem_id"]) == sorted(gold)
            assert rows["fold"][rows["fold"] != ""].is_monotonic_increasing
        right = table["answer"] == table["problem_id"].map(gold)
        assert (right.map(str) == table["correct"]).all()
        fitted = table["method"].isin(
            ["count", "count_calibrated", "level", "level_calibrated", "confidence", "direag"]
        )
        assert (table.loc[~fitted, "null_probability"] == "").all()
        assert table.loc[fitted, "null_probability"].astype(float).between(0, 1).all()

    def test_a_saved_fit_gives_the_predictions_of_its_fold(self, evaluated, observations):
        folder, _ = evaluated
        table = pd.read_csv(folder / "predictions.csv", dtype={"fold": str, "answer": str})
        held_out = table[(table["method"] == "direag") & (table["fold"] == "1")]
        again = Fit.load(folder / "fits" / "confidence-1.nc").predict(Observations.read(observations))
        again = again.set_index("problem_id").loc[held_out["problem_id"]]
        np.testing.assert_allclose(again["confidence"], held_out["confidence"], rtol=1e-12)

    def test_metrics(self, evaluated):
        table = pd.read_csv(evaluated[0] / "metrics.csv")
        assert len(METRIC_NAMES) == 9
        intervals = [f"{name}_{end}" for name in METRIC_NAMES for end in ("low", "high")]
        assert table.columns.tolist() == ["method", "n", "unanswered", *METRIC_NAMES, *intervals]
        assert table["method"].tolist() == FROM_ONE_ELICITATION
        assert (table["n"] + table["unanswered"] == 80).all()
        rows = pd.read_csv(evaluated[0] / "predictions.csv")
        answered = rows[rows["confidence"].notna()].groupby("method", sort=False)
        np.testing.assert_allclose(table["accuracy"], answered["correct"].mean())

    def test_parameters_hold_the_loss_of_each_fit(self, evaluated):
        table = pd.read_csv(evaluated[0] / "parameters.csv")
        assert {"fold", "variant", "parameter", "level", "mean", "loss"} <= set(table.columns)
        assert len(table[["variant", "fold", "loss"]].drop_duplicates()) == 3 * 5
        assert table["loss"].gt(0).all()

    def test_the_manifest_holds_what_it_takes_to_repeat_it(self, evaluated, observations):
        manifest = json.loads((evaluated[0] / "evaluation.json").read_text())
        settings = manifest["settings"]
        assert (settings["n_folds"], settings["seed"], settings["n_resamples"]) == (5, 0, 20)
        assert settings["methods"] == FROM_ONE_ELICITATION
        assert settings["preset"]["name"] == "paper"
        assert manifest["observations"]["datasets"] == ["simulated"]
        assert manifest["observations"]["questions"] == 80
        assert manifest["observations"]["sha256"] == Observations.read(observations).fingerprint
        assert manifest["test"] is None
        assert manifest["versions"]["bayes-direag"]

    def test_it_prints_the_metrics_and_where_they_are(self, evaluated):
        folder, printed = evaluated
        assert "5-fold cross-fit, MAP, preset paper" in one_line(printed)
        assert "…" not in printed
        assert all(method in printed for method in FROM_ONE_ELICITATION)
        assert str(folder) in printed

    def test_json(self, tmp_path, observations):
        options = ["--out", tmp_path / "r", "--methods", "majority, steerconf", "--resamples", 5, "--json"]
        printed = json.loads(succeed("evaluate", observations, *options))
        assert [row["method"] for row in printed["metrics"]] == ["majority", "steerconf"]
        assert printed["metrics"][0]["n"] == 80

    def test_json_says_null_where_a_metric_is_undefined(self, tmp_path):
        path = tmp_path / "always-right.jsonl"
        question = {
            "gold_answer": "1",
            "observations": [{"level": 0, "level_name": "a", "answer": 1, "confidence": 70}],
        }
        path.write_text("".join(json.dumps({"problem_id": str(i), **question}) + "\n" for i in range(3)))
        options = ["--out", tmp_path / "r", "--methods", "majority", "--resamples", 5]
        printed = json.loads(succeed("evaluate", path, *options, "--json"))
        assert printed["metrics"][0]["auroc"] is None
        assert printed["metrics"][0]["auroc_low"] is None
        assert printed["metrics"][0]["accuracy"] == 1
        assert "\N{EN DASH}" in succeed("evaluate", path, *options)

    def test_a_test_set(self, tmp_path, observations):
        test = tmp_path / "test.jsonl"
        succeed("simulate", "--n", 30, "--seed", 9, "--out", test)
        options = ["--test", test, "--out", tmp_path / "r", "--methods", "majority,count", "--resamples", 5]
        printed = succeed("evaluate", observations, *options)
        assert "tested on" in printed
        table = pd.read_csv(tmp_path / "r" / "predictions.csv")
        assert len(table) == 2 * 30
        assert set(table["fold"]) == {"test"}
        manifest = json.loads((tmp_path / "r" / "evaluation.json").read_text())
        assert manifest["settings"]["n_folds"] is None
        assert (manifest["observations"]["questions"], manifest["test"]["questions"]) == (80, 30)

    def test_without_a_fit_the_parameter_table_is_empty_but_readable(self, unfitted):
        table = pd.read_csv(unfitted / "parameters.csv")
        assert len(table) == 0
        assert table.columns.tolist() == ["fold", "variant", "parameter", "level", "mean", "sd", "relative", "raw"]

    def test_a_named_vanilla_level(self, tmp_path, observations):
        options = ["--out", tmp_path / "r", "--methods", "vanilla", "--vanilla-level", "confident", "--resamples", 5]
        succeed("evaluate", observations, *options)
        table = pd.read_csv(tmp_path / "r" / "predictions.csv", dtype={"answer": str}).set_index("problem_id")
        for question in Observations.read(observations).questions:
            said = {report.level_name: report for report in question.observations}.get("confident")
            if said is not None:
                assert table.loc[question.problem_id, "answer"] == said.answer

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (["--methods", "majorty"], "unknown method 'majorty'"),
            (["--methods", ""], "unknown method ''"),
            (["--folds", 81], "cannot deal 80 usable questions into 81 folds"),
            (["--folds", 1], "Ask for more folds"),
            (["--vanilla-level", "vanila"], "no level is called 'vanila'"),
            (["--set", "epps=1"], "'epps'"),
        ],
    )
    def test_what_cannot_be_evaluated(self, tmp_path, observations, options, says):
        assert says in refuse("evaluate", observations, "--out", tmp_path / "r", *options)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("methods", ["majority", "direag"])
    def test_no_labelled_question(self, tmp_path, observations, methods):
        path = without_gold(observations, tmp_path / "unlabelled.jsonl")
        options = ["--out", tmp_path / "r", "--answers", "numeric", "--methods", methods]
        assert "labelled" in refuse("evaluate", path, *options)
        assert "labelled" in refuse("fit", path, "--out", tmp_path / "f.nc", "--answers", "numeric")
        assert list(tmp_path.iterdir()) == [path]


class TestWhereResultsGo:
    """Nothing of the user's is lost, and nothing is left half written."""

    def test_evaluating_again_replaces_the_folder(self, unfitted, observations):
        before = contents(unfitted)
        succeed("evaluate", observations, "--out", unfitted, "--methods", "steerconf", "--resamples", 5)
        after = contents(unfitted)
        assert before.keys() == after.keys()
        assert set(pd.read_csv(unfitted / "predictions.csv")["method"]) == {"steerconf"}
        assert [path.name for path in unfitted.parent.iterdir()] == ["results"]

    def test_the_same_again_gives_the_same_bytes(self, unfitted, observations):
        before = contents(unfitted)
        succeed("evaluate", observations, "--out", unfitted, "--methods", "majority", "--resamples", 5)
        assert contents(unfitted) == before

    @pytest.mark.parametrize("error", [OSError(28, "No space left on device"), DirEAGError("no"), KeyboardInterrupt()])
    def test_a_failure_half_way_leaves_the_old_results(self, unfitted, observations, monkeypatch, error):
        before = contents(unfitted)

        def fail(*_: object) -> None:
            raise error

        monkeypatch.setattr("analysis.evaluation_folder._manifest", fail)
        result = direag("evaluate", observations, "--out", unfitted, "--methods", "steerconf", "--resamples", 5)
        assert result.exit_code == (130 if isinstance(error, KeyboardInterrupt) else 2)
        assert len(result.stderr.splitlines()) == 1
        assert contents(unfitted) == before
        assert [path.name for path in unfitted.parent.iterdir()] == ["results"]

    @pytest.mark.parametrize("stranger", ["notes.txt", "fits/mine.csv"])
    @pytest.mark.parametrize("beside_an_evaluation", [True, False])
    def test_a_folder_with_other_files_is_left_alone(
        self, tmp_path, unfitted, observations, stranger, beside_an_evaluation
    ):
        folder = unfitted if beside_an_evaluation else tmp_path / "mine"
        (folder / stranger).parent.mkdir(parents=True, exist_ok=True)
        (folder / stranger).write_text("dear to me")
        before = contents(folder)
        line = refuse("evaluate", observations, "--out", folder, "--methods", "majority")
        assert stranger.split("/")[0] in line
        assert contents(folder) == before

    def test_the_current_folder_is_not_replaced(self, tmp_path, observations, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert "current folder" in refuse("evaluate", observations, "--out", ".", "--methods", "majority")

    def test_a_file_is_no_folder_and_a_folder_no_file(self, tmp_path, fitted, observations):
        assert "saw a file" in refuse("evaluate", observations, "--out", fitted[0], "--methods", "majority")
        assert "saw a folder" in refuse("fit", observations, "--out", tmp_path)
        assert "saw a folder" in refuse("simulate", "--out", tmp_path)

    @pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "simulate", "quickstart"])
    def test_a_missing_output_folder_is_named(self, tmp_path, fitted, observations, command):
        inputs = {"fit": [observations], "predict": [fitted[0], observations], "evaluate": [observations]}
        target = tmp_path / "nowhere" / "out.csv"
        assert f"there is no folder {target.parent}" in refuse(command, *inputs.get(command, []), "--out", target)
        assert list(tmp_path.iterdir()) == []

    def test_an_input_is_never_overwritten(self, tmp_path, fitted, observations):
        before = observations.read_bytes(), fitted[0].read_bytes()
        (tmp_path / "link.jsonl").symlink_to(observations)
        for target in (observations, tmp_path / "link.jsonl"):
            assert "is read here" in refuse("fit", observations, "--out", target)
            assert "is read here" in refuse("predict", fitted[0], observations, "--out", target)
        assert (observations.read_bytes(), fitted[0].read_bytes()) == before

    @pytest.mark.parametrize(
        ("command", "where"),
        [
            ("fit", "bayes_direag.fits.map_fit.fit_map"),
            ("predict", "pandas.DataFrame.to_csv"),
            ("simulate", "pathlib.Path.open"),
        ],
    )
    def test_ctrl_c_exits_130_and_leaves_no_file(self, tmp_path, fitted, observations, monkeypatch, command, where):
        def interrupt(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        inputs = {"fit": [observations], "predict": [fitted[0], observations], "simulate": []}
        target = tmp_path / ("out.jsonl" if command == "simulate" else "out.csv")
        monkeypatch.setattr(where, interrupt)
        result = direag(command, *inputs[command], "--out", target)
        monkeypatch.undo()
        assert result.exit_code == 130
        assert "interrupted" in result.stderr
        assert list(tmp_path.iterdir()) == []


class TestObservationFiles:
    @pytest.mark.parametrize("command", ["fit", "evaluate"])
    def test_a_missing_file(self, tmp_path, command):
        path = tmp_path / "none.jsonl"
        assert f"{path}: there is no such file" in refuse(command, path, "--out", tmp_path / "out")

    def test_an_empty_file(self, tmp_path):
        path = tmp_path / "empty.jsonl"
        path.touch()
        assert f"{path}: the file is empty" in refuse("fit", path, "--out", tmp_path / "fit.nc")

    def test_a_last_line_that_is_cut_off(self, tmp_path, observations):
        path = tmp_path / "cut.jsonl"
        path.write_text(observations.read_text()[:-30])
        line = refuse("evaluate", path, "--out", tmp_path / "r")
        assert f"{path}, line 80" in line
        assert "cut off" in line
        assert not (tmp_path / "r").exists()

    def test_a_process_ends_with_one_line_and_2(self, tmp_path):
        script = "from bayes_direag.cli import app; app()"
        command = [sys.executable, "-c", script, "show", str(tmp_path / "none.nc")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        assert done.returncode == 2
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
        assert "Traceback" not in done.stderr


@pytest.mark.slow
class TestQuickstart:
    def test_it_writes_all_of_the_main_job(self, made):
        folder, _ = made
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["evaluation", "fit.nc", "observations.jsonl", "predictions.csv", "report.html"]
        assert len(pd.read_csv(folder / "predictions.csv")) == 300
        assert pd.read_csv(folder / "evaluation" / "metrics.csv")["method"].tolist() == list(METHODS)

    def test_everything_says_what_was_asked_of_whom(self, made):
        folder, printed = made
        assert "SmolLM2-135M-Instruct, 300 sums asked at 5 levels" in printed
        attributes = Fit.load(folder / "fit.nc").tree.attrs
        assert (attributes["dataset"], attributes["model"]) == ("arithmetic", "SmolLM2-135M-Instruct")
        manifest = json.loads((folder / "evaluation" / "evaluation.json").read_text())
        assert {name: manifest[name]["questions"] for name in ("observations", "samples", "topk")} == {
            "observations": 300,
            "samples": 300,
            "topk": 300,
        }

    def test_it_shows_the_reliability_and_how_to_go_on(self, made):
        folder, printed = made
        assert "Reliability of direag" in printed
        assert f"cd {folder}" in printed
        for command in ("evaluate", "fit", "predict"):
            assert f"direag {command} " in printed
        assert f"{folder / 'report.html'}: all of it on one page" in printed

    def test_what_it_says_to_do_next_is_understood(self, made, monkeypatch, tmp_path):
        """The commands it prints run as they stand, up to the work itself."""
        folder, printed = made
        monkeypatch.chdir(tmp_path)
        lines = [line.split()[1:] for line in printed.splitlines() if line.startswith("  direag ")]
        assert [words[0] for words in lines] == ["evaluate", "fit", "predict"]
        for words in lines:
            assert "no such file" in refuse(*words)
        assert folder.exists()

    def test_a_folder_with_other_files_is_left_alone(self, tmp_path):
        (tmp_path / "fit.nc").write_text("mine")
        assert "other files" in refuse("quickstart", "--out", tmp_path)
        assert contents(tmp_path) == {"fit.nc": b"mine"}
