"""The whole diagnosis of a good fit and of spoilt ones: its verdict, its record, its tables and its pictures."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import _pylab_helpers
from matplotlib.figure import Figure

from analysis.diagnosis.diagnostics import DIAGNOSIS_FOLDER, Diagnosis, diagnose
from analysis.display.document import Picture
from analysis.display.folders import jsonable
from analysis.display.style import save_figure
from analysis.display.text import number
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.convergence import sampler_summary
from bayes_direag.model import presets
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.figure_checks import said
from tests.analysis.fits import (
    CENTRE,
    gaussian_draws,
    good_fit,
    made_fit,
    made_posterior,
    natural,
    replaced,
    with_level_names,
)

OBSERVATIONS = simulate_observations(120, seed=3)
DASH = "\N{EN DASH}"
LEVELS = ["[red]one", "$x_1$ 50% sure", "[/]", "a level with a very long name indeed, longer than most", "\\alpha_^"]


@pytest.fixture(scope="module")
def good() -> Diagnosis:
    return diagnose(good_fit())


@pytest.fixture(scope="module")
def spoilt() -> Diagnosis:
    """A draw that is no number, a chain that stands still, divergences, a stuck energy, large k, names like markup."""
    raw = gaussian_draws(8, spread=0.1)
    raw["null_gain"] = raw["null_base"] - 1.4
    raw["slope"][0, 5] = np.nan
    raw["bias"][1] = raw["bias"][1, 0]
    diverging, energy = np.zeros((4, 250), bool), np.random.default_rng(0).standard_normal((4, 250))
    diverging[3, [5, 9]], energy[2], energy[0, 3] = True, 7.0, np.inf
    fit = made_posterior(OBSERVATIONS, raw, statistics={"diverging": diverging, "energy": energy})
    k = np.full(120, 0.2)
    k[[3, 40, 41]] = 0.8, 1.3, np.nan
    return diagnose(with_level_names(replaced(fit, "loo", pareto_k=k), LEVELS))


@pytest.fixture(scope="module")
def weighted() -> Diagnosis:
    """Unequal weights, no calibration, a fixed slope, a parameter that nothing was learned of, and one far out."""
    settings = presets.preset("bayes").override(
        recalibration={"method": "none"}, slope={"fixed": 1.6}, null_target_weight=2.0
    )
    raw = gaussian_draws(8, spread=0.05)
    del raw["slope"]
    raw["null_base"] = 2 * np.random.default_rng(1).standard_normal((4, 250))
    raw["bias_centre"] -= 6
    return diagnose(made_posterior(OBSERVATIONS, raw, preset=settings))


def texts(diagnosis: Diagnosis) -> dict[str, str]:
    """Return what is found by status and topic; of several of one topic the last."""
    return {f"{finding.status}: {finding.topic}": finding.text for finding in diagnosis.verdict}


@pytest.fixture(scope="module")
def pictures(good: Diagnosis) -> dict[str, Figure]:
    return drawn(good)


@pytest.fixture(scope="module")
def spoilt_pictures(spoilt: Diagnosis) -> dict[str, Figure]:
    return drawn(spoilt)


def drawn(diagnosis: Diagnosis) -> dict[str, Figure]:
    return {picture.name: picture.figure for picture in diagnosis.pictures() if isinstance(picture, Picture)}


class TestVerdict:
    def test_of_a_good_fit(self, good):
        assert good.believable
        assert {finding.topic for finding in good.verdict if finding.status != "fine"} == {"calibration"}
        found = texts(good)
        assert found["fine: sampling"] == f"Converged: {good.summary}."
        assert "no Pareto k of 120 exceeds 0.7" in found["fine: leave-one-out"]
        assert [finding.text.partition(":")[0] for finding in good.verdict if finding.topic == "calibration"] == [
            "Too few answers to judge the support",
            "Too few answers to judge the confidence",
        ]
        terms = [f"recalibration_{name}" for name in ("intercept", "slope")]
        assert good.parameters["parameter"].tolist()[-3:] == ["vote_agreement", *terms]
        assert set(good.parameters["parameter"][:-2]) == set(CENTRE)
        assert good.parameters.notna().drop(columns="level").all().all()

    def test_of_spoilt_draws(self, spoilt):
        assert not spoilt.believable
        found = texts(spoilt)
        assert "R-hat of slope is undefined" in found["failure: R-hat"]
        assert "--warmup 1000 --draws 1000" in found["failure: R-hat"]
        assert "--preset" not in found["failure: R-hat"], "levels are pooled already"
        assert "undefined number of slope" in found["failure: draws"]
        assert found["failure: divergences"].startswith("2 of 1000 draws diverged (none expected)")
        assert "--target-accept 0.99" in found["failure: divergences"]
        assert "in chain 0, 2:" in found["failure: energy"]
        assert {"warning: flat direction", "warning: calibration"} <= set(found)
        names = spoilt.fit.left_out["problem"].to_numpy()
        start = (
            f"Pareto k exceeds 0.7 for 3 of 120 questions (1 of them undefined), first of all {names[41]}, {names[40]}"
        )
        assert found["warning: leave-one-out"].startswith(start)
        assert found["failure: sampling"].startswith("NOT converged: R-hat at most nan")

    def test_of_a_weighted_likelihood_and_of_what_the_labels_taught(self, weighted):
        assert weighted.is_weighted
        assert weighted.believable
        assert weighted.verdict[0].topic == "likelihood"
        assert not {"predictive", "calibration", "leave-one-out"} & {finding.topic for finding in weighted.verdict}
        assert set(weighted.parameters["parameter"]) == set(CENTRE) - {"slope"}
        assert list(weighted.calibration) == ["support"]
        found = texts(weighted)
        assert "next to nothing about null_base (contraction below 0.1)" in found["warning: learning"]
        far = "The posterior of bias_centre lies more than 3 prior standard deviations"
        assert found["warning: prior"].startswith(far)
        flat = next(text for name, text in found.items() if name.endswith("flat direction"))
        assert flat.startswith("The labels constrain least: null_base up. There 97% of the prior's variance is left")

    def test_of_a_single_chain_without_the_statistics_of_a_sampler(self):
        unknown = dict.fromkeys(("diverging", "energy", "tree_depth", "acceptance_rate"), np.full((1, 1000), np.nan))
        fit = made_posterior(OBSERVATIONS, gaussian_draws(8, spread=0.1, n_chains=1, n_draws=1000), statistics=unknown)
        fit.tree.attrs["sampling"] = '{"n_chains": 1, "n_warmup": 0, "n_draws": 1000, "target_accept": 0.9}'
        found = diagnose(fit)
        assert not found.believable
        assert "--warmup 1000" in texts(found)["failure: R-hat"]
        assert "is not recorded" in texts(found)["failure: divergences"]
        assert "BFMI is undefined" in texts(found)["failure: energy"]
        assert np.isnan(sampler_summary(fit).divergences)
        assert "R-hat undefined" in said(drawn(found)["chains"])

    def test_of_labels_that_the_model_does_not_explain_and_several_right_answers(self):
        fit = good_fit()
        right = np.random.default_rng(0).permutation(fit.tree["labels"]["correct"].to_numpy())
        several = (fit.tree["constant_data"]["n_candidates"].to_numpy() > 2) & right.any(axis=1)
        right[several, :2] = True
        selected = right[np.arange(120), fit.left_out["candidate"].to_numpy()]
        found = diagnose(replaced(replaced(fit, "labels", correct=right), "loo", correct=selected))
        assert found.believable, "bad predictions are no fault of the sampling"
        assert "The labels are not as the model predicts them" in texts(found)["warning: predictive"]
        support, confidence = (finding.text for finding in found.verdict if finding.topic == "calibration")
        assert "use confidence" in support
        assert "direag evaluate" in confidence
        assert found.n_several_correct == (right.sum(axis=1) > 1).sum() >= several.sum() > 5
        assert f"In {found.n_several_correct} questions several answers are right" in support


class TestArguments:
    def test_the_interval_level_and_the_seed(self, good):
        narrow = diagnose(good_fit(), interval_level=0.5)
        widths = [(one.predictive.table["high"] - one.predictive.table["low"]).mean() for one in (good, narrow)]
        assert widths[0] > 1.8 * widths[1]
        supports = [one.calibration["support"] for one in (good, narrow)]
        assert (supports[0].reliability.bins["right_high"] > supports[1].reliability.bins["right_high"]).any()
        assert supports[0].calibration == supports[1].calibration

    @pytest.mark.parametrize("level", [0.0, 1.0, 90.0])
    def test_a_level_out_of_range(self, level):
        with pytest.raises(DirEAGError, match="expected a probability between 0 and 1"):
            diagnose(good_fit(), interval_level=level)

    def test_what_cannot_be_diagnosed(self):
        with pytest.raises(DirEAGError, match=r"a MAP, a single draw, .*; expected a NUTS fit\. .*--method nuts"):
            diagnose(made_fit(OBSERVATIONS, natural(5)))


class TestRecord:
    def test_it_holds_everything(self, good):
        record = jsonable(good.record)
        assert record["believable"] is True
        assert [row["text"] for row in record["verdict"]] == [finding.text for finding in good.verdict]
        assert len(record["parameters"]) == 29
        assert (record["parameters"][0]["level"], record["parameters"][-1]["level"]) == ("very_cautious", None)
        assert record["parameters"][3]["rhat"] == good.parameters["rhat"].iloc[3]
        assert record["flat"]["variance_left"] == good.flat.variance_left
        assert len(record["flat"]["loadings"]) == 27
        assert record["predictive"]["tail_probability"] == good.predictive.tail_probability
        assert record["calibration"]["support"]["reliability"]["n"] == record["loo"]["n"] == 120
        assert record["sampling"]["n_draws"] == 250
        assert record["fit"]["preset"]["name"] == "bayes"
        assert (record["interval_level"], record["seed"]) == (0.9, 0)

    def test_what_is_undefined_is_null(self, spoilt):
        record = jsonable(spoilt.record)
        (slope,) = [row for row in record["parameters"] if row["parameter"] == "slope"]
        assert (slope["rhat"], record["flat"]["variance_left"], record["believable"]) == (None, None, False)


class TestBlocks:
    def test_of_a_good_fit(self, good):
        title, verdict, parameters, chains, sensitivity = good.blocks()
        assert title.text.startswith("Believable: yes")
        assert [text for _, text in verdict.items] == [finding.text for finding in good.verdict]
        for row, (label, *cells) in zip(good.parameters.to_dict("records"), parameters.rows, strict=True):
            assert label.text == (
                row["parameter"] if row["level"] != row["level"] else f"{row['parameter']}[{row['level']}]"
            )
            ess = [f"{row['ess_bulk']:.0f}", f"{row['ess_tail']:.0f}"]
            learned = [f"{row['contraction']:.2f}", number(row["z_score"], 1, signed=True)]
            assert [cell.text for cell in cells] == [
                f"{row['rhat']:.3f}",
                *ess,
                f"{row['mcse_relative']:.3f}",
                *learned,
            ]
        assert [row[4].text for row in chains.rows] == [f"{bfmi:.2f}" for bfmi in good.chains["bfmi"]]
        assert [row[0].text for row in sensitivity.rows] == good.sensitivity["quantity"].tolist()

    def test_the_first_screen_has_what_is_found_and_the_worst_parameters(self, spoilt):
        title, verdict, table = spoilt.blocks(everything=False)
        assert title.text.startswith("Believable: NO.")
        found = [finding.text for finding in spoilt.verdict if finding.status != "fine"]
        assert [text for status, text in verdict.items if status != "fine"] == found
        assert [status for status, _ in verdict.items].count("fine") == 1
        assert [cell.text for cell in table.rows[0]] == ["slope", *[DASH] * 6]  # its R-hat is undefined
        assert [cell.marks for cell in table.rows[0]][1:4] == [("failure",)] * 3
        assert len(table.rows) == 5


class TestPictures:
    @pytest.mark.parametrize("name", DIAGNOSIS_FOLDER.figures)
    def test_it_speaks_for_itself_and_leaves_no_trace(self, name, pictures, spoilt_pictures, tmp_path):
        before, figure = dict(mpl.rcParams), pictures[name]
        save_figure(spoilt_pictures[name], tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 5000
        assert dict(mpl.rcParams) == before
        assert _pylab_helpers.Gcf.figs == {}
        shown = said(figure)
        assert any(number in shown for number in ("120", "250", "1000")), "no n in the picture"
        assert figure.get_suptitle()
        assert [axes for axes in figure.axes if axes.get_xlabel()]

    def test_the_worst_parameters_are_shown(self, good, pictures):
        worst = good.parameters.iloc[:-2][["ess_bulk", "ess_tail"]].min(axis=1).idxmin()
        row = good.parameters.iloc[worst]
        shown = f"R-hat {row['rhat']:.3f}, {min(row['ess_bulk'], row['ess_tail']):.0f} effective"
        assert shown in said(pictures["chains"])
        for line in pictures["chains"].axes[1].get_lines()[:4]:
            assert np.abs(line.get_ydata()).max() < 0.2, "less the uniform one"
            assert line.get_ydata()[-1] == 0

    def test_the_predictive_picture_shows_the_table(self, good, pictures):
        table = good.predictive.table
        for axes, statistic in zip(pictures["predictive"].axes, ("accuracy", "null"), strict=True):
            rows = table[table["statistic"] == statistic]
            shown = np.concatenate([line.get_xdata() for line in axes.get_lines()[1:]])
            assert sorted(shown) == pytest.approx(sorted(rows["observed"]))
            ends = np.array([segment[:, 0] for segment in axes.collections[0].get_segments()])
            np.testing.assert_allclose(ends, rows[["low", "high"]].to_numpy())

    def test_questions_of_large_pareto_k_are_named(self, spoilt, spoilt_pictures):
        names, shown = spoilt.fit.left_out["problem"].to_numpy(), said(spoilt_pictures["pareto"])
        assert [names[number] in shown for number in (3, 40, 6)] == [True, True, False]
        assert "2 above 0.7, 1 undefined and not shown" in shown
