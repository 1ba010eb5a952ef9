"""A fit for a service: one file of parameters, which needs only NumPy to be read and used.

The file is JSON with the fields ``format`` and ``version``; ``answers``, how answers are compared; ``levels``; ``eps``,
at which confidences are clipped; ``parameters`` by name, each with a value (for each level) a posterior draw;
``recalibration``; and ``made_by``, which fit it is. Nothing is thinned or rounded, so a predictor gives the predictions
of the fit.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from bayes_direag.data.answers import AnswerKind, canonical
from bayes_direag.errors import DirEAGError, FitFileError, LevelError, ObservationError
from bayes_direag.model.equations import Parameters, Reports, logit_signals
from bayes_direag.model.selection import (
    IsotonicRecalibration,
    LogisticRecalibration,
    Recalibration,
    evaluate,
    select,
    summary,
)

FORMAT, VERSION = "bayes-direag predictor", 1


@dataclass(frozen=True, eq=False)
class Predictor:
    """A fit written by :meth:`Fit.export <bayes_direag.fits.fit.Fit.export>`, which predicts one question at a time.

    Attributes
    ----------
    answers
        How answers are compared.
    levels
        The levels of the fit; a group of levels counts as one.
    voting
        Levels that only vote: their reports need no confidence.
    labels
        The labels of the fit, if it has votes by label.
    signals
        The signals of a report that it uses; ``number`` is the stated confidence.
    eps
        Confidences are clipped to ``[eps, 1 - eps]``.
    parameters
        Natural parameters, each with a leading axis of posterior draws.
    recalibration
        The final calibration.
    made_by
        The fit it was made from, and the versions of the packages.
    """

    answers: AnswerKind
    levels: tuple[str, ...]
    voting: frozenset[str]
    labels: tuple[str, ...]
    signals: tuple[str, ...]
    eps: float
    parameters: Parameters
    recalibration: Recalibration
    made_by: Mapping[str, str]

    def __repr__(self) -> str:
        draws = len(self.parameters.weight)
        return f"Predictor({'MAP' if draws == 1 else f'{draws} posterior draws'}; levels {', '.join(self.levels)})"

    @classmethod
    def load(cls, path: str | Path) -> "Predictor":
        """Read a predictor; raise FitFileError if there is none, or it is not one that this version can read."""
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
            if (stored["format"], stored["version"]) != (FORMAT, VERSION):
                raise ValueError(f"saw {stored['format']} {stored['version']}; expected {FORMAT} {VERSION}")
            if stored["answers"] not in get_args(AnswerKind):
                raise ValueError(f"saw {stored['answers']} answers; expected one of {', '.join(get_args(AnswerKind))}")
            parameters = {name: np.array(values, float) for name, values in stored["parameters"].items()}
            n, levels, labels = len(parameters["weight"]), tuple(stored["levels"]), tuple(stored["labels"] or ())
            method, values = stored["recalibration"]["method"], stored["recalibration"]["values"]
            if method not in (*LogisticRecalibration.METHODS, IsotonicRecalibration.method):
                methods = ", ".join((*LogisticRecalibration.METHODS, IsotonicRecalibration.method))
                raise ValueError(f"saw a final calibration by {method}; expected one of {methods}")
            shapes: dict[str, tuple[int, ...]] = dict.fromkeys(parameters, (n,))
            shapes |= dict.fromkeys(("weight", "bias", "vote"), (n, len(levels)))
            shapes["label_vote"] = (n, len(levels), len(labels))
            signals = tuple(stored.get("signals", ("number",)))
            shapes |= dict.fromkeys(("slope", "vote_slope"), (n, len(signals)) if len(signals) > 1 else (n,))
            wrong = [
                name
                for name, draws in parameters.items()
                if draws.shape != shapes[name] or not np.isfinite(draws).all()
            ]
            if wrong or not {"prior_strength", "null_base"} <= parameters.keys():
                raise ValueError(
                    f"parameters {', '.join(wrong or parameters)} are not {n} draws of {len(levels)} levels"
                )
            if method == "isotonic":
                knots = np.array([values["support"], values["probability"]], float)
                recalibration: Recalibration = IsotonicRecalibration(*knots)
            else:
                both = np.array([values["intercept"], values["slope"]], float).reshape(2, 1, n)
                final = dict(zip(("intercept", "slope"), both, strict=True))
                recalibration = LogisticRecalibration(method, final, float(stored["recalibration"]["eps"]))
            known = levels, frozenset(stored["voting"]), labels, signals, float(stored["eps"])
            return cls(stored["answers"], *known, Parameters(**parameters), recalibration, stored["made_by"])
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            cause = f"{type(error).__name__}: {error}"
            raise FitFileError(
                f"{path}: not a predictor that this version can read ({cause}); expected a file written by "
                "`direag export`. Export the fit again."
            ) from error

    def predict(
        self, reports: Sequence[Mapping[str, object]], *, interval_level: float = 0.9
    ) -> dict[str, str | float | int | None]:
        """Select the answer to one question, with the probability that it is right.

        Parameters
        ----------
        reports
            Its reports, as on a line of an observation file: ``level`` (a name or a number) or ``level_name``, or the
            ``group``; ``answer``; ``confidence`` and ``confidences``, in percent. A report without a readable answer
            does not count, nor does one without any confidence, unless its level only votes.
        interval_level
            Posterior probability of the interval, if there are several draws.

        Returns
        -------
        dict
            The columns of :meth:`Fit.predict <bayes_direag.fits.fit.Fit.predict>`, from ``answer`` on. Without a usable
            report, undefined values are None.

        Raises
        ------
        LevelError
            For a level that the fit has not learned.
        ObservationError
            For other reports that cannot be used, and for confidences that look like fractions.
        DirEAGError
            If the interval level is out of range.
        """
        if not 0 < interval_level < 1:
            raise DirEAGError(f"interval level {interval_level}: expected a probability between 0 and 1, such as 0.9.")
        read = [self._read(place, report) for place, report in enumerate(reports)]
        named = [report["level"] for report in reports if report.get("level") is not None]
        if len(set(named)) < len(named):
            raise _unusable("a level occurs twice", "level", named, "every level once", "Remove one of the two.")
        for column in zip(*(percents for _, _, percents, _ in read), strict=True):
            stated = [percent for percent in column if percent is not None]
            if len(stated) >= 5 and max(stated) <= 1 and any(0 < percent < 1 for percent in stated):
                problem = "all confidences are at most 1, so they look like fractions"
                raise _unusable(problem, "confidence", max(stated), "percentages, 0 to 100", "Multiply them by 100.")
        no_signals = (None,) * len(self.signals)
        usable = [
            (level, text, no_signals if self.levels[level] in self.voting else percents)
            for level, text, percents, is_stated in read
            if text is not None and (self.levels[level] in self.voting or is_stated)
        ]
        used = sorted(usable, key=lambda report: report[0])
        candidates = sorted({text for _, text, _ in used})
        level = [level for level, _, _ in used]
        percent = np.array([percents for *_, percents in used], float).reshape(-1, len(self.signals))
        confidence = logit_signals([*percent.T / 100], self.eps)
        label = np.array([self.labels.index(text) if text in self.labels else -1 for _, text, _ in used], int)
        candidate = np.array([candidates.index(text) for _, text, _ in used], int)
        asked = Reports(confidence[None], candidate[None], np.array([len(candidates)]), label[None])
        (selection,) = evaluate(asked, self.parameters.of_slots(level), select)
        columns = summary(selection, self.recalibration, interval_level)
        values = {name: column[0].item() for name, column in columns.items()}
        place = values.pop("candidate")
        del values["tied"]
        plain = {name: None if value != value else value for name, value in values.items()}
        answer = candidates[place] if place >= 0 else None
        return {"answer": answer, **plain, "n_candidates": len(candidates), "n_used": len(used)}

    def _read(self, place: int, report: Mapping[str, object]) -> tuple[int, str | None, tuple[float | None, ...], bool]:
        """Return a report's level number, its canonical answer, its signals, and whether it states any confidence."""
        level = report.get("level")
        called = level if isinstance(level, str) else report.get("level_name") or f"level_{level}"
        name = report.get("group") or called
        if name not in self.levels:
            raise LevelError(
                f"reports[{place}]: this level is unknown to the fit; saw {name!r}; expected one of "
                f"{', '.join(self.levels)}. Rename the level if it is one of these; else leave its report out."
            )
        answer, given = report.get("answer"), report.get("confidences") or {}
        if isinstance(answer, bool) or not isinstance(answer, str | int | float | None):
            field = f"reports[{place}].answer"
            raise _unusable("this value cannot be used", field, answer, "text, a number or null", "Write it as text.")
        if not isinstance(given, Mapping):
            field = f"reports[{place}].confidences"
            raise _unusable("this value cannot be used", field, given, "numbers by name", "Name the signals.")
        percents = []
        for signal in self.signals:
            stated = report.get("confidence") if signal == "number" else None
            percent = given.get(signal) if stated is None else stated
            if percent is not None and (
                isinstance(percent, bool) or not isinstance(percent, int | float) or not 0 <= percent <= 100
            ):
                field = f"reports[{place}].confidence" + ("" if signal == "number" else f"s.{signal}")
                expected, remedy = "a number from 0 to 100, or null", "Write it in percent."
                raise _unusable("this value cannot be used", field, percent, expected, remedy)
            percents.append(None if percent is None else float(percent))
        text = None if answer is None else canonical(str(answer), self.answers)
        is_stated = any(value is not None for value in (report.get("confidence"), *given.values()))
        return self.levels.index(str(name)), text, tuple(percents), is_stated


def _unusable(problem: str, field: str, seen: object, expected: str, remedy: str) -> ObservationError:
    return ObservationError(problem, field=field, seen=seen, expected=expected, remedy=remedy)
