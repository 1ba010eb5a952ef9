"""A policy: what it asks, how it is replayed, and its file."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.decisions.policy import Policy
from bayes_direag.errors import DirEAGError, FitFileError, LevelError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map
from tests.bayes_direag.fits.test_groups import grouped
from tests.command_line import one_line, refuse, succeed

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def policy(partial: Fit) -> Policy:
    return partial.policy(budget=0.4)


@pytest.fixture(scope="module")
def generous(partial: Fit) -> Policy:
    return partial.policy(budget=1.0)


@pytest.fixture(scope="module")
def of_groups(partial_groups: Fit) -> Policy:
    return partial_groups.policy(budget=1.0)


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
    def test_a_replay_asks_what_next_asks(self, partial, new):
        """Question by question, where no report is missing."""
        policy = replace(partial.policy(person=20.0), factor=1 / 40)
        whole = new.select(new.usable.all(axis=1))
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

    def test_a_level_that_gave_nothing_is_not_asked_again(self, partial, generous):
        reports, step = asked(generous, lambda name, _: {"level": name, "answer": None})
        assert sorted(one["level"] for one in reports) == sorted(partial.level_names)
        assert (step.answer, step.probability, step.gain) == (None, None, 0.0)

    def test_a_group_is_asked_as_often_as_a_labelled_question_was(self, of_groups):
        reports, _ = asked(of_groups, lambda name, n: {"group": name, "answer": str(n), "confidence": 70})
        names = [one["group"] for one in reports]
        assert [names.count(name) for name in of_groups.predictor.levels] == of_groups.most.tolist()
        assert max(of_groups.most) > 1

    def test_a_person_is_asked_where_answers_are_doubtful(self, partial):
        cheap, dear = (partial.policy(person=person) for person in (1.0, 1000.0))
        reports = [{"level": name, "answer": str(n), "confidence": 50} for n, name in enumerate(partial.level_names)]
        assert [policy.next(given).hand_over for policy in (cheap, dear) for given in (reports, [])] == [
            *(True, False, False, False)
        ]
        assert cheap.forecast["handed_over"].iloc[0] > 0
        assert dear.forecast["handed_over"].tolist() == [0.0] * 3


class TestReplaying:
    def test_budgets_are_kept_and_only_ratios_of_prices_matter(self, partial, policy, generous):
        shares = [given.forecast.iloc[0]["share"] for given in (policy, partial.policy(budget=0.7), generous)]
        assert 0.3 < shares[0] <= 0.4 < 0.6 < shares[1] <= 0.7 < 0.99 < shares[2]
        tenfold = partial.policy(prices=dict.fromkeys(partial.level_names, 10.0), budget=0.4)
        assert tenfold.factor == pytest.approx(policy.factor / 10)
        scaled = tenfold.forecast.assign(price=tenfold.forecast["price"] / 10)
        pd.testing.assert_frame_equal(scaled, policy.forecast)
        first = policy.next([]).ask
        prices = {name: 50.0 if name == first else 1.0 for name in partial.level_names}
        dear = partial.policy(prices=prices, budget=0.1)
        assert dear.next([]).ask not in (first, None)
        assert dear.forecast.iloc[0]["price_share"] <= 0.1

    def test_fixed_ways_of_asking_are_those_of_the_fit(self, policy, new, partial):
        rows = policy.replay(new).set_index("asked")
        for name in ("all", "fixed"):
            levels = rows.loc[name, "levels"] or list(partial.level_names)
            left = new.without(~np.isin(new.level_names, levels)[None] & new.usable)
            said = partial.predict(left)
            right, stated = left.is_right(said["answer"]), said["probability"].fillna(0.0)
            assert rows.loc[name, "accuracy"] == pytest.approx(right.mean())
            assert rows.loc[name, "benefit"] == pytest.approx((right - (stated - right) ** 2).mean())
            assert rows.loc[name, "share"] == pytest.approx(left.usable.sum() / new.usable.sum())

    def test_levels_are_those_of_the_fit_by_the_form_of_their_names(self, of_groups, new):
        """As for the fit itself: where they were read as single ones, or as one run alone."""
        questions = grouped(new)
        expected = of_groups.replay(questions)
        runs = tuple(f"{group}_run{number}" for number, group in enumerate(questions.groups))
        policy = replace(of_groups, predictor=replace(of_groups.predictor, groups="{group}_run{n}"))
        pd.testing.assert_frame_equal(policy.replay(replace(questions, level_names=runs, groups=None)), expected)

    def test_it_depends_on_neither_the_order_of_questions_nor_on_chance(self, policy, panel):
        order = np.random.default_rng(0).permutation(64)
        again = fit_map(panel.select(order), partial=True).policy(budget=0.4)
        assert again.factor == pytest.approx(policy.factor, rel=1e-3)
        pd.testing.assert_frame_equal(again.forecast, policy.forecast, rtol=1e-4)

    def test_the_fixed_levels_of_a_forecast_are_judged_where_they_were_not_chosen(self, partial, policy):
        """By fits to the other folds: those that are best on the questions of these are asked on the fold."""
        replay = partial._replay
        (records, _, row), usable, names = policy.records, replay.questions.usable, partial.level_names

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
        ("way", "low", "dearer", "advice"),
        [
            ("fixed", 0.01, 0.0, "fixed"),
            ("fixed", -0.01, 0.0, "policy"),
            ("fixed", -0.01, -20.0, "fixed"),
            ("all", 0.03, 20.0, "all"),
            ("all", 0.03, 40.0, "policy"),
        ],
    )
    def test_another_way_is_advised_where_it_is_clearly_better(self, way, low, dearer, advice, policy):
        """A unit of price is worth .001 of benefit."""
        forecast = policy.forecast.set_index("asked")
        forecast[["difference_low", "price"]] = [-1.0, 50.0]
        forecast.loc["policy", "difference_low"] = 0.0
        forecast.loc[way, ["difference_low", "price"]] = low, 50.0 + dearer
        assert replace(policy, factor=0.001).advice(forecast.reset_index()) == advice


class TestFile:
    def test_it_is_read_as_it_was(self, policy, new, tmp_path):
        policy.save(tmp_path / "policy.json")
        again = Policy.load(tmp_path / "policy.json")
        assert again.content() == json.loads((tmp_path / "policy.json").read_text()) | {
            name: policy.content()[name] for name in ("levels", "labels", "signals")
        }
        pd.testing.assert_frame_equal(again.replay(new), policy.replay(new))
        assert repr(again) == f"Policy(levels {', '.join(new.level_names)}; tried on {policy.n_labels} questions)"

    def test_it_needs_numpy_alone_as_its_predictor(self, policy, tmp_path):
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
        ("part", "change", "cause"),
        [
            ("policy", {"prices": [1.0]}, "expected numbers for 5 levels"),
            ("policy", {"prices": [1.0, 1.0, 1.0, 1.0, -1.0]}, "a negative price"),
            ("policy", {"factor": -1.0}, "a negative price"),
            ("policy", {"factor": math.inf}, "a negative price"),
            ("policy", {"person": -1.0}, "a negative price"),
            ("policy", {"coincidence": 2.0}, "a probability outside 0 and 1"),
            ("policy", {"typical": None}, "expected numbers for 5 levels"),
            ("policy", {"typical": [math.nan] * 5}, "expected numbers for 5 levels"),
            ("policy", {"most": [1.5, "a"]}, "ValueError"),
            ("policy", {"most": [10**400] * 5}, "OverflowError"),
            ("policy", {"prices": [10**400] * 5}, "OverflowError"),
            ("policy", {"factor": 10**400}, "TypeError"),
            ("policy", {"person": 10**400}, "TypeError"),
            ("policy", {"person": [3.0]}, "ValueError"),
            ("policy", {"stopped": {"method": "platt", "eps": 1e-6, "most_reports": 10**400, "values": {}}}, "other"),
            ("policy", {"stopped": {"method": "softmax", "eps": 0.1, "values": {}}}, "by softmax"),
            ("policy", {"unknown": 1}, "TypeError"),
            ("parameters", {"prior_strength": [0.0]}, "parameters prior_strength are not 1 draws"),
            ("parameters", {"weight": [[1e308] * 5]}, "parameters weight are not 1 draws"),
            ("recalibration", {"eps": 1e308}, "saw eps"),
            (None, {"signals": []}, "are not 1 draws of 5 levels"),
            (None, {"format": "bayes-direag predictor"}, "expected bayes-direag policy 4"),
        ],
    )
    def test_a_file_that_was_tampered_with_is_one_error(self, part, change, cause, policy, tmp_path):
        policy.save(tmp_path / "policy.json")
        stored = json.loads((tmp_path / "policy.json").read_text())
        stored |= change if part is None else {part: stored[part] | change}
        (tmp_path / "policy.json").write_text(json.dumps(stored))
        with pytest.raises(FitFileError, match=f"policy.json: not a policy that this version can read .*{cause}"):
            Policy.load(tmp_path / "policy.json")


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
def test_policy_refuses_what_cannot_be_used(given, error, said, partial):
    if isinstance(given.get("prices"), float):
        given = {"prices": dict.fromkeys(partial.level_names, given["prices"])}
    with pytest.raises(error, match=said):
        partial.policy(**given)


@pytest.mark.parametrize(
    ("n", "is_partial", "said"),
    [
        (4, True, r"saw \d labelled questions or clusters; expected at least 5"),
        (40, False, r"saw no partial fit, .*; expected a partial MAP.* Fit with partial=True"),
    ],
)
def test_policy_needs_a_partial_fit_of_enough_questions(n, is_partial, said, panel):
    with pytest.raises(DirEAGError, match=said):
        fit_map(panel.select(slice(n)), partial=is_partial).policy(budget=0.3)


def test_policy_is_made_and_tried_by_the_command(partial, new, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    partial.save("fit.nc")
    new.write("new.jsonl")
    prices = "".join(f'"{name}" = {1 + number}\n' for number, name in enumerate(partial.level_names))
    Path("prices.toml").write_text(prices)
    made = succeed("policy", "fit.nc", "--prices", "prices.toml", "--budget", 0.4)  # beside the fit
    policy = Policy.load("fit-policy.json")
    assert one_line(made) == one_line(
        "fit-policy.json: tried on the 64 labelled questions, each by a fit that has not seen it. " + policy.text()
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
    tried = json.loads(succeed("policy", "fit-policy.json", "new.jsonl", "--json"))
    assert [row["asked"] for row in tried["forecast"]] == ["policy", "all", "fixed"]
    assert tried["forecast"] == policy.replay(new).to_dict("records")
    assert tried["advice"] == policy.advice(policy.replay(new))
    assert "tried as it is" in refuse("policy", "fit-policy.json", "new.jsonl", "--budget", 0.5)


@pytest.fixture(params=["partial", "paper", "partial_groups"])
def fit(request: pytest.FixtureRequest, panel: Observations) -> Fit:
    if request.param == "paper":
        return fit_map(panel.select(slice(64)), preset="paper", partial=True)
    return request.getfixturevalue(request.param)


def test_asking_has_the_gain_of_its_definition(fit: Fit) -> None:
    """By the exported predictor, which is asked about every report that may come."""
    asking, predictor = fit.asking, fit.predictor
    levels = np.array(fit.fitted.slots or range(fit.fitted.n_levels))
    typical = [100 * np.nanmean(fit.fitted.confidence[:, levels == level]) for level in range(len(fit.level_names))]
    for row in range(6):
        question = fit.fitted.select(slice(row, row + 1))
        asked = np.arange(question.n_levels)[None] < row
        reports = [
            {"group": predictor.levels[level], "answer": answer, "confidence": 100 * stated}
            for level, answer, stated in zip(
                levels, question.candidate[0].tolist(), question.confidence[0], strict=True
            )
        ]
        reports = [one for one, chosen in zip(reports, asked[0], strict=True) if chosen and one["answer"] >= 0]
        known = fit.reports(question)
        known = known._replace(candidate=np.where(asked, known.candidate, -1))
        leader, _, probability = asking.leading(known, levels.tolist())
        (gains,) = asking.gain(known, levels.tolist(), leader, probability)
        said = predictor.predict(reports, interval_level=0.5)
        p, answer = said["probability"] or 0.0, said["answer"] or "0"
        assert probability[0] == pytest.approx(p, rel=1e-9)
        assert str(leader[0]) == (said["answer"] or "-1")
        for level, name in enumerate(predictor.levels):
            one = {"group": name, "answer": answer, "confidence": typical[level]}
            alone, more = (predictor.predict(known)["probability"] for known in ([one], [*reports, one]))
            chance = p * alone + (1 - p) * asking.coincidence
            less = (p - chance * more) / (1 - chance)
            gain = chance * more**2 + (1 - chance) * less**2 - p**2 if reports else alone**2
            assert gains[level] == pytest.approx(gain, rel=1e-6, abs=1e-12)


@pytest.mark.filterwarnings("ignore::bayes_direag.errors.FewReportsWarning")
def test_asking_gives_one_more_vote_the_label_of_the_leader(votes: Fit) -> None:
    """And a vote alone is for an answer that is no label."""
    asking, predictor, first = votes.asking, votes.predictor, [{"level": "good", "answer": "yes"}]
    read = predictor.read(first)
    leader, _, probability = asking.leading(read.reports, read.level)
    (gains,) = asking.gain(read.reports, read.level, leader, probability)
    reports_of = first, [*first, {"level": "fair", "answer": "yes"}], [{"level": "fair", "answer": "unsure"}]
    p, more, alone = (predictor.predict(reports)["probability"] for reports in reports_of)
    chance = p * alone + (1 - p) * asking.coincidence
    less = (p - chance * more) / (1 - chance)
    expected = chance * more**2 + (1 - chance) * less**2 - p**2
    assert gains[predictor.levels.index("fair")] == pytest.approx(expected, rel=1e-6)


def test_asking_counts_coincidences_over_pairs_whose_first_report_is_wrong(partial: Fit) -> None:
    same = []
    for said, correct in zip(partial.fitted.candidate, partial.fitted.correct, strict=True):
        answered = np.flatnonzero(said >= 0)
        same += [said[i] == said[j] for i in answered for j in answered if i != j and not correct[i]]
    assert partial.asking.coincidence == pytest.approx((sum(same) + 1) / (len(same) + 2))
