"""Asking by a policy: what is asked, in which order, and that it depends on the replies alone."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.columns import Columns
from bayes_direag.data.observations import Observations
from bayes_direag.decisions.policy import Asking, Policy
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import fit_map
from bayes_direag.model.evidence import draw_states, sums_by_answer
from bayes_direag.model.likelihood_data import LikelihoodData
from elicitation.adaptive import tell_spending
from elicitation.engines import CannedEngine
from elicitation.generation import ChatRequest, Generation, Key
from elicitation.journal import JournalError, read_journal
from elicitation.prompts import load_protocol
from elicitation.questions import QuestionSet
from elicitation.run import elicit
from tests.command_line import direag, refuse, succeed
from tests.elicitation import runs
from tests.elicitation.stub_server import Stub

pytestmark = pytest.mark.usefixtures("small_pieces")

N, GARBAGE = 30, 0.2


def ask(folder: Path, policy: Policy | None = None, engine: Any = None, **settings: Any) -> Any:
    return runs.ask(N, engine or runs.canned(GARBAGE), folder, **{"sampling": runs.ONCE, "policy": policy} | settings)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run in which every level was asked, and a fifth of the replies cannot be read."""
    folder = tmp_path_factory.mktemp("full")
    runs.ask(80, runs.canned(GARBAGE), folder, sampling=runs.ONCE)
    return folder


@pytest.fixture(scope="module")
def policy() -> Policy:
    return runs.policy()


@pytest.mark.slow
def test_policy_on_record_is_that_of_a_fit_to_the_full_run(policy: Policy, tmp_path: Path) -> None:
    made = runs.made_policy(tmp_path)
    pd.testing.assert_frame_equal(made.fit.parameters(), policy.fit.parameters(), rtol=1e-3)
    assert made.asking.typical == pytest.approx(policy.asking.typical, abs=1e-3)


def recorded_as(policy: Policy, **attributes: str) -> Policy:
    """Return a policy whose fit records something else."""
    tree = policy.fit.tree.copy()
    tree.attrs = tree.attrs | attributes
    return replace(policy, fit=Fit(tree))


@pytest.fixture(scope="module")
def adaptive(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adaptive")
    ask(folder, policy)
    return folder


def test_adaptive_asks_what_the_policy_asks_given_the_same_replies(policy: Policy, full: Path, adaptive: Path) -> None:
    n_unreadable = 0
    for whole, record in zip(runs.records(full), runs.records(adaptive), strict=False):
        by_level = {one["level_name"]: one for one in whole["observations"]}
        asked: list[dict[str, Any]] = []
        while (step := policy.next(asked)).ask is not None:
            asked.append(by_level[step.ask])
        assert record["observations"] == sorted(asked, key=lambda one: one["level"])
        decision = {"answer": step.answer, "probability": step.probability, "hand_over": step.hand_over}
        assert record["decision"] == decision
        n_unreadable += sum(one["answer"] is None for one in asked)
    assert n_unreadable > 5
    assert len(Observations.read(adaptive / "observations.jsonl")) == N


def test_spending_says_what_was_saved(policy: Policy, adaptive: Path, tmp_path: Path) -> None:
    summary = ask(adaptive, policy, CannedEngine(lambda _: pytest.fail("nothing was left to ask"), "stub"))
    price = dict(zip(policy.fit.level_names, policy.prices, strict=True))
    asked = [one["level_name"] for record in runs.records(adaptive) for one in record["observations"]]
    spending = summary.spending
    people = [record["problem_id"] for record in runs.records(adaptive) if record["decision"]["hand_over"]]
    assert spending == {
        "reports": len(asked),
        "all_reports": 5 * N,
        "price": sum(price[name] for name in asked),
        "full_price": 15 * N,
        "handed_over": people,
    }
    assert 0.2 < spending["reports"] / spending["all_reports"] < 0.8
    assert 10 < len(people) < N
    named = f"{', '.join(people[:10])} and {len(people) - 10} more"
    assert tell_spending(spending).endswith(f" {len(people)} questions are for a person: {named}.")
    assert (sum(level["n"] for level in summary.levels), summary.n_questions) == (len(asked), N)
    nobody = ask(tmp_path, replace(policy, factor=100.0)).spending
    assert tell_spending(nobody) == "The policy asked 0 of 150 reports (0%) at 0% of their price."


def test_manifest_has_the_policy_and_a_run_resumes_with_the_same(policy: Policy, adaptive: Path) -> None:
    manifest = runs.manifest(adaptive)
    assert manifest["policy"] == json.loads(json.dumps(policy.record()))
    assert manifest["complete"]
    for other, difference in (
        ({"policy": replace(policy, person=30.0)}, "policy.sha256"),
        ({"policy": None}, "policy.sha256: .* there, nothing here"),
    ):
        with pytest.raises(JournalError, match=difference):
            ask(adaptive, **other)


@pytest.mark.usefixtures("unchecked_types")
def test_adaptive_observations_depend_on_the_replies_alone(policy: Policy, adaptive: Path, tmp_path: Path) -> None:
    """Not on how many questions are asked together, in how many sessions, and the unit of the fit's confidences."""
    with Stub(delay=0.01, garbage=GARBAGE) as stub:
        stub.hold = 8
        ask(tmp_path / "together", policy, runs.chat(stub.url, stub.url), concurrency=4)
        assert stub.most == 8
        assert set(stub.answered.values()) == {1}
    runs.ask(10, runs.canned(GARBAGE), tmp_path / "sessions", sampling=runs.ONCE, policy=policy)
    ask(tmp_path / "sessions", policy)
    ask(tmp_path / "unit", recorded_as(policy, scale="fraction"))
    for name in ("together", "sessions", "unit"):
        assert runs.observations(tmp_path / name) == runs.observations(adaptive)


def test_ask_at_once_asks_the_first_levels_together(policy: Policy, adaptive: Path, tmp_path: Path) -> None:
    order: list[Key] = []

    class Recorded(CannedEngine):
        async def generate(self, request: ChatRequest, lane: int = 0) -> Generation:
            order.append(request.key)
            return await super().generate(request, lane)

    engine = Recorded(runs.canned(GARBAGE)._reply, "stub")
    summary = ask(tmp_path, policy, engine, ask_at_once=3, concurrency=3)
    first: dict[str, list[int]] = {}
    for key in order:
        first.setdefault(key.problem_id, []).append(key.level)
    assert len({tuple(levels[:3]) for levels in first.values()}) == 1
    nothing = [{"level": policy.fit.level_names[level], "answer": None} for level in first["sum-000"][:2]]
    assert policy.next(nothing).ask == policy.fit.level_names[first["sum-000"][2]]
    assert summary.spending["reports"] > len(read_journal(adaptive / "journal.jsonl")[1])


def policy_of_runs(folder: Path, columns: Columns | None = None) -> Policy:
    """Return a policy of four exchangeable runs, by the observations of a run."""
    fit = fit_map(Observations.read(folder / "observations.jsonl", columns=columns))
    price, most = np.ones(1), np.array([4])
    return Policy(fit, Asking.of(fit), price, None, 1 / 60, most, fit.recalibration, fit.n_questions, [])


def test_adaptive_asks_a_group_sample_by_sample(tmp_path: Path) -> None:
    (tmp_path / "levels.toml").write_text('n_samples = 4\n[levels.runs]\ngroup = "runs"\n')
    protocol = load_protocol("samples", tmp_path / "levels.toml")
    ungrouped = replace(protocol, levels=(replace(protocol.levels[0], group=None),))
    elicit(runs.questions(60), ungrouped, runs.canned(), tmp_path / "full", runs.ONCE)
    elicit(runs.questions(60), protocol, runs.canned(), tmp_path / "full runs", runs.ONCE)
    policy = policy_of_runs(tmp_path / "full runs")
    summary = elicit(runs.questions(30), protocol, runs.canned(), tmp_path / "run", runs.ONCE, policy=policy)
    asked = [[one["level_name"] for one in record["observations"]] for record in runs.records(tmp_path / "run")]
    assert all(names == [f"sample_{number}" for number in range(len(names))] for names in asked)
    n_asked = {*map(len, asked)}
    assert len(n_asked) > 2
    assert (min(n_asked), max(n_asked)) == (1, 4)
    observations = Observations.read(tmp_path / "run" / "observations.jsonl")
    assert (observations.n_levels, observations.learned_levels) == (4, ("runs",))
    assert summary.spending["all_reports"] == 120
    by_form = policy_of_runs(tmp_path / "full", Columns(groups="{group}_{n}"))
    elicit(runs.questions(30), ungrouped, runs.canned(), tmp_path / "by form", runs.ONCE, policy=by_form)
    assert [record["decision"] for record in runs.records(tmp_path / "by form")] == [
        record["decision"] for record in runs.records(tmp_path / "run")
    ]
    fewer = replace(protocol, n_samples=3)
    with pytest.raises(DirEAGError, match="asks up to 4 reports of 'runs', and 3 of runs; expected as many"):
        elicit(runs.questions(60), fewer, runs.canned(), tmp_path / "fewer", runs.ONCE, policy=policy)


def odds(data: LikelihoodData) -> None:
    """Multiply the odds of an answer by what each level's report says: no preset."""
    with data.levels():
        rate = numpyro.sample("rate", dist.Normal(0.5, 0.3))
    draw_states(data, sums_by_answer(data.by_report(rate) * data.usable * (1 + data.logit), data.candidate), 0.0)


def test_adaptive_asks_by_a_model_of_ones_own(policy: Policy, full: Path, tmp_path: Path) -> None:
    fit = fit_map(Observations.read(full / "observations.jsonl"), preset=odds)
    own = replace(policy, fit=fit, asking=Asking.of(fit), stopped=fit.recalibration)
    own.save(tmp_path / "policy.nc")
    ask(tmp_path / "run", Policy.load(tmp_path / "policy.nc", preset=odds))
    for record in runs.records(tmp_path / "run"):
        step = own.next(record["observations"])
        assert (step.ask, step.answer, step.probability) == (
            None,
            *[record["decision"][name] for name in ("answer", "probability")],
        )


def test_policy_asks_a_cheap_and_a_dear_model(policy: Policy, tmp_path: Path) -> None:
    """As a panel asked in full would have been, by its journal."""
    policy.save(tmp_path / "policy.nc")
    with Stub("cheap", garbage=GARBAGE) as cheap, Stub("dear", garbage=GARBAGE) as dear:
        (tmp_path / "panel.toml").write_text(
            "".join(
                f'[levels.{level.name}]\nnote = "{level.note}"\nmodel = "{stub.model}"\nbase_url = "{stub.url}"\n'
                for level in runs.PROTOCOLS["steered"].levels
                for stub in ((cheap, dear)[level.index > 2],)
            )
        )
        asked = ("elicit", "--questions", runs.SUMS, "--limit", 20, "--levels", tmp_path / "panel.toml")
        asked = (*asked, "--set", "repairs=0")
        by_policy = ("--policy", tmp_path / "policy.nc")
        succeed(*asked, "--out", tmp_path / "full")
        assert [len(stub.requests) for stub in (cheap, dear)] == [60, 40]
        told = succeed(*asked, *by_policy, "--out", tmp_path / "run", "--concurrency", "4")
        assert "The policy asked" in told
        assert 0 < len(dear.requests) - 40 < len(cheap.requests) - 60
        spending = json.loads(succeed(*asked, *by_policy, "--out", tmp_path / "run", "--json"))["spending"]
        assert spending["reports"] == len(dear.requests) + len(cheap.requests) - 100
        assert spending["all_reports"] == 100
        again = ("--out", tmp_path / "run", "--policy", tmp_path / "run" / "manifest.json")
        assert "not a fit that this version can read (ValueError: this is no NetCDF file)" in refuse(*asked, *again)
        assert (
            "policy.ask_at_once: 1 there, 2 here" in direag(*asked, *by_policy, *again[:2], "--ask-at-once", 2).stderr
        )
        assert [{one["model"] for one in stub.requests} for stub in (cheap, dear)] == [{"cheap"}, {"dear"}]
    succeed(*asked, *by_policy, "--out", tmp_path / "again", "--replay", tmp_path / "full" / "journal.jsonl")
    assert runs.observations(tmp_path / "again") == runs.observations(tmp_path / "run")


@pytest.mark.parametrize(
    ("protocol", "kind", "complaint"),
    [
        ("topk", "numeric", "saw lists of guesses; expected one report a reply"),
        ("samples", "numeric", "up to 1 reports of 'very_cautious', and 0 of sample_0, .*; expected as many"),
        ("steered", "text", "saw a policy for numeric answers, and questions with text ones"),
    ],
)
def test_adaptive_refuses_a_policy_that_does_not_fit(
    policy: Policy, tmp_path: Path, protocol: str, kind: AnswerKind, complaint: str
) -> None:
    questions = QuestionSet("sums", runs.questions(2).problems, kind)
    with pytest.raises(DirEAGError, match=complaint):
        elicit(questions, runs.PROTOCOLS[protocol], runs.canned(), tmp_path / "run", runs.ONCE, policy=policy)
    assert not (tmp_path / "run").exists()


def test_policy_gives_the_kind_of_answers_unless_told(policy: Policy, tmp_path: Path) -> None:
    recorded_as(policy, answers="text").save(tmp_path / "policy.nc")
    (tmp_path / "new.jsonl").write_text('{"question": "Is 3 odd?"}\n')
    asked = ("elicit", "--questions", tmp_path / "new.jsonl", "--out", tmp_path / "run")
    with Stub() as stub:
        by_policy = ("--policy", tmp_path / "policy.nc", "--base-url", stub.url, "--model", "stub")
        assert "Give --answers text" in refuse(*asked, *by_policy, "--answers", "numeric")
        succeed(*asked, *by_policy)
    assert runs.manifest(tmp_path / "run")["questions"]["kind"] == "text"
