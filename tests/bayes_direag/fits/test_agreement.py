"""Fits to levels that agree more and less: what unlabelled questions teach, and what they do not."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.errors import ArgumentError, DirEAGError
from bayes_direag.fits import making
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import cross_fit, fit_map, fit_nuts

SKILL = {"good": 0.9, "middling": 0.6, "other": 0.5, "third": 0.55, "poor": 0.2}


def panel(n: int, skill: dict[str, float], seed: int = 1) -> Observations:
    """Return labelled questions to levels that are right this often; no answer recurs in another question."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(n):
        right, *wrong = (10 * number + rng.permutation(9)).tolist()
        said = [right if rng.random() < share else int(rng.choice(wrong[:4])) for share in skill.values()]
        about = {"problem_id": f"q{number:03d}", "gold_answer": right}
        for name, answer in zip(skill, said, strict=True):
            rows.append({**about, "level": name, "answer": answer, "confidence": int(rng.integers(50, 100))})
    return Observations.from_frame(pd.DataFrame(rows), answers="numeric")


@pytest.fixture(scope="module")
def whole() -> Observations:
    return panel(300, SKILL)


@pytest.fixture(scope="module")
def few(whole: Observations) -> Observations:
    return whole.select(slice(0, 8))


@pytest.fixture(scope="module")
def fit(whole: Observations, few: Observations) -> Fit:
    return fit_map(few, unlabelled=whole)


def level_means(fit: Fit, name: str) -> pd.Series:
    table = fit.parameters()
    return table[table["parameter"] == name].set_index("level")["mode" if fit.method == "map" else "median"]


def test_agreement_gives_levels_more_weight(fit: Fit, few: Observations) -> None:
    agreement = few.with_agreement().agreement
    alone = fit_map(replace(few, agreement=agreement._replace(score=np.zeros_like(agreement.score))))
    for name in ("weight", "vote"):
        means = level_means(fit, name)
        assert means["good"] > means[["middling", "other", "third"]].max()
        assert means["poor"] < means[["middling", "other", "third"]].min()
        means_alone = level_means(alone, name)
        assert means.max() - means.min() > 1.5 * (means_alone.max() - means_alone.min())


def test_agreement_counts_unlabelled_questions_whatever_their_labels(fit, whole, few) -> None:
    hidden = replace(whole, labelled=np.arange(len(whole)) < len(few))
    wrong = replace(whole, correct=np.zeros_like(whole.correct))
    expected = fit.predict(whole)["probability"]
    np.testing.assert_allclose(fit_map(hidden).predict(whole)["probability"], expected, rtol=1e-9)
    np.testing.assert_array_equal(fit_map(few, unlabelled=wrong).predict(whole)["probability"], expected)
    assert np.abs(fit_map(few).predict(whole)["probability"] - expected).max() > 0.01


def test_agreement_is_kept_by_the_fit(fit, whole, tmp_path) -> None:
    fit.save(tmp_path / "fit.nc")
    loaded, expected = Fit.load(tmp_path / "fit.nc"), whole.with_agreement().agreement
    for mine, theirs in zip(loaded.fitted.agreement, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    np.testing.assert_array_equal(loaded.likelihood_data.agreement, loaded.fitted.agreement.score)
    pd.testing.assert_frame_equal(loaded.predict(whole), fit.predict(whole), check_exact=True)


def test_agreement_teaches_nothing_where_levels_are_alike() -> None:
    alike = panel(200, dict.fromkeys(SKILL, 0.7), seed=5)
    assert (alike.with_agreement().agreement.score == 0).all()
    mode = fit_map(alike).draws()[["weight_agreement", "vote_agreement"]].to_numpy()
    np.testing.assert_allclose(mode, [[0.4, 0.15]], rtol=1e-6)


def test_agreement_of_every_fold_is_that_of_the_whole_file(
    whole: Observations, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, seen = whole.with_agreement().agreement.score, []
    for part in cross_fit(whole, n_folds=3):
        np.testing.assert_allclose(part.fit.fitted.agreement.score, expected)
    some = fit_map(whole)
    monkeypatch.setattr(making, "_sampled", lambda given, *_: seen.append(given.agreement.score) or some)
    cross_fit(whole, n_folds=3, method="nuts")
    assert len(seen) == 3
    np.testing.assert_allclose(seen, [expected] * 3)


@pytest.mark.parametrize("function", [fit_map, fit_nuts])
def test_agreement_refuses_what_cannot_be_used(function, few: Observations, whole: Observations) -> None:
    with pytest.raises(DirEAGError, match="preset paper learns nothing from unlabelled questions"):
        function(few, preset="paper", unlabelled=whole)
    with pytest.raises(ArgumentError, match=r"saw str; expected Observations. Read them"):
        function(few, unlabelled="new.jsonl")


@pytest.mark.slow
def test_agreement_is_in_the_posterior_too(few: Observations, whole: Observations) -> None:
    sampling = {"num_chains": 2, "num_warmup": 50, "num_samples": 100}
    fit = fit_nuts(few, unlabelled=whole, **sampling, seed=1)
    np.testing.assert_allclose(fit.fitted.agreement.score, whole.with_agreement().agreement.score)
    assert level_means(fit, "vote")["good"] > level_means(fit, "vote")["poor"]
    prior = fit.with_predictive().tree["prior"]["weight"].mean(("chain", "draw")).to_series()
    assert prior["good"] > prior["poor"]
