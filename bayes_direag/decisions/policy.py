r"""A policy: which level to ask next on a question, when to stop, and what that costs.

If the leading answer is right with probability :math:`p`, giving it with that confidence has an expected benefit
(accuracy less Brier score) of :math:`p^2`. Level :math:`l` names the leading answer with probability

.. math:: a = p A_l + (1 - p) c

where :math:`A_l` is the probability of its report alone, at its mean confidence, and :math:`c` that a report names a
leader that is wrong. If it does, :math:`p` becomes :math:`p_+`. On average :math:`p` does not change, so the expected
benefit grows by

.. math:: (p_+ - p)^2 \, a / (1 - a)

and by :math:`A_l^2` before the first report. The level with the greatest gain less its price is asked next; where no
gain is above its price, asking stops. What that costs and is worth is replayed on labelled questions, all of whose
reports are known.

What is probable is said by the fit's own program, so any model has a policy. The file is that of the fit, with one more
group, ``policy``.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any, NamedTuple, cast

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Bool, Float, Int
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Status
from bayes_direag.errors import DirEAGError, FitFileError, LevelError
from bayes_direag.fits.container import calibration_group, calibration_of, require_sound_calibration
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.folds import hashed_folds
from bayes_direag.fits.making import fits_by
from bayes_direag.fits.stored import unreadable, write_tree
from bayes_direag.inference.recalibration import Outcomes, recalibrate
from bayes_direag.model.forward import Forward
from bayes_direag.model.likelihood_data import LikelihoodData, logit_signals
from bayes_direag.model.patterns import first_mentions
from bayes_direag.model.presets import PresetLike
from bayes_direag.model.selection import Calibration, Recalibration, select
from bayes_direag.model.settings import Settings
from bayes_direag.model.states import States

#: The version of a policy's record.
_VERSION = 6
#: Parts of the questions on which a policy is tried.
_PARTS = 5

#: Probability of the intervals of a forecast.
INTERVAL_LEVEL = 0.9
#: Halvings of the range of factors on the prices.
_HALVINGS, _SMALLEST_FACTOR, _LARGEST_FACTOR = 14, 1e-8, 1e2
#: What to do, by the way of asking that is advised.
_ADVICE = {"policy": "Ask by the policy", "all": "Ask all levels", "fixed": "Ask {levels} always"}

#: The greatest probability that a report names the leader: its odds stay finite.
_SUREST = 1 - 1e-9

PerQuestion = Float[np.ndarray, " problem"]
Leaders = Int[np.ndarray, " problem"]
PerLevel = Float[np.ndarray, "problem level"]
#: Which reports are asked for.
Asked = Bool[np.ndarray, "problem report"]
#: Fixed ways of asking: the benefit, and the number of reports of each level.
Fixed = list[tuple[float, tuple[int, ...]]]


@dataclass(frozen=True, eq=False)
class Asking:
    """What decides which report comes next: a MAP fit's program, and figures of the labelled questions."""

    #: The program at its mode; whatever questions it holds are not looked at.
    program: Forward
    #: The final calibration, by what reports there are.
    final: Calibration
    #: The logits of each level's mean confidence, for each signal.
    typical: Float[np.ndarray, "*signal level"]
    #: How often a report names a leading answer that is wrong.
    coincidence: float

    @classmethod
    def of(cls, fit: Fit) -> "Asking":
        """Learn mean confidences, and how often reports coincide in a wrong answer, from the labelled questions.

        Without wrong answers two reports coincide in one half of the time (Laplace's rule).
        """
        labelled = fit.fitted
        slots, levels = np.array(labelled.slots or range(labelled.n_levels)), range(len(labelled.learned_levels))
        signals = labelled.signals.values()
        means = [np.array([_mean_stated(values[:, slots == level]) for level in levels]) for values in signals]
        wrong = labelled.usable & ~labelled.correct
        named = labelled.candidate[:, :, None] == np.arange(labelled.n_candidates.max(initial=0))
        n_same = (named & wrong[:, :, None]).sum(axis=1)
        n_same, n_others = (n_same * (n_same - 1)).sum(), (wrong.sum(axis=1) * (labelled.usable.sum(axis=1) - 1)).sum()
        typical, coincidence = logit_signals(means, fit.preset.eps), float((n_same + 1) / (n_others + 2))
        return cls(fit.evaluation(labelled), fit.calibration, typical, coincidence)

    def leading(self, reports: LikelihoodData, stopped: Recalibration | None = None) -> tuple[Leaders, PerQuestion]:
        """Return the leading answers, -1 without reports, and the probabilities that they are right, then 0.

        ``stopped`` calibrates these once more, where asking stops.
        """
        parts = replace(self.program, data=reports).each(lambda states: select(states)[:2])
        leader, support = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
        probability = self.final.of_selected(support, reports.panels)
        if stopped is not None:
            probability = stopped.of_selected(probability)
        return leader, np.nan_to_num(probability[0])

    def gain(self, reports: LikelihoodData, leader: Leaders, probability: PerQuestion) -> PerLevel:
        """Return by how much one more report of each level raises the expected benefit."""
        now, if_named = probability[:, None], self._if_named(reports, leader)
        chance = np.minimum(now * self._alone + (1 - now) * self.coincidence, _SUREST)
        return np.asarray((if_named - now) ** 2 * np.where(leader[:, None] >= 0, chance / (1 - chance), 1.0))

    @cached_property
    def _alone(self) -> Float[np.ndarray, " level"]:
        """The probability of a report of each level alone."""
        known = self.program.data
        nothing = known.select(slice(0, 1)).of_reports(np.zeros((len(known.candidate), 1), bool))
        return np.asarray(self._if_named(nothing, np.zeros(1, int))[0])

    def _if_named(self, reports: LikelihoodData, leader: Leaders) -> PerLevel:
        """Return the probability of each leader after one more report that names it, by the level of that report.

        Each question is evaluated once for every level, with one report more. The first of its answers leads a question
        without reports.
        """
        n, n_levels = len(leader), self.typical.shape[-1]
        row, leader = np.arange(n).repeat(n_levels), np.maximum(leader, 0).repeat(n_levels)
        so_far, level = reports.select(row), np.tile(np.arange(n_levels, dtype=np.int32), n)
        label = np.where(so_far.candidate == leader, so_far.label, -1).max(axis=0, initial=-1)
        typical = self.typical[..., None, level] if reports.n_signals else np.zeros_like(so_far.logit[..., :1, :])
        candidate = np.concatenate([so_far.candidate, leader[None]])
        first = first_mentions(candidate)
        levels = np.broadcast_to(so_far.level_of_report, so_far.candidate.shape)
        more = replace(
            so_far,
            level=np.concatenate([levels, level[None]]),
            logit=np.concatenate([so_far.logit, typical], axis=-2),
            candidate=candidate,
            merged=candidate,
            first=first,
            n_candidates=first.sum(axis=0),
            label=np.concatenate([so_far.label, label[None]]),
        )

        def of_leader(states: States) -> Float[np.ndarray, "sample problem"]:
            return np.asarray(states.support[leader[states.questions], np.arange(len(states.panels))].T)

        named = replace(self.program, data=more).each(of_leader)
        return self.final.of_selected(np.concatenate([*named], axis=1), more.panels).reshape(n, n_levels)


def worth_a_person(probability: PerQuestion, factor: float, person: float | None) -> Bool[np.ndarray, " problem"]:
    """Tell whether a person at this price is worth more than an answer of this probability."""
    return np.asarray(1 - factor * (np.inf if person is None else person) > probability**2)


def _mean_stated(values: Float[np.ndarray, "..."]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan


class Step(NamedTuple):
    """What to do next on a question."""

    #: The level to ask; None: stop.
    ask: str | None
    #: The most probable answer so far; None without a usable report.
    answer: str | None
    #: The probability that it is right; of a question on which asking stops, by the calibration of such questions.
    probability: float | None
    #: What the most valuable report, less its price, is worth in expected benefit.
    gain: float
    #: Whether asking stops and a person is worth their price.
    hand_over: bool


class _Record(Settings):
    """What the file of a policy holds beside the fit, as JSON."""

    version: Annotated[int, Field(ge=_VERSION, le=_VERSION)]
    fit: str
    learned_from: str
    prices: tuple[NonNegativeFloat, ...]
    person: PositiveFloat | None
    factor: PositiveFloat
    most: tuple[PositiveInt, ...]
    n_labels: PositiveInt
    records: list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Policy:
    """Which level to ask next, and when to stop: made by :func:`policy`."""

    #: The fit, and what decides by it which report comes next.
    fit: Fit
    asking: Asking
    #: The price of a report of each level, and of a person's answer; None if there is nobody to hand over to.
    prices: Float[np.ndarray, " level"]
    person: float | None
    #: What a unit of price is worth in the unit of benefit, a right answer at full confidence.
    factor: float
    #: How many reports of each level a question may have: of exchangeable levels as many as a labelled one had.
    most: Int[np.ndarray, " level"]
    #: What calibrates probabilities once more where asking stops.
    stopped: Recalibration
    #: Number of questions on which it was replayed, and the rows of the forecast.
    n_labels: int
    records: list[dict[str, Any]]

    def __repr__(self) -> str:
        return f"Policy(levels {', '.join(self.fit.level_names)}; tried on {self.n_labels} questions)"

    def next(self, reports: Sequence[Mapping[str, object]]) -> Step:
        """Say which level to ask next on a question, given its reports so far, perhaps none.

        A report without a readable answer tells nothing, but its level has been asked. Raises LevelError or
        ObservationError as :meth:`Fit.answer` does.
        """
        question = self.fit.question(reports)
        known, levels = self.fit.evaluation(question).data.unlabelled, self.fit.level_names
        asked = np.array(question.slots or range(len(levels)))[question.status[0] != Status.ABSENT]
        is_open = np.bincount(asked, minlength=len(self.most)) < self.most
        leader, stated = self.asking.leading(known)
        (gain,) = self.asking.gain(known, leader, stated)
        net = np.where(is_open, gain - self.factor * self.prices, -np.inf)
        if stops := bool(net.max() <= 0):
            _, stated = self.asking.leading(known, self.stopped)
        return Step(
            ask=None if stops else levels[net.argmax()],
            answer=question.candidates[0][leader[0]] if leader[0] >= 0 else None,
            probability=float(stated[0]) if leader[0] >= 0 else None,
            gain=max(float(net.max()), 0.0),
            hand_over=stops and bool(worth_a_person(stated, self.factor, self.person)[0]),
        )

    @property
    def forecast(self) -> pd.DataFrame:
        """What to expect on questions like the labelled ones, replayed out of fold: see :meth:`replay`."""
        return pd.DataFrame(self.records)

    def replay(self, observations: "Observations") -> pd.DataFrame:
        """Run the policy on labelled questions with all their reports, and compare it with fixed ways of asking.

        The fit must not have seen them; unlabelled and unanswered ones do not count. Raises DirEAGError if none is
        left or the answers are of another kind, and LevelError for a level that the policy does not know.

        Returns
        -------
        DataFrame
            A row for the ``policy``, for ``all`` reports, and for the best ``fixed`` levels that cost at most as much
            as the policy. A replay takes the fixed levels of the forecast, which chose them on other questions than it
            judged them on. Columns: ``levels`` that are asked in every question; ``reports``, how many a question has;
            ``share`` of all reports; ``price`` a question; ``price_share`` of the price of all reports;
            ``handed_over``, the share of questions for a person (in what follows they have the policy's own answers);
            ``probability``, the mean over the answers; ``accuracy``; ``excess``, probability less accuracy;
            ``benefit`` (accuracy less Brier score); and ``difference``, the benefit less that of the policy;
            from ``accuracy`` on with ``_low`` and ``_high``.
        """
        labelled = observations.select(observations.labelled & observations.answered)
        if not len(labelled):
            raise DirEAGError(f"none of {len(observations)} questions is both labelled and answered; expected some.")
        labelled = self.fit.aligned(labelled)
        reports = self.fit.evaluation(labelled).data
        replay = Replay(labelled, reports, np.zeros(len(labelled), int), [self.asking], self.prices)
        return pd.DataFrame(replay.forecast(self.factor, self.person, [self.stopped], self.records[2]["levels"]))

    def advice(self, forecast: pd.DataFrame | None = None) -> str:
        """Say which way of asking to take: ``policy``, ``fixed`` or ``all``.

        Ways are compared by benefit less price. A dearer way than the policy must be clearly better, by the interval of
        the difference; another need be no worse, as it is simpler, too.
        """
        rows = self.forecast if forecast is None else forecast
        simplest_first = self._for_its_price(rows)[::-1]
        is_dearer = rows["price"] > rows["price"].iloc[0]
        gain = simplest_first["difference_low"].where(is_dearer, simplest_first["difference"])
        return str(rows["asked"].iloc[::-1].iloc[int(gain.argmax())])

    def _for_its_price(self, forecast: pd.DataFrame) -> pd.DataFrame:
        dearer = self.factor * (forecast["price"] - forecast["price"].iloc[0])
        return forecast.filter(like="difference").sub(dearer, axis=0)

    def text(self, forecast: pd.DataFrame | None = None) -> str:
        """Return what to do by a forecast, by default the policy's own, in four lines."""
        rows = self.forecast if forecast is None else forecast
        policy, every, fixed = rows.to_dict("records")
        counts = Counter(fixed["levels"])
        levels = ", ".join(name if count == 1 else f"{count} of {name}" for name, count in counts.items())
        difference = "{difference:+.3f} [{difference_low:+.3f}, {difference_high:+.3f}]"
        gains, advised = self._for_its_price(rows), self.advice(rows)
        _, less_every, less_fixed = map(difference.format_map, gains.to_dict("records"))
        why = "that costs no more than the policy, and is worth as much"
        if advised == "policy":
            why = "no cheaper way is as good for its price, and no dearer one clearly better"
        elif gains["difference_low"][rows["asked"] == advised].item() > 0:
            why = "for its price that is clearly better than the policy"
        figures = "{benefit:.2f} [{benefit_low:.2f}, {benefit_high:.2f}] with {share:.0%} of the reports"
        if np.ptp(self.prices) > 0:
            figures += ", {price_share:.0%} of their price"
        person = "" if self.person is None else f" {policy['handed_over']:.0%} of the questions are for a person."
        right = "{probability:.0%} of them are right, and {accuracy:.0%} are [{accuracy_low:.0%}, {accuracy_high:.0%}]"
        points = "{:+.1f} points [{:+.1f}, {:+.1f}]".format(
            *(100 * policy[f"excess{end}"] for end in ("", "_low", "_high"))
        )
        return (
            f"{_ADVICE[advised].format(levels=levels)}: {why}.\n"
            f"Benefit [interval of probability {INTERVAL_LEVEL:g}]: policy {figures.format_map(policy)}; "
            f"always {levels} {figures.format_map(fixed)}; all {figures.format_map(every)}.\n"
            f"Gain over the policy, less the price of more reports: always {levels} {less_fixed}; all {less_every}.\n"
            f"The policy's answers claim that {right.format_map(policy)}: the claim is off by {points}.{person}"
        )

    def record(self) -> dict[str, Any]:
        """Return what the file holds beside the fit, which its fingerprint tells from others."""
        names = ("prices", "person", "factor", "most", "n_labels", "records")
        parts = {name: np.asarray(getattr(self, name)).tolist() for name in names}
        return {"version": _VERSION, "fit": repr(self.fit), "learned_from": self.fit.fingerprint} | parts

    def save(self, path: str | Path) -> None:
        """Write the policy as NetCDF, completely or not at all: the file of its fit, with the group ``policy``."""
        tree = self.fit.tree.copy()
        tree["policy"] = calibration_group(self.stopped)
        tree["policy"].attrs["record"] = json.dumps(self.record())
        write_tree(tree, path)

    @classmethod
    def load(cls, path: str | Path, preset: PresetLike | None = None) -> "Policy":
        """Read a policy; raise FitFileError if there is none, or it is not one that this version can read.

        ``preset`` is the function of a model of your own, as for :meth:`Fit.load <bayes_direag.fits.fit.Fit.load>`.
        """
        fit = Fit.load(path, preset)
        if "policy" not in fit.tree.children:
            raise FitFileError(f"{path}: saw a fit; expected a policy, as `direag policy` writes it. Make one.")
        asking, stored = Asking.of(fit), cast(xr.DataTree, fit.tree["policy"])
        try:
            record, stopped = _Record.model_validate_json(stored.attrs["record"]), calibration_of(stored)
            require_sound_calibration(stopped, (1, 1))
            if {len(record.prices), len(record.most)} != {len(fit.level_names)}:
                raise ValueError(f"saw {len(record.prices)} prices and {len(record.most)} numbers of reports")
            prices, most = np.array(record.prices, float), np.array(record.most, int)
            figures = record.model_dump(include={"person", "factor", "n_labels", "records"})
            made = cls(fit=fit, asking=asking, prices=prices, most=most, stopped=stopped, **figures)
            _ = made.text()
        except Exception as error:  # whatever is wrong with a file
            raise unreadable(path, "a policy", error, "one written by `direag policy`. Make it again.") from error
        return made


@dataclass(frozen=True, eq=False)
class Replay:
    """Labelled questions with all their reports, on which ways of asking are tried, and the price of each level.

    The questions are in parts; those of part number k are decided by ``askings[k]``.
    """

    questions: Observations
    reports: LikelihoodData
    part: Int[np.ndarray, " problem"]
    askings: list[Asking]
    price: Float[np.ndarray, " level"]

    @classmethod
    def of(cls, fit: Fit, price: Float[np.ndarray, " level"]) -> "Replay":
        """Divide the questions of a fit into five parts, each of which is decided about by a fit to the others.

        Raises DirEAGError unless it is a MAP of five or more labelled questions or clusters.
        """
        if fit.n_samples > 1:
            raise DirEAGError(f"saw {fit!r}; expected a MAP, by which many ways of asking are tried. Fit by MAP.")
        if len(fit.new_levels):
            raise DirEAGError(
                f"saw levels without labels, {', '.join(fit.new_levels['level'])}; expected labelled ones, on which a "
                "policy is tried. Fit without them, or label their questions."
            )
        fitted = fit.fitted
        part = hashed_folds(fitted, np.ones(len(fitted), bool), _PARTS, fit.settings.seed)
        if (n_units := len(np.unique(part))) < _PARTS:
            raise DirEAGError(
                f"saw {n_units} labelled questions or clusters; expected at least {_PARTS}, to replay a policy. Label "
                "more."
            )
        askings = [*map(Asking.of, fits_by(fit.settings, fitted, part != np.arange(_PARTS)[:, None]))]
        return cls(fitted, fit.evaluation(fitted).data, part, askings, price)

    @cached_property
    def usable(self) -> Asked:
        """Whether there is a report."""
        return np.asarray(self.reports.candidate >= 0).T

    @cached_property
    def level(self) -> Int[np.ndarray, "problem report"]:
        """The level of each report."""
        return np.broadcast_to(self.reports.level_of_report.T, self.usable.shape)

    @property
    def kept(self) -> Bool[np.ndarray, "whole_and_part problem"]:
        """All questions, then those outside of each part."""
        return np.asarray(self.part != np.arange(-1, len(self.askings))[:, None])

    def asked(self, factor: float) -> Asked:
        """Return which reports are asked for where a unit of price is worth this much benefit.

        Reports of exchangeable levels are asked for in the order of their columns.
        """
        asked = np.zeros_like(self.usable)
        for number, asking in enumerate(self.askings):
            rows = np.flatnonzero(self.part == number)
            while len(rows):
                so_far = self._reports(rows, asked)
                leader, stated = asking.leading(so_far)
                net = asking.gain(so_far, leader, stated) - factor * self.price
                of_report = np.take_along_axis(net, self.level[rows], axis=1)
                net = np.where(self.usable[rows] & ~asked[rows], of_report, -np.inf)
                is_worth_it = net.max(axis=1) > 0
                rows = rows[is_worth_it]
                asked[rows, net.argmax(axis=1)[is_worth_it]] = True
        return asked

    def fixed(self, numbers: Sequence[int]) -> Asked:
        """Return the reports if every question asks for this many of each level."""
        is_same = (self.level[:, :, None] == self.level[:, None]) & self.usable[:, :, None]
        n_before = (is_same & np.tri(is_same.shape[1], k=-1, dtype=bool).T).sum(axis=1)
        return np.asarray(self.usable & (n_before < np.array(numbers)[self.level]))

    def factor(self, budget: float) -> float:
        """Return the least factor on the prices at which this share of the full price is not exceeded.

        A smaller budget never gives a smaller factor.
        """
        price = self.price[self.level]
        ends = np.log([_SMALLEST_FACTOR, _LARGEST_FACTOR]) - np.log(self.price.mean())
        for _ in range(_HALVINGS):
            spent = price[self.asked(float(np.exp(ends.mean())))].sum()
            ends[int(spent <= budget * price[self.usable].sum())] = ends.mean()
        return float(np.exp(ends[1]))

    def answers(self, asked: Asked, finals: Sequence[Recalibration] | None = None) -> pd.DataFrame:
        """Return what each question comes to after these reports; ``finals`` calibrate each part once more.

        Columns: ``reports`` and their ``price``; ``probability`` of the answer, 0 without reports; ``accuracy``,
        whether it is right; and ``benefit``, accuracy less Brier score.
        """
        stated, right = np.zeros((2, len(self.part)))
        for number, asking in enumerate(self.askings):
            rows, final = np.flatnonzero(self.part == number), finals[number] if finals else None
            leader, stated[rows] = asking.leading(self._reports(rows, asked), final)
            right[rows] = (leader >= 0) & self.questions.correct_candidate[rows, leader]
        sums = {"reports": asked.sum(axis=1), "price": (asked * self.price[self.level]).sum(axis=1)}
        return pd.DataFrame(sums).assign(probability=stated, accuracy=right, benefit=right - (stated - right) ** 2)

    def by_number(self, most: float, chosen: Bool[np.ndarray, "choice problem"]) -> list[Fixed]:
        """Return, for each choice of questions, which levels to ask in every question, one report more at each step.

        A step adds the level that makes the benefit of these questions greatest, as long as a question costs at most
        ``most`` on average; there is at least one step. It holds this benefit, and the number of reports of each level.
        """
        benefit = cache(lambda numbers: self.answers(self.fixed(numbers))["benefit"])
        price = cache(lambda numbers: (self.fixed(numbers) * self.price[self.level]).sum(axis=1).mean())
        largest, best = self.reports.panels.max(axis=0), list[Fixed]()
        for rows in chosen:
            steps, numbers = Fixed(), np.zeros(len(largest), int)
            while more := [
                (benefit(n)[rows].mean(), n)
                for n in map(tuple, (numbers + np.eye(len(largest), dtype=int)).tolist())
                if (n <= largest).all() and (not steps or price(n) <= most)
            ]:
                steps.append(max(more, key=lambda step: step[0]))
                numbers = np.array(steps[-1][1])
            best.append(steps)
        return best

    def forecast(
        self, factor: float, person: float | None, finals: Sequence[Recalibration], fixed: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Compare asking by the gain with asking all, and the best fixed levels: the rows of :meth:`Policy.replay`.

        ``finals`` calibrate the answers of each part where asking stops; a person at this price is given some of them.
        The fixed levels are those named, or else the best that cost at most as much. Levels look better on the
        questions they were chosen on, so each part is judged with those that are best on the other parts.
        """
        names = self.questions.learned_levels
        asked, every = self.answers(self.asked(factor), finals), self.answers(self.usable)
        if fixed:
            always = self.fixed([fixed.count(name) for name in names])
        else:
            by_choice = self.by_number(asked["price"].mean(), self.kept)
            best, *of_parts = (max(steps, key=lambda step: step[0])[1] for steps in by_choice)
            fixed = np.repeat(names, best).tolist()
            always = np.stack([self.fixed(numbers) for numbers in of_parts])[self.part, np.arange(len(self.part))]
        handed_over, rows = worth_a_person(asked["probability"].to_numpy(), factor, person).mean(), []
        for name, answers in (("policy", asked), ("all", every), ("fixed", self.answers(always))):
            means, of_all = answers.mean(), every.mean()
            row = {"reports": means["reports"], "share": means["reports"] / of_all["reports"]}
            row |= {"price": means["price"], "price_share": means["price"] / of_all["price"]}
            row |= {"handed_over": handed_over if name == "policy" else 0.0, "probability": means["probability"]}
            row |= self._mean("accuracy", answers["accuracy"]) | self._mean("benefit", answers["benefit"])
            row |= self._mean("excess", answers["probability"] - answers["accuracy"])
            row |= self._mean("difference", answers["benefit"] - asked["benefit"])
            levels = [*fixed] if name == "fixed" else []
            rows.append({"asked": name, "levels": levels} | {column: float(value) for column, value in row.items()})
        return rows

    def _reports(self, rows: Int[np.ndarray, " row"], asked: Asked) -> LikelihoodData:
        return self.reports.unlabelled.select(rows).of_reports(asked[rows].T)

    def _mean(self, name: str, values: pd.Series) -> dict[str, float]:
        """Return the mean of a value with its interval; only clusters of questions are independent."""
        mean, cluster = values.mean(), self.questions.cluster_number
        sums = (values - mean).groupby(values.index if cluster is None else cluster).sum()
        error = np.sqrt((sums**2).sum() * len(sums) / max(len(sums) - 1, 1)) / len(values)
        half = NormalDist().inv_cdf((1 + INTERVAL_LEVEL) / 2) * error
        return {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}


def policy(
    fit: Fit,
    *,
    prices: Mapping[str, float] | None = None,
    budget: float = 0.3,
    person: float | None = None,
) -> Policy:
    """Decide which level to ask next on a question, and when to stop.

    The policy is tried on the fitted questions, each with a fit to other folds, and keeps what it did there as its
    forecast. Probabilities are calibrated once more, on the questions as they were when asking stopped; those of a part
    that enter the forecast on the others.

    Parameters
    ----------
    prices
        The price of a report of each level (group), in any unit. By default all cost 1.
    budget
        The share of the price of all reports to spend on average, above 0 and at most 1.
    person
        The price of handing a question over to a person, in the unit of the prices. By default there is nobody.

    Raises
    ------
    DirEAGError
        If the fit is not a MAP of five questions or clusters, a number is out of range, or hardly any
        question is worth a report.
    LevelError
        If the prices are not those of the fit's levels.
    """
    if not 0 < budget <= 1:
        raise DirEAGError(f"budget {budget}: expected a share of the full price above 0 and at most 1, such as 0.3.")
    if person is not None and not 0 < person < np.inf:
        raise DirEAGError(f"person {person}: expected a positive number, in the unit of the prices.")
    replay = Replay.of(fit, _prices(prices, fit.level_names))
    factor = replay.factor(budget)
    answers = replay.answers(replay.asked(factor))
    n_reports = answers["reports"].to_numpy()
    weight = (replay.kept & (n_reports > 0)).astype(float)
    if not weight.any(axis=1).all():
        raise DirEAGError(
            f"{(n_reports > 0).sum()} of {len(n_reports)} questions are worth a report; expected more. Give a larger "
            "budget."
        )
    stated, right = (np.broadcast_to(answers[name], weight.shape) for name in ("probability", "accuracy"))
    stopped, *of_parts = recalibrate(Outcomes(stated, right > 0, weight), fit.preset.recalibration)
    return Policy(
        fit=fit,
        asking=Asking.of(fit),
        prices=replay.price,
        person=person,
        factor=factor,
        most=np.maximum(replay.reports.panels.max(axis=0), 1),
        stopped=stopped,
        n_labels=len(n_reports),
        records=replay.forecast(factor, person, of_parts),
    )


def _prices(prices: Mapping[str, float] | None, levels: Sequence[str]) -> Float[np.ndarray, " level"]:
    """Return the price of each level, by default 1; raise LevelError or DirEAGError if these cannot be used."""
    prices = dict.fromkeys(levels, 1.0) if prices is None else prices
    if missing := set(levels) ^ set(prices):
        raise LevelError(
            f"prices: saw {', '.join(prices)}; expected one price for each of {', '.join(levels)}. Look at "
            f"{', '.join(sorted(missing))}."
        )
    price = np.array([prices[level] for level in levels], float)
    if not (np.isfinite(price).all() and (price >= 0).all() and price.any()):
        raise DirEAGError(f"prices: saw {', '.join(map(str, price))}; expected numbers from 0 on, not all of them 0.")
    return price
