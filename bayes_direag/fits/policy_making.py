"""Make a policy from a partial fit: by replaying it on the fitted questions, each by a fit that has not seen it."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bayes_direag.data.observations import Observations
from bayes_direag.decisions.asking import Asking
from bayes_direag.decisions.replay import Replay
from bayes_direag.errors import DirEAGError, LevelError
from bayes_direag.fits.folds import hashed_folds
from bayes_direag.fits.map_trees import map_trees
from bayes_direag.fits.policy import Policy
from bayes_direag.fits.predictor import Predictor
from bayes_direag.inference import recalibration
from bayes_direag.inference.posterior import sampled_parameters
from bayes_direag.inference.recalibration import Outcomes, recalibrate
from bayes_direag.model.equations import Reports
from bayes_direag.model.settings import Preset, RecalibrationSettings

_FOLDS = 5


def out_of_fold_replay(labelled: Observations, predictor: Predictor, preset: Preset, *, seed: int) -> Replay:
    """Return the questions in parts, each with what a partial fit to the other parts decides by.

    Raises DirEAGError if the whole fit is not a partial MAP, or there are fewer than five questions or clusters.
    """
    if predictor.enough_reports or len(predictor.parameters.weight) > 1:
        raise DirEAGError(
            f"saw {'no' if predictor.enough_reports else 'a'} partial fit, {predictor!r}; expected a partial MAP, as "
            "questions lack reports. Fit with partial=True (on the command line --partial)."
        )
    fold = hashed_folds(labelled, np.ones(len(labelled), bool), _FOLDS, seed)
    if (n_units := len(np.unique(fold))) < _FOLDS:
        raise DirEAGError(
            f"saw {n_units} labelled questions or clusters; expected at least {_FOLDS}, to replay a policy. Label more."
        )
    kept = fold != np.arange(_FOLDS)[:, None]
    trees = map_trees(labelled, kept, preset=preset, partial=True, seed=seed)
    finals = [recalibration.from_dataset(tree["recalibration"].to_dataset()) for tree in trees]
    askings = [
        Asking.of(labelled.select(rows), sampled_parameters(tree), final, preset.eps)
        for rows, tree, final in zip(kept, trees, finals, strict=True)
    ]
    reports = Reports.of(labelled, preset.eps, predictor.labels)
    return Replay(labelled, reports, fold, askings, np.ones(len(predictor.levels)))


def make_policy(
    replay: Replay,
    predictor: Predictor,
    final: RecalibrationSettings,
    *,
    prices: Mapping[str, float] | None,
    budget: float,
    person: float | None,
) -> Policy:
    """Make a policy: see :meth:`Fit.policy <bayes_direag.fits.fit.Fit.policy>`.

    After the replay the final calibration is fitted once more, to the questions as they were when asking stopped. The
    confidences of a part that enter the forecast are calibrated on the others.
    """
    if not 0 < budget <= 1:
        raise DirEAGError(f"budget {budget}: expected a share of the full price above 0 and at most 1, such as 0.3.")
    if person is not None and not 0 < person < np.inf:
        raise DirEAGError(f"person {person}: expected a positive number, in the unit of the prices.")
    prices = dict.fromkeys(predictor.levels, 1.0) if prices is None else prices
    if missing := set(predictor.levels) ^ set(prices):
        raise LevelError(
            f"prices: saw {', '.join(prices)}; expected one price for each of {', '.join(predictor.levels)}. Look at "
            f"{', '.join(sorted(missing))}."
        )
    price = np.array([prices[level] for level in predictor.levels], float)
    if not (np.isfinite(price).all() and (price >= 0).all() and price.any()):
        raise DirEAGError(f"prices: saw {', '.join(map(str, price))}; expected numbers from 0 on, not all of them 0.")
    replay, labelled = replace(replay, price=price), replay.questions
    factor = replay.factor(budget)
    answers = replay.answers(replay.asked(factor))
    n_reports, support, right = (answers[name].to_numpy() for name in ("reports", "support", "accuracy"))
    weight = (replay.kept & (n_reports > 0)).astype(float)
    if not weight.any(axis=1).all():
        raise DirEAGError(
            f"{(n_reports > 0).sum()} of {len(labelled)} questions are worth a report; expected more. Give a larger "
            "budget."
        )
    support, right = (np.broadcast_to(each, weight.shape) for each in (support, right > 0))
    stopped, *of_parts = recalibrate(Outcomes(support, right, weight, n_reports), final)
    asking = Asking.of(labelled, predictor.parameters, predictor.recalibration, predictor.eps)
    most = [labelled.usable[:, replay.level == level].sum(axis=1).max() for level in range(len(price))]
    return Policy(
        predictor=predictor,
        prices=price,
        person=person,
        factor=factor,
        most=np.maximum(most, 1),
        typical=asking.typical,
        coincidence=asking.coincidence,
        stopped=stopped,
        n_labels=len(labelled),
        records=replay.forecast(factor, person, of_parts).to_dict("records"),
    )
