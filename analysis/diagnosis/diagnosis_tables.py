"""A diagnosis as a verdict and tables."""

from collections.abc import Iterator
from itertools import chain

from analysis.diagnosis.identifiability import parameter_labels
from analysis.diagnosis.prior_sensitivity import SENSITIVE
from analysis.diagnosis.verdict import WEIGHTED, FitChecks, direction_in_words, tail_in_words, variance_in_words
from analysis.display.document import Block, Cell, Column, Paragraph, Record, Status, Table, Verdict, judged
from analysis.display.text import UNDEFINED, listed, number, percent
from bayes_direag.fits.convergence import BFMI_LIMIT, ESS_PER_CHAIN, MAX_TREE_DEPTH, RHAT_LIMIT, is_apart

_PAIRS_SHOWN, _WORST_SHOWN = 5, 5


def diagnosis_blocks(checks: FitChecks, title: str, *, everything: bool = True) -> Iterator[Block]:
    """Yield the verdict and every table of a diagnosis, or what is found and the least certain parameters alone."""
    if checks.is_weighted:
        yield Paragraph(WEIGHTED.text, "failure")
    if checks.believable:
        text = "Believable: yes, the draws are draws from this model's posterior, as far as can be seen."
        care = any(finding.status == "warning" for finding in checks.verdict)
        yield Paragraph(f"{text} See what is marked care." if care else text, "title")
    else:
        text = "Believable: NO. Mend the sampling first; every other figure rests on these draws."
        yield Paragraph(text, "failure")
    if not everything:
        yield _faults_block(checks)
        yield parameter_table(checks, f"{title}. The chains agree least on:", _WORST_SHOWN)
        return
    yield verdict_block(checks)
    yield parameter_table(checks, title)
    yield chain_table(checks)
    yield _open_table(checks)
    yield _sensitivity_table(checks)
    yield _predictive_table(checks)
    yield _calibration_table(checks)
    yield _left_out_table(checks)


def parameter_table(checks: FitChecks, title: str, n_worst: int | None = None) -> Table:
    """Tabulate how well the chains agree on each parameter, or the worst ones, and what the labels taught."""
    table, enough = checks.parameters, ESS_PER_CHAIN * len(checks.chains)
    if n_worst is not None:
        table = table.sort_values("rhat", ascending=False, na_position="first", kind="stable").head(n_worst)
    pooled = table["parameter"].str.endswith("_spread").any()
    offsets = " weight, bias: a level's offset from the centre, in units of the spread." if pooled else ""
    return Table.of(
        title,
        table.assign(label=parameter_labels(table), apart=is_apart(table)).to_dict("records"),
        {
            Column("parameter", holds="name"): lambda row: row["label"],
            Column("R-hat"): lambda row: judged(row["rhat"], 3, fine=not row["apart"]),
            Column("bulk\nESS"): lambda row: judged(row["ess_bulk"], 0, fine=row["ess_bulk"] > enough),
            Column("tail\nESS"): lambda row: judged(row["ess_tail"], 0, fine=row["ess_tail"] > enough),
            Column("MCSE\n/ sd"): lambda row: number(row["mcse_relative"]),
            Column("contraction"): lambda row: number(row["contraction"], 2),
            Column("prior\nz"): lambda row: number(row["z_score"], 1, signed=True),
        },
        f"Expected: R-hat below {RHAT_LIMIT} or what chance explains, ESS (effective number of draws) above "
        f"{enough:.0f}. MCSE / sd: Monte-Carlo error of the mean in posterior sds. contraction: share of the prior's "
        "variance that the labels have removed. prior z: posterior mean in prior sds from the prior's. All on the "
        "scale that is sampled (raw)."
        f"{offsets}",
        "`direag diagnose FIT --out FOLDER`",
    )


def chain_table(checks: FitChecks) -> Table:
    """Tabulate how each chain moved."""
    return Table.of(
        "How each chain moved",
        checks.chains.to_dict("records"),
        {
            Column("chain", holds="name"): lambda row: str(row["chain"]),
            Column("draws"): lambda row: str(row["draws"]),
            Column("diverged"): lambda row: judged(float(row["divergences"]), 0, fine=row["divergences"] == 0),
            Column("cut short"): lambda row: percent(row["at_max_depth"]),
            Column("BFMI"): lambda row: judged(row["bfmi"], 2, fine=row["bfmi"] > BFMI_LIMIT),
            Column("acceptance"): lambda row: number(row["acceptance"], 2),
            Column("step size"): lambda row: number(row["step_size"]),
        },
        f"Expected: no divergence, BFMI above {BFMI_LIMIT}. cut short: trajectories at depth {MAX_TREE_DEPTH}.",
        "`direag diagnose FIT --out FOLDER`",
    )


def verdict_block(checks: FitChecks) -> Verdict:
    """Return the verdict, finding by finding."""
    return Verdict(tuple((finding.status, finding.text) for finding in checks.verdict))


def _faults_block(checks: FitChecks) -> Verdict:
    """Return what was found, and on one line the checks that found nothing."""
    found = [(finding.status, finding.text) for finding in checks.verdict if finding.status != "fine"]
    fine = list(dict.fromkeys(finding.topic for finding in checks.verdict if finding.status == "fine"))
    nothing: list[tuple[Status, str]] = [("fine", f"Nothing found in {listed(fine)}: --all.")] if fine else []
    return Verdict((*found, *nothing))


def _open_table(checks: FitChecks) -> Table:
    flat, scale = checks.flat, checks.scale
    return Table.of(
        "What the labels leave open",
        checks.correlations.head(_PAIRS_SHOWN).to_dict("records"),
        {
            Column("strongest correlations", holds="name"): lambda row: row["first"],
            Column("", holds="name"): lambda row: f"  {row['second']}  ",
            Column("r"): lambda row: number(row["correlation"], 2, signed=True),
        },
        f"Flat direction: {direction_in_words(flat.loadings)}; {variance_in_words(flat.variance_left)}; "
        f"{flat.likelihood_change:.2f} nats of log-likelihood per posterior sd. Scale of weight, prior_strength and "
        f"null_base: {'prior_strength is the unit' if scale.fixed else 'determined by the prior alone'}; "
        f"{scale.likelihood_change:.2f} nats.",
    )


def _sensitivity_table(checks: FitChecks) -> Table:
    return Table.of(
        "Priors or labels?",
        checks.sensitivity.to_dict("records"),
        {
            Column("quantity", holds="name"): lambda row: row["quantity"],
            Column("priors"): lambda row: number(row["prior"], 2),
            Column("labels"): lambda row: number(row["likelihood"], 2),
        },
        "How fast the posterior of each moves if all priors, or the likelihood, are raised to a power: below "
        f"{SENSITIVE} not at all. weight, prior_strength, null_base: relative to the total weight.",
    )


def _predictive_table(checks: FitChecks) -> Table:
    predictive, n_several = checks.predictive, checks.n_several_correct
    several = f" Several answers are right in {n_several} questions: there they count as one." if n_several else ""
    rows = []
    for pattern, by_statistic in predictive.table.groupby("pattern", sort=False):
        cells = map(_observed_cells, by_statistic.to_dict("records"))
        rows.append((Cell(str(pattern)), Cell(str(by_statistic["n"].iloc[0])), *chain.from_iterable(cells)))
    headers = ("n", "selected\nright", "predicted", "tail", "none\nright", "predicted", "tail")
    return Table(
        f"Do the labels look as predicted? With {checks.interval_level:.0%} intervals",
        (Column("levels\nagree", holds="name"), *map(Column, headers)),
        tuple(rows),
        "levels agree: how many gave each answer, most first. tail: probability, under the fitted model, of a share "
        f"as far out, on both sides. All together: {tail_in_words(predictive.tail_probability)}.{several} The model "
        "has seen these labels, so agreement says little.",
    )


def _observed_cells(row: Record) -> tuple[Cell, Cell, Cell]:
    """Return the observed share, its expected interval, and the tail probability, which stands out where small."""
    tail = row["tail_probability"]
    shown = Cell("<.01", marks=("failure",)) if tail < 0.01 else Cell(_share(tail))
    return Cell(_share(row["observed"])), Cell(f"{_share(row['low'])}-{_share(row['high'])}"), shown


def _calibration_table(checks: FitChecks) -> Table:
    calibration = checks.calibration
    bins = zip(*(check.reliability.bins.to_dict("records") for check in calibration.values()), strict=True)
    measures = "; ".join(
        f"{name}: ECE {check.reliability.ece:.3f}, smECE {check.reliability.smece:.3f}"
        for name, check in calibration.items()
    )
    headers = (header for name in calibration for header in ("n", f"{name}\nsays", "right", "interval"))
    return Table(
        f"Are left-out answers right as often as stated? With {checks.interval_level:.0%} Wilson intervals",
        (Column("bin", holds="name"), *map(Column, headers)),
        tuple(
            (Cell(f"{own[0]['low']:.1f}-{own[0]['high']:.1f}"), *(cell for row in own for cell in _bin_cells(row)))
            for own in bins
            if any(row["n"] for row in own)
        ),
        f"support: before the final calibration; confidence: after it. {measures}.",
    )


def _bin_cells(row: Record) -> tuple[Cell, ...]:
    if not row["n"]:
        return tuple(map(Cell, ("", UNDEFINED, UNDEFINED, UNDEFINED)))
    interval = f"{_share(row['right_low'])}-{_share(row['right_high'])}"
    return tuple(map(Cell, (str(row["n"]), _share(row["confidence"]), _share(row["right"]), interval)))


def _left_out_table(checks: FitChecks) -> Table:
    loo, worst = checks.loo, checks.worst
    largest = ", ".join(
        f"{name} ({number(k, 2)})" for name, k in zip(worst["problem_id"], worst["pareto_k"], strict=True)
    )
    return Table.of(
        f"Left-out questions: elpd {loo.elpd:.1f} ± {loo.se:.1f}, p_loo {loo.p_loo:.1f}, {loo.n} questions",
        checks.pareto.to_dict("records"),
        {
            Column("Pareto k", holds="name"): lambda row: row["range"],
            Column("questions"): lambda row: str(row["n"]),
        },
        f"k up to 0.7: the figure for that question holds without refitting. Largest: {largest}.",
    )


def _share(value: float) -> str:
    return number(value, 2, bare=True)
