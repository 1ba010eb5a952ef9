"""Evaluate every method on the same observations, on questions that it has not learned from."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.display.document import Result
from analysis.display.folders import ResultFolder, write_record
from analysis.display.style import RIGHT, forest, row_labels
from analysis.display.text import counted
from analysis.evaluation_record import EvaluationRecord, EvaluationSettings, Origin
from analysis.methods.direag import FITTED_METHODS, FitLearner, fitted_methods, learn_each
from analysis.methods.label_logistic import has_two_labels
from analysis.methods.method import Answers, Learner, Method
from analysis.methods.registry import METHODS, SIMPLE_METHODS
from analysis.methods.rules import SAMPLED_METHODS, VANILLA, vanilla_method
from analysis.scores.calibration import Calibration, judge_calibration
from analysis.scores.paired import paired_table
from analysis.scores.scoring import METRIC_NAMES, Scored, cluster_column, scored_rows, scores_of
from analysis.scores.selective import by_threshold
from bayes_direag.data.answers import same_answer
from bayes_direag.data.equality import Same, Sameness, require_same
from bayes_direag.data.files import write_table
from bayes_direag.data.labels import Labels
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError, did_you_mean
from bayes_direag.fits.convergence import SamplerSummary, gradient_in_words, sampler_summary
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.folds import Fold, dealt
from bayes_direag.fits.prediction import as_given
from bayes_direag.inference.newton import GRADIENT_TOLERANCE
from bayes_direag.model import presets
from bayes_direag.model.presets import PresetLike
from bayes_direag.model.settings import FitMethod, FitSettings, SamplingSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MANIFEST, FITS, REPORT = "evaluation.json", "fits", "report.html"

#: The tables, and the types of their columns; all others are numbers.
TABLES: Mapping[str, Mapping[str, str]] = {
    "predictions": dict.fromkeys(("fold", "method", "answer", "answer_as_given"), "str")
    | {"probability": "float64", "correct": "boolean", "cluster": "Int64", "at_random": "boolean"},
    "metrics": {"method": "str", "n": "int64", "unanswered": "int64"} | dict.fromkeys(METRIC_NAMES, "float64"),
    "parameters": dict.fromkeys(("fold", "variant", "parameter", "level"), "str") | {"identified": "boolean"},
}
EVALUATION_FOLDER = ResultFolder("evaluation", MANIFEST, tuple(TABLES), others=(REPORT, f"{FITS}/*.nc"))

#: The method that an evaluation is about, where it was evaluated.
DIREAG = "direag"


class StoredFits(Mapping[tuple[str, str], Fit]):
    """The fits of a folder by variant and fold, each read when it is asked for."""

    def __init__(self, folder: Path) -> None:
        named = ((path.stem.rpartition("-"), path) for path in folder.glob("*-*"))
        self._paths = {(variant, fold): path for (variant, _, fold), path in named}

    def __getitem__(self, key: tuple[str, str]) -> Fit:
        return Fit.load(self._paths[key])

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(sorted(self._paths))

    def __len__(self) -> int:
        return len(self._paths)


@dataclass(frozen=True, eq=False)
class Evaluation(Result):
    """An evaluation: made by :func:`evaluate`, or read from its folder.

    Attributes
    ----------
    predictions : DataFrame
        One row per method and question: its name, in a column called as in the observations (``problem_id``),
        ``fold``, ``method``, ``answer`` (canonical),
        ``answer_as_given`` (its spelling in most reports), ``probability``, ``correct`` (missing without a label);
        for methods with a distribution, ``null_probability`` and ``state_probability``, that of the observed state;
        ``cluster``, if there are clusters; ``at_random``, whether the question was chosen at random to be labelled, if
        that is known. The rows of a method are in order of folds and of the file; the unanswered
        questions come last, without fold, answer and probability, and not correct.
    metrics : DataFrame
        One row per method: ``method``, ``n`` (answered, labelled questions), ``unanswered`` (other labelled questions);
        the scores of :data:`~analysis.scores.scoring.SELECTION_SCORES` over both; each metric of the method's own
        answers over the n; and all intervals as ``NAME_low``, ``NAME_high``.
    parameters : DataFrame
        One row per fold, variant, parameter and level, with the means of the fit's sample statistics (for a MAP the
        penalised ``loss`` and the ``projected_gradient``).
    record : EvaluationRecord
        What was evaluated, and how.
    fits : mapping
        Each fit by variant and fold.
    observations : Observations or None
        The evaluated questions, if they are at hand.
    folder : Path or None
        Where it was read from.
    """

    predictions: pd.DataFrame
    metrics: pd.DataFrame
    parameters: pd.DataFrame
    record: EvaluationRecord
    fits: Mapping[tuple[str, str], Fit]
    observations: Observations | None = None
    folder: Path | None = None

    @classmethod
    def read(cls, folder: str | Path, observations: str | Path | None = None, same: Sameness = None) -> "Evaluation":
        """Read a folder that ``direag evaluate`` has written.

        Parameters
        ----------
        folder
            The folder.
        observations
            The file of the evaluated questions, for their texts and reports; it is read as for the evaluation.
        same
            The function by which answers were compared, if one was.

        Raises
        ------
        DirEAGError
            If the folder is none, or the observations are others.
        """
        folder = Path(folder)
        if not (folder / MANIFEST).is_file():
            seen, remedy = "no such folder", "Make one first."
            if folder.is_dir():
                seen = f"no {MANIFEST} there"
            elif folder.is_file():
                seen, remedy = "a file", "A fit is shown by direag show."
            raise DirEAGError(f"{folder}: saw {seen}; expected a folder written by direag evaluate. {remedy}")
        try:
            record = EvaluationRecord.model_validate(json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
        except ValueError as error:
            raise _unreadable(folder / MANIFEST, error) from error
        question = (record.test or record.observations).question
        tables: dict[str, Any] = {
            name: _read_table(folder / f"{name}.csv", {**types, question: "str"} if name == "predictions" else types)
            for name, types in TABLES.items()
        }
        evaluation = cls(**tables, record=record, fits=StoredFits(folder / FITS), folder=folder)
        evaluation._check()
        if observations is None:
            return evaluation
        of = evaluation.of
        function = Same.of(same)
        require_same(function, Same(None, of.same) if of.same else None, "the evaluation")
        read = Observations.read(observations, of.answers, of.read_as, same=function)
        if read.fingerprint != of.sha256:
            raise DirEAGError(
                f"{observations}: saw other observations (SHA-256 {read.fingerprint[:16]}) than those that {folder} "
                f"evaluated; expected {of.sha256[:16]}. Give those."
            )
        return replace(evaluation, observations=read)

    def _check(self) -> None:
        folder, methods, n = self.folder or Path(), self.settings.methods, self.of.questions
        seen = ", ".join(self.metrics["method"]) or "no method"
        if seen != ", ".join(methods):
            raise _unreadable(folder / "metrics.csv", f"rows of {seen} where {MANIFEST} has {', '.join(methods)}")
        rows, path = self.predictions, folder / "predictions.csv"
        if len(rows) != n * len(methods) or rows.duplicated(["method", self.of.question]).any():
            raise _unreadable(path, f"{len(rows)} rows where {len(methods)} methods answer {n} questions once each")
        shares = rows[["probability", "null_probability", "state_probability"]].to_numpy(float)
        if (outside := shares[(shares < 0) | (shares > 1)]).size:
            raise _unreadable(path, f"a probability of {outside[0]:g}")

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
                write_table(getattr(self, name), whole / f"{name}.csv")
            for (variant, fold), fit in self.fits.items():
                fit.save(whole / FITS / f"{variant}-{fold}.nc")
            write_record(self.record.model_dump(mode="json") | {"command": command}, whole / MANIFEST)

    def __repr__(self) -> str:
        best = self.table.iloc[0]
        return (
            f"Evaluation({len(self.table)} methods, {self.design}, {self.how}; best by benefit: {best['method']} "
            f"{best['benefit']:.3f})"
        )

    @property
    def settings(self) -> EvaluationSettings:
        """The settings."""
        return self.record.settings

    @property
    def of(self) -> Origin:
        """What was evaluated."""
        return self.record.test or self.record.observations

    @property
    def design(self) -> str:
        """How many questions were held out, and from what."""
        n, n_folds = counted(self.of.questions, "question"), self.settings.n_folds
        if n_folds is None:
            return f"{n}, fitted to {self.record.observations.questions} others"
        return f"{n}, {n_folds}-fold cross-fit"

    @property
    def how(self) -> str:
        """How it was fitted, and in which preset."""
        return f"{self.settings.fit_method.upper()}, preset {presets.label(self.settings.preset)}"

    @property
    def name(self) -> str:
        """The dataset and the model, or how many there are of them; else the name of the file."""
        parts: list[str] = []
        for names, noun in ((self.of.datasets, "datasets"), (self.of.models, "models")):
            parts += names if len(names) <= 1 else [f"{len(names)} {noun}"]
        return ", ".join(parts) or self.of.file

    @property
    def table(self) -> pd.DataFrame:
        """The most important metrics, one row per method, the greatest benefit first."""
        columns = ["method", "n", "unanswered", "benefit", "benefit_low", "benefit_high", "accuracy_of_all"]
        columns += ["log_score", "ece", "smece", "brier", "nll", "auroc"]
        return self.ranked[columns]

    @property
    def ranked(self) -> pd.DataFrame:
        """All metrics, the greatest benefit first."""
        return self.metrics.sort_values("benefit", ascending=False, kind="stable", ignore_index=True)

    @property
    def method(self) -> str:
        """The method that the evaluation is about: DirEAG, or the last one where that was not evaluated."""
        methods = self.metrics["method"].tolist()
        return DIREAG if DIREAG in methods else str(methods[-1])

    @property
    def rival(self) -> str:
        """The simple method of greatest benefit that learns from labels, else the best other one, else nothing."""
        others = self.metrics.set_index("method")["benefit"].drop(self.method).dropna()
        learning = others[others.index.isin([name for name, method in SIMPLE_METHODS.items() if method.learns])]
        return str((learning if len(learning) else others).idxmax()) if len(others) else ""

    @property
    def method_predictions(self) -> pd.DataFrame:
        """The rows of that method."""
        return self.predictions[self.predictions["method"] == self.method]

    @cached_property
    def answered(self) -> Scored:
        """The labelled questions that the method has answered."""
        return scored_rows(self.method_predictions).answered

    @cached_property
    def calibration(self) -> Calibration:
        """Whether its probabilities hold."""
        answered = self.answered
        return judge_calibration(
            answered.confidence, answered.correct, rng=self.settings.seed, cluster=answered.cluster
        )

    @cached_property
    def thresholds(self) -> pd.DataFrame:
        """How many of its answers reach each probability, their ``share``, and how many are right."""
        table = by_threshold(self.answered.confidence, self.answered.correct, self.settings.interval_level)
        return table.assign(share=table["labelled"] / max(int(self.method_predictions["correct"].notna().sum()), 1))

    @cached_property
    def differences(self) -> pd.DataFrame:
        """How it differs from every other method in benefit, accuracy and log score, question by question.

        See :func:`~analysis.scores.paired.paired_table`.
        """
        settings, tables = self.settings, []
        labelled = self.predictions.dropna(subset="correct").set_index(self.of.question)
        by_method = {str(name): rows for name, rows in labelled.groupby("method")}
        for name in self.metrics["method"]:
            if name == self.method or not {name, self.method} <= by_method.keys():
                continue
            both = by_method[name].index.intersection(by_method[self.method].index)
            table = paired_table(
                *(scored_rows(by_method[side].loc[both]) for side in (name, self.method)),
                metrics=("benefit", "accuracy_of_all", "log_score"),
                seed=settings.seed,
                n_resamples=settings.n_resamples,
                level=settings.interval_level,
            )
            table.insert(0, "method", name)
            table.insert(1, "n", len(both))
            tables.append(table)
        columns = ["method", "n", "metric", "first", "second", "difference", "low", "high", "n_undefined"]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)

    @cached_property
    def convergence(self) -> pd.DataFrame:
        """The fits by ``variant``: their number, how many converged, and the worst of them in words."""
        rows = []
        for variant, table in self.parameters.groupby("variant", sort=False):
            if self.settings.fit_method == "map":
                gradient = table.groupby("fold")["projected_gradient"].first().to_numpy(float)
                fine, worst = gradient <= GRADIENT_TOLERANCE, gradient_in_words(gradient.max())
            else:
                summaries = [sampler_summary(self.fits[str(variant), fold]) for fold in table["fold"].unique()]
                chains, draws, rhat, size, bfmi, divergences = map(np.array, zip(*summaries, strict=True))
                fine = np.array([summary.converged for summary in summaries])
                worst = str(
                    SamplerSummary(chains.max(), draws.min(), rhat.max(), size.min(), bfmi.min(), divergences.max())
                )
            rows.append((variant, len(fine), int(fine.sum()), worst))
        return pd.DataFrame(rows, columns=["variant", "n_fits", "n_converged", "worst"])

    def _draw(self, axes: "Axes") -> None:
        forest(axes, self.table[["benefit", "benefit_low", "benefit_high"]], colour=RIGHT)
        row_labels(axes, self.table["method"].tolist())
        axes.set_xlabel(f"benefit (more is better), {self.settings.interval_level:.0%} interval")


def _read_table(path: Path, types: Mapping[str, str]) -> pd.DataFrame:
    try:
        dtype = defaultdict(lambda: "float64", types)
        table = pd.read_csv(path, dtype=dtype, keep_default_na=False, na_values=[""])
        return table.astype({**types})
    except (FileNotFoundError, KeyError, ValueError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, fault: Exception | str) -> DirEAGError:
    seen = fault if isinstance(fault, str) else " ".join(f"{type(fault).__name__} {fault}".split())[:200]
    return DirEAGError(
        f"{path}: this cannot be read; saw {seen}; expected it as direag evaluate writes it. Evaluate again."
    )


def evaluate(
    observations: Observations,
    test: Observations | None = None,
    *,
    elicited: Mapping[str, Observations] | None = None,
    fit_method: FitMethod = "map",
    preset: PresetLike = "bayes",
    sampling: SamplingSettings | None = None,
    methods: Sequence[str] | None = None,
    vanilla_level: str | None = None,
    labels: pd.DataFrame | str | Path | None = None,
    n_folds: int = 5,
    seed: int = 0,
    n_resamples: int = 1000,
    interval_level: float = 0.95,
    on_step: Callable[[str], None] = lambda _: None,
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
    fit_method, preset, sampling
        Settings of the fits: see :func:`~bayes_direag.fits.making.train_test`.
    methods
        Names from :data:`~analysis.methods.registry.METHODS`, in the order of the tables; by default, all
        that the observations allow.
    vanilla_level
        The level of method ``vanilla``; by default, the level of that name.
    labels
        The table in which the questions were labelled; it says which of them were chosen at random.
    n_folds
        Number of folds of a cross-fit.
    seed
        Seed of the folds and of the bootstrap.
    n_resamples, interval_level
        Number of bootstrap resamples behind each interval, and its probability.
    on_step
        Called with the name of each step.

    Raises
    ------
    DirEAGError
        If a method or level is unknown, no evaluated question is labelled, or the observations cannot be fitted to or
        dealt into folds.
    """
    evaluated = observations if test is None else test
    elicited = elicited or {}
    fitted_to = presets.preset(preset)
    runs = None if fit_method == "map" else sampling or SamplingSettings()
    fitted = fitted_methods(FitSettings(fitted_to, fit_method, runs))
    names = _chosen_methods(methods, evaluated, vanilla_level, elicited, has_two_labels(observations, evaluated))
    absent = [name for name in names if name in FITTED_METHODS and name not in fitted]
    if methods is not None and absent:
        raise DirEAGError(
            f"method {absent[0]} is a variant of the paper's model, which preset {fitted_to.name} has not; expected "
            "preset paper or release."
        )
    settings = EvaluationSettings(
        fit_method=fit_method,
        preset=fitted_to,
        sampling=runs,
        methods=tuple(name for name in names if name not in absent),
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
    for name in {SAMPLED_METHODS[name].elicitation for name in settings.methods if name in SAMPLED_METHODS}:
        if not {*evaluated.problem_id} & {*elicited[name].problem_id}:
            raise DirEAGError(
                f"--{name}: saw none of the {len(evaluated)} evaluated questions, such as {evaluated.problem_id[0]!r}; "
                "expected the same under the same problem_id. Give an elicitation of these."
            )
    registry = {**METHODS, VANILLA: vanilla_method(settings.vanilla_level), **fitted}
    chosen = {name: registry[name] for name in settings.methods}
    learns = any(method.learns for method in chosen.values())
    folds = dealt(observations, test, n_folds, seed) if learns else []
    usable = observations.labelled & observations.answered
    if not all((usable & fold.fitted).any() for fold in folds):
        raise DirEAGError(
            "saw no labelled, answered question to learn from; expected at least one outside each fold. Give more, or "
            "name methods that learn nothing: majority, mean_confidence, steerconf."
        )
    known = {} if labels is None else Labels.of(labels).at_random
    at_random = pd.Series([known.get(name) for name in evaluated.problem_id], dtype="boolean")
    fold_of = np.full(len(evaluated), len(folds))  # the unanswered come last; so do all if no method learns
    for number, fold in enumerate(folds):
        fold_of[fold.asked] = number
    fold_names = pd.Series([*(fold.name for fold in folds), None], dtype="str").take(fold_of).reset_index(drop=True)
    predictions: list[pd.DataFrame] = []
    learned: dict[Learner, list[Any]] = {}
    for name, method in chosen.items():
        if method.elicitation:
            table = _of_elicitation(method, elicited[method.elicitation], evaluated)
        elif not method.learns:
            table = _answer_table(method.answer(method.learn(evaluated, seed), evaluated), evaluated)
        else:
            if method.learn not in learned:
                on_step(f"fitting {name}")
                learned[method.learn] = learn_each(method.learn, folds, observations, seed)
            table = _held_out_answers(method, learned[method.learn], folds, observations, evaluated)
        if not method.elicitation:
            table["answer_as_given"] = as_given(evaluated, table["answer"])
        table = table.assign(method=name, fold=fold_names, at_random=at_random)
        predictions.append(_completed(table, evaluated).iloc[fold_of.argsort(kind="stable")])
    on_step("scoring")
    metrics = scores_of(predictions, seed=seed, n_resamples=n_resamples, interval_level=interval_level)
    fits: dict[tuple[str, str], Fit] = {
        (learner.variant, fold.name): fit
        for learner, states in learned.items()
        if isinstance(learner, FitLearner)
        for fold, fit in zip(folds, states, strict=True)
    }
    record = EvaluationRecord.of(settings, observations=observations, test=test, **elicited)
    table = pd.concat(predictions, ignore_index=True)
    return Evaluation(table, metrics, _parameter_table(fits), record, fits, evaluated)


def _chosen_methods(
    methods: Sequence[str] | None,
    evaluated: Observations,
    vanilla_level: str | None,
    elicited: Mapping[str, Observations],
    of_two_labels: bool,
) -> tuple[str, ...]:
    lacking = {name: of.elicitation for name, of in SAMPLED_METHODS.items() if of.elicitation not in elicited}
    if methods is None:
        missing = set(lacking)
        if vanilla_level is None and VANILLA not in evaluated.level_names:
            missing.add(VANILLA)
        if np.isnan(evaluated.confidence).all():
            missing |= {name for name, method in SIMPLE_METHODS.items() if method.needs_confidences}
        if not of_two_labels:
            missing |= {name for name, method in SIMPLE_METHODS.items() if method.needs_two_labels}
        return tuple(name for name in METHODS if name not in missing)
    for name in methods:
        if name in lacking:
            raise DirEAGError(
                f"method {name} needs an elicitation of its own; expected one under the protocol {lacking[name]}. Give "
                f"its observations with --{lacking[name]}."
            )
    unknown = [name for name in methods if name not in METHODS]
    if unknown or not methods:
        seen = f"unknown method {', '.join(map(repr, unknown))}" if unknown else "no method"
        meant = did_you_mean(unknown[0], METHODS) if unknown else ""
        raise DirEAGError(f"{seen}.{meant} Without --methods all are evaluated, and --all says what each does.")
    return tuple(dict.fromkeys(methods))


def _held_out_answers(
    method: Method, learned: Sequence[Any], folds: Sequence[Fold], learned_from: Observations, evaluated: Observations
) -> pd.DataFrame:
    """Return the answers to the questions of all folds; missing for questions in no fold."""
    tables = []
    for fold, state in zip(folds, learned, strict=True):
        asked = evaluated.select(fold.asked).align(learned_from.level_names, learned_from.groups)
        tables.append(_answer_table(method.answer(state, asked), asked).set_axis(fold.asked, axis=0))
    table = pd.concat(tables).reindex(range(len(evaluated)))
    return table.assign(right=table["right"].astype("boolean").fillna(value=False))


def _answer_table(answers: Answers, asked: Observations) -> pd.DataFrame:
    pairs = zip(asked.candidates, answers.candidate, strict=True)
    return pd.DataFrame(
        {
            "answer": pd.Series([texts[k] if k >= 0 else None for texts, k in pairs], dtype="str"),
            "probability": answers.confidence,
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
    golds, same = [question.gold_answer for question in evaluated.questions], evaluated.same

    def is_right(answer: object, text: Any, gold: str | None) -> bool | None:
        if gold is None or not isinstance(answer, str):
            return None if gold is None else False
        return same_answer(answer, gold, evaluated.kind) or (same is not None and same(gold, text))

    right = list(map(is_right, table["answer"], table["answer_as_given"], golds))
    return table.assign(right=pd.Series(right, dtype="boolean"))


def _completed(table: pd.DataFrame, evaluated: Observations) -> pd.DataFrame:
    """Return all columns of the predictions."""
    correct = table["right"].astype("boolean").mask(~evaluated.labelled)
    complete = table.assign(correct=correct, cluster=cluster_column(evaluated))
    complete[evaluated.question_column] = pd.Series(evaluated.problem_id, dtype="str")
    columns = [evaluated.question_column, "fold", "method", "answer", "answer_as_given", "probability", "correct"]
    columns += ["null_probability", "state_probability", "cluster", "at_random"]
    return complete[columns]


def _parameter_table(fits: Mapping[tuple[str, str], Fit]) -> pd.DataFrame:
    tables = []
    for (variant, fold), fit in fits.items():
        table = fit.parameters()
        table.insert(0, "fold", fold)
        table.insert(1, "variant", variant)
        stats = fit.tree["sample_stats"].to_dataset()
        tables.append(table.assign(**{str(name): float(value.mean()) for name, value in stats.items()}))
    if not tables:
        return pd.DataFrame(columns=[*TABLES["parameters"], "mode"])
    return pd.concat(tables, ignore_index=True)
