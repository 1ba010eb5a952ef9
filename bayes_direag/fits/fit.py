"""A fit: the posterior container with its methods to predict, tabulate parameters, save and load."""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Bool, Float

from bayes_direag.data.answers import TRUTH_VALUES, AnswerKind
from bayes_direag.data.columns import Columns
from bayes_direag.data.equality import Same, Sameness, require_same
from bayes_direag.data.files import as_records
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Status
from bayes_direag.data.remarks import unused_reports
from bayes_direag.errors import DirEAGError, FewReportsWarning, FitFileError
from bayes_direag.fits.container import (
    by_sample,
    calibration_of,
    columns_of,
    fitted_observations,
    label_names,
    labelled_of,
    level_names,
    predictive,
    require_sound,
    signal_names,
)
from bayes_direag.fits.new_levels import joined_levels, with_new_levels
from bayes_direag.fits.parameters import identified_draws, parameter_draws, parameter_table
from bayes_direag.fits.prediction import candidate_table, selected_table
from bayes_direag.fits.programs import require_program_of
from bayes_direag.fits.sources import observations_of, table_of_reports, unknown_fields
from bayes_direag.fits.stored import stored_tree, unreadable, write_tree
from bayes_direag.inference.panels import PanelCalibration
from bayes_direag.model import presets
from bayes_direag.model.forward import Forward
from bayes_direag.model.lacking import half_remark, reports_remark, signals_remark
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.models import model_of
from bayes_direag.model.presets import PresetLike, label
from bayes_direag.model.selection import Recalibration, distribution, predict, state_intervals
from bayes_direag.model.settings import FitMethod, FitSettings, Preset
from bayes_direag.model.states import supports

if TYPE_CHECKING:
    import pyarrow

#: What :meth:`Fit.predict` takes: observations, or a file, frame or records to read them from.
Source = Observations | str | Path | pd.DataFrame | Sequence[Mapping[str, object]]


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model: the container of :mod:`bayes_direag.fits.container`, with the group ``recalibration``.

    Parameters
    ----------
    tree : xarray.DataTree
        The container, which ArviZ takes as it is.
    program : callable, optional
        The NumPyro function of a model of your own. No container holds it; predicting and fitting again need it.
    same : callable, optional
        The function by which the fitted answers were compared. No container holds it; reading new answers needs it.

    Examples
    --------
    >>> from bayes_direag import fit_map, simulate_observations
    >>> observations = simulate_observations(n=200, seed=1)
    >>> fit = fit_map(observations.select(slice(0, 150)))
    >>> fit.predict(observations.select(slice(150, 200))).columns.tolist()[:6]
    ['problem_id', 'answer', 'answer_as_given', 'probability', 'support', 'null_probability']
    """

    tree: xr.DataTree
    program: Callable[..., None] | None = None
    same: Sameness = None

    def __repr__(self) -> str:
        return f"Fit({self})"

    def __str__(self) -> str:
        draws = "MAP" if self.n_samples == 1 else f"{self.n_samples} posterior draws"
        n_levels = len(self.level_names)
        data = f"{self.n_questions} questions, {n_levels} level{'' if n_levels == 1 else 's'}"
        return f"{draws}; {label(self.preset)}; {data}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>\n{self.parameters().to_html(na_rep='', float_format='{:.3g}'.format)}"

    @cached_property
    def settings(self) -> FitSettings:
        """How it was made from its data."""
        recorded = FitSettings.of_attributes(self.tree.attrs)
        return replace(recorded, preset=recorded.preset.model_copy(update={"program": self.program}))

    @property
    def preset(self) -> Preset:
        """The model, and the final calibration."""
        return self.settings.preset

    @property
    def method(self) -> FitMethod:
        """How it was fitted: map or nuts."""
        return self.settings.method

    @property
    def answers(self) -> AnswerKind:
        """How answers are compared."""
        return cast(AnswerKind, self.tree.attrs["answers"])

    @cached_property
    def columns(self) -> Columns | None:
        """How files, frames and records are read by default: as the labelled questions were."""
        return columns_of(self.tree)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the fitted observations."""
        return str(self.tree.attrs["observations_sha256"])

    @property
    def left_out(self) -> xr.Dataset:
        """The leave-one-out predictions of a NUTS fit: see :mod:`bayes_direag.inference.loo`."""
        return self.tree["loo"].to_dataset()

    @cached_property
    def level_names(self) -> tuple[str, ...]:
        """The levels of the fit, in order; a group of levels counts as one."""
        return level_names(self.tree)

    @cached_property
    def recalibration(self) -> Recalibration:
        """The final calibration."""
        return calibration_of(cast(xr.DataTree, self.tree["recalibration"]))

    @cached_property
    def calibration(self) -> PanelCalibration:
        """The final calibration of a question by what reports it has; with all of them, :attr:`recalibration`."""
        labelled = None
        if "replay_draws" in self.tree.children:
            labelled = labelled_of(self.tree, self.fitted, model_of(self.preset), self.likelihood_data)
        rng, n = np.random.default_rng([self.settings.seed, 5]), self.n_samples
        noise = rng.standard_normal((n, 2)) if n > 1 else np.zeros((1, 2))
        return PanelCalibration(self.recalibration, labelled, noise)

    def __getstate__(self) -> dict[str, object]:
        """Return the fields alone: what follows from them is computed again where it is needed."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def n_samples(self) -> int:
        """Number of posterior draws over all chains; 1 for a MAP."""
        sizes = self.tree["posterior"].sizes
        return int(sizes["chain"] * sizes["draw"])

    @property
    def n_questions(self) -> int:
        """Number of fitted questions."""
        return int(self.tree["constant_data"].sizes["problem"])

    @cached_property
    def learned_from(self) -> frozenset[str]:
        """The ``problem_id`` of all questions that it learned from."""
        return frozenset(map(str, self.tree["constant_data"]["problem"].to_numpy())).union(self.calibrated_on)

    @property
    def calibrated_on(self) -> tuple[str, ...]:
        """The ``problem_id`` of questions that were used for the final calibration alone."""
        return tuple(json.loads(self.tree.attrs.get("calibrated_on", "[]")))

    def has_seen(self, observations: Observations) -> Bool[np.ndarray, " problem"]:
        """Return which questions it learned from, by ``problem_id``."""
        return np.array([name in self.learned_from for name in observations.problem_id], bool)

    @cached_property
    def fitted(self) -> Observations:
        """The fitted questions; their answers are numbers, since the container does not hold the text."""
        return fitted_observations(self.tree)

    @cached_property
    def new_levels(self) -> pd.DataFrame:
        """The levels that joined without labels (:meth:`with_levels`).

        ``level``; ``n_questions`` that its agreement rests on; ``agrees``, how often it does, and ``by_chance``; and
        ``votes``, whether it states no confidence.
        """
        names = ["level", "n_questions", "agrees", "by_chance", "votes"]
        return pd.DataFrame(joined_levels(self.tree), columns=names)

    @cached_property
    def voting(self) -> tuple[str, ...]:
        """The levels that only vote, so that their reports need no confidence."""
        new = self.new_levels
        return (*self.fitted.voting, *new.loc[new["votes"].astype(bool), "level"])

    @cached_property
    def likelihood_data(self) -> LikelihoodData:
        """The argument of the NumPyro model in this fit: the fitted questions."""
        weight = self.tree["constant_data"]["weight_in_likelihood"].to_numpy()
        return LikelihoodData.weighted(self.fitted, weight, preset=self.preset, labels=label_names(self.tree))

    def evaluation(self, aligned: Observations) -> Forward:
        """Return questions that are aligned with the fit, to be evaluated by its program in every draw.

        Raises DirEAGError for a program of one's own that is not given.
        """
        questions = aligned.of_signals(signal_names(self.tree))
        data = self.likelihood_data.of_new(questions, preset=self.preset, labels=label_names(self.tree))
        return Forward(model_of(self.preset), self._draws, data)

    def prepare(self) -> None:
        """Compile what answers a question, so that the first answer is as fast as others."""
        supports(self.evaluation(self.fitted.select(slice(1))))
        _ = self._usual_gain

    @cached_property
    def _usual_gain(self) -> float:
        """What the reports that the fitted questions lack cost, as a mean difference in accuracy."""
        return float(np.nan_to_num(self.calibration.gain(self.likelihood_data.panels)).mean())

    @cached_property
    def _draws(self) -> dict[str, Float[np.ndarray, "sample ..."]]:
        return by_sample(self.tree)  # no arrays of JAX: a process without double precision would read them in single

    def predict(self, observations: Source, *, interval_level: float = 0.9, warn: bool = True) -> pd.DataFrame:
        """Select an answer for every question, with the probability that it is right. Gold answers are not used.

        Parameters
        ----------
        observations
            The questions: observations, the path of a file, a frame in long form, or records. Their answers are
            compared as in the fit, and what is read has the column names and the scale of :attr:`columns`.
        interval_level
            Posterior probability of the intervals, strictly between 0 and 1.
        warn
            Warn (:class:`~bayes_direag.errors.FewReportsWarning`) of what :meth:`remarks` says.

        Returns
        -------
        DataFrame
            One row per question, in order: its name, in a column called as in the observations, by default
            ``problem_id``; ``answer``, the canonical answer of greatest final probability (missing where no report is
            usable); ``answer_as_given``, its spelling in most reports (of several, in the first); ``probability``, that
            it is right; ``support``, the same before the final calibration; ``null_probability``, that no candidate is
            right; ``n_candidates``, distinct answers; ``n_used``, usable reports. For an unanswered question
            probability and support are NaN, and null_probability is 1.

            With several posterior draws these are means, and three columns follow the first: ``probability_low``
            and ``probability_high``, its equal-tailed interval over the draws, and ``change_probability``, the share of
            draws in which another answer is more probable. The interval covers the uncertainty of the parameters given
            the labelled questions.

        Raises
        ------
        LevelError
            If the observations have a level that the fit does not have.
        DirEAGError
            If their answers are of another kind than in the fit, or ``interval_level`` is out of range.
        """
        aligned = self.aligned(observations)
        columns = predict(self.evaluation(aligned), self.calibration, interval_level)
        table = selected_table(aligned, columns)
        for remark in self.remarks(aligned) if warn else ():
            warnings.warn(remark, FewReportsWarning, stacklevel=2)
        return table

    def question(self, reports: Sequence[Mapping[str, object]]) -> Observations:
        """Read the reports on one question as observations that are aligned with the fit.

        A report has a ``level`` (a name or a number) or ``level_name``, or the ``group``; an ``answer``; ``confidence``
        and ``confidences``, on the scale of the fitted ones. Raises LevelError for a level that the fit has not
        learned, and ObservationError for other reports that cannot be used.
        """
        return self.aligned(
            Observations.of_table(table_of_reports(reports, self.columns), self.answers, same=self.same)
        )

    def answer(self, reports: Sequence[Mapping[str, object]], *, interval_level: float = 0.9) -> dict[str, object]:
        """Select the answer to one question, given as in :meth:`question`, with the probability that it is right.

        Returns the columns of :meth:`predict` from ``answer`` on, None where one is undefined, and the ``remarks``:
        which reports and fields were not used, and why, and what is lacking.
        """
        question = self.question(reports)
        (row,) = as_records(self.predict(question, interval_level=interval_level, warn=False).iloc[:, 1:])
        remarks = unused_reports(question) + unknown_fields(reports)
        return row | {"remarks": remarks + self.remarks(question)}

    def remarks(self, aligned: Observations) -> list[str]:
        """Say what these questions, which are aligned with the fit, lack beside the fitted ones: reports, a signal."""
        panels = self.evaluation(aligned).data.panels
        if self.settings.is_by_panel:
            fewer = reports_remark(panels, self.level_names, self.calibration.gain(panels), self._usual_gain)
        else:
            fewer = half_remark(panels, self.likelihood_data.panels)
        return [*filter(None, (fewer, signals_remark(aligned, self.fitted, self.evaluation, self.calibration)))]

    def predict_batch(
        self, table: "pyarrow.Table", *, interval_level: float = 0.9, columns: Columns | None = None
    ) -> "pyarrow.Table":
        """Predict the questions of an Arrow table; engines for large data map this over the batches of a data set.

        The table has a row for each question, with its reports as structs in the column ``observations``, as
        :meth:`Observations.write` writes them to Parquet; or a row for each report, with all rows of each question.
        Gold answers and other columns are not looked at, and it may be empty. It is read as :attr:`columns` say, by
        default. Returns the columns of :meth:`predict`, and raises as it does, or ObservationError for a value that
        cannot be used.
        """
        import pyarrow

        from bayes_direag.data.long_table import LongTable
        from bayes_direag.data.tables import table_of_arrow

        questions = self.fitted.select(slice(0))
        names = replace(columns or self.columns or Columns(), needs_labels=False)
        if table.num_rows:
            read = LongTable.of(table_of_arrow(table), names, with_labels=False)
            questions = Observations.of_table(read, self.answers, same=self.same)
        predicted = self.predict(questions, interval_level=interval_level, warn=False)
        predicted = predicted.set_axis([names.question, *predicted.columns[1:]], axis=1)
        return pyarrow.Table.from_pandas(predicted, preserve_index=False)

    def predict_candidates(self, observations: Source, *, interval_level: float = 0.9) -> pd.DataFrame:
        """Return the probability of every candidate of every question, and of the null.

        Returns
        -------
        DataFrame
            For each question, in order, one row per candidate, the most probable first, and a row for the null:
            its name, ``answer`` (missing for the null), ``answer_as_given``, ``probability``, the mean over the
            posterior draws. The probabilities of a question sum to 1. A question without candidates has a row for the
            null alone. With several draws there are ``probability_low`` and ``probability_high``, the ends of the
            equal-tailed interval of this level.

        Raises
        ------
        LevelError, DirEAGError
            As :meth:`predict` does.
        """
        aligned = self.aligned(observations)
        asked = self.evaluation(aligned)
        figures = {"probability": distribution(asked, self.calibration)}
        if self.n_samples > 1:
            low, high = state_intervals(asked, self.calibration, interval_level)
            figures |= {"probability_low": low, "probability_high": high}
        return candidate_table(aligned, figures)

    def read(self, source: Source, columns: Columns | None = None) -> Observations:
        """Read observations as the labelled questions were, or with other columns; what is read stays as it is."""
        return observations_of(source, self.answers, columns or self.columns, same=self.same)

    def aligned(self, observations: Source) -> Observations:
        """Return the observations with the levels of the fit, in its order; levels that only voted in it only vote.

        If the labels of the fit are true and false, other answers are not readable. Raises LevelError for a level that
        the fit does not have, and DirEAGError if the answers are of another kind.
        """
        observations = self.read(observations)
        form = None if self.columns is None else self.columns.groups
        aligned = observations.as_fitted(self.answers, self.level_names, self.voting, form, self.fitted.same)
        labels = label_names(self.tree)
        if {*labels} != TRUTH_VALUES:
            return aligned
        return aligned.without(aligned.usable & (aligned.label(labels) < 0), Status.UNPARSABLE)

    def with_levels(self, observations: Source) -> "Fit":
        """Let further levels join, without a label: see :mod:`bayes_direag.fits.new_levels`.

        How a new level counts follows from how often it agrees with the others, in these questions and the fitted ones;
        labels are not looked at. Whether it votes or states confidences is what it does here. The levels of the fit and
        its final calibration stay as they are; a question with a new level has that of questions with all reports.

        Without a new level the fit is as it was. Raises DirEAGError if one shares fewer than 30 questions with two
        others, the answers are of another kind, or the model's parameters of levels are no offsets from what levels
        share.
        """
        wider = with_new_levels(self.tree, self.fitted, self.settings, self.read(observations))
        return Fit(wider, self.program, self.same)

    def with_predictive(self) -> "Fit":
        """Return a NUTS fit with three more groups, which ArviZ's predictive checks and pictures of the prior take.

        They are ``prior`` (1000 draws of the parameters), ``prior_predictive`` and ``posterior_predictive`` (a state of
        every fitted question in every draw). The draws follow from the seed of the fit. Raises DirEAGError for a MAP.
        """
        if self.method == "map":
            raise DirEAGError(
                "a MAP has no posterior draws; expected a NUTS fit. Fit with fit_nuts, or direag fit --method nuts."
            )
        if "posterior_predictive" in self.tree.children:
            return self
        tree = self.tree.copy()
        data = self.likelihood_data.select(np.arange(self.n_questions))
        tree.update(predictive(self.tree, model_of(self.preset), data).children)
        return Fit(tree, self.program, self.same)

    def parameters(self) -> pd.DataFrame:
        """Summarise the parameters: see :func:`~bayes_direag.fits.parameters.parameter_table`."""
        return parameter_table(self.tree)

    def draws(self) -> pd.DataFrame:
        """Tabulate the draws of the parameters: see :func:`~bayes_direag.fits.parameters.parameter_draws`."""
        return parameter_draws(self.tree)

    def save(self, path: str | Path) -> None:
        """Write the fit as NetCDF, completely or not at all; raise OSError if it cannot be written.

        The log-likelihoods of posterior draws are stored with four significant digits; all else is stored exactly.
        """
        write_tree(self.tree, path)

    @classmethod
    def load(cls, path: str | Path, preset: PresetLike | None = None, same: Sameness = None) -> "Fit":
        """Read a fit written by :meth:`save`.

        ``preset`` is the NumPyro function, where the fit is of a model of your own: a file names no code that is run.
        Without it the parameters can be looked at, but nothing can be predicted. A preset's fit needs none. ``same`` is
        the function by which answers are compared, where the fit records one: without it, only Observations that it has
        read are predicted.

        Raises FitFileError if there is no such file, or it is not a fit, and DirEAGError if a function or preset is
        another than in the fit.
        """
        expected = "a fit written by `direag fit OBSERVATIONS --out FIT`"
        if not Path(path).is_file():
            seen = "saw a folder" if Path(path).is_dir() else "no such file"
            raise FitFileError(f"{path}: {seen}; expected {expected}.")
        try:
            fit = cls(stored_tree(path), same=same)
            require_sound(fit.tree, fit.recalibration, fit.settings)
            _ = fit.likelihood_data, fit.columns, fit.calibrated_on, fit.fingerprint, identified_draws(fit.tree)
        except Exception as error:  # whatever is wrong with a file
            raise unreadable(path, "a fit", error, f"{expected}. Fit again.") from error
        if same is not None:
            require_same(Same.of(same), fit.fitted.same)
        return fit if preset is None else fit.with_program(preset, str(path))

    def with_program(self, program: PresetLike, name: str = "fit") -> "Fit":
        """Return a fit of a model of your own with its NumPyro function, which no file holds.

        A preset's fit takes its own preset, and stays as it is. Raises DirEAGError if the function or preset is another
        than the one that was fitted.
        """
        asked, is_own = presets.preset(program), self.preset.is_own
        if asked.is_own != is_own or (not is_own and asked.name != self.preset.name):
            raise DirEAGError(
                f"{name}: the fit is of {'a model of its own' if is_own else 'preset'} {self.preset.name}; saw "
                f"{asked.name}; expected the one that was fitted. Give it, or none."
            )
        if not is_own:
            return self
        fit = replace(self, program=asked.program)
        require_program_of(fit.tree, fit.preset, fit.likelihood_data)
        return fit
