"""A plan as data, and as a folder of files."""

import json
from importlib.metadata import version
from pathlib import Path

from analysis.figures.style import save_figure
from analysis.planning.plan import Plan
from analysis.planning.plan_figure import plan_figure
from analysis.result_folder import ResultFolder
from bayes_direag.data.files import as_records, write_table
from bayes_direag.fits.fit import Fit

RECORD, CURVE, WORTH, PICTURE = "plan.json", "plan.csv", "worth_labelling.csv", "plan.png"
FOLDER = ResultFolder("plan", RECORD, frozenset({RECORD, CURVE, WORTH, PICTURE}))


def plan_record(plan: Plan, fit: Fit) -> dict[str, object]:
    """Return all of a plan as JSON can hold it."""
    values = {name: value for name, value in vars(plan).items() if name not in ("curve", "worth")}
    return {
        **values,
        "curve": as_records(plan.curve),
        "worth": as_records(plan.worth),
        "fit": {name: fit.tree.attrs[name] for name in ("dataset", "model", "variant", "observations_sha256")},
        "versions": {name: version(name) for name in ("bayes-direag", "numpy", "scipy")},
    }


def write_plan(plan: Plan, fit: Fit, folder: str | Path) -> None:
    """Write a plan; its folder appears, or takes the place of an earlier one, once all of it is written.

    Raises
    ------
    DirEAGError
        If the folder holds something else.
    """
    with FOLDER.replacing(folder) as whole:
        record = json.dumps(plan_record(plan, fit), indent=2, allow_nan=False)
        (whole / RECORD).write_text(f"{record}\n", encoding="utf-8")
        write_table(plan.curve, whole / CURVE)
        write_table(plan.worth, whole / WORTH)
        save_figure(plan_figure(plan), whole / PICTURE)
