"""Fits or evaluations against each other: what ``direag compare`` does, as a function."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float
from scipy.special import logsumexp

from analysis.display.document import Block, Column, Picture, Result, Statements, Table, Terms
from analysis.display.folders import ResultFolder, versions
from analysis.display.glossary import FIRST_METRICS, METRIC_WORDS
from analysis.display.style import (
    REFERENCE,
    RIGHT,
    WRONG,
    figure_style,
    forest,
    headed_figure,
    row_labels,
    without_formulas,
)
from analysis.display.text import UNDEFINED, difference_in_words, interval, listed, number
from analysis.evaluation import Evaluation
from analysis.learned import describe_fit
from analysis.methods.direag import after_calibration
from analysis.parameters import compared_parameters, parameter_tables, parameters_picture
from analysis.scores.paired import paired_table
from analysis.scores.scoring import cluster_column, scored_rows
from bayes_direag.data.columns import Columns
from bayes_direag.data.files import as_records
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError, did_you_mean
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import left_out_predictions
from bayes_direag.fits.parameters import INTERVAL_LEVEL
from bayes_direag.inference.loo import LARGEST_PARETO_K
from bayes_direag.inference.psis import smoothed_weights
from bayes_direag.model.selection import tails
from bayes_direag.model.states import States

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The main table first.
TABLES = ("loo", "metrics", "predictions", "parameters")
COMPARISON_FOLDER = ResultFolder("comparison", "comparison.json", (*TABLES, "moved"), TABLES)

#: Smaller differences, in standard errors or in nats, are not distinguished from 0.
FEWEST_STANDARD_ERRORS, LEAST_DIFFERENCE = 2.0, 4.0
#: Level of the bootstrap intervals of metrics.
BOOTSTRAP_LEVEL = 0.95
_SHOWN = 10

_LOO_NOTE = (
    "elpd: log probability of the state that occurred, each question left out, before recalibration, summed; more is "
    f"better. A difference below {FEWEST_STANDARD_ERRORS:g} standard errors, or below {LEAST_DIFFERENCE:g}, tells "
    "nothing apart. p: effective parameters. weight: in the stacked mixture, no probability of the model. care: what "
    "ArviZ warns of."
)
_METRICS_NOTE = (
    "With its paired bootstrap interval over questions; an interval that contains 0 shows no clear difference. Benefit "
    "(accuracy minus Brier score of the selected answers) says which is better. From Brier score on, metrics are of "
    "own answers, on questions that both have answered."
)
#: The metrics that a table shows; of the calibration errors smECE, by which verdicts are given.
_SHOWN_METRICS = (*FIRST_METRICS, "brier", "nll", "smece", "auroc")


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """The tables of a comparison.

    Attributes
    ----------
    described : dict
        What each fit or evaluation is, by its name.
    tables : dict
        ``loo``: leave-one-out, the best model first. ``metrics``: paired differences to the first of those compared.
        ``predictions``: a row per model and question. ``moved``: how far these are from those of the first model.
        ``parameters``: see
        :func:`~analysis.parameters.compared_parameters`.
    record : dict
        All of it as JSON can hold it.
    """

    described: dict[str, str]
    tables: dict[str, pd.DataFrame]
    record: dict[str, object]

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.described)}; tables {', '.join(self.tables)})"

    @property
    def table(self) -> pd.DataFrame:
        """The main table: leave-one-out, differences of metrics, or predictions of unlabelled questions."""
        return next(iter(self.tables.values()))

    def _draw(self, axes: "Axes") -> None:
        name = next(name for name in self.tables if name in _PICTURES)
        _PICTURES[name][-1](axes, self.tables[name])

    def pictures(self) -> Iterator[Picture]:
        """Draw every table."""
        first, *others = self.described
        for name, (title, caption, draw) in _PICTURES.items():
            if name in self.tables:
                table = self.tables[name]
                words = {"n": table["n"].iloc[0], "first": first, "others": " or ".join(others)}
                height = 4.6 if name == "predictions" else 0.6 + 0.3 * len(table)
                with figure_style():
                    figure = headed_figure(title.format(**words), caption.format(**words), height, width=7.4)
                    draw(figure.subplots(), table)
                yield Picture(name, figure)
        if "parameters" in self.tables:
            yield parameters_picture(self.tables["parameters"])

    def blocks(self) -> Iterator[Block]:
        """Yield the verdict, what is compared, and the tables."""
        reference = next(iter(self.described))
        tables, parts = self.tables, []
        if "loo" in tables:
            parts.append(_loo_table(tables["loo"]))
        if "parameters" in tables:
            parts += parameter_tables(tables["parameters"])
        if "metrics" in tables:
            parts += [_metrics_table(rows, str(name), reference) for name, rows in tables["metrics"].groupby("model")]
        if "moved" in tables and tables["moved"]["changed"].any():
            has_texts = "parameters" not in tables or self.record["observations_sha256"] is not None
            parts.append(_changed_table(tables["predictions"], reference, has_texts))
        yield Statements(tuple(_verdict(tables, reference)))
        yield Terms("", tuple(self.described.items()))
        yield from parts

    def write(self, folder: str | Path) -> None:
        """Write a folder of tables, pictures and the record, as ``direag compare --out`` does."""
        COMPARISON_FOLDER.write(folder, self.record, self.tables, self.pictures())


def compare(
    compared: Mapping[str, Fit] | Mapping[str, Evaluation],
    observations: Observations | None = None,
    *,
    method: str | None = None,
    seed: int = 0,
    n_resamples: int = 1000,
    on_step: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Compare fits by parameters and predictions, NUTS fits by leave-one-out, or evaluations of the same questions.

    Parameters
    ----------
    compared
        Two or more fits, or two or more evaluations, by name; each is compared with the first.
    observations
        Questions that fits predict. Without them, fits to the same questions predict these, each without its own label.
    method
        The method to compare between evaluations; by default, ``direag``.
    seed, n_resamples
        Seed and number of bootstrap resamples.
    on_step
        Called with the name of each step.

    Raises
    ------
    DirEAGError
        If there are fewer than two, they are not alike, or an argument does not go with them.
    """
    if len(compared) < 2:
        raise DirEAGError(f"saw {len(compared)} to compare; expected two or more fits or evaluations. Name another.")
    evaluations = {name: value for name, value in compared.items() if isinstance(value, Evaluation)}
    fits = {name: value for name, value in compared.items() if isinstance(value, Fit)}
    if evaluations and fits:
        raise DirEAGError("saw fits among evaluations; expected either alone. Compare like with like.")
    if evaluations and observations is not None:
        raise DirEAGError("observations (--obs): saw evaluation folders; expected them with fits. Leave them out.")
    if fits and method is not None:
        raise DirEAGError(f"method={method!r}: saw fits; expected it with evaluation folders. Leave it out.")
    tables, frames = {}, {}
    if fits:
        check_comparable(fits, same_questions=observations is None)
        tables["parameters"] = compared_parameters(fits)
    if len({fit.fingerprint for fit in fits.values()}) == 1 and all(fit.method == "nuts" for fit in fits.values()):
        tables["loo"] = compare_leave_one_out(fits)
    if evaluations:
        on_step("comparing evaluations")
        frames = held_out(evaluations, method or "direag")
    elif observations is not None:
        on_step(f"predicting {len(observations)} questions")
        frames = {name: predicted(fit, observations) for name, fit in fits.items()}
    elif any(fit.method == "map" for fit in fits.values()):
        on_step("predicting each question without its label")
        frames = {name: out_of_sample(fit) for name, fit in fits.items()}
        first, *others = (frame.index for frame in frames.values())
        common = [name for name in first if all(name in other for other in others)]  # a fit may set some apart
        frames = {name: frame.loc[common] for name, frame in frames.items()}
    if frames:
        if any(frame["correct"].notna().any() for frame in frames.values()):
            tables["metrics"] = paired_metrics(frames, seed=seed, n_resamples=n_resamples)
        tables["predictions"] = side_by_side(frames)
        tables["moved"] = moved(tables["predictions"])
    tables = {name: tables[name] for name in (*TABLES, "moved") if name in tables}
    described = {name: f"{evaluation.how}; {evaluation.design}" for name, evaluation in evaluations.items()}
    described |= {name: describe_fit(fit) for name, fit in fits.items()}
    record: dict[str, object] = {"compared": described, "seed": seed, "resamples": n_resamples}
    record |= {"interval_level": INTERVAL_LEVEL, "metrics_level": BOOTSTRAP_LEVEL}
    record |= {"method": (method or "direag") if evaluations else None}
    record |= {"observations_sha256": None if observations is None else observations.fingerprint}
    record |= {name: as_records(table) for name, table in tables.items() if name != "predictions"}
    record |= {"versions": versions("numpyro", "jax", "numpy", "scipy")}
    return Comparison(described, tables, record)


def check_comparable(fits: Mapping[str, Fit], *, same_questions: bool) -> None:
    """Raise DirEAGError unless fits that must be to the same questions are."""
    first_name, first = next(iter(fits.items()))
    for name, fit in fits.items():
        if same_questions and fit.fingerprint != first.fingerprint:
            raise DirEAGError(
                f"{first_name} and {name} were fitted to different observations (SHA-256 {first.fingerprint[:8]}… and "
                f"{fit.fingerprint[:8]}…); expected the same. Fit them to one file, or give questions to predict "
                "(--obs)."
            )


def held_out(evaluations: Mapping[str, Evaluation], method: str) -> dict[str, pd.DataFrame]:
    """Return the predictions of a method in several evaluations of the same questions, by ``problem_id``."""
    frames: dict[str, pd.DataFrame] = {}
    for name, evaluation in evaluations.items():
        predictions, methods = evaluation.predictions, evaluation.settings.methods
        if method not in methods:
            raise DirEAGError(
                f"{name} has no method {method!r}; expected one of {', '.join(methods)}."
                f"{did_you_mean(method, methods)} Evaluate it, or in Python name another (method=)."
            )
        frames[name] = predictions[predictions["method"] == method].set_index(evaluation.of.question)
        reference, first = next(iter(frames.items()))
        expected, asked = set(first.index), set(frames[name].index)
        if expected != asked:
            raise DirEAGError(
                f"{reference} and {name} evaluate different questions: saw {len(expected)} and {len(asked)}, "
                f"{len(expected & asked)} of them the same, {min(expected ^ asked)!r} not among these; expected the "
                "same problem_ids. Evaluate both on the same file."
            )
    usable = [frame.loc[first.index, ["correct", "probability"]].notna().all(axis=1) for frame in frames.values()]
    if not np.logical_and.reduce(usable).any():
        raise DirEAGError(
            f"no question is answered and labelled in all of {', '.join(frames)}; expected at least one. Evaluate "
            "labelled observations."
        )
    return {name: frame.loc[first.index] for name, frame in frames.items()}


def predicted(fit: Fit, observations: Observations) -> pd.DataFrame:
    """Return what a fit predicts, by ``problem_id``; ``fitted``: whether it has learned from the question."""
    table, aligned = fit.predict(observations, interval_level=INTERVAL_LEVEL, warn=False), fit.aligned(observations)
    right = pd.Series(observations.is_right(table["answer"]), dtype="boolean")
    columns = {
        "answer": table["answer"],
        "probability": table["probability"],
        "low": table.get("probability_low", np.nan),
        "high": table.get("probability_high", np.nan),
        "correct": right.where(observations.labelled & observations.answered),
        "state_probability": after_calibration(fit, aligned).state_probability(aligned),
        "cluster": cluster_column(observations),
        "fitted": fit.has_seen(observations),
    }
    return pd.DataFrame(columns).set_axis(
        pd.Index(observations.problem_id, dtype="str", name=observations.question_column)
    )


def out_of_sample(fit: Fit) -> pd.DataFrame:
    """Return what a fit predicts of each of its questions without that question's label, by ``problem_id``.

    See :func:`~bayes_direag.fits.making.left_out_predictions`; of NUTS draws, ``low`` and ``high`` are the interval of
    the reweighted draws. An answer is named by the levels that gave it.
    """
    questions, left_out = fit.fitted, left_out_predictions(fit)
    gave = questions.candidate == left_out["candidate"].to_numpy()[:, None]
    levels = np.array(questions.level_names)  # they name an answer, as a fit does not hold its text
    named = [listed([*levels[row][:2], *([f"{row.sum() - 2} more"] if row.sum() > 2 else [])]) for row in gave]
    low, high = left_out_interval(fit) if fit.method == "nuts" else (np.nan, np.nan)
    columns = {
        "cluster": cluster_column(questions),
        "fitted": False,
        "answer": named,
        "probability": left_out["probability"],
        "low": low,
        "high": high,
        "correct": left_out["correct"].astype("boolean"),
        "state_probability": np.nan,
    }
    index = pd.Index(questions.problem_id, dtype="str", name=(fit.columns or Columns()).question)
    return pd.DataFrame(columns).set_axis(index)


def left_out_interval(fit: Fit) -> Float[np.ndarray, "2 problem"]:
    """Return the ends of the interval of each selected answer's final probability, its own label left out."""
    questions, chosen = fit.fitted, fit.left_out["candidate"].to_numpy()
    density = fit.tree["log_likelihood"]["target"].transpose("chain", "draw", ...).to_numpy()
    density = density.reshape(-1, len(questions))

    def ends(states: States) -> Float[np.ndarray, "2 problem"]:
        row = np.arange(states.questions.start, min(states.questions.stop, len(questions)))
        support = states.support[chosen[row], np.arange(len(row))].T
        final = fit.calibration.of_selected(support, states.panels)
        log_weight, _ = smoothed_weights(np.ascontiguousarray(density[:, row].T), 1.0)
        order = final.argsort(axis=0)
        reached = np.take_along_axis(np.exp(log_weight).T, order, axis=0).cumsum(axis=0)
        ranks = [(reached < tail * reached[-1]).sum(axis=0) for tail in tails(INTERVAL_LEVEL)]
        ranked = np.take_along_axis(final, order, axis=0)
        return np.stack([ranked[np.minimum(rank, len(ranked) - 1), np.arange(len(row))] for rank in ranks])

    return np.concatenate([*fit.evaluation(questions).each(ends)], axis=1)


def paired_metrics(frames: Mapping[str, pd.DataFrame], *, seed: int, n_resamples: int) -> pd.DataFrame:
    """Compare each frame of predictions with the first, on questions labelled in all, paired by question."""
    first, *others = frames
    kept = pd.concat([frame["correct"].notna() for frame in frames.values()], axis=1).all(axis=1)
    scored = {name: scored_rows(frame[kept]) for name, frame in frames.items()}
    tables = {
        name: paired_table(scored[first], scored[name], seed=seed, n_resamples=n_resamples, level=BOOTSTRAP_LEVEL)
        for name in others
    }
    metrics = pd.concat(tables, names=["model", None]).reset_index(level="model").reset_index(drop=True)
    return metrics.assign(n=int(kept.sum()), left_out=int((~kept).sum()))


def side_by_side(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Put predictions under each other, with ``changed`` and ``shift`` against the first frame."""
    first = next(iter(frames.values()))
    tables = {}
    for name, frame in frames.items():
        answered = first["probability"].notna() & frame["probability"].notna()
        changed = (frame["answer"] != first["answer"]).astype("boolean").where(answered)
        shift = frame["probability"] - first["probability"]
        tables[name] = frame.assign(changed=changed, shift=shift, reference=first["probability"], n=int(answered.sum()))
    return pd.concat(tables, names=["model", first.index.name]).reset_index()


def moved(predictions: pd.DataFrame) -> pd.DataFrame:
    """Summarise how far predictions are from those of the first frame; ``fitted``: how many it has learned from."""
    rows = []
    for name, table in predictions.groupby("model", sort=False):
        answered = table[table["shift"].notna()].set_index(table.columns[1])
        shift, fitted = answered["shift"], answered.get("fitted", pd.Series(dtype=bool))
        largest: Any = shift.abs().idxmax() if len(shift) else None
        row: dict[str, object] = {"model": name, "n": len(answered), "unanswered": len(table) - len(answered)}
        row |= {"fitted": int(fitted.sum()), "changed": int(answered["changed"].sum()), "mean_shift": shift.mean()}
        row |= {"mean_absolute_shift": shift.abs().mean(), "largest_at": largest}
        rows.append(row | {"largest_shift": np.nan if largest is None else shift[largest]})
    return pd.DataFrame(rows)


def compare_leave_one_out(fits: Mapping[str, Fit]) -> pd.DataFrame:
    """Compare NUTS fits to the same questions by ``arviz_stats.compare``, the best first.

    Its columns, of which ``elpd_diff``, with its standard error ``dse``, is the difference to the best fit, question by
    question (or cluster by cluster), so that what is hard for both cancels. ``weight`` is that in the mixture of all
    that predicts left-out questions best (stacking, Yao et al. 2018, doi:10.1214/17-BA1091). Besides, the ``n``
    questions, and whether a fit is ``distinguishable`` from the best.

    Questions that a fit keeps for its final calibration count for none. Raises DirEAGError for a weighted likelihood.

    Source: Vehtari, Gelman and Gabry (2017), doi:10.1007/s11222-016-9696-4. Sivula et al. (2025), arXiv:2008.10296, on
    when a difference can be trusted.
    """
    from arviz_stats import ELPDDataLOO  # here: its import takes a second
    from arviz_stats import compare as compare_elpd

    weighted = next((name for name, fit in fits.items() if fit.preset.is_weighted), None)
    if weighted is not None:
        raise DirEAGError(
            f"{weighted} weighs questions unequally (null_target_weight {fits[weighted].preset.null_target_weight}), "
            "which is not a probability model, so its leave-one-out density is none either; expected weight 1. Take "
            "preset paper."
        )
    first, *others = (fit.left_out["problem"].to_numpy().tolist() for fit in fits.values())
    shared = set(first).intersection(*others)
    common = [name for name in first if name in shared]
    pointwise = pd.DataFrame({name: _by_cluster(fit, common) for name, fit in fits.items()})
    n, most = len(pointwise), pointwise.max(axis=1)  # dividing a question's densities by one number changes nothing
    models = {
        name: ELPDDataLOO(
            elpd=elpd.sum(),
            se=np.sqrt(n * elpd.var()),
            p=_effective_parameters(fits[str(name)], common),
            n_samples=fits[str(name)].n_samples,
            n_data_points=n,
            scale="log",
            warning=False,
            good_k=LARGEST_PARETO_K,
            elpd_i=xr.DataArray(elpd - most),
            pareto_k=fits[str(name)].left_out["pareto_k"].sel(problem=common),
        )
        for name, elpd in pointwise.items()
    }
    table: pd.DataFrame = compare_elpd(models, method="stacking", round_to="none").rename_axis("model").reset_index()
    size = table["elpd_diff"].abs()
    told = (n > 1) & (size >= FEWEST_STANDARD_ERRORS * table["dse"]) & (size >= LEAST_DIFFERENCE)
    return table.assign(
        n=len(common),
        distinguishable=told.astype("boolean").mask(table.index == 0),
    )


def _effective_parameters(fit: Fit, common: list[str]) -> float:
    """Return by how much the log density falls if each question's own label is left out."""
    density = fit.tree["log_likelihood"]["target"].reduce(logsumexp, ("chain", "draw")) - np.log(fit.n_samples)
    return float((density - fit.left_out["elpd"]).sel(problem=common).sum())


def _by_cluster(fit: Fit, common: list[str]) -> np.ndarray:
    elpd, cluster = fit.left_out["elpd"].sel(problem=common).to_numpy(), fit.fitted.cluster_number
    if cluster is None:
        return elpd
    of_common = cluster[[fit.fitted.problem_id.index(name) for name in common]]
    return np.bincount(np.unique(of_common, return_inverse=True)[1], elpd)


def _verdict(tables: Mapping[str, pd.DataFrame], reference: str) -> Iterator[str]:
    if "loo" in tables:
        rows = tables["loo"]
        yield (
            f"{rows['model'][0]} predicts left-out questions best; of the other {len(rows) - 1}, "
            f"{int(rows['distinguishable'].sum())} can be told apart from it on {rows['n'][0]} questions."
        )
    for row in tables["metrics"].query("metric == 'benefit'").to_dict("records") if "metrics" in tables else ():
        if tables["moved"]["fitted"].any():
            yield (
                f"In sample, where fits look too good, {row['model']} has a benefit of {number(row['second'])} and "
                f"{reference} of {number(row['first'])}: no verdict. Leave --obs out, or give new questions."
            )
            continue
        ends = row["difference"], row["low"], row["high"]
        told = difference_in_words(row["model"], *ends, n=row["n"], level=BOOTSTRAP_LEVEL)
        yield f"{row['model']} has a benefit of {number(row['second'])}, {reference} of {number(row['first'])}. {told}"
    for row in tables["moved"][1:].to_dict("records") if "moved" in tables else ():
        yield (
            f"{row['changed']} of {row['n']:,} answers change from {reference} to {row['model']}, and probabilities "
            f"move by {number(row['mean_absolute_shift'])} on average, most at {row['largest_at']} "
            f"({number(row['largest_shift'], signed=True)})."
        )


def _loo_table(table: pd.DataFrame) -> Table:
    columns = {
        Column("model", holds="name"): lambda row: row["model"],
        Column("elpd ± se"): lambda row: f"{number(row['elpd'], 1)} ± {number(row['se'], 1)}",
        Column("difference ± se"): lambda row: f"{number(row['elpd_diff'], 1)} ± {number(row['dse'], 1)}",
        Column("told apart"): lambda row: {True: "yes", False: "no"}.get(row["distinguishable"], "best"),
        Column("p"): lambda row: number(row["p"], 1),
        Column("weight"): lambda row: number(row["weight"], 2),
        Column("care", holds="prose"): lambda row: "; ".join(filter(None, (row["diag_diff"], row["diag_elpd"]))),
    }
    return Table.of(f"Leave-one-out on {table['n'][0]} questions", table.to_dict("records"), columns, _LOO_NOTE)


def _metrics_table(table: pd.DataFrame, name: str, reference: str) -> Table:
    columns = {
        Column("metric", holds="name"): lambda row: METRIC_WORDS[row["metric"]].header,
        Column(reference): lambda row: number(row["first"]),
        Column(name): lambda row: number(row["second"]),
        Column("difference"): lambda row: number(row["difference"], signed=True),
        Column("95% interval"): lambda row: interval(row["low"], row["high"], signed=True, undefined=UNDEFINED),
    }
    n, left_out = table[["n", "left_out"]].iloc[0]
    caption = f"{name} minus {reference}, {n} labelled questions, {left_out} others left out"
    rows = table.set_index("metric", drop=False).reindex(_SHOWN_METRICS).dropna(subset="second")
    return Table.of(caption, rows.to_dict("records"), columns, _METRICS_NOTE, "metrics.csv, with more")


def _changed_table(table: pd.DataFrame, reference: str, has_texts: bool) -> Table:
    """Tabulate the questions whose answer changes, by the smaller of the two probabilities, the greatest first."""
    question = str(table.columns[1])
    first = table[table["model"] == reference].set_index(question)["answer"]
    changed = table[table["changed"].fillna(value=False).astype(bool)]
    least = changed[["probability", "reference"]].min(axis=1)
    rows = changed.loc[least.sort_values(ascending=False, kind="stable").index[:_SHOWN]]
    others = [name for name in table["model"].unique() if name != reference]
    columns = {
        Column(question, holds="name"): lambda row: row[question],
        Column(f"answer of {reference}", holds="name"): lambda row: first[row[question]],
        Column("probability", reference): lambda row: number(row["reference"], 2),
        **({Column("model", holds="name"): lambda row: row["model"]} if len(others) > 1 else {}),
        Column(f"answer of {others[0]}" if len(others) == 1 else "answer", holds="name"): lambda row: row["answer"],
        Column("probability"): lambda row: number(row["probability"], 2),
        Column("and right"): lambda row: {True: "✓", False: "✗"}.get(row["correct"], ""),
    }
    caption, note = f"Answers that change: {len(changed)}", f"The surest {_SHOWN}; all are in predictions.csv (--out)."
    if not has_texts:
        note += " An answer is named by the levels that gave it: a fit holds no texts."
    return Table.of(caption, rows.to_dict("records"), columns, note)


def _draw_loo(axes: "Axes", table: pd.DataFrame) -> None:
    reach = FEWEST_STANDARD_ERRORS * table["dse"]
    ends = {"low": table["elpd_diff"] - reach, "high": table["elpd_diff"] + reach}
    axes.axvline(0, color=REFERENCE, linewidth=1)
    forest(axes, table[["elpd_diff"]].assign(**ends), colour=RIGHT)
    row_labels(axes, table["model"].tolist())
    axes.set_xlabel("log predictive density minus that of the best (nats; more is better)")


def _draw_differences(axes: "Axes", table: pd.DataFrame) -> None:
    shown = table[table["metric"].isin(_SHOWN_METRICS)].dropna(subset="difference")
    towards_better = shown["metric"].map(lambda name: 1 if METRIC_WORDS[name].more_is_better else -1)
    axes.axvline(0, color=REFERENCE, linewidth=1)
    forest(axes, shown[["difference", "low", "high"]].mul(towards_better, axis=0), colour=RIGHT)
    names = shown["metric"].map(lambda name: METRIC_WORDS[name].header)
    row_labels(axes, (shown["model"] + " · " + names if len(set(shown["model"])) > 1 else names).tolist())
    axes.set_xlabel("worse  ←  difference  →  better")


def _draw_shifts(axes: "Axes", table: pd.DataFrame) -> None:
    """Draw how far each probability moves from the first fit, against that fit's, with the interval of the draws."""
    first, *others = table["model"].unique()
    axes.axhline(0, color=REFERENCE, linewidth=1)
    rows = table[(table["model"] != first) & table["shift"].notna()]
    for changed, colour, marker, size in ((False, RIGHT, "o", 4.5), (True, WRONG, "^", 7.5)):
        part = rows[rows["changed"].astype(bool) == changed]
        x, label = part["reference"], f"{'another' if changed else 'the same'} answer ({len(part)})"
        if "low" in part:
            opacity = 0.8 if changed else 0.25
            axes.vlines(x, part["low"] - x, part["high"] - x, color=colour, linewidth=0.9, alpha=opacity, zorder=1)
        axes.plot(x, part["shift"], marker, color=colour, markersize=size, mec="white", mew=0.5, label=label)
    if "low" in rows and rows["low"].notna().any():
        holds = ((rows["low"] <= rows["reference"]) & (rows["reference"] <= rows["high"])).sum()
        label = f"90% interval; {holds} of {len(rows)} contain 0"
        axes.plot([], [], color=RIGHT, linewidth=0.9, alpha=0.5, label=label)
    axes.set_xlim(0, 1)
    axes.margins(y=0.12)
    axes.set_xlabel(without_formulas(f"probability that the answer is right, {first}"))
    axes.set_ylabel(without_formulas(f"{' or '.join(others)} minus {first}"))
    axes.legend(loc="upper right", ncols=3, columnspacing=1.2, handletextpad=0.4)


#: Title, caption and drawing of each picture.
_PICTURES = {
    "loo": (
        "Which model predicts a left-out question best?",
        "{n} questions, each predicted from all others. Bars: 2 standard errors of the difference either way.",
        _draw_loo,
    ),
    "metrics": (
        "Is {others} better than {first}?",
        "{n} questions, the same in all. Bars: 95% bootstrap interval of the paired difference; one that reaches over "
        "the line shows no clear difference. Right of the line is better, also where the metric is an error.",
        _draw_differences,
    ),
    "predictions": (
        "How far do probabilities move, from {first} to {others}?",
        "A point for each of {n} questions; above 0, {others} is surer of its answer than {first}. Lines: 90% interval "
        "of the draws; one that contains 0 contains the probability of {first}.",
        _draw_shifts,
    ),
}
