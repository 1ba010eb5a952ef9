"""Evaluations and fits to report, made by hand: nothing is fitted."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from analysis.display.document import Paragraph
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import random_fit
from tests.analysis.made_runs import random_run

#: Would run, load or close something, were it taken for markup.
ATTACK = "\"'><script>alert(1)</script><img src=https://evil.example/x onerror=alert(2)></table></section>`${x}{{7*7}}"

METHODS = ("majority", "mean_confidence", "confidence", "direag")


def draw_nothing(patch: pytest.MonkeyPatch) -> None:
    """Leave the pictures of a report out, which take longer than all the rest."""
    patch.setattr("analysis.report.fit_pictures", lambda *_, **__: ())
    patch.setattr("analysis.report._drawn", lambda *_, **__: ())
    for drawn in ("reliability_picture", "benefit_picture", "risk_coverage_picture"):
        patch.setattr(f"analysis.report.{drawn}", lambda _: Paragraph(""))


@cache
def small_observations() -> Observations:
    """Return 60 simulated questions, two of them without a right answer and one without an answer."""
    simulated = simulate_observations(60, seed=6).questions
    questions = [one.model_copy(update={"question": f"How much is {n}?"}) for n, one in enumerate(simulated)]
    for unlabelled in (3, 4):
        questions[unlabelled] = questions[unlabelled].model_copy(update={"gold_answer": None})
    questions[5] = questions[5].model_copy(update={"observations": ()})
    return Observations.from_questions(questions, "numeric")


def small_run(folder: Path, observations: Observations | None = None, *, gradient: float = 1e-9) -> Path:
    """Write an evaluation in two folds; the worst of their fits has that gradient."""
    own = small_observations() if observations is None else observations
    random_run(folder, own, methods=METHODS)
    parts = []
    for fold, reached in (("0", 1e-12), ("1", gradient)):
        table = random_fit(own, seed=int(fold)).parameters()
        parts.append(table.assign(fold=fold, variant="confidence", projected_gradient=reached))
    pd.concat(parts).to_csv(folder / "parameters.csv", index=False)
    return folder


def small_fit(observations: Observations | None = None, *, gradient: float = 1e-9) -> Fit:
    """Return a MAP of the small observations, with what is kept of how it was found."""
    own = small_observations() if observations is None else observations
    tree = random_fit(own).tree
    dims = ("chain", "draw")
    statistics = {"loss": 0.5, "projected_gradient": gradient, "n_steps": 12, "n_starts": 1, "n_optima": 1}
    tree["sample_stats"] = xr.DataTree(
        xr.Dataset({name: (dims, np.array([[one]])) for name, one in statistics.items()})
    )
    tree.attrs |= {"seed": 0, "observations_sha256": own.fingerprint, "versions": "{}"}
    return Fit(tree)


def small_folder(folder: Path) -> Path:
    """Fill a folder as quickstart leaves it."""
    small_run(folder / "evaluation")
    small_fit().save(folder / "fit.nc")
    small_observations().write(folder / "observations.jsonl")
    return folder


@cache
def attacking_observations() -> Observations:
    """Return questions with an attack in every text that a file can hold."""
    rng = np.random.default_rng(0)
    questions = []
    for number, one in enumerate(small_observations().questions[10:30]):
        told = tuple(
            report.model_copy(
                update={"answer": f"{ATTACK} {rng.integers(3)}", "level_name": f"{report.level} {ATTACK}"}
            )
            for report in one.observations
        )
        own = {"problem_id": f"{number} {ATTACK}", "gold_answer": f"{ATTACK} 1", "observations": told}
        questions.append(one.model_copy(update=dict.fromkeys(("dataset", "model", "question"), ATTACK) | own))
    return Observations.from_questions(questions, "text")
