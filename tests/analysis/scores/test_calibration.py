"""The verdict on calibration: false alarms, what is found, and what is too few, over simulated answers."""

import numpy as np
import pytest

from analysis.scores import calibration
from analysis.scores.calibration import FALSE_ALARM, LARGEST_MISSED, POWER, Calibration, judge_calibration
from analysis.scores.metrics import evaluate_metrics


@pytest.fixture(autouse=True)
def few_draws(request, monkeypatch) -> None:
    """Simulate less. Where rates are counted, 200 draws rather than 500 raise the rate of false alarms by .003."""
    monkeypatch.setattr(calibration, "_DRAWS", 200 if "slow" in request.keywords else 100)


def judged(stated: np.ndarray, right: np.ndarray, rng: np.random.Generator, **options) -> Calibration:
    return judge_calibration(stated, rng.random(len(stated)) < right, rng=rng, **options)


@pytest.mark.slow
def test_calibration_has_its_false_alarms_power_and_coverage():
    """Calibrated probabilities are rarely off; of faults of the smallest size that is said to be found, 80 % are."""
    rng, n = np.random.default_rng(0), 100
    alarms, shown, held = [], [], []
    for _ in range(n):
        stated = rng.beta(4, 1.5, 300)
        calibrated = judged(stated, stated, rng)
        size = calibrated.smallest_found
        shifted = judged(stated, stated - size, rng)
        alarms.append(calibrated.verdict == "off")
        shown.append(shifted.verdict == "off")
        held.append(shifted.low <= size <= shifted.high)
    error = 3 / np.sqrt(n)
    assert np.mean(alarms) == pytest.approx(FALSE_ALARM, abs=error * np.sqrt(FALSE_ALARM * (1 - FALSE_ALARM)))
    assert np.mean(shown) == pytest.approx(POWER, abs=error * np.sqrt(POWER * (1 - POWER)))
    assert np.mean(held) == pytest.approx(0.9, abs=error * 0.3)


@pytest.mark.parametrize(("shift", "direction"), [(0.15, "too high"), (-0.15, "too low")])
def test_calibration_finds_a_large_shift_with_its_size_and_place(shift, direction):
    rng = np.random.default_rng(1)
    stated = np.concatenate([rng.uniform(0.4, 0.5, 400), rng.uniform(0.7, 0.8, 600)])
    judgement = judged(stated, stated - shift, rng)
    assert (judgement.verdict, judgement.direction) == ("off", direction)
    assert judgement.size == pytest.approx(abs(shift), abs=0.05)
    assert judgement.worst[:2] == (0.7, pytest.approx(0.8))


def test_calibration_too_sure_at_both_ends_has_no_one_direction():
    rng = np.random.default_rng(2)
    stated = rng.choice([0.1, 0.9], 2000)
    assert judged(stated, np.where(stated < 0.5, 0.3, 0.7), rng).direction.startswith("too high in places")


def test_calibration_of_few_answers_is_not_judged():
    rng = np.random.default_rng(3)
    stated = rng.beta(4, 1.5, 1000)
    by_n = {n: judged(stated[:n], stated[:n], rng) for n in (30, 300, 1000)}
    assert by_n[30].verdict == "too few"
    assert by_n[30].smallest_found > LARGEST_MISSED > by_n[300].smallest_found > by_n[1000].smallest_found
    assert by_n[1000].verdict == "none found"
    assert by_n[1000].sentence("support").startswith("The support look right: they are off by ")
    none = by_n[1000]._replace(size=0.0004)
    assert none.sentence() == (
        "The probabilities look right: they miss by what chance gives with 1,000 answers. An error of "
        f"{100 * none.smallest_found:.1f} points would probably have been seen."
    )


def test_calibration_counts_clusters_for_less_than_their_questions():
    """Eight copies of each answer are known no better than one, and are not off eight times as often."""
    rng = np.random.default_rng(4)
    cluster = np.repeat(np.arange(40), 8)
    alone, off = [], 0
    for _ in range(3):
        stated = rng.beta(4, 1.5, 40)[cluster]
        right = rng.random(40)[cluster] < stated
        each, together = (
            judge_calibration(stated, right, rng=rng, cluster=of_question) for of_question in (None, cluster)
        )
        assert together.smallest_found > 1.5 * each.smallest_found
        alone.append(each.verdict == "off")
        off += together.verdict == "off"
    assert np.mean(alone) > 0.3
    assert off <= 1


def test_calibration_of_nothing_of_what_is_certain_and_of_luck():
    nothing = judge_calibration(np.empty(0), np.empty(0, bool), rng=0)
    assert (nothing.n, nothing.verdict, nothing.smallest_found) == (0, "too few", np.inf)
    certain, wrong = np.ones(200), np.arange(200) >= 20
    assert judge_calibration(certain, np.ones(200, bool), rng=0).low == 0
    judgement = judge_calibration(certain, wrong, rng=0)
    assert (judgement.verdict, judgement.smece) == ("off", evaluate_metrics(certain, wrong)["smece"].item())
    assert judgement == judge_calibration(certain, wrong, rng=0), "the seed decides"
    stated = np.repeat(0.5, 200)
    lucky = judge_calibration(stated, np.arange(200) % 2 == 0, rng=0)
    assert (lucky.smece, lucky.size, lucky.low) == (pytest.approx(0, abs=1e-3), 0, 0)
    assert lucky.high > 0.02
