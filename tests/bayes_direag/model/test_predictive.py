"""Parameters drawn from the prior, and what prior and posterior draws foretell, against the printed equations."""

import jax
import numpy as np
import pytest
from scipy import stats

from bayes_direag.data.observations import Observation, Observations, Question
from bayes_direag.model.evidence import Reports
from bayes_direag.model.model import RawDraws
from bayes_direag.model.predictive import predictive_draws, prior_draws
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import VARIANTS, Preset, Variant
from tests.bayes_direag import brute_force

N_DRAWS = 2000
#: Answers and confidences of four levels: nothing, one report, agreement, two against one, all different.
ASKED = (
    (None, None, None, None),
    (None, ("7", 80), None, None),
    (("7", 90), ("7", 60), ("7", 100), ("7", 0)),
    (("8", 95), ("7", 70), None, ("7", 85)),
    (("7", 55), ("9", 65), ("8", 75), ("10", 99)),
)

each_model = pytest.mark.parametrize(
    ("preset", "variant"),
    [
        pytest.param(PRESETS[name], variant, id=f"{name}-{variant}")
        for name, variant in (("paper", "count"), ("bayes", "level"), ("pooled", "confidence"))
    ],
)


@pytest.fixture(scope="module")
def observations() -> Observations:
    names = ("a", "b", "c", "d")
    questions = [
        Question(
            problem_id=str(number),
            observations=tuple(
                Observation(level=level, level_name=names[level], answer=said[0], confidence=said[1])
                if said
                else Observation(level=level, level_name=names[level], answer=None)
                for level, said in enumerate(row)
            ),
        )
        for number, row in enumerate(ASKED)
    ]
    return Observations.from_questions(questions, answers="numeric")


def supports(raw: dict[str, object], observations: Observations, question: int, preset: Preset) -> list[float]:
    """Return the support of each candidate of one question, in the order of its candidates, and of the null."""
    values = brute_force.natural(raw, preset)
    support = brute_force.support(
        brute_force.concentrations(brute_force.reports_of(observations, question), values, preset.eps)
    )
    return [support[answer] for answer in (*observations.candidates[question], brute_force.NULL)]


def agree(indicator: np.ndarray, probability: np.ndarray) -> bool:
    """Whether events happen as often as they should, within 4.5 standard errors and one event."""
    gap = abs(indicator.sum() - probability.sum())
    return bool(gap <= 4.5 * np.sqrt((probability * (1 - probability)).sum()) + 1)


@each_model
def test_prior_draws(preset: Preset, variant: Variant, observations: Observations) -> None:
    key = jax.random.key(3)
    raw, target = prior_draws(Reports.of(observations), preset=preset, variant=variant, n_draws=N_DRAWS, key=key)
    assert tuple(raw) == preset.free_parameters(variant)
    assert target.shape == (1, N_DRAWS, len(ASKED))
    single = {name: value[0, 0] for name, value in raw.items()}
    columns = []
    for name, (loc, scale) in brute_force.raw_priors(single, preset, len(ASKED)).items():
        values = raw[name].reshape(N_DRAWS, -1)
        assert values.dtype == np.float64
        assert values.shape[1] == (4 if name in ("weight", "bias") else 1)
        for column in values.T:
            assert stats.kstest(column, stats.norm(loc, scale).cdf).pvalue > 1e-4
        columns += list(values.T)
    among = np.corrcoef(columns)[np.triu_indices(len(columns), 1)]
    assert np.abs(among).max() < 4.5 / np.sqrt(N_DRAWS)

    for question, own in enumerate(observations.candidates):
        drawn = target[0, :, question]
        probability = np.array(
            [
                supports({name: value[0, draw] for name, value in raw.items()}, observations, question, preset)
                for draw in range(N_DRAWS)
            ]
        )
        assert set(drawn) <= {*range(len(own)), -1}
        for state, column in zip([*range(len(own)), -1], probability.T, strict=True):
            assert agree(drawn == state, column)
    assert (target[0, :, 0] == -1).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_targets_follow_the_draws_they_are_given(variant: Variant, observations: Observations) -> None:
    """One set of parameters a chain, repeated: frequencies are the support under it."""
    preset = PRESETS["bayes"]
    rng = np.random.default_rng(1)
    chains = [
        {name: rng.normal(size=4 if name in ("weight", "bias") else ()) for name in preset.free_parameters(variant)}
        for _ in range(2)
    ]
    raw: RawDraws = {
        name: np.stack([np.broadcast_to(chain[name], (N_DRAWS, *np.shape(chain[name]))) for chain in chains])
        for name in chains[0]
    }
    target = predictive_draws(raw, Reports.of(observations), preset=preset, variant=variant, key=jax.random.key(0))
    assert target.shape == (2, N_DRAWS, len(ASKED))
    for number, chain in enumerate(chains):
        for question, own in enumerate(observations.candidates):
            drawn = target[number, :, question]
            assert set(drawn) <= {*range(len(own)), -1}
            expected = supports(chain, observations, question, preset)
            for state, probability in zip([*range(len(own)), -1], expected, strict=True):
                assert agree(drawn == state, np.full(N_DRAWS, probability))
    assert (target[:, :, 0] == -1).all()


def test_draws_are_each_their_own(observations: Observations) -> None:
    """A draw's parameters decide its own target and no other's."""
    preset = PRESETS["bayes"]
    certain = {"weight": np.full(4, 30.0), "null_base": np.array(-30.0)}
    hopeless = {"weight": np.full(4, -30.0), "null_base": np.array(30.0)}
    raw: RawDraws = {name: np.stack([[certain[name], hopeless[name]] * 3, [hopeless[name]] * 6]) for name in certain}
    reports = Reports.of(observations.select(slice(2, 3)))
    target = predictive_draws(raw, reports, preset=preset, variant="count", key=jax.random.key(0))
    assert target[..., 0].tolist() == [[0, -1] * 3, [-1] * 6]


def test_equal_keys_give_equal_draws(observations: Observations) -> None:
    def drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
        raw, target = prior_draws(
            Reports.of(observations), preset=PRESETS["bayes"], variant="count", n_draws=50, key=jax.random.key(seed)
        )
        return raw["weight"], target

    for first, again, other in zip(drawn(1), drawn(1), drawn(2), strict=True):
        assert (first == again).all()
        assert (first != other).any()


def test_double_precision_is_used_whatever_the_global_setting(observations: Observations) -> None:
    with jax.enable_x64(False):
        raw, _ = prior_draws(
            Reports.of(observations), preset=PRESETS["bayes"], variant="count", n_draws=4, key=jax.random.key(1)
        )
    assert {value.dtype for value in raw.values()} == {np.dtype(np.float64)}
