"""The tables of a diagnosis."""

import pandas as pd

from analysis.diagnosis.identifiability import parameter_labels
from analysis.diagnosis.prior_sensitivity import SENSITIVE
from analysis.display.document import Column, Table, judged
from analysis.display.text import number, percent
from bayes_direag.fits.convergence import BFMI_LIMIT, ESS_PER_CHAIN, MAX_TREE_DEPTH, RHAT_LIMIT, is_apart

_SOURCE = "`direag diagnose FIT --out FOLDER`"


def convergence_table(parameters: pd.DataFrame, n_chains: int, n_worst: int | None = None) -> Table:
    """Tabulate how well the chains agree on each parameter, or the worst ones, and what the labels taught."""
    table, enough, title = parameters, ESS_PER_CHAIN * n_chains, "Every parameter"
    if n_worst is not None:
        table = table.sort_values("rhat", ascending=False, na_position="first", kind="stable").head(n_worst)
        title = "The chains agree least on"
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
        _SOURCE,
    )


def chain_table(chains: pd.DataFrame) -> Table:
    """Tabulate how each chain moved."""
    return Table.of(
        "How each chain moved",
        chains.to_dict("records"),
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
        _SOURCE,
    )


def sensitivity_table(sensitivity: pd.DataFrame) -> Table:
    """Tabulate how far priors and labels pull on each quantity."""
    return Table.of(
        "Priors or labels?",
        sensitivity.to_dict("records"),
        {
            Column("quantity", holds="name"): lambda row: row["quantity"],
            Column("priors"): lambda row: number(row["prior"], 2),
            Column("labels"): lambda row: number(row["likelihood"], 2),
        },
        "How fast the posterior of each moves if all priors, or the likelihood, are raised to a power: below "
        f"{SENSITIVE} not at all. weight, prior_strength, null_base: relative to the total weight.",
    )
