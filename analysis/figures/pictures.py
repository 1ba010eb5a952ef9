"""All pictures of an evaluation or of a fit, each with the numbers behind it, to be written or put in a report."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from analysis.held_out import HeldOutQuestions, require_method, scores_by_method
from analysis.labelled_reports import LabelledReports, stated_confidences
from analysis.methods.direag import FITTED_METHODS
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import label

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Picture(NamedTuple):
    """One picture, and the tables behind it by the name of their file."""

    name: str
    figure: "Figure"
    tables: dict[str, pd.DataFrame]


class LeftOut(NamedTuple):
    """A picture that cannot be drawn, and why."""

    name: str
    reason: str


def evaluation_pictures(
    questions: HeldOutQuestions, method: str, *, seed: int, level: float = 0.95
) -> Iterator[Picture | LeftOut]:
    """Draw an evaluation: benefit, base rate, null state, reliability, selective prediction, stated confidences.

    Parameters
    ----------
    method
        Whose null state and reliability is drawn; the other pictures show all methods.
    seed
        Of bootstrap intervals and bands.
    level
        Of all intervals and bands.

    Raises
    ------
    DirEAGError
        If that method was not evaluated, or has not answered a single labelled question.
    """
    from analysis.figures.evaluation_plots import base_rate_figure, benefit_figure, stated_confidence_figure
    from analysis.scores.scoring import selection_table
    from analysis.scores.state_diagnostics import base_rate_gains

    scores = scores_by_method(questions.predictions)
    require_method(method, list(scores))
    if not len(scores[method].correct):
        raise DirEAGError(f"method {method} has answered no labelled question; expected some. Choose another --method.")
    about = f"{questions.name}, {questions.held_out}."
    worth = selection_table(questions.predictions, seed=seed, level=level)
    yield Picture("benefit", benefit_figure(worth, about, level), {"benefit": worth.assign(interval_level=level)})
    gains = base_rate_gains(questions.predictions, seed=seed, level=level)
    yield Picture("base_rate", base_rate_figure(gains, about, level), {"base_rate": gains.assign(interval_level=level)})
    yield _null_state(questions, method, about, seed, level)
    yield _reliability(questions, method, about, seed, level)
    yield from _selective(questions, about, seed, level)
    if questions.reports is None:
        yield LeftOut("stated_confidence", "the evaluated observations are not at hand; give them with --obs")
    else:
        stated = stated_confidences(questions.reports)
        of = f"{questions.name}, {len(questions.reports.problem_id)} labelled questions."
        yield Picture("stated_confidence", stated_confidence_figure(stated, of), {"stated_confidence": stated})


def fit_pictures(fit: Fit, *, level: float = 0.95) -> Iterator[Picture | LeftOut]:
    """Draw a fit: calibration by level, what each level counts, what all share, and the final recalibration.

    Parameters
    ----------
    level
        Of all intervals and bands over the posterior draws.
    """
    from analysis.figures import fit_plots, learned

    about = describe_fit(fit)
    if fit.variant == "level":
        about += " Weight, bias and null gain trade off here: the prior, not the data, tells them apart."
    if fit.variant == "count":
        yield LeftOut("calibration_curves", "variant count has none: every report counts in full")
    else:
        curves = learned.calibration_curves(fit, level)
        stated = stated_confidences(LabelledReports.of_fits([fit]))
        yield Picture(
            "calibration_curves",
            fit_plots.calibration_curves_figure(curves, stated, about, level),
            {"calibration_curves": curves.assign(interval_level=level), "calibration_curves_stated": stated},
        )
    levels = learned.level_quantities(fit, level)
    yield Picture(
        "levels", fit_plots.level_figure(levels, about, level), {"levels": levels.assign(interval_level=level)}
    )
    shared = learned.shared_quantities(fit, level)
    yield Picture(
        "shared", fit_plots.shared_figure(shared, about, level), {"shared": shared.assign(interval_level=level)}
    )
    if fit.recalibration.method == "none":
        yield LeftOut("recalibration", "there is none: the support is the final probability")
        return
    curve, support = learned.recalibration_curve(fit, level), learned.fitted_support(fit)
    fitted = pd.DataFrame({"problem_id": fit.fitted.problem_id, "support": support})
    if fit.is_counted:
        fitted = fitted.assign(multiplicity=fit.multiplicity)
    yield Picture(
        "recalibration",
        fit_plots.recalibration_figure(
            curve, support, fit.multiplicity, "leave-one-out" if "loo" in fit.tree else "in-sample", about, level
        ),
        {"recalibration": curve.assign(interval_level=level), "recalibration_support": fitted},
    )


def describe_fit(fit: Fit) -> str:
    """Say in a sentence what a fit is and what it was fitted to."""
    attributes = fit.tree.attrs
    how = {"map": "MAP", "nuts": f"NUTS ({fit.n_samples} draws)"}[attributes["method"]]
    of = ", ".join(attributes[name] for name in ("dataset", "model") if attributes[name] != "not stated")
    return (
        f"Fitted to {fit.n_questions} questions{f' of {of}' if of else ''}: {how}, preset {label(fit.preset)}, variant "
        f"{fit.variant}."
    )


def calibrated_method(fit: Fit) -> str:
    """Return what the recalibrated predictions of a fit are called among the methods."""
    return next(name for name, pair in FITTED_METHODS.items() if pair == (fit.variant, "confidence"))


def _null_state(questions: HeldOutQuestions, method: str, about: str, seed: int, level: float) -> Picture | LeftOut:
    from analysis.figures.evaluation_plots import null_state_figure
    from analysis.scores.state_diagnostics import null_state

    rows = questions.predictions[questions.predictions["method"] == method]
    if rows["null_probability"].isna().all():
        return LeftOut("null_state", f"method {method} has no null state; {', '.join(FITTED_METHODS)} do")
    if questions.reports is None:
        return LeftOut("null_state", "which questions have a right candidate is not at hand; give --obs")
    state = null_state(rows, questions.reports.gold_present, seed=seed, level=level)
    tables = {"null_state": state.summary.assign(interval_level=level), "null_state_questions": state.questions}
    return Picture("null_state", null_state_figure(state, method, about), tables)


def _reliability(questions: HeldOutQuestions, method: str, about: str, seed: int, level: float) -> Picture:
    from analysis.figures.reliability_plots import reliability_figure
    from analysis.scores.reliability import reliability

    scores = scores_by_method(questions.predictions)
    variant = FITTED_METHODS.get(method, ("", ""))[0]
    before = [name for name, pair in FITTED_METHODS.items() if pair == (variant, "support") and name != method]
    shown = [name for name in (*before, method) if name in scores]
    results = {
        name: reliability(scores[name].confidence, scores[name].correct, rng=seed, level=level) for name in shown
    }
    names = (
        {before[0]: f"before recalibration\n{before[0]}", method: f"after recalibration\n{method}"}
        if len(shown) > 1
        else {method: method}
    )
    summary = pd.DataFrame(
        [
            {"method": name, "n": result.n, "ece": result.ece, "smece": result.smece, **result.decomposition._asdict()}
            for name, result in results.items()
        ]
    )
    return Picture(
        "reliability",
        reliability_figure({names[name]: result for name, result in results.items()}, about),
        {
            "reliability": summary,
            "reliability_bins": _stacked({name: result.bins for name, result in results.items()}).assign(
                interval_level=level
            ),
            "reliability_curve": _stacked({name: result.curve for name, result in results.items()}).assign(
                interval_level=level
            ),
        },
    )


def _selective(questions: HeldOutQuestions, about: str, seed: int, level: float) -> Iterator[Picture]:
    from analysis.figures.selective_plots import selective_figure
    from analysis.scores.selective import risk_coverage, selective_table

    scores = scores_by_method(questions.predictions)
    curves = {name: risk_coverage(scored.confidence, scored.correct) for name, scored in scores.items()}
    summary = selective_table(questions.predictions, seed=seed, level=level)
    tables = {"selective": summary.assign(interval_level=level), "selective_curves": _stacked(curves)}
    yield Picture("risk_coverage", selective_figure(curves, summary, about, level), tables)


def _stacked(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Put the tables of several methods under each other, with the method in front."""
    return pd.concat(
        [table.assign(method=name)[["method", *table]] for name, table in tables.items()], ignore_index=True
    )
