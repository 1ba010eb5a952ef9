"""``direag fit`` and ``direag show``: a MAP and a short run of NUTS from end to end, and what cannot be fitted."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import PRESETS
from tests.command_line import direag, one_line, refuse, succeed

NUTS = ("--method", "nuts")
LEVELS = ("very_cautious", "cautious", "vanilla", "confident", "very_confident")


def test_fit_and_show_say_plainly_what_the_fit_is(fitted, observations):
    path, printed = fitted
    words = one_line(succeed("show", path))
    assert f"{observations}: numeric answers (inferred from the gold answers)" in one_line(printed)
    assert words in one_line(printed)
    for said in (
        "method MAP, the mode of the posterior",
        "variant confidence, preset bayes",
        "learned from 80 questions with numeric answers",
        "dataset, model simulated; simulated",
        f"levels 5: {', '.join(LEVELS)}",
        "recalibration platt, on out-of-fold support, 5 folds",
        "converged yes",
        "seed 3",
        "share",
        *PRESETS["bayes"].parameters("confidence"),
    ):
        assert said in words


def test_show_json(fitted):
    path, _ = fitted
    shown = json.loads(succeed("show", path, "--json"))
    assert shown["fit"] == str(path)
    assert shown["preset"] == "bayes"
    assert shown["levels"] == list(LEVELS)
    assert shown["converged"] is True
    assert shown["seed"] == 3
    assert shown["versions"]["bayes-direag"]
    assert len(shown["parameters"]) == 3 * (5 + 2) + 5 + 2
    # A MAP has no standard deviation, and a bias no share: undefined is null.
    assert {row["sd"] for row in shown["parameters"]} == {None}
    assert {row["relative"] for row in shown["parameters"] if row["parameter"] == "bias"} == {None}
    shares = [row["relative"] for row in shown["parameters"] if row["parameter"] == "weight"]
    assert sum(shares) == pytest.approx(1)


def test_overrides_reach_the_fit_and_are_shown(tmp_path, observations):
    path = tmp_path / "fit.nc"
    options = ["--variant", "count", "--set", "null_target_weight=2", "--set", "recalibration.penalty=0.25"]
    printed = json.loads(succeed("fit", observations, "--out", path, *options, "--recalibration", "none", "--json"))
    assert printed["variant"] == "count"
    assert (
        printed["preset"] == "bayes with null_target_weight=2.0, recalibration.method=none, recalibration.penalty=0.25"
    )
    preset = Fit.load(path).preset
    assert (preset.null_target_weight, preset.recalibration.penalty, preset.recalibration.method) == (2, 0.25, "none")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--set", "epps=0.1"], "'epps'"),
        (["--set", "weight.strat=0"], "'weight.strat'"),
        (["--set", "eps=0.7"], "eps: Input should be less than 0.5"),
        (["--set", "eps"], "FIELD=VALUE"),
        (["--set", "weight=1"], "weight"),
        (["--set", "weight.low=3"], "weight: start 2.0 lies outside the bounds"),
        (["--set", "weight.low=1"], "weight is pooled over levels (weight_spread), so it cannot be bounded"),
        (["--set", "vote=null"], "there is vote_spread without vote"),
        (["--set", "penalty=NaN"], "penalty: Input should be a finite number"),
        (["--set", "recalibration=platt", "--out-of-fold", 3], "recalibration"),
        ([*NUTS, "--target-accept", 2], "--target-accept 2.0: expected a rate between 0 and 1"),
        ([*NUTS, "--target-accept", 0], "--target-accept 0.0: expected a rate between 0 and 1"),
        ([*NUTS, "--preset", "release"], "preset release weighs questions unequally"),
        ([*NUTS, "--preset", "release", "--recalibration", "platt", "--allow-weighted"], "within bounds"),
        ([*NUTS, "--preset", "release", "--allow-weighted"], "recalibration method release is for MAP"),
        ([*NUTS, "--recalibration", "isotonic"], "recalibration method isotonic is for MAP"),
        ([*NUTS, "--set", "null_target_weight=balanced"], "--allow-weighted"),
        ([*NUTS, "--set", "slope.low=-5"], "within bounds"),
    ],
)
def test_what_cannot_be_fitted_is_named(tmp_path, observations, monkeypatch, options, says):
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
    assert says in refuse("fit", observations, "--out", tmp_path / "fit.nc", *options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "option",
    [("--preset", "papre"), ("--seed", "-1"), ("--chains", 1), ("--draws", 24), ("--warmup", 0), ("--method", "hmc")],
)
@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_a_choice_that_does_not_exist_is_a_usage_error(tmp_path, observations, command, option):
    name = "--fit-method" if option[0] == "--method" and command == "evaluate" else option[0]
    result = direag(command, observations, "--out", tmp_path / "out", name, option[1])
    assert result.exit_code == 2
    assert name in result.stderr
    assert list(tmp_path.iterdir()) == []


class TestNuts:
    """The whole posterior, by a run too short to be relied on."""

    SHORT = (*NUTS, "--variant", "count", "--chains", 2, "--warmup", 20, "--draws", 25)

    @pytest.fixture(scope="class")
    @staticmethod
    def sampled(tmp_path_factory, observations) -> tuple[Path, str]:
        """A fit by sampling, and what was printed when it was made; the environment is as it was before."""
        path = tmp_path_factory.mktemp("sampled") / "nuts.nc"
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
            return path, succeed("fit", observations, "--out", path, *TestNuts.SHORT, "--seed", 3)

    def test_the_options_reach_the_sampler(self, sampled):
        fit = Fit.load(sampled[0])
        attributes = fit.tree.attrs
        assert (attributes["method"], attributes["variant"], int(attributes["seed"])) == ("nuts", "count", 3)
        sampling = {"n_chains": 2, "n_warmup": 20, "n_draws": 25, "target_accept": 0.95}
        assert json.loads(attributes["sampling"]) == sampling
        assert dict(fit.tree["posterior"].sizes) == {"chain": 2, "draw": 25, "level": 5}
        assert fit.preset == PRESETS["bayes"]

    def test_what_is_printed_is_what_show_shows(self, sampled):
        path, printed = sampled
        shown = one_line(succeed("show", path))
        assert shown in one_line(printed)
        for said in (
            "method NUTS, the whole posterior",
            "variant count, preset bayes",
            "recalibration platt, on leave-one-out support",
            "draws 25 of each of 2 chains",
            "R-hat",
            " ± ",
        ):
            assert said in shown

    def test_show_json(self, sampled):
        shown = json.loads(succeed("show", sampled[0], "--json"))
        assert (shown["method"], shown["chains"], shown["draws"]) == ("nuts", 2, 25)
        # fifty draws are too few by any measure
        assert shown["converged"] is False
        assert shown["smallest_ess"] > 0
        assert all(row["sd"] is not None for row in shown["parameters"])

    def test_show_json_says_null_where_chains_never_moved(self, tmp_path, sampled):
        fit = Fit.load(sampled[0])
        fit.tree["unconstrained_posterior"]["null_base_raw"] *= 0
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

    def test_ctrl_c_while_sampling(self, tmp_path, observations, monkeypatch):
        def interrupt(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
        monkeypatch.setattr("bayes_direag.fits.fitting.nuts_draws", interrupt)
        result = direag("fit", observations, "--out", tmp_path / "fit.nc", *self.SHORT)
        assert result.exit_code == 130
        assert "interrupted" in result.stderr
        assert list(tmp_path.iterdir()) == []
