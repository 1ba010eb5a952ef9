"""``direag show``: what is usable in observations, and what a fit has learned, on a terminal of 80 columns."""

import io
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from rich.console import Console, RenderableType

from bayes_direag.commands.show import fit_summary, parameter_tables, quality_table, summary_table
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question, Status
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import PRESETS
from tests.analysis.fits import good_fit
from tests.analysis.report.runs import small_fit, small_observations

DASH = "\N{EN DASH}"


def shown(table: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(table)
    text = console.file.getvalue()
    assert isinstance(text, str)
    return text.replace("\N{MINUS SIGN}", "-")


def cells(text: str) -> dict[str, list[str]]:
    """Return the words of each line by its first one."""
    return {words[0]: words[1:] for words in map(str.split, text.splitlines()) if words}


@pytest.fixture(scope="module")
def fit() -> Fit:
    return small_fit()


class TestQuality:
    def test_counts_by_level_and_reason(self):
        def question(number: int, *reports: tuple[str | None, float | None], gold: str | None) -> Question:
            observations = tuple(
                Observation(level=level, level_name=f"[b]{level}[/b]", answer=answer, confidence=confidence)
                for level, (answer, confidence) in enumerate(reports)
            )
            return Question(problem_id=str(number), gold_answer=gold, observations=observations)

        observations = Observations.from_questions(
            [
                question(0, ("7", 90), ("7", 80), gold="7"),
                question(1, ("8", 90), (None, 80), gold="7"),
                question(2, ("no idea", 90), ("7", None), gold=None),
            ],
            "numeric",
        )
        text = shown(quality_table(observations, "x"))
        rows = cells(text)
        assert rows["[b]0[/b]"] == ["2", "·", "·", "1", "·"]
        assert rows["[b]1[/b]"] == ["1", "·", "1", "·", "1"]
        assert "3 questions: 2 answered, 2 labelled, 1 with a right answer among the candidates." in text.replace(
            "\n", " "
        )

    def test_long_names_are_whole_at_80_columns(self):
        observations = small_observations().select(np.arange(5 * 1234) % 60)
        names = ("claude-3-5-haiku-20241022_absolute", "x" * 70, "a", "b", "c")
        status = np.repeat(np.array(Status, np.int8), 1234 * 5).reshape(-1, 5)
        text = shown(quality_table(replace(observations, level_names=names, status=status), "simulated.jsonl"))
        assert "…" not in text
        assert all(cells(text)[name] == ["1234"] * 5 for name in names if len(name) < 70)
        assert text.count("x") == 70


class TestFit:
    def test_the_summary_is_that_of_the_fit(self, fit):
        summary = fit_summary(fit)
        assert summary["questions"] == fit.tree["constant_data"].sizes["problem"]
        assert summary["levels"] == list(fit.level_names)
        assert (summary["preset"], summary["converged"], summary["penalised_loss"]) == ("paper", True, 0.5)
        stuck = small_fit(gradient=0.1)
        assert fit_summary(stuck)["converged"] is False
        assert "NO: the largest gradient is 0.1" in shown(summary_table(stuck, "t"))
        assert fit_summary(small_fit(gradient=np.nan))["converged"] is False

    @pytest.mark.parametrize(
        ("name", "starts", "optima", "says"),
        [
            ("paper", 8, 3, "0.500000, the lowest of 3 optima from 8 starts"),
            ("paper", 8, 1, "0.500000, one optimum from 8 starts"),
            ("paper", 1, 1, "0.500000, from the usual start alone: there may be lower optima"),
            ("release", 1, 1, "0.500000, from the released start alone: there may be lower optima"),
            ("bayes", 1, 1, "0.500000 seed"),
        ],
    )
    def test_it_says_which_optimum_it_is(self, fit, name, starts, optima, says):
        tree = fit.tree.copy(deep=True)
        tree.attrs["preset"] = PRESETS[name].model_dump_json()
        for stat, value in {"n_starts": starts, "n_optima": optima}.items():
            tree["sample_stats"][stat] = xr.full_like(tree["sample_stats"]["loss"], value)
        assert says in " ".join(shown(summary_table(Fit(tree), "t")).split())
        assert (fit_summary(Fit(tree))["starts"], fit_summary(Fit(tree))["optima"]) == (starts, optima)

    def test_nuts_is_judged_by_its_chains_and_every_draw_counts(self):
        fit = good_fit()
        summary = fit_summary(fit)
        assert (summary["method"], summary["chains"], summary["draws"], summary["divergences"]) == ("nuts", 4, 250, 0)
        assert summary["largest_rhat"] < 1.01
        assert summary["smallest_ess"] > 400
        assert summary["converged"] is True
        assert not {"penalised_loss", "projected_gradient", "newton_steps"} & set(summary)
        words = " ".join(shown(summary_table(fit, "t")).split())
        assert "method NUTS, the whole posterior" in words
        assert "recalibration platt, on leave-one-out support" in words
        assert "converged yes: R-hat at most 1.00" in words
        assert "draws 250 of each of 4 chains" in words
        assert "NOTE" not in words
        weight = fit.tree["posterior"]["weight"].to_numpy().reshape(-1, 5)
        rows = cells(shown(parameter_tables(fit)))
        for level, name in enumerate(fit.level_names):
            expected = f"{weight[:, level].mean():.4f} ± {weight[:, level].std(ddof=1):.4f}"
            assert " ".join(rows[name][:3]) == expected

    def test_a_weighted_likelihood_is_noted(self):
        tree = good_fit().tree.copy()
        tree.attrs["preset"] = PRESETS["bayes"].override(null_target_weight=2.0).model_dump_json()
        assert fit_summary(Fit(tree))["weighted"] is True
        assert "NOTE questions are weighted unequally" in " ".join(shown(summary_table(Fit(tree), "t")).split())

    def test_parameters_by_level_and_shared(self, fit):
        rows = cells(shown(parameter_tables(fit)))
        table = fit.parameters()
        of_level = table.dropna(subset="level").set_index(["parameter", "level"])
        assert rows["level"] == ["weight", "bias", "share"]
        for level in fit.level_names:
            weight, bias = of_level.loc[("weight", level)], of_level.loc[("bias", level), "mean"]
            assert rows[level] == [f"{weight['mean']:.4f}", f"{bias:.4f}", f"{weight['relative']:.3f}"]
        shared = table.set_index("parameter").loc["null_base"]
        assert rows["null_base"] == [f"{shared['mean']:.4f}", f"{shared['relative']:.4f}"]
        assert rows["recalibration_slope"][1] == DASH
        names = [f"[b]a-model-of-somebody-70b-instruct[/b]/prompt-{number}" for number in range(5)]
        renamed = Fit(
            fit.tree.map_over_datasets(lambda part: part.assign_coords(level=names) if "level" in part else part)
        )
        text = shown(parameter_tables(renamed))
        assert "…" not in text
        assert all(name in text for name in names)
