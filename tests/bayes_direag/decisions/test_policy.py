"""A policy: what it asks, how it is replayed, and its file."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayes_direag.data.columns import Columns
from bayes_direag.data.observations import Observations
from bayes_direag.decisions.policy import Asking, Policy, Replay
from bayes_direag.decisions.policy import policy as policy_of
from bayes_direag.errors import DirEAGError, FitFileError, LevelError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import fit_map
from tests.bayes_direag.fits.test_groups import grouped
from tests.command_line import one_line, refuse, succeed
from tests.made_fits import made_fit, natural

pytestmark = pytest.mark.usefixtures("small_pieces")


@pytest.fixture(scope="module")
def policy(small: Fit) -> Policy:
    return policy_of(small, budget=0.4)


@pytest.fixture(scope="module")
def generous(small: Fit) -> Policy:
    return policy_of(small, budget=1.0)


@pytest.fixture(scope="module")
def of_groups(small_groups: Fit) -> Policy:
    return policy_of(small_groups, budget=1.0)


@pytest.fixture(scope="module")
def new(panel: Observations) -> Observations:
    rest = panel.select(slice(64, None))
    return rest.select(rest.answered & rest.labelled)


def asked(policy: Policy, report: Callable[[str, int], dict[str, object]]) -> tuple[list[dict[str, object]], object]:
    """Follow a policy, whose n-th report of a level comes from a function; return all reports and the last step."""
    reports: list[dict[str, object]] = []
    while (step := policy.next(reports)).ask is not None:
        assert step.gain > 0
        reports.append(report(step.ask, len(reports)))
    return reports, step


class TestAsking:
    @pytest.mark.usefixtures("unchecked_types")
    def test_a_replay_asks_what_next_asks(self, policy, new):
        """Question by question, where no report is missing."""
        policy = replace(policy, person=20.0, factor=1 / 40)
        whole = new.select(new.usable.all(axis=1)).select(slice(20))
        rows = []
        for row in range(len(whole)):
            question = whole.select(slice(row, row + 1))

            def report(name: str, _: int, question: Observations = question) -> dict[str, object]:
                column = question.level_names.index(name)
                answer = question.candidates[0][question.candidate[0, column]]
                return {"level": name, "answer": answer, "confidence": 100 * question.confidence[0, column]}

            reports, step = asked(policy, report)
            assert len({one["level"] for one in reports}) == len(reports)
            right = bool(question.is_right([step.answer])[0])
            benefit = right - ((step.probability or 0.0) - right) ** 2
            rows.append({"reports": len(reports), "accuracy": right, "benefit": benefit, "handed_over": step.hand_over})
        means, replayed = pd.DataFrame(rows).mean(), policy.replay(whole).iloc[0]
        assert replayed[means.index].astype(float).to_dict() == pytest.approx(means.to_dict())
        assert 0 < replayed["handed_over"] < 1

    def test_a_level_that_gave_nothing_is_not_asked_again(self, small, generous):
        reports, step = asked(generous, lambda name, _: {"level": name, "answer": None})
        assert sorted(one["level"] for one in reports) == sorted(small.level_names)
        assert (step.answer, step.probability, step.gain) == (None, None, 0.0)

    def test_a_group_is_asked_as_often_as_a_labelled_question_was(self, of_groups):
        reports, _ = asked(of_groups, lambda name, n: {"group": name, "answer": str(n), "confidence": 70})
        names = [one["group"] for one in reports]
        assert [names.count(name) for name in of_groups.fit.level_names] == of_groups.most.tolist()
        assert max(of_groups.most) > 1

    def test_a_person_is_asked_where_answers_are_doubtful(self, small):
        cheap = policy_of(small, person=1.0)
        dear = replace(cheap, person=1000.0)
        reports = [{"level": name, "answer": str(n), "confidence": 50} for n, name in enumerate(small.level_names)]
        assert [policy.next(given).hand_over for policy in (cheap, dear) for given in (reports, [])] == [
            *(True, False, False, False)
        ]
        assert cheap.forecast["handed_over"].iloc[0] > 0
        assert dear.replay(small.fitted)["handed_over"].tolist() == [0.0] * 3


class TestReplaying:
    @pytest.mark.usefixtures("unchecked_types")
    def test_budgets_are_kept_and_only_ratios_of_prices_matter(self, small, policy, generous):
        shares = [given.forecast.iloc[0]["share"] for given in (policy, generous)]
        assert 0.3 < shares[0] <= 0.4 < 0.99 < shares[1]
        tenfold = policy_of(small, prices=dict.fromkeys(small.level_names, 10.0), budget=0.4)
        assert tenfold.factor == pytest.approx(policy.factor / 10)
        scaled = tenfold.forecast.assign(price=tenfold.forecast["price"] / 10)
        pd.testing.assert_frame_equal(scaled, policy.forecast)
        first = policy.next([]).ask
        prices = {name: 50.0 if name == first else 1.0 for name in small.level_names}
        dear = policy_of(small, prices=prices, budget=0.1)
        assert dear.next([]).ask not in (first, None)
        assert dear.forecast.iloc[0]["price_share"] <= 0.1

    def test_fixed_ways_of_asking_are_those_of_the_fit(self, policy, new, small):
        rows = policy.replay(new).set_index("asked")
        for name in ("all", "fixed"):
            levels = rows.loc[name, "levels"] or list(small.level_names)
            left = new.without(~np.isin(new.level_names, levels)[None] & new.usable)
            said = small.predict(left, warn=False)
            right, stated = left.is_right(said["answer"]), said["probability"].fillna(0.0)
            assert rows.loc[name, "accuracy"] == pytest.approx(right.mean())
            assert rows.loc[name, "benefit"] == pytest.approx((right - (stated - right) ** 2).mean())
            assert rows.loc[name, "share"] == pytest.approx(left.usable.sum() / new.usable.sum())

    def test_levels_are_those_of_the_fit_by_the_form_of_their_names(self, of_groups, new):
        """As for the fit itself: where they were read as single ones, or as one run alone."""
        questions = grouped(new)
        expected = of_groups.replay(questions)
        runs = tuple(f"{group}_run{number}" for number, group in enumerate(questions.groups))
        columns = Columns(groups="{group}_run{n}")
        fit = replace(of_groups.fit)
        vars(fit)["columns"] = columns
        policy = replace(of_groups, fit=fit)
        pd.testing.assert_frame_equal(policy.replay(replace(questions, level_names=runs, groups=None)), expected)

    @pytest.mark.usefixtures("unchecked_types")
    def test_it_depends_on_neither_the_order_of_questions_nor_on_chance(self, policy, panel):
        order = np.random.default_rng(0).permutation(64)
        again = policy_of(fit_map(panel.select(order)), budget=0.4)
        assert again.factor == pytest.approx(policy.factor, rel=1e-3)
        pd.testing.assert_frame_equal(again.forecast, policy.forecast, rtol=1e-4)

    @pytest.mark.usefixtures("unchecked_types")
    def test_the_fixed_levels_of_a_forecast_are_judged_where_they_were_not_chosen(self, small, policy):
        """By fits to the other folds: those that are best on the questions of these are asked on the fold."""
        replay = Replay.of(small, np.ones(5))
        (records, _, row), usable, names = policy.records, replay.questions.usable, small.level_names

        def outcome(levels: list[str]) -> np.ndarray:
            return replay.answers(np.isin(names, levels)[None] & usable).benefit

        def best(chosen: np.ndarray) -> list[str]:
            found, levels = [], list[str]()
            while len(levels) < 5:
                trials = [[*levels, name] for name in names if name not in levels]
                levels = max(trials, key=lambda trial: outcome(trial)[chosen].mean())
                reports = (np.isin(names, levels)[None] & usable).sum(axis=1)
                if len(levels) == 1 or reports.mean() <= records["price"]:
                    found.append(levels)
            return max(found, key=lambda trial: outcome(trial)[chosen].mean())

        benefit = np.zeros(len(usable))
        for number in range(5):
            held_out = replay.part == number
            benefit[held_out] = outcome(best(~held_out))[held_out]
        assert sorted(row["levels"]) == sorted(best(np.ones(len(usable), bool)))
        assert row["benefit"] == pytest.approx(benefit.mean())
        assert row["difference"] == pytest.approx(row["benefit"] - records["benefit"])
        for one in (row, records):
            assert one["excess"] == pytest.approx(one["probability"] - one["accuracy"])
            assert one["excess_low"] < one["excess"] < one["excess_high"]

    @pytest.mark.parametrize(
        ("way", "gain", "low", "dearer", "advice"),
        [
            ("fixed", 0.02, 0.01, 0.0, "fixed"),
            ("fixed", 0.01, -0.01, -20.0, "fixed"),  # as good and cheaper
            ("fixed", 0.0, -0.01, 0.0, "fixed"),  # as good and simpler
            ("fixed", -0.01, -0.04, -20.0, "fixed"),  # worse by half of what it saves
            ("fixed", -0.03, -0.04, -20.0, "policy"),
            ("fixed", -0.001, -0.01, 0.0, "policy"),
            ("all", 0.03, 0.025, 20.0, "all"),
            ("all", 0.03, -0.01, 20.0, "policy"),  # dearer, and not clearly better
            ("all", 0.05, 0.03, 40.0, "policy"),
            ("all", 0.0, 0.0, 0.0, "all"),
        ],
    )
    def test_of_ways_that_are_equal_the_cheaper_and_simpler_is_advised(self, way, gain, low, dearer, advice, policy):
        """A unit of price is worth .001 of benefit; what costs more must be clearly better."""
        forecast = policy.forecast.set_index("asked")
        forecast[["difference", "difference_low", "price"]] = [-1.0, -1.0, 50.0]
        forecast.loc["policy", ["difference", "difference_low"]] = 0.0
        forecast.loc[way, ["difference", "difference_low", "price"]] = gain, low, 50.0 + dearer
        cheap = replace(policy, factor=0.001)
        assert cheap.advice(forecast.reset_index()) == advice
        first = cheap.text(forecast.reset_index()).splitlines()[0]
        if advice == "policy":
            assert first.startswith("Ask by the policy: ")
        else:
            assert ("clearly better" in first) == (low > 0.001 * dearer)

    def test_levels_that_are_asked_several_times_are_counted(self, of_groups):
        policy, every, fixed = of_groups.records
        forecast = pd.DataFrame([policy, every, fixed | {"levels": ["rest", "two", "two", "two"]}])
        assert "; always rest, 3 of two 0." in of_groups.text(forecast)


class TestFile:
    def test_it_is_read_as_it_was(self, policy, new, tmp_path):
        policy.save(tmp_path / "policy.nc")
        again = Policy.load(tmp_path / "policy.nc")
        assert again.record() == policy.record()
        pd.testing.assert_frame_equal(again.replay(new), policy.replay(new))
        assert repr(again) == f"Policy(levels {', '.join(new.level_names)}; tried on {policy.n_labels} questions)"

    def test_a_fit_is_no_policy(self, small, tmp_path):
        small.save(tmp_path / "fit.nc")
        with pytest.raises(FitFileError, match="saw a fit; expected a policy"):
            Policy.load(tmp_path / "fit.nc")


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"budget": 30.0}, DirEAGError, "budget 30.0: expected a share"),
        ({"budget": 1e-6}, DirEAGError, "0 of 64 questions are worth a report; expected more"),
        ({"person": 0.0}, DirEAGError, "person 0.0"),
        ({"prices": {"vanilla": 1.0}}, LevelError, "expected one price for each of"),
        ({"prices": -1.0}, DirEAGError, "expected numbers from 0"),
        ({"prices": 0.0}, DirEAGError, "not all of them 0"),
    ],
)
def test_policy_refuses_what_cannot_be_used(given, error, said, small):
    if isinstance(given.get("prices"), float):
        given = {"prices": dict.fromkeys(small.level_names, given["prices"])}
    with pytest.raises(error, match=said):
        policy_of(small, **given)


def test_policy_needs_a_map_of_enough_questions(panel, nuts):
    with pytest.raises(DirEAGError, match=r"saw \d labelled questions or clusters; expected at least 5"):
        policy_of(fit_map(panel.select(slice(4))), budget=0.3)
    with pytest.raises(DirEAGError, match=r"saw Fit\(.* posterior draws; .*; expected a MAP"):
        policy_of(nuts, budget=0.3)


def test_policy_is_made_and_tried_by_the_command(small, new, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small.save("fit.nc")
    new.write("new.jsonl")
    prices = "".join(f'"{name}" = {1 + number}\n' for number, name in enumerate(small.level_names))
    Path("prices.toml").write_text(prices)
    made = succeed("policy", "fit.nc", "--prices", "prices.toml", "--budget", 0.4)  # beside the fit
    policy = Policy.load("fit-policy.nc")
    assert one_line(made) == one_line(
        "fit-policy.nc: tried on the 64 labelled questions, each by a fit that has not seen it. " + policy.text()
    )
    assert "of their price" in made
    forecast, every, _ = policy.forecast.to_dict("records")
    dearer = policy.factor * (every["price"] - forecast["price"])
    ends = (f"{every[f'difference{end}'] - dearer:+.3f}" for end in ("", "_low", "_high"))
    assert "; all {} [{}, {}].".format(*ends) in one_line(made)
    assert (
        f"the claim is off by {100 * forecast['excess']:+.1f} points [{100 * forecast['excess_low']:+.1f}, "
        in one_line(made)
    )
    tried = json.loads(succeed("policy", "fit-policy.nc", "new.jsonl", "--json"))
    assert [row["asked"] for row in tried["forecast"]] == ["policy", "all", "fixed"]
    assert tried["forecast"] == policy.replay(new).to_dict("records")
    assert tried["advice"] == policy.advice(policy.replay(new))
    assert "tried as it is" in refuse("policy", "fit-policy.nc", "new.jsonl", "--budget", 0.5)


@pytest.fixture(params=["small", "paper", "small_groups"])
def fit(request: pytest.FixtureRequest, panel: Observations) -> Fit:
    if request.param == "paper":
        return made_fit(panel.select(slice(64)), natural(), intercept=0.3, slope=0.8)
    return request.getfixturevalue(request.param)


def test_asking_has_the_gain_of_its_definition(fit: Fit) -> None:
    """By the fit itself, which is asked about every report that may come."""
    asking = Asking.of(fit)
    levels = np.array(fit.fitted.slots or range(fit.fitted.n_levels))
    typical = [100 * np.nanmean(fit.fitted.confidence[:, levels == level]) for level in range(len(fit.level_names))]
    for row in range(6):
        question = fit.fitted.select(slice(row, row + 1))
        asked = np.arange(question.n_levels)[None] < row
        reports = [
            {"group": fit.level_names[level], "answer": answer, "confidence": 100 * stated}
            for level, answer, stated in zip(
                levels, question.candidate[0].tolist(), question.confidence[0], strict=True
            )
        ]
        reports = [one for one, chosen in zip(reports, asked[0], strict=True) if chosen and one["answer"] >= 0]
        known = fit.evaluation(question).data.unlabelled.of_reports(asked.T)
        leader, probability = asking.leading(known)
        (gains,) = asking.gain(known, leader, probability)
        said = fit.answer(reports)
        p, answer = said["probability"] or 0.0, said["answer"] or "0"
        assert probability[0] == pytest.approx(p, rel=1e-9)
        assert str(leader[0]) == (said["answer"] or "-1")
        for level, name in enumerate(fit.level_names):
            one = {"group": name, "answer": answer, "confidence": typical[level]}
            alone, more = (fit.answer(known)["probability"] for known in ([one], [*reports, one]))
            chance = p * alone + (1 - p) * asking.coincidence
            less = (p - chance * more) / (1 - chance)
            gain = chance * more**2 + (1 - chance) * less**2 - p**2 if reports else alone**2
            assert gains[level] == pytest.approx(gain, rel=1e-6, abs=1e-12)


def test_asking_gives_one_more_vote_the_label_of_the_leader(votes: Fit) -> None:
    """And a vote alone is for an answer that is no label."""
    asking, first = Asking.of(votes), [{"level": "good", "answer": "yes"}]
    known = votes.evaluation(votes.question(first)).data.unlabelled
    leader, probability = asking.leading(known)
    (gains,) = asking.gain(known, leader, probability)
    reports_of = first, [*first, {"level": "fair", "answer": "yes"}], [{"level": "fair", "answer": "unsure"}]
    p, more, alone = (votes.answer(reports)["probability"] for reports in reports_of)
    chance = p * alone + (1 - p) * asking.coincidence
    less = (p - chance * more) / (1 - chance)
    expected = chance * more**2 + (1 - chance) * less**2 - p**2
    assert gains[votes.level_names.index("fair")] == pytest.approx(expected, rel=1e-6)


def test_asking_counts_coincidences_over_pairs_whose_first_report_is_wrong(small: Fit) -> None:
    same = []
    for said, correct in zip(small.fitted.candidate, small.fitted.correct, strict=True):
        answered = np.flatnonzero(said >= 0)
        same += [said[i] == said[j] for i in answered for j in answered if i != j and not correct[i]]
    assert Asking.of(small).coincidence == pytest.approx((sum(same) + 1) / (len(same) + 2))
