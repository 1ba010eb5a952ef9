"""A diagnosis as tables of 80 columns, with the verdict last."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analysis.diagnosis.diagnostics import Diagnosis
from analysis.diagnosis.identifiability import parameter_labels
from analysis.diagnosis.verdict import WEIGHTED, direction_in_words, tail_in_words
from analysis.display.text import UNDEFINED, number, percent, shown_table
from bayes_direag.fits.convergence import BFMI_LIMIT, ESS_LIMIT, MAX_TREE_DEPTH, RHAT_LIMIT

_MARKS = {"fine": ("ok", "green"), "warning": ("care", "yellow"), "failure": ("FAILS", "bold red")}
_PAIRS_SHOWN = 5


def diagnosis_tables(diagnosis: Diagnosis, title: str) -> Group:
    """Return every table of a diagnosis, and its verdict."""
    flag = [Text(f"{WEIGHTED.text}\n", style="bold")] if diagnosis.is_weighted else []
    tables = (_chains, _identifiability, _predictive, _calibration, _leave_one_out, _verdict)
    return Group(*flag, _parameters(diagnosis, title), *(table(diagnosis) for table in tables))


def _parameters(diagnosis: Diagnosis, title: str) -> Group:
    table = diagnosis.parameters
    rows = (
        [
            label,
            _judged(number(row["rhat"]), fine=row["rhat"] < RHAT_LIMIT),
            _judged(number(row["ess_bulk"], 0), fine=row["ess_bulk"] > ESS_LIMIT),
            _judged(number(row["ess_tail"], 0), fine=row["ess_tail"] > ESS_LIMIT),
            number(row["mcse_relative"]),
            number(row["contraction"], 2),
            number(row["z_score"], 1, signed=True),
        ]
        for label, row in zip(parameter_labels(table), table.to_dict("records"), strict=True)
    )
    pooled = table["parameter"].str.endswith("_spread").any()
    offsets = " weight, bias: a level's offset from the centre, in units of the spread." if pooled else ""
    return shown_table(
        title,
        ["parameter"],
        ["R-hat", "bulk\nESS", "tail\nESS", "MCSE\n/ sd", "contrac-\ntion", "prior\nz"],
        rows,
        f"Expected: R-hat below {RHAT_LIMIT}, ESS (effective number of draws) above {ESS_LIMIT:.0f}. MCSE / sd: "
        "Monte-Carlo error of the mean in posterior sds. contraction: share of the prior's variance that the labels "
        "have removed. prior z: posterior mean in prior sds from the prior's. All on the scale that is sampled (raw)."
        f"{offsets}",
    )


def _chains(diagnosis: Diagnosis) -> Group:
    rows: Iterator[list[str | Text]] = (
        [
            str(row["chain"]),
            str(row["draws"]),
            _judged(number(float(row["divergences"]), 0), fine=row["divergences"] == 0),
            percent(row["at_max_depth"]),
            _judged(number(row["bfmi"], 2), fine=row["bfmi"] > BFMI_LIMIT),
            number(row["acceptance"], 2),
            number(row["step_size"]),
        ]
        for row in diagnosis.chains.to_dict("records")
    )
    headers = ["draws", "diverged", "cut short", "BFMI", "acceptance", "step size"]
    caption = f"Expected: no divergence, BFMI above {BFMI_LIMIT}. cut short: trajectories at depth {MAX_TREE_DEPTH}."
    return shown_table("How each chain moved", ["chain"], headers, rows, caption)


def _identifiability(diagnosis: Diagnosis) -> Group:
    rows = (
        [str(row["first"]), f"  {row['second']}  ", number(row["correlation"], 2, signed=True)]
        for row in diagnosis.correlations.head(_PAIRS_SHOWN).to_dict("records")
    )
    flat, scale = diagnosis.flat, diagnosis.scale
    return shown_table(
        "What the labels leave open",
        ["strongest correlations", ""],
        ["r"],
        rows,
        f"Flat direction: {direction_in_words(flat.loadings)}; {flat.variance_left:.0%} of the prior's variance left; "
        f"{flat.likelihood_change:.2f} nats of log-likelihood per posterior sd. Scale of weight, prior_strength and "
        f"null_base: {'prior_strength is the unit' if scale.fixed else 'determined by the prior alone'}; "
        f"{scale.likelihood_change:.2f} nats.",
    )


def _predictive(diagnosis: Diagnosis) -> Group:
    checks, n_several = diagnosis.predictive, diagnosis.n_several_correct
    rows = (
        [str(pattern), str(own["n"].iloc[0]), *(cell for row in own.to_dict("records") for cell in _compared(row))]
        for pattern, own in checks.table.groupby("pattern", sort=False)
    )
    several = f" Several answers are right in {n_several} questions: there they count as one." if n_several else ""
    return shown_table(
        f"Do the labels look as predicted? With {diagnosis.interval_level:.0%} intervals",
        ["levels\nagree"],
        ["n", "selected\nright", "predicted", "tail", "none\nright", "predicted", "tail"],
        rows,
        "levels agree: how many gave each answer, most first. tail: probability, under the fitted model, of a share "
        f"as far out, on both sides. All together: {tail_in_words(checks.tail_probability)}.{several} The model has "
        "seen these labels, so agreement says little.",
    )


def _compared(row: Mapping[Hashable, Any]) -> tuple[str, str, Text]:
    """Return the observed share, its expected interval, and the tail probability, which stands out where small."""
    tail = row["tail_probability"]
    shown = Text("<.01", style="bold") if tail < 0.01 else Text(_share(tail))
    return _share(row["observed"]), f"{_share(row['low'])}-{_share(row['high'])}", shown


def _calibration(diagnosis: Diagnosis) -> Group:
    checks = diagnosis.calibration
    bins = zip(*(check.reliability.bins.to_dict("records") for check in checks.values()), strict=True)
    rows = (
        [f"{own[0]['low']:.1f}-{own[0]['high']:.1f}", *(cell for row in own for cell in _bin_cells(row))]
        for own in bins
        if any(row["n"] for row in own)
    )
    measures = "; ".join(
        f"{name}: ECE {check.reliability.ece:.3f}, smECE {check.reliability.smece:.3f}, all bins together: "
        f"{tail_in_words(check.tail_probability)}"
        for name, check in checks.items()
    )
    return shown_table(
        f"Are left-out answers right as often as stated? With {diagnosis.interval_level:.0%} Wilson intervals",
        ["bin"],
        [header for name in checks for header in ("n", f"{name}\nsays", "right", "interval")],
        rows,
        f"support: before the final calibration; confidence: after it. {measures}.",
    )


def _bin_cells(row: Mapping[Hashable, Any]) -> tuple[str, str, str, str]:
    if not row["n"]:
        return "", UNDEFINED, UNDEFINED, UNDEFINED
    interval = f"{_share(row['right_low'])}-{_share(row['right_high'])}"
    return str(row["n"]), _share(row["confidence"]), _share(row["right"]), interval


def _leave_one_out(diagnosis: Diagnosis) -> Group:
    loo, worst = diagnosis.loo, diagnosis.worst
    largest = ", ".join(
        f"{name} ({number(k, 2)})" for name, k in zip(worst["problem_id"], worst["pareto_k"], strict=True)
    )
    return shown_table(
        f"Left-out questions: elpd {loo.elpd:.1f} ± {loo.se:.1f}, p_loo {loo.p_loo:.1f}, {loo.n} questions",
        ["Pareto k"],
        ["questions"],
        ([row["range"], str(row["n"])] for row in diagnosis.pareto.to_dict("records")),
        f"k up to 0.7: the figure for that question holds without refitting. Largest: {largest}.",
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
            last += " See what is marked care."
    return Group(Text("Verdict", style="italic"), Padding(table, (1, 0)), Text(last, style="bold"))


def _judged(shown: str, *, fine: bool) -> Text:
    return Text(shown, style="" if fine else "bold red")


def _share(value: float) -> str:
    return number(value, 2, bare=True)
