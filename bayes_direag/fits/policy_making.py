"""Make a policy from a partial fit: by replaying it on the fitted questions, each by a fit that has not seen it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayes_direag.data.observations import Observations
from bayes_direag.decisions.asking import Asking
from bayes_direag.decisions.replay import Part, Replay
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.folds import hashed_folds
from bayes_direag.fits.map_trees import map_trees
from bayes_direag.fits.policy import Policy, prices_by_level
from bayes_direag.fits.predictor import Predictor
from bayes_direag.inference import recalibration
from bayes_direag.inference.posterior import label_names, sampled_parameters
from bayes_direag.inference.recalibration import Outcomes, recalibrate
from bayes_direag.model.equations import Reports
from bayes_direag.model.settings import Preset, RecalibrationSettings

_FOLDS = 5


def out_of_fold_replay(labelled: Observations, predictor: Predictor, preset: Preset, *, seed: int) -> Replay:
    """Return the questions in parts, each with what partial fits to the other parts decide by.

    Raises DirEAGError if the whole fit is not a partial MAP, or there are fewer than five questions or clusters.
    """
    if predictor.enough_reports or len(predictor.parameters.weight) > 1:
        raise DirEAGError(
            f"saw {'no' if predictor.enough_reports else 'a'} partial fit, {predictor!r}; expected a partial MAP, as "
            "questions lack reports. Fit with partial=True (on the command line --partial)."
        )
    cluster = labelled.cluster_number
    n_units = len(labelled) if cluster is None else len(np.unique(cluster))
    if n_units < _FOLDS:
        raise DirEAGError(
            f"saw {n_units} labelled questions or clusters; expected at least {_FOLDS}, to replay a policy. Label more."
        )
    fold = hashed_folds(labelled, np.ones(len(labelled), bool), _FOLDS, seed)
    kept = fold != np.arange(_FOLDS)[:, None]
    settings: dict[str, Any] = {"preset": preset, "partial": True, "seed": seed}
    parts = []
    for number, tree in enumerate(map_trees(labelled, kept, **settings)):
        final = recalibration.from_dataset(tree["recalibration"].to_dataset())
        asking = Asking.of(labelled.select(kept[number]), sampled_parameters(tree), final, preset.eps)
        row = np.flatnonzero(fold == number)
        parts.append(Part(asking, Reports.of(labelled.select(row), preset.eps, label_names(tree)), row))
    return Replay(labelled, parts, np.ones(len(predictor.levels)))


def make_policy(
    replay: Replay,
    predictor: Predictor,
    final: RecalibrationSettings,
    *,
    prices: Mapping[str, float] | None,
    budget: float | None,
    value: float | None,
    person: float | None,
) -> Policy:
    """Make a policy: see :meth:`Fit.policy <bayes_direag.fits.fit.Fit.policy>`.

    After the replay the final calibration is fitted once more, to the questions as they were when asking stopped. The
    confidences of a part that enter the forecast are calibrated on the others.
    """
    replay = replace(replay, price=prices_by_level(prices, predictor.levels))
    labelled = replay.questions
    if (budget is None) == (value is None):
        raise DirEAGError("saw both or neither of budget and value; expected one of them. Give a budget, such as 0.3.")
    if budget is not None and not 0 < budget <= 1:
        raise DirEAGError(f"budget {budget}: expected a share of the full price above 0 and at most 1, such as 0.3.")
    for name, given in (("value", value), ("person", person)):
        if given is not None and not 0 < given < np.inf:
            raise DirEAGError(f"{name} {given}: expected a positive number, in the unit of the prices.")
    factor = 1 / value if value is not None else replay.factor(budget or 0.0)
    answers = replay.answers(replay.asked(factor))
    answered = answers.n_reports > 0
    weight = np.tile(answered, (1 + len(replay.parts), 1)).astype(float)
    for number, part in enumerate(replay.parts, 1):
        weight[number, part.row] = 0.0
    if not weight.any(axis=1).all():
        raise DirEAGError(
            f"{answered.sum()} of {len(labelled)} questions are worth a report at these prices; expected more. Give a "
            "larger budget or value, or lower prices."
        )
    support, right = (np.broadcast_to(each, weight.shape) for each in (answers.support, answers.right))
    stopped, *of_parts = recalibrate(Outcomes(support, right, weight, answers.n_reports), final)
    most = [replay.usable[:, replay.level == level].sum(axis=1).max() for level in range(len(replay.price))]
    return Policy(
        predictor=predictor,
        prices=replay.price,
        person=person,
        factor=factor,
        most=np.maximum(most, 1),
        asking=Asking.of(labelled, predictor.parameters, predictor.recalibration, predictor.eps),
        stopped=stopped,
        n_labels=len(labelled),
        records=replay.forecast(factor, person, of_parts),
    )
