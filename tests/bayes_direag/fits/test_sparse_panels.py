"""Where most questions lack most levels, columns are reports, and nothing else than the work changes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

from analysis.explanation import explain
from analysis.learned import calibration_curves
from bayes_direag import Fit, LikelihoodData, Observations, fit_map, fit_nuts
from bayes_direag.decisions.policy import Step, policy
from bayes_direag.errors import DirEAGError
from bayes_direag.inference.map import _map_estimates
from bayes_direag.model import likelihood_data
from bayes_direag.model.evidence import belief_and_doubt, draw_states, sums_by_answer
from bayes_direag.model.forward import _probabilities
from bayes_direag.model.models import model_of
from bayes_direag.model.presets import preset
from bayes_direag.model.states import supports
from bayes_direag.model.unconstrained import log_joint, start_and_bounds

_LEVELS, _MOST = 14, 5


def frame(n: int, seed: int, levels: int = _LEVELS) -> pd.DataFrame:
    """Return three to five reports on each question, of levels of different skill, as a table of one row each."""
    rng = np.random.default_rng(seed)
    skill, rows = np.linspace(0.4, 0.9, levels), []
    for number in range(n):
        chosen, gold = rng.choice(levels, rng.integers(3, _MOST + 1), replace=False), int(rng.integers(4))
        for level in chosen.tolist():
            is_right = rng.random() < skill[level]
            answer = gold if is_right else (gold + int(rng.integers(1, 4))) % 4
            stated = int(np.clip(55 + 25 * is_right + 15 * rng.normal(), 1, 99))
            rows.append((f"s{seed}-{number}", f"level {level:02}", 10 * number + answer, stated, 10 * number + gold))
    return pd.DataFrame(rows, columns=["problem_id", "level_name", "answer", "confidence", "gold_answer"])


def sparse(n: int, seed: int, groups: int = 0) -> Observations:
    """Return such questions; with ``groups`` their levels are in so many."""
    observations = Observations.from_frame(frame(n, seed), level="level_name")
    names = tuple(f"group {number % groups}" for number in range(observations.n_levels)) if groups else None
    assert observations.n_levels == _LEVELS
    if names is None:
        return observations
    order = np.argsort(names, kind="stable")
    return replace(
        observations,
        signals={name: values[:, order] for name, values in observations.signals.items()},
        **{name: getattr(observations, name)[:, order] for name in ("candidate", "correct", "status")},
        level_names=tuple(np.array(observations.level_names)[order].tolist()),
        groups=tuple(sorted(names)),
    )


@contextmanager
def columns_of_levels() -> Iterator[None]:
    """Let columns be levels, however many are empty."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(likelihood_data, "_SPARSE", 0.0)
        yield


def pooled(data: LikelihoodData) -> None:
    """Pool the levels, in a model of one's own that need not know what a column is."""
    centre = numpyro.sample("centre", dist.Normal(0, 1))
    with data.levels():
        weight = numpyro.sample("weight", dist.LogNormal(centre, 0.5))
        bias = numpyro.sample("bias", dist.Normal(0, 1))
    belief, doubt = belief_and_doubt(data.by_report(bias) + data.logit, data)
    answers = 1 / data.n_states[None] + sums_by_answer(data.of_columns(weight)[:, None] * belief, data.candidate)
    draw_states(data, jnp.log(answers), jnp.log(1 / data.n_states + data.of_columns(weight) @ doubt))


def of_levels(data: LikelihoodData) -> None:
    """Take columns for levels."""
    with data.levels():
        weight = numpyro.sample("weight", dist.LogNormal(0, 0.5))
    answers = 1 / data.n_states[None] + sums_by_answer(weight[:, None] * data.usable, data.candidate)
    draw_states(data, jnp.log(answers), jnp.zeros(len(data.weight)))


MODELS = ["bayes", "paper", "release", pooled]


def both(make: Callable[[], object]) -> tuple:
    """Return what is made with columns of reports and with columns of levels."""
    with columns_of_levels():
        expected = make()
    return make(), expected


@pytest.mark.parametrize("groups", [0, 3])
@pytest.mark.parametrize("model", MODELS)
def test_density_and_gradient_are_those_of_columns_of_levels(model, groups: int) -> None:
    observations, settings = sparse(60, 1, groups), preset(model)
    compact, dense = both(lambda: LikelihoodData.of(observations, preset=settings))
    assert (compact.candidate.shape, dense.candidate.shape) == ((_MOST, 60), (_LEVELS, 60))
    np.testing.assert_array_equal(compact.panels, dense.panels)
    program, rng = model_of(settings), np.random.default_rng(0)
    with jax.enable_x64(True):
        start, _ = start_and_bounds(program, compact)
        point = {name: value + 0.3 * rng.normal(size=np.shape(value)) for name, value in start.items()}
        at = jax.jit(jax.value_and_grad(lambda point, data: log_joint(program, point, data)))
        (density, slopes), (expected, of_dense) = at(point, compact), at(point, dense)
    assert float(density) == pytest.approx(float(expected), rel=1e-12)
    for name, slope in slopes.items():
        np.testing.assert_allclose(slope, of_dense[name], rtol=1e-9, atol=1e-12)


@pytest.fixture(scope="module", params=["bayes", "groups", pooled], ids=["bayes", "groups", "own"])
def fits(request: pytest.FixtureRequest) -> tuple[Fit, Fit, Observations]:
    """A fit of columns of reports, one of columns of levels, and new questions."""
    groups = 3 if request.param == "groups" else 0
    model = "bayes" if groups else request.param
    known, new = sparse(80, 1, groups), sparse(40, 2, groups)
    return *both(lambda: fit_map(known, preset=model)), new


def test_fits_and_predictions_are_the_same(fits: tuple[Fit, Fit, Observations]) -> None:
    compact, dense, new = fits
    for name, values in compact.tree["unconstrained_posterior"].items():
        np.testing.assert_allclose(values, dense.tree["unconstrained_posterior"][name], atol=1e-6)
    table = compact.predict(new, warn=False)
    with columns_of_levels():
        expected = Fit(dense.tree, dense.program).predict(new, warn=False)
    pd.testing.assert_frame_equal(table, expected, rtol=1e-6, atol=1e-6)
    row = np.random.default_rng(0).permutation(len(new))
    pd.testing.assert_frame_equal(compact.predict(new.select(row), warn=False), table.iloc[row].reset_index(drop=True))


def test_explanations_and_curves_are_the_same(fits: tuple[Fit, Fit, Observations]) -> None:
    compact, dense, new = fits
    ours = explain(compact, new, new.problem_id[3]), calibration_curves(compact)
    with columns_of_levels():
        dense = Fit(dense.tree, dense.program)
        theirs = explain(dense, new, new.problem_id[3]), calibration_curves(dense)
    pd.testing.assert_frame_equal(ours[0].reports, theirs[0].reports, rtol=1e-6, atol=1e-6)
    pd.testing.assert_frame_equal(ours[0].states, theirs[0].states, rtol=1e-6, atol=1e-6)
    pd.testing.assert_frame_equal(ours[1], theirs[1], rtol=1e-6, atol=1e-6)


def test_a_loaded_fit_predicts_the_same(fits: tuple[Fit, Fit, Observations], tmp_path: Path) -> None:
    compact, _, new = fits
    compact.save(tmp_path / "fit.nc")
    loaded = Fit.load(tmp_path / "fit.nc", preset=compact.program)
    pd.testing.assert_frame_equal(loaded.predict(new, warn=False), compact.predict(new, warn=False))


def test_rows_may_stand_in_any_order() -> None:
    rows = frame(80, 1)
    known = Observations.from_frame(rows, level="level_name")
    turned = Observations.from_frame(rows.sample(frac=1, random_state=0), level="level_name").select(slice(None))
    turned = turned.select(np.array([turned.problem_id.index(name) for name in known.problem_id]))
    first, second = LikelihoodData.of(known), LikelihoodData.of(turned)
    if known.level_names == turned.level_names:
        np.testing.assert_array_equal(first.level, second.level)
    new = sparse(20, 2)
    probabilities = [fit_map(each).predict(new, warn=False)["probability"] for each in (known, turned)]
    np.testing.assert_allclose(*probabilities, atol=1e-6)


def test_policies_are_the_same() -> None:
    known = sparse(40, 1, 3)

    def made() -> tuple[pd.DataFrame, list[Step]]:
        made = policy(fit_map(known), budget=0.5)
        one = {"group": made.fit.level_names[0], "answer": "1", "confidence": 70}
        return made.forecast, [made.next(reports) for reports in ([], [one], [one, one])]

    (forecast, steps), (expected, of_dense) = both(made)
    pd.testing.assert_frame_equal(forecast, expected, rtol=1e-5, atol=1e-5)
    for step, other in zip(steps, of_dense, strict=True):
        assert (step.ask, step.answer, step.hand_over) == (other.ask, other.answer, other.hand_over)
        assert step.gain == pytest.approx(other.gain, rel=1e-5, abs=1e-7)


def test_levels_without_labels_join_the_same() -> None:
    known = sparse(80, 1)
    more = Observations.from_frame(frame(240, 3, levels=_LEVELS + 2), level="level_name")

    def made() -> pd.DataFrame:
        return fit_map(known).with_levels(more).predict(more, warn=False)

    pd.testing.assert_frame_equal(*both(made), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_posterior_and_what_it_leaves_out_are_the_same() -> None:
    """Chains of the same seed, whose densities differ in the last digits of single precision, part after a while."""
    known, new = sparse(60, 1), sparse(20, 2)
    compact, dense = both(lambda: fit_nuts(known, num_chains=2, num_samples=500))
    for name, far in (("elpd", 0.02), ("probability", 0.02), ("pareto_k", 0.3)):
        np.testing.assert_allclose(compact.left_out[name], dense.left_out[name], atol=far)
    ours, theirs = compact.predict(new, warn=False), dense.predict(new, warn=False)
    np.testing.assert_allclose(ours["probability"], theirs["probability"], atol=0.05)
    assert int(compact.tree["sample_stats"]["diverging"].sum()) == 0


def test_new_questions_of_other_sizes_compile_nothing_more() -> None:
    """A question of one report, and many of up to as many as the labelled ones have, are evaluated by one program."""
    fit, new = fit_map(sparse(60, 1)), sparse(30, 2)
    lone = new.without(np.cumsum(new.usable, axis=1) > 1)
    _probabilities.programs.clear()
    for questions in (new, lone, new.select(slice(0, 1)), lone.select(slice(3, 4))):
        supports(fit.evaluation(questions))
    assert len(_probabilities.programs) == 1


def test_refits_of_one_panel_compile_once() -> None:
    known = sparse(80, 1)
    fit_map(known)
    before = len(_map_estimates.programs)
    fit_map(known.select(slice(0, 70)))
    assert len(_map_estimates.programs) == before


def test_a_model_that_takes_columns_for_levels_is_told_so() -> None:
    with pytest.raises(DirEAGError, match=r"model of_levels .*columns are no levels: read .* by data.by_report"):
        fit_map(sparse(60, 1), preset=of_levels)
