"""Tables as they appear on a terminal of 80 columns."""

import io
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from rich.console import Console, RenderableType

from analysis.display import terminal
from analysis.display.document import Table
from analysis.methods.registry import EVALUATED_METHODS
from analysis.runs.tables import metrics_table, ranking_table, reliability_table
from analysis.scores.scoring import METRIC_NAMES
from bayes_direag.commands.show import fit_summary, parameter_tables, quality_table, summary_table
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question, Status
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import PRESETS
from tests.analysis.fits import good_fit
from tests.analysis.report.runs import small_fit, small_observations

DASH = "\N{EN DASH}"
COLUMNS = ("ECE", "smECE", "Brier", "NLL", "AUROC", "PR-P", "PR-N")


def shown(table: RenderableType | Table, *, width: int = 80, styled: bool = False) -> str:
    console = Console(
        file=io.StringIO(), width=width, force_terminal=styled, color_system="standard" if styled else None
    )
    console.print(terminal.shown([table]) if isinstance(table, Table) else table)
    text = console.file.getvalue()
    assert isinstance(text, str)
    return text.replace("\N{MINUS SIGN}", "-")


def bold(line: str) -> list[str]:
    return [text.strip("* ") for text in re.findall(r"\x1b\[1m(.*?)\x1b\[0m", line)]


def cells(text: str) -> dict[str, list[str]]:
    """Return the words of each line by its first one, without the stars of the best."""
    lines = text.replace("*", " ").splitlines()
    return {words[0]: words[1:] for words in map(str.split, lines) if words}


METHODS, N = EVALUATED_METHODS, len(EVALUATED_METHODS)


def metrics(**columns: list[float]) -> pd.DataFrame:
    """Return metrics of all methods as given, 0.5 where they are not."""
    frame = {
        "method": list(METHODS),
        "n": [1000] * N,
        "unanswered": [0] * N,
    }
    for name in METRIC_NAMES:
        frame |= {
            name: [0.5] * N,
            f"{name}_low": [0.4] * N,
            f"{name}_high": [0.6] * N,
        }
    return pd.DataFrame(frame | columns)


def spread(first: float, step: float = 0.001) -> list[float]:
    return [first + step * position for position in range(N)]


@pytest.fixture(scope="module")
def fit() -> Fit:
    return small_fit()


class TestMetrics:
    @pytest.fixture
    def wide(self) -> pd.DataFrame:
        """The widest content to be expected: four-digit counts, an NLL above 1, a perfect method, a harmful one."""
        perfect = [1.0] * N
        columns = {"auroc": perfect, "pr_positive": perfect, "pr_negative": perfect, "log_score": spread(2.5)}
        columns |= {"benefit": spread(-0.101, -0.001), "benefit_low": [-0.5] * N}
        return metrics(n=[9999] * N, unanswered=[1234] * N, nll=spread(1.234), **columns)

    def test_nothing_is_cut_off_at_80_columns(self, wide):
        ranked, own = shown(ranking_table(wide, "a title", 0.95)), shown(metrics_table(wide))
        for text in (ranked, own):
            assert "…" not in text
            assert max(map(len, text.splitlines())) <= 80
        for position, method in enumerate(METHODS):
            benefit, log = f"-.{101 + position}", f"{2.5 + position / 1000:.3f}"
            assert cells(ranked)[method] == ["9999", "1234", benefit, "[-.500,", ".600]", ".500", log]
            expected = [".500", ".500", ".500", f"{1.234 + position / 1000:.3f}", "1.000", "1.000", "1.000"]
            assert cells(own)[method] == expected
        header, arrows = (line.split() for line in own.splitlines()[1:3])
        assert tuple(header) == COLUMNS
        assert arrows == ["method", "↓", "↓", "↓", "↓", "↑", "↑", "↑"]
        assert "10 bins" in own

    def test_the_best_by_benefit_comes_first(self):
        place = np.random.default_rng(0).permutation(N)
        found = metrics(benefit=(0.5 - 0.001 * place).tolist())
        for table in (ranking_table(found, "t", 0.95), metrics_table(found)):
            order = [
                line.split()[0] for line in shown(table).splitlines() if line.split()[:1] and line.split()[0] in METHODS
            ]
            assert order == [METHODS[k] for k in np.argsort(place)]

    def test_the_unanswered_are_a_column_only_where_there_are_any(self, wide):
        assert "none: questions without an answer" in " ".join(shown(ranking_table(wide, "t", 0.95)).split())
        text = shown(ranking_table(metrics(), "[red]a/b[/red] :+1:", 0.95))
        assert text.startswith("[red]a/b[/red] :+1:\n")
        assert "none" not in text
        assert cells(text)["direag"] == ["1000", ".500", "[.400,", ".600]", ".500", ".500"]

    def test_the_best_of_each_column_is_starred_and_bold(self):
        found = metrics(accuracy_of_all=spread(0.5), log_score=spread(0.2), nll=spread(1.2), ece=spread(0.1)[::-1])
        ranked, own = (
            {line.split()[0]: bold(line) for line in shown(table, styled=True).splitlines() if line.split()[:1]}
            for table in (ranking_table(found, "t", 0.95), metrics_table(found))
        )
        last, tied = METHODS[-1], [".500"] * 5  # all are equal in smECE, Brier, AUROC, PR-P and PR-N
        assert ranked["vanilla"] == [".500", ".200"]
        assert "1.200*" in shown(metrics_table(found))
        assert ranked[last] == [".500", f".{500 + N - 1}"]
        assert own["vanilla"] == [*tied[:2], "1.200", *tied[2:]]
        assert own[last] == [".100", *tied]
        assert own["majority"] == tied

    def test_methods_that_look_equal_are_both_best(self):
        found = metrics(nll=[1.0, 0.70001, 0.70049, 0.7006, *[2.0] * (N - 4)])
        lines = shown(metrics_table(found), styled=True).splitlines()
        marked = [line.split()[0] for line in lines if ".700" in bold(line)]
        assert marked == [METHODS[1], METHODS[2]]

    def test_undefined_is_a_dash_and_never_best(self):
        undefined = [np.nan] * N
        found = metrics(auroc=undefined, log_score=undefined, ece=[np.nan, *spread(0.1)[1:]])
        assert DASH not in "".join(bold(shown(metrics_table(found), styled=True)))
        rows = cells(shown(metrics_table(found)))
        assert rows["vanilla"][0] == DASH
        assert all(rows[method][4] == DASH for method in METHODS)
        ranked = cells(shown(ranking_table(found, "t", 0.95)))
        assert all(ranked[method][-1] == DASH for method in METHODS)


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


def predictions(confidence: list[float | None], correct: list[bool | None], method: str = "direag") -> pd.DataFrame:
    return pd.DataFrame(
        {
            "method": pd.Series([method] * len(confidence), dtype="str"),
            "confidence": np.array(confidence, float),
            "correct": pd.Series(correct, dtype="boolean"),
        }
    )


class TestReliability:
    def test_a_bin_holds_its_upper_edge(self):
        said = [0.0, 0.1, 0.11, 0.95, 0.95, 1.0]
        rows = cells(shown(reliability_table(predictions(said, [True, False, True, True, False, True]), "direag")))
        assert {name: words[:3] for name, words in rows.items() if re.match(r"\d\.\d-", name)} == {
            "0.0-0.1": ["2", "0.050", "0.500"],
            "0.1-0.2": ["1", "0.110", "1.000"],
            "0.9-1.0": ["3", "0.967", "0.667"],
        }

    def test_bars_are_as_long_as_the_shares_and_begin_at_one_place(self):
        text = shown(reliability_table(predictions([0.75] * 4, [True, True, False, False]), "direag"))
        bars = [line for line in text.split("calibrated")[0].splitlines() if re.search("[▒█]{2}", line)]
        assert len({re.search("[▒█]", line).start() for line in bars}) == 1
        assert re.findall("[▒]+", text.split("calibrated")[0])[0] == "▒" * 30
        assert "█" * 20 in text
        assert "█" * 21 not in text

    def test_only_this_method_and_only_what_can_be_scored(self):
        table = pd.concat(
            [predictions([0.95, None, 0.95], [True, False, None]), predictions([0.95], [False], method="majority")]
        )
        assert cells(shown(reliability_table(table, "direag")))["0.9-1.0"][:3] == ["1", "0.950", "1.000"]
