"""A pooled fit: what it holds, what it predicts, how it is saved, chosen from, shown and refused."""

import json
from collections.abc import Callable
from pathlib import Path

import arviz_stats
import jax
import numpy as np
import pandas as pd
import pytest
from numpyro.infer import Predictive
from scipy import stats

from bayes_direag.commands.multi_setting import chosen_fit, named_settings
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError, FitFileError
from bayes_direag.fits import multi_setting as pooled_fit
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_nuts
from bayes_direag.fits.multi_setting import MultiSettingFit, fit_multi_setting, is_multi_setting, levels_apart
from bayes_direag.inference import multi_setting as pooled_settings
from bayes_direag.inference.posterior import parameter_draws
from bayes_direag.model.multi_setting import BETWEEN
from bayes_direag.model.presets import preset
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import LEVEL_NAMES, simulate_observations
from tests.bayes_direag import brute_force
from tests.command_line import direag, refuse

pytestmark = pytest.mark.slow

NATURAL = preset("bayes").parameters("confidence")
APART = levels_apart(preset("bayes"))
SAMPLING = SamplingSettings(n_chains=2, n_warmup=1, n_draws=100)


def asked(n: int, seed: int, dataset: str, *, first: int = 0, gold: bool = True) -> Observations:
    """Simulated questions of a data set, from some level on, with or without gold answers."""
    changes = {"dataset": dataset, "model": "m"} | ({} if gold else {"gold_answer": None})
    questions = [
        q.model_copy(update=changes | {"observations": q.observations[first:]})
        for q in simulate_observations(n, seed=seed).questions
    ]
    return Observations.from_questions(questions, answers="numeric")


WORLDS = {"m, a": asked(60, 1, "a"), "m, b": asked(40, 2, "b", first=2), "m, blank": asked(5, 3, "blank", gold=False)}
FRESH = asked(30, 7, "c")


def test_levels_apart_lie_where_they_did() -> None:
    """By draws from both priors: about the mean and spread that a level had among its neighbours."""
    rng, bayes = np.random.default_rng(0), preset("bayes")
    apart = levels_apart(bayes)
    assert not any(name.endswith(("_centre", "_spread")) for name in apart.free_parameters("confidence"))
    for name in ("weight", "bias"):
        centre, spread = getattr(bayes, name), getattr(bayes, f"{name}_spread")
        drawn = rng.normal(centre.loc, centre.scale, 100_000)
        drawn += np.exp(rng.normal(spread.loc, spread.scale, 100_000)) * rng.normal(size=100_000)
        prior = apart.parameter(name)
        assert abs(drawn.mean() - prior.loc) < 0.05
        np.testing.assert_allclose(np.quantile(np.abs(drawn - prior.loc), 0.68), prior.scale, rtol=0.05)
    assert levels_apart(apart) == apart
    assert levels_apart(preset("paper")) == preset("paper")


def from_the_prior(
    model: Callable[..., None], sampling: SamplingSettings, seed: int, progress: bool, *data: object
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Draw from the prior in the place of NUTS, which takes its time to compile and has tests of its own."""
    assert not progress
    shape = (sampling.n_chains, sampling.n_draws)
    found = Predictive(model, num_samples=shape[0] * shape[1])(jax.random.key(seed), *data)
    sites = {
        name: np.asarray(v).reshape(*shape, *v.shape[1:]) for name, v in found.items() if name.endswith(("_tau", "_z"))
    }
    names = ("lp", "energy", "diverging", "n_steps", "tree_depth", "acceptance_rate", "step_size")
    return sites, {name: np.zeros(shape) for name in names}


@pytest.fixture(scope="module")
def pooled() -> MultiSettingFit:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooled_settings, "_nuts", from_the_prior)
        return fit_multi_setting(WORLDS, sampling=SAMPLING, seed=1)


@pytest.fixture(scope="module")
def saved(pooled: MultiSettingFit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pooled") / "pooled.nc"
    pooled.save(path)
    return path


@pytest.fixture
def read(pooled: MultiSettingFit, saved: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file, whose reading has tests of its own and here takes no time."""
    monkeypatch.setattr(MultiSettingFit, "load", lambda path: pooled if path == saved else pytest.fail(f"read {path}"))
    return saved


class TestFit:
    def test_every_setting_is_a_fit_with_its_own_levels_and_questions(self, pooled: MultiSettingFit) -> None:
        assert list(pooled.settings) == list(WORLDS)
        a, b, blank = pooled.settings.values()
        assert (a.n_questions, b.n_questions, blank.n_questions, pooled.new.n_questions) == (60, 40, 0, 0)
        assert a.level_names == pooled.new.level_names == LEVEL_NAMES
        assert b.level_names == tuple(name for name in LEVEL_NAMES if name in WORLDS["m, b"].level_names)
        for fit in (a, b):
            assert {"posterior", "prior", "posterior_predictive", "loo", "recalibration"} <= set(fit.tree.children)
            assert fit.n_samples == 200
        assert "loo" not in blank.tree.children

    def test_the_levels_of_a_setting_are_put_at_their_places(self, pooled: MultiSettingFit) -> None:
        """The stored log-likelihood of each question is that of the stored parameters, by plain Python."""
        for name in ("m, a", "m, b"):
            fit, seen = pooled.settings[name], WORLDS[name]
            draw = parameter_draws(fit.tree).isel(chain=1, draw=37)
            parameters = {own: draw[own].to_numpy() for own in NATURAL}
            reached = fit.tree["log_likelihood"]["target"].to_numpy()[1, 37]
            for question in range(len(seen)):
                scores = brute_force.scores(brute_force.reports_of(seen, question), parameters, 0.005)
                pairs = zip(seen.candidates[question], seen.correct_candidate[question], strict=False)
                right = sum(scores[a] for a, good in pairs if good) or scores[brute_force.NULL]
                np.testing.assert_allclose(reached[question], np.log(right / sum(scores.values())), rtol=1e-9)

    def test_a_new_setting_is_a_draw_from_the_hierarchy(self, pooled: MultiSettingFit) -> None:
        shared, new = pooled.hierarchy["posterior"].to_dataset(), parameter_draws(pooled.new.tree)
        for name in ("bias", "weight"):
            unit = (new[f"{name}_raw"] - shared[f"{name}_centre"]) / shared[f"{name}_spread"]
            assert unit.shape == (2, 100, 5)
            assert stats.kstest(unit.to_numpy().ravel(), "norm").pvalue > 1e-4


class TestFile:
    def test_a_round_trip(self, pooled: MultiSettingFit, saved: Path) -> None:
        again = MultiSettingFit.load(saved)
        assert list(again.settings) == list(WORLDS)
        for name in (*WORLDS, "new"):
            seen = FRESH if name != "m, b" else WORLDS["m, b"]
            pd.testing.assert_frame_equal(pooled.setting(name).predict(seen), again.setting(name).predict(seen))
        assert again.hierarchy["posterior"].to_dataset().equals(pooled.hierarchy["posterior"].to_dataset())
        assert is_multi_setting(saved)

    def test_what_is_no_pooled_fit(self, tmp_path: Path) -> None:
        (tmp_path / "text.nc").write_text("no")
        assert not is_multi_setting(tmp_path / "text.nc")
        with pytest.raises(FitFileError, match=r"text.nc: not a fit that this version can read.*expected a pooled fit"):
            MultiSettingFit.load(tmp_path / "text.nc")
        with pytest.raises(
            FitFileError, match=r"no such file; expected a pooled fit, written by `direag fit A B --pool"
        ):
            MultiSettingFit.load(tmp_path / "none.nc")

    def test_as_one_fit_it_is_refused(self, saved: Path) -> None:
        with pytest.raises(FitFileError, match=r"saw a fit of several settings; expected that of one\. Take it out"):
            Fit.load(saved)


class TestChoice:
    @pytest.mark.parametrize(
        ("dataset", "taken"), [("a", "m, a"), ("b", "m, b"), ("blank", "m, blank"), ("c", "new"), ("", "new")]
    )
    def test_the_setting_of_the_model_and_dataset_else_new(
        self, pooled: MultiSettingFit, dataset: str, taken: str
    ) -> None:
        assert pooled.setting_of({("m", dataset)}) == taken
        assert pooled.setting_of({("m", dataset), ("m", "other")}) == "new"

    @pytest.mark.parametrize(("dataset", "suffix"), [("b", "jsonl"), ("b", "parquet"), ("c", "parquet")])
    def test_a_file_says_which(self, read: Path, tmp_path: Path, dataset: str, suffix: str) -> None:
        path = tmp_path / f"obs.{suffix}"
        asked(6, 9, dataset, first=2).write(path)
        fit, taken = chosen_fit(read, path, None)
        assert taken == ("m, b" if dataset == "b" else "new")
        assert len(fit.level_names) == (3 if dataset == "b" else 5)

    def test_predict_and_export_say_which(self, pooled: MultiSettingFit, read: Path, tmp_path: Path) -> None:
        questions = asked(6, 9, "b", first=2)
        questions.write(tmp_path / "obs.parquet")
        done = direag("predict", read, tmp_path / "obs.parquet", "--out", tmp_path / "out.jsonl", "--json")
        assert json.loads(done.stdout)["setting"] == "m, b"
        found = pd.read_json(tmp_path / "out.jsonl", lines=True)["confidence"].astype(float)
        np.testing.assert_allclose(found, pooled.settings["m, b"].predict(questions)["confidence"], rtol=1e-9)
        options = ["--out", tmp_path / "out.csv", "--setting", "m, a"]
        assert "Setting: m, a." in direag("predict", read, tmp_path / "obs.parquet", *options).stdout
        direag("export", read, "--out", tmp_path / "own.json", "--setting", "m, a")
        pooled.settings["m, a"].export(tmp_path / "expected.json")
        assert (tmp_path / "own.json").read_text() == (tmp_path / "expected.json").read_text()

    def test_what_cannot_be_chosen(self, pooled: MultiSettingFit, read: Path, tmp_path: Path) -> None:
        FRESH.write(tmp_path / "obs.jsonl")
        options = [tmp_path / "obs.jsonl", "--out", tmp_path / "out.csv", "--setting", "d"]
        line = refuse("predict", read, *options)
        assert "setting 'd': there is none of that name; expected 'm, a', 'm, b', 'm, blank' or 'new'" in line
        pooled.settings["m, a"].save(tmp_path / "own.nc")
        assert "is not a pooled fit; expected one" in refuse("predict", tmp_path / "own.nc", *options)
        twins = MultiSettingFit(
            {"x": pooled.settings["m, a"], "y": pooled.settings["m, a"]}, pooled.new, pooled.hierarchy
        )
        with pytest.raises(DirEAGError, match=r"saw 2 settings of the questions' model and dataset, 'x', 'y'"):
            twins.setting_of({("m", "a")})
        assert twins.setting_of({("", "")}) == "new"


class TestCommands:
    def test_fit_names_the_settings_and_saves(
        self, pooled: MultiSettingFit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given = {}

        def instead(settings: dict[str, Observations], **options: object) -> MultiSettingFit:
            given.update(options, settings=settings)
            return pooled

        monkeypatch.setattr(pooled_fit, "fit_multi_setting", instead)
        paths = [tmp_path / f"{number}.jsonl" for number in range(3)]
        for path, world in zip(paths, WORLDS.values(), strict=True):
            world.write(path)
        options = ["--out", tmp_path / "out.nc", "--pool", "--answers", "numeric", "--seed", 4, "--set", "eps=0.01"]
        done = direag("fit", *paths, *options, "--variant", "level", "--chains", 3, "--draws", 30)
        assert done.exit_code == 0, done.output
        assert list(given["settings"]) == list(WORLDS)
        assert [len(one) for one in given["settings"].values()] == [60, 40, 5]
        assert (given["seed"], given["variant"], given["preset"].eps) == (4, "level", 0.01)
        assert given["preset"].name == "bayes"
        assert (given["sampling"].n_chains, given["sampling"].n_draws) == (3, 30)
        assert is_multi_setting(tmp_path / "out.nc")
        assert "3 settings, numeric answers, 200 draws" in " ".join(done.stdout.split())

    def test_show(self, pooled: MultiSettingFit, read: Path) -> None:
        shown = json.loads(direag("show", read, "--json").stdout)
        assert shown["settings"][1] == {"setting": "m, b", "questions": 40, "levels": 3}
        rows = {(row["parameter"], row["level"]): row for row in shown["hierarchy"]}
        own = pooled.hierarchy["posterior"]["bias_centre"].sel(level="vanilla")
        np.testing.assert_allclose(rows["bias_centre", "vanilla"]["mean"], float(own.mean()))
        np.testing.assert_allclose(rows["bias_centre", "vanilla"]["ess"], float(arviz_stats.ess(own.to_numpy())))
        assert rows["recalibration_slope_spread", None]["sd"] > 0
        text = direag("show", read).stdout
        assert "m, blank" in text
        assert "weight_spread" in text

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ([], "saw 2 observation files; expected one. Add --pool"),
            (["--pool"], "saw 2 settings called 'a'; expected a different model and dataset"),
            (["--pool", "--count-patterns"], "expected neither --count-patterns nor --engine ray"),
            (["--pool", "--engine", "ray"], "expected neither --count-patterns nor --engine ray"),
        ],
    )
    def test_files_that_cannot_be_fitted_together(self, tmp_path: Path, options: list[str], said: str) -> None:
        FRESH.write(tmp_path / "a.jsonl")
        twice = tmp_path / "a.jsonl", tmp_path / "a.jsonl"
        assert said in refuse("fit", *twice, "--out", tmp_path / "out.nc", *options)


def test_settings_are_named_by_model_and_dataset_or_else_by_file() -> None:
    a, b, _ = WORLDS.values()
    files = [(Path("x/one.jsonl"), a), (Path("y/two.jsonl"), b)]
    assert list(named_settings(files)) == ["m, a", "m, b"]
    assert list(named_settings([*files, (Path("three.csv"), asked(2, 1, "a"))])) == ["one", "two", "three"]
    assert list(named_settings([(Path("only.jsonl"), FRESH)])) == ["m, c"]
    nameless = Observations.from_questions([q.model_copy(update={"model": None, "dataset": None}) for q in a.questions])
    assert list(named_settings([(Path("one.jsonl"), nameless)])) == ["one"]


def test_one_setting_alone_is_its_own_preset_reweighted() -> None:
    """The posteriors differ by the ratio of the priors, which quadrature over the spreads gives."""
    observations = simulate_observations(80, seed=5)
    long = SamplingSettings(n_chains=2, n_warmup=500, n_draws=1500)
    alone = parameter_draws(fit_nuts(observations, preset=APART, sampling=long, seed=1).tree)
    pooled = fit_multi_setting({"one": observations}, sampling=long, seed=1)
    assert not pooled.hierarchy["sample_stats"]["diverging"].any()
    found = parameter_draws(pooled.settings["one"].tree)
    node, mass = np.polynomial.legendre.leggauss(60)
    tau = 3 * (node + 1)
    mass = 3 * mass * stats.halfnorm.pdf(tau)
    log_ratio = np.zeros(3000)
    for name in APART.free_parameters("confidence"):
        prior = APART.parameter(name)
        unit = (alone[f"{name}_raw"].to_numpy().reshape(3000, -1) - prior.loc) / prior.scale
        sd = np.sqrt(1 - BETWEEN + BETWEEN * tau**2)
        inside = stats.norm.logpdf(unit[:, :, None], 0, sd).sum(axis=1)
        log_ratio += np.log(np.exp(inside) @ mass) - stats.norm.logpdf(unit).sum(axis=1)
    weight = np.exp(log_ratio - log_ratio.max())
    weight /= weight.sum()
    kept = 1 / (weight**2).sum() / 3000
    assert kept > 0.3
    for name in APART.free_parameters("confidence"):
        theirs, ours = alone[f"{name}_raw"], found[f"{name}_raw"]
        size = arviz_stats.ess(alone)[f"{name}_raw"].to_numpy().ravel() * kept
        own = arviz_stats.ess(found)[f"{name}_raw"].to_numpy().ravel()
        values = theirs.to_numpy().reshape(3000, -1)
        mean = weight @ values
        sd = np.sqrt(weight @ (values - mean) ** 2)
        error = sd * np.sqrt(1 / size + 1 / own)
        assert (abs(ours.to_numpy().reshape(3000, -1).mean(axis=0) - mean) < 4 * error).all(), name
        np.testing.assert_allclose(ours.to_numpy().reshape(3000, -1).std(axis=0), sd, rtol=0.2)


class TestRefusals:
    def test_settings_that_cannot_be_pooled(self) -> None:
        a, _, blank = WORLDS.values()
        with pytest.raises(DirEAGError, match="saw a setting called 'new'; expected another name"):
            fit_multi_setting({"new": a})
        with pytest.raises(DirEAGError, match=r"no question both labelled and answered in 1 settings"):
            fit_multi_setting({"blank": blank})
        text = Observations.from_questions(a.questions, "text")
        with pytest.raises(DirEAGError, match=r"answers of several kinds, numeric in 'a', text in 't'; expected one"):
            fit_multi_setting({"a": a, "t": text})

    @pytest.mark.parametrize(
        ("name", "says"), [("paper", "has a penalty in the place of priors"), ("release", "weighs questions unequally")]
    )
    def test_presets_that_cannot_be_pooled_under(self, name: str, says: str) -> None:
        with pytest.raises(DirEAGError, match=f"preset {name} {says}; expected one that settings can be pooled under"):
            fit_multi_setting(WORLDS, preset=name)
