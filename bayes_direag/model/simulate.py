"""Simulated observations whose right answers are drawn from the model, for examples and tests.

Answers and confidences come from a simple picture of steered prompts: a question's ease decides how often its common
answer is given, and each level states confidences around its own mean. The state of each question is then drawn with
the probabilities of a program with known parameters, by default that of ``paper``.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from bayes_direag.data.observations import Observations
from bayes_direag.model import presets
from bayes_direag.model.presets import PresetLike

#: The true parameters by name; that of each signal, where there are several, along one axis.
type Truth = Mapping[str, Float[np.ndarray, "..."]]

LEVEL_NAMES = ("very_cautious", "cautious", "vanilla", "confident", "very_confident")

#: The dataset and model name of simulated questions.
SIMULATED = "simulated"

_MEAN = np.array([45.0, 65.0, 80.0, 88.0, 94.0])
_SPREAD = np.array([24.0, 18.0, 14.0, 10.0, 7.0])
_MISSING = 0.02


def default_parameters(n_signals: int = 1) -> dict[str, Float[np.ndarray, "..."]]:
    """Return the parameters of ``paper`` from which observations are simulated by default."""
    return {
        "weight": np.array([0.5, 0.8, 1.4, 0.9, 0.6]),
        "bias": np.array([0.5, -0.8, -2.0, -3.0, -4.2]),
        "slope": np.array(1.6) if n_signals == 1 else np.full(n_signals, 1.6 / n_signals),
        "prior_strength": np.array(0.1),
        "null_base": np.array(0.02),
        "null_gain": np.array(0.15),
    }


def simulate_observations(
    n: int,
    *,
    seed: int,
    parameters: Truth | None = None,
    signals: Sequence[str] = (),
    preset: PresetLike = "paper",
) -> Observations:
    """Draw ``n`` labelled questions with five levels each.

    Parameters
    ----------
    n
        Number of questions, at least 1.
    seed
        Equal seeds give equal observations.
    parameters
        The true parameters by name; by default, :func:`default_parameters`. What a program draws beside them has a
        value from its prior.
    signals
        Names of further signals, of which one in ten values is missing. The true slopes are then those of the stated
        confidence and of the signals, in order of their names.
    preset
        The model that says how probable each state is: the name of a preset, or a NumPyro function of your own.

    Examples
    --------
    >>> observations = simulate_observations(n=3, seed=1)
    >>> observations.level_names[0], len(observations)
    ('very_cautious', 3)
    """
    rng = np.random.default_rng(seed)
    truth = default_parameters(1 + len(signals)) if parameters is None else parameters
    ease = rng.normal(0.8, 1.6, n)
    said = np.array([_answers(e, rng) for e in ease], int).reshape(n, len(LEVEL_NAMES))
    stated = _confidences(ease, said, rng)
    missing = rng.random(said.shape) < _MISSING
    names = rng.integers(1, 900, n)[:, None] + rng.permuted(np.tile(np.arange(0, 60, 7), (n, 1)), axis=1)
    further = {name: np.where(rng.random(said.shape) < 0.1, np.nan, _confidences(ease, said, rng)) for name in signals}
    records: list[dict[str, Any]] = [
        {
            "problem_id": f"{SIMULATED}-{seed}-{number:06d}",
            "dataset": SIMULATED,
            "model": SIMULATED,
            "question": f"simulated question {seed}-{number:06d}",
            "observations": [
                {"level": level, "level_name": LEVEL_NAMES[level], "answer": str(names[number, said[number, level]])}
                | {"confidence": stated[number, level], "confidences": _signals(further, (number, level))}
                for level in np.flatnonzero(~missing[number]).tolist()
            ],
        }
        for number in range(n)
    ]
    golds = _golds(Observations.from_records(records, "numeric"), names, preset, truth, rng)
    labelled = [record | {"gold_answer": gold} for record, gold in zip(records, golds, strict=True)]
    return Observations.from_records(labelled, "numeric")


def _signals(
    further: Mapping[str, Float[np.ndarray, "problem level"]], report: tuple[int, int]
) -> dict[str, float] | None:
    return {name: values[report] for name, values in further.items() if not np.isnan(values[report])} or None


def _answers(ease: float, rng: np.random.Generator) -> Int[np.ndarray, " level"]:
    """Draw which of the question's five possible answers each level gives; 0 is the common one."""
    common = 1 / (1 + np.exp(-ease))
    rest = rng.dirichlet(np.full(4, 0.7)) * (1 - common)
    return rng.choice(5, size=len(LEVEL_NAMES), p=np.concatenate([[common], rest]))


def _confidences(
    ease: Float[np.ndarray, " problem"], said: Int[np.ndarray, "problem level"], rng: np.random.Generator
) -> Float[np.ndarray, "problem level"]:
    """Draw stated confidences, mostly in steps of 5: around the level's mean, and higher for easy questions."""
    lift = 6 * np.tanh(ease / 2)[:, None] + np.where(said == 0, 3, -5)
    exact = np.clip(_MEAN[None, :] + lift + _SPREAD[None, :] * rng.normal(size=said.shape), 0, 100)
    return np.asarray(np.where(rng.random(said.shape) < 0.8, 5 * np.round(exact / 5), np.round(exact)))


def _golds(
    observations: Observations,
    names: Int[np.ndarray, "problem answer"],
    preset: PresetLike,
    truth: Truth,
    rng: np.random.Generator,
) -> list[str]:
    """Draw the state of each question; under the null the right answer is one that no level gave."""
    cumulative = np.cumsum(_probabilities(observations, preset, truth), axis=1)
    state = (rng.random(len(observations))[:, None] > cumulative).sum(axis=1)
    never_said = names[:, -1]
    return [
        candidates[k] if k < len(candidates) else str(never_said[i])
        for i, (k, candidates) in enumerate(zip(state, observations.candidates, strict=True))
    ]


def _probabilities(observations: Observations, preset: PresetLike, truth: Truth) -> Float[np.ndarray, "problem state"]:
    """Run the program as its author wrote it, with the true parameters."""
    from bayes_direag.model.forward import Forward
    from bayes_direag.model.likelihood_data import LikelihoodData
    from bayes_direag.model.models import model_of
    from bayes_direag.model.states import supports

    settings, weight = presets.preset(preset), np.ones(len(observations))
    data = LikelihoodData.weighted(observations, weight, preset=settings, labels=())
    draws = {name: np.asarray(value, float)[None] for name, value in truth.items()}
    return np.asarray(supports(Forward(inspect.unwrap(model_of(settings)), draws, data))[0])
