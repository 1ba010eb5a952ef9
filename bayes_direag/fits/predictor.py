"""A fit for a service: one file of parameters, which needs only NumPy to be read and used.

The file is JSON with the fields ``format`` and ``version``; ``answers``, how answers are compared; ``scale``, that of
confidences, null if it is not known; ``levels``; ``eps``, at which confidences are clipped; ``parameters`` by name,
each with a value (for each level) a posterior draw; ``recalibration``; ``enough_reports`` and ``partial``; and
``made_by``, which fit it is. Nothing is left out or rounded, so a predictor gives the predictions of the fit.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from bayes_direag.data.answers import AnswerKind, canonical
from bayes_direag.data.plain import plain
from bayes_direag.errors import FewReportsWarning, FitFileError, LevelError, ObservationError
from bayes_direag.fits.checked import require_usable
from bayes_direag.fits.few_reports import EnoughReports, FewReports
from bayes_direag.model.equations import Parameters, Reports, logit_signals
from bayes_direag.model.selection import (
    IDENTITY,
    IsotonicRecalibration,
    LogisticRecalibration,
    Recalibration,
    predict,
)

PREDICTOR_FORMAT, PREDICTOR_VERSION = "bayes-direag predictor", 1


@dataclass(frozen=True, eq=False)
class Predictor:
    """A fit written by :meth:`Fit.export <bayes_direag.fits.fit.Fit.export>`, which predicts one question at a time.

    Attributes
    ----------
    answers
        How answers are compared.
    scale
        Whether confidences are percentages or fractions; None: percentages, and what looks like fractions is refused.
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
    enough_reports
        How many usable reports the fitted questions had.
    partial
        Whether the fit is partial, so that probabilities hold for questions that lack reports.
    made_by
        The fit it was made from, and the versions of the packages.
    """

    answers: AnswerKind
    scale: Literal["percent", "fraction"] | None
    levels: tuple[str, ...]
    voting: frozenset[str]
    labels: tuple[str, ...]
    signals: tuple[str, ...]
    eps: float
    parameters: Parameters
    recalibration: Recalibration
    enough_reports: EnoughReports
    partial: bool
    made_by: Mapping[str, str]

    def __repr__(self) -> str:
        draws = len(self.parameters.weight)
        return f"Predictor({'MAP' if draws == 1 else f'{draws} posterior draws'}; levels {', '.join(self.levels)})"

    @classmethod
    def load(cls, path: str | Path) -> "Predictor":
        """Read a predictor; raise FitFileError if there is none, or it is not one that this version can read."""
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
            if (stored["format"], stored["version"]) != (PREDICTOR_FORMAT, PREDICTOR_VERSION):
                raise ValueError(
                    f"saw {stored['format']} {stored['version']}; expected {PREDICTOR_FORMAT} {PREDICTOR_VERSION}"
                )
            if stored["answers"] not in get_args(AnswerKind):
                raise ValueError(f"saw {stored['answers']} answers; expected one of {', '.join(get_args(AnswerKind))}")
            if (scale := stored.get("scale")) not in (None, "percent", "fraction"):
                raise ValueError(f"saw the scale {scale!r}; expected percent, fraction or null")
            parameters = Parameters(**{name: np.array(draws, float) for name, draws in stored["parameters"].items()})
            levels, labels = tuple(stored["levels"]), tuple(stored["labels"] or ())
            signals, eps = tuple(stored.get("signals", ("number",))), float(stored["eps"])
            method, made_by = stored["recalibration"]["method"], dict(stored["made_by"])
            values = {name: np.array(given, float) for name, given in stored["recalibration"]["values"].items()}
            if method == IsotonicRecalibration.method:
                final: Recalibration = IsotonicRecalibration(values["support"], values["probability"])
            else:
                coefficients = {name: values[name][None] for name in IDENTITY if name in values}
                of_final = float(stored["recalibration"]["eps"]), int(stored["recalibration"].get("most_reports", 1))
                final = LogisticRecalibration(method, coefficients, *of_final)
            require_usable(parameters, final, eps=eps, levels=levels, labels=labels, signals=signals)
            voting = frozenset(stored["voting"]).intersection(levels)
            fitted = EnoughReports(*map(int, stored.get("enough_reports", (0, 0))))
            partial = bool(stored.get("partial", False))
            names = levels, voting, labels, signals
            return cls(stored["answers"], scale, *names, eps, parameters, final, fitted, partial, made_by)
        except Exception as error:  # whatever is wrong with a file
            cause = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            raise FitFileError(
                f"{path}: not a predictor that this version can read ({cause}); expected a file written by "
                "`direag export`. Export the fit again."
            ) from error

    def predict(
        self, reports: Sequence[Mapping[str, object]], *, interval_level: float = 0.9
    ) -> dict[str, str | float | int | bool | None]:
        """Select the answer to one question, with the probability that it is right.

        Parameters
        ----------
        reports
            Its reports, as on a line of an observation file: ``level`` (a name or a number) or ``level_name``, or the
            ``group``; ``answer``; ``confidence`` and ``confidences``, in percent, or in fractions if ``scale`` says so.
            A report without a readable answer does not count, nor does one without any confidence, unless its level
            only votes.
        interval_level
            Posterior probability of the interval, if there are several draws.

        Returns
        -------
        dict
            The columns of :meth:`Fit.predict <bayes_direag.fits.fit.Fit.predict>`, from ``answer`` on. Without a usable
            report, undefined values are None. With too few of them there is a
            :class:`~bayes_direag.errors.FewReportsWarning`, unless the fit is partial.

        Raises
        ------
        LevelError
            For a level that the fit has not learned.
        ObservationError
            For other reports that cannot be used, and for confidences that look like fractions.
        DirEAGError
            If the interval level is out of range.
        """
        if isinstance(reports, str | Mapping) or not isinstance(reports, Sequence):
            raise _report_error(
                "this value cannot be used", "reports", reports, "a list of reports", "Make a list of them."
            )
        read = [self._read(place, report) for place, report in enumerate(reports)]
        self._check_levels(reports, [level for level, *_ in read])
        by_signal = zip(*(percents for _, _, percents, _ in read), strict=True)
        for column in by_signal if self.scale is None else ():
            stated = [percent for percent in column if percent is not None]
            if stated and max(stated) <= 1 and any(0 < percent < 1 for percent in stated):
                problem = "all confidences are at most 1, so they look like fractions"
                raise _report_error(
                    problem, "confidence", max(stated), "percentages, 0 to 100", "Multiply them by 100."
                )
        no_signals = (None,) * len(self.signals)
        usable = [
            (level, text, no_signals if self.levels[level] in self.voting else percents)
            for level, text, percents, is_stated in read
            if text is not None and (self.levels[level] in self.voting or is_stated)
        ]
        used = sorted(usable, key=lambda report: report[0])
        candidates = sorted({text for _, text, _ in used})
        number = {text: place for place, text in enumerate(candidates)}
        level = [level for level, _, _ in used]
        percent = np.array([percents for *_, percents in used], float).reshape(-1, len(self.signals))
        confidence = logit_signals([*percent.T / 100], self.eps)
        label = np.array([self.labels.index(text) if text in self.labels else -1 for _, text, _ in used], int)
        candidate = np.array([number[text] for _, text, _ in used], int)
        asked = Reports(confidence[None], candidate[None], np.array([len(candidates)]), label[None])
        columns = predict(asked, self.parameters.of_slots(level), self.recalibration, interval_level)
        values = {name: column[0].item() for name, column in columns.items()}
        place = values.pop("candidate")
        defined = {name: None if value != value else value for name, value in values.items()}
        answer = candidates[place] if place >= 0 else None
        n_used = np.array([len(used)])
        if not self.partial and (few := FewReports.of(n_used, self.enough_reports.enough)):
            warnings.warn(few.remark(1, self.enough_reports), FewReportsWarning, stacklevel=2)
        few_reports = len(used) < self.enough_reports.enough
        return {
            "answer": answer,
            **defined,
            "n_candidates": len(candidates),
            "n_used": len(used),
            "few_reports": few_reports,
        }

    def _check_levels(self, reports: Sequence[Mapping[str, object]], levels: Sequence[int]) -> None:
        """Raise ObservationError if two reports are of one level, in any spelling; those of a group may be many."""
        alone = {level for level, report in zip(levels, reports, strict=True) if not report.get("group")}
        seen: set[tuple[int, object]] = set()
        for place, (level, report) in enumerate(zip(levels, reports, strict=True)):
            names = (report.get("level"), report.get("level_name"), (place,))
            key = level, None if level in alone else next(name for name in names if name is not None)
            if key in seen:
                expected, remedy = "every level once", "Remove one of the two."
                raise _report_error("a level occurs twice", f"reports[{place}]", self.levels[level], expected, remedy)
            seen.add(key)

    def _read(self, place: int, report: Mapping[str, object]) -> tuple[int, str | None, tuple[float | None, ...], bool]:
        """Return a report's level number, its canonical answer, its signals, and whether it states any confidence."""

        def unusable(field: str, seen: object, expected: str, remedy: str) -> ObservationError:
            return _report_error("this value cannot be used", f"reports[{place}]{field}", seen, expected, remedy)

        if not isinstance(report, Mapping):
            raise unusable("", report, "an object with level, answer and confidence", "Write one for each report.")
        for field in ("level", "level_name", "group"):
            if not isinstance(report.get(field), str | int | None):
                raise unusable(f".{field}", report[field], "a name or a number", "Write the level's name.")
        level = report.get("level")
        called = level if isinstance(level, str) else report.get("level_name") or f"level_{level}"
        name = report.get("group") or called
        if name not in self.levels:
            raise LevelError(
                f"reports[{place}]: this level is unknown to the fit; saw {str(name)[:60]!r}; expected one of "
                f"{', '.join(self.levels)}. Rename the level if it is one of these; else leave its report out."
            )
        answer, given = plain(report.get("answer")), report.get("confidences") or {}
        if isinstance(answer, bool) or not isinstance(answer, str | int | float | None):
            raise unusable(".answer", answer, "text, a number or null", "Write it as text.")
        if not isinstance(given, Mapping):
            raise unusable(".confidences", given, "numbers by name", "Name the signals.")
        signals = {name: plain(value) for name, value in given.items()}
        if (stated := plain(report.get("confidence"))) is not None:
            signals["number"] = stated
        percents, of_fractions = [], self.scale == "fraction"
        largest, remedy = (1, "Write it as a fraction.") if of_fractions else (100, "Write it in percent.")
        for signal in self.signals:
            stated = signals.get(signal)
            if stated is not None and (
                isinstance(stated, bool) or not isinstance(stated, int | float) or not 0 <= stated <= largest
            ):
                field = ".confidence" if signal == "number" else f".confidences.{signal}"
                raise unusable(field, stated, f"a number from 0 to {largest}, or null", remedy)
            percents.append(None if stated is None else round(100 * stated, 12) if of_fractions else float(stated))
        try:
            text = None if answer is None else canonical(str(answer), self.answers)
            (text or "").encode()
        except ValueError:  # of an integer of thousands of digits, or half a character
            raise unusable(".answer", answer, "text that can be written", "Correct it.") from None
        is_stated = any(value is not None for value in signals.values())
        return self.levels.index(str(name)), text, tuple(percents), is_stated


def _report_error(problem: str, field: str, seen: object, expected: str, remedy: str) -> ObservationError:
    return ObservationError(problem, field=field, seen=seen, expected=expected, remedy=remedy)
