"""A diagnosis as a person reads it in a terminal of 80 columns, the verdict last."""

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analysis.diagnosis.diagnostics import Diagnosis
from analysis.diagnosis.verdict import direction_in_words, parameter_labels, tail_in_words, weighted_finding
from bayes_direag.commands.options import plain_table, titled
from bayes_direag.fits.convergence import BFMI_LIMIT, ESS_LIMIT, MAX_TREE_DEPTH, RHAT_LIMIT

_UNDEFINED = "\N{EN DASH}"
_FAILS = "bold red"
_MARKS = {"fine": ("ok", "green"), "warning": ("care", "yellow"), "failure": ("FAILS", "bold red")}
_PAIRS_SHOWN = 5


def diagnosis_tables(diagnosis: Diagnosis, title: str) -> Group:
    """Return every table of a diagnosis, and its verdict."""
    flag = Text(f"{weighted_finding().text}\n", style="bold")
    return Group(
        *([flag] if diagnosis.is_weighted else []),
        _parameters(diagnosis, title),
        _chains(diagnosis.chains),
        _identifiability(diagnosis),
        _predictive(diagnosis),
        _calibration(diagnosis),
        _leave_one_out(diagnosis),
        _verdict(diagnosis),
    )


def _parameters(diagnosis: Diagnosis, title: str) -> Group:
    rows = diagnosis.parameters
    table = _numbers("parameter", "R-hat", "bulk\nESS", "tail\nESS", "MCSE\n/ sd", "contrac-\ntion", "prior\nz")
    for label, row in zip(parameter_labels(rows), rows.to_dict("records"), strict=True):
        table.add_row(
            Text(label),
            _judged(row["rhat"], ".3f", fine=row["rhat"] < RHAT_LIMIT),
            _judged(row["ess_bulk"], ".0f", fine=row["ess_bulk"] > ESS_LIMIT),
            _judged(row["ess_tail"], ".0f", fine=row["ess_tail"] > ESS_LIMIT),
            _number(row["mcse_relative"], ".3f"),
            _number(row["contraction"], ".2f"),
            _number(row["z_score"], "+.1f"),
        )
    pooled = rows["parameter"].str.endswith("_spread").any()
    offsets = " weight, bias: a level's offset from the centre, in units of the spread." if pooled else ""
    return titled(
        title,
        table,
        f"Expected: R-hat below {RHAT_LIMIT}, ESS (effective number of draws) above {ESS_LIMIT:.0f}. MCSE / sd: "
        "Monte-Carlo error of the mean in posterior sds. contraction: share of the prior's variance that the labels "
        "have removed. prior z: posterior mean in prior sds from the prior's. All on the scale that is sampled (raw)."
        f"{offsets}",
    )


def _chains(chains: pd.DataFrame) -> Group:
    table = _numbers("chain", "draws", "diverged", "cut short", "BFMI", "acceptance", "step size")
    for row in chains.to_dict("records"):
        table.add_row(
            str(row["chain"]),
            str(row["draws"]),
            _judged(row["divergences"], ".0f", fine=row["divergences"] == 0),
            _number(row["at_max_depth"], ".1%"),
            _judged(row["bfmi"], ".2f", fine=row["bfmi"] > BFMI_LIMIT),
            _number(row["acceptance"], ".2f"),
            _number(row["step_size"], ".3f"),
        )
    caption = f"Expected: no divergence, BFMI above {BFMI_LIMIT}. cut short: trajectories at depth {MAX_TREE_DEPTH}."
    return titled("How each chain moved", table, caption)


def _identifiability(diagnosis: Diagnosis) -> Group:
    table = plain_table("strongest correlations", "")
    table.add_column("r", justify="right")
    for row in diagnosis.correlations.head(_PAIRS_SHOWN).to_dict("records"):
        table.add_row(Text(row["first"]), Text(f"  {row['second']}  "), _number(row["correlation"], "+.2f"))
    flat, scale = diagnosis.flat, diagnosis.scale
    return titled(
        "What the labels leave open",
        table,
        f"Flat direction: {direction_in_words(flat.loadings)}; {flat.variance_left:.0%} of the prior's variance left; "
        f"{flat.likelihood_change:.2f} nats of log-likelihood a posterior sd. Scale of weight, prior_strength and "
        f"null_base: {'prior_strength is the unit' if scale.fixed else 'held by the prior alone'}; "
        f"{scale.likelihood_change:.2f} nats.",
    )


def _predictive(diagnosis: Diagnosis) -> Group:
    checks = diagnosis.predictive
    table = _numbers("levels\nagree", "n", "selected\nright", "predicted", "tail", "none\nright", "predicted", "tail")
    for _, rows in checks.table.groupby("pattern", sort=False):
        cells = [cell for row in rows.to_dict("records") for cell in _compared(row)]
        table.add_row(str(rows["pattern"].iloc[0]), str(rows["n"].iloc[0]), *cells)
    several = (
        f" Several answers are right in {diagnosis.n_several_correct} questions: there they count as one."
        if diagnosis.n_several_correct
        else ""
    )
    return titled(
        f"Do the labels look as predicted? With {diagnosis.interval_level:.0%} intervals",
        table,
        "levels agree: how many gave each answer, most first. tail: probability, under the fitted model, of a share "
        f"as far out, on both sides. All together: {tail_in_words(checks.tail_probability)}.{several} The model has "
        "seen these labels, so agreement says little.",
    )


def _calibration(diagnosis: Diagnosis) -> Group:
    checks = diagnosis.calibration
    table = _numbers("bin", *(header for name in checks for header in ("n", f"{name}\nsays", "right", "interval")))
    for rows in zip(*(check.reliability.bins.to_dict("records") for check in checks.values()), strict=True):
        if any(row["n"] for row in rows):
            cells = [cell for row in rows for cell in _bin_cells(row)]
            table.add_row(f"{rows[0]['low']:.1f}-{rows[0]['high']:.1f}", *cells)
    measures = "; ".join(
        f"{name}: ECE {check.reliability.ece:.3f}, smECE {check.reliability.smece:.3f}, all bins together: "
        f"{tail_in_words(check.tail_probability)}"
        for name, check in checks.items()
    )
    return titled(
        f"Are left-out answers right as often as stated? With {diagnosis.interval_level:.0%} Wilson intervals",
        table,
        f"support: before the final calibration; confidence: after it. {measures}.",
    )


def _bin_cells(row: Mapping[Hashable, Any]) -> tuple[str, str, str, str]:
    if not row["n"]:
        return "", _UNDEFINED, _UNDEFINED, _UNDEFINED
    interval = f"{_share(row['right_low'])}-{_share(row['right_high'])}"
    return str(row["n"]), _share(row["confidence"]), _share(row["right"]), interval


def _leave_one_out(diagnosis: Diagnosis) -> Group:
    table = _numbers("Pareto k", "questions")
    for row in diagnosis.pareto.to_dict("records"):
        table.add_row(row["range"], str(row["n"]))
    loo = diagnosis.loo
    worst = ", ".join(
        f"{row['problem_id']} ({_number(row['pareto_k'], '.2f')})" for row in diagnosis.worst.to_dict("records")
    )
    return titled(
        f"Left-out questions: elpd {loo.elpd:.1f} ± {loo.se:.1f}, p_loo {loo.p_loo:.1f}, {loo.n} questions",
        table,
        f"k up to 0.7: the figure for that question holds without refitting. Largest: {worst}.",
    )


def _verdict(diagnosis: Diagnosis) -> Group:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for finding in diagnosis.verdict:
        table.add_row(Text(*_MARKS[finding.status]), Text(finding.text))
    if not diagnosis.believable:
        last = "Believable: NO. Mend the sampling first; every other figure above rests on these draws."
    else:
        last = "Believable: yes, the draws are draws from this model's posterior, as far as can be seen."
        if any(finding.status == "warning" for finding in diagnosis.verdict):
            last += " Mind what is marked care."
    return Group(Text("Verdict", style="italic"), Padding(table, (1, 0)), Text(last, style="bold"))


def _numbers(first: str, *others: str) -> Table:
    table = plain_table(first)
    for header in others:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def _compared(row: Mapping[Hashable, Any]) -> tuple[str, str, Text]:
    """Return the observed share, its expected interval, and the tail probability, which stands out where small."""
    tail = row["tail_probability"]
    return (
        _share(row["observed"]),
        f"{_share(row['low'])}-{_share(row['high'])}",
        Text("<.01" if tail < 0.01 else _share(tail), style="bold" if tail < 0.01 else ""),
    )


def _judged(value: float | int, form: str, *, fine: bool) -> Text:
    return Text(_number(value, form), style="" if fine else _FAILS)


def _number(value: float | int, form: str) -> str:
    return _UNDEFINED if math.isnan(value) else format(value, form)


def _share(value: float) -> str:
    """Two decimals without the leading zero."""
    return _UNDEFINED if np.isnan(value) else f"{value:.2f}".removeprefix("0")
