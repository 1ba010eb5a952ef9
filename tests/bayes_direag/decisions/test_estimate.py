"""The estimate of accuracy and benefit against closed forms, plain loops over draws, and simulated questions."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from scipy.special import logit
from scipy.stats import binomtest, t

from bayes_direag.data.observations import Observations
from bayes_direag.decisions.estimate import Estimate, estimate, sizes
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.container import calibration_group
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import fit_map, fits_by
from bayes_direag.model import presets
from bayes_direag.model.selection import Recalibration
from bayes_direag.model.settings import FitSettings
from bayes_direag.model.simulate import simulate_observations
from bayes_direag.model.states import supports


@pytest.fixture(scope="module")
def questions() -> Observations:
    return simulate_observations(700, seed=6)


@pytest.fixture(scope="module")
def fit(questions: Observations) -> Fit:
    return fit_map(questions.select(slice(100)))


@pytest.fixture(scope="module")
def new(questions: Observations) -> Observations:
    return questions.select(slice(100, 400))


def constant(fit: Fit, new: Observations, probability: float, weight: float = 1.0, n_clusters: int = 0) -> Estimate:
    """Estimate by the fit with a final calibration that gives all answers one probability.

    Its 100 questions count as given, and are in so many clusters.
    """
    intercept = np.full((1, 1), np.clip(logit(probability), -1000, 1000))
    tree, n = fit.tree.copy(), fit.n_questions
    final = Recalibration("platt", {"intercept": intercept, "slope": np.zeros((1, 1))}, 1e-6)
    tree["recalibration"] = calibration_group(final)
    columns = {"question_weight": ("problem", np.full(n, weight))}
    if n_clusters:
        columns["cluster"] = ("problem", (np.arange(n) % n_clusters).astype(str).astype(object))
    tree["constant_data"] = xr.DataTree(tree["constant_data"].to_dataset().assign(columns))
    del tree["replay_draws"], tree["replay_weights"]  # so that it holds for questions that lack reports too
    return estimate(Fit(tree), new)


@pytest.mark.parametrize("probability", [0.0, 0.72, 1.0])
def test_estimate_of_equal_probabilities_has_intervals_of_text_books(fit, new, probability):
    """With 100 labels and 300 answers, the inverse of 1/100 + 1/300 is 75."""
    predicted = constant(fit, new, probability)
    wilson = binomtest(round(75 * probability), 75).proportion_ci(0.9, "wilson")
    assert predicted.accuracy == pytest.approx(probability)
    assert (predicted.accuracy_low, predicted.accuracy_high) == pytest.approx((wilson.low, wilson.high))
    assert predicted.worth == pytest.approx(75)
    assert predicted.benefit == pytest.approx(probability**2)
    held = np.clip(probability, 1 / 102, 101 / 102)
    half = t(99).ppf(0.95) * np.sqrt(4 * probability**2 * held * (1 - held) / 75)
    assert (predicted.benefit_low, predicted.benefit_high) == pytest.approx(
        (predicted.benefit - half, predicted.benefit + half)
    )


def test_estimate_says_what_more_labels_would_bring(fit, new):
    """Four times as many halve the interval, but for what the new answers themselves leave to chance."""
    few, many = (constant(fit, new, 0.5, weight) for weight in (0.4, 1.6))
    width, narrowed = (one.accuracy_high - one.accuracy_low for one in (few, many))
    assert few.narrowed(120) == pytest.approx(narrowed / width, rel=0.03)
    assert few.text().endswith("40 labelled ones. About 120 more labels would narrow this to 58% of its width.")
    assert replace(few, n_answers=10**6).narrowed(120) == pytest.approx(0.5, abs=1e-3)
    assert many.text().endswith("the 160 labelled ones."), "of 300 questions, 480 cannot be labelled"


def test_estimate_of_unequal_probabilities_is_worth_more(fit, new):
    predicted, p = estimate(fit, new), fit.predict(new)["probability"].to_numpy()
    held = p.clip(1 / 102, 101 / 102)
    assert predicted.accuracy == pytest.approx(p.mean())
    assert predicted.benefit == pytest.approx((p**2).mean())
    assert predicted.worth == pytest.approx(75 * p.mean() * (1 - p.mean()) / (held * (1 - held)).mean())


def test_estimate_of_a_posterior_is_of_means_by_draw_with_noise(nuts, questions):
    new = questions.select(slice(400, 480))
    predicted, aligned = estimate(nuts, new, interval_level=0.8), nuts.aligned(new)
    asked = nuts.evaluation(aligned)
    support = supports(asked)
    selected = support[..., :-1].mean(axis=0).argmax(axis=1)
    of_selected = np.take_along_axis(support, selected[None, :, None], axis=2)[..., 0]
    p = nuts.calibration.of_selected(of_selected, asked.data.panels)
    rng, accuracy, benefit = np.random.default_rng(1), [], []
    for probability in p:
        right = rng.random((50, len(new))) < probability
        accuracy += right.mean(axis=1).tolist()
        benefit += (right - (right - p.mean(axis=0)) ** 2).mean(axis=1).tolist()
    assert predicted.accuracy == pytest.approx(p.mean())
    assert predicted.benefit == pytest.approx(np.mean(benefit), abs=0.004)
    assert (predicted.accuracy_low, predicted.accuracy_high) == pytest.approx(
        np.quantile(accuracy, [0.1, 0.9]), abs=0.02
    )
    assert (predicted.benefit_low, predicted.benefit_high) == pytest.approx(np.quantile(benefit, [0.1, 0.9]), abs=0.02)
    assert predicted.worth == pytest.approx(p.mean() * (1 - p.mean()) / np.var(accuracy), rel=0.15)
    assert estimate(nuts, new, interval_level=0.8).record() == predicted.record()


def test_estimate_counts_questions_of_a_cluster_as_one(fit, nuts, new):
    single = constant(fit, new, 0.72)
    clustered = constant(fit, new, 0.72, 4.0, 25)
    assert (clustered.accuracy_low, clustered.n_labels) == (pytest.approx(single.accuracy_low), 400)
    pairs = replace(new, cluster=tuple(str(row // 2) for row in range(len(new))))
    assert sizes(pairs) == (300, 150)
    for learned in (fit, nuts):
        apart, together = estimate(learned, new), estimate(learned, pairs)
        assert together.accuracy == apart.accuracy
        assert together.accuracy_high - together.accuracy_low > apart.accuracy_high - apart.accuracy_low


def test_estimate_counts_no_seen_or_unanswered_questions(fit, new, questions):
    silent = new.without(np.arange(len(new))[:, None] < 20)
    assert estimate(fit, silent).n_answers == silent.answered.sum() == 280
    assert estimate(fit, questions.select(slice(80, 400))).record() == estimate(fit, new).record()
    for refused, said in (
        (questions.select(slice(80)), "80 questions 80 are"),
        (silent.select(slice(20)), "20 questions 0 are"),
    ):
        with pytest.raises(DirEAGError, match=f"of {said} answered, and none of these is new"):
            estimate(fit, refused)


def test_estimate_refuses_what_it_cannot_use(questions, fit, new):
    raw = fit_map(questions.select(slice(60)), preset=presets.preset("bayes", recalibration={"method": "none"}))
    with pytest.raises(DirEAGError, match="no final calibration"):
        estimate(raw, new)
    for level in (0.0, 1.0, np.nan):
        with pytest.raises(DirEAGError, match="expected a probability between 0 and 1"):
            estimate(fit, new, interval_level=level)


@pytest.mark.slow
def test_estimate_intervals_hold_as_often_as_they_say(questions):
    """Of 40 fits to 50 of 700 questions; the bounds are three standard errors from 0.9."""
    rng, chosen = np.random.default_rng(2), np.zeros((40, len(questions)), bool)
    for row in chosen:
        row[rng.choice(len(questions), 50, replace=False)] = True
    held = []
    for fit, row in zip(fits_by(FitSettings(presets.PRESETS["bayes"]), questions, chosen), chosen, strict=True):
        new = questions.select(rng.choice(np.flatnonzero(~row), 100, replace=False))
        predicted, table = estimate(fit, new), fit.predict(new)
        right = new.is_right(table["answer"])
        benefit = right.mean() - ((table["probability"] - right) ** 2).mean()
        held.append(
            (
                predicted.accuracy_low <= right.mean() <= predicted.accuracy_high,
                predicted.benefit_low <= benefit <= predicted.benefit_high,
            )
        )
    assert (np.mean(held, axis=0) > 0.9 - 3 * np.sqrt(0.09 / 40)).all()
