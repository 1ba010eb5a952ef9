"""Evaluations against their own parts, as they are made, written and read again."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.evaluation import FITS, MANIFEST, TABLES, Evaluation, evaluate
from analysis.evaluation import _chosen_methods as chosen_methods
from analysis.methods.registry import METHODS as EVERY_METHOD
from analysis.methods.registry import SAMPLED_METHODS
from analysis.scores.scoring import METRIC_NAMES
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits import making
from bayes_direag.fits.convergence import sampler_summary
from bayes_direag.fits.fit import Fit
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.conftest import METHODS
from tests.analysis.made import made_evaluation, write_run
from tests.bayes_direag.fits.test_groups import grouped
from tests.command_line import contents

FROM_ONE_ELICITATION = tuple(name for name in EVERY_METHOD if name not in {*SAMPLED_METHODS, "label_logistic"})
COLUMNS = ["problem_id", "fold", "method", "answer", "answer_as_given", "probability", "correct"]
COLUMNS += ["null_probability", "state_probability", "cluster", "at_random"]


@pytest.fixture(scope="module")
def few() -> Observations:
    return simulate_observations(n=80, seed=9)


class TestWhole:
    def test_every_method_has_a_row_for_every_question(self, evaluation: Evaluation) -> None:
        assert tuple(evaluation.metrics["method"]) == METHODS
        assert list(evaluation.predictions) == COLUMNS
        for method, rows in evaluation.predictions.groupby("method"):
            assert rows["problem_id"].is_unique
            assert len(rows) == 82
            assert rows["fold"].dropna().is_monotonic_increasing
            stated = rows[["null_probability", "state_probability"]].notna().any(axis=None)
            assert stated == (method in ("conditional_logit", "direag_raw", "direag"))

    def test_unanswered_and_unlabelled_questions_are_kept_and_counted(self, evaluation: Evaluation) -> None:
        rows = evaluation.method_predictions.set_index("problem_id")
        for name in ("silent 0", "silent 1"):
            assert rows.loc[name, ["fold", "answer", "probability"]].isna().all()
            assert not rows.loc[name, "correct"]
        hidden = rows.loc[list(evaluation.observations.problem_id[1:11])]
        assert hidden["correct"].isna().all()
        assert hidden["probability"].notna().all()
        metrics = evaluation.metrics.set_index("method")
        assert (metrics.loc["direag", "n"], metrics.loc["direag", "unanswered"]) == (70, 2)
        vanilla = evaluation.predictions.query("method == 'vanilla' and correct.notna()")
        assert metrics.loc["vanilla", "unanswered"] == vanilla["probability"].isna().sum() > 2

    def test_metrics_are_those_of_the_predictions(self, evaluation: Evaluation) -> None:
        rows = evaluation.predictions.query("method == 'conditional_logit' and correct.notna()")
        rows = rows.dropna(subset="probability")
        metrics = evaluation.metrics.set_index("method").loc["conditional_logit"]
        right = rows["correct"].astype(float)
        np.testing.assert_allclose(metrics["accuracy"], right.mean())
        loss = (rows["probability"] - right) ** 2
        np.testing.assert_allclose(metrics["brier"], loss.mean(), atol=1e-5)
        np.testing.assert_allclose(metrics["benefit"], (right - loss).sum() / (metrics["n"] + metrics["unanswered"]))
        intervals = [f"{name}_{end}" for name in METRIC_NAMES for end in ("low", "high")]
        assert evaluation.metrics.columns.tolist() == ["method", "n", "unanswered", *METRIC_NAMES, *intervals]
        assert metrics["accuracy_low"] < metrics["accuracy"] < metrics["accuracy_high"]
        assert evaluation.table["benefit"].is_monotonic_decreasing

    def test_parameters_and_predictions_are_those_of_its_fits(self, evaluation: Evaluation) -> None:
        table = evaluation.parameters
        assert table.groupby(["variant", "fold"]).size().to_dict() == {("confidence", "0"): 27, ("confidence", "1"): 27}
        assert (table["projected_gradient"] <= 1e-6).all()
        assert [*evaluation.fits] == [("confidence", "0"), ("confidence", "1")]
        for (_, fold), fit in evaluation.fits.items():
            assert (table.loc[table["fold"] == fold, "loss"] == fit.tree["sample_stats"]["loss"].item()).all()
            rows = evaluation.method_predictions[evaluation.method_predictions["fold"] == fold].set_index("problem_id")
            predicted = fit.predict(evaluation.observations).set_index("problem_id").loc[rows.index]
            np.testing.assert_allclose(rows["probability"], predicted["probability"], rtol=1e-12)

    def test_its_record_has_settings_origin_and_versions(self, evaluation: Evaluation, home: Path) -> None:
        settings, origin = evaluation.settings, evaluation.of
        expected = {"fit_method": "map", "sampling": None, "methods": METHODS, "vanilla_level": "vanilla", "n_folds": 2}
        expected |= {"preset": PRESETS["bayes"], "seed": 1, "n_resamples": 50, "interval_level": 0.95}
        assert dict(settings) == expected
        known = {
            "file": "observations.jsonl",
            "questions": 82,
            "answers": "numeric",
            "levels": evaluation.observations.level_names,
        }
        known |= {"sha256": evaluation.observations.fingerprint, "datasets": ("simulated",), "models": ("simulated",)}
        known |= {"learned_sha256": Fit.load(home / "fit.nc").fingerprint, "columns": (), "groups": None, "scale": None}
        known["same"] = ""
        assert (dict(origin), evaluation.record.test) == (known, None)
        assert set(evaluation.record.versions) == {"bayes-direag", "jax", "numpyro", "numpy", "scipy"}

    def test_written_again_it_is_the_same(self, evaluation: Evaluation, home: Path, tmp_path: Path) -> None:
        evaluation.write(tmp_path / "again")
        written, known = contents(tmp_path / "again"), contents(home / "evaluation")
        assert (
            written.keys()
            == known.keys()
            == {*(f"{name}.csv" for name in TABLES), MANIFEST} | {f"{FITS}/confidence-{fold}.nc" for fold in (0, 1)}
        )
        assert all(written[name] == known[name] for name in written if name.endswith(".csv"))


def test_answers_stand_beside_their_spelling_in_the_reports(few: Observations) -> None:
    """Those of the levels by all methods, and those of an elicitation of its own."""
    frame = few.select(slice(0, 40)).to_frame()
    eggs = Observations.from_frame(frame.assign(answer=frame["answer"] + ".0 eggs"), answers="numeric")
    samples = Observations.from_questions(eggs.questions[29::-1], "numeric")
    methods = ["majority", "majority_platt", "self_consistency"]
    evaluation = evaluate(eggs, elicited={"samples": samples}, methods=methods, n_folds=2, n_resamples=1).predictions
    answered = evaluation["answer"].notna()
    assert (evaluation["answer_as_given"] == evaluation["answer"] + ".0 eggs")[answered].all()
    assert evaluation["answer_as_given"].isna().equals(~answered)
    assert (~answered).groupby(evaluation["method"]).sum().to_dict() == {
        **dict.fromkeys(methods[:2], 0),
        methods[2]: 10,
    }
    golds = {one.problem_id: one.gold_answer for one in eggs.questions}
    joined = evaluation[(evaluation["method"] == "self_consistency") & answered].set_index("problem_id")
    assert joined["correct"].tolist() == [golds[name] == answer for name, answer in joined["answer"].items()]
    assert 0.2 < joined["correct"].astype(float).mean() < 1


@pytest.mark.slow
def test_evaluation_of_a_fit_by_sampling(tmp_path: Path) -> None:
    sampling = SamplingSettings(num_chains=2, num_warmup=50, num_samples=40)
    labelled, test = simulate_observations(40, seed=3), simulate_observations(15, seed=4)
    options = {"methods": ["count", "count_calibrated"], "preset": "paper", "fit_method": "nuts", "sampling": sampling}
    sampled = evaluate(labelled, test, **options, n_resamples=5, seed=7)
    fit, table = sampled.fits["count", "test"], sampled.parameters
    expected = fit.predict(test).set_index("problem_id")
    for method, column in (("count", "support"), ("count_calibrated", "probability")):
        rows = sampled.predictions[sampled.predictions["method"] == method].set_index("problem_id").loc[expected.index]
        pd.testing.assert_series_equal(rows["probability"], expected[column], check_names=False)
        pd.testing.assert_series_equal(rows["answer"], expected["answer"])
    assert table.query("parameter == 'weight'")[["low", "high"]].notna().all(axis=None)
    for name in ("lp", "diverging", "acceptance_rate", "step_size"):
        assert table[name].unique().tolist() == [pytest.approx(float(fit.tree["sample_stats"][name].mean()))]
    sampled.write(tmp_path / "r")
    again = Fit.load(tmp_path / "r" / FITS / "count-test.nc").tree
    assert all(again[name].equals(group) for name, group in fit.tree.children.items() if name != "log_likelihood")
    settings = json.loads((tmp_path / "r" / MANIFEST).read_text())["settings"]
    assert (settings["fit_method"], settings["n_folds"]) == ("nuts", None)
    assert SamplingSettings.model_validate(settings["sampling"]) == sampling


def test_methods_that_the_observations_do_not_allow_are_left_out(few: Observations) -> None:
    frame = few.to_frame().drop(columns="level").replace({"level_name": {"vanilla": "plain"}})
    plain = Observations.from_frame(frame, level="level_name", answers="numeric")
    assert chosen_methods(None, plain, None, {}, False) == FROM_ONE_ELICITATION[1:]
    assert chosen_methods(None, plain, "plain", {}, False) == FROM_ONE_ELICITATION
    votes = chosen_methods(None, few.voting_as(few.level_names), None, {"samples": few}, True)
    assert {"self_consistency", "answer_entropy", "majority", "label_logistic"} < {*votes}
    assert {"mean_confidence", "steerconf", "topk"}.isdisjoint(votes)


def test_evaluation_on_a_test_set_with_its_levels_in_another_order(few: Observations) -> None:
    labelled, test = few.select(slice(0, 60)), few.select(slice(60, 80))
    turned = test.align(test.level_names[::-1])
    assert turned.level_names == test.level_names[::-1]
    evaluation, expected = (
        evaluate(labelled, new, methods=["conditional_logit"], n_resamples=1).predictions for new in (turned, test)
    )
    np.testing.assert_allclose(evaluation["probability"], expected["probability"])


def test_how_to_fit_is_recorded_with_its_defaults_and_reaches_the_fits(few: Observations, monkeypatch) -> None:
    for fit_method, how, recorded in (
        ("nuts", None, SamplingSettings()),
        ("map", SamplingSettings(num_samples=50), None),
    ):
        evaluation = evaluate(few, methods=["majority"], fit_method=fit_method, sampling=how, n_resamples=1).settings
        assert (evaluation.fit_method, evaluation.sampling, evaluation.preset) == (
            fit_method,
            recorded,
            PRESETS["bayes"],
        )
    seen = []

    def record(_: object, data: LikelihoodData, **settings: object) -> None:
        seen.append(settings | {"signals": data.n_signals})
        raise InterruptedError

    monkeypatch.setattr(making, "nuts_draws", record)
    sampling = SamplingSettings(num_chains=3, num_samples=50)
    options = {"fit_method": "nuts", "preset": "paper", "sampling": sampling, "seed": 4}
    with pytest.raises(InterruptedError):
        evaluate(few, methods=["level_calibrated"], **options)
    assert seen == [{"sampling": sampling, "seed": 4, "progress": False, "signals": 0}], "level looks at no confidence"


def test_clusters_share_a_fold_and_widen_the_intervals(few: Observations) -> None:
    copied = [
        question.model_copy(update={"problem_id": f"{question.problem_id} {copy}", "cluster": question.problem_id})
        for question in few.questions[:60]
        for copy in range(5)
    ]
    observations = Observations.from_questions(copied, answers="numeric")
    options = {"methods": ["majority", "majority_platt"], "n_folds": 3, "seed": 1, "n_resamples": 200}
    evaluation = evaluate(observations, **options)
    rows = evaluation.predictions
    assert (rows.groupby("cluster")["fold"].agg(lambda fold: len(set(fold.dropna()))) <= 1).all()
    assert rows["cluster"].nunique() == 60
    alone = evaluate(replace(observations, cluster=None), **options)
    assert alone.predictions["cluster"].isna().all()
    wider, narrower = (
        (table["benefit_high"] - table["benefit_low"]).to_numpy() for table in (evaluation.metrics, alone.metrics)
    )
    assert (wider > 1.5 * narrower).all()  # five copies of a question say as much as one: the square root of 5


def test_levels_in_groups_and_a_test_set(simulated: Observations, tmp_path: Path) -> None:
    observations = grouped(simulated)
    labelled, test = observations.select(slice(0, 60)), observations.select(slice(60, 90))
    evaluation = evaluate(labelled, test, methods=["majority", "direag"], n_resamples=20)
    rows = evaluation.method_predictions.set_index("problem_id")
    (fit,) = evaluation.fits.values()
    assert fit.level_names == ("careful", "vanilla", "bold")
    expected = fit.predict(test).set_index("problem_id")["probability"]
    np.testing.assert_allclose(rows["probability"], expected.loc[rows.index])
    assert evaluation.parameters.query("parameter == 'weight'")["level"].nunique() == 3
    evaluation.write(tmp_path / "run")
    again = Evaluation.read(tmp_path / "run")
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(again, name), getattr(evaluation, name), check_dtype=False, rtol=1e-14)
    assert again.design == "30 questions, fitted to 60 others"


SAID = {
    "vanilla": [(0.9, True), (None, False), (0.25, False), (0.6, None)],
    "direag": [(0.123456789012345, True), (0.5, True), (1.0, False), (0.0, None)],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", SAID)


class TestReading:
    def test_tables_are_as_written_and_texts_stay_texts(self, folder: Path) -> None:
        table = pd.read_csv(folder / "predictions.csv", dtype=str)
        table.iloc[:3, 0] = ["007", "NA", "1e3"]
        table.to_csv(folder / "predictions.csv", index=False)
        row = {"fold": ["0"], "variant": ["count"], "parameter": ["weight"], "level": ["NA"], "identified": [True]}
        pd.DataFrame(row).to_csv(folder / "parameters.csv", index=False)
        run, expected = Evaluation.read(str(folder)), made_evaluation(SAID).predictions
        assert run.predictions.iloc[:3, 0].tolist() == ["007", "NA", "1e3"]
        assert run.parameters["level"].tolist() == ["NA"]
        pd.testing.assert_frame_equal(run.predictions.iloc[:, 1:], expected.iloc[:, 1:], check_dtype=False)
        assert run.metrics.set_index("method")["n"].to_dict() == {"vanilla": 2, "direag": 3}
        assert run.metrics.set_index("method")["unanswered"].to_dict() == {"vanilla": 1, "direag": 0}

    @pytest.mark.parametrize(
        ("dataset", "model", "about"), [("svamp", "Qwen", "svamp, Qwen"), ("svamp", None, "svamp"), (None, None, "")]
    )
    def test_what_it_is_about(self, tmp_path: Path, dataset, model, about) -> None:
        run = Evaluation.read(write_run(tmp_path / "run", SAID, dataset=dataset, model=model, n_fitted=7))
        assert (run.name, run.folder) == (about, tmp_path / "run")
        assert (run.how, run.design) == ("MAP, preset paper", "4 questions, fitted to 7 others")

    @pytest.mark.parametrize(
        ("file", "change", "says"),
        [
            (MANIFEST, lambda _: "{", "JSONDecodeError"),
            (MANIFEST, lambda _: "{}", "ValidationError .*settings"),
            (MANIFEST, lambda _: "[1]", "ValidationError"),
            # a setting of another version
            (MANIFEST, lambda text: text.replace('"preset": {', '"preset": {"new": 1,'), "ValidationError"),
            ("metrics.csv", lambda text: text.replace("brier", "Brier", 1), "brier"),
            ("predictions.csv", lambda text: text.replace("0.9,True", "much,True"), "much"),
            ("predictions.csv", lambda text: text.replace("method", "way", 1), r"'vanilla'.*Evaluate again\."),
            ("predictions.csv", None, "No such file"),
            (MANIFEST, lambda text: text.replace('"interval_level": 0.95', '"interval_level": 95'), "interval_level"),
            (MANIFEST, lambda text: text.replace('"n_resamples": 200', '"n_resamples": 0'), "n_resamples"),
            ("metrics.csv", lambda text: text.replace("direag", "other"), "rows of vanilla, other .* vanilla, direag"),
            ("metrics.csv", lambda text: text.splitlines()[0], "rows of no method"),
            ("predictions.csv", lambda text: text + text.splitlines()[-1], "9 rows .* 4 questions"),
            ("predictions.csv", lambda text: text.splitlines()[0], "0 rows"),
            ("predictions.csv", lambda text: text.replace("0.9,True", "1.9,True"), "probability of 1.9"),
        ],
    )
    def test_a_broken_file_is_named(self, folder: Path, file, change, says) -> None:
        path = folder / file
        text = path.read_text()
        path.unlink() if change is None else path.write_text(change(text))
        with pytest.raises(DirEAGError, match=rf"{file}: this cannot be read; saw .*{says}"):
            Evaluation.read(folder)

    def test_other_folders_and_other_observations(self, folder: Path, tmp_path: Path) -> None:
        for other, seen in ((tmp_path / "nowhere", "no such folder"), (tmp_path, r"no evaluation\.json there")):
            with pytest.raises(DirEAGError, match=f"saw {seen}; expected a folder written by direag evaluate"):
                Evaluation.read(other)
        simulate_observations(30, seed=4).write(tmp_path / "other.jsonl")
        with pytest.raises(DirEAGError, match=r"saw other observations \(SHA-256 [0-9a-f]{16}\) than those that"):
            Evaluation.read(folder, tmp_path / "other.jsonl")


@pytest.mark.parametrize(
    ("gradient", "n_converged", "reached"), [(1e-9, 2, "1e-09"), (1.5e-6, 1, "2e-06"), (np.nan, 1, "nan")]
)
def test_evaluation_judges_a_map_by_its_gradient(gradient, n_converged, reached) -> None:
    parameters = pd.DataFrame(
        {"variant": "level", "fold": ["0", "0", "1"], "projected_gradient": [1e-12, 1e-12, gradient]}
    )
    (evaluation,) = replace(made_evaluation(SAID), parameters=parameters).convergence.itertuples()
    assert (evaluation.variant, evaluation.n_fits, evaluation.n_converged) == ("level", 2, n_converged)
    assert evaluation.worst == f"gradient {reached} (at most 1e-06 is fine)"


def test_nuts_is_judged_by_its_chains(nuts: Fit) -> None:
    short = Fit(nuts.tree.isel(draw=slice(0, 40)))
    fits, made = {("confidence", "0"): nuts, ("confidence", "1"): short}, made_evaluation(SAID)
    parameters = pd.DataFrame({"variant": "confidence", "fold": ["0", "0", "1"]})
    settings = made.settings.model_copy(update={"fit_method": "nuts"})
    record = made.record.model_copy(update={"settings": settings})
    (convergence,) = replace(made, parameters=parameters, record=record, fits=fits).convergence.itertuples()
    assert (convergence.n_fits, convergence.n_converged) == (2, 1)
    worst = max(sampler_summary(fit).largest_rhat for fit in fits.values())
    assert convergence.worst.startswith(f"R-hat at most {worst:.3f} (up to 1.02")
    assert convergence.worst.endswith("0 divergences (up to 0)")


def test_evaluation_is_read_from_a_copy_of_its_folder(home: Path, tmp_path: Path) -> None:
    """Fits are read when they are asked for, from where the folder is."""
    again = Evaluation.read(shutil.copytree(home / "evaluation", tmp_path / "moved"))
    assert sum(fit.n_questions for fit in again.fits.values()) == 70
