"""Explanations as people and machines get them: tables of 80 columns, JSON, a picture, the command."""

import json
from functools import partial
from io import StringIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.patches import Rectangle
from rich.console import Console
from scipy.special import logit

from analysis.display.folders import jsonable
from analysis.display.terminal import shown as shown_blocks
from analysis.explanation.explanation import Explanation, explain
from analysis.explanation.explanation_display import (
    NULL,
    explanation_blocks,
    explanation_figure,
    quoted,
    what_decided,
)
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.fits.fit import Fit
from tests.analysis.fits import around, made_fit, natural
from tests.command_line import direag, one_line

run = partial(direag, "explain")
N_LEVELS = 12
LEVELS = tuple(f"model-{number}-with-quite-a-long-name" for number in range(1, N_LEVELS))
LEVELS = (*LEVELS, "[bold]$x$[/bold]")
LONG = "fraction of light that a surface reflects, also called $albedo$"


def question(name: str, answers: list[str | None], **fields: str) -> Question:
    observations = tuple(
        Observation(level=level, level_name=LEVELS[level], answer=answer, confidence=(37 * level) % 101)
        for level, answer in enumerate(answers)
    )
    return Question(problem_id=name, observations=observations, **fields)


@pytest.fixture(scope="module")
def observations() -> Observations:
    agreed: list[str | None] = ["yes"] * 9 + ["no", "no", None]
    return Observations.from_questions(
        [
            question("agreed", agreed, gold_answer="Yes", question="Is it?"),
            question("all differ", [f"{LONG} {number}" for number in range(N_LEVELS)]),
            question("silent", [None] * N_LEVELS, gold_answer="yes"),
            question("lone", ["$5 and $6", *[None] * 11]),
        ],
        answers="text",
    )


@pytest.fixture(scope="module")
def fit(observations: Observations) -> Fit:
    draws = around(natural(N_LEVELS), np.random.default_rng(0), n_draws=5, spread=0.4)
    return made_fit(observations.select(slice(0, 1)), draws, intercept=0.3, slope=1.2)


@pytest.fixture(scope="module")
def one_draw(observations: Observations) -> Fit:
    return made_fit(observations, natural(N_LEVELS), intercept=0.3, slope=1.2)


def shown(found: Explanation) -> str:
    console = Console(file=StringIO(), width=80, markup=False, emoji=False, highlight=False)
    console.print(shown_blocks(explanation_blocks(found)))
    return console.file.getvalue()


class TestText:
    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("agreed", ["Is it?", "11 usable of 12 levels", "no answer", "Means over 10 posterior draws"]),
            ("all differ", ["[bold]$x$", "fraction of li…edo$ 11"]),
            ("silent", ["unanswered No report can be used", "right answer yes; nothing is selected."]),
            ("lone", ["unanswered"]),
        ],
    )
    def test_it_fits_and_says_first_what_decided(
        self, fit: Fit, observations: Observations, name: str, words: list[str]
    ) -> None:
        found = explain(fit, observations, name)
        text = shown(found)
        assert max(map(len, text.splitlines())) <= 80
        assert text.startswith(f"{name}: ")
        for said in (what_decided(found), *words):
            assert one_line(said) in one_line(text)
        for absent in ("What each report gave", "probability"):
            assert (absent in text) == (name != "silent")

    def test_what_it_says_of_a_question(self, fit: Fit, observations: Observations) -> None:
        found = explain(fit, observations, "agreed", interval_level=0.8)
        text = one_line(shown(found))
        assert f"right with probability {found.confidence:.2f} (80% interval" in text
        assert "mean of each draw's ratio" in text
        assert f"another answer leads in {found.change_probability:.1%} of the draws" in text
        assert "learned from 1 question; a question of this name among them" in text
        assert "right answer yes; the selected one is right. Not used for anything above." in text
        for row in found.reports.to_dict("records"):
            assert f" {row['weight']:.2f} {row['evidence']:.2f} {row['null_evidence']:.2f} " in text

    def test_a_single_draw_has_no_intervals_and_its_formula_can_be_checked(
        self, one_draw: Fit, observations: Observations
    ) -> None:
        found = explain(one_draw, observations, "agreed")
        text = one_line(shown(found))
        assert "interval" not in text
        assert "draws" not in text
        score = f"{logit(found.support):.3f}"
        assert f"{found.confidence:.3f} = sigmoid(0.300 + 1.200 x logit of the support, {score})" in text
        plain = explain(made_fit(observations, natural(N_LEVELS), recalibration="none"), observations, "agreed")
        assert "the support itself; this fit has no recalibration" in one_line(shown(plain))

    def test_the_product_can_be_followed_where_votes_decide(self, one_draw: Fit, observations: Observations) -> None:
        voting = made_fit(observations, natural(N_LEVELS, sharpness=1.3, vote=[0.1 * k for k in range(N_LEVELS)]))
        found = explain(voting, observations, "agreed")
        key = [text.get_text() for text in explanation_figure(found).axes[1].texts]
        text = shown(found)
        assert max(map(len, text.splitlines())) <= 80
        assert "support: the share of sum^1.30 x votes in that of all states" in one_line(text)
        assert "x votes" in key
        for row in found.states.to_dict("records"):
            for figure in (row["sharpened"], row["vote_factor"]):
                cell = f"{figure:.2f}" if figure < 100 else f"{figure:.3g}"
                assert cell in text
                assert cell in key
        additive = shown(explain(one_draw, observations, "agreed"))
        assert "support: the share of sum in that of all states" in one_line(additive)
        assert "vote" not in additive

    def test_how_often_levels_agree(self, fit: Fit, observations: Observations) -> None:
        looking = made_fit(observations.with_agreement(), natural(N_LEVELS))
        found = explain(looking, observations, "agreed")
        text = shown(found)
        assert max(map(len, text.splitlines())) <= 80
        for row in found.reports.to_dict("records"):
            assert f"{row['agreement']:.0%} ({row['chance_agreement']:.0%})" in text
        for words in ("agrees", "would by chance"):
            assert words in one_line(text)
            assert words not in one_line(shown(explain(fit, observations, "agreed")))


class TestFigure:
    @pytest.mark.parametrize("name", ["all differ", "silent", "lone"])
    def test_bars_are_the_parts(self, fit: Fit, observations: Observations, name: str) -> None:
        found = explain(fit, observations, name)
        before = dict(mpl.rcParams)
        figure = explanation_figure(found)
        figure.draw_without_rendering()
        assert dict(mpl.rcParams) == before
        axes = figure.axes[0]
        bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        np.testing.assert_allclose([bar.get_width() for bar in bars], found.parts["support"])
        rows = [round(bar.get_y() + bar.get_height() / 2) for bar in bars]
        assert rows == found.parts["state"].tolist()
        ends = [
            max(bar.get_x() + bar.get_width() for bar in bars if round(bar.get_y() + 0.31) == row) for row in set(rows)
        ]
        np.testing.assert_allclose(ends, found.states["support"])
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert labels[-1] == NULL
        assert len(labels) == len(found.states) + (found.answer is not None)

    def test_the_key_names_every_report_and_the_caption_says_what_decided(
        self, fit: Fit, observations: Observations
    ) -> None:
        found = explain(fit, observations, "agreed")
        figure = explanation_figure(found)
        key = [text.get_text() for text in figure.axes[1].texts]
        assert [text for text in key if text in LEVELS] == list(LEVELS[:11])
        caption = one_line(figure.get_supxlabel())
        assert caption.startswith(one_line(what_decided(found)))
        assert "its 90% interval" in caption
        assert "Means over 10 posterior draws" in caption
        assert caption.endswith("The fit learned from 1 question, this one among them.")


class TestCommand:
    @pytest.fixture
    def files(self, tmp_path: Path, fit: Fit, observations: Observations) -> tuple[Path, Path]:
        fit.save(tmp_path / "fit.nc")
        observations.write(tmp_path / "observations.jsonl")
        return tmp_path / "fit.nc", tmp_path / "observations.jsonl"

    def test_text_picture_and_json(
        self, files: tuple[Path, Path], tmp_path: Path, fit: Fit, observations: Observations
    ) -> None:
        result = run(*files, "agreed", "--out", tmp_path / "why.svg")
        assert result.exit_code == 0
        assert result.stdout.startswith("agreed: yes, right with probability")
        assert one_line(f"{tmp_path / 'why.svg'}: the same as a picture") in one_line(result.stdout)
        assert (tmp_path / "why.svg").read_text().startswith("<?xml")
        record = json.loads(run(*files, "silent", "--json", "--level", "0.5").stdout)
        found = explain(fit, observations, "silent", interval_level=0.5)
        assert record.pop("fit") == str(files[0])
        assert record.pop("out") is None
        assert record == jsonable({"what_decided": what_decided(found), **vars(found)})
        assert record["confidence_low"] is None
        assert record["states"][-1]["answer"] is None

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (["agred"], "no question 'agred'; expected one of the 4 there, such as 'agreed'"),
            (["agreed", "--out", "why.gif"], "no figure can be written as '.gif'"),
            (["agreed", "--out", "nowhere/why.png"], "there is no folder nowhere"),
            (["agreed", "--out", "observations.jsonl"], "saw a file that is read here"),
        ],
    )
    def test_refusals_are_one_line_and_write_nothing(
        self, files: tuple[Path, Path], arguments: list[str], problem: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(files[0].parent)
        result = run("fit.nc", "observations.jsonl", *arguments)
        assert result.exit_code == 2
        assert problem in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert sorted(path.name for path in files[0].parent.iterdir()) == ["fit.nc", "observations.jsonl"]


LETTERS = ("a", "b", "c", "d", "e", "f")


def lettered(answers: str, name: str = "q") -> Question:
    """Return a question of which each level gives one answer, a letter; '-' is no report."""
    observations = tuple(
        Observation(level=level, level_name=LETTERS[level], answer=answer, confidence=50)
        for level, answer in enumerate(answers)
        if answer != "-"
    )
    return Question(problem_id=name, gold_answer=answers[0].strip("-") or "x", observations=observations)


def words(answers: str, weights: list[float], *, prior_strength: float = 1e-9, null_base: float = 0.0) -> str:
    """Say what decided under the count variant, without a recalibration: support is the share of the weights.

    The fit has seen one question, with a report of every level.
    """
    fitted = lettered("x" * len(answers), name="all")
    observations = Observations.from_questions([fitted, lettered(answers)], answers="text")
    given = {"weight": weights, "prior_strength": prior_strength, "null_base": null_base}
    seen = observations.select(np.arange(1))
    fit = made_fit(seen, given, preset="paper", variant="count", recalibration="none")
    return what_decided(explain(fit, observations, "q"))


@pytest.mark.parametrize(
    ("answers", "weights", "parts"),
    [
        (
            "xxxxy",
            [4, 1, 1, 1, 0.5],
            [
                "4 of 5 reports say x",
                "0.93; 'e' says y (0.07)",
                "No single report decides",
                "between 0.86 (without 'a') and >0.99 (without 'e')",
            ],
        ),
        (
            "xyy",
            [3, 1, 1],
            ["Only 1 of 3 reports says x, but", "0.60; 2 say y (0.40)", "'a' decides", "would be y", ">0.99"],
        ),
        (
            "xyzzv",
            [4, 3, 1, 1, 1],
            ["0.40; 2 say z (0.20); 'b' says y (0.30); one more answer has 0.10", "'a' decides"],
        ),
        ("xxyzvw", [2, 2, 3, 1, 1, 1], ["0.40; 'c' says y (0.30); 'e' says v (0.10); 2 more answers share 0.20."]),
        ("xxyy", [2, 2, 1.9, 1.9], ["0.51; 2 say y (0.49)", "any one of 'a', 'b', and the answer changes"]),
        ("xxxxyy", [1, 1, 1, 1, 1.8, 1.8], ["any one of 'a', 'b', 'c' and 1 more, and the answer changes"]),
        ("xy", [1, 1], ["1 of 2 reports says x", "'b' says y (0.50)"]),
        ("xxx", [1, 1, 1], ["All 3 reports say x", "the answer stays, and so does its probability"]),
        ("-x", [1, 1], ["The only report says x", ">0.99"]),
        ("----", [1, 1, 1, 1], ["No report can be used", "no answer is selected"]),
    ],
)
def test_what_decided(answers: str, weights: list[float], parts: list[str]) -> None:
    said = words(answers, weights)
    places = [said.find(part) for part in parts]
    assert places == sorted(places), said
    assert min(places) >= 0, said


def test_a_null_with_more_support_and_where_it_has_it_from() -> None:
    assert "has more support (0.60), chiefly from the null's base" in words("xx", [1, 1], null_base=3)
    assert "has more support" not in words("xx", [1, 1], null_base=1.9)
    assert "chiefly from the prior" in words("xx", [1, 1], null_base=3, prior_strength=100)


def test_doubt_of_the_reports_is_called_what_it_is() -> None:
    observations = Observations.from_questions([lettered("xx")], answers="text")
    fit = made_fit(observations, natural(2, bias=[-5.0, -5.0], null_gain=2.0), preset="paper")
    assert "chiefly from what the reports lack of certainty" in what_decided(explain(fit, observations, "q"))


def test_fewer_reports_than_the_fitted_questions_had() -> None:
    few = words("-xx", [1, 1, 1])
    assert "has 2 usable reports, where the fitted ones had 3. Such probabilities are mostly too high" in few
    assert "too high" not in words("xxx", [1, 1, 1])


def test_answers_of_several_words_stand_in_quotation_marks_and_long_ones_are_cut() -> None:
    assert quoted("x") == "x"
    assert quoted("solid\n state") == '"solid state"'
    assert quoted("a trait that helps an organism survive") == '"a trait that he…survive"'
