"""Every method on the same observations, scored on questions that nothing was fitted to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from analysis.baselines import BASELINES, Selection, vanilla
from analysis.sampling_baselines import SAMPLING_METHODS, is_right, joined_answers
from analysis.scores.scoring import Scorer
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import HeldOut, cross_fit, fold_of_question, train_test
from bayes_direag.model.presets import default_preset
from bayes_direag.model.presets import preset as named_preset
from bayes_direag.model.settings import Method, Preset, SamplingSettings, Variant

VANILLA = "vanilla"

#: The fitted methods: which variant, and whether before (support) or after (confidence) recalibration.
FITTED_METHODS: dict[str, tuple[Variant, str]] = {
    "count": ("count", "support"),
    "count_calibrated": ("count", "confidence"),
    "level": ("level", "support"),
    "level_calibrated": ("level", "confidence"),
    "confidence": ("confidence", "support"),
    "direag": ("confidence", "confidence"),
}
#: Those that read an elicitation of their own: which one.
SAMPLED_METHODS = {method: protocol for protocol, methods in SAMPLING_METHODS.items() for method in methods}
METHODS = (VANILLA, *SAMPLED_METHODS, *BASELINES, *FITTED_METHODS)


@dataclass(frozen=True)
class EvaluationSettings:
    """What an evaluation was asked for, defaults filled in; see :func:`evaluate`.

    ``n_folds`` is None where the methods were fitted to one set and tested on another, ``sampling`` for MAP fits.
    """

    fit_method: Method
    preset: Preset
    sampling: SamplingSettings | None
    methods: tuple[str, ...]
    vanilla_level: str
    n_folds: int | None
    seed: int
    n_resamples: int
    interval_level: float


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What an evaluation found.

    Attributes
    ----------
    predictions : DataFrame
        A row a method and question: ``problem_id``, ``fold``, ``method``, ``answer``, ``confidence``,
        ``correct``, ``null_probability``. Within a method: fold by fold, each in file order, then the
        unanswered questions (no fold, no answer, no confidence, not correct). ``correct`` is missing where
        there is no gold answer.
    metrics : DataFrame
        A row a method: ``method``, ``n`` (answered questions with a gold answer, which the metrics are over),
        ``unanswered`` (further questions with a gold answer), each metric, and its interval as ``NAME_low``,
        ``NAME_high``.
    parameters : DataFrame
        A row a fold, variant, parameter and level, with the mean of each sample statistic of its fit (for a MAP
        the penalised ``loss`` and the ``projected_gradient`` there).
    fits : dict
        Each fit by variant and fold.
    settings : EvaluationSettings
        What was asked for.
    """

    predictions: pd.DataFrame
    metrics: pd.DataFrame
    parameters: pd.DataFrame
    fits: dict[tuple[Variant, str], Fit]
    settings: EvaluationSettings


def evaluate(
    observations: Observations,
    test: Observations | None = None,
    *,
    elicited: Mapping[str, Observations] | None = None,
    fit_method: Method = "map",
    preset: str | Preset | None = None,
    sampling: SamplingSettings | None = None,
    allow_weighted: bool = False,
    methods: Sequence[str] | None = None,
    vanilla_level: str | None = None,
    n_folds: int = 5,
    seed: int = 0,
    n_resamples: int = 1000,
    interval_level: float = 0.95,
    on_step: Callable[[str], None] = lambda _: None,
) -> Evaluation:
    """Evaluate methods by cross-fitting, or on a test set after fitting to ``observations``.

    Parameters
    ----------
    test
        Evaluate on these; ``observations`` then serves for fitting alone. Left out: k-fold cross-fitting.
    elicited
        Further elicitations of the evaluated questions, joined by ``problem_id``: ``samples`` (several samples of one
        prompt) for ``self_consistency`` and ``answer_entropy``, ``topk`` (one list of guesses) for ``topk``.
    fit_method, preset, sampling, allow_weighted
        How the fitted methods are fitted; see :func:`~bayes_direag.fits.fitting.train_test`.
    methods
        Names out of :data:`METHODS`, in the order of the tables; all that can be had when left out.
    vanilla_level
        The level that method ``vanilla`` takes; the one of that name when left out.
    seed
        Deals the folds and draws the bootstrap.
    on_step
        Told the name of each piece of work as it begins.

    Raises
    ------
    DirEAGError
        For an unknown method or level, evaluated observations without a single label, or observations that a fit
        or the fold rule cannot use.
    """
    evaluated = observations if test is None else test
    elicited = elicited or {}
    settings = EvaluationSettings(
        fit_method=fit_method,
        preset=default_preset(fit_method) if preset is None else named_preset(preset),
        sampling=None if fit_method == "map" else sampling or SamplingSettings(),
        methods=_chosen_methods(methods, evaluated, vanilla_level, elicited),
        vanilla_level=vanilla_level or VANILLA,
        n_folds=n_folds if test is None else None,
        seed=seed,
        n_resamples=n_resamples,
        interval_level=interval_level,
    )
    if not evaluated.labelled.any():
        raise DirEAGError(
            f"no question to score: saw {len(evaluated)} questions, none of them labelled; expected gold answers "
            "(gold_answer, or correct on each observation)."
        )
    fold = _fold_of_question(evaluated, settings)
    predictions: list[pd.DataFrame] = []
    held_out: dict[Variant, list[HeldOut]] = {}
    with Scorer(seed=seed, n_resamples=n_resamples, interval_level=interval_level) as scorer:
        for method in settings.methods:
            if method == VANILLA:
                table = _unfitted(vanilla(evaluated, settings.vanilla_level), evaluated)
            elif method in BASELINES:
                table = _unfitted(BASELINES[method](evaluated), evaluated)
            elif method in SAMPLED_METHODS:
                table = _sampled(method, elicited[SAMPLED_METHODS[method]], evaluated)
            else:
                variant, column = FITTED_METHODS[method]
                if variant not in held_out:
                    on_step(f"fitting {variant}")
                    held_out[variant] = _held_out(observations, test, variant, settings, allow_weighted)
                table = _fitted(held_out[variant], column, evaluated)
            predictions.append(_completed(table, method, fold, evaluated))
            scorer.add(predictions[-1])
        on_step("scoring")
        metrics = scorer.table()
    fits = {(variant, part.fold): part.fit for variant, parts in held_out.items() for part in parts}
    return Evaluation(pd.concat(predictions, ignore_index=True), metrics, _parameter_table(fits), fits, settings)


def _chosen_methods(
    methods: Sequence[str] | None,
    evaluated: Observations,
    vanilla_level: str | None,
    elicited: Mapping[str, Observations],
) -> tuple[str, ...]:
    missing = {method for method, protocol in SAMPLED_METHODS.items() if protocol not in elicited}
    if methods is None:
        has_vanilla = vanilla_level is not None or VANILLA in evaluated.level_names
        missing |= set() if has_vanilla else {VANILLA}
        return tuple(method for method in METHODS if method not in missing)
    for method in methods:
        if method in missing:
            raise DirEAGError(
                f"method {method} needs an elicitation of its own; expected one under the protocol "
                f"{SAMPLED_METHODS[method]}. Give its observations with --{SAMPLED_METHODS[method]}."
            )
    unknown = [method for method in methods if method not in METHODS]
    if unknown or not methods:
        seen = f"unknown method {', '.join(map(repr, unknown))}" if unknown else "no method"
        raise DirEAGError(f"{seen}; expected some of {', '.join(METHODS)}.")
    return tuple(dict.fromkeys(methods))


def _held_out(
    observations: Observations,
    test: Observations | None,
    variant: Variant,
    settings: EvaluationSettings,
    allow_weighted: bool,
) -> list[HeldOut]:
    fitting = partial(
        train_test if settings.n_folds is None else partial(cross_fit, n_folds=settings.n_folds),
        method=settings.fit_method,
        preset=settings.preset,
        variant=variant,
        sampling=settings.sampling,
        allow_weighted=allow_weighted,
        seed=settings.seed,
    )
    return fitting(observations) if test is None else fitting(observations, test)


def _fold_of_question(evaluated: Observations, settings: EvaluationSettings) -> pd.Series:
    """Return each question's fold; missing where it is in none, as all are where nothing is fitted."""
    if FITTED_METHODS.keys().isdisjoint(settings.methods):
        return pd.Series([None] * len(evaluated), dtype="str")
    if settings.n_folds is None:
        return pd.Series("test", range(len(evaluated)), dtype="str").where(evaluated.answered)
    fold = fold_of_question(evaluated, settings.n_folds, settings.seed)
    return pd.Series(fold.astype(str), dtype="str").where(fold >= 0)


def _fitted(held_out: Sequence[HeldOut], column: str, evaluated: Observations) -> pd.DataFrame:
    """Return answer, confidence and null probability by question, missing where it was in no fold."""
    parts = [part.predictions.set_axis(part.index, axis=0) for part in held_out]
    table = pd.concat(parts).reindex(range(len(evaluated)))
    return table[["answer", "null_probability"]].assign(
        confidence=table[column], right=evaluated.is_right(table["answer"])
    )


def _unfitted(selection: Selection, evaluated: Observations) -> pd.DataFrame:
    """Return answer and confidence by question; there is no null probability."""
    pairs = zip(evaluated.candidates, selection.candidate, strict=True)
    answers = pd.Series([candidates[k] if k >= 0 else None for candidates, k in pairs], dtype="str")
    return pd.DataFrame(
        {
            "answer": answers,
            "confidence": selection.confidence,
            "null_probability": np.nan,
            "right": evaluated.is_right(answers),
        }
    )


def _sampled(method: str, elicited: Observations, evaluated: Observations) -> pd.DataFrame:
    """Return answer, confidence and correctness by question, from an elicitation of its own.

    An answer is right if it equals the gold answer; without one that is missing, whatever levels were judged.
    """
    answers = joined_answers(SAMPLING_METHODS[SAMPLED_METHODS[method]][method], elicited, evaluated.problem_id)
    golds = [question.gold_answer for question in evaluated.questions]
    judged = np.array([gold is not None for gold in golds], bool)
    return pd.DataFrame(
        {
            "answer": pd.Series([answer.answer for answer in answers], dtype="str"),
            "confidence": [answer.confidence for answer in answers],
            "null_probability": np.nan,
            "right": pd.Series(is_right(answers, golds, evaluated.kind), dtype="boolean").where(judged),
        }
    )


def _completed(table: pd.DataFrame, method: str, fold: pd.Series, evaluated: Observations) -> pd.DataFrame:
    """Add what a row needs beside the prediction, and put the rows in their order."""
    complete = table.assign(
        problem_id=pd.Series(evaluated.problem_id, dtype="str"),
        fold=fold,
        method=method,
        correct=table["right"].astype("boolean").mask(~evaluated.labelled),
    )
    columns = ["problem_id", "fold", "method", "answer", "confidence", "correct", "null_probability"]
    return complete.sort_values("fold", key=_fold_number, kind="stable")[columns]


def _fold_number(fold: pd.Series) -> pd.Series:
    """Order folds by number; questions in none come last."""
    return pd.to_numeric(fold.replace({"test": "0"}))


def _parameter_table(fits: dict[tuple[Variant, str], Fit]) -> pd.DataFrame:
    """Put the parameters of all fits under each other; only the columns where nothing was fitted."""
    tables = []
    for (variant, fold), fit in fits.items():
        table = fit.parameters()
        table.insert(0, "fold", fold)
        table.insert(1, "variant", variant)
        stats = fit.tree["sample_stats"].to_dataset()
        tables.append(table.assign(**{str(name): float(value.mean()) for name, value in stats.items()}))
    if not tables:
        return pd.DataFrame(columns=["fold", "variant", "parameter", "level", "mean", "sd", "relative", "raw"])
    return pd.concat(tables, ignore_index=True)
