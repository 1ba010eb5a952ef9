"""A fit for a service: one file of parameters, which needs only NumPy to be read and used.

The file is JSON with the fields ``format`` and ``version``; ``answers``, how answers are compared; ``scale``, that of
confidences, and ``groups``, the form of the names of levels in a group, null if not known; ``levels``; ``eps``, at
which confidences are clipped; ``parameters`` by name, each with a value (for each level) a posterior draw;
``recalibration``; ``enough_reports``; and ``made_by``, which fit it is. Nothing is left out or rounded,
so a predictor gives the predictions of the fit.
"""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from bayes_direag.data.answers import AnswerKind, canonical
from bayes_direag.data.atomic import atomic_path
from bayes_direag.data.plain import SCALES, ConfidenceScale, group_of, is_percentage, percentage, plain
from bayes_direag.errors import FewReportsWarning, FitFileError, LevelError, ObservationError
from bayes_direag.fits.checked import require_usable
from bayes_direag.fits.few_reports import EnoughReports
from bayes_direag.model.equations import Parameters, Reports, logit_signals
from bayes_direag.model.selection import (
    IDENTITY,
    Recalibration,
    predict,
)

PREDICTOR_FORMAT, PREDICTOR_VERSION = "bayes-direag predictor", 2


@dataclass(frozen=True, eq=False)
class Predictor:
    """A fit written by :meth:`Fit.export <bayes_direag.fits.fit.Fit.export>`, which predicts one question at a time.

    Attributes
    ----------
    answers
        How answers are compared.
    scale
        Whether confidences are percentages or fractions; None: percentages, and what looks like fractions is refused.
    groups
        The form of the names of levels that are in a group, as in :class:`~bayes_direag.data.columns.Columns`, or None.
    levels
        The levels of the fit; a group of levels counts as one.
    voting
        Levels that only vote: their reports need no confidence.
    labels
        The labels that all answers came from in the fit; none if they are no labels.
    signals
        The signals of a report that it uses; ``number`` is the stated confidence.
    eps
        Confidences are clipped to ``[eps, 1 - eps]``.
    parameters
        Natural parameters, each with a leading axis of posterior draws.
    recalibration
        The final calibration.
    enough_reports
        What fewer reports than those of the fitted questions do; None for a partial fit, whose probabilities hold.
    made_by
        The fit it was made from, and the versions of the packages.
    """

    answers: AnswerKind
    scale: ConfidenceScale | None
    groups: str | None
    levels: tuple[str, ...]
    voting: frozenset[str]
    labels: tuple[str, ...]
    signals: tuple[str, ...]
    eps: float
    parameters: Parameters
    recalibration: Recalibration
    enough_reports: EnoughReports | None
    made_by: Mapping[str, str]

    def __repr__(self) -> str:
        draws = len(self.parameters.weight)
        return f"Predictor({'MAP' if draws == 1 else f'{draws} posterior draws'}; levels {', '.join(self.levels)})"

    @classmethod
    def load(cls, path: str | Path) -> "Predictor":
        """Read a predictor; raise FitFileError if there is none, or it is not one that this version can read."""
        remedy = "expected a file written by Fit.export. Export the fit again."
        return read_content(path, (PREDICTOR_FORMAT, PREDICTOR_VERSION), cls.of_content, remedy)

    @classmethod
    def of_content(cls, stored: Mapping[str, Any]) -> "Predictor":
        """Take what :meth:`content` returns; raise any error if it is something else."""
        if stored["answers"] not in get_args(AnswerKind):
            raise ValueError(f"saw {stored['answers']} answers; expected one of {', '.join(get_args(AnswerKind))}")
        if (scale := stored.get("scale")) not in (None, *SCALES):
            raise ValueError(f"saw the scale {scale!r}; expected one of {', '.join(SCALES)}, or null")
        parameters = Parameters(**{name: np.array(draws, float) for name, draws in stored["parameters"].items()})
        group_of(groups := stored.get("groups"), "")
        levels, labels = tuple(stored["levels"]), tuple(stored["labels"] or ())
        signals, eps = tuple(stored.get("signals", ("number",))), float(stored["eps"])
        final, made_by = read_recalibration(stored["recalibration"]), dict(stored["made_by"])
        require_usable(parameters, final, eps=eps, levels=levels, labels=labels, signals=signals)
        voting = frozenset(stored["voting"]).intersection(levels)
        too_high = stored["enough_reports"]
        enough = None if too_high is None else EnoughReports(tuple(map(float, too_high)))
        names = levels, voting, labels, signals
        return cls(stored["answers"], scale, groups, *names, eps, parameters, final, enough, made_by)

    def content(self) -> dict[str, Any]:
        """Return what the file holds."""
        parameters = self.parameters._asdict()
        return {
            "format": PREDICTOR_FORMAT,
            "version": PREDICTOR_VERSION,
            "answers": self.answers,
            "scale": self.scale,
            "groups": self.groups,
            "levels": self.levels,
            "voting": [level for level in self.levels if level in self.voting],
            "labels": self.labels,
            "signals": self.signals,
            "eps": self.eps,
            "enough_reports": None if self.enough_reports is None else self.enough_reports.too_high,
            "parameters": {name: value.tolist() for name, value in parameters.items() if value is not None},
            "recalibration": recalibration_content(self.recalibration),
            "made_by": self.made_by,
        }

    def save(self, path: str | Path) -> None:
        """Write the predictor as JSON, completely or not at all."""
        write_content(self.content(), path)

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
        given = self.read(reports)
        columns = predict(given.reports, self.parameters.of_slots(given.level), self.recalibration, interval_level)
        values = {name: column[0].item() for name, column in columns.items()}
        place = values.pop("candidate")
        defined = {name: None if value != value else value for name, value in values.items()}
        answer, n_used = given.candidates[place] if place >= 0 else None, len(given.level)
        spelled = Counter(text for candidate, text in given.texts if candidate == answer).most_common(1)
        about = {"n_candidates": len(given.candidates), "n_used": n_used}
        if self.enough_reports is not None:
            n_reports = np.array([n_used])
            about["few_reports"] = bool(self.enough_reports.few(n_reports)[0])
            if remark := self.enough_reports.remark(n_reports):
                warnings.warn(remark, FewReportsWarning, stacklevel=2)
        return {"answer": answer, "answer_as_given": spelled[0][0] if spelled else None, **defined, **about}

    def read(self, reports: Sequence[Mapping[str, object]]) -> "Read":
        """Read the reports on one question; raise LevelError or ObservationError as :meth:`predict` does."""
        if isinstance(reports, str | Mapping) or not isinstance(reports, Sequence):
            raise _report_error(
                "this value cannot be used", "reports", reports, "a list of reports", "Make a list of them."
            )
        read = [self._read(place, report) for place, report in enumerate(reports)]
        self._check_levels(reports, [level for level, *_ in read])
        by_signal = zip(*(percents for _, _, percents, *_ in read), strict=True)
        for column in by_signal if self.scale is None else ():
            stated = [percent for percent in column if percent is not None]
            if stated and max(stated) <= 1 and any(0 < percent < 1 for percent in stated):
                problem = "all confidences are at most 1, so they look like fractions"
                raise _report_error(
                    problem, "confidence", max(stated), "percentages, 0 to 100", "Multiply them by 100."
                )
        no_signals = (None,) * len(self.signals)
        usable = [
            (level, text, no_signals if self.levels[level] in self.voting else percents, given)
            for level, text, percents, is_stated, given in read
            if text is not None and (self.levels[level] in self.voting or is_stated)
        ]
        used = sorted(usable, key=lambda report: report[0])
        candidates = sorted({text for _, text, *_ in used})
        number = {text: place for place, text in enumerate(candidates)}
        percent = np.array([percents for _, _, percents, _ in used], float).reshape(-1, len(self.signals))
        confidence = logit_signals([*percent.T / 100], self.eps)
        label = np.array([self.labels.index(text) if text in self.labels else -1 for _, text, *_ in used], int)
        candidate = np.array([number[text] for _, text, *_ in used], int)
        texts = [(text, given) for _, text, *_, given in read if text is not None]
        arrays = Reports(confidence[None], candidate[None], np.array([len(candidates)]), label[None])
        return Read(arrays, [level for level, *_ in used], candidates, texts, [level for level, *_ in read])

    def _check_levels(self, reports: Sequence[Mapping[str, object]], levels: Sequence[int]) -> None:
        """Raise ObservationError if two reports are of one level, in any spelling; those of a group may be many."""
        alone = {level for level, report in zip(levels, reports, strict=True) if not self._group(report)}
        seen: set[tuple[int, object]] = set()
        for place, (level, report) in enumerate(zip(levels, reports, strict=True)):
            names = (report.get("level"), report.get("level_name"), (place,))
            key = level, None if level in alone else next(name for name in names if name is not None)
            if key in seen:
                expected, remedy = "every level once", "Remove one of the two."
                raise _report_error("a level occurs twice", f"reports[{place}]", self.levels[level], expected, remedy)
            seen.add(key)

    def _read(
        self, place: int, report: Mapping[str, object]
    ) -> tuple[int, str | None, tuple[float | None, ...], bool, str]:
        """Return a report's level number, canonical answer, signals, whether any is stated, and its answer as given."""

        def unusable(field: str, seen: object, expected: str, remedy: str) -> ObservationError:
            return _report_error("this value cannot be used", f"reports[{place}]{field}", seen, expected, remedy)

        if not isinstance(report, Mapping):
            raise unusable("", report, "an object with level, answer and confidence", "Write one for each report.")
        for field in ("level", "level_name", "group"):
            if not isinstance(report.get(field), str | int | None):
                raise unusable(f".{field}", report[field], "a name or a number", "Write the level's name.")
        name = self._group(report) or _name(report)
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
        percents = []
        for signal in self.signals:
            stated = percentage(signals.get(signal))
            scale = "percent" if is_percentage(signals.get(signal)) else self.scale or "percent"
            low, high = SCALES[scale]
            if stated is not None and (
                isinstance(stated, bool) or not isinstance(stated, int | float) or not low <= stated <= high
            ):
                field = ".confidence" if signal == "number" else f".confidences.{signal}"
                remedy = "Write it in percent." if scale == "percent" else f"Write it on the scale {scale}."
                raise unusable(field, stated, f"a number from {low} to {high}, or null", remedy)
            if stated is not None:
                stated = float(stated) if scale == "percent" else round(100 * (stated - low) / (high - low), 12)
            percents.append(stated)
        try:
            text = None if answer is None else canonical(str(answer), self.answers)
            (text or "").encode()
        except ValueError:  # of an integer of thousands of digits, or half a character
            raise unusable(".answer", answer, "text that can be written", "Correct it.") from None
        is_stated = any(value is not None for value in signals.values())
        return self.levels.index(str(name)), text, tuple(percents), is_stated, str(answer)

    def _group(self, report: Mapping[str, object]) -> object:
        """Return the group of a report, if it has one."""
        return report.get("group") or group_of(self.groups, str(_name(report)))


class Read(NamedTuple):
    """The reports on one question."""

    #: The usable ones.
    reports: Reports
    #: The level of each of them.
    level: list[int]
    #: The distinct answers, in string order.
    candidates: list[str]
    #: The readable answers, canonical and as given, in the order of the reports.
    texts: list[tuple[str, str]]
    #: The level of every report, usable or not.
    asked: list[int]


def recalibration_content(final: Recalibration) -> dict[str, Any]:
    """Return a final calibration as a file holds it."""
    values = {name: value.ravel().tolist() for name, value in final.coefficients.items()}
    return {"method": final.method, "eps": final.eps, "most_reports": final.most_reports, "values": values}


def read_recalibration(stored: Mapping[str, Any]) -> Recalibration:
    """Read a final calibration from what a file holds."""
    values = {name: np.array(given, float) for name, given in stored["values"].items()}
    coefficients = {name: values[name][None] for name in IDENTITY if name in values}
    return Recalibration(stored["method"], coefficients, float(stored["eps"]), int(stored.get("most_reports", 1)))


def write_content(content: Mapping[str, Any], path: str | Path) -> None:
    """Write JSON, completely or not at all."""
    with atomic_path(path) as partial_path:
        partial_path.write_text(json.dumps(content, allow_nan=False), encoding="utf-8")


def read_content[Content](
    path: str | Path, expected: tuple[str, int], read: Callable[[Any], Content], remedy: str
) -> Content:
    """Read a JSON file of this format and version; raise FitFileError for whatever is wrong with it."""
    try:
        stored = json.loads(Path(path).read_text(encoding="utf-8"))
        if (seen := (stored["format"], stored["version"])) != expected:
            raise ValueError(f"saw {seen[0]} {seen[1]}; expected {expected[0]} {expected[1]}")
        return read(stored)
    except Exception as error:  # whatever is wrong with a file
        cause = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        name = expected[0].removeprefix("bayes-direag ")
        raise FitFileError(f"{path}: not a {name} that this version can read ({cause}); {remedy}") from error


def _name(report: Mapping[str, object]) -> object:
    """Return the name of a report's level."""
    level = report.get("level")
    return level if isinstance(level, str) else report.get("level_name") or f"level_{level}"


def _report_error(problem: str, field: str, seen: object, expected: str, remedy: str) -> ObservationError:
    return ObservationError(problem, field=field, seen=seen, expected=expected, remedy=remedy)
