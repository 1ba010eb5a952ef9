"""Evaluate every method on the same observations, on questions that it has not learned from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from analysis.display.document import Document
from analysis.display.folders import versions, write_record
from analysis.display.results import Result, axes_or_new
from analysis.display.style import RIGHT, forest, row_labels
from analysis.methods.direag import FitLearner, Fold, deal, learn_each
from analysis.methods.method import Answers, Learner, Method
from analysis.methods.registry import DEFAULT_EVALUATED, EVALUATED_METHODS, SIMPLE_METHODS, fitted_methods
from analysis.methods.rules import VANILLA, vanilla_method
from analysis.methods.sampled import SAMPLED_METHODS
from analysis.report.opening import opening
from analysis.report.report import report_document
from analysis.report.source import read_source
from analysis.runs.evaluated_run import EVALUATION_FOLDER, FITS, MANIFEST, TABLES, EvaluatedRun
from analysis.scores.scoring import Scorer, cluster_column
from bayes_direag.data.answers import same_answer
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError, did_you_mean
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.prediction import as_given
from bayes_direag.model import presets
from bayes_direag.model.settings import FitMethod, Preset, SamplingSettings, Variant

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class EvaluationSettings:
    """The settings of an evaluation, with defaults filled in: see :func:`evaluate`.

    ``n_folds`` is None with a test set, and ``sampling`` is None for MAP fits.
    """

    fit_method: FitMethod
    preset: Preset
    sampling: SamplingSettings | None
    methods: tuple[str, ...]
    vanilla_level: str
    n_folds: int | None
    seed: int
    n_resamples: int
    interval_level: float


@dataclass(frozen=True, eq=False)
class Evaluation(Result):
    """The results of an evaluation.

    Attributes
    ----------
    predictions : DataFrame
        One row per method and question: ``problem_id``, ``fold``, ``method``, ``answer`` (canonical),
        ``answer_as_given`` (its spelling in most reports), ``confidence``, ``correct`` (missing without a gold answer);
        for methods with a distribution, ``null_probability`` and ``state_probability``, that of the observed state;
        ``cluster``, if there are clusters. The rows of a method are
        in order of folds and of the file; the unanswered questions come last, without fold, answer and confidence, and
        not correct.
    metrics : DataFrame
        One row per method: ``method``, ``n`` (answered, labelled questions), ``unanswered`` (other labelled questions);
        the scores of :data:`~analysis.scores.scoring.SELECTION_SCORES` over both; each metric of the method's own
        answers over the n; and all intervals as ``NAME_low``, ``NAME_high``.
    parameters : DataFrame
        One row per fold, variant, parameter and level, with the means of the fit's sample statistics (for a MAP the
        penalised ``loss`` and the ``projected_gradient``).
    fits : dict
        Each fit by variant and fold.
    settings : EvaluationSettings
        The settings.
    observations, test, elicited
        The arguments of :func:`evaluate`.
    """

    predictions: pd.DataFrame
    metrics: pd.DataFrame
    parameters: pd.DataFrame
    fits: dict[tuple[Variant, str], Fit]
    settings: EvaluationSettings
    observations: Observations
    test: Observations | None = None
    elicited: Mapping[str, Observations] = field(default_factory=dict)

    def __repr__(self) -> str:
        best, settings = self.table.iloc[0], self.settings
        held_out = f"{settings.n_folds}-fold cross-fit" if self.test is None else "on a test set"
        fitted = f"{settings.fit_method.upper()}, preset {presets.label(settings.preset)}"
        return (
            f"Evaluation({len(self.table)} methods, {len(self.evaluated)} questions, {held_out}, {fitted}; "
            f"best by benefit: {best['method']} {best['benefit']:.3f})"
        )

    @property
    def evaluated(self) -> Observations:
        """The evaluated questions."""
        return self.observations if self.test is None else self.test

    @property
    def table(self) -> pd.DataFrame:
        """The most important metrics, one row per method, the greatest benefit first."""
        columns = ["method", "n", "unanswered", "benefit", "benefit_low", "benefit_high", "accuracy_of_all"]
        columns += ["log_score", "ece", "smece", "brier", "nll", "auroc"]
        return self.metrics.sort_values("benefit", ascending=False, kind="stable", ignore_index=True)[columns]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the benefit of every method with its interval."""
        table = self.table
        with axes_or_new(ax) as axes:
            forest(axes, table[["benefit", "benefit_low", "benefit_high"]], colour=RIGHT)
            row_labels(axes, table["method"].tolist())
            axes.set_xlabel(f"benefit (more is better), {self.settings.interval_level:.0%} interval")
        return axes

    def as_run(self, name: str) -> EvaluatedRun:
        """Return the evaluation as a run of that name, to be compared with others."""
        return EvaluatedRun.of(Path(name), _manifest(self), self.metrics, self.predictions)

    def write(self, folder: str | Path, command: str | None = None) -> None:
        """Write the evaluation as a folder, completely or not at all; an earlier evaluation there is replaced.

        The files are ``predictions.csv``, ``metrics.csv``, ``parameters.csv``, ``fits/VARIANT-FOLD.nc`` and
        ``evaluation.json``: settings, versions, size, origin and SHA-256 of the observations.

        Parameters
        ----------
        folder
            A new or empty folder, or one with an earlier evaluation.
        command
            The command that was typed, for the record.

        Raises
        ------
        DirEAGError
            If the folder holds other files.
        """
        with EVALUATION_FOLDER.replacing(folder) as whole:
            (whole / FITS).mkdir()
            for name in TABLES:
                getattr(self, name).to_csv(whole / f"{name}.csv", index=False)
            for (variant, fold), fit in self.fits.items():
                fit.save(whole / FITS / f"{variant}-{fold}.nc")
            write_record({"command": command} | _manifest(self), whole / MANIFEST)

    def document(self) -> Document:
        """Return the report of ``direag report``."""
        with TemporaryDirectory() as temporary:
            self.write(folder := Path(temporary) / "results")
            source = read_source(folder)
            return report_document(source, opening(source))


def evaluate(
    observations: Observations,
    test: Observations | None = None,
    *,
    elicited: Mapping[str, Observations] | None = None,
    fit_method: FitMethod = "map",
    preset: str | Preset = "bayes",
    sampling: SamplingSettings | None = None,
    allow_weighted: bool = False,
    methods: Sequence[str] | None = None,
    vanilla_level: str | None = None,
    n_folds: int = 5,
    seed: int = 0,
    n_resamples: int = 1000,
    interval_level: float = 0.95,
    on_step: Callable[[str], None] = lambda _: None,
    progress: bool = False,
) -> Evaluation:
    """Evaluate methods by cross-fitting, or on a test set after fitting to ``observations``.

    Parameters
    ----------
    observations
        Labelled questions.
    test
        Questions to evaluate on; ``observations`` are then for fitting alone. By default, k-fold cross-fitting.
    elicited
        Further elicitations of the evaluated questions, joined by ``problem_id``: ``samples`` (several samples of one
        prompt) for ``self_consistency`` and ``answer_entropy``, ``topk`` (one list of guesses) for ``topk``.
    fit_method, preset, sampling, allow_weighted
        Settings of the fits: see :func:`~bayes_direag.fits.fitting.train_test`.
    methods
        Names from :data:`~analysis.methods.registry.EVALUATED_METHODS`, in the order of the tables; by default, all of
        :data:`~analysis.methods.registry.DEFAULT_EVALUATED` that the observations allow.
    vanilla_level
        The level of method ``vanilla``; by default, the level of that name.
    n_folds
        Number of folds of a cross-fit.
    seed
        Seed of the folds and of the bootstrap.
    n_resamples, interval_level
        Number of bootstrap resamples behind each interval, and its probability.
    on_step
        Called with the name of each step.
    progress
        Show a bar over the methods.

    Raises
    ------
    DirEAGError
        If a method or level is unknown, no evaluated question is labelled, or the observations cannot be fitted to or
        dealt into folds.
    """
    evaluated = observations if test is None else test
    elicited = elicited or {}
    settings = EvaluationSettings(
        fit_method=fit_method,
        preset=presets.preset(preset),
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
    registry = {
        **SIMPLE_METHODS,
        **SAMPLED_METHODS,
        VANILLA: vanilla_method(settings.vanilla_level),
        **fitted_methods(settings.preset, fit_method, settings.sampling, allow_weighted=allow_weighted),
    }
    chosen = {name: registry[name] for name in settings.methods}
    learns = any(method.learns for method in chosen.values())
    folds = deal(observations, test, settings.n_folds, seed) if learns else ()
    fold_names = _fold_of_question(evaluated, folds)
    predictions: list[pd.DataFrame] = []
    learned: dict[Learner, list[Any]] = {}
    with Scorer(seed=seed, n_resamples=n_resamples, interval_level=interval_level) as scorer:
        for name, method in tqdm(chosen.items(), "methods", disable=not progress):
            if method.elicitation:
                table = _of_elicitation(method, elicited[method.elicitation], evaluated)
            elif not method.learns:
                table = _answer_table(method.answer(method.learn(evaluated, seed), evaluated), evaluated)
            else:
                if method.learn not in learned:
                    on_step(f"fitting {name}")
                    learned[method.learn] = learn_each(method.learn, folds, observations, test, settings.n_folds, seed)
                table = _held_out_answers(method, learned[method.learn], folds, evaluated)
            if not method.elicitation:
                table["answer_as_given"] = as_given(evaluated, table["answer"])
            predictions.append(_completed(table, name, fold_names, evaluated))
            scorer.add(predictions[-1])
        on_step("scoring")
        metrics = scorer.table()
    fits = {
        (learner.variant, fold.name): fit
        for learner, states in learned.items()
        if isinstance(learner, FitLearner)
        for fold, fit in zip(folds, states, strict=True)
    }
    return Evaluation(
        pd.concat(predictions, ignore_index=True),
        metrics,
        _parameter_table(fits),
        fits,
        settings,
        observations,
        test,
        elicited,
    )


def _chosen_methods(
    methods: Sequence[str] | None,
    evaluated: Observations,
    vanilla_level: str | None,
    elicited: Mapping[str, Observations],
) -> tuple[str, ...]:
    lacking = {name: of.elicitation for name, of in SAMPLED_METHODS.items() if of.elicitation not in elicited}
    if methods is None:
        missing = set(lacking)
        if vanilla_level is None and VANILLA not in evaluated.level_names:
            missing.add(VANILLA)
        if np.isnan(evaluated.confidence).all():
            missing |= {name for name, method in SIMPLE_METHODS.items() if method.needs_confidences}
        return tuple(name for name in DEFAULT_EVALUATED if name not in missing)
    for name in methods:
        if name in lacking:
            raise DirEAGError(
                f"method {name} needs an elicitation of its own; expected one under the protocol {lacking[name]}. Give "
                f"its observations with --{lacking[name]}."
            )
    unknown = [name for name in methods if name not in EVALUATED_METHODS]
    if unknown or not methods:
        seen = f"unknown method {', '.join(map(repr, unknown))}" if unknown else "no method"
        meant = did_you_mean(unknown[0], EVALUATED_METHODS) if unknown else ""
        raise DirEAGError(f"{seen}.{meant} Expected some of {', '.join(EVALUATED_METHODS)}.")
    return tuple(dict.fromkeys(methods))


def _fold_of_question(evaluated: Observations, folds: Sequence[Fold]) -> pd.Series:
    """Return each question's fold; missing for unanswered questions, and for all if no method learns."""
    names = pd.Series([None] * len(evaluated), dtype="str")
    for fold in folds:
        names.iloc[fold.asked] = fold.name
    return names


def _held_out_answers(
    method: Method, learned: Sequence[Any], folds: Sequence[Fold], evaluated: Observations
) -> pd.DataFrame:
    """Return the answers to the questions of all folds; missing for questions in no fold."""
    tables = []
    for fold, state in zip(folds, learned, strict=True):
        asked = evaluated.select(fold.asked).align(fold.labelled.level_names, fold.labelled.groups)
        tables.append(_answer_table(method.answer(state, asked), asked).set_axis(fold.asked, axis=0))
    table = pd.concat(tables).reindex(range(len(evaluated)))
    return table.assign(right=table["right"].astype("boolean").fillna(value=False))


def _answer_table(answers: Answers, asked: Observations) -> pd.DataFrame:
    """Return the answers of a method as a table."""
    pairs = zip(asked.candidates, answers.candidate, strict=True)
    return pd.DataFrame(
        {
            "answer": pd.Series([texts[k] if k >= 0 else None for texts, k in pairs], dtype="str"),
            "confidence": answers.confidence,
            "null_probability": answers.null_probability,
            "state_probability": answers.state_probability(asked),
            "right": answers.is_right(asked),
        }
    )


def _of_elicitation(method: Method, elicited: Observations, evaluated: Observations) -> pd.DataFrame:
    """Return the answers of a method with an elicitation of its own as a table; samples need no confidence.

    An answer is right if it equals the gold answer; correctness is missing without one, even if levels were judged.
    """
    asked = elicited.voting_as(elicited.learned_levels) if method.elicitation == "samples" else elicited
    answered = _answer_table(method.answer(method.learn(asked, 0), asked), asked)
    answered["answer_as_given"] = as_given(asked, answered["answer"])
    table = answered.set_axis(asked.problem_id, axis=0).reindex(evaluated.problem_id).reset_index(drop=True)
    golds = [question.gold_answer for question in evaluated.questions]
    pairs = zip(table["answer"].astype(object).where(table["answer"].notna(), None), golds, strict=True)
    right = pd.Series([same_answer(answer, gold, evaluated.kind) for answer, gold in pairs], dtype="boolean")
    return table.assign(right=right.where(np.array([gold is not None for gold in golds])))


def _completed(table: pd.DataFrame, method: str, fold: pd.Series, evaluated: Observations) -> pd.DataFrame:
    """Add the other columns of the predictions, and order the rows."""
    complete = table.assign(
        problem_id=pd.Series(evaluated.problem_id, dtype="str"),
        fold=fold,
        method=method,
        correct=table["right"].astype("boolean").mask(~evaluated.labelled),
        cluster=cluster_column(evaluated),
    )
    columns = ["problem_id", "fold", "method", "answer", "answer_as_given", "confidence", "correct"]
    columns += ["null_probability", "state_probability", "cluster"]
    return complete.sort_values("fold", key=_fold_number, kind="stable")[columns]


def _fold_number(fold: pd.Series) -> pd.Series:
    """Return folds as numbers to sort by; questions in no fold come last."""
    return pd.to_numeric(fold.replace({"test": "0"}))


def _parameter_table(fits: dict[tuple[Variant, str], Fit]) -> pd.DataFrame:
    """Concatenate the parameters of all fits; without fits, return an empty table."""
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


def _manifest(evaluation: Evaluation) -> dict[str, object]:
    settings, test = evaluation.settings, evaluation.test
    plain = {
        "preset": settings.preset.model_dump(mode="json"),
        "sampling": None if settings.sampling is None else settings.sampling.model_dump(),
    }
    return {
        "settings": vars(settings) | plain,
        "observations": _origin(evaluation.observations),
        "test": None if test is None else _origin(test),
        **{protocol: _origin(origin) for protocol, origin in evaluation.elicited.items()},
        "versions": versions("jax", "numpyro", "numpy", "scipy"),
    }


def _origin(observations: Observations) -> dict[str, object]:
    return {
        "questions": len(observations),
        "answers": observations.kind,
        "levels": list(observations.level_names),
        "datasets": list(observations.datasets),
        "models": list(observations.models),
        "sha256": observations.fingerprint,
    }
