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

from bayes_direag.data.answers import TRUTH_VALUES, AnswerKind, canonical
from bayes_direag.data.atomic import atomic_path
from bayes_direag.data.plain import SCALES, ConfidenceScale, on_percent_scale, plain
from bayes_direag.data.runs import NO_GROUPS, group_of
from bayes_direag.errors import FewReportsWarning, FitFileError, LevelError, ObservationError
from bayes_direag.model.equations import Equations, Parameters, Reports, logit_signals
from bayes_direag.model.lacking import EnoughReports, unstated, unstated_remark
from bayes_direag.model.selection import IDENTITY, Recalibration, predict

PREDICTOR_FORMAT, PREDICTOR_VERSION = "bayes-direag predictor", 2

#: Larger than any parameter of a fit.
_LARGEST = 1e12
_NOT_NEGATIVE = {"weight", "prior_strength", "null_base", "null_gain", "sharpness"}


@dataclass(frozen=True, eq=False)
class Predictor:
    """A fit written by :meth:`Fit.export <bayes_direag.fits.fit.Fit.export>`, which predicts one question at a time."""

    #: How answers are compared.
    answers: AnswerKind
    #: Whether confidences are percentages or fractions; None: percentages, and what looks like fractions is refused.
    scale: ConfidenceScale | None
    #: The form of the names of levels that are in a group, as in :class:`~bayes_direag.data.columns.Columns`, or None.
    groups: str | None
    #: The levels of the fit; a group of levels counts as one. Reports of those that only vote need no confidence.
    levels: tuple[str, ...]
    voting: frozenset[str]
    #: The labels that all answers came from in the fit; none if they are no labels.
    labels: tuple[str, ...]
    #: The signals of a report that it uses; ``number`` is the stated confidence.
    signals: tuple[str, ...]
    #: Confidences are clipped to ``[eps, 1 - eps]``.
    eps: float
    #: What fewer reports than those of the fitted questions do; None for a partial fit, whose probabilities hold.
    enough_reports: EnoughReports | None
    #: Natural parameters, each with a leading axis of posterior draws.
    parameters: Parameters
    #: The final calibration.
    recalibration: Recalibration
    #: The fit it was made from, and the versions of the packages.
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
        require_usable(
            parameters, final, eps=eps, n=len(parameters.weight), levels=levels, labels=labels, signals=signals
        )
        voting = frozenset(stored["voting"]).intersection(levels)
        excess = stored["enough_reports"]
        enough = None if excess is None else EnoughReports(tuple(map(float, excess)))
        names = levels, voting, labels, signals
        return cls(stored["answers"], scale, groups, *names, eps, enough, parameters, final, made_by)

    def require_usable(self, final: Recalibration) -> None:
        """Raise ValueError unless parameters and a final calibration are as many numbers as draws and levels need."""
        names = {"levels": self.levels, "labels": self.labels, "signals": self.signals}
        require_usable(self.parameters, final, eps=self.eps, n=len(self.parameters.weight), **names)

    def content(self) -> dict[str, Any]:
        """Return what the file holds."""
        changed = {
            "voting": [level for level in self.levels if level in self.voting],
            "enough_reports": None if self.enough_reports is None else self.enough_reports.excess,
            "parameters": {name: of.tolist() for name, of in self.parameters._asdict().items() if of is not None},
            "recalibration": recalibration_content(self.recalibration),
        }
        return {"format": PREDICTOR_FORMAT, "version": PREDICTOR_VERSION} | vars(self) | changed

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
            only votes. If the labels of the fit are true and false, other answers are not readable.
        interval_level
            Posterior probability of the interval, if there are several draws.

        Returns
        -------
        dict
            The columns of :meth:`Fit.predict <bayes_direag.fits.fit.Fit.predict>`, from ``answer`` on. Without a usable
            report, undefined values are None. With too few of them, unless the fit is partial, and where no usable
            report states a signal of the fit, there is a :class:`~bayes_direag.errors.FewReportsWarning`.

        Raises
        ------
        LevelError
            For a level that the fit has not learned.
        ObservationError
            For other reports that cannot be used, and for confidences that look like fractions.
        DirEAGError
            If the interval level is out of range.
        """
        read = self.read(reports)
        evaluation = Equations(read.reports, self.parameters.of_slots(read.level))
        columns = predict(evaluation, self.recalibration, interval_level)
        values = {name: column[0].item() for name, column in columns.items()}
        selected = values.pop("candidate")
        defined = {name: None if value != value else value for name, value in values.items()}
        answer, n_used = read.candidates[selected] if selected >= 0 else None, len(read.level)
        spelled = Counter(text for candidate, text in read.texts if candidate == answer).most_common(1)
        about = {"n_candidates": len(read.candidates), "n_used": n_used}
        if self.enough_reports is not None:
            n_reports = np.array([n_used])
            about["few_reports"] = bool(self.enough_reports.few(n_reports)[0])
            if remark := self.enough_reports.remark(n_reports):
                warnings.warn(remark, FewReportsWarning, stacklevel=2)
        if remark := unstated_remark(read.unstated):
            warnings.warn(remark, FewReportsWarning, stacklevel=2)
        return {"answer": answer, "answer_as_given": spelled[0][0] if spelled else None, **defined, **about}

    def read(self, reports: Sequence[Mapping[str, object]]) -> "Read":
        """Read the reports on one question; raise LevelError or ObservationError as :meth:`predict` does."""
        if isinstance(reports, str | Mapping) or not isinstance(reports, Sequence):
            raise _unusable("reports", reports, "a list of reports", "Make a list of them.")
        read = [self._read(f"reports[{number}]", report) for number, report in enumerate(reports)]
        self._check_levels(reports, read)
        for column in zip(*(report.percents for report in read), strict=True) if self.scale is None else ():
            stated = [percent for percent in column if percent is not None]
            if stated and max(stated) <= 1 and any(0 < percent < 1 for percent in stated):
                problem = "all confidences are at most 1, so they look like fractions"
                expected, remedy = "percentages, 0 to 100", "Multiply them by 100."
                raise _unusable("confidence", max(stated), expected, remedy, problem)
        used = sorted((report for report in read if report.is_usable), key=lambda report: report.level)
        candidates = sorted({report.text for report in used if report.text is not None})
        votes = (None,) * len(self.signals)
        percents = [votes if self.levels[report.level] in self.voting else report.percents for report in used]
        percent = np.array(percents, float).reshape(-1, len(self.signals))
        label = [self.labels.index(report.text) if report.text in self.labels else -1 for report in used]
        candidate = [candidates.index(report.text or "") for report in used]
        arrays = Reports(
            logit_signals([*percent.T / 100], self.eps)[None],
            np.array([candidate], int),
            np.array([len(candidates)]),
            np.array([label], int),
        )
        texts = [(report.text, report.as_given) for report in read if report.text is not None]
        levels, asked = [report.level for report in used], [report.level for report in read]
        states = [self.levels[level] not in self.voting for level in levels]
        return Read(arrays, levels, candidates, texts, asked, unstated(self.signals, percent[states]))

    def _check_levels(self, reports: Sequence[Mapping[str, object]], read: Sequence["_Report"]) -> None:
        """Raise ObservationError if two reports are of one level, in any spelling; those of a group may be many."""
        levels = [report.level for report in read]
        alone = {level for level, report in zip(levels, reports, strict=True) if not self._group(report)}
        seen: set[tuple[int, object]] = set()
        for number, (level, report) in enumerate(zip(levels, reports, strict=True)):
            names = (report.get("level"), report.get("level_name"), (number,))
            key = level, None if level in alone else next(name for name in names if name is not None)
            if key in seen:
                field, problem = f"reports[{number}]", "a level occurs twice"
                remedy = "Remove one of the two, or write runs of one group with 'group' in place of 'level'."
                raise _unusable(field, self.levels[level], "every level once", remedy, problem)
            seen.add(key)

    def _read(self, field: str, report: Mapping[str, object]) -> "_Report":
        if not isinstance(report, Mapping):
            raise _unusable(field, report, "an object with level, answer and confidence", "Write one for each report.")
        for name in ("level", "level_name", "group"):
            if not isinstance(report.get(name), str | int | None):
                raise _unusable(f"{field}.{name}", report[name], "a name or a number", "Write the level's name.")
        level = self._group(report) or _name(report)
        if level not in self.levels:
            runs = "" if self.groups in (None, NO_GROUPS) else f", or a run called as {self.groups}"
            raise LevelError(
                f"{field}: this level is unknown to the fit; saw {str(level)[:60]!r}; expected one of "
                f"{', '.join(self.levels)}{runs}. Rename the level if it is one of these; else leave its report out."
            )
        answer, confidences = plain(report.get("answer")), plain(report.get("confidences")) or {}
        answer = str(answer).lower() if isinstance(answer, bool) else answer
        if not isinstance(answer, str | int | float | None):
            raise _unusable(f"{field}.answer", answer, "text, a number, a truth value or null", "Write it as text.")
        if not isinstance(confidences, Mapping):
            raise _unusable(f"{field}.confidences", confidences, "numbers by name", "Name the signals.")
        signals = {signal: self._percent(field, signal, value) for signal, value in confidences.items()}
        stated, again = self._percent(field, "number", report.get("confidence")), signals.get("number")
        if None not in (stated, again) and stated != again:
            expected, remedy = "one stated confidence", "Leave one of the two out."
            raise _unusable(f"{field}.confidences.number", again, expected, remedy)
        signals["number"] = again if stated is None else stated
        try:
            text = None if answer is None else canonical(str(answer), self.answers)
            (text or "").encode()
        except ValueError:  # of an integer of thousands of digits, or half a character
            raise _unusable(f"{field}.answer", answer, "text that can be written", "Correct it.") from None
        if {*self.labels} == TRUTH_VALUES and text not in TRUTH_VALUES:
            text = None
        is_stated = level in self.voting or any(value is not None for value in signals.values())
        percents = tuple(map(signals.get, self.signals))
        return _Report(self.levels.index(str(level)), text, percents, text is not None and is_stated, str(answer))

    def _percent(self, report: str, signal: str, confidence: object) -> float | None:
        percent = on_percent_scale(confidence, self.scale)
        if percent is None:
            return None
        if isinstance(percent, bool) or not isinstance(percent, int | float) or not 0 <= percent <= 100:
            scale, field = self.scale or "percent", "confidence" if signal == "number" else f"confidences.{signal}"
            expected = "a number from {} to {}, or null".format(*SCALES[scale])
            raise _unusable(f"{report}.{field}", plain(confidence), expected, f"Write it on the scale {scale}.")
        return float(percent)

    def _group(self, report: Mapping[str, object]) -> object:
        return report.get("group") or group_of(self.groups, str(_name(report)))


class _Report(NamedTuple):
    """A report: its level, canonical answer, stated signals, whether it is usable, and its answer as given."""

    level: int
    text: str | None
    percents: tuple[float | None, ...]
    is_usable: bool
    as_given: str


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
    #: The signals of the fit that no usable report states.
    unstated: list[str]


def require_usable(
    parameters: Parameters | None,
    final: Recalibration,
    *,
    eps: float,
    n: int,
    levels: Sequence[object],
    labels: Sequence[object],
    signals: Sequence[object],
) -> None:
    """Raise ValueError unless parameters and final calibration are numbers, as many as there are draws and levels.

    Parameters that are not given are those of a program of one's own, which are not looked at.
    """
    for names in (levels, labels, signals):
        for name in names:
            if not isinstance(name, str):
                raise ValueError(f"saw {name!r} for the name of a level, label or signal")
            if names.count(name) > 1:
                raise ValueError(f"saw the name {name!r} twice")
    shapes: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(Parameters._fields, ()),
        **dict.fromkeys(("weight", "bias", "vote"), (len(levels),)),
        **dict.fromkeys(("slope", "vote_slope"), (len(levels), len(signals))),
        "label": (len(labels),),
    }
    drawn = {} if parameters is None else parameters._asdict()
    drawn = {name: draws for name, draws in drawn.items() if draws is not None}
    wrong = [
        name
        for name, draws in drawn.items()
        if draws.shape != (n, *shapes[name])
        or not (np.abs(draws) <= _LARGEST).all()
        or (name in _NOT_NEGATIVE and (draws < 0).any())
        or (name == "prior_strength" and not draws.all())
    ]
    if wrong or not n or not levels or not signals:
        raise ValueError(f"parameters {', '.join(wrong or drawn)} are not {n} draws of {len(levels)} levels")
    if final.method not in Recalibration.METHODS:
        methods = ", ".join(Recalibration.METHODS)
        raise ValueError(f"saw a final calibration by {final.method}; expected one of {methods}")
    values = [*final.coefficients.values()]
    is_whole = final.coefficients.keys() - {"share"} == {"intercept", "slope"}
    is_whole &= 0 < final.most_reports <= _LARGEST and all(value.size == n for value in values)
    if not is_whole or not (np.abs(values) <= _LARGEST).all():
        raise ValueError(f"the final calibration by {final.method} has other values than numbers")
    for limit in (eps, final.eps):
        if not 0 < limit < 0.5:
            raise ValueError(f"saw eps {limit}; expected a number between 0 and 0.5")


def recalibration_content(final: Recalibration) -> dict[str, Any]:
    """Return a final calibration as a file holds it."""
    values = {name: value.ravel().tolist() for name, value in final.coefficients.items()}
    return {"method": final.method, "eps": final.eps, "most_reports": final.most_reports, "values": values}


def read_recalibration(stored: Mapping[str, Any]) -> Recalibration:
    """Read a final calibration from what a file holds."""
    values = {name: np.array(value, float) for name, value in stored["values"].items()}
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
    level = report.get("level")
    return level if isinstance(level, str) else report.get("level_name") or f"level_{level}"


def _unusable(
    field: str, seen: object, expected: str, remedy: str, problem: str = "this value cannot be used"
) -> ObservationError:
    return ObservationError(problem, field=field, seen=seen, expected=expected, remedy=remedy)
