"""A policy: what it asks, how it is replayed, and its file."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError, FitFileError, LevelError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map
from bayes_direag.fits.policy import Policy
from bayes_direag.model.simulate import simulate_observations
from tests.bayes_direag.fits.test_groups import grouped
from tests.command_line import one_line, refuse, succeed

ROOT = Path(__file__).resolve().parents[3]
#: So many that the copies of the fitted ones have the shape of every small fit, whose program is compiled once.
N_FITTED = 64
QUESTIONS = simulate_observations(144, seed=4)


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fit_map(QUESTIONS.select(slice(N_FITTED)), partial=True)


@pytest.fixture(scope="module")
def policy(fit: Fit) -> Policy:
    return fit.policy(budget=0.4)


@pytest.fixture(scope="module")
def new() -> Observations:
    rest = QUESTIONS.select(slice(N_FITTED, None))
    return rest.select(rest.answered & rest.labelled)


def report(question: Observations, name: str) -> dict[str, object]:
    column = question.level_names.index(name)
    stated, place = question.confidence[0, column], question.candidate[0, column]
    answer = question.candidates[0][place] if place >= 0 else None
    return {"level": name, "answer": answer, "confidence": None if np.isnan(stated) else 100 * stated}


def test_a_replay_asks_what_next_asks(fit: Fit, new: Observations) -> None:
    """Question by question, where no report is missing."""
    policy = replace(fit.policy(person=20.0), factor=1 / 40)
    whole = new.select(new.usable.all(axis=1))
    n_asked, right, benefit, handed_over = [], [], [], []
    for row in range(len(whole)):
        question, reports = whole.select(slice(row, row + 1)), []
        while (step := policy.next(reports)).ask is not None:
            assert step.gain > 0
            reports.append(report(question, step.ask))
        assert len({one["level"] for one in reports}) == len(reports)
        n_asked.append(len(reports))
        right.append(bool(question.is_right([step.answer])[0]))
        benefit.append(right[-1] - ((step.probability or 0.0) - right[-1]) ** 2)
        handed_over.append(step.hand_over)
    own = policy.replay(whole).iloc[0]
    assert own["reports"] == pytest.approx(np.mean(n_asked))
    assert own["accuracy"] == pytest.approx(np.mean(right))
    assert own["benefit"] == pytest.approx(np.mean(benefit))
    assert own["handed_over"] == pytest.approx(np.mean(handed_over))
    assert 0 < own["handed_over"] < 1


def test_fits_to_other_folds_look_at_the_labels_that_the_fit_looks_at(fit: Fit) -> None:
    assert fit.preset.labels(fit.fitted) == fit.predictor.labels == ()


def test_a_budget_is_kept_and_a_smaller_one_asks_less(fit: Fit) -> None:
    shares = [fit.policy(budget=budget).forecast.iloc[0]["share"] for budget in (0.3, 0.6, 1.0)]
    assert shares[0] <= 0.3
    assert shares[1] <= 0.6
    assert shares[0] <= shares[1] < 0.99 < shares[2]


def test_only_ratios_of_prices_matter_for_a_budget(fit: Fit, policy: Policy) -> None:
    tenfold = fit.policy(prices=dict.fromkeys(fit.level_names, 10.0), budget=0.4)
    assert tenfold.factor == pytest.approx(policy.factor / 10)
    scaled = tenfold.forecast.assign(price=tenfold.forecast["price"] / 10)
    pd.testing.assert_frame_equal(scaled, policy.forecast)


def test_a_dear_level_is_asked_less(fit: Fit, policy: Policy) -> None:
    first = policy.next([]).ask
    assert first is not None
    dear = fit.policy(prices={name: 50.0 if name == first else 1.0 for name in fit.level_names}, budget=0.1)
    assert dear.next([]).ask not in (first, None)
    assert dear.forecast.iloc[0]["price_share"] <= 0.1


def test_fixed_ways_of_asking_are_those_of_the_fit(policy: Policy, new: Observations, fit: Fit) -> None:
    rows = policy.replay(new).set_index("asked")
    for name in ("all", "fixed"):
        levels = rows.loc[name, "levels"] or list(fit.level_names)
        left = new.without(~np.isin(new.level_names, levels)[None] & new.usable)
        said = fit.predict(left)
        right, stated = left.is_right(said["answer"]), said["probability"].fillna(0.0)
        assert rows.loc[name, "accuracy"] == pytest.approx(right.mean())
        assert rows.loc[name, "benefit"] == pytest.approx((right - (stated - right) ** 2).mean())
        assert rows.loc[name, "share"] == pytest.approx(left.usable.sum() / new.usable.sum())


def test_it_depends_on_neither_the_order_of_questions_nor_on_chance(policy: Policy) -> None:
    order = np.random.default_rng(0).permutation(N_FITTED)
    again = fit_map(QUESTIONS.select(order), partial=True).policy(budget=0.4)
    assert again.factor == pytest.approx(policy.factor, rel=1e-3)
    pd.testing.assert_frame_equal(again.forecast, policy.forecast, rtol=1e-4)


def test_a_person_is_asked_where_answers_are_doubtful(fit: Fit) -> None:
    cheap, dear = (fit.policy(person=person) for person in (1.0, 1000.0))
    reports = [{"level": name, "answer": str(number), "confidence": 50} for number, name in enumerate(fit.level_names)]
    assert cheap.next(reports).hand_over
    assert not dear.next(reports).hand_over
    assert not cheap.next([]).hand_over
    assert cheap.forecast["handed_over"].iloc[0] > 0
    assert dear.forecast["handed_over"].tolist() == [0.0] * 3


def test_a_level_that_gave_nothing_is_not_asked_again(fit: Fit) -> None:
    policy = fit.policy(budget=1.0)
    reports: list[dict[str, object]] = []
    while (step := policy.next(reports)).ask is not None:
        reports.append({"level": step.ask, "answer": None})
    assert sorted(str(one["level"]) for one in reports) == sorted(fit.level_names)
    assert (step.answer, step.probability, step.gain) == (None, None, 0.0)


def test_a_group_is_asked_as_often_as_a_labelled_question_was() -> None:
    policy = fit_map(grouped(QUESTIONS.select(slice(N_FITTED))), partial=True).policy(budget=1.0)
    reports: list[dict[str, object]] = []
    while (step := policy.next(reports)).ask is not None:
        reports.append({"group": step.ask, "answer": str(len(reports)), "confidence": 70})
    asked = [one["group"] for one in reports]
    assert [asked.count(name) for name in policy.predictor.levels] == policy.most.tolist()
    assert max(policy.most) > 1


class TestFile:
    def test_it_is_read_as_it_was(self, policy: Policy, new: Observations, tmp_path: Path) -> None:
        policy.save(tmp_path / "policy.json")
        again = Policy.load(tmp_path / "policy.json")
        again.save(tmp_path / "again.json")
        assert (tmp_path / "again.json").read_text() == (tmp_path / "policy.json").read_text()
        pd.testing.assert_frame_equal(again.replay(new), policy.replay(new))

    def test_it_needs_numpy_alone_as_its_predictor(self, policy: Policy, tmp_path: Path) -> None:
        """Of what is not Python's own: NumPy, and two small packages that import nothing but Python and NumPy."""
        policy.save(tmp_path / "policy.json")
        code = (
            "import sys\nfrom bayes_direag import Policy\npolicy = Policy.load(sys.argv[1])\n"
            "level = policy.next([]).ask\n"
            "reports = [{'level': level, 'answer': '5', 'confidence': 80}]\n"
            "assert policy.next(reports).answer == policy.predictor.predict(reports)['answer'] == '5'\n"
            "print(*{name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
        )
        command = [sys.executable, "-c", code, str(tmp_path / "policy.json")]
        output = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout  # noqa: S603
        loaded = {name for name in output.split() if not name.startswith("_")}
        assert loaded - {"sitecustomize"} == {"bayes_direag", "jaxtyping", "lazy_loader", "numpy"}

    @pytest.mark.parametrize(
        "change",
        [{"prices": [1.0]}, {"factor": -1.0}, {"coincidence": 2.0}, {"typical": None}, {"most": [1.5, "a"]}],
    )
    def test_a_bad_file(self, change: dict[str, object], policy: Policy, tmp_path: Path) -> None:
        policy.save(tmp_path / "policy.json")
        stored = json.loads((tmp_path / "policy.json").read_text())
        stored["policy"] |= change
        (tmp_path / "policy.json").write_text(json.dumps(stored))
        with pytest.raises(FitFileError, match="not a policy that this version can read"):
            Policy.load(tmp_path / "policy.json")

    def test_a_predictor_is_not_one(self, fit: Fit, tmp_path: Path) -> None:
        fit.export(tmp_path / "fit.json")
        with pytest.raises(FitFileError, match="saw bayes-direag predictor 2; expected bayes-direag policy 3"):
            Policy.load(tmp_path / "fit.json")


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"budget": 30.0}, DirEAGError, "budget 30.0: expected a share"),
        ({"budget": 1e-6}, DirEAGError, "0 of 64 questions are worth a report; expected more"),
        ({"person": 0.0}, DirEAGError, "person 0.0"),
        ({"budget": 0.3, "prices": {"vanilla": 1.0}}, LevelError, "expected one price for each of"),
        ({"budget": 0.3, "prices": dict.fromkeys(QUESTIONS.level_names, -1.0)}, DirEAGError, "expected numbers from 0"),
    ],
)
def test_what_cannot_be_used(given: dict[str, object], error: type[DirEAGError], said: str, fit: Fit) -> None:
    with pytest.raises(error, match=said):
        fit.policy(**given)


@pytest.mark.parametrize(
    ("n", "partial", "said"),
    [
        (4, True, r"saw \d labelled questions or clusters; expected at least 5"),
        (40, False, r"saw no partial fit, .*; expected a partial MAP.* Fit with partial=True"),
    ],
)
def test_fits_that_have_none(n: int, partial: bool, said: str) -> None:
    with pytest.raises(DirEAGError, match=said):
        fit_map(QUESTIONS.select(slice(n)), partial=partial).policy(budget=0.3)


def test_the_fixed_levels_of_a_forecast_are_judged_where_they_were_not_chosen(fit: Fit, policy: Policy) -> None:
    """By fits to the other folds: those that are best on the questions of these are asked on the fold."""
    replay = replace(fit._replay, price=policy.prices)
    (own, _, row), usable = policy.records, replay.questions.usable

    def outcome(levels: list[str]) -> np.ndarray:
        return replay.answers(np.isin(QUESTIONS.level_names, levels)[None] & usable)["benefit"].to_numpy()

    def best(chosen: np.ndarray) -> list[str]:
        found, levels = [], list[str]()
        while len(levels) < 5:
            trials = [[*levels, name] for name in QUESTIONS.level_names if name not in levels]
            levels = max(trials, key=lambda trial: outcome(trial)[chosen].mean())
            asked = np.isin(QUESTIONS.level_names, levels)[None] & usable
            if len(levels) == 1 or asked.sum(axis=1).mean() <= own["price"]:
                found.append(levels)
        return max(found, key=lambda trial: outcome(trial)[chosen].mean())

    benefit = np.zeros(N_FITTED)
    for number in range(5):
        held_out = replay.part == number
        benefit[held_out] = outcome(best(~held_out))[held_out]
    assert sorted(row["levels"]) == sorted(best(np.ones(N_FITTED, bool)))
    assert row["benefit"] == pytest.approx(benefit.mean())
    assert row["difference"] == pytest.approx(row["benefit"] - own["benefit"])


@pytest.mark.parametrize(
    ("way", "low", "dearer", "advice"),
    [
        ("fixed", 0.01, 0.0, "fixed"),
        ("fixed", -0.01, 0.0, "policy"),
        ("fixed", -0.01, -20.0, "fixed"),
        ("all", 0.03, 20.0, "all"),
        ("all", 0.03, 40.0, "policy"),
    ],
)
def test_another_way_is_advised_where_it_is_clearly_better(
    way: str, low: float, dearer: float, advice: str, policy: Policy
) -> None:
    """A unit of price is worth .001 of benefit."""
    forecast = policy.forecast.set_index("asked")
    forecast[["difference_low", "price"]] = [-1.0, 50.0]
    forecast.loc["policy", "difference_low"] = 0.0
    forecast.loc[way, ["difference_low", "price"]] = low, 50.0 + dearer
    assert replace(policy, factor=0.001).advice(forecast.reset_index()) == advice


def test_the_command_makes_and_tries_it(fit: Fit, new: Observations, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    fit.save("fit.nc")
    new.write("new.jsonl")
    Path("prices.toml").write_text("".join(f'"{name}" = {1 + place}\n' for place, name in enumerate(fit.level_names)))
    made = succeed("policy", "fit.nc", "--prices", "prices.toml", "--budget", 0.4, "--out", "policy.json")
    policy = Policy.load("policy.json")
    assert one_line(made) == one_line(
        "policy.json: tried on the 64 labelled questions, each by a fit that has not seen it. " + policy.text()
    )
    assert "of their price" in made
    tried = json.loads(succeed("policy", "policy.json", "new.jsonl", "--json"))
    assert [row["asked"] for row in tried["forecast"]] == ["policy", "all", "fixed"]
    assert tried["forecast"] == policy.replay(new).to_dict("records")
    assert tried["advice"] == policy.advice(policy.replay(new))
    assert "tried as it is" in refuse("policy", "policy.json", "new.jsonl", "--budget", 0.5)
    assert "--out: saw none" in refuse("policy", "fit.nc")
