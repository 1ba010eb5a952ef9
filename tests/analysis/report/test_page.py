"""The report as a page: what stands in it, that it is escaped, and that it needs nothing else."""

import base64
import hashlib
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.display.glossary import FIRST_METRICS, METRIC_WORDS
from analysis.evaluation import Evaluation
from analysis.fit_display import learned_blocks
from analysis.report import with_parts, write_report
from bayes_direag.fits.fit import Fit
from bayes_direag.model import presets
from tests.analysis.fits import gaussian_draws, made_posterior
from tests.analysis.made_runs import write_run
from tests.analysis.report.pages import Page
from tests.analysis.report.runs import (
    ATTACK,
    attacking_observations,
    draw_nothing,
    small_fit,
    small_folder,
    small_observations,
    small_run,
)

SECTIONS = ["answer", "questions", "methods", "fits", "settings"]
MAIN, DASH = "Every method on the same held-out questions", "\N{EN DASH}"
UNRENDERED = ("analysis.display.page._data_uri", lambda _: "data:image/webp;base64,")


@pytest.fixture(autouse=True)
def undrawn(monkeypatch) -> None:
    draw_nothing(monkeypatch)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    return small_folder(tmp_path_factory.mktemp("files"))


def reported(path: Path, folder: Path, fit: Path | None = None) -> Page:
    folder, fit, observations = with_parts(folder, fit, None)
    evaluation = Evaluation.read(folder, observations)
    write_report(evaluation, path, fit and Fit.load(fit), str(fit))
    return Page.read(path)


@pytest.fixture(scope="module")
def page(files) -> Page:
    """Return a report with the figures of its evaluation, made but not rendered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*UNRENDERED)
        patch.setattr("analysis.report.fit_pictures", lambda *_, **__: ())
        return reported(files / "report.html", files)


class TestWhatStandsInIt:
    def test_the_thresholds_are_of_the_held_out_answers(self, page, files):
        scored = pd.read_csv(files / "evaluation" / "predictions.csv").query("method == 'direag'")
        scored = scored.dropna(subset=["correct", "probability"])
        accepted = scored[scored["probability"] >= 0.5]
        _, *rows = page.tables["Which answers to accept"]
        ((_, share, right),) = [row for row in rows if row[0] == "50% or more"]
        assert share == f"{100 * len(accepted) / 58:.0f}%|{len(accepted)}"
        assert right.startswith(f"{100 * accepted['correct'].astype(bool).mean():.1f}%|")
        assert rows[0][0] == "all"

    def test_it_is_a_page_for_everyone_all_but_the_answer_folded(self, page):
        assert [one["id"] for one in page.attributes("section")] == SECTIONS
        assert page.attributes("details").count({}) == len(SECTIONS) - 1
        assert page.attributes("html")[0]["lang"] == "en"
        assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.attributes("meta")
        headings = [tag for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
        assert headings.count("h1") == 1
        assert headings.count("h2") == len(SECTIONS)
        assert set(headings) == {"h1", "h2", "h3"}
        ids = [one["id"] for _, one in page.tags if "id" in one]
        assert len(ids) == len(set(ids))
        assert all("scope" in one for one in page.attributes("th"))

    def test_every_picture_says_how_to_read_it_and_what_is_seen(self, page):
        pictures = page.attributes("img")
        assert len(pictures) == len(page.attributes("figcaption")) == 3
        assert all(len(one["alt"]) > 40 for one in pictures)

    def test_its_figures_are_those_of_the_evaluation(self, page, files):
        evaluation = Evaluation.read(files / "evaluation")
        metrics = evaluation.metrics.set_index("method").sort_values("benefit", ascending=False)
        gains = evaluation.differences.query("metric == 'benefit'").set_index("method")
        _, *rows = page.tables[MAIN]
        assert [row[0] for row in rows] == metrics.index.tolist()
        names = (*FIRST_METRICS, "brier")
        for method, gain, *cells, n in rows:
            own = metrics.loc[method]
            expected = [
                f"{own[name]:.3f}|[{own[f'{name}_low']:.3f}, {own[f'{name}_high']:.3f}]"
                if own[name] == own[name]
                else DASH
                for name in names
            ]
            assert (cells, int(n)) == (expected, own["n"])
            values = [] if method == "direag" else gains.loc[method, ["difference", "low", "high"]]
            shown = "".join(f"{value:+.3f}" for value in values).replace("-", "\N{MINUS SIGN}")
            assert re.sub(r"[|\[\], ]", "", gain) == shown
        best = sum(
            (
                metrics[name].round(3)
                == metrics[name].round(3).agg("max" if METRIC_WORDS[name].more_is_better else "min")
            ).sum()
            for name in names
        )
        assert sum("best" in one["class"] for one in page.attributes("td")) == best
        _, *first = page.tables["Is it better than a simpler method?"]
        assert {row[0] for row in first} == {"direag", "majority", "mean_confidence", "confidence"}

    def test_the_questions_to_look_at(self, page, files):
        rows = pd.read_csv(files / "evaluation" / "predictions.csv").query("method == 'direag'")
        wrong = rows[rows["correct"].astype("boolean").eq(False).fillna(False)].nlargest(10, "probability")
        asked = {one.problem_id: one for one in small_observations().questions}
        _, *surest = page.tables["Surest and wrong"]
        assert [row[0] for row in surest] == wrong["problem_id"].tolist()
        assert [row[3] for row in surest] == [asked[name].gold_answer for name in wrong["problem_id"]]
        assert [row[4] for row in surest] == [asked[name].question for name in wrong["problem_id"]]
        _, *least = page.tables["Least sure"]
        assert [row[0] for row in least] == rows.nsmallest(10, "probability")["problem_id"].tolist()

    def test_the_fit_and_the_fits_behind_the_evaluation(self, page):
        for table in learned_blocks(small_fit()):
            _, *rows = page.tables[table.caption]
            assert [row[:2] for row in rows] == [[cell.text for cell in row[:2]] for row in table.rows]
        assert page.tables["The fits behind the held-out predictions"][1][:2] == ["confidence", "2 of 2"]
        page.check(fits="Converged: gradient 1e-09")
        assert "These are not the questions" not in page.sections["fits"]

    def test_how_to_repeat_it_where_the_numbers_are_and_what_was_left_out(self, page):
        assert small_observations().fingerprint in page.sections["settings"]
        for command in ("Python, by analysis.evaluate", "direag report"):
            assert command in page.sections["settings"]
        page.check(answer="60 questions, 2-fold cross-fit")
        page.check(answer="57 of these, by DirEAG")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory) -> Page:
    """Return a report of which every text from a file is an attack."""
    folder = tmp_path_factory.mktemp("attacked")
    observations = attacking_observations()
    small_run(folder / "evaluation", observations)
    small_fit(observations).save(folder / "fit.nc")
    observations.write(folder / "observations.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        draw_nothing(patch)
        return reported(folder / "report.html", folder)


def test_an_attack_stays_text(attacked):
    assert set(SECTIONS) == set(attacked.sections)
    assert ATTACK in attacked.title
    _, *rows = attacked.tables["Least sure"]
    assert all(ATTACK in text for row in rows for text in (row[0], row[3], row[4]))


@pytest.mark.parametrize("which", ["page", "attacked"])
def test_nothing_is_loaded_linked_or_run(request, which):
    page = request.getfixturevalue(which)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"link", "iframe", "object", "embed", "form", "base", "audio", "video", "source"}
    attributes = [(name, value) for _, own in page.tags for name, value in own.items()]
    names = {name for name, _ in attributes}
    assert not {name for name in names if name.startswith("on")} | names & {"srcset", "action", "style"}
    assert all(value.startswith("data:image/") for name, value in attributes if name == "src")
    assert all(re.fullmatch("#[a-z]+", value) for name, value in attributes if name == "href")
    assert not re.search(r"url\(|@import|expression", page.style)
    policies = [one["content"] for one in page.attributes("meta") if "http-equiv" in one]
    allowed = base64.b64encode(hashlib.sha256(b"").digest()).decode()
    assert policies == [f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"]
    assert not page.attributes("script")


class TestWhatIsMissing:
    def test_no_label_at_all(self, tmp_path):
        folder = write_run(tmp_path / "run", {"majority": [(0.5, None)] * 4, "direag": [(0.7, None)] * 4})
        page = reported(tmp_path / "report.html", folder)
        assert "has answered none of the labelled questions" in page.text
        assert page.tables[MAIN][1][2:5] == [DASH] * 3

    def test_one_method_and_no_fit(self, tmp_path):
        said = [(0.5, True), (0.9, False), (None, False), (0.4, True)]
        page = reported(tmp_path / "report.html", write_run(tmp_path / "run", {"majority": said}))
        assert "66.7% of the answers of majority vote are right" in page.text
        page.check(answer="No other method was evaluated")
        page.check(fits="none of the methods is fitted")

    def test_neither_direag_nor_observations_at_hand(self, tmp_path, monkeypatch):
        monkeypatch.undo()
        monkeypatch.setattr(*UNRENDERED)
        said = {"majority": [(0.5, True), (0.9, False)], "steerconf": [(0.5, True), (0.9, True)]}
        page = reported(tmp_path / "report.html", write_run(tmp_path / "run", said, n_fitted=7))
        page.check(questions="--obs OBSERVATIONS", answer="fitted to 7 others")
        assert "SteerConf" in page.text

    def test_no_fit_shows_what_the_folds_learned(self, files, tmp_path):
        page = reported(tmp_path / "report.html", files / "evaluation")
        (rows,) = [rows for heading, rows in page.tables.items() if heading.startswith("How much each level counts")]
        assert rows[0] == ["level", "mean", "least", "most"]
        assert sum(float(row[1].rstrip("%")) for row in rows[1:]) == pytest.approx(100, abs=0.3)


class TestWhatIsNotToBeBelieved:
    def test_fits_that_did_not_converge(self, tmp_path):
        small_fit(gradient=0.01).save(tmp_path / "stuck.nc")
        run = small_run(tmp_path / "run", gradient=1e-3)
        page = reported(tmp_path / "report.html", run, tmp_path / "stuck.nc")
        page.check(answer="1 of the 2 fits behind these figures did not converge")
        assert page.tables["The fits behind the held-out predictions"][1][1] == "1 of 2"
        page.check(answer="stuck.nc cannot be trusted", fits="NOT converged: gradient 0.01")

    def test_a_posterior_badly_sampled(self, files, tmp_path):
        diverging = np.zeros((2, 60), bool)
        diverging[0, :7] = True
        few = gaussian_draws(1, n_chains=2, n_draws=60)
        observations = small_observations().select(slice(10, 40))
        bad = made_posterior(observations, few, statistics={"diverging": diverging})
        bad.save(tmp_path / "bad.nc")
        page = reported(tmp_path / "report.html", files, tmp_path / "bad.nc")
        page.check(answer="bad.nc cannot be trusted", fits="NOT converged")
        page.check(fits="7 divergences")
        page.check(fits="These are not the questions of the evaluation")


@pytest.mark.slow
def test_of_a_weighted_likelihood_what_means_nothing_is_left_out(files, tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(*UNRENDERED)
    weighted = presets.preset("bayes", null_target_weight="balanced")
    made_posterior(small_observations().select(slice(10, 40)), gaussian_draws(1), preset=weighted).save(
        tmp_path / "weighted.nc"
    )
    page = reported(tmp_path / "report.html", files, tmp_path / "weighted.nc")
    assert len(page.attributes("img")) == 3 + 3 + 1
    reported(tmp_path / "again.html", files, tmp_path / "weighted.nc")
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "report.html").read_bytes()
    assert page.sections["fits"].count("This picture is left out: ") == 2
    assert "modelbayes with null_target_weight=balanced\n" in page.sections["fits"]
