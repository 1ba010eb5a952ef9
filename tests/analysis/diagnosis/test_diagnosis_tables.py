"""The diagnosis as it is printed: all of it, within 80 columns."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

from analysis.diagnosis.diagnosis_tables import diagnosis_tables
from analysis.diagnosis.diagnostics import Diagnosis, diagnose
from bayes_direag.model.presets import preset as named_preset
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import gaussian_draws, good_fit, made_posterior, replaced, with_level_names

DASH = "\N{EN DASH}"


def printed(diagnosis: Diagnosis, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO(), markup=False, emoji=False, highlight=False)
    console.print(diagnosis_tables(diagnosis, "fit.nc: 120 questions"))
    return console.file.getvalue()


@pytest.fixture(scope="module")
def good() -> Diagnosis:
    return diagnose(good_fit())


class TestPrinted:
    def test_nothing_is_wider_than_the_terminal(self, good):
        assert max(len(line.rstrip()) for line in printed(good).splitlines()) <= 80

    def test_every_parameter_has_a_row_with_its_figures(self, good):
        text = printed(good)
        for row in good.parameters.to_dict("records"):
            label = row["parameter"] if row["level"] != row["level"] else f"{row['parameter']}[{row['level']}]"
            (line,) = re.findall(rf"^{re.escape(label)} +\d.*", text, flags=re.MULTILINE)
            assert line.split()[1:] == [
                f"{row['rhat']:.3f}",
                f"{row['ess_bulk']:.0f}",
                f"{row['ess_tail']:.0f}",
                f"{row['mcse_relative']:.3f}",
                f"{row['contraction']:.2f}",
                f"{row['z_score']:+.1f}",
            ]

    def test_the_checks_by_pattern_have_both_statistics(self, good):
        table = good.predictive.table
        overall = table[table["pattern"] == "all"].to_dict("records")
        (line,) = [line for line in printed(good).splitlines() if line.startswith("all ")]
        two = [re.sub(r"^0", "", f"{row['observed']:.2f}") for row in overall]
        assert line.split()[:3] == ["all", "120", two[0]]
        assert line.split()[5] == two[1]

    def test_intervals_state_their_level(self, good):
        text = printed(good)
        assert "With 90% intervals" in text
        assert "With 90% Wilson intervals" in text

    def test_the_verdict_comes_last_and_says_what_is_to_be_believed(self, good):
        lines = printed(good).rstrip().splitlines()
        assert "Verdict" in lines
        assert " ".join(line.strip() for line in lines[-2:]).startswith("Believable: yes")
        marks = [line.split()[0] for line in lines[lines.index("Verdict") + 1 : -3] if re.match(r"\w", line)]
        assert marks == ["ok"] * len(good.verdict)

    def test_a_level_named_like_markup_is_printed_as_it_is(self):
        observations = simulate_observations(30, seed=1)
        names = ["[red]one", "two", "[/]", "a level with a very long name indeed, longer than most", "$5$"]
        fit = made_posterior(observations, gaussian_draws(1, n_draws=50))
        text = printed(diagnose(with_level_names(fit, names)))
        assert "weight[[red]one]" in text
        assert "weight[[/]]" in text
        assert max(len(line.rstrip()) for line in text.splitlines()) <= 80


class TestFaults:
    def test_failures_are_marked(self):
        raw = gaussian_draws(2, spread=0.1)
        raw["slope"][0, 3] = np.nan
        diverging = np.ones((4, 250), bool)
        observations = simulate_observations(40, seed=2)
        found = diagnose(made_posterior(observations, raw, statistics={"diverging": diverging}))
        text = printed(found)
        assert re.search(rf"^slope( +{DASH}){{6}}", text, flags=re.MULTILINE)
        assert "FAILS  1000 of 1000 draws diverged" in text
        assert "Believable: NO." in text

    def test_a_weighted_likelihood_is_flagged_on_top(self):
        settings = named_preset("bayes").override(null_target_weight=2.0)
        found = diagnose(made_posterior(simulate_observations(40, seed=2), gaussian_draws(2), preset=settings))
        assert printed(found).startswith("The preset weighs questions unequally")

    def test_questions_are_named(self):
        k = np.full(120, 0.2)
        k[[7, 8]] = 2.5, np.nan
        fit = replaced(good_fit(), "loo", pareto_k=k)
        names = fit.tree["loo"]["problem"].to_numpy()
        text = " ".join(printed(diagnose(fit)).split())
        assert f"Largest: {names[8]} ({DASH}), {names[7]} (2.50)" in text

    def test_without_a_calibration(self):
        settings = named_preset("bayes").override(recalibration={"method": "none"})
        found = diagnose(made_posterior(simulate_observations(40, seed=2), gaussian_draws(2), preset=settings))
        assert "confidence\n" not in printed(found)
