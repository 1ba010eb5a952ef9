"""Fits and evaluations against each other: parameters by hand, leave-one-out against ArviZ, predictions, and words."""

from dataclasses import replace

import arviz_stats
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arviz_stats.base import array_stats
from scipy.special import expit, logit

from analysis.comparison import (
    compare,
    compare_leave_one_out,
    left_out_interval,
    moved,
    out_of_sample,
    paired_metrics,
    predicted,
    side_by_side,
)
from analysis.display.text import interval, number, percent
from analysis.evaluation import Evaluation
from analysis.parameters import compared_parameters, parameter_tables
from analysis.scores.metrics import evaluate_metrics
from analysis.scores.paired import paired_table
from analysis.scores.scoring import SELECTION_SCORES, Scored
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Question
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import cross_fit, fit_map
from bayes_direag.model import presets
from bayes_direag.model.states import supports
from tests.analysis.made import Said, made_evaluation, random_said
from tests.made_fits import made_fit, natural, replaced

N = 80


class TestParameters:
    @pytest.fixture
    @staticmethod
    def table(point: Fit, nuts: Fit) -> pd.DataFrame:
        return compared_parameters({"map": point, "nuts": nuts}).set_index(["model", "parameter", "level"])

    def test_what_labels_identify_comes_first_and_the_scale_of_weights_last(self, table) -> None:
        names = table.index.get_level_values("parameter").unique().tolist()
        assert names[:4] == ["share", "slope", "bias", "sharpness"]
        assert names[-2:] == ["weight", "null_base"]
        assert table.loc["nuts"].query("~identified").index.get_level_values(0).unique().tolist() == names[-2:]
        assert table.loc["map", ["low", "high", "below"]].isna().all(axis=None)

    @pytest.mark.parametrize(("parameter", "level"), [("share", "cautious"), ("slope", np.nan), ("weight", "vanilla")])
    def test_figures_by_hand(self, table, point, nuts, parameter, level) -> None:
        def draws_of(fit: Fit) -> np.ndarray:
            draws = fit.tree["posterior"]["weight" if parameter == "share" else parameter]
            if parameter == "share":
                draws = draws / draws.sum("level")
            return (draws.sel(level=level) if isinstance(level, str) else draws).to_numpy().ravel()

        (mode,), draws = draws_of(point), draws_of(nuts)
        row = table.loc[("nuts", parameter, level)]
        low, median, high = np.quantile(draws, [0.05, 0.5, 0.95])
        assert table.loc[("map", parameter, level), "value"] == pytest.approx(mode)
        assert row[["low", "value", "high"]].tolist() == pytest.approx([low, median, high])
        assert row["below"] == pytest.approx((draws < mode).mean())

    def test_every_fit_has_columns_of_its_own(self, point, nuts) -> None:
        half = Fit(nuts.tree.isel(draw=slice(0, 150)))
        names = ["map", "a-posterior-of-one", "a-posterior-one"]
        table = compared_parameters(dict(zip(names, (point, nuts, half), strict=True)))
        shown, _ = parameter_tables(table)
        rows = {row[0].text: [cell.text for cell in row[1:]] for row in shown.rows}
        by_model = {name: table[(table["model"] == name) & (table["parameter"] == "slope")].iloc[0] for name in names}
        expected = [number(by_model["map"]["value"], 2)]
        for row in (by_model[name] for name in names[1:]):
            expected += [f"{number(row['value'], 2)} {interval(row['low'], row['high'], 2)}", percent(row["below"], 0)]
        assert rows["slope"] == expected


class TestOutOfSample:
    def test_of_a_map_is_cross_fitting(self, point: Fit, labelled: Observations) -> None:
        found = out_of_sample(point)
        for held_out in cross_fit(labelled, n_folds=5, seed=0):
            rows = found.loc[held_out.predictions["problem_id"]]
            np.testing.assert_allclose(rows["probability"], held_out.predictions["probability"], rtol=1e-4)
            right = labelled.select(held_out.index).is_right(held_out.predictions["answer"])
            assert rows["correct"].tolist() == right.tolist()

    def test_of_draws_is_leave_one_out_with_the_interval_of_reweighted_draws(self, nuts: Fit) -> None:
        held_out, ends = out_of_sample(nuts), left_out_interval(nuts)
        np.testing.assert_array_equal(held_out["probability"], nuts.left_out["probability"])
        np.testing.assert_array_equal(held_out[["low", "high"]].T, ends)
        for row in (0, 17, 41):
            question, chosen = nuts.fitted.select(np.array([row])), int(nuts.left_out["candidate"][row])
            asked = nuts.evaluation(question)
            support = supports(asked)[:, :, chosen]
            probability = nuts.calibration.of_selected(support, asked.data.panels)[:, 0]
            density = nuts.tree["log_likelihood"]["target"].to_numpy()[..., row].ravel()
            log_weight, _ = array_stats.psislw(density, r_eff=1.0)
            weight, order = np.exp(log_weight), probability.argsort()
            reached = weight[order].cumsum() / weight.sum()
            expected = [probability[order][np.searchsorted(reached, tail)] for tail in (0.05, 0.95)]
            np.testing.assert_allclose(ends[:, row], expected, rtol=1e-6)

    def test_without_information_in_a_label_it_is_the_interval_of_the_prediction(self, nuts: Fit) -> None:
        flat = replaced(nuts, "log_likelihood", {"target": np.full((2, 300, N), -0.7)})
        table = nuts.predict(nuts.fitted, warn=False)
        same = table["answer"].astype(int).to_numpy() == nuts.left_out["candidate"].to_numpy()
        low, high = left_out_interval(flat)[:, same]
        np.testing.assert_allclose(low, table.loc[same, "probability_low"], atol=0.004)
        np.testing.assert_allclose(high, table.loc[same, "probability_high"], atol=0.004)


class TestQuestionsKeptApart:
    """A MAP and draws that have learned from the same questions, and keep the same for their calibration."""

    @pytest.fixture(scope="class")
    @staticmethod
    def fits(labelled: Observations, point: Fit, nuts: Fit) -> dict[str, Fit]:
        apart = fit_map(labelled, preset=presets.preset("bayes", recalibration={"split": 4, "out_of_fold": 0}))
        draws = Fit(nuts.tree.sel(problem=[*apart.fitted.problem_id]))
        return {"map": apart, "nuts": draws, "bayes": point}

    def test_they_are_compared_on_what_all_are_fitted_to(self, fits: dict[str, Fit]) -> None:
        comparison = compare(fits, n_resamples=20)
        *_, answers = comparison.blocks()
        assert "named by the levels that gave it" in answers.note
        table = comparison.tables["predictions"]
        asked, *others = ({*fits[name].fitted.problem_id} for name in ("map", "nuts"))
        assert {*table["problem_id"]} == asked == others[0]
        assert len(table) == 3 * fits["map"].n_questions < 3 * fits["bayes"].n_questions

    def test_the_calibration_of_questions_apart_has_seen_none_of_the_others(self, fits: dict[str, Fit]) -> None:
        fit = fits["map"]
        bare = presets.preset(fit.preset, recalibration={"method": "none", "split": 0})
        found, coefficients = out_of_sample(fit)["probability"], fit.recalibration.coefficients
        for held_out in cross_fit(fit.fitted, preset=bare):
            rows = held_out.predictions.set_index("problem_id")
            score = coefficients["intercept"].item() + coefficients["slope"].item() * logit(rows["support"])
            np.testing.assert_allclose(found[rows.index], expit(score), rtol=1e-9)

    def test_models_are_compared_by_leave_one_out_on_common_questions(self, fits, nuts: Fit) -> None:
        table = compare({"apart": fits["nuts"], "whole": nuts}).tables["loo"].set_index("model")
        assert table["n"].tolist() == [fits["nuts"].n_questions] * 2
        kept = nuts.left_out["elpd"].sel(problem=[*fits["nuts"].fitted.problem_id])
        assert table.loc["whole", "elpd"] == pytest.approx(kept.sum().item())


def reached(fit: Fit, log_likelihood: np.ndarray) -> Fit:
    """Return the fit as if its draws gave these log-likelihoods, left out as ArviZ does."""
    fit = replaced(fit, "log_likelihood", {"target": log_likelihood})
    loo = arviz_stats.loo(fit.tree, pointwise=True, var_name="target")
    return replaced(fit, "loo", {"elpd": loo.elpd_i, "pareto_k": loo.pareto_k})


class TestLeaveOneOut:
    @pytest.fixture(scope="class")
    @staticmethod
    def fits(nuts: Fit) -> dict[str, Fit]:
        """Return fits whose log-likelihoods are made up: a good one, one alike, a poor one."""
        rng = np.random.default_rng(6)
        ease = np.log(rng.beta(4, 1.5, N))
        noise = 0.1 * rng.standard_normal((2, 300, N))
        makes = {"poor": ease - 0.4 * rng.random(N), "good": ease, "alike": ease + 0.05 * rng.standard_normal(N) - 0.01}
        return {name: reached(nuts, own + noise - 0.3 * (name == "alike") * noise**2) for name, own in makes.items()}

    def test_the_table_is_that_of_arviz(self, fits: dict[str, Fit]) -> None:
        table = compare_leave_one_out(fits).set_index("model")
        theirs = arviz_stats.compare({name: fit.tree for name, fit in fits.items()}, var_name="target", round_to="none")
        assert table.index[-1] == "poor"
        for name in ("elpd", "se", "p", "elpd_diff", "dse"):
            np.testing.assert_allclose(table[name].astype(float), theirs.loc[table.index, name].astype(float))
        assert table["diag_elpd"].tolist() == theirs.loc[table.index, "diag_elpd"].tolist()
        np.testing.assert_allclose(table["weight"], theirs.loc[table.index, "weight"], atol=2e-3)
        assert table["weight"].sum() == pytest.approx(1)

    def test_errors_are_over_clusters_and_a_single_question_tells_nothing(self, fits: dict[str, Fit]) -> None:
        names = np.array([f"c{row % 20}" for row in range(N)], object)
        grouped = {name: replaced(fit, "constant_data") for name, fit in fits.items()}
        for fit in grouped.values():
            fit.tree["constant_data"]["cluster"] = xr.DataArray(names, dims="problem")
        for name, row in compare_leave_one_out(grouped).set_index("model").iterrows():
            sums = fits[str(name)].left_out["elpd"].to_numpy().reshape(4, 20).sum(axis=0)
            assert row["se"] == pytest.approx(np.sqrt(20) * sums.std(ddof=1))
        single = {name: Fit(fit.tree.isel(problem=slice(0, 1))) for name, fit in fits.items()}
        comparison = compare_leave_one_out(single)
        assert comparison["distinguishable"].tolist()[1] is False

    def test_what_is_told_apart_is_said_and_drawn(self, fits: dict[str, Fit]) -> None:
        comparison = compare(fits)
        table, (((said,),), _, shown, *_) = comparison.tables["loo"], comparison.blocks()
        best, second, last = table["model"]
        assert ({best, second}, last) == ({"good", "alike"}, "poor")
        assert table["distinguishable"].tolist() == [pd.NA, False, True]
        assert said.endswith("of the other 2, 1 can be told apart from it on 80 questions.")
        assert [row[3].text for row in shown.rows] == ["best", "no", "yes"]
        assert str(round(abs(table["elpd_diff"][2]), 1)) in shown.rows[2][2].text
        (axes,) = next(comparison.pictures()).figure.axes
        bars = [segment[:, 0].tolist() for segment in axes.collections[0].get_segments()]
        middle, error = table["elpd_diff"].astype(float), 2 * table["dse"].astype(float)
        np.testing.assert_allclose(bars, np.stack([middle - error, middle + error], axis=1))

    @pytest.mark.parametrize(("total", "noise", "told"), [(-3.9, 0.0, False), (-4.1, 0.0, True), (-6.0, 0.4, False)])
    def test_neither_small_nor_uncertain_differences_count(self, nuts: Fit, total, noise, told) -> None:
        apart = noise * np.where(np.arange(N) % 2, 1, -1) + total / N
        other = replaced(nuts, "loo", {"elpd": nuts.left_out["elpd"].to_numpy() + apart})
        row = compare_leave_one_out({"good": nuts, "other": other}).iloc[1]
        assert (row["model"], bool(row["distinguishable"])) == ("other", told)
        assert row["elpd_diff"] == pytest.approx(total)
        assert row["dse"] == pytest.approx(noise * np.sqrt(N), abs=1e-9)

    def test_a_weighted_likelihood_is_refused(self, nuts: Fit) -> None:
        heavy = presets.preset("bayes", null_target_weight="balanced").model_dump_json()
        fits = {"good": nuts, "other": replaced(nuts, "loo", preset=heavy)}
        with pytest.raises(DirEAGError, match=r"other weighs questions unequally \(null_target_weight balanced\)"):
            compare(fits)

    def test_fits_to_different_questions_are_compared_by_what_they_predict(self, nuts: Fit, labelled) -> None:
        other = replaced(nuts, "loo", observations_sha256="0" * 64)
        with pytest.raises(DirEAGError, match="good and other were fitted to different obs"):
            compare({"good": nuts, "other": other})
        assert "loo" not in compare({"good": nuts, "other": other}, labelled, n_resamples=5).tables


class TestPredictions:
    @pytest.fixture(scope="class")
    @staticmethod
    def some(simulated: Observations) -> Observations:
        """Return questions of which one is unanswered, two are not labelled, and half were fitted to."""
        silent = Question(problem_id="silent", gold_answer="3", observations=())
        more = [*simulated.questions[100:120]]
        more[:2] = [question.model_copy(update={"gold_answer": None}) for question in more[:2]]
        return Observations.from_questions([*simulated.questions[:20], silent, *more], answers="numeric")

    @pytest.fixture(scope="class")
    @staticmethod
    def fits(labelled: Observations, nuts: Fit) -> dict[str, Fit]:
        loud = natural(weight=[3.0, 0.1, 0.1, 0.1, 0.1])
        return {"map": made_fit(labelled.select(slice(0, 10)), loud), "nuts": nuts}

    @pytest.fixture(scope="class")
    @staticmethod
    def frames(fits: dict[str, Fit], some: Observations) -> dict[str, pd.DataFrame]:
        return {name: predicted(fit, some) for name, fit in fits.items()}

    def test_are_those_of_the_fits_and_right_if_they_are_gold(self, frames, fits, some) -> None:
        table = side_by_side(frames).set_index(["model", "problem_id"])
        own, theirs = (fit.predict(some, warn=False) for fit in fits.values())
        for name, found in (("map", own), ("nuts", theirs)):
            assert table.loc[name].index.tolist() == list(some.problem_id)
            assert table.loc[name]["answer"].dropna().tolist() == found["answer"].dropna().tolist()
            np.testing.assert_array_equal(table.loc[name]["probability"], found["probability"])
        np.testing.assert_array_equal(table.loc["nuts"]["low"], theirs["probability_low"])
        assert table.loc["map"]["high"].isna().all()
        np.testing.assert_array_equal(table.loc["nuts"]["shift"], theirs["probability"] - own["probability"])
        changed = [a != b for a, b in zip(own["answer"], theirs["answer"], strict=True) if isinstance(a, str)]
        assert table.loc["nuts"]["changed"].dropna().tolist() == changed
        assert 0 < sum(changed) < len(changed)
        assert table.loc[("nuts", "silent"), ["answer", "shift", "changed", "correct"]].isna().all()
        assert table.loc["map"]["fitted"].tolist() == [True] * 10 + [False] * 31
        assert table.loc["nuts"]["fitted"].tolist() == [True] * 20 + [False] * 21
        golds = {one.problem_id: one.gold_answer for one in some.questions if one.observations and one.gold_answer}
        right = table.loc["nuts"]["correct"]
        assert right[right.notna()].to_dict() == {k: table.loc[("nuts", k), "answer"] == v for k, v in golds.items()}

    def test_scores_are_those_of_the_labelled_answered_questions(self, frames: dict[str, pd.DataFrame]) -> None:
        differences = paired_metrics(frames, seed=1, n_resamples=20).set_index("metric")
        assert (differences["n"] == 38).all()
        for name, frame in zip(("first", "second"), frames.values(), strict=True):
            scored = frame[frame["correct"].notna()]
            metrics = evaluate_metrics(scored["probability"], scored["correct"].astype(bool))
            expected = {metric: value.item() for metric, value in metrics.items() if metric != "mean_confidence"}
            assert differences[name].drop(list(SELECTION_SCORES)).to_dict() == pytest.approx(expected)
            assert differences.loc["benefit", name] == pytest.approx(expected["accuracy"] - expected["brier"], abs=1e-5)
            likely = scored["state_probability"].astype(float)
            assert differences.loc["log_score", name] == pytest.approx(-np.log(likely).mean())

    def test_what_is_shown_and_recorded(self, frames, fits, some) -> None:
        comparison = compare(fits, some, seed=1, n_resamples=20)
        rows = side_by_side(frames).set_index(["model", "problem_id"]).loc["nuts"]
        changed = rows[rows["changed"].fillna(value=False).astype(bool)]
        assert comparison.record["moved"][1]["changed"] == len(changed)
        said, _, _, _, metrics, answers = comparison.blocks()
        assert said.sentences[0].endswith("no verdict. Leave --obs out, or give new questions.")
        assert said.sentences[1].startswith(f"{len(changed)} of 40 answers change from map to nuts")
        assert comparison.tables["moved"]["fitted"].tolist() == [10, 20]
        least = changed[["probability", "reference"]].min(axis=1).sort_values(ascending=False, kind="stable")
        assert [row[0].text for row in answers.rows] == least.index.tolist()[:10]
        assert "levels" not in answers.note
        assert metrics.caption == "nuts minus map, 38 labelled questions, 3 others left out"
        _, picture, _ = comparison.pictures()
        drawn = [len(line.get_xdata()) for line in picture.figure.axes[0].lines if line.get_marker() in ("o", "^")]
        assert drawn == [40 - len(changed), len(changed)]
        hidden = [question.model_copy(update={"gold_answer": None}) for question in some.questions[:20]]
        blind = compare(fits, Observations.from_questions(hidden, answers="numeric"), n_resamples=20)
        assert list(blind.tables) == ["predictions", "parameters", "moved"]

    def test_how_far_they_move(self) -> None:
        answers, ids = ["1", "1", "1", None], pd.Index(list("abcd"), name="problem_id")
        first = {"answer": answers, "probability": [0.5, 0.5, 0.5, np.nan], "fitted": [True, True, False, True]}
        other = {"answer": ["1", "2", "1", None], "probability": [0.6, 0.1, 0.5, np.nan], "fitted": False}
        frames = {"first": pd.DataFrame(first, ids), "other": pd.DataFrame(other, ids)}
        row = moved(side_by_side(frames)).iloc[1]
        assert row[["n", "unanswered", "changed", "fitted", "largest_at"]].tolist() == [3, 1, 1, 0, "b"]
        assert row["mean_shift"] == pytest.approx(-0.1)
        assert (row["mean_absolute_shift"], row["largest_shift"]) == pytest.approx((0.5 / 3, -0.4))
        nothing = moved(side_by_side({name: frame[3:] for name, frame in frames.items()})).iloc[1]
        assert nothing[["n", "unanswered", "changed"]].tolist() == [0, 1, 0]
        assert np.isnan(nothing["mean_shift"])


class TestEvaluations:
    @pytest.fixture(scope="class")
    @staticmethod
    def said() -> dict[str, Said]:
        """Return what three evaluations say; one leaves a question unanswered, another has no label of one."""
        rng = np.random.default_rng(0)
        answers = {name: list(random_said(rng, 30, sharpness=1)) for name in ("first", "second", "third")}
        answers["second"][3] = (None, False)
        answers["third"][7] = (0.4, None)
        return answers

    @pytest.fixture(scope="class")
    @staticmethod
    def runs(said: dict[str, Said]) -> dict[str, Evaluation]:
        return {name: made_evaluation({"majority": said["first"], "direag": answers}) for name, answers in said.items()}

    def test_each_is_compared_with_the_first_on_what_is_labelled_in_all(self, runs, said) -> None:
        comparison = compare(runs, seed=5, n_resamples=40)
        kept = [number for number in range(30) if number != 7]
        scored = {
            name: Scored(np.array([answers[k][0] for k in kept], float), np.array([answers[k][1] for k in kept], bool))
            for name, answers in said.items()
        }
        parts = [
            paired_table(scored["first"], scored[name], seed=5, n_resamples=40).assign(model=name, n=29, left_out=1)
            for name in ("second", "third")
        ]
        expected = pd.concat(parts, ignore_index=True)
        table = comparison.tables["metrics"]
        pd.testing.assert_frame_equal(table[expected.columns], expected)
        verdict, _, shown, _ = comparison.blocks()
        drawn = next(comparison.pictures()).figure.axes[0].get_yticklabels()
        assert not any("log score" in label.get_text() for label in drawn), "neither states a distribution"
        assert shown.caption == "second minus first, 29 labelled questions, 1 others left out"
        brier = next(row for row in shown.rows if row[0].text == "Brier score")
        assert float(brier[1].text) == pytest.approx(table.query("metric == 'brier'")["first"].iloc[0], abs=6e-4)
        benefits = table[table["metric"] == "benefit"].to_dict("records")
        for sentence, row in zip(verdict.sentences[:2], benefits, strict=True):
            assert f"{row['model']} has a benefit of {row['second']:.3f}, first of {row['first']:.3f}" in sentence
            assert ("neither is clearly better" in sentence) == (row["low"] <= 0 <= row["high"])
        backwards = replace(runs["second"], predictions=runs["second"].predictions.iloc[::-1].reset_index(drop=True))
        again = compare(runs | {"second": backwards}, seed=5, n_resamples=40).tables["metrics"]
        pd.testing.assert_frame_equal(again, table)

    def test_what_cannot_be_compared_is_said(self, runs, said, point: Fit) -> None:
        first = runs["first"]
        silent, mute = ([(None, False)] * 29 + [(0.5, True)], [(0.5, True)] * 29 + [(None, False)])
        for other, options, says in (
            (runs["second"], {"method": "level"}, "first has no method 'level'; expected one of majority, direag"),
            (made_evaluation({"direag": said["first"][:20]}), {}, r"saw 30 and 20, 20 of them the same, 'q2\d' not"),
            (point, {}, "saw fits among evaluations"),
        ):
            with pytest.raises(DirEAGError, match=says):
                compare({"first": first, "other": other}, n_resamples=9, **options)
        both = {"silent": made_evaluation({"direag": silent}), "mute": made_evaluation({"direag": mute})}
        with pytest.raises(DirEAGError, match="no question is answered and labelled in all of silent, mute"):
            compare(both, n_resamples=9)
        with pytest.raises(DirEAGError, match="saw 1 to compare"):
            compare({"first": first})
