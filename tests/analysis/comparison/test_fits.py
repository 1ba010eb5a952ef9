"""A point estimate beside a posterior: parameters by hand, predictions without the label by brute force, and words."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from analysis.comparison import compare
from analysis.display.text import difference_in_words, interval
from analysis.fit_comparison import left_out_interval, out_of_sample
from analysis.parameters import compared_parameters
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import cross_fit, fit_map, fit_nuts
from bayes_direag.inference.posterior import sampled_parameters
from bayes_direag.model.presets import preset
from bayes_direag.model.selection import supports
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import gaussian_draws, made_posterior, replaced


@pytest.fixture(scope="module")
def observations() -> Observations:
    return simulate_observations(80, seed=3)


@pytest.fixture(scope="module")
def point(observations: Observations) -> Fit:
    return fit_map(observations)


@pytest.fixture(scope="module")
def posterior(observations: Observations) -> Fit:
    return made_posterior(observations, gaussian_draws(2, spread=0.1, n_draws=500))


@pytest.fixture(scope="module")
def parameters(point: Fit, posterior: Fit) -> pd.DataFrame:
    return compared_parameters({"map": point, "nuts": posterior}).set_index(["model", "parameter", "level"])


@pytest.fixture(scope="module")
def kept_apart(observations: Observations) -> dict[str, Fit]:
    sampling = SamplingSettings(n_chains=2, n_warmup=30, n_draws=40)
    counting = preset("paper", "count")
    nuts = fit_nuts(observations, preset=counting, sampling=sampling)
    return {"map": fit_map(observations, preset=counting), "nuts": nuts, "bayes": fit_map(observations)}


class TestParameters:
    def test_what_labels_identify_comes_first_and_the_scale_of_weights_last(self, parameters: pd.DataFrame) -> None:
        names = parameters.index.get_level_values("parameter").unique().tolist()
        assert names[:4] == ["share", "slope", "bias", "sharpness"]
        assert names[-2:] == ["weight", "null_base"]
        assert parameters.loc["nuts"].query("~identified").index.get_level_values(0).unique().tolist() == names[-2:]

    @pytest.mark.parametrize(("parameter", "level"), [("share", "cautious"), ("slope", np.nan), ("weight", "vanilla")])
    def test_figures_by_hand(
        self, parameters: pd.DataFrame, point: Fit, posterior: Fit, parameter: str, level: str | float
    ) -> None:
        def draws_of(fit: Fit) -> np.ndarray:
            draws = fit.tree["posterior"]["weight" if parameter == "share" else parameter]
            if parameter == "share":
                draws = draws / draws.sum("level")
            return (draws.sel(level=level) if isinstance(level, str) else draws).to_numpy().ravel()

        (mode,), draws = draws_of(point), draws_of(posterior)
        row = parameters.loc[("nuts", parameter, level)]
        low, median, high = np.quantile(draws, [0.05, 0.5, 0.95])
        assert parameters.loc[("map", parameter, level), "value"] == pytest.approx(mode)
        assert row[["low", "value", "high"]].tolist() == pytest.approx([low, median, high])
        assert row["below"] == pytest.approx((draws < mode).mean())
        assert row["shift"] == pytest.approx((mode - median) * 3.29 / (high - low))

    def test_a_point_has_no_interval(self, parameters: pd.DataFrame) -> None:
        assert parameters.loc["map", ["low", "high", "below", "shift"]].isna().all(axis=None)


class TestOutOfSample:
    def test_of_a_map_is_cross_fitting(self, point: Fit, observations: Observations) -> None:
        found = out_of_sample(point)
        for held_out in cross_fit(observations, n_folds=5, seed=0):
            rows = found.loc[held_out.predictions["problem_id"]]
            np.testing.assert_allclose(rows["probability"], held_out.predictions["probability"], rtol=1e-4)
            right = observations.select(held_out.index).is_right(held_out.predictions["answer"])
            assert rows["correct"].tolist() == right.tolist()

    def test_of_draws_is_leave_one_out_with_the_interval_of_reweighted_draws(self, posterior: Fit) -> None:
        found = out_of_sample(posterior)
        np.testing.assert_array_equal(found["probability"], posterior.left_out["probability"])
        assert ((found["low"] <= found["probability"]) & (found["probability"] <= found["high"])).all()
        for row in (0, 17, 41):
            expected = _reweighted_quantiles(posterior, row)
            np.testing.assert_allclose(left_out_interval(posterior)[:, row], expected, atol=0.004)

    def test_without_information_in_a_label_it_is_the_interval_of_the_prediction(self, posterior: Fit) -> None:
        flat = replaced(posterior, "log_likelihood", target=np.full((4, 500, 80), -0.7))
        predicted = posterior.predict(posterior.fitted, warn=False)
        same = predicted["answer"].astype(int).to_numpy() == posterior.left_out["candidate"].to_numpy()
        low, high = left_out_interval(flat)[:, same]
        np.testing.assert_allclose(low, predicted.loc[same, "probability_low"], atol=0.004)
        np.testing.assert_allclose(high, predicted.loc[same, "probability_high"], atol=0.004)


class TestQuestionsKeptApart:
    """A MAP of ``paper`` and its posterior learn from the same questions, and keep the same for their calibration."""

    def test_they_are_compared_on_what_all_are_fitted_to(self, kept_apart: dict[str, Fit]) -> None:
        table = compare(kept_apart, n_resamples=20).tables["predictions"]
        assert (
            {*table["problem_id"]} == {*kept_apart["map"].fitted.problem_id} == {*kept_apart["nuts"].fitted.problem_id}
        )
        assert len(table) == 3 * kept_apart["map"].n_questions < 3 * kept_apart["bayes"].n_questions

    def test_the_calibration_of_questions_apart_has_seen_none_of_the_others(self, kept_apart: dict[str, Fit]) -> None:
        fit = kept_apart["map"]
        bare = preset(fit.preset, recalibration={"method": "none", "split": 0})
        found, coefficients = out_of_sample(fit)["probability"], fit.recalibration.coefficients
        for held_out in cross_fit(fit.fitted, preset=bare):
            rows = held_out.predictions.set_index("problem_id")
            score = coefficients["intercept"].item() + coefficients["slope"].item() * logit(rows["support"])
            np.testing.assert_allclose(found[rows.index], expit(score), rtol=1e-9)

    def test_models_are_compared_by_leave_one_out_on_common_questions(
        self, kept_apart: dict[str, Fit], observations: Observations
    ) -> None:
        whole = preset("paper", "count", recalibration={"split": 0})
        other = fit_nuts(observations, preset=whole, sampling=SamplingSettings(n_chains=2, n_warmup=30, n_draws=40))
        table = compare({"apart": kept_apart["nuts"], "whole": other}).tables["loo"].set_index("model")
        assert table["n"].tolist() == [kept_apart["nuts"].n_questions] * 2
        kept = other.left_out["elpd"].sel(problem=[*kept_apart["nuts"].fitted.problem_id])
        assert table.loc["whole", "elpd"] == pytest.approx(kept.sum().item())


def _reweighted_quantiles(fit: Fit, row: int) -> list[float]:
    """Return the ends of an interval from raw importance weights, which hardly differ from smoothed ones here."""
    question, chosen = fit.fitted.select(np.array([row])), int(fit.left_out["candidate"][row])
    support = supports(fit.reports(question), sampled_parameters(fit.tree))[:, 0, chosen]
    final = {name: draws.to_numpy().ravel() for name, draws in fit.tree["recalibration"].to_dataset().items()}
    probability = expit(final["intercept"] + final["slope"] * logit(support))
    weight, order = np.exp(-fit.tree["log_likelihood"]["target"].to_numpy()[..., row].ravel()), probability.argsort()
    reached = weight[order].cumsum() / weight.sum()
    return [float(probability[order][np.searchsorted(reached, tail)]) for tail in (0.05, 0.95)]


def test_the_whole_comparison(point: Fit, posterior: Fit) -> None:
    found = compare({"map": point, "nuts": posterior}, n_resamples=50)
    assert list(found.tables) == ["metrics", "predictions", "parameters", "moved"]
    assert found.tables["moved"]["fitted"].tolist() == [0, 0]
    assert [picture.name for picture in found.pictures()] == ["metrics", "predictions", "parameters"]
    tables = [block for block in found.blocks() if hasattr(block, "columns")]
    headers = [column.header.replace("\n", " ") for column in tables[0].columns]
    assert headers == ["parameter", "map mode", "nuts median", "90% interval", "draws below", "shift"]


@pytest.mark.parametrize("p", [0.001, 0.049, 0.06, 0.3, 0.336, float("nan")])
@pytest.mark.parametrize(("low", "high"), [(-0.05, -0.0002), (0.01, 0.04), (-0.01, 0.02), (0.0, 0.03)])
def test_better_and_worse_need_the_interval_and_the_p_value(low: float, high: float, p: float) -> None:
    said = difference_in_words("nuts", (low + high) / 2, low, high, p=p, n=300, level=0.95)
    may_be_called = (low > 0 or high < 0) and p <= 0.05
    assert any(word in said for word in ("nuts is better", "nuts is worse")) == may_be_called
    assert ("neither is clearly better" in said) is not may_be_called


@pytest.mark.parametrize("end", [-0.00017, 0.00017, -4e-7, 0.0004, 0.012])
def test_an_end_shows_its_side_of_zero(end: float) -> None:
    text = interval(min(end, 0.0), max(end, 0.0), signed=True)
    assert ("\N{MINUS SIGN}" in text, "+" in text) == (end < 0, end > 0)
    assert float(text[1:-1].replace("\N{MINUS SIGN}", "-").split(", ")[end > 0]) == pytest.approx(end, rel=0.5)
