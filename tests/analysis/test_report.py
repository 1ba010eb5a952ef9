"""The report: its sentences against figures worked out here; its page, which is escaped and needs nothing else."""

import base64
import hashlib
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from analysis.display.document import Paragraph, Table
from analysis.display.glossary import FIRST_METRICS, METRIC_WORDS
from analysis.evaluation import Evaluation, evaluate
from analysis.learned import learned_blocks
from analysis.report import _question_blocks, sentences, title, useful_thresholds, with_parts, write_report
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.model import presets
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.made import ATTACK, Said, attacking_observations, made_evaluation, random_said
from tests.analysis.pages import Page
from tests.made_fits import made_fit, natural, replaced

SECTIONS = ["answer", "questions", "methods", "fits", "settings"]
MAIN, DASH = "Every method on the same held-out questions", "\N{EN DASH}"
UNRENDERED = ("analysis.display.page._data_uri", lambda _: "data:image/webp;base64,")


def said_of(evaluation: Evaluation) -> list[str]:
    return [title(evaluation), *sentences(evaluation)]


class TestSentences:
    def test_how_often_right_how_far_off_and_what_to_accept(self) -> None:
        said = [(0.95, True), (0.95, True), (0.9, False), (0.35, False), (0.35, True), (None, False)]
        evaluation = made_evaluation({"direag": said})
        share, calibration, accepted, rival = said_of(evaluation)
        assert share.startswith("60.0% of the answers of DirEAG are right [95%: ")
        assert calibration.startswith("Too few answers to judge the probabilities: with 5, ")
        low, high = binomtest(2, 3).proportion_ci(0.95, method="exact")
        (row,) = evaluation.thresholds.query("threshold == 0.9").to_dict("records")
        assert (row["labelled"], row["share"]) == (3, 3 / 6)
        assert (row["right"], row["low"], row["high"]) == pytest.approx((2 / 3, low, high))
        assert f"90% or more, 50% of the questions: 66.7% of these are right [95%: {100 * low:.1f}% to" in accepted
        assert rival == "No other method was evaluated on the same questions."
        unsure = made_evaluation({"direag": [(0.5, True), (0.6, False)]})
        assert said_of(unsure)[2] == "Check every answer: none has a probability of 90% or more."
        # of ten answers of 80 % or more nine are right, of three of 90 % or more two
        inverted = made_evaluation({"direag": [(0.8, True)] * 7 + [(0.9, True), (0.97, True), (0.9, False)]})
        assert said_of(inverted)[2].startswith("Accept answers of 80% or more, 100% of the questions: 90.0% of these")
        assert useful_thresholds(inverted)["threshold"].tolist() == [0, 0.5, 0.6, 0.7, 0.8, 0.95]
        assert useful_thresholds(unsure)["threshold"].tolist() == [0, 0.5], "what no answer reaches is left out"
        silent = made_evaluation({"direag": [(None, False)] * 3})
        assert said_of(silent) == ["DirEAG has answered none of the labelled questions"]

    def test_answers_to_questions_chosen_at_random_stand_apart(self) -> None:
        evaluation = made_evaluation({"direag": [(0.8, number % 4 > 0) for number in range(20)]})
        at_random = pd.Series([True] * 8 + [False] * 10 + [None] * 2, dtype="boolean")
        some = replace(evaluation, predictions=evaluation.predictions.assign(at_random=at_random))
        low, high = binomtest(6, 8).proportion_ci(0.95, method="wilson")
        assert said_of(some)[1] == (
            "Of the 8 questions that were chosen at random, as new ones are, 75.0% of the answers are right [95%: "
            f"{100 * low:.1f}% to {100 * high:.1f}%]. The others were chosen since their votes are close."
        )
        alone = replace(evaluation, predictions=evaluation.predictions.assign(at_random=at_random.fillna(value=True)))
        for other in (evaluation, replace(alone, predictions=alone.predictions.assign(at_random=True))):
            assert "at random" not in said_of(other)[1]

    def test_a_vote_that_selects_clearly_other_answers_is_named_first(self) -> None:
        half = [(0.6, number % 2 == 0) for number in range(100)]
        most = [(0.6, number % 10 > 0) for number in range(100)]
        for vote, direag, words in ((most, half, "90.0%, 40.0 points more"), (half, most, "50.0%, 40.0 points less")):
            evaluation = made_evaluation({"majority": vote, "direag": direag})
            row = evaluation.differences.query("metric == 'accuracy_of_all'").iloc[0]
            low, high = sorted(100 * abs(row[["low", "high"]].to_numpy(float)))
            assert said_of(evaluation)[1] == f"A plain vote is right on {words} [95%: {low:.1f} to {high:.1f}]."
        hardly = [(0.6, number % 3 > 0 if number < 30 else right) for number, (_, right) in enumerate(half)]
        assert "vote is right" not in " ".join(said_of(made_evaluation({"majority": hardly, "direag": half})))

    @staticmethod
    def pair(seed: int) -> tuple[Said, Said]:
        """Return a calibrated method, and the same with its confidences moved towards one half."""
        answers = random_said(np.random.default_rng(seed), 400, sharpness=2)
        return answers, [(0.2 * one + 0.8 * 0.5, right) for one, right in answers]

    def test_of_a_better_method(self) -> None:
        direag, mean = self.pair(1)
        evaluation = made_evaluation({"majority": direag, "majority_platt": mean, "direag": direag})
        gap = [(other - right) ** 2 - (one - right) ** 2 for (one, right), (other, _) in zip(direag, mean, strict=True)]
        row = evaluation.differences.query("method == 'majority_platt' and metric == 'benefit'").iloc[0]
        assert row["difference"] == pytest.approx(np.mean(gap))
        half = 1.96 * np.std(gap) / np.sqrt(len(gap))  # the bootstrap of a mean is nearly normal
        assert (row["low"], row["high"]) == pytest.approx((np.mean(gap) - half, np.mean(gap) + half), abs=half / 4)
        # A rule that learns nothing is not what it has to beat, however good it happens to be.
        assert evaluation.rival == "majority_platt"
        said = said_of(evaluation)[-1]
        assert f"{row['second']:.3f}, and {row['first']:.3f} of the strongest rival, majority vote with Platt" in said
        low, high = row["low"], row["high"]
        assert said.endswith(f"DirEAG is better: +{np.mean(gap):.3f} [95%: +{low:.3f}, +{high:.3f}].")

    def test_of_a_worse_one_and_who_the_rival_is(self) -> None:
        better, worse = self.pair(2)
        last = said_of(made_evaluation({"majority": better, "direag": worse}, level=0.99))[-1]
        assert "strongest rival, majority vote. DirEAG is worse: " in last
        assert "[99%: " in last
        said = {"best_level_platt": worse, "conditional_logit": better, "majority": better, "direag": worse}
        assert made_evaluation(said).rival == "conditional_logit"

    def test_an_unanswered_question_is_worth_nothing_and_resamples_are_those_of_the_evaluation(self) -> None:
        said = {
            "majority": [(0.9, True), (None, False), (0.8, False)],
            "direag": [(None, False), (0.6, True), (0.4, False)],
        }
        rows = made_evaluation(said).differences
        assert rows["n"].tolist() == [3, 3, 3]
        benefit, other = (1 - 0.4**2 - 0.4**2) / 3, (1 - 0.1**2 - 0.8**2) / 3
        assert rows.set_index("metric").loc["benefit", "difference"] == pytest.approx(benefit - other)
        # of a method that says the same of all, the difference moves as the other method's metric does
        rng = np.random.default_rng(4)
        constant = {"majority": [(0.5, bool(rng.random() < 0.6)) for _ in range(50)], "direag": [(0.5, False)] * 50}
        evaluation = made_evaluation(constant)
        metrics = evaluation.metrics.set_index("method").loc["majority"]
        row = evaluation.differences.query("metric == 'accuracy_of_all'").iloc[0]
        assert (-row["high"], -row["low"]) == pytest.approx((metrics["accuracy_low"], metrics["accuracy_high"]))


def draw_nothing(patch: pytest.MonkeyPatch) -> None:
    """Leave the pictures out, which take longer than all the rest."""
    patch.setattr("analysis.report._drawn", lambda *_, **__: ())
    for drawn in ("reliability_picture", "benefit_picture", "risk_coverage_picture"):
        patch.setattr(f"analysis.report.{drawn}", lambda _: Paragraph(""))


@pytest.fixture(autouse=True)
def undrawn(monkeypatch) -> None:
    draw_nothing(monkeypatch)


def reported(path: Path, evaluation: Evaluation, fit: Fit | None = None, name: str = "FIT") -> Page:
    write_report(evaluation, path, fit, name)
    return Page.read(path)


@pytest.fixture(scope="module")
def page(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Return the report of the folder, with the figures of its evaluation made but not rendered."""
    inner, fit, observations = with_parts(home, None, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*UNRENDERED)
        patch.setattr("analysis.report.fit_pictures", lambda *_, **__: ())
        target = tmp_path_factory.mktemp("report") / "report.html"
        return reported(target, Evaluation.read(inner, observations), Fit.load(fit), str(fit))


class TestPage:
    def test_the_thresholds_are_of_the_held_out_answers(self, page: Page, evaluation: Evaluation) -> None:
        scored = evaluation.method_predictions.dropna(subset=["correct", "probability"])
        accepted = scored[scored["probability"] >= 0.5]
        _, *rows = page.tables["Which answers to accept"]
        ((_, share, right),) = [row for row in rows if row[0] == "50% or more"]
        assert share == f"{100 * len(accepted) / 72:.0f}%|{len(accepted)}"
        assert right.startswith(f"{100 * accepted['correct'].astype(bool).mean():.1f}%|")
        assert rows[0][0] == "all"

    def test_it_is_a_page_for_everyone_all_but_the_answer_folded(self, page: Page) -> None:
        assert [one["id"] for one in page.attributes("section")] == SECTIONS
        assert page.attributes("details").count({}) == len(SECTIONS) - 1
        assert page.attributes("html")[0]["lang"] == "en"
        assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.attributes("meta")
        headings = [tag for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
        assert (headings.count("h1"), headings.count("h2")) == (1, len(SECTIONS))
        assert set(headings) == {"h1", "h2", "h3"}
        ids = [one["id"] for _, one in page.tags if "id" in one]
        assert len(ids) == len(set(ids))
        assert all("scope" in one for one in page.attributes("th"))
        assert len(page.attributes("img")) == len(page.attributes("figcaption")) == 3
        assert all(len(one["alt"]) > 40 for one in page.attributes("img"))

    def test_its_figures_are_those_of_the_evaluation(self, page: Page, evaluation: Evaluation) -> None:
        metrics = evaluation.ranked.set_index("method")
        gains = evaluation.differences.query("metric == 'benefit'").set_index("method")
        _, *rows = page.tables[MAIN]
        assert [row[0] for row in rows] == metrics.index.tolist()
        names = [*FIRST_METRICS, "brier"]
        for method, gain, *cells, n in rows:
            figures = metrics.loc[method]
            expected = [
                f"{figures[name]:.3f}|[{figures[f'{name}_low']:.3f}, {figures[f'{name}_high']:.3f}]"
                if figures[name] == figures[name]
                else DASH
                for name in names
            ]
            assert (cells, int(n)) == (expected, figures["n"])
            values = [] if method == "direag" else gains.loc[method, ["difference", "low", "high"]]
            shown = "".join(f"{value:+.3f}" for value in values).replace("-", "\N{MINUS SIGN}")
            assert re.sub(r"[|\[\], ]", "", gain) == shown
        rounded = metrics[names].round(3) * [1 if METRIC_WORDS[name].more_is_better else -1 for name in names]
        assert sum("best" in one["class"] for one in page.attributes("td")) == (rounded == rounded.max()).sum().sum()
        _, *first = page.tables["Is it better than a simpler method?"]
        assert {"direag", "majority", "majority_platt", evaluation.rival} <= {row[0] for row in first}
        assert len(first) == 5

    def test_the_questions_to_look_at(self, page: Page, evaluation: Evaluation) -> None:
        rows = evaluation.method_predictions.dropna(subset="probability")
        wrong = rows[rows["correct"].eq(False).fillna(False)].nlargest(10, "probability")
        asked = {one.problem_id: one for one in evaluation.observations.questions}
        _, *surest = page.tables["Surest and wrong"]
        names = wrong.iloc[:, 0].tolist()
        assert [row[0] for row in surest] == names
        assert [row[3] for row in surest] == [asked[name].gold_answer for name in names]
        assert [row[5] for row in surest] == [asked[name].question for name in names]
        for name, row in zip(names, surest, strict=True):
            said = Counter(report.answer for report in asked[name].observations if report.answer is not None)
            ordered = sorted(said, key=lambda k: (-said[k], k))
            assert row[4].replace("\xa0", " ") == ", ".join(f"{text} ({said[text]})" for text in ordered)
        _, *least = page.tables["Least sure"]
        assert [row[0] for row in least] == rows.nsmallest(10, "probability").iloc[:, 0].tolist()

    def test_questions_without_a_text_have_no_column_for_it(self) -> None:
        questions = [one.model_copy(update={"question": None}) for one in simulate_observations(40, seed=2).questions]
        observations = Observations.from_questions(questions, "numeric")
        evaluation = evaluate(observations, methods=["majority", "majority_platt"], n_resamples=5)
        tables = {one.caption: one for one in _question_blocks(evaluation) if isinstance(one, Table)}
        assert {*tables} == {"Surest and wrong", "Least sure"}
        for table in tables.values():
            headers = [column.header for column in table.columns]
            assert headers == ["problem_id", "probability", "answer", "right answer", "reports"]

    def test_the_fit_the_fits_behind_the_evaluation_and_how_to_repeat_it(self, page: Page, home: Path) -> None:
        for table in learned_blocks(Fit.load(home / "fit.nc")):
            _, *rows = page.tables[table.caption]
            assert [row[:2] for row in rows] == [[cell.text for cell in row[:2]] for row in table.rows]
        assert page.tables["The fits behind the held-out predictions"][1][:2] == ["confidence", "2 of 2"]
        assert "These are not the questions" not in page.sections["fits"]
        (shares,) = [rows for heading, rows in page.tables.items() if heading.startswith("How much each level counts")]
        assert shares[0] == ["level", "mean", "least", "most"]
        assert sum(float(row[1].rstrip("%")) for row in shares[1:]) == pytest.approx(100, abs=0.3)
        page.check(fits="Converged: gradient ", settings="direag evaluate")
        assert page.text.count("82 questions, 2-fold cross-fit") == 1
        page.check(settings=Evaluation.read(home / "evaluation").of.sha256, answer="70 of these, by DirEAG")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Return a report of which every text from a file is an attack."""
    observations = attacking_observations()
    evaluation = evaluate(observations, methods=["majority", "mean_confidence"], n_resamples=5)
    fit = made_fit(observations, natural())
    with pytest.MonkeyPatch.context() as patch:
        draw_nothing(patch)
        return reported(tmp_path_factory.mktemp("attacked") / "report.html", evaluation, fit, ATTACK)


def test_report_shows_an_attack_as_text(attacked: Page) -> None:
    assert set(SECTIONS) == set(attacked.sections)
    assert ATTACK in attacked.title
    _, *rows = attacked.tables["Least sure"]
    assert all(ATTACK in text for row in rows for text in (row[0], row[3], row[4], row[5]))


@pytest.mark.usefixtures("page", "attacked")  # made before what a single test leaves out of its pages
@pytest.mark.parametrize("which", ["page", "attacked"])
def test_nothing_is_loaded_linked_or_run(request, which) -> None:
    page = request.getfixturevalue(which)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"link", "iframe", "object", "embed", "form", "base", "audio", "video", "source"}
    attributes = [(name, value) for _, attrs in page.tags for name, value in attrs.items()]
    names = {name for name, _ in attributes}
    assert not {name for name in names if name.startswith("on")} | names & {"srcset", "action", "style"}
    assert all(value.startswith("data:image/") for name, value in attributes if name == "src")
    assert all(re.fullmatch("#[a-z]+", value) for name, value in attributes if name == "href")
    assert not re.search(r"url\(|@import|expression", page.style)
    policies = [one["content"] for one in page.attributes("meta") if "http-equiv" in one]
    allowed = base64.b64encode(hashlib.sha256(b"").digest()).decode()
    assert policies == [f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"]
    assert not page.attributes("script")


def test_report_says_what_is_missing(tmp_path: Path) -> None:
    unlabelled = made_evaluation({"majority": [(0.5, None)] * 4, "direag": [(0.7, None)] * 4})
    page = reported(tmp_path / "a.html", unlabelled)
    assert "has answered none of the labelled questions" in page.text
    assert page.tables[MAIN][1][2:5] == [DASH] * 3
    said = [(0.5, True), (0.9, False), (None, False), (0.4, True)]
    alone = reported(tmp_path / "b.html", made_evaluation({"majority": said}, n_fitted=7))
    assert "66.7% of the answers of majority vote are right" in alone.text
    alone.check(answer="No other method was evaluated", fits="none of the methods is fitted")
    alone.check(questions="--obs OBSERVATIONS")
    assert "fitted to 7 others" in alone.text


def test_report_says_what_is_not_to_be_believed(evaluation: Evaluation, nuts: Fit, tmp_path: Path) -> None:
    first = evaluation.parameters["fold"] == "0"
    stuck = evaluation.parameters["projected_gradient"].mask(first, 1e-3)
    run = replace(evaluation, parameters=evaluation.parameters.assign(projected_gradient=stuck))
    fit = made_fit(evaluation.observations.select(slice(20, 40)), natural(), gradient=0.01)
    page = reported(tmp_path / "a.html", run, fit, "stuck.nc")
    page.check(answer="1 of the 2 fits behind these figures did not converge")
    assert page.tables["The fits behind the held-out predictions"][1][1] == "1 of 2"
    page.check(answer="stuck.nc cannot be trusted", fits="NOT converged: gradient 0.01")
    stats = nuts.tree["sample_stats"]["diverging"]
    bad = replaced(nuts, "sample_stats", {"diverging": np.arange(stats.size).reshape(stats.shape) < 7})
    page = reported(tmp_path / "b.html", evaluation, bad, "bad.nc")
    page.check(answer="bad.nc cannot be trusted", fits="7 divergences")
    page.check(fits="These are not the questions of the evaluation")


@pytest.mark.slow
def test_report_leaves_out_what_means_nothing_of_a_weighted_likelihood(evaluation, nuts, tmp_path, monkeypatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(*UNRENDERED)
    heavy = presets.preset("bayes", null_target_weight="balanced").model_dump_json()
    fit = replaced(nuts, "posterior", preset=heavy)
    page, _ = (reported(tmp_path / name, evaluation, fit, "weighted.nc") for name in ("report.html", "again.html"))
    assert len(page.attributes("img")) == 3 + 3 + 1
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "report.html").read_bytes()
    assert page.sections["fits"].count("This picture is left out: ") == 2
    assert "modelbayes with null_target_weight=balanced\n" in page.sections["fits"]
