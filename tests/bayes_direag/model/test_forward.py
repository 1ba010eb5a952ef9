"""The programs say how probable every state is: by the printed equations, in any order, and to the last digits."""

from dataclasses import replace
from functools import cache

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from bayes_direag.data.observations import Observations
from bayes_direag.model import forward
from bayes_direag.model.forward import Forward
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.models import model_of
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.states import supports
from bayes_direag.model.unconstrained import parameter_sites
from tests.bayes_direag import brute_force
from tests.bayes_direag.data.questions import question

PROGRAMS = ("paper", "bayes")
N_LEVELS, N_DRAWS = 4, 3
each_program = pytest.mark.parametrize("name", PROGRAMS)

#: One question's answers and confidences by level; any level may be missing, and 0 % and 100 % are common.
Said = list[tuple[str, float] | None]
_report = st.tuples(st.sampled_from("wxyz"), st.sampled_from([0, 1, 30, 50, 85, 95, 100]) | st.floats(0, 100))
questions = st.lists(st.lists(st.none() | _report, min_size=N_LEVELS, max_size=N_LEVELS), min_size=5, max_size=5)


def observed(said: list[Said]) -> Observations:
    """Return these questions, after one that every level answers."""
    every = [[("x", 60 + 10 * level) for level in range(N_LEVELS)], *said]
    reports = [[... if report is None else report for report in reports] for reports in every]
    return Observations.from_questions([question(str(k), *own) for k, own in enumerate(reports)], answers="text")


def questions_of(observations: Observations, name: str) -> LikelihoodData:
    data = LikelihoodData.weighted(observations, np.ones(len(observations)), preset=PRESETS[name], labels=())
    levels = np.linspace(0.8, -0.9, N_LEVELS) if name == "bayes" else np.zeros(N_LEVELS)
    return replace(data, agreement=levels).unlabelled


@cache
def asymmetric(name: str) -> dict[str, np.ndarray]:
    """Draw values of the unconstrained sites, other for each level, so that another order of levels shows."""
    rng, sites = np.random.default_rng(3), parameter_sites(model_of(PRESETS[name]), questions_of(observed([]), name))
    return {site: rng.normal(size=(N_DRAWS, *about.shape)) for site, about in sites.items() if about.is_unconstrained}


def support(name: str, data: LikelihoodData, draws: dict[str, np.ndarray]) -> np.ndarray:
    """Return P by (draw, question, state), the null last."""
    return supports(Forward(model_of(PRESETS[name]), draws, data))


@each_program
@given(said=questions)
def test_forward_is_the_printed_equations(name: str, said: list[Said]) -> None:
    observations, draws = observed(said), asymmetric(name)
    data = questions_of(observations, name)
    found = support(name, data, draws)
    for at in range(N_DRAWS):
        own = {site: values[at] for site, values in draws.items()}
        values = brute_force.natural(own, name, data.agreement.tolist() if name == "bayes" else ())
        for row, answers in enumerate(observations.candidates):
            reports = brute_force.reports_of(observations, row)
            expected = brute_force.support(brute_force.scores(reports, values, PRESETS[name].eps))
            states = [*range(len(answers)), -1]
            np.testing.assert_allclose(
                found[at, row, states], [expected[state] for state in (*answers, brute_force.NULL)], rtol=1e-11
            )
            assert found[at, row, len(answers) : -1].sum() == 0


@each_program
@given(said=questions, seed=st.integers(0, 99))
def test_forward_does_not_depend_on_the_order_of_questions_candidates_and_levels(
    name: str, said: list[Said], seed: int
) -> None:
    observations, draws, rng = observed(said), asymmetric(name), np.random.default_rng(seed)
    data = questions_of(observations, name)
    before = support(name, data, draws)
    order = rng.permutation(len(observations))
    np.testing.assert_allclose(support(name, data.select(order), draws), before[:, order], rtol=1e-12)

    order = rng.permutation(N_LEVELS)
    by_level = {site for site, values in draws.items() if values.shape[1:] == (N_LEVELS,)}
    moved = {site: values[:, order] if site in by_level else values for site, values in draws.items()}
    shuffled = [[reports[level] for level in order] for reports in [[("x", 60 + 10 * k) for k in range(4)], *said]]
    told = replace(questions_of(observed(shuffled), name), agreement=data.agreement[order])
    np.testing.assert_allclose(support(name, told, moved)[:, 1:], before, rtol=1e-11)

    reverse = {"w": "z", "x": "y", "y": "x", "z": "w"}
    renamed = [[None if own is None else (reverse[own[0]], own[1]) for own in reports] for reports in said]
    after = support(name, questions_of(observed(renamed), name), draws)
    for row, answers in enumerate(observations.candidates[1:], start=1):
        own = before[:, row, : len(answers)][:, ::-1]
        np.testing.assert_allclose(after[:, row, : len(answers)], own, rtol=1e-12)


@each_program
def test_forward_changes_where_levels_alone_are_reversed(name: str) -> None:
    data, draws = questions_of(observed([[("x", 90), ("x", 90), ("y", 20), None]]), name), asymmetric(name)
    before = support(name, data, draws)
    for site in (site for site, values in draws.items() if values.shape[1:] == (N_LEVELS,)):
        after = support(name, data, draws | {site: draws[site][:, ::-1]})
        assert np.abs(after - before)[:, 1].max() > 0.005, site


@each_program
@given(said=questions, higher=st.floats(0, 100), row=st.integers(0, 4), level=st.integers(0, N_LEVELS - 1))
def test_forward_never_lowers_an_answer_for_a_higher_confidence(
    name: str, said: list[Said], higher: float, row: int, level: int
) -> None:
    if said[row][level] is None or higher < said[row][level][1]:
        return
    answer, draws = said[row][level][0], asymmetric(name)
    raised = [[*reports] for reports in said]
    raised[row][level] = answer, higher
    before, after = (support(name, questions_of(observed(own), name), draws)[:, row + 1] for own in (said, raised))
    place = sorted({own[0] for own in said[row] if own}).index(answer)
    assert (after[:, place] >= before[:, place] * (1 - 1e-13)).all()
    assert (after[:, -1] <= before[:, -1] * (1 + 1e-13)).all()


def of_paper(**natural: object) -> dict[str, np.ndarray]:
    """Return one draw of the paper's unconstrained sites from natural parameters."""
    inverse = {
        name: np.asarray(values, float)[None] if name == "bias" else brute_force.inverse_softplus(values)[None]
        for name, values in natural.items()
    }
    return {name if name == "bias" else f"{name}_base": values for name, values in inverse.items()}


NATURAL = {"weight": np.linspace(0.3, 1.7, N_LEVELS), "bias": [-0.9, 0.4, 0.1, 1.2], "slope": 0.7}
NATURAL |= {"prior_strength": 0.4, "null_base": 0.15, "null_gain": 0.6}


@given(said=questions, factor=st.floats(0.01, 100))
def test_forward_does_not_depend_on_the_common_scale(said: list[Said], factor: float) -> None:
    common = {name: factor * NATURAL[name] for name in ("weight", "prior_strength", "null_base")}
    data = questions_of(observed(said), "paper")
    ours, theirs = (support("paper", data, of_paper(**NATURAL | changed)) for changed in ({}, common))
    np.testing.assert_allclose(theirs, ours, rtol=1e-10)


@each_program
def test_forward_of_a_question_without_reports_is_the_null_s(name: str) -> None:
    silent = question("silent", None, gold_answer="3")
    asked = Observations.from_questions([*observed([]).questions, silent], answers="text")
    assert support(name, questions_of(asked, name), asymmetric(name))[:, 1].tolist() == [[0, 1]] * N_DRAWS


@pytest.mark.parametrize("largest", [0.0, 40.0, 640.0])
def test_forward_keeps_the_digits_of_the_null_beside_a_weight_that_dwarfs_the_others(largest: float) -> None:
    """What its reports lack of certainty is far below the rounding of the weight itself, and above the rest."""
    said = [[("x", 100), ("y", 90), ("x", 30), None], [("x", 95), ("x", 100), ("x", 100), None]]
    observations = observed([*said, [None, ("x", 60), ("y", 0), None]])
    dwarfing = {"weight": [np.exp(largest), 1.0, 1.6, 1.0], "bias": [0.9 * largest, -0.3, 0.4, 0.0]}
    found = support("paper", questions_of(observations, "paper"), of_paper(**NATURAL | dwarfing))[0]
    for row, answers in enumerate(observations.candidates):
        reports = brute_force.reports_of(observations, row)
        expected = brute_force.support(brute_force.concentrations(reports, NATURAL | dwarfing, PRESETS["paper"].eps))
        np.testing.assert_allclose(found[row, -1], expected[brute_force.NULL], rtol=1e-12)
        np.testing.assert_allclose(found[row, : len(answers)], [expected[one] for one in answers], rtol=1e-12)


def test_forward_is_a_probability_however_sharp() -> None:
    """Powers of concentrations and votes that by themselves are too large or too small for a number."""
    data, draws = questions_of(observed([[("x", 99), ("y", 0), ("z", 50), ("x", 1)]]), "bayes"), asymmetric("bayes")
    sharp = draws | {"sharpness_base": np.log([0.05, 40.0, 400.0]), "weight_centre": np.full(N_DRAWS, 28.0)}
    found = support("bayes", data, sharp | {"vote_decentered": 1e4 * draws["vote_decentered"]})
    np.testing.assert_allclose(found.sum(axis=2), 1, rtol=1e-12)
    assert (found >= 0).all()


@pytest.mark.parametrize("cells", [8, 600])
def test_forward_is_the_same_by_pieces_of_any_size(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    said = [[("wxyz"[a], 50) if a < 4 else None for a in rng.integers(0, 6, N_LEVELS)] for _ in range(80)]
    data, draws = questions_of(observed(said), "paper"), asymmetric("paper")
    expected = support("paper", data, draws)
    monkeypatch.setattr(forward, "_PIECE_CELLS", cells)
    monkeypatch.setattr(forward, "_FEW_CELLS", 1)
    np.testing.assert_allclose(support("paper", data, draws), expected, rtol=1e-13)
