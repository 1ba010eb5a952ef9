r"""Compare fits by leave-one-out predictive density, and evaluations by paired metrics.

The score of an evidence model is its expected log pointwise predictive density for a question that it has not seen,

.. math:: \widehat{\mathrm{elpd}} = \sum_i \log p(y_i \mid y_{-i}),

from the leave-one-out predictions of each NUTS fit (:mod:`bayes_direag.inference.loo`), before the final calibration.
Two models are compared question by question, so that what is hard for both cancels.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float, Int

from analysis.diagnosis.checks import effective_parameters
from analysis.display.glossary import METRIC_WORDS
from analysis.display.style import REFERENCE, RIGHT, figure_style, forest, headed_figure, panel_grid, row_labels
from analysis.runs.evaluated_run import EvaluatedRun
from analysis.scores.paired import control_false_discoveries, paired_table
from analysis.scores.scoring import scored_rows
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.loo import LARGEST_PARETO_K

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Smaller differences, in standard errors or in nats, are not distinguished from 0.
FEWEST_STANDARD_ERRORS = 2.0
LEAST_DIFFERENCE = 4.0


class LooComparison(NamedTuple):
    """Models in the order of their elpd, the best first.

    ``table``: One row per model: ``model``; ``elpd`` and its standard error ``se``; ``difference`` to the best and
    ``difference_se`` (0 for the best itself); ``distinguishable`` from the best (missing for the best itself);
    ``p_loo``, the effective number of parameters; ``n_bad_k``, questions whose Pareto k is above 0.7; ``weight``, in
    the stacked mixture of all; ``is_weighted``, whether its likelihood is. ``n``: number of questions.
    """

    table: pd.DataFrame
    n: int

    @property
    def conclusion(self) -> str:
        """Which models are distinguishable, in a sentence."""
        best, others = self.table["model"].iloc[0], self.table.iloc[1:]
        told = others["distinguishable"].astype(bool)
        worse, alike = (", ".join(others.loc[rows, "model"]) for rows in (told, ~told))
        parts = []
        if worse:
            parts.append(f"{best} predicts left-out questions better than {worse}")
        if alike:
            parts.append(
                f"{best} and {alike} cannot be told apart on these {self.n} questions (a difference below "
                f"{FEWEST_STANDARD_ERRORS:g} standard errors, or below {LEAST_DIFFERENCE:g})"
            )
        return "; ".join(parts) + "."


def compare_loo(fits: Mapping[str, Fit], *, allow_weighted: bool = False) -> LooComparison:
    r"""Compare NUTS fits to the same questions by leave-one-out predictive density.

    The standard error of a difference is :math:`\sqrt{n \operatorname{var}_i (d_i)}` over the pointwise differences
    :math:`d_i`, with the sample variance var (``arviz_stats.compare`` divides by n instead of n - 1); with clusters it
    is computed from the sums over clusters. It is too small for differences below 4 and for fewer than about 100
    questions.

    Raises DirEAGError if there are fewer than two fits; if one is a MAP (which has no leave-one-out figures); if they
    were fitted to different questions; or if one is weighted without ``allow_weighted``.
    Source: Vehtari, Gelman and Gabry (2017), doi:10.1007/s11222-016-9696-4. Sivula et al. (2025), arXiv:2008.10296, on
    when a difference can be trusted.

    ``fits``: two or more fits by name. They may differ in variant and preset. ``allow_weighted``: compare although a
    fit's likelihood weighs questions unequally, which is not a probability model.
    """
    _check(fits, allow_weighted=allow_weighted)
    elpd = {name: fit.left_out["elpd"].to_numpy() for name, fit in fits.items()}
    order = sorted(fits, key=lambda name: -elpd[name].sum())
    pointwise = np.stack([elpd[name] for name in order], axis=1)
    n = len(pointwise)
    difference = pointwise - pointwise[:, :1]
    cluster = fits[order[0]].fitted.cluster_number
    total, error = difference.sum(axis=0), _standard_error(difference, cluster)
    told = (np.abs(total) >= FEWEST_STANDARD_ERRORS * error) & (np.abs(total) >= LEAST_DIFFERENCE)
    table = pd.DataFrame(
        {
            "model": order,
            "elpd": pointwise.sum(axis=0),
            "se": _standard_error(pointwise, cluster),
            "difference": total,
            "difference_se": error,
            "distinguishable": pd.Series(told, dtype="boolean").mask(np.arange(len(order)) == 0),
            "p_loo": [effective_parameters(fits[name]) for name in order],
            "n_bad_k": [int((fits[name].tree["loo"]["pareto_k"] > LARGEST_PARETO_K).sum()) for name in order],
            "weight": stacking_weights(pointwise),
            "is_weighted": [fits[name].preset.is_weighted for name in order],
        }
    )
    return LooComparison(table, n)


def loo_figure(comparison: LooComparison) -> "Figure":
    """Draw every model's leave-one-out difference to the best, with two standard errors either way."""
    rows = comparison.table
    reach = FEWEST_STANDARD_ERRORS * rows["difference_se"]
    caption = (
        f"{comparison.n} questions, each predicted from all others. Bars: {FEWEST_STANDARD_ERRORS:g} standard errors "
        f"of the difference either way. {comparison.conclusion}"
    )
    with figure_style():
        figure = headed_figure("Which model predicts a left-out question best?", caption, 0.6 + 0.36 * len(rows))
        axes = figure.add_subplot()
        axes.axvline(0, color=REFERENCE, linewidth=1)
        shown = (rows["difference"], rows["difference"] - reach, rows["difference"] + reach)
        forest(axes, *(values.to_numpy(float) for values in shown), colour=RIGHT)
        row_labels(axes, rows["model"].tolist())
        axes.set_xlabel("log predictive density minus that of the best (nats; more is better)")
    return figure


def stacking_weights(elpd: Float[np.ndarray, "problem model"]) -> Float[np.ndarray, " model"]:
    r"""Return the stacking weights: those of the mixture of models that predicts left-out questions best.

    .. math:: \max_w \sum_i \log \sum_m w_m p_m(y_i \mid y_{-i}), \quad w_m \ge 0, \; \sum_m w_m = 1

    They are not probabilities of the models: if two models predict equally well, one of them may get all the weight.

    Source: Yao et al. (2018), doi:10.1214/17-BA1091.

    Examples
    --------
    >>> stacking_weights(np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])).round(3)
    array([0.708, 0.292])
    """
    from arviz_stats import ELPDDataLOO, compare  # here: its import takes a second

    relative = elpd - elpd.max(axis=1, keepdims=True)  # dividing a question's densities by one number changes nothing
    unused = {"se": 0.0, "p": 0.0, "n_samples": 1, "scale": "log", "warning": False, "good_k": 1.0}
    models = {
        str(number): ELPDDataLOO(elpd=elpd_i.sum(), elpd_i=xr.DataArray(elpd_i), n_data_points=len(elpd_i), **unused)
        for number, elpd_i in enumerate(relative.T)
    }
    weight = compare(models, method="stacking", round_to="none")["weight"]
    return np.asarray(weight.loc[list(models)].to_numpy(float).clip(0, 1))


def _standard_error(
    pointwise: Float[np.ndarray, "problem model"], cluster: Int[np.ndarray, " problem"] | None
) -> Float[np.ndarray, " model"]:
    """Return the standard error of the sum over questions or clusters; NaN for a single one."""
    if cluster is not None:
        pointwise = np.stack([np.bincount(cluster, column) for column in pointwise.T], axis=1)
    n, n_models = pointwise.shape
    return np.sqrt(n * pointwise.var(axis=0, ddof=1)) if n > 1 else np.full(n_models, np.nan)


def _check(fits: Mapping[str, Fit], *, allow_weighted: bool) -> None:
    if len(fits) < 2:
        raise DirEAGError(f"saw {len(fits)} fit; expected two or more to compare. Name another.")
    first_name, first = next(iter(fits.items()))
    for name, fit in fits.items():
        if "loo" not in fit.tree.children:
            raise DirEAGError(
                f"{name} is a {fit.method.upper()} fit, a single point, which has no leave-one-out "
                "figures; expected NUTS fits, or exactly two fits with a MAP among them. Fit with --method nuts."
            )
        if not _same_questions(first, fit):
            raise DirEAGError(
                f"{first_name} and {name} were fitted to different observations (SHA-256 "
                f"{first.fingerprint[:8]}… and {fit.fingerprint[:8]}…); "
                "expected the same, question by question. Fit them to one file."
            )
        if fit.preset.is_weighted and not allow_weighted:
            raise DirEAGError(
                f"{name} weighs questions unequally (null_target_weight {fit.preset.null_target_weight}), which is not "
                "a probability model, so its leave-one-out density is none either; expected weight 1. Fit it with "
                "--set null_target_weight=1, or say --allow-weighted to see the figures all the same."
            )


def _same_questions(first: Fit, second: Fit) -> bool:
    data = [(fit.fingerprint, fit.left_out["problem"].to_numpy().tolist()) for fit in (first, second)]
    return data[0] == data[1]


class EvaluationComparison(NamedTuple):
    """The differences of one method's metrics between evaluations.

    ``table``: a row an evaluation after the first, and metric: ``evaluation`` (its name), the columns of
    :func:`~analysis.scores.paired.paired_table` with the first evaluation as ``first``, and ``p_adjusted``, the
    p-value adjusted over all rows by :func:`~analysis.scores.paired.control_false_discoveries`. ``reference``: name of
    the first evaluation. ``n``: number of labelled questions; metrics of own answers are over those that both
    evaluations have answered. ``n_left_out``: number of unlabelled questions. ``interval_level``: of the bootstrap
    intervals.
    """

    table: pd.DataFrame
    reference: str
    n: int
    n_left_out: int
    interval_level: float


def compare_evaluations(
    runs: Mapping[str, EvaluatedRun], method: str = "direag", *, seed: int, n_resamples: int = 1000, level: float = 0.95
) -> EvaluationComparison:
    """Compare every evaluation with the first, on the labelled questions.

    Predictions are held out in every evaluation; their folds need not be the same.

    Raises DirEAGError if there are fewer than two evaluations; if one lacks the method; if their questions (by
    ``problem_id``) differ; or if no question is answered and labelled in all of them.

    ``runs``: two or more evaluations by name. ``method``: a method that all of them have.
    """
    if len(runs) < 2:
        raise DirEAGError(f"saw {len(runs)} evaluation; expected two or more to compare. Name another.")
    rows = {name: _rows_of(name, run, method) for name, run in runs.items()}
    reference, first = next(iter(rows.items()))
    for name, other in rows.items():
        _check_same_questions((reference, first), (name, other))
    labelled, answered = (
        pd.concat({name: table[column].notna() for name, table in rows.items()}, axis=1).all(axis=1)
        for column in ("correct", "confidence")
    )
    if not (labelled & answered).any():
        raise DirEAGError(
            f"no question is answered and labelled in all of {', '.join(rows)}; expected at least one. Evaluate "
            "labelled observations."
        )
    kept = labelled.index[labelled]
    chosen = {name: scored_rows(table.loc[kept]) for name, table in rows.items()}
    options: dict[str, Any] = {"seed": seed, "n_resamples": n_resamples, "level": level}
    parts = {name: paired_table(chosen[reference], chosen[name], **options) for name in list(rows)[1:]}
    table = pd.concat(parts, names=["evaluation"]).reset_index("evaluation").reset_index(drop=True)
    table["p_adjusted"] = control_false_discoveries(table["p_value"].to_numpy(float))
    return EvaluationComparison(table, reference, int(labelled.sum()), int((~labelled).sum()), level)


def difference_figure(comparison: EvaluationComparison, method: str) -> "Figure":
    """Draw every metric's difference to the first evaluation, with its interval, a panel an evaluation."""
    by_name = {str(name): rows for name, rows in comparison.table.groupby("evaluation", sort=False)}
    caption = (
        f"{comparison.n} held-out questions, the same in all. Bars: {comparison.interval_level:.0%} bootstrap interval "
        "of the paired difference. ↑ more is better, ↓ less."
    )
    with figure_style():
        rows_of_panels = -(-len(by_name) // 2)
        title = f"{method}: metrics minus those of {comparison.reference}"
        figure = headed_figure(title, caption, 3.2 * rows_of_panels)
        panels = panel_grid(
            figure, [(name, f"n = {comparison.n}") for name in by_name], 2, x_label="difference", y_label=""
        )
        for axes, rows in zip(panels, by_name.values(), strict=True):
            axes.axvline(0, color=REFERENCE, linewidth=1)
            forest(axes, *(rows[name].to_numpy(float) for name in ("difference", "low", "high")), colour=RIGHT)
        metrics = next(iter(by_name.values()))["metric"]
        arrows = [f"{name.replace('_', ' ')} {METRIC_WORDS[name].arrow}" for name in metrics]
        row_labels(panels[0], arrows)
    return figure


def _rows_of(name: str, run: EvaluatedRun, method: str) -> pd.DataFrame:
    """Return the method's predictions by problem_id."""
    has = run.predictions["method"].unique().tolist()
    if method not in has:
        raise DirEAGError(f"{name} has no method {method!r}; expected one of {', '.join(has)}. Name it with --method.")
    rows = run.predictions[run.predictions["method"] == method]
    return rows.set_index("problem_id")


def _check_same_questions(first: tuple[str, pd.DataFrame], other: tuple[str, pd.DataFrame]) -> None:
    (reference, first_rows), (name, rows) = first, other
    here, there = set(first_rows.index), set(rows.index)
    if here != there:
        stranger = min(here ^ there)
        raise DirEAGError(
            f"{reference} and {name} evaluate different questions: saw {len(here)} and {len(there)}, "
            f"{len(here & there)} of them the same, {stranger!r} not among these; expected the same problem_ids. "
            "Evaluate both on the same file."
        )
