"""The final calibration of questions that lack reports, against plain loops over the labelled questions."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from bayes_direag import PRESETS, Fit, Observations, fit_map, preset, simulate_observations
from bayes_direag.errors import FewReportsWarning
from bayes_direag.inference.logistic_regression import LogisticRegressions
from bayes_direag.inference.panels import PRIOR_SD
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.states import supports
from tests.bayes_direag import brute_force
from tests.bayes_direag.fits.test_groups import grouped


def keeping(questions: Observations, levels: list[int]) -> Observations:
    """Return questions with the reports of some columns."""
    return questions.without(~np.isin(np.arange(questions.n_levels), levels)[None] & questions.usable)


def of_column(questions: Observations, levels: list[int]) -> np.ndarray:
    """Return which questions have reports in all these columns."""
    return np.asarray(questions.usable[:, levels].all(axis=1))


def by_hand(fit: Fit, levels: list[int]) -> tuple[list[tuple[float, bool, float]], float]:
    """Return (support, right, weight) of two answers of every question with these levels, and its mean reports."""
    fitted, draws = fit.fitted, fit.tree["replay_draws"].to_dataset()
    unseen = fit.tree["replay_weights"]["unseen"].to_numpy()
    agreement = fit.likelihood_data.agreement
    values = [
        brute_force.natural({str(name): draws[name].to_numpy()[k] for name in draws}, "bayes", agreement)
        for k in range(draws.sizes["sample"])
    ]
    rows = np.flatnonzero(of_column(fitted, levels))
    only, answers = keeping(fitted, levels), []
    for row in rows:
        of_draws = [
            brute_force.support(brute_force.scores(brute_force.reports_of(only, row), each, fit.preset.eps))
            for each in values
        ]
        names = sorted({*of_draws[0]} - {brute_force.NULL}, key=int)
        without = {name: sum(w * p[name] for w, p in zip(unseen[row], of_draws, strict=True)) for name in names}
        with_label = of_draws[-1] if fit.method == "map" else {n: sum(p[n] for p in of_draws) for n in names}
        for chosen in (max(names, key=without.__getitem__), max(names, key=with_label.__getitem__)):
            right = bool(fitted.correct_candidate[row, fitted.candidates[row].index(chosen)])
            answers.append((without[chosen], right, fitted.weight[row] / 2))
    return answers, float(np.average(fitted.usable[rows].sum(axis=1), weights=fitted.weight[rows]))


def log_density(point: np.ndarray, answers: list[tuple[float, bool, float]], mean: np.ndarray, sd: np.ndarray) -> float:
    total = stats.norm.logpdf(point, mean, sd).sum()
    for support, right, weight in answers:
        p = brute_force.sigmoid(point[0] + point[1] * math.log(support / (1 - support)))
        total += weight * math.log(p if right else 1 - p)
    return float(total)


@pytest.mark.parametrize("levels", [[3], [0, 2], [0, 1, 2, 4]])
def test_coefficients_are_the_mode_of_labelled_questions_with_just_these_levels(small: Fit, levels: list[int]) -> None:
    answers, n_reports = by_hand(small, levels)
    general = np.array([small.recalibration.coefficients[name].item() for name in ("intercept", "slope")])
    sd = PRIOR_SD * math.log(n_reports / len(levels))
    mode = optimize.minimize(lambda x: -log_density(x, answers, general, sd), general, tol=1e-10).x
    panel = np.isin(np.arange(5), levels)[None].astype(int)
    np.testing.assert_allclose(small.calibration.coefficients(panel)[0], mode, atol=1e-5)
    gain = sum(weight * right for _, right, weight in answers) / sum(weight for *_, weight in answers)
    rows = np.flatnonzero(of_column(small.fitted, levels))
    assert small.calibration.gain(panel)[0] == pytest.approx(
        gain - small.calibration.labelled.whole.right[:, rows].mean()
    )


def test_predictions_of_a_panel_use_its_coefficients(small: Fit, panel: Observations) -> None:
    new = panel.select(slice(64, None))
    lone = keeping(new.select(of_column(new, [1])), [1])
    a, b = small.calibration.coefficients(np.array([[0, 1, 0, 0, 0]]))[0]
    table = small.predict(lone, warn=False)
    logit = np.log(table["support"]) - np.log1p(-table["support"])
    np.testing.assert_allclose(table["probability"], 1 / (1 + np.exp(-(a + b * logit))), rtol=1e-9)


def test_where_nothing_is_missing_nothing_changes(small: Fit, panel: Observations, nuts: Fit) -> None:
    """To the last bit of a MAP; nor where there are more reports than any labelled question has."""
    for fit in (small, nuts):
        whole = panel.select(panel.usable.all(axis=1))
        table = fit.predict(whole, warn=False)
        support = supports(fit.evaluation(whole))[..., :-1]
        chosen = support.mean(axis=0).argmax(axis=1)
        selected = np.take_along_axis(support, chosen[None, :, None], axis=2)[..., 0]
        expected = fit.recalibration.of_selected(selected)
        if fit is small:
            np.testing.assert_array_equal(table["probability"], expected[0])
        np.testing.assert_allclose(table["probability"], expected.mean(axis=0), rtol=1e-13)  # sums in another order
        assert np.isnan(fit.calibration.gain(np.full((1, 5), 2))).all()


@pytest.mark.parametrize("name", ["paper", "release", "none"])
def test_presets_without_folds_keep_their_calibration(name: str, panel: Observations) -> None:
    given = preset("bayes", recalibration={"method": "none", "out_of_fold": 0}) if name == "none" else PRESETS[name]
    fit = fit_map(panel.select(slice(64)), preset=given)
    assert "replay_draws" not in fit.tree.children
    lone = keeping(panel.select(slice(64, None)), [1])
    with pytest.warns(FewReportsWarning, match="less than half of the reports of fitted ones"):
        table = fit.predict(lone)
    expected = fit.recalibration.of_selected(table["support"].to_numpy()[None])[0]
    np.testing.assert_array_equal(table["probability"], expected)


def test_neither_batch_nor_order_of_questions_matters(small: Fit, panel: Observations) -> None:
    new, rng = panel.select(slice(64, None)), np.random.default_rng(0)
    new = new.without(rng.random(new.shape) < 0.5)
    together = small.predict(new, warn=False)["probability"].to_numpy()
    order = rng.permutation(len(new))
    np.testing.assert_allclose(small.predict(new.select(order), warn=False)["probability"], together[order], rtol=1e-12)
    fresh = Fit(small.tree)
    alone = [fresh.predict(new.select(np.array([row])), warn=False)["probability"].item() for row in range(12)]
    np.testing.assert_allclose(alone, together[:12], rtol=1e-12)  # pieces of other sizes round otherwise


def test_coefficients_do_not_depend_on_what_is_learned_with_them(small: Fit) -> None:
    panels = np.array([each for each in np.ndindex(*[2] * len(small.level_names)) if 0 < sum(each) < 4][:24])
    together = Fit(small.tree).calibration.coefficients(panels)
    one_by_one, own = Fit(small.tree).calibration, Fit(small.tree).calibration
    np.testing.assert_array_equal(np.concatenate([one_by_one.coefficients(each[None]) for each in panels]), together)
    np.testing.assert_array_equal(np.concatenate([*map(own.coefficients, np.split(panels, [3, 10, 11]))]), together)


def test_order_of_labelled_questions_does_not_matter(panel: Observations) -> None:
    known, lone = panel.select(slice(64)), keeping(panel.select(slice(64, None)), [1, 4])
    again = fit_map(known.select(np.random.default_rng(0).permutation(64)))
    expected = fit_map(known).predict(lone, warn=False)["probability"]
    np.testing.assert_allclose(again.predict(lone, warn=False)["probability"], expected, atol=1e-6)


def test_order_of_runs_does_not_matter(panel: Observations) -> None:
    """Of a group so many runs are replayed as a question has, the same ones in whatever order they stand."""
    known, new = grouped(panel.select(slice(64))), grouped(panel.select(slice(64, None)))
    columns = np.lexsort([[3, 1, 4, 0, 2], new.slots])  # within groups
    turned = replace(
        known,
        signals={name: values[:, columns] for name, values in known.signals.items()},
        **{name: getattr(known, name)[:, columns] for name in ("candidate", "correct", "status")},
    )
    lone = keeping(new, [0, 4])
    first, second = fit_map(known), fit_map(turned)
    panels = first.evaluation(lone).data.panels
    assert panels.sum(axis=1).max() == 2
    np.testing.assert_allclose(
        first.calibration.coefficients(panels), second.calibration.coefficients(panels), atol=1e-6
    )
    assert not np.isnan(first.calibration.gain(panels[panels.any(axis=1)])).any()


def test_more_runs_than_labelled_ones_count_as_the_most(small_groups: Fit) -> None:
    calibration = small_groups.calibration
    most = calibration.labelled.panels.max(axis=0)
    alone = np.array([most[0], *[0] * (len(most) - 1)])
    more = alone + np.array([7, *[0] * (len(most) - 1)])
    first, second = calibration.coefficients(np.stack([alone, more]))
    np.testing.assert_array_equal(first, second)
    assert not np.isnan(calibration.gain(alone[None])).any()


def test_weights_count_questions_as_often(panel: Observations) -> None:
    """A labelled question of weight 2 is replayed as two of the same name and fold."""
    known, lone = panel.select(slice(60)), np.array([[0, 1, 0, 0, 0]])
    fit = fit_map(known.weighted(np.where(np.arange(60) < 20, 3.0, 1.0)))
    answers, n_reports = by_hand(fit, [1])
    assert {weight for *_, weight in answers} == {0.5, 1.5}
    general = np.array([fit.recalibration.coefficients[name].item() for name in ("intercept", "slope")])
    sd = PRIOR_SD * math.log(n_reports)
    mode = optimize.minimize(lambda x: -log_density(x, answers, general, sd), general, tol=1e-10).x
    np.testing.assert_allclose(fit.calibration.coefficients(lone)[0], mode, atol=1e-5)


def test_draws_have_the_moments_of_their_posterior(nuts: Fit) -> None:
    """By a grid, for each draw of the general coefficients; a normal approximation serves."""
    panel = np.array([[0, 0, 1, 0, 0]])
    answers, n_reports = by_hand(nuts, [2])
    sd = PRIOR_SD * math.log(n_reports)
    general = np.stack([nuts.recalibration.coefficients[name].ravel() for name in ("intercept", "slope")], axis=1)
    grid = np.stack(np.meshgrid(np.linspace(-4, 4, 161), np.linspace(-1, 3, 161), indexing="ij"), axis=-1).reshape(
        -1, 2
    )
    support, right, weight = map(np.array, zip(*answers, strict=True))
    score = grid[:, :1] + grid[:, 1:] * np.log(support / (1 - support))
    likelihood = (weight * -np.logaddexp(0, np.where(right, -score, score))).sum(axis=1)
    means = []
    for centre in general[::40]:
        log = likelihood + stats.norm.logpdf(grid, centre, sd).sum(axis=1)
        p = np.exp(log - log.max())
        means.append((p @ grid / p.sum(), p @ grid**2 / p.sum()))
    expected, square = np.mean(means, axis=0)
    spread = np.sqrt(square - expected**2)
    support = np.linspace(0.2, 0.8, 3)
    drawn = nuts.calibration.of_selected(support[None], np.repeat(panel, 3, axis=0))
    logits = np.log(drawn / (1 - drawn))
    slope = (logits[:, 2] - logits[:, 0]) / (2 * math.log(4))
    for values, mean, sd_ in zip((logits[:, 1], slope), expected, spread, strict=True):
        assert values.mean() == pytest.approx(mean, abs=0.25 * sd_)
        assert values.std() == pytest.approx(sd_, rel=0.15)


@pytest.mark.parametrize("name", ["small", "nuts"])
def test_a_saved_fit_has_the_same_calibration(name: str, request, panel: Observations, tmp_path: Path) -> None:
    fit, lone = request.getfixturevalue(name), keeping(panel.select(slice(64, None)), [0, 3])
    fit.save(tmp_path / "fit.nc")
    expected = Fit(fit.tree).predict(lone, warn=False)  # which has not learned of panels before
    pd.testing.assert_frame_equal(Fit.load(tmp_path / "fit.nc").predict(lone, warn=False), expected, check_exact=True)


def test_what_lacks_and_what_that_costs_is_said(small: Fit, panel: Observations) -> None:
    """Of the level that costs most if it is alone."""
    alone = small.calibration.gain(np.eye(5, dtype=int))
    level, points = int(alone.argmin()), -100 * float(alone.min())
    new = panel.select(slice(64, None))
    whole = new.select(new.usable.all(axis=1))
    lone = whole.without((np.arange(len(whole)) > 2)[:, None] & (np.arange(5) != level))
    names = ", ".join(name for k, name in enumerate(panel.level_names) if k != level)
    said = (
        rf"{len(whole) - 3} of {len(whole)} questions lack reports \(none has {names}\). So labelled ones are answered "
        rf"right {points:.0f} points less often than with all reports, which their probabilities allow for"
    )
    with pytest.warns(FewReportsWarning, match=said):
        small.predict(lone)
    assert small.remarks(whole) == []
    reports = [report.model_dump(exclude_none=True) for report in whole.questions[0].observations]
    assert small.answer(reports)["remarks"] == []
    (remark,) = small.answer([reports[level]])["remarks"]
    assert "1 of 1 questions lack reports" in remark


@pytest.mark.slow
def test_probabilities_hold_where_one_bad_level_is_left() -> None:
    """Of five simulated levels one is much worse than it says: alone, the general calibration is far off."""
    known, new = (simulate_observations(n, seed=seed) for n, seed in ((300, 8), (3000, 9)))
    fit, off = fit_map(known), []
    for level in range(5):
        lone = keeping(new.select(of_column(new, [level])), [level])
        table = fit.predict(lone, warn=False)
        right = lone.is_right(table["answer"]).mean()
        general = fit.recalibration.of_selected(table["support"].to_numpy()[None])
        off.append((general.mean() - right, table["probability"].mean() - right))
    assert np.abs(off).max(axis=0)[0] > 0.1
    assert np.abs(off).max(axis=0)[1] < 0.08
    assert np.abs(off).mean(axis=0)[1] < 0.04


def test_regressions_have_a_mode_each() -> None:
    rng = np.random.default_rng(0)
    member, x = rng.integers(0, 3, 90), rng.normal(0, 3, 90)
    right, weight = rng.random(90) < 1 / (1 + np.exp(-x)), rng.choice([0.5, 2.0], 90)
    right[member == 2] = True
    mean, sd = np.array([0.3, 0.8]), np.array([[0.01, 0.01], [1.0, 0.3], [30.0, 30.0]])
    regressions = LogisticRegressions(np.stack([np.ones(90), x], axis=1), right, weight, member, mean, sd)
    modes, _ = regressions.modes()
    hessians = regressions.hessians(modes)
    for number in range(3):
        chosen = member == number

        def loss(point: np.ndarray, chosen: np.ndarray = chosen, sd: np.ndarray = sd[number]) -> float:
            score = np.where(right, 1, -1)[chosen] * (point[0] + point[1] * x[chosen])
            return float(weight[chosen] @ np.logaddexp(0, -score) + (((point - mean) / sd) ** 2).sum() / 2)

        assert loss(modes[number]) <= optimize.minimize(loss, modes[number], method="Nelder-Mead").fun + 1e-9
        gradient = optimize.approx_fprime(modes[number], loss, 1e-6)
        assert (np.abs(gradient) <= 1e-6 * hessians[number].diagonal() + 1e-4).all()
        step = 1e-4 * np.eye(2)
        for k in range(2):
            second = (loss(modes[number] + step[k]) - 2 * loss(modes[number]) + loss(modes[number] - step[k])) / 1e-8
            assert hessians[number, k, k] == pytest.approx(second, rel=1e-3, abs=1e-4)


def test_panels_count_reports_by_level(panel: Observations) -> None:
    data = LikelihoodData.of(grouped(panel.select(slice(30))))
    expected = [
        [sum(row[k] >= 0 for k in range(len(row)) if data.level[k] == level) for level in range(data.n_levels)]
        for row in data.candidate.T
    ]
    np.testing.assert_array_equal(data.panels, expected)
