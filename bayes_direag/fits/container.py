"""The posterior container: an xarray DataTree that holds NUTS draws, or a MAP as one chain of one draw.

===========================  =======================================================================================
group                        content
===========================  =======================================================================================
``posterior``                natural parameters, as the model names them; dims chain, draw (, level)
``unconstrained_posterior``  parameters as they are searched and sampled (:mod:`bayes_direag.model.unconstrained`)
``sample_stats``             MAP: ``loss``, ``projected_gradient`` and ``n_steps`` at the optimum; ``n_starts``, the
                             number of searches, and ``n_optima``, how many optima they found. NUTS: ``lp``, ``energy``,
                             ``diverging``, ``n_steps``, ``tree_depth``, ``acceptance_rate``, ``step_size``
``log_likelihood``           NUTS only: ``target``: log probability of the observed state, by problem
``observed_data``            ``target``, by problem: the right candidate, the first of several, or -1 if none is right
``labels``                   ``correct``: whether each candidate is right, by problem and candidate
``constant_data``            ``confidence``, ``candidate``, ``n_candidates``, ``weight_in_likelihood``: the data of the
                             fit; ``label_code``, the label that each report gives (-1 for none), if answers are labels;
                             ``cluster`` ("" for none), if there are clusters; ``question_weight``, unless all are 1;
                             ``numbers`` of the questions, by problem and number, if there are any;
                             if the model uses it, the agreement of each level with the others
                             (:mod:`bayes_direag.data.agreement`): ``agreement_share``, ``agreement_by_chance``, and x,
                             ``agreement_score``. If levels are groups, reports have their own dimension ``report``,
                             with the ``group`` of each
``replay_draws``             unconstrained parameters by ``sample``, which predict the labelled questions with fewer
                             reports. MAP: the optima without each fold, then that of all; NUTS: some of the draws
``replay_weights``           their weight without the label of a question (``unseen``, by problem and sample), and with
                             all labels (``seen``, by sample): see :mod:`bayes_direag.inference.panels`
``log_prior``                NUTS only: log prior density of each unconstrained parameter
``recalibration``            the final calibration: its coefficients, by chain and draw; attributes ``method``, ``eps``
``loo``                      NUTS only, of each question predicted without its label: ``elpd`` and ``pareto_k``
                             (:mod:`bayes_direag.inference.loo`); the ``candidate`` selected, its ``support`` and final
                             ``probability``, and whether it is ``correct``
``prior``                    on demand: parameters drawn from the prior, as in ``posterior``
``prior_predictive``         on demand: a ``target`` for every problem and draw of the prior
``posterior_predictive``     on demand: a ``target`` for every problem and draw of the posterior
===========================  =======================================================================================
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Int, Key, Shaped
from numpyro.infer import Predictive

from bayes_direag.data.agreement import Agreement
from bayes_direag.data.columns import Columns
from bayes_direag.data.equality import Same
from bayes_direag.data.json_lines import table_of_questions
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import SIGNALS, Question, Status
from bayes_direag.inference.loo import LeaveOneOut
from bayes_direag.inference.map import Optimum
from bayes_direag.inference.nuts import Draws
from bayes_direag.inference.panels import Labelled
from bayes_direag.model.compilation import compiled
from bayes_direag.model.forward import Forward
from bayes_direag.model.likelihood_data import LikelihoodData, padded_size
from bayes_direag.model.models import model_of
from bayes_direag.model.selection import IDENTITY, Calibration, Recalibration
from bayes_direag.model.settings import FitSettings
from bayes_direag.model.unconstrained import (
    Evaluated,
    Model,
    Site,
    Unconstrained,
    UnconstrainedDraws,
    evaluated,
    handling,
    parameter_sites,
)

_AGREEMENT = tuple(f"agreement_{name}" for name in Agreement._fields)
#: The dimensions of the arrays of questions, beyond chain and draw.
_DIMS: dict[str, tuple[str, ...]] = {
    "target": ("problem",),
    "correct": ("problem", "candidate"),
    "n_candidates": ("problem",),
    "weight_in_likelihood": ("problem",),
    "cluster": ("problem",),
    "question_weight": ("problem",),
    "numbers": ("problem", "number"),
    "group": ("report",),
    **dict.fromkeys(_AGREEMENT, ("level",)),
}

#: Arrays by group and name, with leading axes chain and draw.
Groups = dict[str, dict[str, Any]]

#: The statistics of a MAP.
_OF_OPTIMUM = ("loss", "projected_gradient", "n_steps", "n_starts", "n_optima")

#: The version of this layout. Before version 3 a preset's links and priors were settings.
FORMAT = 5


def map_groups(optimum: Optimum, member: int) -> Groups:
    """Return one member of a batch of MAP fits as groups of draws."""
    figures = optimum.loss, optimum.gradient, optimum.n_steps, optimum.n_starts, optimum.n_optima
    batch: Groups = {"unconstrained_posterior": {**optimum.unconstrained}, "posterior": {**optimum.natural}}
    batch["sample_stats"] = dict(zip(_OF_OPTIMUM, figures, strict=True))
    return {
        group: {name: np.asarray(values)[member][None, None] for name, values in of_group.items()}
        for group, of_group in batch.items()
    }


def calibration_group(final: Recalibration) -> xr.DataTree:
    """Return the group of a final calibration."""
    variables = {name: (("chain", "draw"), values) for name, values in final.coefficients.items()}
    return xr.DataTree(xr.Dataset(variables, attrs={"method": final.method, "eps": final.eps}))


def calibration_of(group: xr.DataTree) -> Recalibration:
    """Return the final calibration that :func:`calibration_group` put into a group."""
    coefficients = {name: group[name].to_numpy() for name in IDENTITY if name in group}
    about = group.attrs
    return Recalibration(about["method"], coefficients, float(about["eps"]))


def replay_groups(
    fitted: Observations,
    draws: Mapping[str, Float[np.ndarray, "sample ..."]],
    unseen: Float[np.ndarray, "problem sample"],
    seen: Float[np.ndarray, " sample"],
) -> dict[str, xr.DataTree]:
    """Return the groups of what the labelled questions are replayed by."""
    of_draws = {
        name: (("sample", *(f"{name}_dim_{k}" for k in range(1, np.ndim(each)))), each) for name, each in draws.items()
    }
    weights = {"unseen": (("problem", "sample"), unseen), "seen": (("sample",), seen)}
    names = {"problem": np.array(fitted.problem_id, object)}
    datasets = {"replay_draws": xr.Dataset(of_draws), "replay_weights": xr.Dataset(weights, names)}
    return {name: xr.DataTree(dataset) for name, dataset in datasets.items()}


def labelled_of(tree: xr.DataTree, fitted: Observations, model: Model, data: LikelihoodData) -> Labelled | None:
    """Return what the labelled questions are replayed by; None if nothing is kept for that."""
    if "replay_draws" not in tree.children:
        return None
    draws, weights = (tree[name].to_dataset() for name in ("replay_draws", "replay_weights"))
    forward = Forward(model, {str(name): draws[name].to_numpy() for name in draws}, data)
    return Labelled.of(fitted, forward, weights["unseen"].to_numpy(), weights["seen"].to_numpy())


def left_out_group(
    left_out: LeaveOneOut, observations: Observations, panels: Int[np.ndarray, "problem level"], final: Calibration
) -> xr.DataTree:
    """Return the group ``loo`` of the first questions of leave-one-out predictions."""
    n, dims = len(observations), ("problem",)
    columns = left_out.selected(observations.right_state, panels, final)
    columns |= {"elpd": left_out.elpd[:n], "pareto_k": left_out.pareto_k[:n]}
    values = {name: (dims, column) for name, column in columns.items()}
    return xr.DataTree(xr.Dataset(values, {"problem": np.array(observations.problem_id, object)}))


def record_holdout(tree: xr.DataTree, learned: Observations, holdout: Observations) -> None:
    """Record which of the questions that a fit has learned from are for its final calibration alone."""
    tree.attrs["observations_sha256"] = learned.fingerprint
    tree.attrs["calibrated_on"] = json.dumps(list(holdout.problem_id))


def nuts_groups(draws: Draws, of_draws: Evaluated, data: LikelihoodData) -> Groups:
    """Return NUTS draws as groups, with what the model says of its data in each of them."""
    # in double precision, unlike the sampler's own
    log_joint = of_draws.log_likelihood @ data.weight
    log_joint += sum(value.sum(axis=(*range(2, value.ndim),)) for value in of_draws.log_prior.values())
    return {
        "posterior": of_draws.natural,
        "unconstrained_posterior": draws.unconstrained,
        "sample_stats": draws.stats | {"lp": log_joint},
        "log_prior": of_draws.log_prior,
        "log_likelihood": {"target": of_draws.log_likelihood},
    }


def predictive(tree: xr.DataTree, model: Model, data: LikelihoodData) -> xr.DataTree:
    """Return the groups of a NUTS fit that are made on demand, with draws from its seed; ``data`` are its data."""
    keys = jax.random.split(jax.random.fold_in(jax.random.key(int(tree.attrs["seed"])), 1))
    with jax.enable_x64(True):
        unconstrained = by_group(tree, "unconstrained_posterior")
        drawn, replicated = _predicted(keys, unconstrained, data.unlabelled, model=model)
    sites = parameter_sites(model, data)
    prior = _with_share({name: np.asarray(value)[None] for name, value in drawn.items()}, sites)
    groups = {
        "prior": {str(name): prior[str(name)] for name in tree["posterior"].data_vars},
        "prior_predictive": {"target": prior["target"].astype(_STATE)},
        "posterior_predictive": {"target": np.asarray(replicated).astype(_STATE)},
    }
    return _datasets(groups, fitted_observations(tree), label_names(tree), sites)


@compiled("model")
def _predicted(
    keys: Key[Array, "2"], unconstrained: UnconstrainedDraws, data: LikelihoodData, *, model: Model
) -> tuple[dict[str, Array], Int[Array, "chain draw problem"]]:
    with handling:
        prior: dict[str, Array] = Predictive(model, num_samples=_PRIOR_DRAWS)(keys[0], data)
        of_draws = Predictive(model, unconstrained, batch_ndims=2, return_sites=["target"])
        return prior, of_draws(keys[1], data)["target"]


def by_group(tree: xr.DataTree, group: str) -> dict[str, Any]:
    """Return the arrays of a group of draws, by chain and draw."""
    drawn = tree[group].to_dataset().transpose("chain", "draw", ...)
    return {str(name): drawn[name].to_numpy() for name in drawn}


def by_sample(tree: xr.DataTree) -> dict[str, Float[np.ndarray, "sample ..."]]:
    """Return the unconstrained parameters of all draws, one chain after the other."""
    values = by_group(tree, "unconstrained_posterior")
    return {name: value.reshape(-1, *value.shape[2:]) for name, value in values.items()}


def evaluated_draws(model: Model, unconstrained: UnconstrainedDraws, data: LikelihoodData) -> Evaluated:
    """Return what a model says of its data in every draw, in double precision, with leading axes chain and draw."""
    n = len(data.weight)
    with jax.enable_x64(True):
        padded = _evaluated_draws(unconstrained, data.padded(padded_size(n, per_octave=8)), model=model)
    whole: Evaluated = jax.tree.map(np.asarray, padded)
    return whole._replace(log_likelihood=whole.log_likelihood[..., :n])


@compiled("model")
def _evaluated_draws(unconstrained: UnconstrainedDraws, data: LikelihoodData, *, model: Model) -> Evaluated:
    def of_draw(unconstrained: Unconstrained) -> Evaluated:
        of_draw = evaluated(model, unconstrained, data)
        return of_draw._replace(probability=of_draw.probability[:0])  # as large as all else together

    of_draws: Evaluated = jax.lax.map(lambda chain: jax.lax.map(of_draw, chain), unconstrained)
    return of_draws


def fitted_observations(tree: xr.DataTree) -> Observations:
    """Return the questions of a container; their answers are numbers, as the container does not hold the text."""
    data, right = tree["constant_data"].to_dataset(), tree["labels"]["correct"].to_numpy()
    candidate = data["candidate"].to_numpy()
    usable = candidate >= 0
    names, (first, *further) = tuple(str(name) for name in data["problem"].to_numpy()), signal_names(tree)
    sizes = data["n_candidates"].to_numpy()  # no number twice, as answers that recur would be labels
    candidates = tuple(tuple(map(str, range(end - n, end))) for n, end in zip(sizes, sizes.cumsum(), strict=True))
    if "label_code" in data:
        labels = label_names(tree)
        candidates = tuple(
            tuple(labels[k] for k in sorted({*row} - {-1})) for row in data["label_code"].to_numpy().tolist()
        )
    return Observations(
        problem_id=names,
        level_names=tuple(str(name) for name in data["report" if "group" in data else "level"].to_numpy()),
        groups=tuple(str(name) for name in data["group"].to_numpy()) if "group" in data else None,
        kind=tree.attrs["answers"],
        same=Same(None, name) if (name := tree.attrs.get("same")) else None,
        signals={first: data["confidence"].to_numpy()}
        | {name: data[SIGNALS.column(name)].to_numpy() for name in further},
        candidate=candidate,
        candidates=candidates,
        correct=usable & np.take_along_axis(right, np.maximum(candidate, 0), axis=1),
        labelled=np.ones(len(names), bool),
        status=np.where(usable, Status.USABLE, Status.ABSENT).astype(np.int8),
        conflicting=np.zeros(len(names), np.int32),
        weight=data["question_weight"].to_numpy() if "question_weight" in data else np.ones(len(names)),
        table=table_of_questions([Question(problem_id=name, observations=()) for name in names]),
        row=np.arange(len(names)),
        cluster=tuple(str(name) or None for name in data["cluster"].to_numpy()) if "cluster" in data else None,
        agreement=Agreement(*(data[name].to_numpy() for name in _AGREEMENT)) if _AGREEMENT[0] in data else None,
        numbers={str(column["number"].item()): column.to_numpy() for column in data["numbers"].T}
        if "numbers" in data
        else {},
    )


def columns_of(tree: xr.DataTree) -> Columns | None:
    """Return how the observations of a container were read: columns, groups and scale."""
    about = {name: tree.attrs.get(name) or None for name in ("groups", "scale")}
    pairs = json.loads(tree.attrs.get("columns", "null"))
    columns = Columns.named(pairs or (), **about, needs_labels=False)
    return None if pairs is None else columns


def level_names(tree: xr.DataTree) -> tuple[str, ...]:
    """Return the levels of a container, in order."""
    data = tree["constant_data"].to_dataset()
    return tuple(dict.fromkeys(str(name) for name in data["group" if "group" in data else "level"].to_numpy()))


def signal_names(tree: xr.DataTree) -> tuple[str, ...]:
    """Return the names of a report's signals in a container; ``number`` where reports have a confidence alone."""
    return tuple(json.loads(tree.attrs.get("signals", '["number"]')))


def label_names(tree: xr.DataTree) -> tuple[str, ...]:
    """Return the labels that the answers of a container come from, in string order; none if they are no labels."""
    return tuple(json.loads(tree.attrs.get("labels", "[]")))


#: Larger than any parameter of a fit.
_LARGEST = 1e12


def require_sound(tree: xr.DataTree, final: Recalibration, settings: FitSettings) -> None:
    """Raise ValueError unless the numbers of a container can be predicted with."""
    for names in (level_names(tree), label_names(tree), signal_names(tree)):
        if len({*names}) < len(names) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"saw the names {', '.join(map(str, names))}, some twice or no texts")
    drawn = {group: by_group(tree, group) for group in ("posterior", "unconstrained_posterior")}
    shape = next(iter(drawn["unconstrained_posterior"].values())).shape[:2]
    values = [pair for each in drawn.values() for pair in each.items()]
    wrong = [name for name, each in values if each.shape[:2] != shape or not (np.abs(each) <= _LARGEST).all()]
    if wrong or not level_names(tree) or not signal_names(tree):
        raise ValueError(f"saw values of {', '.join(wrong) or 'no level'} that are no draws of numbers")
    require_sound_calibration(final, shape)
    if settings.seed < 0:
        raise ValueError(f"saw seed {settings.seed}; expected a number from 0 on")
    if settings.method == "map" and not {*_OF_OPTIMUM} <= {*tree["sample_stats"]}:
        raise ValueError(f"saw the statistics {', '.join(map(str, tree['sample_stats']))} of a MAP")
    if settings.is_by_panel:
        _require_sound_replay(tree, drawn["unconstrained_posterior"])
    data, _ = tree["constant_data"], tree.attrs["versions"]
    if not all((np.abs(data[name]) <= _LARGEST).all() for name in _AGREEMENT if name in data):
        raise ValueError("saw an agreement of levels that is no number")
    candidate, n_candidates = data["candidate"].to_numpy(), data["n_candidates"].to_numpy()
    exists = (candidate >= -1) & (candidate < n_candidates[:, None])
    if not exists.all() or (n_candidates > candidate.shape[1]).any():
        raise ValueError("saw reports of candidates that there are not")


def require_sound_calibration(final: Recalibration, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless a final calibration can be predicted with, of draws of this shape."""
    values = final.coefficients.values()
    are_sound = all(each.shape == shape and (np.abs(each) <= _LARGEST).all() for each in values)
    if final.method not in Recalibration.METHODS or final.coefficients.keys() != IDENTITY.keys() or not are_sound:
        raise ValueError(f"saw a final calibration by {final.method} with {final.coefficients}")
    if not 0 < final.eps < 0.5:
        raise ValueError(f"saw eps {final.eps}; expected a number between 0 and 0.5")


def _require_sound_replay(tree: xr.DataTree, unconstrained: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError unless the labelled questions can be replayed by what a container holds for that."""
    draws, weights = (tree[name].to_dataset() for name in ("replay_draws", "replay_weights"))
    n, shape = weights.sizes["sample"], (tree["constant_data"].sizes["problem"], weights.sizes["sample"])
    shapes = {name: (n, *values.shape[2:]) for name, values in unconstrained.items()}
    are_finite = all(bool((np.abs(draws[name]) <= _LARGEST).all()) for name in draws)
    if {str(name): draws[name].shape for name in draws} != shapes or not are_finite:
        raise ValueError("saw draws of replays that are no draws of the parameters")
    unseen, seen = weights["unseen"].to_numpy(), weights["seen"].to_numpy()
    sums = (each.sum(axis=-1) for each in (unseen, seen))
    if (unseen.shape, seen.shape) != (shape, (n,)) or not all(np.allclose(each, 1.0) for each in sums):
        raise ValueError("saw weights of replays that do not sum to 1")


def container(
    drawn: Groups,
    observations: Observations,
    data: LikelihoodData,
    *,
    labels: Sequence[str],
    settings: FitSettings,
) -> xr.DataTree:
    """Put arrays of draws, by group and name, and what is known of their questions into a container."""
    preset = settings.preset
    right, weight = observations.correct_candidate, np.asarray(data.weight)[: len(observations)]
    columns = _columns(observations, weight, labels)
    if preset.uses_agreement and observations.agreement is not None:
        columns |= dict(zip(_AGREEMENT, observations.agreement, strict=True))
    about = {
        "labels": {"correct": right},
        "observed_data": {"target": np.where(right.any(axis=1), right.argmax(axis=1), -1)},
        "constant_data": columns,
    }
    sites = parameter_sites(model_of(preset), data)
    natural = _with_share(drawn["posterior"], sites)
    tree = _datasets(drawn | {"posterior": natural} | about, observations, labels, sites)
    names = observations.table.names
    if names is not None and not preset.is_own:
        names = replace(names, numbers=())  # which no preset reads
    tree.attrs = {
        "format": FORMAT,
        "columns": json.dumps(names and names.pairs),
        "scale": (names and names.scale) or "",
        "groups": (names and names.groups) or "",
        "answers": observations.kind,
        "same": "" if observations.same is None else observations.same.name,
        "signals": json.dumps(observations.signal_names),
        "labels": json.dumps(labels),
        "dataset": ", ".join(observations.datasets) or _NOT_STATED,
        "model": ", ".join(observations.models) or _NOT_STATED,
        "observations_sha256": observations.fingerprint,
        "versions": _versions(),
        **settings.attributes,
    }
    return tree


def _with_share(natural: dict[str, np.ndarray], sites: Mapping[str, Site]) -> dict[str, np.ndarray]:
    """Return parameters with the share of each level in the weight of all, if levels have a weight."""
    if "weight" not in sites or sites["weight"].dims != ("level",):
        return natural
    weight = natural["weight"]
    return {"share": weight / weight.sum(axis=-1, keepdims=True)} | natural


def _columns(
    observations: Observations, weight: Float[np.ndarray, " problem"], labels: Sequence[str]
) -> dict[str, Shaped[np.ndarray, "..."]]:
    columns = {
        "confidence": observations.confidence,
        **{SIGNALS.column(name): observations.signals[name] for name in observations.signal_names[1:]},
        "candidate": observations.candidate,
        "n_candidates": observations.n_candidates,
        "weight_in_likelihood": weight,
    }
    if observations.cluster is not None:
        columns["cluster"] = np.array([name or "" for name in observations.cluster], dtype=object)
    if (observations.weight != 1).any():
        columns["question_weight"] = observations.weight
    if observations.numbers:
        columns["numbers"] = np.column_stack([*observations.numbers.values()])
    if labels:
        columns["label_code"] = observations.label(labels)
    if observations.groups is not None:
        columns["group"] = np.array(observations.groups, dtype=object)
    return columns


def _datasets(
    groups: dict[str, dict[str, np.ndarray]],
    observations: Observations,
    labels: Sequence[str],
    sites: Mapping[str, Site],
) -> xr.DataTree:
    names = {
        "level": np.array(observations.learned_levels, dtype=object),
        "signal": np.array(observations.signal_names, dtype=object),
        "report": np.array(observations.level_names, dtype=object),
        "answer": np.array(labels, dtype=object),
        "number": np.array([*observations.numbers], dtype=object),
        "candidate": np.arange(observations.n_levels),
        "problem": np.array(observations.problem_id, dtype=object),
    }
    column = "level" if observations.groups is None else "report"
    of_reports = ("confidence", *map(SIGNALS.column, observations.signal_names[1:]), "candidate", "label_code")
    of_questions = _DIMS | dict.fromkeys(of_reports, ("problem", column))
    of_draws = {"share": ("level",)} | {name: site.dims for name, site in sites.items()} | {"target": ("problem",)}
    datasets = {}
    for group, arrays in groups.items():
        leading, dims = ((), of_questions) if group in _DATA else (("chain", "draw"), of_draws)
        variables = {name: ((*leading, *dims.get(name, ())), array) for name, array in arrays.items()}
        sizes = {dim: size for dims, array in variables.values() for dim, size in zip(dims, array.shape, strict=True)}
        datasets[group] = xr.Dataset(variables, {dim: names.get(dim, np.arange(size)) for dim, size in sizes.items()})
    return xr.DataTree.from_dict(datasets)


@cache
def _versions() -> str:
    return json.dumps({name: version(name) for name in _RECORDED_PACKAGES})


#: Number of draws in the prior groups, and the type in which states are kept.
_PRIOR_DRAWS = 1000
_STATE = np.int16

#: Groups without chain and draw.
_DATA = ("labels", "observed_data", "constant_data")

_NOT_STATED = "not stated"
_RECORDED_PACKAGES = ("bayes-direag", "numpyro", "jax", "numpy", "arviz-base")
